-- By name, the placeholder given to the function finds nobody, and the balance of the customer number that was drawn
-- becomes what the caller gave less the payment. The balance is read without a lock; C_YTD_PAYMENT and C_PAYMENT_CNT stay.
  update @.warehouse set w_ytd = w_ytd + p_amount where w_id = p_w_id
    returning w_name, array[w_street_1, w_street_2, w_city, w_state, w_zip] into v_w_name, v_w_address;
  update @.district set d_ytd = d_ytd + p_amount where d_w_id = p_w_id and d_id = p_d_id
    returning d_name, array[d_street_1, d_street_2, d_city, d_state, d_zip] into v_d_name, v_d_address;
  if p_by_name = 1 then
    select count(c_last) into v_n from @.customer
      where c_last = v_last and c_d_id = p_c_d_id and c_w_id = p_c_w_id;
    open v_named;
    for n in 1 .. v_n / 2 loop
      fetch v_named into v_first, v_middle, v_c_id, v_c_address, v_phone, v_credit, v_limit, v_discount, v_balance,
        v_since;
    end loop;
    close v_named;
  else
    select c_first, c_middle, c_last, array[c_street_1, c_street_2, c_city, c_state, c_zip], c_phone, c_credit,
        c_credit_lim, c_discount, c_balance, c_since
      into v_first, v_middle, v_last, v_c_address, v_phone, v_credit, v_limit, v_discount, v_balance, v_since
      from @.customer where c_w_id = p_c_w_id and c_d_id = p_c_d_id and c_id = v_c_id;
  end if;
  if v_credit = 'BC' then
    update @.customer set c_balance = v_balance - p_amount,
      c_data = left(concat_ws(' ', v_c_id, p_c_d_id, p_c_w_id, p_d_id, p_w_id, to_char(p_amount, '9999.99') || ' | ')
        || c_data, 500)
    where c_w_id = p_c_w_id and c_d_id = p_c_d_id and c_id = v_c_id returning c_balance, c_data
    into v_balance, v_data;
  else
    update @.customer set c_balance = v_balance - p_amount
    where c_w_id = p_c_w_id and c_d_id = p_c_d_id and c_id = v_c_id returning c_balance into v_balance;
  end if;
  insert into @.history (h_c_d_id, h_c_w_id, h_c_id, h_d_id, h_w_id, h_date, h_amount, h_data)
    values (p_c_d_id, p_c_w_id, v_c_id, p_d_id, p_w_id, current_timestamp, p_amount, v_w_name || ' ' || v_d_name);
