-- By name, the caller's placeholder finds nobody; the order of the customer number that was drawn is not shown then.
declare
  v_c_id int := p_c_id; v_last varchar := p_c_last; v_none_id int; v_none_last varchar; v_first varchar;
  v_middle varchar; v_balance numeric; v_o_id int; v_entered timestamp; v_carrier_id int; v_n int; v_line record;
  v_named cursor for select c_balance, c_first, c_middle, c_id from customer
    where c_last = v_last and c_d_id = p_d_id and c_w_id = p_w_id order by c_first;
begin
  if p_by_name = 1 then
    select count(c_id) into v_n from customer where c_last = v_last and c_d_id = p_d_id and c_w_id = p_w_id;
    open v_named;
    for n in 0 .. (v_n + 1) / 2 loop
      fetch v_named into v_balance, v_first, v_middle, v_c_id;
    end loop;
    close v_named;
  else
    select c_balance, c_first, c_middle, c_last into v_balance, v_first, v_middle, v_last
      from customer where c_id = v_c_id and c_d_id = p_d_id and c_w_id = p_w_id;
  end if;
  select o_id, o_carrier_id, o_entry_d into v_o_id, v_carrier_id, v_entered
    from orders where o_d_id = p_d_id and o_w_id = p_w_id and o_c_id = v_c_id order by o_id desc limit 1;
  for v_line in
    select ol_i_id, ol_supply_w_id, ol_quantity, ol_amount, ol_delivery_d, v_none_id, v_none_last, v_first, v_middle,
      v_balance, v_o_id, v_entered, v_carrier_id
    from order_line where ol_o_id = v_o_id and ol_d_id = p_d_id and ol_w_id = p_w_id
  loop
    return next v_line;
  end loop;
