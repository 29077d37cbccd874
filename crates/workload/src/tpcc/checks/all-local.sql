select o_w_id as w_id, o_d_id as d_id, o_id, o_all_local, n_remote
from @.orders
left join (select ol_w_id, ol_d_id, ol_o_id, sum((ol_supply_w_id <> ol_w_id)::int) as n_remote
    from @.order_line group by 1, 2, 3) l
  on ol_w_id = o_w_id and ol_d_id = o_d_id and ol_o_id = o_id
where (o_all_local = 1) is distinct from (coalesce(n_remote, 0) = 0)
limit 100
