  -- Clause 2.8.2.2.
  select d_next_o_id into strict v_next from @.district where d_w_id = p_w_id and d_id = p_d_id;
  select count(distinct s_i_id) into r_low
    from @.order_line join @.stock on s_w_id = ol_w_id and s_i_id = ol_i_id
    where ol_w_id = p_w_id and ol_d_id = p_d_id and ol_o_id < v_next and ol_o_id >= v_next - 20
      and s_quantity < p_threshold;
