-- A customer buys one product.
begin;
insert into purchase (id, customer, bought_at, total)
values (:purchase, :customer, now(), :quantity * (select price from product where id = :product));
insert into purchase_line (purchase_id, line, product_id, quantity) values (:purchase, 1, :product, :quantity);
update product set in_stock = in_stock - :quantity where id = :product;
commit;
