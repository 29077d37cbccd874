select count(distinct s_i_id) as low_stock
from district
join order_line on ol_w_id = d_w_id and ol_d_id = d_id and ol_o_id >= d_next_o_id - 20 and ol_o_id < d_next_o_id
join stock on s_w_id = d_w_id and s_i_id = ol_i_id
where d_w_id = :w and d_id = :d and s_quantity < :threshold;
