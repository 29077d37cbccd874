select sum(ol_amount) as revenue
from order_line
where ol_delivery_d >= :day::date and ol_delivery_d < :day::date + interval '3 months'
  and ol_quantity between :quantity::integer - 1 and :quantity::integer + 1;
