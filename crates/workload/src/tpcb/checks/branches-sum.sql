select balances, deltas
from (select coalesce(sum(bbalance), 0) as balances from @.pgbench_branches) b,
    (select coalesce(sum(delta), 0) as deltas from @.pgbench_history) h
where balances <> deltas
