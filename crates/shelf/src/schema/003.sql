-- How far off the throughput of a case can be. Rows of earlier versions get this when their result is pushed again.

ALTER TABLE cases
    ADD COLUMN uncertainty_low double precision,
    ADD COLUMN uncertainty_high double precision,
    ADD COLUMN mostly_from text;
COMMENT ON COLUMN cases.uncertainty_low IS 'lower end of the range of the undisturbed throughput, as a ratio to tps_median';
COMMENT ON COLUMN cases.uncertainty_high IS 'its upper end';
COMMENT ON COLUMN cases.mostly_from IS 'the row of the budget that contributes most';
