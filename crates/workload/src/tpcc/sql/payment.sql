  -- Clause 2.5.2.2.
  update @.warehouse set w_ytd = w_ytd + p_amount where w_id = p_w_id
    returning array[w_name, w_street_1, w_street_2, w_city, w_state, w_zip] into strict r_warehouse;
  update @.district set d_ytd = d_ytd + p_amount where d_w_id = p_w_id and d_id = p_d_id
    returning array[d_name, d_street_1, d_street_2, d_city, d_state, d_zip] into strict r_district;
  r_c_id := p_c_id;
  if r_c_id is null then
    select array_agg(c_id order by c_first, c_id) into v_ids
      from @.customer where c_w_id = p_c_w_id and c_d_id = p_c_d_id and c_last = p_c_last;
    r_c_id := v_ids[(cardinality(v_ids) + 1) / 2];
  end if;
  update @.customer set c_balance = c_balance - p_amount, c_ytd_payment = c_ytd_payment + p_amount,
    c_payment_cnt = c_payment_cnt + 1,
    c_data = case when c_credit = 'BC'
      then left(concat_ws(' ', c_id, c_d_id, c_w_id, p_d_id, p_w_id, p_amount::numeric(6,2)) || ' ' || c_data, 500)
      else c_data end
  where c_w_id = p_c_w_id and c_d_id = p_c_d_id and c_id = r_c_id
  returning array[c_first, c_middle, c_last, c_street_1, c_street_2, c_city, c_state, c_zip, c_phone, c_credit],
    c_since, c_credit_lim, c_discount, c_balance, case when c_credit = 'BC' then left(c_data, 200) end
  into strict r_customer, r_since, r_credit_lim, r_discount, r_balance, r_data;
  insert into @.history (h_c_id, h_c_d_id, h_c_w_id, h_d_id, h_w_id, h_date, h_amount, h_data)
    values (r_c_id, p_c_d_id, p_c_w_id, p_d_id, p_w_id, current_timestamp, p_amount,
      r_warehouse[1] || '    ' || r_district[1]);
