-- A few accounts are updated far more often than the others. The constants may be given with -D instead.
\set n_accounts 100000 * :scale
\set skew 1.3

-- The most frequent accounts are not neighbours.
\set rank random_zipfian(1, :n_accounts, :skew)
\set aid 1 + permute(:rank - 1, :n_accounts, 4711)
\set bid 1 + (:aid - 1) / 100000
\set tid (:bid - 1) * 10 + random_exponential(1, 10, 2.5)
\set delta random_gaussian(-5000, 5000, 3.0)

BEGIN;
UPDATE pgbench_accounts
   SET abalance = abalance + :delta  -- most of them the same rows
 WHERE aid = :aid;
SELECT abalance FROM pgbench_accounts WHERE aid = :aid;
/* one row for each transaction */
INSERT INTO pgbench_history (tid, bid, aid, delta, mtime)
VALUES (:tid, :bid, :aid, :delta, CURRENT_TIMESTAMP);
COMMIT;
