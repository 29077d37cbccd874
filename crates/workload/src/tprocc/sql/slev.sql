  select count(distinct s_i_id) into v_low from @.order_line, @.stock, @.district
    where ol_w_id = p_w_id and ol_d_id = p_d_id and d_w_id = p_w_id and d_id = p_d_id
      and ol_o_id < d_next_o_id and ol_o_id >= d_next_o_id - 20
      and s_w_id = p_w_id and s_i_id = ol_i_id and s_quantity < p_threshold;
