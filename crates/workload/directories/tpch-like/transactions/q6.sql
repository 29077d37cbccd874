select sum(l_extendedprice * l_discount) as revenue
from lineitem
where l_shipdate >= :day::date and l_shipdate < :day::date + interval '1 year'
  and l_discount between :discount::numeric - 0.01 and :discount::numeric + 0.01
  and l_quantity < :quantity::integer;
