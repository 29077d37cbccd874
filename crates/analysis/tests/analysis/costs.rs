//! What transactions cost, on records with planted costs.

use analysis::comparison::{CaseComparison, CostComparison, FamilyVerdict};
use analysis::study;
use model::load::Window;
use model::load::course::LoadCourse;
use model::run::{ExperimentData, RunData};

use crate::comparison::{compare_cases, pairs};
use crate::quiet::{set_committed, set_metric};

/// Twelve pairs whose throughput swings by a third of itself, the same on both sides; each transaction of A costs 2,000 bytes of WAL, 10
/// blocks and 1 ms, each of B 1.03 times the WAL.
fn noisy_pairs() -> ExperimentData {
    let mut data = pairs(12, 1.0);
    for (n, run) in data.runs.iter_mut().enumerate() {
        let tps = 700.0 + 60.0 * ((n * 7 + n / 3) % 6) as f64;
        set_committed(run, 0..35, |_| tps as u64);
        let wal = if run.record.spec.case == 2 { 2_060.0 } else { 2_000.0 };
        set_metric(run, "server.wal_bytes", -10.0, 60.0, wal * tps.floor());
        set_metric(run, "server.cpu.user", -10.0, 60.0, tps.floor() / 1000.0);
        set_metric(run, "server.cpu.system", -10.0, 60.0, 0.0);
        // The server reports 2 % fewer commits than there were, and as many fewer blocks; one commit a second is pgdyno's own.
        add_to_ticks(run, "database.commits", 0.98 * tps.floor() + 1.0);
        set_metric(run, "database.blocks_hit", -10.0, 60.0, 0.98 * 9.0 * tps.floor());
        set_metric(run, "database.blocks_read", -10.0, 60.0, 0.98 * tps.floor());
    }
    data
}

/// Adds a metric to the ticks of the server's database.
fn add_to_ticks(run: &mut RunData, name: &str, value: f64) {
    for tick in &mut run.ticks {
        if tick.values.contains_key("database.blocks_hit") {
            tick.values.insert(name, value);
        }
    }
}

fn cost<'a>(compared: &'a CaseComparison, id: &str) -> Option<&'a CostComparison> {
    compared.costs.iter().find(|cost| cost.id == id)
}

#[test]
fn a_cost_is_found_where_throughput_says_nothing() {
    let compared = compare_cases(&noisy_pairs());
    assert!(compared.leading().unwrap().detectable.unwrap() > 0.05, "{:?}", compared.leading());

    let wal = cost(&compared, "wal").unwrap();
    let ratio = wal.result.unwrap();
    assert!((ratio.ratio - 1.03).abs() < 1e-6 && ratio.high - ratio.low < 1e-6, "{ratio:?}");
    assert_eq!((wal.verdict, wal.verdict_at(0.05)), (Some(FamilyVerdict::More), Some(FamilyVerdict::Same)));
    for same in ["cpu", "blocks", "reads"] {
        assert_eq!(cost(&compared, same).unwrap().verdict, Some(FamilyVerdict::Same), "{same}");
    }
}

/// Of a load that sleeps, pgdyno's own questions touch most blocks: 14 in a second were 0.29 for each transaction of 20 ms.
#[test]
fn blocks_are_no_cost_where_the_load_touches_few() {
    let mut data = noisy_pairs();
    for run in &mut data.runs {
        set_committed(run, 0..35, |_| 50);
        set_metric(run, "database.commits", -10.0, 60.0, 50.0);
        set_metric(run, "database.blocks_hit", -10.0, 60.0, 14.0);
        set_metric(run, "database.blocks_read", -10.0, 60.0, 0.0);
    }
    let compared = compare_cases(&data);
    assert!(cost(&compared, "blocks").is_none_or(|blocks| blocks.result.is_none()));
    assert!(cost(&compared, "wal").unwrap().result.is_some());
}

/// Sessions that connect read the catalogs, which is no work of the load's.
#[test]
fn blocks_of_the_first_seconds_are_left_out() {
    let costs = |blocks_at_first: f64| {
        let mut data = noisy_pairs();
        for run in &mut data.runs {
            let window = Window { ramp_up_s: 0, measure_s: 30, grace_s: 10 };
            run.record.course = Some(LoadCourse { window, ramp_up_end: None, extended_s: 0 });
            set_metric(run, "database.blocks_hit", 0.0, 1.0, blocks_at_first);
        }
        let compared = compare_cases(&data);
        cost(&compared, "blocks").unwrap().a_median
    };
    assert_eq!(costs(9_000.0), costs(9_000_000.0));
}

/// The least pairs that give a verdict give one after the correction for all costs, too.
#[test]
fn six_pairs_decide_a_cost_although_there_are_many() {
    let mut data = noisy_pairs();
    data.runs.truncate(12);
    for (n, run) in data.runs.iter_mut().enumerate() {
        // Of 0.2 % from run to run.
        let noise = 1.0 + 0.002 * ((n * 5 + n / 2) % 4) as f64;
        let committed = run.intervals[10].counts.committed as f64;
        let wal = if run.record.spec.case == 2 { 2_060.0 } else { 2_000.0 };
        set_metric(run, "server.wal_bytes", -10.0, 60.0, noise * wal * committed);
    }
    let compared = compare_cases(&data);
    let wal = cost(&compared, "wal").unwrap();
    assert_eq!((wal.n_pairs, wal.verdict), (6, Some(FamilyVerdict::More)), "{wal:?}");
    let others = compared.costs.iter().filter(|cost| cost.id != "wal");
    assert!(
        others.clone().count() >= 3 && others.clone().all(|cost| cost.verdict == Some(FamilyVerdict::Same))
    );
}

#[test]
fn counters_that_sessions_report_late_are_divided_by_the_commits_of_the_same_reports() {
    let data = noisy_pairs();
    let study = study(&data);
    let run = &study.runs[0];
    assert!((run.cost("blocks").unwrap() - 10.0).abs() < 1e-9, "{:?}", run.costs);
    assert!((run.cost("reads").unwrap() - 1.0).abs() < 1e-9, "{:?}", run.costs);
    assert!((run.cost("cpu").unwrap() - 1_000.0).abs() < 1e-6, "{:?}", run.costs);

    let case = study.cases[0].costs.iter().find(|cost| cost.id == "blocks").unwrap();
    assert_eq!((case.n_runs, (case.median - 10.0).abs() < 1e-9), (12, true));
    assert!(case.good_to().unwrap() < 0.005, "{case:?}");
}

#[test]
fn what_the_server_hides_has_no_cost_and_no_verdict() {
    let mut data = noisy_pairs();
    for tick in data.runs.iter_mut().flat_map(|run| &mut run.ticks) {
        tick.values.retain(|name, _| name != "database.commits");
    }
    let compared = compare_cases(&data);
    assert_eq!(cost(&compared, "blocks"), None);
    assert_eq!(cost(&compared, "wal").unwrap().verdict, Some(FamilyVerdict::More));
    assert_eq!(study(&data).runs[0].cost("blocks"), None);
}

#[test]
fn what_neither_side_does_is_the_same_and_too_few_pairs_give_no_verdict() {
    let mut data = noisy_pairs();
    for run in &mut data.runs {
        set_metric(run, "database.blocks_read", -10.0, 60.0, 0.0);
    }
    let reads = compare_cases(&data);
    let reads = cost(&reads, "reads").unwrap();
    assert!(reads.is_negligible() && reads.result.is_none());
    assert_eq!(reads.verdict, Some(FamilyVerdict::Same));

    data.runs.truncate(10);
    let few = compare_cases(&data);
    assert_eq!(cost(&few, "wal").unwrap().verdict, None);
}

/// A page is imaged once: the WAL of a load grows as 8 KiB x (1 - e^(-n / 10,000)), whatever the pace.
#[test]
fn wal_is_compared_over_equally_many_transactions() {
    let mut data = pairs(8, 1.0);
    for (n, run) in data.runs.iter_mut().enumerate() {
        let tps = 400.0 + 300.0 * ((n * 5 + n / 2) % 5) as f64;
        set_committed(run, 0..35, |_| tps as u64);
        let written = |committed: f64| 8e7 * (1.0 - (-committed.max(0.0) / 1e4).exp());
        for second in -5..40 {
            let [from, to] = [second, second + 1].map(|s| written(tps * f64::from(s)));
            let at = f64::from(second) + 1.0;
            set_metric(run, "server.wal_bytes", at - 0.5, at + 0.5, to - from);
        }
    }
    let study = study(&data);
    let plain: Vec<f64> = study.runs.iter().filter_map(|run| run.cost("wal")).collect();
    let (least, most) = plain.iter().fold((f64::MAX, 0.0_f64), |(l, m), x| (l.min(*x), m.max(*x)));
    assert!(most > 2.0 * least, "{plain:?}");

    let wal = compare_cases(&data);
    let wal = cost(&wal, "wal").unwrap();
    let ratio = wal.result.unwrap();
    assert!(ratio.low > 0.99 && ratio.high < 1.01, "{ratio:?}");
}

#[test]
fn commits_of_others_are_not_taken_for_late_ones() {
    let mut data = noisy_pairs();
    for run in &mut data.runs {
        let committed = run.intervals[10].counts.committed as f64;
        set_metric(run, "database.blocks_hit", -10.0, 60.0, 9.0 * committed);
        set_metric(run, "database.blocks_read", -10.0, 60.0, committed);
        set_metric(run, "database.commits", -10.0, 60.0, 1.05 * committed + 1.0);
    }
    let study = study(&data);
    assert!((study.runs[0].cost("blocks").unwrap() - 10.0).abs() < 1e-9, "{:?}", study.runs[0].costs);
}

#[test]
fn a_cost_that_only_one_side_has_is_more() {
    let mut data = noisy_pairs();
    for run in &mut data.runs {
        let committed = run.intervals[10].counts.committed as f64;
        let spilled = if run.record.spec.case == 2 { 5e6 * committed } else { 0.0 };
        add_to_ticks(run, "database.temp_bytes", spilled);
    }
    let compared = compare_cases(&data);
    assert_eq!(cost(&compared, "temporary").unwrap().verdict, Some(FamilyVerdict::More));
}

#[test]
fn the_wal_of_a_standby_is_no_cost() {
    let mut data = noisy_pairs();
    data.runs.iter_mut().for_each(|run| run.record.server.as_mut().unwrap().in_recovery = true);
    let study = study(&data);
    let run = &study.runs[0];
    assert_eq!((run.cost("wal"), run.work.len()), (None, 0));
    assert!(run.cost("blocks").is_some());
}
