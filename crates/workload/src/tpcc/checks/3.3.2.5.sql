select coalesce(o_w_id, no_w_id) as w_id, coalesce(o_d_id, no_d_id) as d_id, o_id, o_carrier_id, no_o_id
from @.orders full join @.new_order on no_w_id = o_w_id and no_d_id = o_d_id and no_o_id = o_id
where o_id is null or (o_carrier_id is null) is distinct from (no_o_id is not null)
limit 100
