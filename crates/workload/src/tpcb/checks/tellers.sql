-- A full join also finds a row that was deleted, and a delta without its row.
select coalesce(t.tid, h.tid) as tid, t.tbalance as balance, h.deltas
from @.pgbench_tellers t
full join (select tid, sum(delta) as deltas from @.pgbench_history group by tid) h on t.tid = h.tid
where t.tbalance is distinct from coalesce(h.deltas, 0)
limit 100
