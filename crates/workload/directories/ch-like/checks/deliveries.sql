select o_w_id, o_d_id, o_id, o_carrier_id, no_o_id
from orders left join new_order on no_w_id = o_w_id and no_d_id = o_d_id and no_o_id = o_id
where (o_carrier_id is null) <> (no_o_id is not null)
   or exists (
      select 1 from order_line
      where ol_w_id = o_w_id and ol_d_id = o_d_id and ol_o_id = o_id and (ol_delivery_d is null) <> (o_carrier_id is null))
limit 100;
