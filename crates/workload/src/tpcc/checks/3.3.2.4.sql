select coalesce(o_w_id, ol_w_id) as w_id, coalesce(o_d_id, ol_d_id) as d_id, sum_ol_cnt, n_lines
from (select o_w_id, o_d_id, sum(o_ol_cnt) as sum_ol_cnt from @.orders group by 1, 2) o
full join (select ol_w_id, ol_d_id, count(*) as n_lines from @.order_line group by 1, 2) l
  on ol_w_id = o_w_id and ol_d_id = o_d_id
where sum_ol_cnt is distinct from n_lines
limit 100
