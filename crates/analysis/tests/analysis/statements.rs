//! Statements compared: the one that a change made slower, what fails or returns other rows, and the sum that adds up.

use analysis::comparison::{CaseComparison, StatementComparison, StatementVerdict};
use analysis::study;
use analysis::summary::{RunSummary, StatementExecutions, Study};
use stats::random::Random;

use crate::comparison::pairs;
use crate::scripts::{all_at, compared, vary};

/// Transactions of a run.
const TRANSACTIONS: u64 = 50_000;
/// The client's time between statements, nanoseconds per transaction.
const BETWEEN_NS: f64 = 30_000.0;

/// A statement: executions per transaction, mean time, rows of an execution.
#[derive(Clone, Copy)]
struct Planned {
    name: &'static str,
    calls: f64,
    mean_ns: f64,
    rows: u64,
}

const fn planned(name: &'static str, calls: f64, mean_ns: f64, rows: u64) -> Planned {
    Planned { name, calls, mean_ns, rows }
}

/// As TPC-B has them, with a rare one that is slow; the last one takes less than a hundredth of the time.
const STATEMENTS: [Planned; 8] = [
    planned("BEGIN;", 1.0, 4e4, 0),
    planned("UPDATE accounts", 1.0, 2e5, 1),
    planned("SELECT abalance", 1.0, 6e4, 1),
    planned("UPDATE tellers", 1.0, 1.2e5, 1),
    planned("UPDATE branches", 1.0, 1.8e5, 1),
    planned("END;", 1.0, 3.5e5, 0),
    planned("SELECT report", 0.002, 9e7, 120),
    planned("SELECT tiny", 0.01, 5e4, 1),
];

fn executions(index: usize, mean_ns: f64) -> StatementExecutions {
    let of = STATEMENTS[index];
    let n = (of.calls * TRANSACTIONS as f64).round() as u64;
    StatementExecutions {
        script: 0,
        script_name: "tpcb".to_string(),
        index,
        label: of.name.to_string(),
        n,
        sum_ns: n as f64 * mean_ns,
        rows: Some(n * of.rows),
        errors: Default::default(),
        explained: None,
    }
}

/// The mean transaction that follows from the statements.
fn with_whole(run: &mut RunSummary) {
    let in_statements: f64 = run.executions.iter().map(|of| of.sum_ns).sum();
    run.service = Some(all_at(TRANSACTIONS, in_statements / TRANSACTIONS as f64 + BETWEEN_NS));
}

/// Gives each run the statements, whose means vary.
fn plant(study: &mut Study, random: &mut Random, spread: f64, effects: [f64; 8]) {
    let planned = std::array::from_fn(|n| (STATEMENTS[n].mean_ns, effects[n]));
    vary(study, random, spread, planned, |run, means_ns: [f64; 8]| {
        run.executions = (0..).zip(means_ns).map(|(n, mean_ns)| executions(n, mean_ns)).collect();
        with_whole(run);
    });
}

fn all(compared: &CaseComparison) -> &[StatementComparison] {
    &compared.statements.all
}

fn named(compared: &CaseComparison) -> Vec<(&str, StatementVerdict)> {
    let named = all(compared).iter().filter(|one| one.is_different() || one.is_wrong());
    named.map(|one| (one.statement.as_str(), one.verdict)).collect()
}

fn of<'a>(compared: &'a CaseComparison, name: &str) -> &'a StatementComparison {
    all(compared).iter().find(|one| one.statement == name).unwrap()
}

fn runs_of(study: &mut Study, case: u32) -> impl Iterator<Item = &mut RunSummary> {
    study.runs.iter_mut().filter(move |run| run.case == case)
}

#[test]
fn the_statement_that_became_slower_is_named_and_no_other() {
    let data = pairs(12, 1.0);
    let mut study = study(&data);
    for (slow, planned) in STATEMENTS[..7].iter().enumerate() {
        let mut effects = [1.0; 8];
        effects[slow] = 1.5;
        plant(&mut study, &mut Random::new(7 + slow as u64), 0.03, effects);
        let compared = compared(&data, &study);
        assert_eq!(named(&compared), [(planned.name, StatementVerdict::Slower)], "{:#?}", all(&compared));
        let first = &all(&compared)[0];
        assert_eq!((first.statement.as_str(), first.n_pairs), (planned.name, 12), "it comes first");
        assert_eq!((first.is_slower_at(0.05), first.is_slower_at(1.0)), (Some(true), Some(false)));
        let ratio = first.result.unwrap();
        assert!((ratio.ratio - 1.5).abs() < 0.1 && ratio.p_adjusted >= ratio.p, "{ratio:?}");
    }
}

#[test]
fn what_takes_less_than_a_hundredth_is_a_candidate_at_most() {
    let data = pairs(12, 1.0);
    let mut study = study(&data);
    let mut effects = [1.0; 8];
    effects[7] = 4.0;
    plant(&mut study, &mut Random::new(3), 0.02, effects);
    let slow = compared(&data, &study);
    let tiny = of(&slow, "SELECT tiny");
    assert!(!tiny.is_in_family() && tiny.is_candidate() && !tiny.is_different(), "{tiny:?}");
    assert_eq!(tiny.verdict, StatementVerdict::MaybeSlower);
    assert_eq!((tiny.is_slower_at(0.05), named(&slow).len()), (None, 0));
    // Nor is it the same, however narrow its interval is.
    plant(&mut study, &mut Random::new(3), 0.0005, [1.0; 8]);
    let equal = compared(&data, &study);
    let tiny = of(&equal, "SELECT tiny");
    assert_eq!(of(&equal, "END;").verdict, StatementVerdict::Same);
    assert!(tiny.verdict != StatementVerdict::Same && !tiny.is_candidate(), "{tiny:?}");
}

#[test]
fn equal_servers_differ_in_one_comparison_in_twenty_at_most() {
    let (mut n_named, mut n_candidates, mut n_all) = (0, 0, 0);
    for (n_pairs, n_tried, seed) in [(6, 100, 1), (12, 50, 2)] {
        let data = pairs(n_pairs, 1.0);
        let (mut study, mut random) = (study(&data), Random::new(seed));
        for _ in 0..n_tried {
            plant(&mut study, &mut random, 0.05, [1.0; 8]);
            let compared = compared(&data, &study);
            n_named += u64::from(!named(&compared).is_empty());
            n_candidates += u64::from(all(&compared).iter().any(StatementComparison::is_candidate));
            n_all += 1;
        }
    }
    // More than that would be rarer than one in a thousand.
    for n in [n_named, n_candidates] {
        let chance = 1.0 - stats::binomial_cdf(n.saturating_sub(1), n_all, 0.05);
        assert!(chance > 0.001, "{n} of {n_all}");
    }
}

#[test]
fn the_parts_add_up_to_the_difference_of_the_mean_transaction() {
    let data = pairs(8, 1.0);
    let mut study = study(&data);
    plant(&mut study, &mut Random::new(5), 0.04, [1.0, 1.5, 1.0, 0.7, 1.0, 1.2, 30.0, 1.0]);
    // B executes one twice as often, one never, and one that A does not have.
    for run in runs_of(&mut study, 2) {
        run.executions[2].n *= 2;
        run.executions[2].sum_ns *= 2.0;
        run.executions[7].label = "SELECT other".to_string();
        run.executions.remove(0);
        with_whole(run);
    }
    let compared = compared(&data, &study);
    let sum = compared.statements.sum.unwrap();
    let parts: f64 = all(&compared).iter().map(|one| one.part.ns).sum();
    assert!((sum.difference.ns - (sum.b_ns - sum.a_ns)).abs() < 1e-3);
    let left = sum.difference.ns - parts - sum.calls.ns - sum.between.ns;
    assert!(left.abs() < 1e-3, "{left} ns of {sum:?}");
    assert!(sum.between.ns.abs() < 1e-3, "the client takes as long on both sides: {sum:?}");
    // 6e4 ns once more, 4e4 less; one that is as rare on both sides.
    assert!((sum.calls.ns - 2e4).abs() < 0.2 * 2e4, "{sum:?}");
    assert_eq!(of(&compared, "BEGIN;").verdict, StatementVerdict::OnlyA);
    assert_eq!(of(&compared, "SELECT other").verdict, StatementVerdict::OnlyB);
    assert_eq!(of(&compared, "SELECT tiny").part.ns, 0.0);
    let report = of(&compared, "SELECT report");
    let (low, high) = (report.part.low_ns.unwrap(), report.part.high_ns.unwrap());
    assert!(low < report.part.ns && report.part.ns < high && low > 0.0, "{report:?}");
}

#[test]
fn wrong_comes_before_slow() {
    let data = pairs(6, 1.0);
    let mut study = study(&data);
    plant(&mut study, &mut Random::new(11), 0.01, [1.0, 3.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0]);
    for run in runs_of(&mut study, 2) {
        // A rare error in each run, another one too often, and no rows.
        run.executions[5].errors.insert("40P01".to_string(), 2);
        run.executions[3].errors.insert("57014".to_string(), 2_000);
        run.executions[2].rows = Some(0);
    }
    // One of A and of B alike.
    for run in &mut study.runs {
        run.executions[4].errors.insert("40001".to_string(), 3);
    }
    // And one that chance explains.
    study.runs.iter_mut().filter(|run| run.case == 2).take(2).for_each(|run| {
        run.executions[1].errors.insert("53300".to_string(), 1);
    });
    let compared = compared(&data, &study);
    let names: Vec<&str> = all(&compared).iter().map(|one| one.statement.as_str()).collect();
    assert!(names[..2].contains(&"END;") && names[..2].contains(&"UPDATE tellers"), "{names:?}");
    assert_eq!(names[2..4], ["SELECT abalance", "UPDATE accounts"]);
    assert_eq!(of(&compared, "END;").new_errors, ["40P01"]);
    let tellers = of(&compared, "UPDATE tellers");
    assert!(tellers.fails_more() && tellers.failed[0] == 0.0 && tellers.failed[1] > 0.03, "{tellers:?}");
    let select = of(&compared, "SELECT abalance");
    assert!(select.rows_differ && select.rows == [Some(1.0), Some(0.0)], "{select:?}");
    assert!(!of(&compared, "UPDATE branches").is_wrong() && !of(&compared, "UPDATE accounts").is_wrong());
}

#[test]
fn a_statement_that_always_fails_is_seen() {
    let data = pairs(6, 1.0);
    let mut study = study(&data);
    plant(&mut study, &mut Random::new(13), 0.01, [1.0; 8]);
    for run in runs_of(&mut study, 2) {
        let tellers = &mut run.executions[3];
        (tellers.n, tellers.sum_ns, tellers.rows) = (0, 0.0, None);
        tellers.errors.insert("42501".to_string(), 50_000);
    }
    let compared = compared(&data, &study);
    let first = &all(&compared)[0];
    assert_eq!((first.statement.as_str(), first.verdict), ("UPDATE tellers", StatementVerdict::OnlyA));
    assert!(first.fails_more() && first.failed == [0.0, 1.0], "{first:?}");
}

#[test]
fn what_cannot_be_judged_says_why() {
    let few = pairs(3, 1.0);
    let mut of_few = study(&few);
    plant(&mut of_few, &mut Random::new(17), 0.01, [2.0; 8]);
    let compared_few = compared(&few, &of_few);
    assert!(
        all(&compared_few)
            .iter()
            .all(|one| one.verdict == StatementVerdict::FewPairs && one.result.is_none())
    );
    assert!(compared_few.statements.sum.unwrap().difference.low_ns.is_none());
    let data = pairs(6, 1.0);
    let mut study = study(&data);
    plant(&mut study, &mut Random::new(19), 0.01, [1.0; 8]);
    study.runs.iter_mut().for_each(|run| run.executions[6].n = 4);
    let report = compared(&data, &study);
    assert_eq!(of(&report, "SELECT report").verdict, StatementVerdict::FewExecutions, "24 on each side");
    // One statement is the transaction.
    study.runs.iter_mut().for_each(|run| run.executions.truncate(1));
    assert!(compared(&data, &study).statements.is_empty());
}

#[test]
fn results_without_rows_are_compared_by_time() {
    let data = pairs(6, 1.0);
    let mut study = study(&data);
    plant(&mut study, &mut Random::new(23), 0.01, [1.5, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0]);
    study.runs.iter_mut().flat_map(|run| &mut run.executions).for_each(|of| of.rows = None);
    let compared = compared(&data, &study);
    assert_eq!(named(&compared), [("BEGIN;", StatementVerdict::Slower)]);
    assert_eq!(of(&compared, "BEGIN;").rows, [None, None]);
}

#[test]
fn statements_with_one_beginning_are_distinguished_by_their_order() {
    let data = pairs(6, 1.0);
    let mut study = study(&data);
    plant(&mut study, &mut Random::new(29), 0.01, [1.0, 1.0, 1.0, 2.0, 1.0, 1.0, 1.0, 1.0]);
    study.runs.iter_mut().for_each(|run| run.executions[3].label = "UPDATE accounts".to_string());
    let compared = compared(&data, &study);
    let same: Vec<(usize, bool)> = all(&compared)
        .iter()
        .filter(|one| one.statement == "UPDATE accounts")
        .map(|one| (one.index, one.is_different()))
        .collect();
    assert_eq!(same, [(3, true), (1, false)]);
}
