-- By name, the placeholder given to the function finds nobody; the order of the customer number that was drawn is not shown then.
  if p_by_name = 1 then
    select count(c_id) into v_n from @.customer where c_last = v_last and c_d_id = p_d_id and c_w_id = p_w_id;
    open v_named;
    for n in 0 .. (v_n + 1) / 2 loop
      fetch v_named into v_balance, v_first, v_middle, v_c_id;
    end loop;
    close v_named;
  else
    select c_balance, c_first, c_middle, c_last into v_balance, v_first, v_middle, v_last
      from @.customer where c_id = v_c_id and c_d_id = p_d_id and c_w_id = p_w_id;
  end if;
  select o_id, o_carrier_id, o_entry_d into v_o_id, v_carrier_id, v_entered
    from @.orders where o_d_id = p_d_id and o_w_id = p_w_id and o_c_id = v_c_id order by o_id desc limit 1;
