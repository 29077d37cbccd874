-- A full join also finds a row that was deleted, and a delta without its row.
select coalesce(t.aid, h.aid) as aid, t.abalance as balance, h.deltas
from @.pgbench_accounts t
full join (select aid, sum(delta) as deltas from @.pgbench_history group by aid) h on t.aid = h.aid
where t.abalance is distinct from coalesce(h.deltas, 0)
limit 100
