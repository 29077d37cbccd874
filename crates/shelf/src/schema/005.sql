-- Transactions that ended with an error that a workload directory expects: neither committed nor failed. Rows of earlier versions get this
-- when their result is pushed again.

ALTER TABLE runs
    ADD COLUMN expected bigint NOT NULL DEFAULT 0;
COMMENT ON COLUMN runs.expected IS 'transactions that ended with an error that the workload expects';

ALTER TABLE intervals
    ADD COLUMN expected bigint NOT NULL DEFAULT 0;
COMMENT ON COLUMN intervals.expected IS 'transactions that ended with an error that the workload expects: with it, started is the sum of how they ended';
