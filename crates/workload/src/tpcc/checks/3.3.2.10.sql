select coalesce(c_w_id, o_w_id, h_c_w_id) as w_id, coalesce(c_d_id, o_d_id, h_c_d_id) as d_id,
    coalesce(c_id, o_c_id, h_c_id) as c_id, c_balance, delivered, paid
from @.customer
full join (select o_w_id, o_d_id, o_c_id, sum(ol_amount) as delivered from @.orders
    join @.order_line on ol_w_id = o_w_id and ol_d_id = o_d_id and ol_o_id = o_id
    where ol_delivery_d is not null group by 1, 2, 3) o
  on o_w_id = c_w_id and o_d_id = c_d_id and o_c_id = c_id
full join (select h_c_w_id, h_c_d_id, h_c_id, sum(h_amount) as paid from @.history group by 1, 2, 3) h
  on h_c_w_id = c_w_id and h_c_d_id = c_d_id and h_c_id = c_id
where c_balance is distinct from coalesce(delivered, 0) - coalesce(paid, 0)
limit 100
