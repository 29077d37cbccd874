-- A tenth of the rows, within four standard deviations of a binomial distribution.
select table_name, counted, 0.1::float8 * n as expected, 4 * sqrt(n * 0.1::float8 * 0.9::float8) as band
from (
    select 'item' as table_name, count(*) as counted, 100000::bigint as n from @.item where i_data like '%ORIGINAL%'
    union all select 'stock', count(*), 100000::bigint * :scale from @.stock where s_data like '%ORIGINAL%'
    union all select 'customer', count(*), 30000::bigint * :scale from @.customer where c_credit = 'BC'
) t
where abs(counted - 0.1::float8 * n) > 4 * sqrt(n * 0.1::float8 * 0.9::float8)
