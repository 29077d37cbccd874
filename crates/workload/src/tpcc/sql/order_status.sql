  -- Clause 2.6.2.2.
  r_c_id := p_c_id;
  if r_c_id is null then
    select array_agg(c_id order by c_first, c_id) into v_ids
      from @.customer where c_w_id = p_w_id and c_d_id = p_d_id and c_last = p_c_last;
    r_c_id := v_ids[(cardinality(v_ids) + 1) / 2];
  end if;
  select c_balance, c_first, c_middle, c_last into strict r_balance, r_first, r_middle, r_last
    from @.customer where c_w_id = p_w_id and c_d_id = p_d_id and c_id = r_c_id;
  select o_id, o_entry_d, o_carrier_id into strict r_o_id, r_entry_d, r_carrier_id
    from @.orders where o_w_id = p_w_id and o_d_id = p_d_id and o_c_id = r_c_id order by o_id desc limit 1;
  select array_agg(ol_i_id), array_agg(ol_supply_w_id), array_agg(ol_quantity), array_agg(ol_amount),
      array_agg(ol_delivery_d)
    into r_items, r_supplies, r_quantities, r_amounts, r_delivery_ds
    from @.order_line where ol_w_id = p_w_id and ol_d_id = p_d_id and ol_o_id = r_o_id;
