//! Searches for the highest rate: what is read out of their probes, and the findings about them.

use analysis::finding::{Finding, Grade};
use analysis::study;
use analysis::summary::capacity::{ProbeVerdict, SearchOutcome};
use analysis::summary::{RunSummary, Study};
use model::load::Pace;
use model::load::capacity::{Probe, SearchRecord};
use model::load::interval::Counts;
use model::run::RunData;

use crate::quiet;

/// A probe of three seconds: its rate, and the share of its transactions that was late.
type Probed = (f64, f64);

const STEEP: [Probed; 6] =
    [(5000.0, 1.0), (2500.0, 0.0005), (3600.0, 0.2), (3000.0, 0.006), (3200.0, 0.02), (3050.0, 0.008)];

fn searched(number: u32, ceiling_per_s: f64, probes: &[Probed], confirming: Probed) -> RunData {
    let mut data = quiet::run(number);
    search(&mut data, ceiling_per_s, probes, confirming);
    data
}

/// Makes the seconds of a run from the ramp-up on such probes, and then one of nine seconds that confirms.
fn search(data: &mut RunData, ceiling_per_s: f64, probes: &[Probed], confirming: Probed) {
    let pace: Pace = "max with p99 <= 10ms".parse().unwrap();
    data.record.load.as_mut().unwrap().pace = pace;
    data.record.case.workload.pace = pace;
    let mut from_t = quiet::WINDOW.ramp_up_s;
    let mut kept = Vec::new();
    for (i, probed) in probes.iter().chain([&confirming]).enumerate() {
        let confirms = i == probes.len();
        let to_t = from_t + if confirms { 9 } else { 3 };
        kept.push(Probe { rate_per_s: probed.0, from_t, to_t, confirms });
        for interval in data.intervals.iter_mut().filter(|interval| (from_t..to_t).contains(&interval.t)) {
            let n = probed.0 as u64;
            let late = (probed.0 * probed.1).round() as u64;
            interval.counts = Counts { due: n, started: n, committed: n, late, ..Counts::default() };
        }
        from_t = to_t;
    }
    let target = pace.target().unwrap();
    data.record.search = Some(SearchRecord { target, ceiling_per_s, probe_s: 3, probes: kept });
    quiet::finish(data);
}

/// A search that ends with a rate.
pub(crate) fn find_a_rate(data: &mut RunData) {
    search(data, 8000.0, &STEEP, (3080.0, 0.009));
}

/// A search in which no rate holds the target.
pub(crate) fn find_no_rate(data: &mut RunData) {
    search(data, 8000.0, &[(160.0, 0.5); 6], (160.0, 0.5));
}

fn explained(data: RunData) -> RunSummary {
    study(&quiet::experiment(1, vec![data])).runs.into_iter().next().unwrap()
}

fn about_search(run: &RunSummary) -> Vec<&Finding> {
    let ids = ["target-unreachable", "target-not-limiting", "capacity-unsure"];
    run.findings.iter().filter(|finding| ids.contains(&finding.id)).collect()
}

#[test]
fn the_rate_is_between_the_probes_that_held_and_those_that_missed() {
    let run = explained(searched(1, 8000.0, &STEEP, (3080.0, 0.009)));
    let capacity = run.capacity.as_ref().unwrap();
    let rate = capacity.rate.unwrap();
    assert_eq!(capacity.outcome, SearchOutcome::Found);
    assert!((3030.0..3200.0).contains(&rate.point), "{rate:?}");
    assert!(
        2700.0 < rate.low && rate.low < rate.point && rate.point < rate.high && rate.high < 3400.0,
        "{rate:?}"
    );
    let verdicts: Vec<ProbeVerdict> = capacity.probes.iter().map(|probe| probe.verdict).collect();
    use ProbeVerdict::{Holds, Misses, Undecided};
    assert_eq!(verdicts, [Misses, Holds, Misses, Holds, Misses, Holds, Undecided]);
    assert_eq!(run.tps, Some(rate.point), "the throughput of a search is the rate that it found");
    assert_eq!((run.measured_s, run.counts.committed), (9.0, 9 * 3080), "only the confirming seconds count");
    let first = &capacity.probes[0];
    assert_eq!((first.from_s, first.to_s, first.late, first.achieved_per_s), (5.0, 8.0, 1.0, 5000.0));
    assert!(first.latency_ns.unwrap() > 9_000_000, "{first:?}");
    assert_eq!(about_search(&run), Vec::<&Finding>::new());
}

#[test]
fn a_probe_has_the_seconds_that_were_recorded() {
    let rates = |to_t: u32| {
        let mut data = searched(1, 8000.0, &STEEP, (3080.0, 0.009));
        data.record.search.as_mut().unwrap().probes.last_mut().unwrap().to_t = to_t;
        let probes = explained(data).capacity.unwrap().probes;
        probes.last().unwrap().achieved_per_s
    };
    // The load ends with second 32; that a probe went on for a century is not believed.
    assert_eq!(rates(32), 3080.0);
    let ends = [rates(33), rates(u32::MAX)];
    assert!(ends.iter().all(|rate| (1000.0..3080.0).contains(rate)), "{ends:?}");
}

#[test]
fn the_limits_of_a_search_are_a_finding() {
    let id = |data: RunData| {
        let run = explained(data);
        about_search(&run).iter().map(|finding| finding.id).collect::<Vec<_>>().join(" ")
    };
    let never: Vec<Probed> = [4000.0, 1000.0, 400.0, 160.0, 160.0, 160.0].map(|rate| (rate, 0.5)).to_vec();
    let run = explained(searched(1, 8000.0, &never, (160.0, 0.5)));
    assert_eq!((run.tps, run.grade), (None, Grade::Void));
    assert_eq!(about_search(&run)[0].id, "target-unreachable");
    let always =
        [(4000.0, 0.0), (6000.0, 0.0), (7500.0, 0.0), (7900.0, 0.006), (8200.0, 0.5), (8000.0, 0.008)];
    assert_eq!(id(searched(1, 8000.0, &always, (7950.0, 0.008))), "target-not-limiting");
    let vague = [(4000.0, 1.0), (1500.0, 0.0), (2500.0, 1.0), (1800.0, 0.06), (2200.0, 0.0), (1900.0, 1.0)];
    assert_eq!(id(searched(1, 8000.0, &vague, (1900.0, 0.0))), "capacity-unsure");
    let run = explained(searched(1, 8000.0, &vague, (1900.0, 0.0)));
    let evidence = &about_search(&run)[0].evidence;
    assert!(evidence.contains(" below it and ") && evidence.ends_with(" above"), "{evidence}");
    let run = explained(searched(1, 8000.0, &STEEP, (3080.0, 0.02)));
    let found = about_search(&run);
    assert!(found[0].evidence.contains("were to confirm it and had 2.0 % late"), "{found:?}");
}

#[test]
fn a_case_has_the_median_of_its_runs_with_an_interval() {
    let of = |n: u32| -> Study {
        let run = |i: u32| {
            let scale = 1.0 + 0.01 * f64::from(i);
            let scaled = STEEP.map(|(rate, late)| (rate * scale, late));
            searched(i, 8000.0, &scaled, (3080.0 * scale, 0.009))
        };
        study(&quiet::experiment(n, (1..=n).map(run).collect()))
    };
    let three = of(3);
    let capacity = three.cases[0].capacity.as_ref().unwrap();
    let rates: Vec<_> = three.runs.iter().filter_map(|run| run.capacity.as_ref()?.rate).collect();
    assert_eq!((capacity.n_runs, capacity.rate.point), (3, rates[1].point));
    assert_eq!((capacity.rate.low, capacity.rate.high), (rates[0].low, rates[2].high));
    let seven = of(7);
    let capacity = seven.cases[0].capacity.as_ref().unwrap();
    let ends: Vec<f64> = seven.cases[0].tps.clone();
    assert!(ends[0] <= capacity.rate.low && capacity.rate.high <= ends[6], "{capacity:?} of {ends:?}");
}

#[test]
fn a_run_in_which_no_rate_held_is_a_rate_below_all_others() {
    let of = |n_never: u32| -> Study {
        let run = |i: u32| {
            if i <= n_never {
                searched(i, 8000.0, &[(160.0, 0.5); 6], (160.0, 0.5))
            } else {
                searched(i, 8000.0, &STEEP, (3080.0, 0.009))
            }
        };
        study(&quiet::experiment(3, (1..=3).map(run).collect()))
    };
    let one = of(1);
    let capacity = one.cases[0].capacity.as_ref().unwrap();
    assert_eq!((capacity.n_runs, capacity.n_unreachable, capacity.rate.low), (3, 1, 0.0));
    assert_eq!(one.cases[0].tps_median, Some(capacity.rate.point));
    let two = of(2);
    assert_eq!((&two.cases[0].capacity, two.cases[0].tps_median), (&None, None));
}

#[test]
fn a_run_whose_last_probe_missed_is_not_confirmed() {
    let of = |n_missed: u32| {
        let late = |i: u32| if i <= n_missed { 0.3 } else { 0.0005 };
        let run = |i: u32| searched(i, 8000.0, &STEEP, (3080.0, late(i)));
        let study = study(&quiet::experiment(3, (1..=3).map(run).collect()));
        study.cases[0].capacity.as_ref().unwrap().n_unconfirmed
    };
    assert_eq!([of(0), of(1), of(3)], [0, 1, 3]);
}

#[test]
fn searches_of_which_half_found_no_rate_have_no_number() {
    let mut runs: Vec<RunData> = (1..=2).map(quiet::run).collect();
    find_a_rate(&mut runs[0]);
    find_no_rate(&mut runs[1]);
    let study = study(&quiet::experiment(2, runs));
    let case = &study.cases[0];
    assert_eq!((case.tps_median, case.latency, case.grade), (None, None, Grade::Void));
    assert!(!study.has_result() && study.is_void());
}

#[test]
fn latencies_of_a_case_are_those_of_probes_that_did_not_miss() {
    let case = |confirming: &[Probed]| {
        let run = |(i, last): (usize, &Probed)| searched(i as u32 + 1, 8000.0, &STEEP, *last);
        let runs: Vec<RunData> = confirming.iter().enumerate().map(run).collect();
        study(&quiet::experiment(confirming.len() as u32, runs)).cases.remove(0)
    };
    let (held, missed) = ((3080.0, 0.009), (3080.0, 0.02));
    assert_eq!(case(&[missed]).latency, None);
    assert!(case(&[missed]).tps_median.is_some());
    assert_eq!(case(&[held, missed]).latency, case(&[held]).latency);
    assert_eq!(case(&[held, held]).latency.unwrap().n, 2 * 9 * 200);
}

#[test]
fn a_rate_is_not_above_what_was_offered() {
    let rates = [4000.0, 6000.0, 7500.0, 9000.0, 10_000.0, 9500.0].map(|rate| (rate, 0.0));
    let run = explained(searched(1, 8000.0, &rates, (9900.0, 0.0)));
    let capacity = run.capacity.unwrap();
    let rate = capacity.rate.unwrap();
    assert_eq!((capacity.outcome, rate.high), (SearchOutcome::NotLimiting, 10_000.0));
    assert!(rate.low <= rate.point && rate.point <= 10_000.0, "{rate:?}");
    // Nor is the closed loop's best second, if no probe went beyond it.
    let rates = [1000.0, 2000.0, 3000.0, 4000.0, 5000.0, 6000.0].map(|rate| (rate, 0.0));
    let run = explained(searched(1, 8000.0, &rates, (6000.0, 0.0)));
    assert!(run.capacity.unwrap().rate.unwrap().high <= 8000.0);
}

#[test]
fn a_run_whose_lowest_rate_commits_too_little_is_a_rate_below_all_others_too() {
    let run = |i: u32| match i {
        1 => searched(i, 100.0, &[(2.0, 0.5); 6], (2.0, 0.5)),
        _ => searched(i, 8000.0, &STEEP, (3080.0, 0.009)),
    };
    let study = study(&quiet::experiment(3, (1..=3).map(run).collect()));
    assert!(study.runs[0].findings.iter().any(|finding| finding.id == "too-few-transactions"));
    let capacity = study.cases[0].capacity.as_ref().unwrap();
    assert_eq!((capacity.n_runs, capacity.n_unreachable, capacity.rate.low), (3, 1, 0.0));
}
