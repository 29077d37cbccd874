select 'orders' as table_name, o_w_id as w_id, o_d_id as d_id, o_id as id
from @.orders
left join @.customer on c_w_id = o_w_id and c_d_id = o_d_id and c_id = o_c_id
where c_id is null
union all select 'history', h_c_w_id, h_c_d_id, h_c_id from @.history
left join @.customer on c_w_id = h_c_w_id and c_d_id = h_c_d_id and c_id = h_c_id
where c_id is null
union all select 'order_line', ol_w_id, ol_d_id, ol_o_id from @.order_line
left join @.stock on s_w_id = ol_supply_w_id and s_i_id = ol_i_id
where s_i_id is null
limit 100
