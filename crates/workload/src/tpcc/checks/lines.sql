select ol_w_id as w_id, ol_d_id as d_id, ol_o_id as o_id, count(*) as n_lines, min(ol_number) as lowest,
    max(ol_number) as highest
from @.order_line
group by 1, 2, 3
having count(*) not between 5 and 15 or min(ol_number) <> 1 or max(ol_number) <> count(*)
limit 100
