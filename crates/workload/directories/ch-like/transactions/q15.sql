with revenue as (
    select s_suppkey as supplier_no, sum(ol_amount) as total_revenue
    from order_line, stock
    where ol_i_id = s_i_id and ol_w_id = s_w_id and ol_delivery_d >= :day::date
    group by s_suppkey)
select su_suppkey, su_name, su_phone, total_revenue
from supplier, revenue
where su_suppkey = supplier_no and total_revenue = (select max(total_revenue) from revenue)
order by su_suppkey;
