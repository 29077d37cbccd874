  -- Clause 2.4.2.2. All lines at once; then one by one those that this left out: a further line of the same row of
  -- STOCK, which an UPDATE changes only once, and the unused item. The quantity in stock does not depend on the order.
  select w_tax into strict r_w_tax from @.warehouse where w_id = p_w_id;
  update @.district set d_next_o_id = d_next_o_id + 1 where d_w_id = p_w_id and d_id = p_d_id
    returning d_next_o_id - 1, d_tax into strict r_o_id, r_d_tax;
  select c_discount, c_last, c_credit into strict r_discount, r_last, r_credit
    from @.customer where c_w_id = p_w_id and c_d_id = p_d_id and c_id = p_c_id;
  insert into @.orders (o_id, o_d_id, o_w_id, o_c_id, o_entry_d, o_carrier_id, o_ol_cnt, o_all_local)
    values (r_o_id, p_d_id, p_w_id, p_c_id, current_timestamp, null, v_n, p_all_local);
  insert into @.new_order (no_o_id, no_d_id, no_w_id) values (r_o_id, p_d_id, p_w_id);
  with line as (
    select * from unnest(p_numbers, p_items, p_supplies, p_quantities) as l (number, i_id, supply_w_id, quantity)
  ), taken as (
    update @.stock set
      s_quantity = case when s_quantity >= quantity + 10 then s_quantity - quantity
                   else s_quantity - quantity + 91 end,
      s_ytd = s_ytd + quantity, s_order_cnt = s_order_cnt + 1,
      s_remote_cnt = s_remote_cnt + (supply_w_id <> p_w_id)::int
    from line where s_w_id = supply_w_id and s_i_id = i_id
    returning number, i_id, supply_w_id, quantity, s_quantity, s_data,
      case p_d_id when 1 then s_dist_01 when 2 then s_dist_02 when 3 then s_dist_03 when 4 then s_dist_04
        when 5 then s_dist_05 when 6 then s_dist_06 when 7 then s_dist_07 when 8 then s_dist_08
        when 9 then s_dist_09 else s_dist_10 end as dist_info
  ), priced as (
    select taken.*, i_name, i_price, quantity * i_price as amount,
      case when i_data like '%ORIGINAL%' and s_data like '%ORIGINAL%' then 'B' else 'G' end as brand
    from taken join @.item using (i_id)
  ), written as (
    insert into @.order_line (ol_o_id, ol_d_id, ol_w_id, ol_number, ol_i_id, ol_supply_w_id, ol_delivery_d,
      ol_quantity, ol_amount, ol_dist_info)
    select r_o_id, p_d_id, p_w_id, number, i_id, supply_w_id, null, quantity, amount, dist_info from priced
  )
  select array_agg(number), sum(amount), array_agg(i_name), array_agg(s_quantity), array_agg(brand),
      array_agg(i_price), array_agg(amount)
    into v_done, r_total, r_names, r_stocks, r_brands, r_prices, r_amounts from priced;
  if v_done is null or cardinality(v_done) < v_n then
    for k in 1 .. v_n loop
      continue when p_numbers[k] = any (v_done);
      select i_price, i_name, i_data into v_price, v_name, v_data from @.item where i_id = p_items[k];
      if not found then
        @undo@;
      end if;
      update @.stock set
        s_quantity = case when s_quantity >= p_quantities[k] + 10 then s_quantity - p_quantities[k]
                     else s_quantity - p_quantities[k] + 91 end,
        s_ytd = s_ytd + p_quantities[k], s_order_cnt = s_order_cnt + 1,
        s_remote_cnt = s_remote_cnt + (p_supplies[k] <> p_w_id)::int
      where s_w_id = p_supplies[k] and s_i_id = p_items[k]
      returning s_quantity, s_data,
        case p_d_id when 1 then s_dist_01 when 2 then s_dist_02 when 3 then s_dist_03 when 4 then s_dist_04
          when 5 then s_dist_05 when 6 then s_dist_06 when 7 then s_dist_07 when 8 then s_dist_08
          when 9 then s_dist_09 else s_dist_10 end
      into strict v_stock, v_stock_data, v_dist;
      v_amount := p_quantities[k] * v_price;
      insert into @.order_line (ol_o_id, ol_d_id, ol_w_id, ol_number, ol_i_id, ol_supply_w_id, ol_delivery_d,
        ol_quantity, ol_amount, ol_dist_info)
      values (r_o_id, p_d_id, p_w_id, p_numbers[k], p_items[k], p_supplies[k], null, p_quantities[k], v_amount,
        v_dist);
      r_total := r_total + v_amount;
      r_names := r_names || v_name;
      r_stocks := r_stocks || v_stock;
      r_brands := r_brands
        || case when v_data like '%ORIGINAL%' and v_stock_data like '%ORIGINAL%' then 'B' else 'G' end;
      r_prices := r_prices || v_price;
      r_amounts := r_amounts || v_amount;
    end loop;
  end if;
  r_total := r_total * (1 - r_discount) * (1 + r_w_tax + r_d_tax);
