//! Whole experiments: which runs count, and that any record at all can be explained.

use analysis::finding::Grade;
use analysis::study;
use analysis::summary::{LatencySummary, Study};
use model::experiment::case::WorkloadKind;
use model::experiment::plan::{RunState, StateLine};
use model::experiment::script::ScriptSurvey;
use model::load::ScriptSpec;
use model::load::drive::LoadEnding;
use model::load::interval::Interval;
use model::run::{ExperimentData, RunData, StampedHistogram};
use model::telemetry::event::EventKind;

use crate::experiments::built_as;
use crate::quiet::{self, S, event, set_committed, tps};

/// Every figure of a study, by a name for messages.
fn figures(study: &Study) -> Vec<(String, f64)> {
    let mut all = Vec::new();
    let mut put = |name: String, value: Option<f64>| all.extend(value.map(|value| (name, value)));
    let mean = |latency: Option<LatencySummary>| latency.map(|latency| latency.mean_ns);
    for case in &study.cases {
        put(format!("case {} median", case.case.id), case.tps_median);
        put(format!("case {} cv", case.case.id), case.tps_cv);
        put(format!("case {} latency", case.case.id), mean(case.latency));
    }
    for run in &study.runs {
        let name = |what: &str| format!("run {} {what}", run.run);
        put(name("tps"), run.tps);
        put(name("measured"), Some(run.measured_s));
        put(name("fairness"), run.fairness);
        put(name("latency"), mean(run.latency));
        let r = &run.resources;
        for value in [
            r.host_busy,
            r.busiest_cpu,
            r.steal,
            r.server_cpu,
            r.driver_cpu,
            r.foreign_cpu,
            r.driver_cpu_us_per_transaction,
            r.server_cpu_us_per_transaction,
            r.wal_bytes_per_s,
            r.wal_bytes_per_transaction,
            r.cache_hit,
            r.disk_busy,
        ] {
            put(name("resource"), value);
        }
        run.seconds.iter().for_each(|second| put(name("second"), Some(second.tps)));
        let points = run.series.iter().flat_map(|series| &series.points);
        points.for_each(|(t, value)| put(name("point"), Some(t + value)));
        run.marks.iter().for_each(|mark| put(name("mark"), Some(mark.from_s + mark.to_s)));
    }
    all
}

fn explain(data: &ExperimentData) -> Study {
    let study = study(data);
    for (name, value) in figures(&study) {
        assert!(value.is_finite(), "{name} is {value}");
    }
    let findings = study.runs.iter().flat_map(|run| &run.findings);
    let findings = findings.chain(study.cases.iter().flat_map(|case| &case.findings)).chain(&study.findings);
    for finding in findings {
        let words = finding.evidence.to_lowercase();
        assert!(!words.contains("nan ") && !words.contains("inf "), "{}: {}", finding.id, finding.evidence);
    }
    study
}

#[test]
fn a_case_is_the_median_of_its_runs_and_the_sum_of_their_histograms() {
    let mut runs: Vec<RunData> = (1..=3).map(quiet::run).collect();
    set_committed(&mut runs[0], 5..35, |_| 1010);
    set_committed(&mut runs[1], 5..35, |_| 1000);
    set_committed(&mut runs[2], 5..35, |_| 1005);
    let study = explain(&quiet::experiment(3, runs));
    let case = &study.cases[0];
    assert_eq!((case.n_runs, case.tps_median), (3, Some(1005.0)));
    assert_eq!(case.tps, [1010.0, 1000.0, 1005.0]);
    assert!((case.tps_cv.unwrap() - 5.0 / 1005.0).abs() < 1e-12);
    assert_eq!(case.latency.unwrap().n, 3 * 30 * 200);
    assert_eq!(case.statements[0].service.n, 3 * 30 * 200);
    assert_eq!((case.grade, study.partial), (Grade::Valid, None));
    assert_eq!(case.label, "8 clients");
}

#[test]
fn one_client_is_no_plural() {
    let mut case = quiet::case(1);
    case.levels.clear();
    case.workload.n_clients = 1;
    assert_eq!(case.label(), "1 client");
    case.levels = [("workload.clients".to_string(), "1".to_string())].into();
    assert_eq!(case.label(), "1 client");
}

#[test]
fn void_and_partial_runs_are_shown_and_not_counted() {
    let mut runs: Vec<RunData> = (1..=3).map(quiet::run).collect();
    runs[0].events.push(event(12.0, EventKind::ConnectionLost, "57P01"));
    set_committed(&mut runs[0], 5..35, |_| 10);
    runs[2].record.state = RunState::Partial;
    runs[2].record.reason = "interrupted".to_string();
    runs[2].record.done.as_mut().unwrap().ending = LoadEnding::Stopped;
    runs[2].intervals.truncate(20);
    let study = explain(&quiet::experiment(3, runs));
    let case = &study.cases[0];
    assert_eq!(case.n_runs, 1);
    assert_eq!(case.tps_median, Some((5..35).map(tps).sum::<u64>() as f64 / 30.0));
    assert_eq!(case.latency.unwrap().n, 30 * 200);
    assert_eq!(case.tps_cv, None);
    assert_eq!(study.runs.len(), 3);
    assert!(study.runs[2].tps.is_some());
    let grades: Vec<Grade> = study.runs.iter().map(|run| run.grade).collect();
    assert_eq!(grades, [Grade::Void, Grade::Valid, Grade::Void]);
    assert_eq!(study.partial.as_deref(), Some("1 of 3 runs is missing (1 ended early): interrupted"));
}

#[test]
fn a_case_without_a_run_is_not_measured_and_one_of_void_runs_is_void() {
    let mut data = quiet::experiment(1, vec![quiet::run(1)]);
    data.plan.cases.push(quiet::case(2));
    let study = explain(&data);
    let case = &study.cases[1];
    assert_eq!((case.n_started, case.verdict(), case.tps_median), (0, "not measured", None));
    assert_eq!((case.findings.as_slice(), case.grade), (&[][..], Grade::Void));
    data.runs[0].record.state = RunState::Failed;
    let study = explain(&data);
    assert_eq!((study.cases[0].verdict(), study.cases[1].verdict()), ("void", "not measured"));
}

#[test]
fn a_doubtful_run_makes_its_case_doubtful() {
    let mut runs: Vec<RunData> = (1..=3).map(quiet::run).collect();
    runs[1].events.push(event(-3.0, EventKind::DiskNearlyFull, "96 MB free on `/data`"));
    assert_eq!(explain(&quiet::experiment(3, runs)).cases[0].grade, Grade::Doubtful);
}

#[test]
fn an_experiment_without_a_completed_run_can_be_explained() {
    let mut cut = quiet::run(1);
    cut.record.state = RunState::Started;
    cut.record.done = None;
    cut.intervals.truncate(2);
    let mut bare = quiet::run(2);
    bare.record.state = RunState::Failed;
    (bare.record.load, bare.record.server, bare.record.host) = (None, None, None);
    (bare.record.done, bare.record.ready, bare.record.go_unix_ns) = (None, None, None);
    bare.record.phases.clear();
    (bare.intervals, bare.histograms, bare.ticks) = (Vec::new(), Vec::new(), Vec::new());
    let mut data = quiet::experiment(9, vec![cut, bare]);
    let line =
        |state, reason: &str| StateLine { t_unix_ns: quiet::GO, run: 0, state, reason: reason.to_string() };
    data.state.push(line(RunState::Partial, "interrupted"));
    let study = explain(&data);
    let expected = "9 of 9 runs are missing (1 ended early, 1 failed, 7 not started): interrupted";
    assert_eq!(study.partial.as_deref(), Some(expected));
    assert_eq!((study.cases[0].grade, study.cases[0].tps_median), (Grade::Void, None));
    assert!(study.runs.iter().all(|run| run.grade == Grade::Void));

    // Taken up again, and killed: the first interruption is no reason any more.
    data.state.push(line(RunState::Started, ""));
    let again = explain(&data).partial.unwrap();
    assert!(again.ends_with("7 not started): it was cut off, or has not ended yet"), "{again}");

    let study = explain(&quiet::experiment(9, Vec::new()));
    assert_eq!(study.partial.as_deref(), Some("9 of 9 runs are missing (9 not started)"));
    explain(&quiet::experiment(0, Vec::new()));
}

#[test]
fn odd_records_are_explained_without_a_panic() {
    let odd: &[fn(&mut RunData)] = &[
        |data| data.record.go_unix_ns = None,
        |data| data.record.go_unix_ns = Some(0),
        |data| data.record.load = None,
        |data| data.record.host = None,
        |data| data.record.done = None,
        |data| data.intervals.reverse(),
        |data| data.intervals.iter_mut().for_each(|i| i.length_ns = 0),
        |data| data.intervals.iter_mut().for_each(|i| i.counts = Default::default()),
        |data| data.intervals.iter_mut().for_each(|i| i.start_unix_ns = u64::MAX),
        |data| data.ticks.iter_mut().for_each(|tick| tick.length_ns = 0),
        |data| data.ticks.iter_mut().for_each(|tick| tick.length_ns = 1000 * S),
        |data| data.ticks.iter_mut().for_each(|tick| tick.end_unix_ns = 0),
        |data| data.ticks.iter_mut().for_each(|tick| tick.values.clear()),
        |data| data.ticks.reverse(),
        |data| data.events.push(event(12.0, EventKind::CheckpointEnd, "x").with("total_s", "NaN")),
        |data| data.events.push(event(12.0, EventKind::AutovacuumEnd, "x").with("elapsed_s", "inf")),
        |data| data.events.push(event(12.0, EventKind::DriverPaused, "x").with("pause_s", "-3")),
        |data| data.record.done.as_mut().unwrap().measured_by_client = vec![0; 8],
        |data| data.record.case.workload.n_clients = 0,
        |data| data.record.host.as_mut().unwrap().n_cpus = 0,
        |data| data.record.spec.case = 77,
        |data| data.histograms.iter_mut().for_each(|stamped| stamped.line.tag = "..".to_string()),
        |data| quiet::set_metric(data, "host.cpu.user", -10.0, 50.0, f64::NAN),
        |data| quiet::set_metric(data, "database.blocks_hit", -10.0, 50.0, f64::INFINITY),
    ];
    for disturb in odd {
        let mut data = quiet::run(1);
        disturb(&mut data);
        explain(&quiet::experiment(1, vec![data]));
    }
}

#[test]
fn scripts_are_distinguished_and_reading_counts_as_no_write() {
    let mut run = quiet::run(1);
    let load = run.record.load.as_mut().unwrap();
    let first = &mut load.scripts[0];
    first.weight = 3;
    load.scripts.push(ScriptSpec {
        name: "look.sql".into(),
        tag: "2-look_sql".into(),
        weight: 1,
        source: "x".into(),
    });
    let second: Vec<_> = run.intervals.iter().map(|i| Interval { script: 1, ..i.clone() }).collect();
    run.intervals.extend(second);
    let slow: Vec<u64> = vec![50_000_000; 40];
    for t in 0..36 {
        run.histograms.push(StampedHistogram { t, line: quiet::histogram("2-look_sql", &slow) });
    }
    quiet::finish(&mut run);
    run.record.case.workload.kind = WorkloadKind::Scripts;
    run.record.survey = Some(ScriptSurvey::default());
    let explained = explain(&quiet::experiment(1, vec![run.clone()]));
    let scripts = &explained.cases[0].scripts;
    let brief: Vec<_> =
        scripts.iter().map(|s| (s.name.as_str(), s.weight, s.share_planned, s.share)).collect();
    assert_eq!(brief, [("tpcb", 3, Some(0.75), Some(0.5)), ("look.sql", 1, Some(0.25), Some(0.5))]);
    let measured: u64 = (5..35).map(tps).sum();
    assert_eq!(scripts[1].counts.committed, measured);
    assert_eq!(scripts[1].tps, Some(measured as f64 / 30.0));
    let p50 = |n: usize| scripts[n].latency.unwrap().p50_ns;
    assert!(p50(0) < 10_000_000 && (49_900_000..50_100_000).contains(&p50(1)), "{} {}", p50(0), p50(1));

    let has_rule = |study: &Study| study.cases[0].findings.iter().any(|f| f.id == "no-checkpoint");
    assert!(!has_rule(&explained), "the server saw no write in them");
    run.record.survey.as_mut().unwrap().written.insert("t".into());
    assert!(has_rule(&explain(&quiet::experiment(1, vec![run]))));
}

#[test]
fn cases_may_have_servers_of_their_own_and_others_servers_are_not_ours() {
    let ids =
        |data: &ExperimentData| study(data).findings.iter().map(|finding| finding.id).collect::<Vec<&str>>();
    let mut data = quiet::experiment(3, (1..=3).map(quiet::run).collect());
    built_as(&mut data, ["a", "a", "b"]);
    assert_eq!(ids(&data), ["machine-changed", "closed-loop"]);
    let mut other_case = data.clone();
    other_case.plan.cases.push(quiet::case(2));
    other_case.runs[2].record.spec.case = 2;
    assert_eq!(ids(&other_case), ["closed-loop"]);
    for run in &mut data.runs {
        run.record.case.server.source = model::experiment::case::ServerSource::Url(Default::default());
    }
    assert_eq!(ids(&data), ["closed-loop"]);
}
