-- An order has 5 to 15 lines, each number as likely: 10 on average, with a variance of 10. The band is four standard deviations.
select *
from (values
    ('history', (select count(*) from @.history), 30000::bigint * :scale, 0::float8),
    ('orders', (select count(*) from @.orders), 30000::bigint * :scale, 0),
    ('new_order', (select count(*) from @.new_order), 9000::bigint * :scale, 0),
    ('order_line', (select count(*) from @.order_line), 300000::bigint * :scale, 4 * sqrt(300000::float8 * :scale))
) t (table_name, counted, expected, band)
where abs(counted - expected) > band
