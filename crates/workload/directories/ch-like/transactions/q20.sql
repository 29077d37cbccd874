select su_name, su_phone
from supplier, nation
where su_suppkey in (
    select s_suppkey
    from stock join order_line on ol_i_id = s_i_id and ol_w_id = s_w_id
    where s_i_id in (select i_id from item where i_data like '%' || :letter::text || '%') and ol_delivery_d > :day::date
    group by s_suppkey, s_i_id, s_w_id, s_quantity
    having 2 * s_quantity > sum(ol_quantity))
  and su_nationkey = n_nationkey and n_name = :nation
order by su_name;
