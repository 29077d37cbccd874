(
    select 'pgbench_tellers.bid' as column_name, f.bid::bigint as id, count(*) as n_rows
    from @.pgbench_tellers f
    left join @.pgbench_branches t on t.bid = f.bid
    where t.bid is null
    group by f.bid
    limit 100
)
union all (
    select 'pgbench_accounts.bid', f.bid::bigint, count(*)
    from @.pgbench_accounts f
    left join @.pgbench_branches t on t.bid = f.bid
    where t.bid is null
    group by f.bid
    limit 100
)
union all (
    select 'pgbench_history.bid', f.bid::bigint, count(*)
    from @.pgbench_history f
    left join @.pgbench_branches t on t.bid = f.bid
    where t.bid is null
    group by f.bid
    limit 100
)
union all (
    select 'pgbench_history.tid', f.tid::bigint, count(*)
    from @.pgbench_history f
    left join @.pgbench_tellers t on t.tid = f.tid
    where t.tid is null
    group by f.tid
    limit 100
)
union all (
    select 'pgbench_history.aid', f.aid::bigint, count(*)
    from @.pgbench_history f
    left join @.pgbench_accounts t on t.aid = f.aid
    where t.aid is null
    group by f.aid
    limit 100
)
limit 100
