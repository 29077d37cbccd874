-- Each statement needs what the one before it has found.
\set aid random(1, 100000 * :scale)
BEGIN;
SELECT bid, abalance AS balance FROM pgbench_accounts WHERE aid = :aid \gset own_
SELECT tid, count(*) OVER () AS colleagues
  FROM pgbench_tellers WHERE bid = :own_bid
 ORDER BY tbalance, tid LIMIT 1
\gset
\set delta :own_balance % 100 + random(1, 50) - :colleagues
\if :delta > 20
UPDATE pgbench_tellers SET tbalance = tbalance + :delta WHERE tid = :tid RETURNING tbalance \gset
\elif :delta < 0
\set tbalance 0 - :delta
\else
SELECT sum(tbalance) AS tbalance FROM pgbench_tellers WHERE bid = :own_bid \gset
\endif
UPDATE pgbench_accounts SET abalance = abalance + :tbalance % 1000 WHERE aid = :aid RETURNING abalance \gset new_
INSERT INTO pgbench_history (tid, bid, aid, delta, mtime)
VALUES (:tid, :own_bid, :aid, :new_abalance - :own_balance, CURRENT_TIMESTAMP);
END;
