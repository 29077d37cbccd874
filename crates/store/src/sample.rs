//! A small experiment for tests.

use std::collections::BTreeMap;
use std::path::Path;

use model::experiment::case::{Case, ServerSource, ServerSpec, WorkloadKind, WorkloadSpec};
use model::experiment::plan::{Plan, RunSpec, RunState, StateLine};
use model::load::Window;
use model::load::interval::{Counts, HistogramLine, Interval};
use model::run::RunRecord;
use model::telemetry::event::{Event, EventKind};
use model::telemetry::reading::{Tick, TickSource};

use crate::ExperimentDir;

pub(crate) const GO_UNIX_NS: u64 = 1_700_000_000_123_456_789;

pub(crate) fn case() -> Case {
    Case {
        levels: BTreeMap::from([("workload.clients".to_string(), "8".to_string())]),
        ..Case::new(
            ServerSpec::new(ServerSource::Version("15".parse().unwrap())),
            WorkloadSpec { n_clients: 8, ..WorkloadSpec::new(WorkloadKind::Tpcb, 1) },
            Window { ramp_up_s: 1, measure_s: 2, grace_s: 1 },
        )
    }
}

pub(crate) fn plan() -> Plan {
    let run = |run| RunSpec { run, block: run, case: 1, seed: 40 + u64::from(run) };
    Plan {
        format: model::FORMAT,
        name: "sample".into(),
        title: "A sample ü".into(),
        description: String::new(),
        seed: 4,
        repeats: 2,
        tool_version: "0.1.0".into(),
        made_unix_ns: GO_UNIX_NS,
        precision: None,
        is_comparison: false,
        factors: vec!["workload.clients".into()],
        cases: vec![case()],
        runs: vec![run(1), run(2)],
        ..Plan::default()
    }
}

pub(crate) fn record(run: u32) -> RunRecord {
    let spec = RunSpec { run, block: run, case: 1, seed: 40 + u64::from(run) };
    RunRecord {
        state: RunState::Completed,
        server_is_local: true,
        go_unix_ns: Some(GO_UNIX_NS),
        ..RunRecord::new(spec, case(), "0.1.0")
    }
}

pub(crate) fn state_line(run: u32) -> StateLine {
    StateLine { t_unix_ns: 5, run, state: RunState::Completed, reason: String::new() }
}

pub(crate) fn interval(t: u32) -> Interval {
    Interval {
        t,
        script: 0,
        start_unix_ns: GO_UNIX_NS + u64::from(t) * 1_000_000_000,
        length_ns: 1_000_000_000,
        counts: Counts { due: 3, started: 3, committed: 3, ..Counts::default() },
        errors: BTreeMap::new(),
        statements: vec![3],
        ..Interval::default()
    }
}

pub(crate) fn histograms() -> Vec<HistogramLine> {
    let line = |tag: &str| HistogramLine { tag: tag.into(), max_ns: 1_234_567, data: "HISTFAAAAB".into() };
    vec![line("tpcb"), line("tpcb.service")]
}

pub(crate) fn tick(t: u64) -> Tick {
    Tick {
        source: TickSource::Host,
        end_unix_ns: GO_UNIX_NS + t,
        length_ns: 1_000_000_000,
        values: [("host.cpu.user[cpu0]", 0.1 + 0.2)].into(),
    }
}

pub(crate) fn event(t: u64) -> Event {
    Event::new(GO_UNIX_NS + t, EventKind::ServerLog, "a line\nand \"another\"").with("n", t)
}

/// Writes an experiment with one finished run and one that was cut off.
pub(crate) fn write(path: &Path) {
    let dir = ExperimentDir::create(path, &plan(), "[experiment]\nname = \"sample\"\n").unwrap();
    for run in [1, 2] {
        let writer = dir.begin_run(run).unwrap();
        writer.write_record(&record(run)).unwrap();
        for t in 0..3 {
            let Interval { start_unix_ns, length_ns, .. } = interval(t);
            writer.interval(&interval(t)).unwrap();
            writer.histograms(t, start_unix_ns, length_ns, &histograms()).unwrap();
            writer.tick(&tick(t.into())).unwrap();
            writer.event(&event(t.into())).unwrap();
        }
        if run == 1 {
            writer.finish(&record(run)).unwrap();
        }
        dir.append_state(&state_line(run)).unwrap();
    }
}
