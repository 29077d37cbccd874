select coalesce(o_w_id, ol_w_id) as w_id, coalesce(o_d_id, ol_d_id) as d_id, coalesce(o_id, ol_o_id) as o_id,
    o_ol_cnt, n_lines
from @.orders
full join (select ol_w_id, ol_d_id, ol_o_id, count(*) as n_lines from @.order_line group by 1, 2, 3) l
  on ol_w_id = o_w_id and ol_d_id = o_d_id and ol_o_id = o_id
where o_ol_cnt is distinct from n_lines
limit 100
