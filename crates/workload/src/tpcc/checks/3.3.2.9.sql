select coalesce(d_w_id, h_w_id) as w_id, coalesce(d_id, h_d_id) as d_id, d_ytd, sum_h_amount
from @.district
full join (select h_w_id, h_d_id, sum(h_amount) as sum_h_amount from @.history group by 1, 2) h
  on h_w_id = d_w_id and h_d_id = d_id
where d_ytd is distinct from sum_h_amount
limit 100
