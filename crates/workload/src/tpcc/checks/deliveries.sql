select coalesce(c_w_id, o_w_id) as w_id, coalesce(c_d_id, o_d_id) as d_id, coalesce(c_id, o_c_id) as c_id,
    c_delivery_cnt, n_orders
from @.customer
full join (select o_w_id, o_d_id, o_c_id, count(*) as n_orders from @.orders
    where o_id > 2100 and o_carrier_id is not null group by 1, 2, 3) o
  on o_w_id = c_w_id and o_d_id = c_d_id and o_c_id = c_id
where c_delivery_cnt is distinct from coalesce(n_orders, 0)
limit 100
