begin;
select w_tax from warehouse where w_id = :w;
select c_discount, c_last, c_credit from customer where c_w_id = :w and c_d_id = :d and c_id = :c;
update district set d_next_o_id = d_next_o_id + 1 where d_w_id = :w and d_id = :d returning d_next_o_id - 1 as o_id \gset
insert into orders (o_id, o_d_id, o_w_id, o_c_id, o_entry_d, o_ol_cnt) values (:o_id, :d, :w, :c, now(), :n_lines);
insert into new_order (no_o_id, no_d_id, no_w_id) values (:o_id, :d, :w);
update stock
set s_quantity = s_quantity - line.quantity + case when s_quantity < line.quantity + 10 then 91 else 0 end,
    s_ytd = s_ytd + line.quantity, s_order_cnt = s_order_cnt + 1
from unnest(:items::integer[], :quantities::integer[]) as line (i_id, quantity)
where s_w_id = :w and s_i_id = line.i_id;
insert into order_line (ol_o_id, ol_d_id, ol_w_id, ol_number, ol_i_id, ol_quantity, ol_amount)
select :o_id::integer, :d::integer, :w::integer, line.number, line.i_id, line.quantity, line.quantity * item.i_price
from unnest(:items::integer[], :quantities::integer[]) with ordinality as line (i_id, quantity, number)
join item on item.i_id = line.i_id;
commit;
