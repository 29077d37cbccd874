\set customer random_zipfian(1, 20000, 1.1)
\set one random_zipfian(1, 2500, 1.2)
\set two 2500 + random_zipfian(1, 2500, 1.2)
BEGIN;
SELECT product, amount FROM cart WHERE customer = :customer FOR UPDATE;
INSERT INTO purchase (customer, state, total) VALUES (:customer, 'open', 0) RETURNING id \gset bought_
INSERT INTO purchase_line (purchase, line, product, amount, price) SELECT :bought_id, 1, id, 1, price FROM product WHERE id = :one;
UPDATE stock SET amount = amount - 1 WHERE product = :one;
INSERT INTO purchase_line (purchase, line, product, amount, price) SELECT :bought_id, 2, id, 1, price FROM product WHERE id = :two;
UPDATE stock SET amount = amount - 1 WHERE product = :two;
UPDATE purchase SET total = (SELECT sum(amount * price) FROM purchase_line WHERE purchase = :bought_id) WHERE id = :bought_id;
DELETE FROM cart WHERE customer = :customer;
COMMIT;
