select ol_w_id as w_id, ol_d_id as d_id, ol_o_id as o_id, ol_number, ol_delivery_d, o_carrier_id
from @.order_line left join @.orders on o_w_id = ol_w_id and o_d_id = ol_d_id and o_id = ol_o_id
where o_id is null or (ol_delivery_d is null) <> (o_carrier_id is null)
limit 100
