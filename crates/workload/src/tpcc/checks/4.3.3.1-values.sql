select 'warehouse' as table_name, w_id, w_id as id
from @.warehouse
where w_ytd <> 300000
union all select 'district', d_w_id, d_id from @.district
where d_ytd <> 30000
union all select 'customer', c_w_id, c_id from @.customer
where (c_balance, c_ytd_payment, c_payment_cnt, c_delivery_cnt) <> (-10, 10, 1, 0)
union all select 'stock', s_w_id, s_i_id from @.stock
where (s_ytd, s_order_cnt, s_remote_cnt) <> (0, 0, 0)
union all select 'order_line', ol_w_id, ol_o_id from @.order_line
where (ol_o_id < 2101) <> (ol_amount = 0) or ol_quantity <> 5
limit 100
