-- A full join also finds a row that was deleted, and a delta without its row.
select coalesce(t.bid, h.bid) as bid, t.bbalance as balance, h.deltas
from @.pgbench_branches t
full join (select bid, sum(delta) as deltas from @.pgbench_history group by bid) h on t.bid = h.bid
where t.bbalance is distinct from coalesce(h.deltas, 0)
limit 100
