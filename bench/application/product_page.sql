\set product random_zipfian(1, 5000, 1.2)
SELECT p.name, p.price, p.about, s.amount FROM product p JOIN stock s ON s.product = p.id WHERE p.id = :product;
