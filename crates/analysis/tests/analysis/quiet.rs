//! Synthetic records: a clean, quiet run in which no rule finds anything, to be disturbed by tests.

use std::collections::BTreeMap;

use base64::Engine;
use hdrhistogram::Histogram;
use hdrhistogram::serialization::{Serializer, V2DeflateSerializer};
use model::experiment::case::{Case, ServerSource, ServerSpec, WorkloadKind, WorkloadSpec};
use model::experiment::plan::{Plan, RunSpec, RunState};
use model::load::course::{LoadCourse, RampUpEnd};
use model::load::drive::{Done, LoadEnding, Ready};
use model::load::interval::{Counts, HistogramLine, Interval};
use model::load::{LoadSpec, Protocol, ScriptSpec, Window};
use model::run::host::{HostRecord, MountRecord};
use model::run::phase::{Phase, PhaseRecord};
use model::run::server::{ServerRecord, Setting};
use model::run::{ExperimentData, RunData, RunRecord, StampedHistogram};
use model::telemetry::event::{Event, EventKind};
use model::telemetry::reading::{Tick, TickSource, key};

pub(crate) const S: u64 = 1_000_000_000;
/// When the load began.
pub(crate) const GO: u64 = 1_760_000_000 * S;
pub(crate) const WINDOW: Window = Window { ramp_up_s: 5, measure_s: 30, grace_s: 10 };
pub(crate) const N_CPUS: u32 = 4;
pub(crate) const N_CLIENTS: u32 = 8;

/// A moment `t_s` seconds after the load began.
pub(crate) fn at(t_s: f64) -> u64 {
    (GO as i128 + (t_s * 1e9) as i128) as u64
}

/// An event `t_s` seconds after the load began.
pub(crate) fn event(t_s: f64, kind: EventKind, text: &str) -> Event {
    Event::new(at(t_s), kind, text)
}

pub(crate) fn case(id: u32) -> Case {
    Case {
        id,
        levels: BTreeMap::from([("workload.clients".to_string(), N_CLIENTS.to_string())]),
        ..Case::new(
            ServerSpec::new(ServerSource::Version("18".parse().unwrap())),
            WorkloadSpec { n_clients: N_CLIENTS, ..WorkloadSpec::new(WorkloadKind::Tpcb, 100) },
            WINDOW,
        )
    }
}

/// Transactions that end in second `t`: about 1000, with noise but without trend.
pub(crate) fn tps(t: u32) -> u64 {
    1000 + [3, 11, 7, 0, 9, 5, 1, 8, 12, 4][(t as usize * 7) % 10]
}

/// A histogram line of these latencies.
pub(crate) fn histogram(tag: &str, values_ns: &[u64]) -> HistogramLine {
    let mut histogram = Histogram::<u64>::new_with_bounds(1, 3_600 * S, 3).unwrap();
    for value in values_ns {
        histogram.record(*value).unwrap();
    }
    let mut bytes = Vec::new();
    V2DeflateSerializer::new().serialize(&histogram, &mut bytes).unwrap();
    let data = base64::engine::general_purpose::STANDARD.encode(bytes);
    HistogramLine { tag: tag.to_string(), max_ns: values_ns.iter().copied().max().unwrap_or(0), data }
}

/// Latencies of second `t`: 5 to 10 ms.
pub(crate) fn latencies_ns(t: u32) -> Vec<u64> {
    (0..200).map(|i| 5_000_000 + 25_000 * i + u64::from(t) * 1_000).collect()
}

pub(crate) fn interval(t: u32, counts: Counts) -> Interval {
    Interval {
        t,
        script: 0,
        start_unix_ns: GO + u64::from(t) * S,
        length_ns: S,
        counts,
        errors: BTreeMap::new(),
        statements: vec![counts.committed],
        ..Interval::default()
    }
}

fn committed(n: u64) -> Counts {
    Counts { due: n, started: n, committed: n, ..Counts::default() }
}

/// One second of the quiet machine, ending 0.3 s after second `t` ended: ticks keep their own time.
fn ticks(t: i64) -> [Tick; 3] {
    let end_unix_ns = (GO as i64 + (t + 1) * S as i64 + 300_000_000) as u64;
    let tick = |source, values| Tick { source, end_unix_ns, length_ns: S, values };
    let mut host = BTreeMap::new();
    for cpu in 0..N_CPUS {
        let mut put = |metric: &str, value: f64| host.insert(key(metric, &format!("cpu{cpu}")), value);
        put("host.cpu.user", 0.30);
        put("host.cpu.system", 0.20);
        put("host.cpu.steal", 0.0);
        put("host.cpu.idle", 0.50);
    }
    let mut put = |name: &str, value: f64| host.insert(name.to_string(), value);
    put("server.cpu.user", 1.0);
    put("server.cpu.system", 0.5);
    put("pgdyno.cpu", 0.01);
    put("host.psi.io.some", 0.02);
    put("host.memory.available", 8e9);
    put("host.memory.dirty", 1e7);
    for (metric, value) in [
        ("disk.reads", 0.0),
        ("disk.writes", 500.0),
        ("disk.read_bytes", 0.0),
        ("disk.write_bytes", 8e6),
        ("disk.read_time", 0.0),
        ("disk.write_time", 0.25),
        ("disk.busy_time", 0.4),
    ] {
        put(&key(metric, "vda"), value);
        put(&key(metric, "vdb"), 2.0 * value);
    }
    let driver = [
        ("driver.cpu.user", 0.2),
        ("driver.cpu.system", 0.25),
        ("driver.thread_cpu[0]", 0.45),
        ("driver.in_flight", 7.0),
        ("driver.backlog", 0.0),
    ];
    let server = [
        ("server.wal_bytes", 3e6),
        ("server.checkpoints[timed]", 0.0),
        ("database.blocks_hit", 9_900.0),
        ("database.blocks_read", 100.0),
        ("server.connections[active]", 6.0),
        ("server.waiting[Lock:transactionid]", 2.0),
        ("server.waiting[LWLock:WALWrite]", 1.0),
    ];
    let named = |values: &[(&str, f64)]| values.iter().map(|(k, v)| (k.to_string(), *v)).collect();
    [
        tick(TickSource::Host, host.into()),
        tick(TickSource::Driver, named(&driver)),
        tick(TickSource::Server, named(&server)),
    ]
}

fn server() -> ServerRecord {
    let settings = [
        ("fsync", "on"),
        ("full_page_writes", "on"),
        ("synchronous_commit", "on"),
        ("shared_buffers", "128MB"),
        ("debug_assertions", "off"),
    ];
    let setting = |value: &str| Setting { value: value.to_string(), source: "default".to_string() };
    ServerRecord {
        version: "PostgreSQL 18.1".to_string(),
        version_num: 180_001,
        settings: settings.iter().map(|(name, value)| (name.to_string(), setting(value))).collect(),
        database_bytes: 1_500 << 20,
        ..ServerRecord::default()
    }
}

fn host() -> HostRecord {
    let mount = MountRecord { device: "vda".to_string(), ..MountRecord::default() };
    HostRecord {
        n_cpus: N_CPUS,
        memory_bytes: 16 << 30,
        mounts: BTreeMap::from([("data".to_string(), mount.clone()), ("wal".to_string(), mount)]),
        ..HostRecord::default()
    }
}

fn load(case: &Case, seed: u64) -> LoadSpec {
    let script = ScriptSpec {
        name: "tpcb".to_string(),
        tag: "tpcb".to_string(),
        weight: 1,
        source: "SELECT 1;".to_string(),
    };
    LoadSpec {
        format: model::FORMAT,
        target: BTreeMap::new(),
        scripts: vec![script],
        defines: BTreeMap::new(),
        protocol: Protocol::Prepared,
        n_clients: case.workload.n_clients,
        n_threads: 1,
        pace: case.workload.pace,
        window: case.window,
        seed,
        ..LoadSpec::default()
    }
}

fn record(spec: RunSpec) -> RunRecord {
    let case = case(spec.case);
    let phase = |phase, from_s, to_s| PhaseRecord {
        phase,
        start_unix_ns: at(from_s),
        end_unix_ns: at(to_s),
        detail: BTreeMap::new(),
    };
    RunRecord {
        format: model::FORMAT,
        tool_version: "0.1.0".to_string(),
        load: Some(load(&case, spec.seed)),
        spec,
        case,
        state: RunState::Completed,
        reason: String::new(),
        server: Some(server()),
        host: Some(host()),
        driver_host: None,
        nodes: Vec::new(),
        outage: None,
        pooler: None,
        plans: Vec::new(),
        applied: None,
        answers: Vec::new(),
        hooks: Vec::new(),
        concurrent: Vec::new(),
        eyes: None,
        server_is_local: true,
        ceilings: Default::default(),
        phases: vec![
            phase(Phase::Restore, -9.0, -4.0),
            phase(Phase::RampUp, 0.0, 5.0),
            phase(Phase::Measure, 5.0, 35.0),
            phase(Phase::Drain, 35.0, 35.2),
        ],
        go_unix_ns: Some(GO),
        ready: Some(Ready {
            build_profile: "release".to_string(),
            opt_level: "3".to_string(),
            statements: vec![vec!["UPDATE pgbench_accounts".to_string()]],
            ..Ready::default()
        }),
        drivers: Vec::new(),
        connections: Vec::new(),
        done: None,
        search: None,
        course: None,
        repeat: None,
        rows_before: BTreeMap::new(),
        fingerprint: None,
        rows_after: Default::default(),
        violations_before: Default::default(),
        violations_after: Default::default(),
        residency: Default::default(),
        touched: BTreeMap::new(),
        survey: None,
        statements: BTreeMap::new(),
        replay: None,
        telemetry_unavailable: BTreeMap::new(),
    }
}

/// A clean, quiet run: 5 s of ramp-up, 30 s of measure, 0.2 s of drain.
pub(crate) fn run(number: u32) -> RunData {
    run_of(RunSpec { run: number, block: number, case: 1, seed: 42 })
}

pub(crate) fn run_of(spec: RunSpec) -> RunData {
    let mut data = RunData {
        record: record(spec),
        intervals: (0..35).map(|t| interval(t, committed(tps(t)))).collect(),
        histograms: Vec::new(),
        ticks: (-2..36).flat_map(ticks).collect(),
        events: Vec::new(),
        imports: Vec::new(),
        executions: Vec::new(),
        plans: Vec::new(),
        damage: Vec::new(),
    };
    data.intervals.push(Interval { length_ns: S / 5, ..interval(35, committed(N_CLIENTS.into())) });
    for t in 0..36 {
        for tag in ["tpcb", "tpcb.service", "tpcb.0"] {
            data.histograms.push(StampedHistogram { t, line: histogram(tag, &latencies_ns(t)) });
        }
    }
    finish(&mut data);
    data
}

/// Gives the run the totals that a driver would have reported for its intervals.
pub(crate) fn finish(data: &mut RunData) {
    let mut counts = Counts::default();
    for interval in &data.intervals {
        counts += interval.counts;
    }
    data.record.done = Some(Done {
        ending: LoadEnding::Completed,
        end_unix_ns: at(35.2),
        counts,
        backlog: 0,
        errors: BTreeMap::new(),
        messages: BTreeMap::new(),
        measured_by_client: vec![3_750; N_CLIENTS as usize],
        clients_lost: 0,
        connect_ns_total: 0.0,
        n_connects: 0,
        n_lost: 0,
        outage_ns_total: 0.0,
        late_ns: 0,
        lines_dropped: 0,
        committed_by_slice: Vec::new(),
        replayed: None,
        sessions: None,
        unanswered: 0,
        unanswered_ns: 0,
    });
}

/// The ends of the run's window were found while it ran.
pub(crate) fn found(data: &mut RunData, ramp_up_end: RampUpEnd, extended_s: u32) {
    data.record.course = Some(LoadCourse { window: WINDOW, ramp_up_end: Some(ramp_up_end), extended_s });
}

/// Changes a metric's value in all ticks that end between two times.
pub(crate) fn set_metric(data: &mut RunData, name: &str, from_s: f64, to_s: f64, value: f64) {
    let span = at(from_s)..=at(to_s);
    for tick in data.ticks.iter_mut().filter(|tick| span.contains(&tick.end_unix_ns)) {
        for (_, old) in tick.values.iter_mut().filter(|(key, _)| key.split('[').next() == Some(name)) {
            *old = value;
        }
    }
}

/// Changes what was committed in a span of seconds, totals included.
pub(crate) fn set_committed(data: &mut RunData, seconds: std::ops::Range<u32>, n: impl Fn(u32) -> u64) {
    for interval in data.intervals.iter_mut().filter(|interval| seconds.contains(&interval.t)) {
        interval.counts = committed(n(interval.t));
    }
    finish(data);
}

/// An experiment of one case and `repeats` planned runs, of which these were begun.
pub(crate) fn experiment(repeats: u32, runs: Vec<RunData>) -> ExperimentData {
    let spec = |run| RunSpec { run, block: run, case: 1, seed: 42 };
    ExperimentData {
        profiles: Vec::new(),
        plan: Plan {
            format: model::FORMAT,
            name: "test".to_string(),
            title: String::new(),
            description: String::new(),
            seed: 42,
            repeats,
            tool_version: "0.1.0".to_string(),
            made_unix_ns: GO,
            precision: None,
            is_comparison: false,
            factors: vec!["workload.clients".to_string()],
            cases: vec![case(1)],
            runs: (1..=repeats).map(spec).collect(),
            ..Plan::default()
        },
        experiment_toml: String::new(),
        state: Vec::new(),
        runs,
    }
}
