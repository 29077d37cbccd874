select s_i_id, sum(s_order_cnt) as ordercount
from stock, supplier, nation
where s_suppkey = su_suppkey and su_nationkey = n_nationkey and n_name = :nation
group by s_i_id
having sum(s_order_cnt) > (
    select sum(s_order_cnt) * 0.005
    from stock, supplier, nation
    where s_suppkey = su_suppkey and su_nationkey = n_nationkey and n_name = :nation)
order by ordercount desc;
