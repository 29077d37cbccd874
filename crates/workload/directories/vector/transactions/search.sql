select id from item order by embedding <=> :embedding::vector limit 10;
