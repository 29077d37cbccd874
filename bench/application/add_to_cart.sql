\set customer random_zipfian(1, 20000, 1.1)
\set product random_zipfian(1, 5000, 1.2)
\set amount random(1, 3)
INSERT INTO cart (customer, product, amount) VALUES (:customer, :product, :amount) ON CONFLICT (customer, product) DO UPDATE SET amount = excluded.amount;
