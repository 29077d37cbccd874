select su_suppkey, su_name, n_name, i_id, i_name, su_phone, su_comment
from item, supplier, stock, nation, region, (
    select s_i_id as m_i_id, min(s_quantity) as m_quantity
    from stock, supplier, nation, region
    where s_suppkey = su_suppkey and su_nationkey = n_nationkey and n_regionkey = r_regionkey and r_name = :region
    group by s_i_id) as least
where i_id = s_i_id and s_suppkey = su_suppkey and su_nationkey = n_nationkey and n_regionkey = r_regionkey and r_name = :region
  and i_data like '%' || :letter::text and i_id = m_i_id and s_quantity = m_quantity
order by n_name, su_name, i_id
limit 100;
