-- What committed transactions cost the server. Results of earlier versions get these rows when they are pushed again.

CREATE TABLE costs (
    experiment_id bigint NOT NULL REFERENCES experiment ON DELETE CASCADE,
    case_id int NOT NULL,
    run int,
    cost text NOT NULL,
    value double precision NOT NULL,
    low double precision,
    high double precision
);
CREATE INDEX ON costs (experiment_id);
COMMENT ON TABLE costs IS 'of a run, or of a case (run is null): its median';
COMMENT ON COLUMN costs.value IS 'per committed transaction: microseconds, bytes, or a plain number';
COMMENT ON COLUMN costs.low IS 'of a case: lower end of the range of 95 %, as a ratio to value';
COMMENT ON COLUMN costs.high IS 'its upper end';
COMMENT ON COLUMN comparisons.figure IS 'throughput, ratio, a percentile of latency, or cost: and the name of a cost';
