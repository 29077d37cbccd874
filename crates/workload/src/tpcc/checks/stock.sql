select coalesce(s_w_id, ol_supply_w_id) as w_id, coalesce(s_i_id, ol_i_id) as i_id, s_ytd, sum_quantity,
    s_order_cnt, n_lines, s_remote_cnt, n_remote
from @.stock
full join (select ol_supply_w_id, ol_i_id, sum(ol_quantity) as sum_quantity, count(*) as n_lines,
    sum((ol_supply_w_id <> ol_w_id)::int) as n_remote
    from @.order_line where ol_o_id > 3000 group by 1, 2) l
  on ol_supply_w_id = s_w_id and ol_i_id = s_i_id
where (s_ytd, s_order_cnt::bigint, s_remote_cnt::bigint) is distinct from
  (coalesce(sum_quantity, 0), coalesce(n_lines, 0), coalesce(n_remote, 0))
limit 100
