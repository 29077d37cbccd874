select *
from (
    select 'item' as table_name, 100000::bigint as expected, count(*) as counted from @.item
    union all select 'warehouse', 1::bigint * :scale, count(*) from @.warehouse
    union all select 'district', 10::bigint * :scale, count(*) from @.district
    union all select 'customer', 30000::bigint * :scale, count(*) from @.customer
    union all select 'stock', 100000::bigint * :scale, count(*) from @.stock
) t
where counted <> expected
