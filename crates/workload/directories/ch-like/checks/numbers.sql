select d_w_id, d_id, d_next_o_id, max(o_id) as last_order
from district left join orders on o_w_id = d_w_id and o_d_id = d_id
group by d_w_id, d_id, d_next_o_id
having d_next_o_id - 1 is distinct from max(o_id)
limit 100;
