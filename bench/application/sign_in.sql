\set customer random_zipfian(1, 20000, 1.1)
BEGIN;
SELECT id, name FROM customer WHERE email = 'user' || :customer || '@example.org';
UPDATE customer SET seen = now() WHERE id = :customer;
COMMIT;
