//! Studies made up from a formula and a seed, for tests and for looking at the page. No number here was measured.

mod compared;
mod limits;
mod outages;
mod records;
mod scripts;
mod uncertainty;

use std::collections::BTreeMap;

use analysis::finding::{Finding, Grade, Severity};
use analysis::summary::variation::{Spread, VarianceShares, Variation};
use analysis::summary::{
    CaseSummary, ErrorSummary, LatencySummary, ResourceUsage, RunSummary, Second, StatementSummary, Study,
    TelemetrySeries, TimelineMark, TopStatement,
};
pub(crate) use compared::comparisons;
use limits::limiter;
use model::experiment::Prepare;
use model::experiment::case::{Case, ServerSource, ServerSpec, WorkloadKind, WorkloadSpec};
use model::experiment::plan::{Plan, RunSpec, RunState};
use model::load::Window;
use model::load::interval::Counts;
use model::run::ExperimentData;
pub(crate) use outages::add_outages;
pub(crate) use scripts::add_scripts;

/// The shape of the made-up experiment.
#[derive(Debug, Clone)]
pub(crate) struct Shape {
    /// Numbers of clients; more than one makes them a factor.
    pub(crate) clients: Vec<u32>,
    /// Versions of PostgreSQL; more than one makes them a factor.
    pub(crate) versions: Vec<String>,
    /// Runs of each case.
    pub(crate) repeats: u32,
    /// Seconds of ramp-up and of measure.
    pub(crate) window: (u32, u32),
    /// Processors of the host.
    pub(crate) n_cpus: u32,
    /// Whether one run is void, one is cut off, and findings cast doubt.
    pub(crate) troubled: bool,
    /// Title of the experiment; also put into every other text that a user can choose.
    pub(crate) title: String,
}

impl Default for Shape {
    fn default() -> Shape {
        Shape {
            clients: vec![1, 2, 4, 8, 16, 32, 64],
            versions: vec!["18".to_string()],
            repeats: 3,
            window: (10, 60),
            n_cpus: 4,
            troubled: false,
            title: "TPC-B on a small machine, 1 to 64 clients".to_string(),
        }
    }
}

/// A study and the records that it would come from.
pub(crate) fn make(shape: &Shape) -> (Study, ExperimentData) {
    let cases = cases(shape);
    let mut random = Random(42);
    let plan = plan(shape, &cases, &mut random);
    let mut runs: Vec<RunSummary> = Vec::new();
    for spec in &plan.runs {
        let case = cases.iter().find(|case| case.id == spec.case).expect("the plan is made from the cases");
        runs.push(run(shape, spec, case, &mut random));
    }
    if shape.troubled {
        trouble(&mut runs, &shape.title);
    }
    let summaries: Vec<CaseSummary> = cases.iter().map(|case| summary(case, &runs)).collect();
    let data = records::of(shape, &plan, &runs);
    let findings = vec![note(
        "closed-loop",
        "all cases are closed loops: a slow server slows the load down",
        "Offer a rate (pace = \"2000/s\") to see the latency that users would see.",
    )];
    let partial = shape.troubled.then(|| "1 of the runs was cut off: interrupted by SIGINT".to_string());
    (
        Study {
            plan,
            scalability: analysis::case::scalability::of_cases(&summaries),
            cases: summaries,
            runs,
            findings,
            fetched: None,
            encryption: None,
            partial,
        },
        data,
    )
}

fn cases(shape: &Shape) -> Vec<Case> {
    let mut cases = Vec::new();
    for version in &shape.versions {
        for n_clients in &shape.clients {
            let mut levels = BTreeMap::new();
            if shape.clients.len() > 1 {
                levels.insert("workload.clients".to_string(), n_clients.to_string());
            }
            if shape.versions.len() > 1 {
                levels.insert("server.version".to_string(), version.clone());
            }
            cases.push(Case {
                id: cases.len() as u32 + 1,
                levels,
                prepare: Prepare { prewarm: false, ..Prepare::default() },
                ..Case::new(
                    ServerSpec {
                        settings: BTreeMap::from([("shared_buffers".to_string(), "4GB".to_string())]),
                        ..ServerSpec::new(ServerSource::Version("18".parse().expect("18 is a version")))
                    },
                    WorkloadSpec { n_clients: *n_clients, ..WorkloadSpec::new(WorkloadKind::Tpcb, 100) },
                    Window { ramp_up_s: shape.window.0, measure_s: shape.window.1, grace_s: 10 },
                )
            });
        }
    }
    cases
}

fn plan(shape: &Shape, cases: &[Case], random: &mut Random) -> Plan {
    let mut runs = Vec::new();
    for block in 1..=shape.repeats {
        let mut order: Vec<u32> = cases.iter().map(|case| case.id).collect();
        for i in (1..order.len()).rev() {
            order.swap(i, (random.next() * (i + 1) as f64) as usize);
        }
        for case in order {
            let seed = (random.next() * 1e15) as u64;
            runs.push(RunSpec { run: runs.len() as u32 + 1, block, case, seed });
        }
    }
    let mut factors = Vec::new();
    if shape.versions.len() > 1 {
        factors.push("server.version".to_string());
    }
    if shape.clients.len() > 1 {
        factors.push("workload.clients".to_string());
    }
    Plan {
        format: model::FORMAT,
        name: "synthetic".to_string(),
        title: shape.title.clone(),
        description:
            "How far does throughput grow with the number of clients, and what does it cost in latency?"
                .to_string(),
        seed: 7_340_125,
        repeats: shape.repeats,
        tool_version: "0.1.0".to_string(),
        made_unix_ns: 1_795_175_340_000_000_000,
        precision: None,
        is_comparison: false,
        factors,
        cases: cases.to_vec(),
        runs,
        ..Plan::default()
    }
}

fn checkpoint_note(began_s: f64) -> Finding {
    note(
        "checkpoint-in-window",
        &format!("a checkpoint of 6.0 s began {began_s:.1} s after the start of the load"),
        "Measure for longer than checkpoint_timeout, or read the seconds outside of it.",
    )
}

fn run(shape: &Shape, spec: &RunSpec, case: &Case, random: &mut Random) -> RunSummary {
    let clients = f64::from(case.workload.n_clients);
    let version = case.levels.get("server.version").and_then(|v| v.parse::<f64>().ok()).unwrap_or(18.0);
    // Saturates at about 8 clients and falls slowly: contention, then coherence.
    let base = 980.0 * clients / (1.0 + 0.055 * (clients - 1.0) + 0.00045 * clients * (clients - 1.0));
    let base = base * (1.0 + (version - 18.0) * 0.018) * random.around(1.0, 0.012);
    let checkpoint = f64::from(shape.window.0) + random.next() * f64::from(shape.window.1) * 0.6;
    let length_s = shape.window.0 + shape.window.1 + 1;
    let service_ns = clients / base * 1e9;
    let seconds = seconds(shape, length_s, (base, service_ns), checkpoint, random);
    let measured: Vec<&Second> = seconds.iter().filter(|second| second.measured).collect();
    let tps = measured.iter().map(|second| second.tps).sum::<f64>() / measured.len() as f64;
    let n = (tps * f64::from(shape.window.1)) as u64;
    let latency = latency(service_ns, n, random);
    let counts = Counts { due: n, started: n, committed: n, ..Counts::default() };
    let marks = vec![
        mark(checkpoint, checkpoint + 6.0, "checkpoint", "checkpoint (time): 31,204 buffers"),
        mark(checkpoint + 14.0, checkpoint + 14.0, "autovacuum", "autovacuum of pgbench_tellers"),
    ];
    let findings = vec![checkpoint_note(checkpoint)];
    RunSummary {
        limiter: Some(limiter(case.workload.n_clients)),
        imported: Vec::new(),
        top_statements: top_statements(case.workload.n_clients),
        run: spec.run,
        block: spec.block,
        case: case.id,
        state: RunState::Completed,
        reason: String::new(),
        repeat: None,
        disturbance: None,
        replaced_by: None,
        course: None,
        go_unix_ns: Some(1_750_000_000_000_000_000 + u64::from(spec.run) * 400_000_000_000),
        measured_s: f64::from(shape.window.1),
        counts,
        total: counts,
        errors: Vec::new(),
        tps: Some(tps),
        latency: Some(latency),
        service: Some(latency),
        lag: None,
        scripts: Vec::new(),
        measures: Vec::new(),
        statements: statements(shape, service_ns, n, random),
        executions: Vec::new(),
        analytical: None,
        outage: None,
        tpcc: None,
        capacity: None,
        resources: resources(shape, tps, clients),
        costs: Vec::new(),
        counters: None,
        work: Vec::new(),
        series: [
            // With a seed of its own, so that the numbers of all else stay.
            series_of(&LIMITS, length_s, checkpoint, &mut Random(7)),
            series(shape, length_s, tps, checkpoint, random),
        ]
        .concat(),
        seconds,
        marks,
        phases: [("restore", 4.2), ("vacuum", 1.1), ("checkpoint", 0.8), ("settle", 3.0), ("connect", 0.1)]
            .map(|(name, s)| (name.to_string(), random.around(s, 0.1)))
            .to_vec(),
        fairness: Some(0.9991),
        grade: Grade::from_findings(&findings),
        fidelity: None,
        bounds: Vec::new(),
        findings,
    }
}

/// The seconds of a run whose throughput is `base` and whose service time is `service_ns`, but for noise.
fn seconds(
    shape: &Shape,
    length_s: u32,
    (base, service_ns): (f64, f64),
    checkpoint: f64,
    random: &mut Random,
) -> Vec<Second> {
    let mut seconds = Vec::new();
    for t in 0..length_s {
        let at = f64::from(t);
        let warm = 1.0 - 0.45 * (-at / 3.0).exp();
        let busy = if (checkpoint..checkpoint + 6.0).contains(&at) { 0.84 } else { 1.0 };
        let tail = if busy < 1.0 { 2.6 } else { 1.0 };
        let tps = base * warm * busy * random.around(1.0, 0.022);
        let p50 = service_ns / warm / busy * random.around(0.88, 0.02);
        let last = t + 1 == length_s;
        seconds.push(Second {
            t,
            measured: (shape.window.0..shape.window.0 + shape.window.1).contains(&t),
            tps: if last { base * 0.01 } else { tps },
            errors: 0,
            p50_ns: Some(p50 as u64),
            p95_ns: Some((p50 * 1.9 * tail * random.around(1.0, 0.06)) as u64),
            p99_ns: Some((p50 * 3.1 * tail * random.around(1.0, 0.12)) as u64),
            max_ns: Some((p50 * 7.0 * tail * (1.0 + random.next())) as u64),
        });
    }
    seconds
}

fn latency(service_ns: f64, n: u64, random: &mut Random) -> LatencySummary {
    let mut at = |factor: f64| (service_ns * factor * random.around(1.0, 0.01)) as u64;
    LatencySummary {
        n,
        mean_ns: service_ns,
        p50_ns: at(0.9),
        p90_ns: at(1.45),
        p95_ns: at(1.8),
        p99_ns: at(3.1),
        p999_ns: at(7.5),
        max_ns: at(26.0),
    }
}

fn top_statements(n_clients: u32) -> Vec<TopStatement> {
    let one = |text: &str, part: f64, by: [(&'static str, f64); 2]| {
        let sessions = part * f64::from(n_clients);
        TopStatement {
            text: text.to_string(),
            sessions: Some(sessions),
            by: by.map(|(kind, share)| (kind, share * sessions)).to_vec(),
            calls_per_s: Some(900.0),
            time: Some(sessions),
            rows_per_s: Some(900.0),
            blocks_read_per_s: Some(31.0),
            wal_bytes_per_s: Some(412_000.0),
            ..TopStatement::default()
        }
    };
    vec![
        one("END", 0.52, [("CPU", 0.1), ("WAL", 0.9)]),
        one(
            "UPDATE pgbench_branches SET bbalance = bbalance + ? WHERE bid = ?",
            0.2,
            [("CPU", 0.2), ("locks", 0.8)],
        ),
        one("SELECT abalance FROM pgbench_accounts WHERE aid = ?", 0.04, [("CPU", 0.9), ("I/O", 0.1)]),
    ]
}

fn statements(shape: &Shape, service_ns: f64, n: u64, random: &mut Random) -> Vec<StatementSummary> {
    let hostile = if shape.title.contains('<') { shape.title.as_str() } else { "" };
    let labels = [
        ("BEGIN;", 0.04),
        ("UPDATE pgbench_accounts SET abalance = abalance + :delta WHERE aid = :aid;", 0.2),
        ("SELECT abalance FROM pgbench_accounts WHERE aid = :aid;", 0.06),
        ("UPDATE pgbench_tellers SET tbalance = tbalance + :delta WHERE tid = :tid;", 0.12),
        ("UPDATE pgbench_branches SET bbalance = bbalance + :delta WHERE bid = :bid;", 0.18),
        (
            "INSERT INTO pgbench_history (tid, bid, aid, delta, mtime) VALUES (:tid, :bid, :aid, :delta, CURRENT_TIMESTAMP);",
            0.05,
        ),
        ("END;", 0.35),
    ];
    let entry = |(index, (label, share)): (usize, (&str, f64))| StatementSummary {
        script: "tpcb".to_string(),
        index,
        label: format!("{label}{hostile}"),
        service: latency(service_ns * share, n, random),
    };
    labels.into_iter().enumerate().map(entry).collect()
}

fn resources(shape: &Shape, tps: f64, clients: f64) -> ResourceUsage {
    let cpus = f64::from(shape.n_cpus);
    let server_cpu = (tps * 620e-6).min(cpus * 0.8);
    ResourceUsage {
        driver_room: None,
        server_room: None,
        n_cpus: Some(shape.n_cpus),
        host_busy: Some(((server_cpu + 0.3) / cpus).min(1.0)),
        busiest_cpu: Some(0.93),
        steal: Some(0.001),
        server_cpu: Some(server_cpu),
        driver_cpu: Some(tps * 21e-6),
        driver_busiest_thread: Some(tps * 21e-6),
        foreign_cpu: Some(0.02),
        foreign_processes: Vec::new(),
        driver_cpu_us_per_transaction: Some(21.3),
        server_cpu_us_per_transaction: Some(620.4 + clients),
        wal_bytes_per_s: Some(tps * 1180.0),
        wal_bytes_per_transaction: Some(1180.4),
        wal_bytes_per_minute: Some(180e6),
        full_page_images_per_s: Some(240.0),
        new_pages_share_per_s: Some(0.0012),
        wal_directory_bytes_max: Some(512e6),
        disk_read_size_bytes: Some(8192.0),
        disk_write_size_bytes: Some(24_000.0),
        cache_hit: Some(0.998),
        disk_read_bytes_per_s: Some(1.2e6),
        disk_write_bytes_per_s: Some(tps * 3100.0),
        disk_reads_per_s: Some(290.0),
        disk_writes_per_s: Some(tps * 0.4),
        disk_busy: None,
        wal_device_writes_per_s: None,
        wal_device_write_bytes_per_s: None,
        net_received_bytes_per_s: None,
        net_sent_bytes_per_s: None,
        watch_cpu: None,
        driver_host: None,
        remote: None,
        unknown: Vec::new(),
    }
}

/// Panel, name, unit, level, factor during a checkpoint, noise.
type Shown<'a> = (&'a str, &'a str, &'a str, f64, f64, f64);

/// What sessions do, and how much of their ceilings resources used.
const LIMITS: [Shown; 7] = [
    ("sessions", "CPU", "sessions", 0.9, 1.0, 0.2),
    ("sessions", "LWLocks", "sessions", 0.4, 1.0, 0.4),
    ("sessions", "I/O", "sessions", 0.3, 2.5, 0.5),
    ("sessions", "WAL", "sessions", 2.9, 1.8, 0.2),
    ("sessions", "locks", "sessions", 1.4, 0.8, 0.4),
    ("ceilings", "WAL flushes (of 3,900/s measured)", "%", 82.0, 1.0, 0.06),
    ("ceilings", "writes of the data device (of 12,000/s measured)", "%", 21.0, 3.1, 0.1),
];

fn series_of(all: &[Shown], length_s: u32, checkpoint: f64, random: &mut Random) -> Vec<TelemetrySeries> {
    let mut of = |&(panel, name, unit, level, at_checkpoint, noise): &Shown| {
        let points = (0..length_s).map(|t| {
            let at = f64::from(t) + 0.5;
            let factor = if (checkpoint..checkpoint + 6.0).contains(&at) { at_checkpoint } else { 1.0 };
            let value = (level * factor * random.around(1.0, noise)).max(0.0);
            (at, if unit == "%" { value.min(100.0) } else { value })
        });
        TelemetrySeries {
            panel: panel.to_string(),
            name: name.to_string(),
            unit: unit.to_string(),
            points: points.collect(),
        }
    };
    all.iter().map(&mut of).collect()
}

fn series(
    shape: &Shape,
    length_s: u32,
    tps: f64,
    checkpoint: f64,
    random: &mut Random,
) -> Vec<TelemetrySeries> {
    let mut all: Vec<TelemetrySeries> = Vec::new();
    let mut add = |panel: &str, name: &str, unit: &str, level: f64, at_checkpoint: f64, noise: f64| {
        let shown = (panel, name, unit, level, at_checkpoint, noise);
        all.extend(series_of(&[shown], length_s, checkpoint, random));
    };
    let busy = (tps * 0.012).min(88.0);
    for cpu in 0..shape.n_cpus {
        add("cpu", &format!("cpu{cpu}"), "%", busy * (0.8 + 0.1 * f64::from(cpu % 4)), 1.03, 0.06);
    }
    add("cpu", "server", "%", busy * 0.86, 1.02, 0.03);
    add("cpu", "driver", "%", busy * 0.09, 1.0, 0.05);
    add("cpu", "foreign", "%", 0.9, 1.0, 0.6);
    add("cpu", "pgdyno", "%", 0.4, 1.0, 0.2);
    add("cpu", "steal", "%", 0.1, 1.0, 0.6);
    add("disk", "data+wal read", "MiB/s", 1.1, 1.0, 0.5);
    add("disk", "data+wal written", "MiB/s", tps * 0.0031, 4.2, 0.1);
    add("disk", "data+wal reads", "IOPS", 42.0, 1.0, 0.4);
    add("disk", "data+wal writes", "IOPS", tps * 0.21, 2.2, 0.1);
    add("disk", "data+wal flushes", "IOPS", tps * 0.08, 1.0, 0.1);
    add("disk", "data+wal busy", "%", 34.0, 2.4, 0.08);
    add("disk", "data+wal write latency", "ms", 0.21, 3.4, 0.1);
    add("wal", "WAL written", "MiB/s", tps * 0.00118, 2.4, 0.05);
    add("waits", "LWLock:WALWrite", "sessions", 2.6, 1.8, 0.25);
    add("waits", "Lock:transactionid", "sessions", 1.4, 0.8, 0.4);
    add("waits", "IO:WALSync", "sessions", 0.8, 1.3, 0.3);
    add("server", "active", "sessions", 6.1, 1.1, 0.1);
    add("server", "waiting", "sessions", 4.0, 1.5, 0.15);
    add("memory", "dirty", "MiB", 210.0, 1.8, 0.05);
    add("driver", "in flight", "transactions", 7.6, 1.0, 0.05);
    all
}

fn summary(case: &Case, runs: &[RunSummary]) -> CaseSummary {
    let of_case: Vec<&RunSummary> = runs
        .iter()
        .filter(|run| run.case == case.id && run.state == RunState::Completed && run.grade != Grade::Void)
        .collect();
    let tps: Vec<f64> = of_case.iter().filter_map(|run| run.tps).collect();
    let cv = stats::cv(&tps);
    let findings: Vec<Finding> = cv
        .filter(|cv| *cv > 0.03)
        .map(|cv| Finding {
            id: "spread",
            severity: Severity::Doubt,
            evidence: format!("the runs of {} differ by a CV of {:.1} %", case.label(), cv * 100.0),
            advice: "Repeat more often, or find what differs between the runs.".to_string(),
            effect: None,
        })
        .into_iter()
        .collect();
    let all = findings.iter().chain(of_case.iter().flat_map(|run| &run.findings));
    CaseSummary {
        limiter: Some(limiter(case.workload.n_clients)),
        top_statements: top_statements(case.workload.n_clients),
        case: case.clone(),
        label: case.label(),
        n_started: runs.iter().filter(|run| run.case == case.id).count(),
        n_runs: of_case.len(),
        tps_median: stats::median(&tps),
        tps_cv: cv,
        uncertainty: cv.map(uncertainty::of_runs),
        variation: Variation {
            tps: cv.map(|cv| Spread { cv, interval: Some([0.5 * cv, 2.1 * cv]) }),
            per_cpu_s: Some(2_400.0),
            per_cpu_s_spread: Some(Spread { cv: 0.004, interval: Some([0.003, 0.009]) }),
            origin: Some(VarianceShares {
                restarts: None,
                runs: 0.81,
                within: 0.19,
                is_each_restarted: true,
            }),
            runs_for_one_percent: Some(9),
        },
        latency: of_case.first().and_then(|run| run.latency),
        service: of_case.first().and_then(|run| run.service),
        scripts: Vec::new(),
        measures: Vec::new(),
        statements: of_case.first().map(|run| run.statements.clone()).unwrap_or_default(),
        analytical: None,
        outages: None,
        tpcc: None,
        capacity: None,
        costs: Vec::new(),
        counters: None,
        grade: if tps.is_empty() { Grade::Void } else { Grade::from_findings(all) },
        findings,
        tps,
    }
}

/// One run voided, one cut off, several doubted.
fn trouble(runs: &mut [RunSummary], text: &str) {
    let n = runs.len();
    for (i, run) in runs.iter_mut().enumerate().filter(|(i, _)| i % 3 == 1) {
        run.findings.push(Finding {
            id: "foreign-cpu",
            severity: Severity::Doubt,
            evidence: format!("other processes used {}.3 % of the host's processor time", 3 + i),
            advice: "Stop what else runs on the host, or measure when it is quiet.".to_string(),
            effect: None,
        });
        run.resources.foreign_cpu = Some(0.04 * (3 + i) as f64);
    }
    if let Some(run) = runs.get_mut(n / 2) {
        run.tps = run.tps.map(|tps| tps * 0.6);
        run.total.failed = 213;
        run.errors.push(ErrorSummary {
            sqlstate: "40001".to_string(),
            n: 213,
            message: format!("could not serialize access: {text}"),
        });
        for second in run.seconds.iter_mut().skip(30).take(9) {
            (second.tps, second.errors) = (0.0, 23);
            (second.p50_ns, second.p95_ns, second.p99_ns, second.max_ns) = (None, None, None, None);
        }
        run.marks.push(mark(30.0, 30.0, "trouble", "the server was restarted"));
        run.findings.push(Finding {
            id: "server-restarted",
            severity: Severity::Void,
            evidence: "the server was restarted 30.2 s after the start of the load".to_string(),
            advice: "Read the server's log, then run again.".to_string(),
            effect: None,
        });
    }
    if let Some(run) = runs.last_mut() {
        run.state = RunState::Partial;
        run.reason = "interrupted by SIGINT".to_string();
        run.seconds.truncate(36);
        run.series.iter_mut().for_each(|series| series.points.truncate(36));
    }
    for run in runs.iter_mut() {
        run.grade = Grade::from_findings(&run.findings);
    }
}

fn note(id: &'static str, evidence: &str, advice: &str) -> Finding {
    let (evidence, advice) = (evidence.to_string(), advice.to_string());
    Finding { id, severity: Severity::Note, evidence, advice, effect: None }
}

fn mark(from_s: f64, to_s: f64, kind: &str, text: &str) -> TimelineMark {
    TimelineMark { from_s, to_s, kind: kind.to_string(), text: text.to_string() }
}

/// A small generator (Knuth's MMIX constants): the same numbers everywhere.
struct Random(u64);

impl Random {
    /// Even between 0 and 1.
    fn next(&mut self) -> f64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 11) as f64 / (1u64 << 53) as f64
    }

    /// Around a mean, with a relative spread.
    fn around(&mut self, mean: f64, spread: f64) -> f64 {
        let sum: f64 = (0..6).map(|_| self.next() - 0.5).sum();
        mean * (1.0 + spread * sum * 1.4)
    }
}
