select balances, deltas
from (select coalesce(sum(tbalance), 0) as balances from @.pgbench_tellers) b,
    (select coalesce(sum(delta), 0) as deltas from @.pgbench_history) h
where balances <> deltas
