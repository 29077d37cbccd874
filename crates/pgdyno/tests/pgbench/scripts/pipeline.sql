-- A whole transaction in one round trip, and a statement with several parts in it.
\set aid random(1, 100000 * :scale)
\set bid random(1, 1 * :scale)
\set tid random(1, 10 * :scale)
\set delta random(-5000, 5000)
\startpipeline
BEGIN ISOLATION LEVEL REPEATABLE READ;
WITH moved AS (
  UPDATE pgbench_accounts SET abalance = abalance + :delta WHERE aid = :aid RETURNING aid, abalance
), told AS (
  UPDATE pgbench_tellers SET tbalance = tbalance + :delta WHERE tid = :tid RETURNING tid
), kept AS (
  INSERT INTO pgbench_history (tid, bid, aid, delta, mtime)
  SELECT :tid, :bid, moved.aid, moved.abalance, CURRENT_TIMESTAMP FROM moved RETURNING 1
)
SELECT abalance FROM moved;
UPDATE pgbench_branches SET bbalance = bbalance + :delta WHERE bid = :bid;
COMMIT;
\endpipeline
SELECT bbalance FROM pgbench_branches WHERE bid = :bid;
