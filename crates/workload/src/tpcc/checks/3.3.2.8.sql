select coalesce(w_id, h_w_id) as w_id, w_ytd, sum_h_amount
from @.warehouse
full join (select h_w_id, sum(h_amount) as sum_h_amount from @.history group by 1) h on h_w_id = w_id
where w_ytd is distinct from sum_h_amount
limit 100
