\set o_id 0
begin;
select c_last, c_balance from customer where c_w_id = :w and c_d_id = :d and c_id = :c;
select o_id from orders where o_w_id = :w and o_d_id = :d and o_c_id = :c order by o_id desc limit 1 \aset
select ol_i_id, ol_quantity, ol_amount, ol_delivery_d from order_line where ol_w_id = :w and ol_d_id = :d and ol_o_id = :o_id;
commit;
