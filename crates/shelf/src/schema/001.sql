-- Results of pgdyno: one row of `experiment` for each results directory, and everything else below it.
-- Times are timestamptz, durations have their unit in the name, counts and figures are those of the report.

CREATE TABLE experiment (
    experiment_id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    name text NOT NULL,
    seed numeric(20) NOT NULL,
    made_unix_ns bigint NOT NULL,
    directory text NOT NULL,
    title text NOT NULL,
    description text NOT NULL,
    made_at timestamptz NOT NULL,
    tool_version text NOT NULL,
    pushed_by text NOT NULL,
    pushed_at timestamptz NOT NULL DEFAULT now(),
    contents text NOT NULL,
    partial text,
    plan jsonb NOT NULL,
    UNIQUE (name, seed, made_unix_ns)
);
COMMENT ON TABLE experiment IS 'One results directory; name, seed and time of the plan identify it';
COMMENT ON COLUMN experiment.contents IS 'SHA-256 over paths and checksums of all files: equal means nothing to push';

CREATE TABLE file (
    experiment_id bigint NOT NULL REFERENCES experiment ON DELETE CASCADE,
    place int NOT NULL,
    path text NOT NULL,
    bytes bigint NOT NULL,
    sha256 text NOT NULL,
    PRIMARY KEY (experiment_id, place)
);
COMMENT ON TABLE file IS 'The files that a report is made from, in the order of a packed result';

CREATE TABLE file_part (
    experiment_id bigint NOT NULL,
    place int NOT NULL,
    part int NOT NULL,
    data bytea NOT NULL,
    PRIMARY KEY (experiment_id, place, part),
    FOREIGN KEY (experiment_id, place) REFERENCES file ON DELETE CASCADE
);
ALTER TABLE file_part ALTER COLUMN data SET STORAGE EXTERNAL;

CREATE TABLE cases (
    experiment_id bigint NOT NULL REFERENCES experiment ON DELETE CASCADE,
    case_id int NOT NULL,
    label text NOT NULL,
    levels jsonb NOT NULL,
    workload text NOT NULL,
    scale int NOT NULL,
    clients int NOT NULL,
    server text NOT NULL,
    n_runs int NOT NULL,
    tps_median double precision,
    tps_cv double precision,
    latency_mean_ns double precision,
    latency_p50_ns bigint,
    latency_p95_ns bigint,
    latency_p99_ns bigint,
    latency_p999_ns bigint,
    latency_max_ns bigint,
    limiter text,
    grade text NOT NULL,
    PRIMARY KEY (experiment_id, case_id)
);

CREATE TABLE runs (
    experiment_id bigint NOT NULL,
    run int NOT NULL,
    block int NOT NULL,
    case_id int NOT NULL,
    seed numeric(20),
    state text NOT NULL,
    reason text NOT NULL,
    counts boolean NOT NULL,
    grade text NOT NULL,
    go_at timestamptz,
    measured_s double precision NOT NULL,
    hostname text,
    release text,
    executable_sha256 text,
    tps double precision,
    committed bigint NOT NULL,
    failed bigint NOT NULL,
    latency_mean_ns double precision,
    latency_p50_ns bigint,
    latency_p95_ns bigint,
    latency_p99_ns bigint,
    latency_p999_ns bigint,
    latency_max_ns bigint,
    limiter text,
    PRIMARY KEY (experiment_id, run),
    FOREIGN KEY (experiment_id, case_id) REFERENCES cases ON DELETE CASCADE
);
COMMENT ON COLUMN runs.counts IS 'whether the figures of its case include it';

CREATE TABLE phases (
    experiment_id bigint NOT NULL,
    run int NOT NULL,
    place int NOT NULL,
    phase text NOT NULL,
    start_at timestamptz NOT NULL,
    end_at timestamptz NOT NULL,
    PRIMARY KEY (experiment_id, run, place),
    FOREIGN KEY (experiment_id, run) REFERENCES runs ON DELETE CASCADE
);

CREATE TABLE intervals (
    experiment_id bigint NOT NULL,
    run int NOT NULL,
    second int NOT NULL,
    script text NOT NULL,
    measured boolean NOT NULL,
    start_at timestamptz NOT NULL,
    length_ns bigint NOT NULL,
    due bigint NOT NULL,
    skipped bigint NOT NULL,
    started bigint NOT NULL,
    committed bigint NOT NULL,
    failed bigint NOT NULL,
    unknown bigint NOT NULL,
    aborted bigint NOT NULL,
    retried bigint NOT NULL,
    retries bigint NOT NULL,
    late bigint NOT NULL,
    errors jsonb,
    latency text,
    service text,
    latency_p50_ns bigint,
    latency_p95_ns bigint,
    latency_p99_ns bigint,
    latency_max_ns bigint,
    FOREIGN KEY (experiment_id, run) REFERENCES runs ON DELETE CASCADE
);
CREATE INDEX ON intervals (experiment_id, run, second);
COMMENT ON COLUMN intervals.latency IS 'HdrHistogram V2, deflated, in base64, nanoseconds: histograms of any intervals can be added';

CREATE TABLE readings (
    experiment_id bigint NOT NULL,
    run int NOT NULL,
    end_at timestamptz NOT NULL,
    length_ns bigint NOT NULL,
    source text NOT NULL,
    metric text NOT NULL,
    instance text,
    value double precision NOT NULL,
    FOREIGN KEY (experiment_id, run) REFERENCES runs ON DELETE CASCADE
);
CREATE INDEX ON readings (experiment_id, run, metric);
COMMENT ON COLUMN readings.value IS 'a counter''s increase over the tick, a gauge''s value at its end';

CREATE TABLE findings (
    experiment_id bigint NOT NULL REFERENCES experiment ON DELETE CASCADE,
    case_id int,
    run int,
    finding text NOT NULL,
    severity text NOT NULL,
    evidence text NOT NULL,
    advice text NOT NULL
);
CREATE INDEX ON findings (experiment_id);
COMMENT ON TABLE findings IS 'of a run, of a case (run is null), or of the experiment (both are null)';

CREATE TABLE comparisons (
    experiment_id bigint NOT NULL REFERENCES experiment ON DELETE CASCADE,
    a_case int NOT NULL,
    b_case int NOT NULL,
    pairing text NOT NULL,
    n_pairs int NOT NULL,
    margin double precision NOT NULL,
    figure text NOT NULL,
    leads boolean NOT NULL,
    a_median double precision,
    b_median double precision,
    ratio double precision,
    low double precision,
    high double precision,
    p double precision,
    verdict text
);
CREATE INDEX ON comparisons (experiment_id);

-- One row for each run that counts, for tools that look for changes of level: a series is one case on one machine.
CREATE VIEW change_points AS
SELECT e.name, r.hostname,
       concat_ws(', ', e.name, c.workload, 'scale ' || c.scale, c.clients || ' clients',
                 (SELECT string_agg(l.key || ' ' || l.value, ', ' ORDER BY l.key) FROM jsonb_each_text(c.levels) l
                   WHERE l.key NOT IN ('workload.clients', 'workload.scale', 'workload.kind'))) AS series,
       r.go_at AS time, e.directory, r.run, r.release,
       coalesce(r.release, '') || coalesce(' ' || left(r.executable_sha256, 8), '') AS revision,
       r.tps, r.latency_p50_ns / 1e6 AS p50_ms, r.latency_p95_ns / 1e6 AS p95_ms, r.latency_p99_ns / 1e6 AS p99_ms
  FROM runs r
  JOIN cases c USING (experiment_id, case_id)
  JOIN experiment e USING (experiment_id)
 WHERE r.counts AND r.go_at IS NOT NULL AND r.tps IS NOT NULL;

-- Throughput of each second, over all scripts.
CREATE VIEW seconds AS
SELECT experiment_id, run, second, min(start_at) AS time, bool_or(measured) AS measured,
       sum(committed) / (max(length_ns) / 1e9) AS tps, sum(failed) AS failed, max(latency_max_ns) / 1e6 AS max_ms
  FROM intervals
 GROUP BY experiment_id, run, second;

-- Phases as annotations: a region with a text and tags.
CREATE VIEW annotations AS
SELECT p.experiment_id, p.run, p.start_at AS time, p.end_at AS time_end,
       'run ' || p.run || ', ' || c.label || ': ' || replace(p.phase, '_', '-') AS text, 'phase,' || p.phase AS tags
  FROM phases p
  JOIN runs r USING (experiment_id, run)
  JOIN cases c USING (experiment_id, case_id);
