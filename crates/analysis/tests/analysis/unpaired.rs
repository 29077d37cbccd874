//! Comparisons of two experiments, whose runs form no pairs.

use analysis::comparison::{
    CaseComparison, ComparedFigure, ComparedSide, ComparisonVerdict, MARGIN, Pairing,
};
use analysis::explain::{PlayedDuet, compare, compare_duet_repeat, compare_repeat};
use analysis::finding::Grade;
use analysis::study;
use model::run::ExperimentData;

use crate::comparison::{duet_of_rounds, pairs};

#[test]
fn two_experiments_are_not_paired_and_their_loads_must_be_the_same() {
    let (a, mut b) = (pairs(6, 1.0), pairs(6, 1.0));
    let compare_both = |a: &ExperimentData, b: &ExperimentData| {
        let (of_a, of_b) = (study(a), study(b));
        compare(
            &[(
                ComparedSide { data: a, study: &of_a, case: 1 },
                ComparedSide { data: b, study: &of_b, case: 1 },
            )],
            MARGIN,
        )
        .remove(0)
    };
    let same = compare_both(&a, &b);
    let ids: Vec<&str> = same.findings.iter().map(|finding| finding.id).collect();
    assert_eq!((ids.as_slice(), same.pairing), (&["not-interleaved"][..], Pairing::None));
    assert!(same.leading().is_some());
    b.plan.cases[0].workload.scale = 7;
    b.plan.cases[0].workload.n_clients = 16;
    let other = compare_both(&a, &b);
    assert_eq!(other.grade, Grade::Void);
    assert!(
        other.findings[0].evidence.contains("scale (100 and 7), clients (8 and 16)"),
        "{:?}",
        other.findings
    );
    b.runs.truncate(5);
    let few = compare_both(&a, &b);
    assert_eq!(few.verdict(), None);
    let expected = "6 runs of A and 3 of B count, and a verdict needs 4 of each";
    assert!(few.findings.iter().any(|f| f.evidence == expected), "{:?}", few.findings);
    let advised = |found: &CaseComparison| -> Vec<String> {
        let advice = found
            .findings
            .iter()
            .filter(|finding| ["too-few-pairs", "not-interleaved"].contains(&finding.id));
        advice.map(|finding| finding.advice.clone()).collect()
    };
    // Stored results are no comparison that could go on.
    let advice = advised(&few);
    assert_eq!(advice.len(), 2, "{advice:?}");
    assert!(
        advice.iter().all(|text| !text.contains("--resume") && text.contains("pgdyno compare")),
        "{advice:?}"
    );
    let (of_a, of_b) = (study(&a), study(&b));
    let sides =
        (ComparedSide { data: &a, study: &of_a, case: 1 }, ComparedSide { data: &b, study: &of_b, case: 1 });
    let advice = advised(&compare_repeat(&[sides], MARGIN).remove(0));
    assert!(
        advice.len() == 2 && advice.iter().all(|text| text.to_lowercase().contains("repeat")),
        "{advice:?}"
    );
}

#[test]
fn two_cases_of_one_experiment_that_were_measured_one_after_the_other_are_doubted() {
    let doubts = |data: &ExperimentData| {
        let of_all = study(data);
        let sides = [1, 2].map(|case| ComparedSide { data, study: &of_all, case });
        let found = compare(&[sides.into()], MARGIN).remove(0);
        found.findings.iter().any(|finding| finding.id == "not-interleaved")
    };
    let mut data = pairs(6, 1.0);
    assert!(!doubts(&data), "in blocks");
    data.plan.runs.sort_by_key(|run| (run.case, run.block));
    assert!(doubts(&data), "in sequence");
    data.plan.runs.sort_by_key(|run| (run.block == 6, run.case, run.block));
    assert!(!doubts(&data), "one block of six mixes them");
}

type Compare = fn(&[(ComparedSide, ComparedSide)], f64) -> Vec<CaseComparison>;

#[test]
fn machines_are_what_a_repetition_compares_and_loads_are_not() {
    let (a, mut b) = (pairs(6, 1.0), pairs(6, 1.0));
    for run in &mut b.runs {
        run.record.tool_version = "9.9.9".to_string();
        let host = run.record.host.as_mut().unwrap();
        (host.hostname, host.n_cpus) = ("elsewhere".to_string(), host.n_cpus + 1);
    }
    let both = |b: &ExperimentData, of: Compare| {
        let (of_a, of_b) = (study(&a), study(b));
        of(
            &[(
                ComparedSide { data: &a, study: &of_a, case: 1 },
                ComparedSide { data: b, study: &of_b, case: 1 },
            )],
            MARGIN,
        )
        .remove(0)
    };
    assert_eq!(both(&b, compare).grade, Grade::Void);
    let repeated = both(&b, compare_repeat);
    assert!(repeated.undeclared.is_empty() && repeated.grade == Grade::Doubtful, "{:?}", repeated.findings);
    let declared: Vec<&str> = repeated.declared.iter().map(|difference| difference.what.as_str()).collect();
    assert_eq!(declared, ["version of pgdyno", "host", "processors"]);
    b.plan.cases[0].workload.scale = 7;
    let other = both(&b, compare_repeat);
    assert_eq!(other.grade, Grade::Void, "the data is not the same");
    let evidence = &other.findings[0].evidence;
    assert!(evidence.starts_with("theirs and here differ in scale (100 and 7)"), "{evidence}");
}

#[test]
fn the_ratio_of_a_duet_is_compared_with_that_of_its_repetition_round_by_round() {
    let (theirs, mut ours) = (pairs(8, 1.0), pairs(8, 1.0));
    let compared = |ours: &ExperimentData, there: &[f64], here: &[f64]| {
        let (of_theirs, of_ours) = (study(&theirs), study(ours));
        let sides = |data, study| [1, 2].map(|case| ComparedSide { data, study, case });
        let duets = [there, here].map(duet_of_rounds);
        let there = PlayedDuet { sides: sides(&theirs, &of_theirs), duet: &duets[0] };
        let here = PlayedDuet { sides: sides(ours, &of_ours), duet: &duets[1] };
        compare_duet_repeat(there, here, MARGIN)
    };
    let original = [1.030, 1.033, 1.027, 1.035, 1.025, 1.031, 1.029, 1.032];
    let check = |here: &[f64], verdict: ComparisonVerdict, low: f64, high: f64| {
        let found = compared(&ours, &original, here);
        assert_eq!(
            (found.verdict(), found.pairing, found.lead),
            (Some(verdict), Pairing::RoundsApart, ComparedFigure::Ratio)
        );
        let ratio = found.leading().unwrap().ratio;
        assert!(low < ratio && ratio < high, "{ratio}");
    };
    check(&[1.032, 1.028, 1.034, 1.026, 1.029, 1.033, 1.031, 1.028], ComparisonVerdict::Same, 0.99, 1.01);
    check(&[1.13, 1.14, 1.12, 1.13, 1.135, 1.125, 1.13, 1.128], ComparisonVerdict::Faster, 1.08, 1.11);
    check(&[0.93, 0.94, 0.92, 0.93], ComparisonVerdict::Slower, 0.88, 0.92);
    check(&[0.9, 1.2, 1.0, 1.1, 0.95, 1.15, 1.03, 0.98], ComparisonVerdict::Unsure, 0.9, 1.1);
    let few = compared(&ours, &original, &original[..3]);
    let evidence = "8 rounds of theirs and 3 here count, and a verdict needs 4 of each";
    assert!(
        few.verdict().is_none() && few.findings.iter().any(|found| found.evidence == evidence),
        "{few:?}"
    );
    assert_eq!(few.findings.iter().filter(|found| found.id == "not-interleaved").count(), 1);
    // What only the other side of the duet has.
    ours.plan.cases[1].workload.scale = 7;
    let other = compared(&ours, &original, &original);
    assert_eq!((other.grade, other.undeclared[0].what.as_str()), (Grade::Void, "scale"));
}
