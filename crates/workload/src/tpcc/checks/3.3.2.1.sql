select coalesce(w_id, d_w_id) as w_id, w_ytd, sum_d_ytd
from @.warehouse
full join (select d_w_id, sum(d_ytd) as sum_d_ytd from @.district group by 1) d on d_w_id = w_id
where w_ytd is distinct from sum_d_ytd
limit 100
