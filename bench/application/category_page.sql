\set category random(1, 60)
SELECT id, name, price FROM product WHERE category = :category ORDER BY price LIMIT 20;
