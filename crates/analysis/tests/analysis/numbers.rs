//! Numbers: what counts, what is added, what is aligned.

use analysis::case::factors::{self, Counterparts};
use analysis::case::{labels, money};
use analysis::study;
use analysis::summary::{CaseSummary, LatencySummary, RunSummary, Study};
use model::experiment::plan::RunState;
use model::load::drive::LoadEnding;
use model::load::histogram::HistogramSum;
use model::load::interval::Counts;
use model::run::RunData;
use model::telemetry::event::EventKind;
use model::telemetry::reading::TickSource;

use crate::quiet::{self, S, event, histogram, latencies_ns, set_metric, tps};

fn summary_of(data: RunData) -> RunSummary {
    study(&quiet::experiment(1, vec![data])).runs.into_iter().next().unwrap()
}

fn close(actual: Option<f64>, expected: f64) {
    let actual = actual.expect("a figure");
    assert!((actual - expected).abs() <= 1e-6 * expected.abs().max(1.0), "{actual} is not {expected}");
}

#[test]
fn only_the_seconds_of_the_window_count() {
    let summary = summary_of(quiet::run(1));
    let committed: u64 = (5..35).map(tps).sum();
    assert_eq!(summary.measured_s, 30.0);
    assert_eq!(summary.counts.committed, committed);
    close(summary.tps, committed as f64 / 30.0);
    assert_eq!(summary.seconds.len(), 36);
    assert_eq!(summary.seconds.iter().filter(|second| second.measured).count(), 30);
    close(Some(summary.seconds[35].tps), 40.0);
    assert!(summary.total.identity_holds(0));
    assert_eq!(summary.latency.unwrap().n, 30 * 200);
    assert_eq!(summary.statements[0].label, "UPDATE pgbench_accounts");
    assert_eq!(summary.fairness, Some(1.0));
    assert_eq!(summary.lag, None);
}

#[test]
fn throughput_divides_by_the_true_length_of_the_seconds() {
    let mut data = quiet::run(1);
    for interval in &mut data.intervals[5..35] {
        interval.length_ns = S + S / 500;
    }
    let summary = summary_of(data);
    close(summary.tps, summary.counts.committed as f64 / (30.0 * 1.002));
}

#[test]
fn two_scripts_share_their_seconds() {
    let mut data = quiet::run(1);
    let mut second = data.intervals.clone();
    second.iter_mut().for_each(|interval| interval.script = 1);
    data.intervals.extend(second);
    quiet::finish(&mut data);
    let summary = summary_of(data);
    assert_eq!(summary.measured_s, 30.0);
    close(summary.tps, 2.0 * (5..35).map(tps).sum::<u64>() as f64 / 30.0);
}

#[test]
fn histograms_are_added_not_averaged() {
    let mut sum = HistogramSum::new();
    let mut direct = Vec::new();
    for t in 5..35 {
        sum.add(&HistogramSum::read(&histogram("x", &latencies_ns(t))).unwrap());
        direct.extend(latencies_ns(t));
    }
    let one = HistogramSum::read(&histogram("x", &direct)).unwrap();
    assert_eq!(LatencySummary::from_histogram(&sum), LatencySummary::from_histogram(&one));
    let mut twice = HistogramSum::new();
    twice.add(&sum);
    twice.add(&one);
    let (twice, once) =
        (LatencySummary::from_histogram(&twice).unwrap(), LatencySummary::from_histogram(&one).unwrap());
    assert_eq!(
        (twice.n, twice.p50_ns, twice.p99_ns, twice.max_ns),
        (2 * once.n, once.p50_ns, once.p99_ns, once.max_ns)
    );

    direct.sort_unstable();
    let rank = |q: f64| direct[((q * direct.len() as f64).ceil() as usize).clamp(1, direct.len()) - 1] as f64;
    for (q, ns) in [(0.5, once.p50_ns), (0.95, once.p95_ns), (0.99, once.p99_ns)] {
        assert!((ns as f64 / rank(q) - 1.0).abs() < 2e-3, "{q}: {ns} is not {}", rank(q));
    }
    assert_eq!(Some(&once.max_ns), direct.last());
    assert!(once.p999_ns <= once.max_ns);
}

#[test]
fn short_latencies_keep_three_digits_and_their_largest_value() {
    let mut sum = HistogramSum::new();
    for second in 0..3 {
        // Around 30 us, as a select from memory takes.
        let values: Vec<u64> = (0..1001).map(|i| 25_003 + 10 * i + second).collect();
        sum.add(&HistogramSum::read(&histogram("x", &values)).unwrap());
    }
    let summary = LatencySummary::from_histogram(&sum).unwrap();
    let error = (summary.p50_ns as f64 / 30_004.0 - 1.0).abs();
    assert!(error < 0.001, "{} is {error} off", summary.p50_ns);
    assert_eq!(summary.max_ns, 35_005);
}

#[test]
fn an_empty_histogram_has_no_summary_and_garbage_is_an_error() {
    assert_eq!(LatencySummary::from_histogram(&HistogramSum::new()), None);
    let mut line = histogram("x", &[]);
    assert_eq!(LatencySummary::from_histogram(&HistogramSum::read(&line).unwrap()), None);
    for garbage in ["", "?", "AAAA", "HISTFAAA"] {
        line.data = garbage.to_string();
        assert!(HistogramSum::read(&line).unwrap_err().contains("`x`"), "{garbage}");
    }
    let whole = histogram("x", &latencies_ns(0)).data;
    for length in 0..whole.len() {
        line.data = whole[..length].to_string();
        let _ = HistogramSum::read(&line);
    }
}

#[test]
fn a_partial_run_counts_its_full_seconds_before_the_cut() {
    let mut data = quiet::run(1);
    data.record.state = RunState::Partial;
    data.record.done.as_mut().unwrap().ending = LoadEnding::Stopped;
    data.intervals.truncate(15);
    data.intervals[14].length_ns = 400_000_000;
    let summary = summary_of(data);
    assert_eq!(summary.measured_s, 9.0);
    close(summary.tps, (5..14).map(tps).sum::<u64>() as f64 / 9.0);
}

#[test]
fn a_run_that_was_cut_in_the_ramp_up_measured_nothing() {
    let mut data = quiet::run(1);
    data.record.state = RunState::Started;
    data.record.done = None;
    data.intervals.truncate(3);
    let summary = summary_of(data);
    assert_eq!((summary.measured_s, summary.tps, summary.latency), (0.0, None, None));
    assert_eq!(summary.seconds.len(), 3);
    assert_eq!(summary.resources.host_busy, None);
}

#[test]
fn resources_are_those_of_the_measure() {
    let mut data = quiet::run(1);
    let summary = summary_of(data.clone());
    let committed = summary.counts.committed as f64;
    let used = &summary.resources;
    assert_eq!(used.n_cpus, Some(4));
    close(used.host_busy, 0.5);
    close(used.busiest_cpu, 0.5);
    close(used.steal, 0.0);
    close(used.server_cpu, 1.5);
    close(used.driver_cpu, 0.45);
    close(used.driver_busiest_thread, 0.45);
    close(used.foreign_cpu, 2.0 - 1.5 - 0.45 - 0.01);
    close(used.server_cpu_us_per_transaction, 1.5 * 30.0 * 1e6 / committed);
    close(used.wal_bytes_per_s, 3e6);
    close(used.wal_bytes_per_transaction, 3e6 * 30.0 / committed);
    close(used.wal_bytes_per_minute, 180e6);
    // What the server did not count is unknown, and not zero.
    assert_eq!((used.full_page_images_per_s, used.new_pages_share_per_s), (None, None));
    assert_eq!(used.wal_directory_bytes_max, None);
    close(used.cache_hit, 0.99);
    close(used.disk_write_bytes_per_s, 8e6);
    close(used.disk_busy, 0.4);

    // A tick that reaches over the start of the measurement counts in proportion: this one by 0.3 of its second.
    set_metric(&mut data, "server.wal_bytes", 5.2, 5.4, 13e6);
    close(summary_of(data).resources.wal_bytes_per_s, 3e6 + 0.3 * 10e6 / 30.0);
}

/// Bytes of a MiB, the unit of series of sizes.
const MIB: f64 = 1_048_576.0;

#[test]
fn series_lie_on_the_time_line_of_the_load() {
    let summary = summary_of(quiet::run(1));
    let find = |panel: &str, name: &str| {
        let found = summary.series.iter().find(|series| series.panel == panel && series.name == name);
        found.unwrap_or_else(|| panic!("no series {panel}/{name}"))
    };
    let foreign = find("cpu", "foreign");
    assert_eq!(foreign.unit, "%");
    assert!(foreign.points.iter().all(|(_, value)| (*value - 1.0).abs() < 1e-6), "{:?}", foreign.points);
    assert_eq!(find("cpu", "cpu3").points.len(), foreign.points.len());
    assert_eq!(find("wal", "WAL written").points[0], (-1.2, 3e6 / MIB));
    assert_eq!(find("disk", "data+wal write latency").points[0].1, 0.5);
    assert_eq!(find("server", "active").points[0].1, 6.0);
    assert_eq!(find("server", "waiting").points[0], (-0.7, 3.0));
    assert_eq!(find("driver", "in flight").points[0].1, 7.0);
    assert!(!summary.series.iter().any(|series| series.name == "due, not started"));
    assert_eq!(find("waits", "Lock:transactionid").points[0].1, 2.0);
    assert_eq!(find("memory", "available").points[0].1, 8e9 / MIB);
    assert_eq!(find("psi", "I/O, some").points[0].1, 2.0);
    assert!(!summary.series.iter().any(|series| series.name.contains("vdb")));
}

#[test]
fn marks_pair_starts_with_ends_and_merge_sightings() {
    let mut data = quiet::run(1);
    data.events = vec![
        event(33.0, EventKind::CheckpointStart, "starting").with("cause", "time"),
        event(8.0, EventKind::CheckpointEnd, "complete").with("total_s", 6.0).with("buffers", 10),
        event(9.0, EventKind::CheckpointCounted, "counted too"),
        event(20.0, EventKind::AutovacuumEnd, "vacuum").with("elapsed_s", 2.0).with("table", "t"),
        event(19.0, EventKind::AutovacuumSeen, "the same one"),
        event(25.0, EventKind::AutovacuumSeen, "another"),
        event(26.0, EventKind::AutovacuumSeen, "still there"),
        event(15.0, EventKind::ConnectionLost, "one"),
        event(15.1, EventKind::ConnectionLost, "two"),
        event(-500.0, EventKind::ServerTrouble, "long ago"),
    ];
    let marks = summary_of(data).marks;
    let shape: Vec<(&str, f64, f64)> = marks
        .iter()
        .map(|mark| (mark.kind.as_str(), mark.from_s, (mark.to_s * 10.0).round() / 10.0))
        .collect();
    let expected = [
        ("checkpoint", 2.0, 8.0),
        ("trouble", 15.0, 15.1),
        ("autovacuum", 18.0, 20.0),
        ("autovacuum", 25.0, 26.0),
        ("checkpoint", 33.0, 35.2),
    ];
    assert_eq!(shape, expected);
    assert_eq!(marks[0].text, "checkpoint, 10 buffers in 6.0 s");
    assert_eq!(marks[1].text, "2 connections lost");
}

#[test]
fn the_identity_of_counts_is_what_its_rule_says() {
    let holds = Counts {
        due: 10,
        skipped: 1,
        started: 9,
        committed: 4,
        failed: 2,
        expected: 1,
        unknown: 1,
        aborted: 1,
        retried: 4,
        ..Counts::default()
    };
    assert!(holds.identity_holds(0));
    let broken: [fn(&mut Counts); 8] = [
        |c| c.due += 1,
        |c| c.skipped += 1,
        |c| c.started += 1,
        |c| c.committed += 1,
        |c| c.failed += 1,
        |c| c.expected += 1,
        |c| c.unknown += 1,
        |c| c.aborted += 1,
    ];
    for breaks in broken {
        let mut counts = holds;
        breaks(&mut counts);
        let mut data = quiet::run(1);
        data.record.done.as_mut().unwrap().counts = counts;
        let summary = summary_of(data);
        assert!(summary.findings.iter().any(|finding| finding.id == "counts-broken"), "{counts:?}");
    }
}

#[test]
fn a_load_that_ends_by_its_number_of_transactions_counts_to_its_last_one() {
    let mut data = quiet::run(1);
    data.record.case.workload.transactions = Some(1000);
    data.record.case.window = model::load::Window { ramp_up_s: 0, measure_s: 60, grace_s: 0 };
    data.record.load.as_mut().unwrap().window = data.record.case.window;
    data.intervals.truncate(10);
    data.intervals[9].length_ns = S / 4;
    let summary = summary_of(data);
    assert_eq!(summary.measured_s, 9.25);
    close(summary.tps, (0..10).map(tps).sum::<u64>() as f64 / 9.25);
}

/// Three client counts on two versions: the second is half as fast and falls after 8 clients.
fn two_versions() -> Study {
    let mut data = quiet::experiment(1, vec![quiet::run(1)]);
    let mut study = study(&data);
    let case = study.cases.remove(0);
    data.plan.factors = vec!["server.version".to_string(), "workload.clients".to_string()];
    study.plan = data.plan;
    for (version, tps) in [("12", [100.0, 800.0, 800.0]), ("18", [50.0, 400.0, 100.0])] {
        for (n_clients, tps) in [1, 8, 64].into_iter().zip(tps) {
            let mut case = case.clone();
            case.case.id = study.cases.len() as u32 + 1;
            case.case.workload.n_clients = n_clients;
            case.case.levels =
                [("server.version", version.to_string()), ("workload.clients", n_clients.to_string())]
                    .map(|(key, level)| (key.to_string(), level))
                    .into();
            (case.tps, case.tps_median) = (vec![tps, tps], Some(tps));
            study.cases.push(case);
        }
    }
    study
}

#[test]
fn factors_are_set_against_a_baseline_and_pooled_over_the_others() {
    let mut study = two_versions();
    assert_eq!(factors::baseline(&study).unwrap().case.id, 1);
    study.plan.baseline = 2;
    let baseline = factors::baseline(&study).unwrap();
    close(factors::percent_of(&study.cases[4], baseline), 50.0);
    close(factors::percent_of(&study.cases[5], baseline), 12.5);
    assert_eq!(Counterparts::new(&study, baseline).of(&study.cases[5]).unwrap().case.id, 2);
    study.plan.baseline_factors = vec!["server.version".to_string()];
    let baseline = factors::baseline(&study).unwrap();
    let same_clients = Counterparts::new(&study, baseline).of(&study.cases[5]).unwrap();
    assert_eq!(same_clients.case.id, 3);
    close(factors::percent_of(&study.cases[5], same_clients), 12.5);
    study.cases[2].tps_median = None;
    let baseline = factors::baseline(&study).unwrap();
    assert!(
        Counterparts::new(&study, baseline).of(&study.cases[5]).is_none(),
        "one with other clients would mislead"
    );
    study.cases[2].tps_median = Some(800.0);
    let scaling = factors::scaling(&study);
    let found: Vec<(u32, f64, f64)> =
        scaling.iter().map(|s| (s.peak.0, s.growth(), s.drop_factor())).collect();
    // Of equal medians the peak is the one with more clients, and nothing falls.
    assert_eq!(found, [(64, 8.0, 1.0), (8, 8.0, 4.0)]);
    assert_eq!(scaling[1].others["server.version"], "18");
    let pools = factors::pools(&study, "server.version");
    assert_eq!(pools.len(), 2);
    assert_eq!(pools[1].tps, [50.0, 50.0, 400.0, 400.0, 100.0, 100.0]);
}

#[test]
fn what_is_zipped_with_the_baselines_factor_goes_along_with_it() {
    let mut study = two_versions();
    (study.plan.baseline, study.plan.baseline_factors) = (1, vec!["server.version".to_string()]);
    study.plan.factors.push("server.settings.jit".to_string());
    for (n, case) in study.cases.iter_mut().enumerate() {
        let jit = if n < 3 { "off" } else { "on" };
        case.case.levels.insert("server.settings.jit".to_string(), jit.to_string());
    }
    assert_eq!(factors::chosen(&study), ["server.version", "server.settings.jit"]);
    let baseline = factors::baseline(&study).unwrap();
    assert_eq!(Counterparts::new(&study, baseline).of(&study.cases[5]).unwrap().case.id, 3);
}

#[test]
fn without_a_baseline_a_case_is_compared_with_one_of_as_many_clients() {
    let mut study = two_versions();
    let against = |study: &Study| -> Vec<Option<u32>> {
        let baseline = factors::baseline(study).unwrap();
        let id = |case: &CaseSummary| Some(Counterparts::new(study, baseline).of(case)?.case.id);
        study.cases.iter().map(id).collect()
    };
    assert_eq!(factors::chosen(&study), ["server.version"]);
    assert_eq!(against(&study), [1, 2, 3, 1, 2, 3].map(Some));
    study.cases[1].tps_median = None;
    assert_eq!(against(&study)[4], None, "with other clients it would say nothing");
    study.plan.factors = vec!["workload.clients".to_string()];
    assert!(factors::chosen(&study).is_empty());
    assert_eq!(against(&study)[2], Some(1), "of clients alone, the first case is the baseline");
    study.plan.factors = vec!["server.version".to_string()];
    assert_eq!(against(&study)[4], Some(1));
}

#[test]
fn transactions_have_a_price_where_the_target_has_one() {
    let mut study = two_versions();
    assert_eq!(money::of_case(&study.cases[0]), None);
    assert!(money::frontier(&study).is_empty());
    study.cases[1].case.server.target = Some(model::experiment::target::TargetSpec {
        price_per_hour: Some(0.5),
        currency: Some("EUR".to_string()),
        ..Default::default()
    });
    let of_one = money::of_case(&study.cases[1]).unwrap();
    assert_eq!((of_one.transactions(), of_one.currency), (800.0 * 7200.0, "EUR"));
    assert_eq!(money::frontier(&study), [2]);
    study.cases[2].case.server.target = Some(model::experiment::target::TargetSpec {
        price_per_hour: Some(0.1),
        currency: Some("USD".to_string()),
        ..Default::default()
    });
    assert!(money::frontier(&study).is_empty(), "prices in two currencies do not compare");
}

#[test]
fn labels_of_targets_choose_counterparts_pools_and_cases() {
    let mut study = two_versions();
    let labelled = |labels: &[(&str, &str)]| {
        let labels = labels.iter().map(|(name, value)| (name.to_string(), value.to_string())).collect();
        Some(model::experiment::target::TargetSpec { labels, ..Default::default() })
    };
    let of = [
        [("provider", "x"), ("region", "x1"), ("size", "small")],
        [("provider", "x"), ("region", "x1"), ("size", "large")],
        [("provider", "x"), ("region", "x2"), ("size", "large")],
        [("provider", "y"), ("region", "y1"), ("size", "small")],
        [("provider", "y"), ("region", "y1"), ("size", "large")],
        [("provider", "y"), ("region", "y2"), ("size", "large")],
    ];
    for (n, (case, labels)) in study.cases.iter_mut().zip(of).enumerate() {
        case.case.server.target = labelled(&labels);
        case.case.levels = [("target".to_string(), n.to_string())].into();
    }
    study.plan.cases = study.cases.iter().map(|case| case.case.clone()).collect();
    study.plan.factors = vec!["target".to_string()];
    assert_eq!(labels::varying(&study), ["target.provider", "target.region", "target.size"]);
    study.plan.baseline = 1;
    study.plan.baseline_factors = vec!["target.provider".to_string()];
    let baseline = factors::baseline(&study).unwrap();
    let against: Vec<u32> = study
        .cases
        .iter()
        .map(|case| Counterparts::new(&study, baseline).of(case).unwrap().case.id)
        .collect();
    // Regions have no counterpart, sizes have; of two large ones the first.
    assert_eq!(against, [1, 2, 3, 1, 2, 2]);
    let pools: Vec<(String, usize)> = factors::pools(&study, "target.size")
        .iter()
        .map(|pool| (pool.level.clone(), pool.tps.len()))
        .collect();
    assert_eq!(pools, [("small".to_string(), 4), ("large".to_string(), 8)]);
    let select = |conditions: &[&str]| -> Result<Vec<u32>, String> {
        let plan = study.plan.clone();
        let conditions: Result<Vec<_>, String> =
            conditions.iter().map(|text| labels::WhereCondition::parse(text, &plan)).collect();
        let mut data = model::run::ExperimentData { plan, ..quiet::experiment(1, Vec::new()) };
        labels::select(&mut data, &conditions?)?;
        Ok(data.plan.cases.iter().map(|case| case.id).collect())
    };
    assert_eq!(select(&["provider=x"]).unwrap(), [1, 2, 3]);
    assert_eq!(select(&["provider=x", "size=large"]).unwrap(), [2, 3]);
    assert_eq!(select(&["target.region=x2,y2"]).unwrap(), [3, 6]);
    assert_eq!(select(&["region=x2", "region=y2"]).unwrap(), [3, 6]);
    for (conditions, expected) in [
        (vec!["provider"], "`provider` is not KEY=LEVEL, such as provider=aws or clients=16"),
        (
            vec!["clients=1"],
            "`clients` is neither a factor nor a label of a target; this study has target, target.provider, target.region, \
             target.size",
        ),
        (vec!["size=huge"], "no case has target.size `huge`; it is large or small"),
        (vec!["provider=x", "region=y1"], "no case meets all of these conditions"),
    ] {
        assert_eq!(select(&conditions).unwrap_err(), expected);
    }
}

#[test]
fn counters_are_instructions_per_cycle_and_numbers_per_transaction() {
    let counted = |instructions: f64, share: Option<f64>| {
        let mut data = quiet::run(1);
        data.record.case.set(model::experiment::keys::run::COUNTERS, true);
        data.record.telemetry_unavailable.insert("counters.dtlb_misses".to_string(), "no PMU".to_string());
        for tick in data.ticks.iter_mut().filter(|tick| tick.source == TickSource::Host) {
            let mut put = |name: &str, value: f64| tick.values.insert(name, value);
            put("counters.instructions", instructions);
            put("counters.cycles", 4e9);
            put("counters.cache_references", 1e7);
            put("counters.cache_misses", 1e6);
            put("counters.task_clock", 1.5);
            share.into_iter().for_each(|share| put("counters.share[cycles]", share));
        }
        data
    };
    assert!(summary_of(quiet::run(1)).counters.is_none(), "nobody asked");
    let summary = summary_of(counted(3e9, Some(0.5)));
    let (counters, n) = (summary.counters.unwrap(), summary.counts.ended() as f64);
    close(counters.ipc, 0.75);
    close(counters.cache_miss, 0.1);
    let event = |name: &str| counters.event(name).unwrap();
    close(Some(event("instructions").total), 3e9 * 30.0);
    close(event("instructions").per_transaction, 3e9 * 30.0 / n);
    close(event("task_clock").per_transaction, 1.5 * 30.0 / n);
    assert_eq!((event("cycles").share, event("instructions").share), (0.5, 1.0));
    assert!(counters.event("page_faults").is_none());
    assert_eq!(counters.missing["counters.dtlb_misses"], "no PMU");
    let study = study(&quiet::experiment(2, vec![counted(3e9, None), counted(1e9, None)]));
    close(study.cases[0].counters.as_ref().unwrap().ipc, 0.5);
}
