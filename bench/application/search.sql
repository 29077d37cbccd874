\set first random(1, 999)
SELECT id, name, price FROM product WHERE name LIKE 'Article ' || :first || '%' LIMIT 10;
