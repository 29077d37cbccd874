select o_orderkey, o_orderstatus, min(l_linestatus), max(l_linestatus)
from orders join lineitem on l_orderkey = o_orderkey
group by o_orderkey, o_orderstatus
having o_orderstatus <> case when min(l_linestatus) = max(l_linestatus) then min(l_linestatus) else 'P' end
limit 100;
