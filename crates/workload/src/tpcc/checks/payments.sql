select coalesce(c_w_id, h_c_w_id) as w_id, coalesce(c_d_id, h_c_d_id) as d_id,
    coalesce(c_id, h_c_id) as c_id, c_payment_cnt, n_rows
from @.customer
full join (select h_c_w_id, h_c_d_id, h_c_id, count(*) as n_rows from @.history group by 1, 2, 3) h
  on h_c_w_id = c_w_id and h_c_d_id = c_d_id and h_c_id = c_id
where c_payment_cnt is distinct from coalesce(n_rows, 0)
limit 100
