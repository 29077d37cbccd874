\set customer random_zipfian(1, 20000, 1.1)
SELECT p.id, p.placed, p.state, count(*), sum(l.amount * l.price) FROM purchase p JOIN purchase_line l ON l.purchase = p.id WHERE p.customer = :customer GROUP BY p.id, p.placed, p.state ORDER BY p.placed DESC LIMIT 10;
