select no_w_id as w_id, no_d_id as d_id, min(no_o_id) as lowest, max(no_o_id) as highest, count(*) as n_rows
from @.new_order
group by 1, 2
having max(no_o_id) - min(no_o_id) + 1 <> count(*)
limit 100
