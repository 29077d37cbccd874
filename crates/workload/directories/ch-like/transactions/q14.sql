select 100.00 * sum(case when i_data like 'pr%' then ol_amount else 0 end) / sum(ol_amount) as promo_revenue
from order_line, item
where ol_i_id = i_id and ol_delivery_d >= :day::date and ol_delivery_d < :day::date + interval '1 month';
