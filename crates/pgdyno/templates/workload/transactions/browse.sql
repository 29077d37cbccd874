-- A customer looks at a product, and at the last purchases.
select name, price, in_stock from product where id = :product;
select id, bought_at, total from purchase where customer = :customer order by bought_at desc limit 10;
