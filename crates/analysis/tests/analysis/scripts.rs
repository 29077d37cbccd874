//! Transactions of several scripts: their part in the mix, what a workload directory says of them, and which of them a change made slower.

use analysis::comparison::{CaseComparison, ComparedSide, FamilyVerdict, MARGIN, ScriptComparison};
use analysis::explain::compare;
use analysis::study;
use analysis::summary::{LatencySummary, RunSummary, ScriptSummary, Study};
use model::experiment::case::directory::{DirectoryLimit, DirectoryMeasure, WorkloadDirectory};
use model::load::ScriptSpec;
use model::load::interval::{Counts, Interval};
use model::run::{ExperimentData, RunData, StampedHistogram};
use stats::random::Random;

use crate::comparison::pairs;
use crate::quiet;

const NAMES: [&str; 4] = ["browse", "cart", "pay", "report"];
/// Of the mix, and mean service times: the last one takes most of the time and is rare.
const SHARES: [f64; 4] = [0.6, 0.3, 0.08, 0.02];
const MEANS_NS: [f64; 4] = [4e5, 1e6, 3e6, 9e7];

/// A script of a run whose mean transaction took so long.
fn script(n: usize, mean_ns: f64) -> ScriptSummary {
    let committed = (SHARES[n] * 50_000.0) as u64;
    let service = all_at(committed, mean_ns);
    ScriptSummary {
        name: NAMES[n].to_string(),
        weight: (SHARES[n] * 100.0) as u32,
        share_planned: Some(SHARES[n]),
        share: Some(SHARES[n]),
        share_differs: false,
        counts: Counts { due: committed, started: committed, committed, ..Counts::default() },
        tps: None,
        latency: Some(service),
        service: Some(service),
        facts: Default::default(),
        measures: Vec::new(),
        limit: None,
    }
}

/// So many transactions, each of which took as long.
pub(crate) fn all_at(n: u64, mean_ns: f64) -> LatencySummary {
    let ns = mean_ns as u64;
    LatencySummary { n, mean_ns, p50_ns: ns, p90_ns: ns, p95_ns: ns, p99_ns: ns, p999_ns: ns, max_ns: ns }
}

/// Gives each run means, which vary by `spread` with the block and by as much on their own; those of B are multiplied by effects.
pub(crate) fn vary<const N: usize>(
    study: &mut Study,
    random: &mut Random,
    spread: f64,
    means_and_effects: [(f64, f64); N],
    plant: impl Fn(&mut RunSummary, [f64; N]),
) {
    let n_blocks = study.runs.iter().map(|run| run.block).max().unwrap_or(0);
    let levels: Vec<f64> = (0..=n_blocks).map(|_| (spread * random.normal()).exp()).collect();
    for run in &mut study.runs {
        let means = means_and_effects.map(|(mean, effect)| {
            let effect = if run.case == 2 { effect } else { 1.0 };
            mean * levels[run.block as usize] * effect * (spread * random.normal()).exp()
        });
        plant(run, means);
    }
}

/// Gives each run four scripts whose means vary.
fn plant(study: &mut Study, random: &mut Random, spread: f64, effects: [f64; 4]) {
    let planned = std::array::from_fn(|n| (MEANS_NS[n], effects[n]));
    vary(study, random, spread, planned, |run, means_ns: [f64; 4]| {
        run.scripts = (0..).zip(means_ns).map(|(n, mean_ns)| script(n, mean_ns)).collect();
    });
}

/// Case 2 against case 1 of a study that a test has changed.
pub(crate) fn compared(data: &ExperimentData, study: &Study) -> CaseComparison {
    let side = |case| ComparedSide { data, study, case };
    compare(&[(side(1), side(2))], MARGIN).remove(0)
}

fn named(compared: &CaseComparison) -> Vec<(&str, Option<FamilyVerdict>)> {
    let different = compared.scripts.iter().filter(|script| script.is_different());
    different.map(|script| (script.name.as_str(), script.verdict)).collect()
}

#[test]
fn the_transaction_that_became_slower_is_named_and_no_other() {
    let data = pairs(12, 1.0);
    let mut study = study(&data);
    for (slow, name) in NAMES.iter().enumerate() {
        let mut effects = [1.0; 4];
        effects[slow] = 1.15;
        plant(&mut study, &mut Random::new(7 + slow as u64), 0.03, effects);
        let compared = compared(&data, &study);
        assert_eq!(named(&compared), [(*name, Some(FamilyVerdict::More))], "{:#?}", compared.scripts);
        let first = &compared.scripts[0];
        assert_eq!((first.name.as_str(), first.n_pairs), (*name, 12), "it comes first");
        let ratio = first.result.unwrap();
        assert!((ratio.ratio - 1.15).abs() < 0.05 && ratio.p_adjusted >= ratio.p, "{ratio:?}");
        assert!(first.part_ns > 0.0, "{first:?}");
    }
}

#[test]
fn equal_servers_differ_in_one_comparison_in_twenty_at_most() {
    for (n_pairs, n_tried, seed) in [(6, 100, 1), (12, 30, 2)] {
        let data = pairs(n_pairs, 1.0);
        let (mut study, mut random) = (study(&data), Random::new(seed));
        let mut false_ones = 0;
        for _ in 0..n_tried {
            plant(&mut study, &mut random, 0.05, [1.0; 4]);
            false_ones += u64::from(!named(&compared(&data, &study)).is_empty());
        }
        // More than that would be rarer than one in a thousand.
        let chance = 1.0 - stats::binomial_cdf(false_ones.saturating_sub(1), n_tried, 0.05);
        assert!(chance > 0.001, "{false_ones} of {n_tried} with {n_pairs} pairs");
    }
}

#[test]
fn parts_add_up_to_the_difference_of_the_mean_transaction() {
    let data = pairs(12, 1.0);
    let mut study = study(&data);
    plant(&mut study, &mut Random::new(3), 0.0, [1.5, 1.0, 0.5, 1.0]);
    let compared = compared(&data, &study);
    let verdicts: Vec<_> =
        compared.scripts.iter().map(|script| (script.name.as_str(), script.verdict)).collect();
    let (more, less, same) =
        (Some(FamilyVerdict::More), Some(FamilyVerdict::Less), Some(FamilyVerdict::Same));
    // 0.6 x 200 µs and 0.08 x 1,500 µs are 120 µs each; what does not differ comes last.
    assert_eq!(verdicts[2..], [("cart", same), ("report", same)]);
    assert!(verdicts[..2].contains(&("browse", more)) && verdicts[..2].contains(&("pay", less)));
    let parts: f64 = compared.scripts.iter().map(|script| script.part_ns).sum();
    assert!(parts.abs() < 1.0, "{parts}");
}

#[test]
fn what_fails_on_one_side_comes_before_what_is_slow() {
    let data = pairs(6, 1.0);
    let mut study = study(&data);
    plant(&mut study, &mut Random::new(5), 0.01, [1.5, 1.0, 1.0, 1.0]);
    for run in study.runs.iter_mut().filter(|run| run.case == 2) {
        let counts = &mut run.scripts[2].counts;
        (counts.failed, counts.committed) = (counts.committed / 10, counts.committed - counts.committed / 10);
    }
    let compared = compared(&data, &study);
    let names: Vec<&str> = compared.scripts.iter().map(|script| script.name.as_str()).collect();
    assert_eq!(names[..2], ["pay", "browse"]);
    let pay: &ScriptComparison = &compared.scripts[0];
    assert!(pay.fails_differently() && pay.a_failed == 0.0 && (pay.b_failed - 0.1).abs() < 1e-3, "{pay:?}");
}

#[test]
fn one_script_and_too_few_pairs_have_no_verdict_of_their_own() {
    let data = pairs(6, 1.0);
    assert!(compared(&data, &study(&data)).scripts.is_empty());
    let data = pairs(3, 1.0);
    let mut study = study(&data);
    plant(&mut study, &mut Random::new(9), 0.01, [2.0, 1.0, 1.0, 1.0]);
    let compared = compared(&data, &study);
    assert_eq!(compared.scripts.len(), 4);
    assert!(compared.scripts.iter().all(|script| script.verdict.is_none() && script.b_median_ns.is_some()));
}

/// A run of two transactions with weights 3 and 1, of which the second commits one in `n`.
pub(crate) fn mixed(n: u64) -> RunData {
    let mut run = quiet::run(1);
    let load = run.record.load.as_mut().unwrap();
    load.scripts[0].weight = 3;
    load.scripts.push(ScriptSpec { name: "take".into(), tag: "take".into(), weight: 1, source: "x".into() });
    let mut second = Vec::new();
    for interval in &mut run.intervals {
        let all = interval.counts.committed;
        let of = |committed| Counts { due: committed, started: committed, committed, ..Counts::default() };
        let facts = [("jobs".to_string(), all), ("missed".to_string(), all / 4)].into();
        second.push(Interval { script: 1, counts: of(all / n), facts, ..interval.clone() });
        interval.counts = of(all - all / n);
    }
    run.intervals.extend(second);
    for t in 0..36 {
        run.histograms.push(StampedHistogram { t, line: quiet::histogram("take", &[50_000_000; 40]) });
        run.histograms
            .push(StampedHistogram { t, line: quiet::histogram("take.service", &[40_000_000; 40]) });
    }
    quiet::finish(&mut run);
    run
}

fn directory(has_classes: bool) -> Box<WorkloadDirectory> {
    let measure = |name: &str, numerator: &str| DirectoryMeasure {
        name: name.to_string(),
        title: format!("share of {name}"),
        numerator: numerator.to_string(),
        denominator: "jobs".to_string(),
    };
    let limit = |permille, limit_ns| DirectoryLimit { transaction: "take".to_string(), permille, limit_ns };
    Box::new(WorkloadDirectory {
        name: "queue".to_string(),
        measures: vec![measure("misses", "missed"), measure("unknown", "nobody-counts")],
        limits: vec![limit(990, 45_000_000)],
        has_classes,
        ..WorkloadDirectory::default()
    })
}

#[test]
fn a_part_in_the_mix_that_chance_does_not_explain_is_marked() {
    let scripts = |run: RunData| study(&quiet::experiment(1, vec![run])).cases.remove(0).scripts;
    let differ = |scripts: &[ScriptSummary]| scripts.iter().map(|s| s.share_differs).collect::<Vec<bool>>();
    assert_eq!(differ(&scripts(mixed(4))), [false, false]);
    assert_eq!(differ(&scripts(mixed(5))), [true, true], "a fifth of 30,000 is not a quarter");

    let mut run = mixed(5);
    run.record.case.workload.directory = Some(directory(true));
    let of_classes = scripts(run);
    assert_eq!(differ(&of_classes), [false, false]);
    assert_eq!(of_classes[1].share_planned, None, "weights do not say what classes do");
}

#[test]
fn facts_measures_and_limits_are_those_of_the_directory() {
    let mut run = mixed(4);
    run.record.case.workload.directory = Some(directory(false));
    let explained = study(&quiet::experiment(1, vec![run]));
    for scripts in [&explained.runs[0].scripts, &explained.cases[0].scripts] {
        let take = &scripts[1];
        let measured: u64 = (5..35).map(quiet::tps).sum();
        assert_eq!(take.facts["jobs"], measured);
        assert_eq!(take.measures.len(), 1, "only what is counted: {:?}", take.measures);
        assert!((take.measures[0].value.unwrap() - 0.25).abs() < 0.01, "{:?}", take.measures);
        let limit = take.limit.unwrap();
        assert_eq!((limit.percentile, limit.limit_ns, limit.is_met), (99.0, 45_000_000, false));
        assert!((49_900_000..50_100_000).contains(&limit.found_ns), "{limit:?}");
        assert!((39_900_000.0..40_100_000.0).contains(&take.service.unwrap().mean_ns));
        assert_eq!((scripts[0].limit, scripts[0].measures.len()), (None, 0));
    }
    assert_eq!(explained.cases[0].measures.len(), 1);
    assert_eq!(explained.cases[0].measures[0].title, "share of misses");
}

#[test]
fn transactions_that_only_other_variants_run_are_left_out() {
    let names = |run: RunData| {
        let scripts = study(&quiet::experiment(1, vec![run])).cases.remove(0).scripts;
        scripts.into_iter().map(|script| script.name).collect::<Vec<String>>()
    };
    let with_a_third = || {
        let mut run = mixed(4);
        let load = run.record.load.as_mut().unwrap();
        let third = ScriptSpec {
            name: "other".to_string(),
            tag: "other".to_string(),
            weight: 0,
            source: String::new(),
        };
        load.scripts.push(third);
        run
    };
    assert_eq!(names(with_a_third()).len(), 3, "own scripts are all shown");

    let mut run = with_a_third();
    run.record.case.workload.directory = Some(directory(false));
    assert!(!names(run).contains(&"other".to_string()));
}
