//! When runs of a case do not agree, also where there are two only; and how repeated attempts are reported.

use analysis::budget::EarlierRuns;
use analysis::explain::{explain_run, study_after};
use analysis::finding::Grade;
use analysis::study;
use model::run::ExperimentData;

use crate::quiet::{self, set_committed, tps};

/// The second of two runs commits `more` transactions in each second.
fn two_runs(more: u64) -> ExperimentData {
    let mut data = quiet::experiment(2, (1..=2).map(quiet::run).collect());
    set_committed(&mut data.runs[1], 5..35, |t| tps(t) + more);
    data
}

#[test]
fn two_runs_are_doubted_only_beyond_what_chance_gives_at_the_limit() {
    // At a CV of 2 %, two runs of about 1000 per second differ by more than 55 in 5 of 100 cases.
    let expected =
        [(0, false, 0.03..0.1), (50, false, 0.06..0.2), (65, true, 0.06..0.2), (1000, true, 0.5..9.0)];
    for (more, is_found, good_to) in expected {
        let case = study(&two_runs(more)).cases.remove(0);
        assert_eq!(case.findings.iter().any(|finding| finding.id == "spread"), is_found, "{more}");
        let known = case.uncertainty.unwrap().throughput;
        assert_eq!((case.grade, known.budget[0].id), (Grade::Valid, "runs-differ"), "{more}");
        assert!(good_to.contains(&known.good_to()), "{more}: {known:?}");
    }
}

#[test]
fn the_difference_between_two_runs_is_reported() {
    let case = study(&two_runs(1000)).cases.remove(0);
    let found = case.findings.iter().find(|finding| finding.id == "spread").unwrap();
    assert_eq!(found.evidence, "the two runs differ by 66 % of their mean: 1,006 and 2,006 per second");
}

#[test]
fn where_an_experiment_says_little_earlier_ones_say_how_much_runs_differ() {
    let of = |n: u32, earlier: Option<&EarlierRuns>| {
        let data = quiet::experiment(n, (1..=n).map(quiet::run).collect());
        let explained = data.runs.iter().map(|run| explain_run(run, None, true)).collect();
        let known = study_after(&data, explained, earlier).cases.remove(0).uncertainty.unwrap().throughput;
        let row = known.budget.into_iter().find(|row| row.id == "runs-differ").unwrap();
        (row.high - 1.0, row.evidence)
    };
    let cases = vec![vec![1000.0, 1004.0, 996.0], vec![500.0, 502.0, 498.0]];
    let earlier = EarlierRuns { cases, n_experiments: 2, measure_s: 30.0 };
    let (assumed, _) = of(1, None);
    let (known, evidence) = of(1, Some(&earlier));
    assert!(known < 0.03 && known < assumed, "{known} {assumed}");
    let words = "runs vary by 0.4 % in 2 earlier experiments of this workload on this machine (6 runs)";
    assert!(evidence.starts_with("one run; ") && evidence.contains(words), "{evidence}");
    let (_, evidence) = of(2, Some(&earlier));
    assert!(evidence.starts_with("2 runs vary by ") && evidence.contains(words), "{evidence}");
    let few = EarlierRuns { cases: vec![vec![1000.0, 1010.0]], ..earlier };
    assert_eq!(of(1, Some(&few)).0, assumed, "two runs are too few");
}
