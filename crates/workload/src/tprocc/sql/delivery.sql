-- All districts at once. An order that another delivery takes meanwhile is left out, and C_DELIVERY_CNT stays.
  with gone as (
    delete from @.new_order as due using generate_series(1, 10) as district (d_id)
    where no_d_id = d_id and no_w_id = p_w_id
      and due.no_o_id = (select min(no_o_id) from @.new_order where no_d_id = d_id and no_w_id = p_w_id)
    returning due.no_o_id, due.no_d_id
  )
  select array_agg(no_o_id), array_agg(no_d_id) into v_orders, v_districts from gone;
  update @.orders set o_carrier_id = p_carrier_id
    from unnest(v_orders, v_districts) as delivered (id, d_id)
    where o_id = id and o_d_id = d_id and o_w_id = p_w_id;
  with lines as (
    update @.order_line set ol_delivery_d = current_timestamp
      from unnest(v_orders, v_districts) as delivered (id, d_id)
      where ol_o_id = id and ol_d_id = d_id and ol_w_id = p_w_id
    returning ol_d_id, ol_o_id, ol_amount
  ), sums as (
    select ol_d_id, ol_o_id, sum(ol_amount) as amount from lines group by 1, 2
  )
  select array_agg(ol_d_id), array_agg(o_c_id), array_agg(amount) into v_districts, v_customers, v_amounts
    from sums join @.orders on o_id = ol_o_id and o_d_id = ol_d_id and o_w_id = p_w_id;
  update @.customer set c_balance = coalesce(c_balance, 0) + amount
    from unnest(v_districts, v_customers, v_amounts) as owed (d_id, id, amount)
    where c_id = id and c_d_id = d_id and c_w_id = p_w_id;
