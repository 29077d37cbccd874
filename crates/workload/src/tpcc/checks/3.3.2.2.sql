select coalesce(d_w_id, o_w_id, no_w_id) as w_id, coalesce(d_id, o_d_id, no_d_id) as d_id, d_next_o_id,
    max_o_id, max_no_o_id
from @.district
full join (select o_w_id, o_d_id, max(o_id) as max_o_id from @.orders group by 1, 2) o
  on o_w_id = d_w_id and o_d_id = d_id
full join (select no_w_id, no_d_id, max(no_o_id) as max_no_o_id from @.new_order group by 1, 2) n
  on no_w_id = d_w_id and no_d_id = d_id
where d_next_o_id - 1 is distinct from max_o_id or max_no_o_id <> d_next_o_id - 1
  or (d_next_o_id is null and max_no_o_id is not null)
limit 100
