select ol_number, sum(ol_quantity) as sum_qty, sum(ol_amount) as sum_amount, avg(ol_quantity) as avg_qty, avg(ol_amount) as avg_amount, count(*)
from order_line
where ol_delivery_d > :day::date
group by ol_number
order by ol_number;
