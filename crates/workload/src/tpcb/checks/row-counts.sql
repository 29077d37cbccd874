select *
from (
    select 'pgbench_branches' as table_name, 1::bigint * :scale as expected, count(*) as counted, count(bid) as with_id,
        min(bid)::bigint as lowest, max(bid)::bigint as highest
    from @.pgbench_branches
    union all select 'pgbench_tellers', 10::bigint * :scale, count(*), count(tid), min(tid)::bigint, max(tid)::bigint
    from @.pgbench_tellers
    union all select 'pgbench_accounts', 100000::bigint * :scale, count(*), count(aid), min(aid)::bigint, max(aid)::bigint
    from @.pgbench_accounts
) t
where (counted, with_id, lowest, highest) is distinct from (expected, expected, 1::bigint, expected)
