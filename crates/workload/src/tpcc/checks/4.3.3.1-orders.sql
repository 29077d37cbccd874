select o_w_id as w_id, o_d_id as d_id, count(distinct o_c_id) as n_customers, count(o_carrier_id) as n_delivered
from @.orders
group by 1, 2
having count(distinct o_c_id) <> 3000 or count(o_carrier_id) <> 2100
limit 100
