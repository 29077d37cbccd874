select ol_w_id as w_id, ol_d_id as d_id, ol_o_id as o_id, ol_number, ol_amount, ol_quantity, i_price
from @.order_line left join @.item on i_id = ol_i_id
where ol_o_id > 3000 and ol_amount is distinct from ol_quantity * i_price
limit 100
