-- The unused item does not undo the order: it gets a line without price. Lines take prices, amounts and district texts
-- in the order in which rows of STOCK happened to be updated, not in their own; amounts have tax and discount in them;
-- S_YTD and the counters of STOCK stay; a remote warehouse may be the home warehouse.
  select c_discount, c_last, c_credit, w_tax into v_discount, v_last, v_credit, v_w_tax
    from @.customer, @.warehouse
    where w_id = p_w_id and c_w_id = p_w_id and c_d_id = p_d_id and c_id = p_c_id;
  for n in 1 .. p_lines loop
    v_items[n] := case when n = p_lines and v_undo = 1 then 100001 else @.dbms_random(1, 100000) end;
    v_supplies[n] := p_w_id;
    if @.dbms_random(1, 100) = 1 then
      v_all_local := 0;
      v_supplies[n] := 1 + mod(p_w_id + @.dbms_random(0, p_w_id_max - 1), p_w_id_max);
    end if;
    v_quantities[n] := @.dbms_random(1, 10);
    v_numbers[n] := n;
  end loop;
  update @.district set d_next_o_id = d_next_o_id + 1 where d_id = p_d_id and d_w_id = p_w_id
    returning d_next_o_id - 1, d_tax into v_o_id, v_d_tax;
  insert into @.orders (o_id, o_d_id, o_w_id, o_c_id, o_entry_d, o_ol_cnt, o_all_local)
    values (v_o_id, p_d_id, p_w_id, p_c_id, current_timestamp, p_lines, v_all_local);
  insert into @.new_order (no_o_id, no_d_id, no_w_id) values (v_o_id, p_d_id, p_w_id);
  select array_agg(i_price) into v_prices from unnest(v_items) as wanted left join @.item on i_id = wanted;
  with taken as (
    update @.stock set s_quantity =
      case when s_quantity < quantity + 10 then s_quantity + 91 - quantity else s_quantity - quantity end
    from unnest(v_items, v_supplies, v_quantities, v_prices) as line (i_id, w_id, quantity, price)
    where s_i_id = line.i_id and s_w_id = line.w_id and s_w_id = any (v_supplies)
    returning s_quantity, quantity * price * (1 + v_w_tax + v_d_tax) * (1 - v_discount) as amount,
      case p_d_id when 1 then s_dist_01 when 2 then s_dist_02 when 3 then s_dist_03 when 4 then s_dist_04
        when 5 then s_dist_05 when 6 then s_dist_06 when 7 then s_dist_07 when 8 then s_dist_08
        when 9 then s_dist_09 else s_dist_10 end as dist
  )
  select array_agg(dist), array_agg(s_quantity), array_agg(amount) into v_dists, v_stocks, v_amounts from taken;
  insert into @.order_line (ol_o_id, ol_d_id, ol_w_id, ol_number, ol_i_id, ol_supply_w_id, ol_quantity, ol_amount,
    ol_dist_info)
  select v_o_id, p_d_id, p_w_id, line.*
    from unnest(v_numbers, v_items, v_supplies, v_quantities, v_amounts, v_dists) as line;
  for n in 1 .. p_lines loop
    v_total := v_total + v_amounts[n];
  end loop;
