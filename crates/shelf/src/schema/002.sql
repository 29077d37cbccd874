-- What a case asks for and whether sides took turns, so that no series mixes what is not comparable; and which results are merged,
-- so that none has a run twice. Rows of earlier versions get this when their result is pushed again.

ALTER TABLE experiment
    ADD COLUMN merged boolean NOT NULL DEFAULT false,
    ADD COLUMN rows_version int NOT NULL DEFAULT 1;
COMMENT ON COLUMN experiment.merged IS 'whether its runs were merged from other results';
COMMENT ON COLUMN experiment.rows_version IS 'version of the schema for which its rows were made: below the newest, a push makes them again';

ALTER TABLE cases
    ADD COLUMN asked text,
    ADD COLUMN by_url text;
COMMENT ON COLUMN cases.asked IS 'SHA-256 of all that it asks for, except the release or build of a server that pgdyno runs';
COMMENT ON COLUMN cases.by_url IS 'the server, if it is one by URL';

ALTER TABLE runs
    ADD COLUMN took_turns boolean NOT NULL DEFAULT false;
COMMENT ON COLUMN runs.took_turns IS 'whether it was a side of a duet, which has half of the time';

UPDATE experiment SET merged = plan ? 'origins';

-- One row for each run that counts and did not take turns, for tools that look for changes of level: a series is what one case asks
-- for, on one machine. A run that a merged study has too is that of its origin.
CREATE OR REPLACE VIEW change_points AS
SELECT DISTINCT ON (r.go_at, r.seed) e.name, r.hostname,
       concat_ws(', ', e.name, c.workload, 'scale ' || c.scale, c.clients || ' clients',
                 (SELECT string_agg(l.key || ' ' || l.value, ', ' ORDER BY l.key) FROM jsonb_each_text(c.levels) l
                   WHERE l.key NOT IN ('workload.clients', 'workload.scale', 'workload.kind')),
                 c.by_url, left(c.asked, 8)) AS series,
       r.go_at AS time, e.directory, r.run, r.release,
       coalesce(r.release, '') || coalesce(' ' || left(r.executable_sha256, 8), '') AS revision,
       r.tps, r.latency_p50_ns / 1e6 AS p50_ms, r.latency_p95_ns / 1e6 AS p95_ms, r.latency_p99_ns / 1e6 AS p99_ms
  FROM runs r
  JOIN cases c USING (experiment_id, case_id)
  JOIN experiment e USING (experiment_id)
 WHERE r.counts AND NOT r.took_turns AND r.go_at IS NOT NULL AND r.tps IS NOT NULL
 ORDER BY r.go_at, r.seed, e.merged, e.experiment_id;
