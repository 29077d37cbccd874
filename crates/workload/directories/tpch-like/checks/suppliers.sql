select l_orderkey, l_linenumber, l_partkey, l_suppkey
from lineitem
where not exists (select 1 from partsupp where ps_partkey = l_partkey and ps_suppkey = l_suppkey)
limit 100;
