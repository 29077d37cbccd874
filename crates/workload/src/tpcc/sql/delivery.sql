  -- Clause 2.7.4.2. If another terminal takes the oldest order between SELECT and DELETE, the next oldest is looked
  -- for; a district without one is skipped.
  r_delivered := 0;
  for v_d_id in 1 .. 10 loop
    loop
      select no_o_id into v_o_id from @.new_order
        where no_w_id = p_w_id and no_d_id = v_d_id order by no_o_id limit 1;
      exit when not found;
      delete from @.new_order where no_w_id = p_w_id and no_d_id = v_d_id and no_o_id = v_o_id;
      exit when found;
    end loop;
    continue when v_o_id is null;
    update @.orders set o_carrier_id = p_carrier_id
      where o_w_id = p_w_id and o_d_id = v_d_id and o_id = v_o_id returning o_c_id into strict v_c_id;
    with line as (
      update @.order_line set ol_delivery_d = current_timestamp
      where ol_w_id = p_w_id and ol_d_id = v_d_id and ol_o_id = v_o_id returning ol_amount
    )
    select sum(ol_amount) into v_amount from line;
    update @.customer set c_balance = c_balance + v_amount, c_delivery_cnt = c_delivery_cnt + 1
      where c_w_id = p_w_id and c_d_id = v_d_id and c_id = v_c_id;
    r_delivered := r_delivered + 1;
  end loop;
