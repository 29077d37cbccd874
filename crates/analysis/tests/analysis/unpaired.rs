//! Comparisons of two experiments, whose runs form no pairs.

use analysis::comparison::{CaseComparison, MARGIN, Pairing, Side};
use analysis::explain::{compare, compare_repeat};
use analysis::finding::Grade;
use analysis::study;
use model::run::ExperimentData;

use crate::comparison::pairs;

#[test]
fn two_experiments_are_not_paired_and_their_loads_must_be_the_same() {
    let (a, mut b) = (pairs(6, 1.0), pairs(6, 1.0));
    let compare_both = |a: &ExperimentData, b: &ExperimentData| {
        let (of_a, of_b) = (study(a), study(b));
        compare(&[(Side { data: a, study: &of_a, case: 1 }, Side { data: b, study: &of_b, case: 1 })], MARGIN)
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
    let expected = "A has 6 and B has 3 runs that count, and a verdict needs 4 of each";
    assert!(few.findings.iter().any(|f| f.evidence == expected), "{:?}", few.findings);
}

type Compare = fn(&[(Side, Side)], f64) -> Vec<CaseComparison>;

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
        of(&[(Side { data: &a, study: &of_a, case: 1 }, Side { data: b, study: &of_b, case: 1 })], MARGIN)
            .remove(0)
    };
    assert_eq!(both(&b, compare).grade, Grade::Void);
    let repeated = both(&b, compare_repeat);
    assert!(repeated.undeclared.is_empty() && repeated.grade == Grade::Doubtful, "{:?}", repeated.findings);
    let declared: Vec<&str> = repeated.declared.iter().map(|difference| difference.what.as_str()).collect();
    assert_eq!(declared, ["version of pgdyno", "host", "processors"]);
    b.plan.cases[0].workload.scale = 7;
    assert_eq!(both(&b, compare_repeat).grade, Grade::Void, "the data is not the same");
}
