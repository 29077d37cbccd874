//! A run of TPC-C in its own words.

use std::collections::BTreeMap;

use analysis::study;
use analysis::summary::tpcc::TpccSummary;
use model::experiment::case::{Calls, Isolation, Think, TpccSpec, WorkloadKind};
use model::load::ScriptSpec;
use model::load::interval::{Counts, Interval};
use model::run::{ExperimentData, RunData, StampedHistogram};

use crate::quiet;

/// Name, transactions of each second, and facts of each second.
type Profile = (&'static str, u64, &'static [(&'static str, u64)]);

const PROFILES: [Profile; 5] = [
    ("new-order", 1000, &[("rolled_back", 10), ("lines", 10_000), ("remote_lines", 100)]),
    ("payment", 1000, &[("remote", 150), ("by_name", 600)]),
    ("order-status", 100, &[("by_name", 60)]),
    ("delivery", 100, &[("delivered", 1000), ("skipped", 0)]),
    ("stock-level", 100, &[]),
];

/// The quiet run, as if it had been one of TPC-C on ten warehouses.
pub(crate) fn run(number: u32) -> RunData {
    let mut data = quiet::run(number);
    let load = data.record.load.as_mut().unwrap();
    let script = |(name, _, _): &Profile| ScriptSpec {
        name: name.to_string(),
        tag: name.to_string(),
        weight: 1,
        source: String::new(),
    };
    load.scripts = PROFILES.iter().map(script).collect();
    convert(&mut data.record.case.workload);
    let of_second = |second: &Interval| -> Vec<Interval> {
        let of = |(script, (_, n, facts)): (usize, &Profile)| Interval {
            script: script as u32,
            counts: Counts { due: *n, started: *n, committed: *n, ..Counts::default() },
            statements: vec![*n],
            facts: facts.iter().map(|(name, n)| (name.to_string(), *n)).collect(),
            ..second.clone()
        };
        PROFILES.iter().enumerate().map(of).collect()
    };
    data.intervals = data.intervals.iter().flat_map(of_second).collect();
    data.histograms.clear();
    set_latency(&mut data, |_| 1);
    quiet::finish(&mut data);
    let seconds = data.intervals.len() as u64 / 5;
    data.record.rows_before = BTreeMap::from([("history".to_string(), 7), ("orders".to_string(), 7)]);
    data.record.rows_after = BTreeMap::from([
        ("history".to_string(), 7 + seconds * 1000),
        ("orders".to_string(), 7 + seconds * 990),
    ]);
    data
}

/// Latencies of each profile: so many times those of the quiet run.
pub(crate) fn set_latency(data: &mut RunData, factor: impl Fn(&str) -> u64) {
    data.histograms.clear();
    for t in 0..36 {
        for (name, _, _) in PROFILES {
            let times: Vec<u64> = quiet::latencies_ns(t).iter().map(|ns| ns * factor(name)).collect();
            for tag in [name.to_string(), format!("{name}.service")] {
                data.histograms.push(StampedHistogram { t, line: quiet::histogram(&tag, &times) });
            }
        }
    }
}

fn convert(workload: &mut model::experiment::case::WorkloadSpec) {
    workload.kind = WorkloadKind::Tpcc;
    workload.scale = 10;
    workload.tpcc = Some(TpccSpec::default());
}

pub(crate) fn experiment(runs: Vec<RunData>) -> ExperimentData {
    let mut data = quiet::experiment(runs.len() as u32, runs);
    convert(&mut data.plan.cases[0].workload);
    data
}

fn summary(data: RunData) -> TpccSummary {
    study(&experiment(vec![data])).runs.swap_remove(0).tpcc.unwrap()
}

#[test]
fn throughput_is_reported_per_minute_with_and_without_rollbacks() {
    let tpcc = summary(run(1));
    assert_eq!((tpcc.nopm, tpcc.orders_per_min, tpcc.tpm), (60_000.0, 59_400.0, 138_000.0));
    assert_eq!((tpcc.nopm_per_warehouse, tpcc.nopm_runs), (6000.0, vec![60_000.0]));
    let shares: Vec<f64> = tpcc.profiles.iter().map(|profile| profile.share.unwrap()).collect();
    assert!((shares[0] - 10.0 / 23.0).abs() < 1e-12 && (shares[4] - 1.0 / 23.0).abs() < 1e-12, "{shares:?}");
    assert!(tpcc.profiles.iter().all(|profile| profile.is_in_limit() && profile.counts.committed > 0));
    assert!(tpcc.inputs.iter().all(|input| input.is_met()), "{:?}", tpcc.inputs);
    let case = &study(&experiment(vec![run(1), run(2)])).cases[0];
    let tpcc = case.tpcc.as_ref().unwrap();
    assert_eq!((tpcc.nopm, tpcc.nopm_runs.len()), (60_000.0, 2));
    assert_eq!(tpcc.profiles[0].counts.committed, 60_000);
}

#[test]
fn new_orders_that_a_procedure_rolled_back_unseen_do_not_count() {
    let deadlocked = |number: u32| {
        let mut data = run(number);
        let workload = &mut data.record.case.workload;
        (workload.kind, workload.tpcc, workload.procedures) = (WorkloadKind::TprocC, None, true);
        data.intervals.iter_mut().for_each(|interval| interval.facts.clear());
        // Of 1000 New-Orders and payments a second, 900 and 999 are in the tables.
        let seconds = data.intervals.len() as u64 / 5;
        data.record.rows_after.insert("orders".to_string(), 7 + seconds * 900);
        data.record.rows_after.insert("history".to_string(), 7 + seconds * 999);
        data
    };
    let experiment = |runs: Vec<RunData>| {
        let mut data = experiment(runs);
        data.plan.cases[0].workload = data.runs[0].record.case.workload.clone();
        study(&data)
    };
    let found = experiment(vec![deadlocked(1), deadlocked(2)]);
    for tpcc in found.runs.iter().map(|run| &run.tpcc).chain([&found.cases[0].tpcc]) {
        let tpcc = tpcc.as_ref().unwrap();
        assert_eq!((tpcc.nopm, tpcc.orders_per_min), (54_000.0, 54_000.0));
        // Half of a processor serves 1000 New-Orders a second.
        assert!((tpcc.driver_cpu_s.unwrap() - 0.45 / 0.9).abs() < 1e-9, "{:?}", tpcc.driver_cpu_s);
    }
    let differs = |study: &analysis::summary::Study| {
        let of_run = study.runs[0].findings.iter();
        of_run
            .filter(|finding| finding.id == "history-differs")
            .map(|finding| finding.evidence.clone())
            .next()
    };
    assert_eq!(differs(&found), None);
    let mut more = deadlocked(1);
    more.record.rows_after.insert("history".to_string(), 1_000_000);
    assert!(differs(&experiment(vec![more])).unwrap().contains("`history` grew by"));
    let mut fewer = deadlocked(1);
    fewer.record.rows_after.insert("history".to_string(), 4);
    assert!(differs(&experiment(vec![fewer])).unwrap().contains("`history` lost 3 rows"));
    let mut functions = deadlocked(1);
    functions.record.case.workload.procedures = false;
    assert!(differs(&experiment(vec![functions])).unwrap().contains("`history` grew by"));
    // The districts of one of two servers did not count those of the other.
    let mut spread = deadlocked(1);
    crate::disturbances::spread(&mut spread);
    let run = &experiment(vec![spread]).runs[0];
    let tpcc = run.tpcc.as_ref().unwrap();
    assert_eq!((tpcc.nopm, tpcc.server_cpu_s, tpcc.server_tpm), (60_000.0, None, None));
    assert!(run.resources.server_cpu.is_some() && run.resources.server_cpu_us_per_transaction.is_none());
}

#[test]
fn other_workloads_have_none() {
    let study = study(&quiet::experiment(1, vec![quiet::run(1)]));
    assert!(study.runs[0].tpcc.is_none() && study.cases[0].tpcc.is_none());
}

#[test]
fn a_share_further_off_than_chance_allows_is_not_met() {
    let check = |script: u32, fact: &str, n: u64, missed: &str| {
        let mut data = run(1);
        for interval in data.intervals.iter_mut().filter(|interval| interval.script == script) {
            interval.facts.insert(fact.to_string(), n);
        }
        let tpcc = summary(data);
        let found: Vec<&str> =
            tpcc.inputs.iter().filter(|input| !input.is_met()).map(|input| input.what.as_str()).collect();
        let expected: Vec<&str> = missed.split("; ").filter(|what| !what.is_empty()).collect();
        assert_eq!(found, expected, "{fact} {n}");
    };
    // 30,000 New-Orders: one standard deviation of their rollbacks is 17.
    check(0, "rolled_back", 12, "");
    check(0, "rolled_back", 13, "New-Orders rolled back");
    check(0, "rolled_back", 0, "New-Orders rolled back");
    check(0, "remote_lines", 0, "lines from another warehouse");
    check(0, "lines", 9_900, "lines of an order");
    check(1, "remote", 0, "payments of another warehouse's customers");
    check(1, "by_name", 500, "payments by last name");
    check(3, "skipped", 20, "districts without an order to deliver");
    check(3, "skipped", 5, "");
}

#[test]
fn terminals_that_think_are_not_too_few_transactions() {
    let check = |think: Think, expected: bool| {
        let mut data = run(1);
        data.record.case.workload.tpcc = Some(TpccSpec { think, ..TpccSpec::default() });
        data.record.load.as_mut().unwrap().n_clients = 10_000;
        let findings = study(&experiment(vec![data])).runs.swap_remove(0).findings;
        let found = findings.iter().any(|finding| finding.id == "too-few-transactions");
        assert_eq!(found, expected, "{findings:?}");
    };
    check(Think::None, true);
    check(Think::Spec, false);
}

#[test]
fn requirements_that_are_not_met_are_listed() {
    let check = |change: &dyn Fn(&mut RunData), expected: &str, is_there: bool| {
        let mut data = run(1);
        change(&mut data);
        let unmet = summary(data).unmet.join("; ");
        assert_eq!(unmet.contains(expected), is_there, "{unmet}\n{expected}");
    };
    check(&|_| {}, "neither key nor think", true);
    check(&|_| {}, "8 terminals instead of ten", true);
    check(&|_| {}, "30 s measured instead of two hours", true);
    check(&|_| {}, "6000 New-Orders per minute and warehouse", true);
    check(&|_| {}, "isolation level read committed", true);
    let spec = TpccSpec { calls: Calls::Functions, think: Think::Spec, isolation: Isolation::Serializable };
    let thinking = move |data: &mut RunData| {
        data.record.case.workload.tpcc = Some(spec);
        data.record.case.workload.n_clients = 100;
    };
    for other in ["key nor think", "terminals instead", "isolation level"] {
        check(&thinking, other, false);
    }
    let slow = |data: &mut RunData| set_latency(data, |name| if name == "payment" { 1000 } else { 1 });
    check(&slow, "90th percentile of payment above 5 s", true);
}
