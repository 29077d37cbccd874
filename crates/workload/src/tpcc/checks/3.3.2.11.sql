select coalesce(o_w_id, no_w_id) as w_id, coalesce(o_d_id, no_d_id) as d_id, n_orders, n_new, n_delivered
from (select o_w_id, o_d_id, count(*) as n_orders, count(o_carrier_id) as n_delivered from @.orders
    group by 1, 2) o
full join (select no_w_id, no_d_id, count(*) as n_new from @.new_order group by 1, 2) n
  on no_w_id = o_w_id and no_d_id = o_d_id
where coalesce(n_orders, 0) - coalesce(n_new, 0) <> coalesce(n_delivered, 0)
limit 100
