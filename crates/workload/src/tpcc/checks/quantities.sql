select 'stock' as table_name, s_w_id as w_id, s_i_id as id, s_quantity as quantity
from @.stock
where s_quantity not between 10 and 100
union all select 'order_line', ol_w_id, ol_o_id, ol_quantity from @.order_line
where ol_quantity not between 1 and 10
limit 100
