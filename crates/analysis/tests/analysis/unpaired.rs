//! Comparisons of two experiments, whose runs form no pairs.

use analysis::comparison::{MARGIN, Pairing, Side};
use analysis::explain::compare;
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
    assert!(few.findings.iter().any(|f| f.evidence.contains("only 3 of 4 runs")), "{:?}", few.findings);
}
