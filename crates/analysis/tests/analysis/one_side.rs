//! What the judge notices in a run reaches the comparison when all runs of one side have it.

use analysis::comparison::{CaseComparison, Ratio};
use analysis::finding::{Grade, Severity};
use analysis::study;
use model::experiment::script::CaseData;
use model::run::ExperimentData;

use crate::comparison::{compare_cases, pairs};
use crate::disturbances::{mount, unlogged};
use crate::findings::{RUN_TABLE, findings_of};
use crate::quiet::{self, set_committed, set_metric};

/// Findings of which a comparison must know that only one side's runs have them.
const SITUATIONS: &[&str] = &[
    "autovacuum-in-window",
    "checkpoint-in-window",
    "clock-changed",
    "cpu-quota",
    "few-pages",
    "foreign-cpu",
    "foreign-sessions",
    "in-between",
    "never-quiet",
    "no-statements",
    "not-durable",
    "rows-missed",
    "scripts-set",
    "statements-logged",
    "tables-altered",
    "too-short-to-judge",
    "transactions-failed",
];

#[test]
fn what_only_one_side_has_is_named_with_its_weight_or_leaves_no_verdict() {
    for situation in SITUATIONS {
        assert!(
            RUN_TABLE.iter().any(|(id, ..)| id == situation),
            "{situation}: no run of this kind is tested"
        );
    }
    let rows = RUN_TABLE.iter().filter(|(id, ..)| SITUATIONS.contains(id));
    for (n, (id, _, words, disturb)) in rows.enumerate() {
        let (mut data, disturbed) = (pairs(2, 1.0), n as u32 % 2 + 1);
        for run in data.runs.iter_mut().filter(|run| run.record.spec.case == disturbed) {
            disturb(run);
        }
        let comparison = compare_cases(&data);
        // These runs commit more than the one of the table.
        let run = study(&data).runs.into_iter().find(|run| run.case == disturbed).unwrap();
        let found = run.findings.iter().find(|finding| finding.id == *id).unwrap();
        let severity = found.severity;
        let of = |rule: &'static str| comparison.findings.iter().filter(move |finding| finding.id == rule);
        let context = format!("{id} ({words}) on side {disturbed}: {:#?}", comparison.findings);
        if severity == Severity::Void {
            assert_eq!(comparison.verdict(), None, "{context}");
            let side = ["A", "B"][disturbed as usize - 1];
            let cause = format!("no run of {side} counts ({id}: ");
            assert!(of("pairs-excluded").any(|finding| finding.evidence.contains(&cause)), "{context}");
            assert_eq!(comparison.grade, Grade::Void, "{context}");
            continue;
        }
        let sides = if disturbed == 1 {
            "2 of 2 runs of A and 0 of 2 of B"
        } else {
            "0 of 2 runs of A and 2 of 2 of B"
        };
        let named = of("one-sided").find(|finding| finding.evidence.contains(&format!("{id} in {sides}")));
        let named = named.unwrap_or_else(|| panic!("{context}"));
        let expected = if *id == "not-durable" { Severity::Void } else { severity };
        assert_eq!(named.severity, expected, "{context}");
    }
}

/// Eight pairs of equal servers, of which a neighbour took so large a share of the processors' time in all runs of some cases.
fn stolen(cases: &[u32], share: f64) -> CaseComparison {
    let mut data = pairs(8, 1.0);
    for run in data.runs.iter_mut().filter(|run| cases.contains(&run.record.spec.case)) {
        // What is not stolen is busy, and commits in proportion.
        for (metric, value) in [("user", 1.0 - share), ("system", 0.0), ("steal", share)] {
            set_metric(run, &format!("host.cpu.{metric}"), -10.0, 50.0, value);
        }
        let level = 1000.0 + 100.0 * f64::from(run.record.spec.block % 4);
        set_committed(run, 0..35, |t| (level * (1.0 - share)) as u64 + u64::from(t % 5));
    }
    compare_cases(&data)
}

#[test]
fn what_hit_one_side_is_in_the_interval_and_what_hit_both_is_not() {
    // Equal servers: the truth is 1, whatever was taken from one of them.
    let quiet = *stolen(&[], 0.2).leading().unwrap();
    for (cases, measured) in [([1], 1.25), ([2], 0.8)] {
        let found = stolen(&cases, 0.2);
        let ratio = found.leading().unwrap();
        assert!((ratio.ratio / measured - 1.0).abs() < 0.02, "{ratio:?}");
        assert!(ratio.low <= 1.01 && 0.99 <= ratio.high, "it holds the truth: {ratio:?}");
        assert_ne!(found.grade, Grade::Void, "{:#?}", found.findings);
        let named = found.findings.iter().find(|finding| finding.id == "one-sided").unwrap();
        assert_eq!(named.severity, Severity::Note, "{named:?}");
        assert!(named.evidence.contains("steal in"), "{named:?}");
        assert!(named.evidence.contains(", which the interval of the ratio contains"), "{named:?}");
    }
    let both = *stolen(&[1, 2], 0.2).leading().unwrap();
    let width = |ratio: &Ratio| ratio.high / ratio.low - 1.0;
    assert!(width(&both) < 0.02 && width(&quiet) < 0.02, "{both:?}, {quiet:?}");
    assert!((both.ratio - 1.0).abs() < 0.01, "{both:?}");
}

/// The severity of `one-sided` where only B has UNLOGGED tables, and the severity that its runs have.
fn of_unlogged_tables(change: fn(&mut ExperimentData)) -> (Severity, Severity) {
    let mut data = pairs(8, 1.0);
    for run in data.runs.iter_mut().filter(|run| run.record.spec.case == 2) {
        unlogged(run);
    }
    change(&mut data);
    let run = study(&data).runs.into_iter().find(|run| run.case == 2).unwrap();
    let of_run = run.findings.iter().find(|finding| finding.id == "not-durable").unwrap().severity;
    let comparison = compare_cases(&data);
    let found = comparison.findings.iter().find(|finding| finding.id == "one-sided").unwrap();
    assert!(found.evidence.contains("UNLOGGED tables, which write no WAL"), "{found:?}");
    assert_eq!(comparison.grade == Grade::Void, found.severity == Severity::Void, "{comparison:#?}");
    (found.severity, of_run)
}

#[test]
fn tables_that_one_side_asks_for_may_write_no_wal() {
    assert_eq!(of_unlogged_tables(|_| {}), (Severity::Void, Severity::Doubt), "nobody has asked for it");
    let by_key = of_unlogged_tables(|data| {
        data.plan.cases[1].workload.layout.unlogged = true;
        for run in data.runs.iter_mut().filter(|run| run.record.spec.case == 2) {
            run.record.case.workload.layout.unlogged = true;
        }
    });
    assert_eq!(by_key, (Severity::Note, Severity::Note));
    // Other SQL files: the judge does not know that this is why.
    let by_files = of_unlogged_tables(|data| data.plan.cases[1].workload.data = CaseData::None);
    assert_eq!(by_files, (Severity::Note, Severity::Doubt));
    // Data in memory was not asked for.
    let with_memory = of_unlogged_tables(|data| {
        data.plan.cases[1].workload.layout.unlogged = true;
        let of_b = data.runs.iter_mut().filter(|run| run.record.spec.case == 2);
        of_b.for_each(|run| mount(run, "data", "tmpfs", "rw"));
    });
    assert_eq!(with_memory, (Severity::Void, Severity::Doubt));
}

#[test]
fn a_side_of_a_duet_is_no_measurement_by_itself() {
    let mut data = quiet::run(1);
    let slices = "0110".repeat(15);
    let turns = model::load::Turns { slice_ns: 500_000_000, guard_ns: 50_000_000, slices };
    data.record.load.as_mut().unwrap().turns = Some(turns);
    let found = findings_of(data);
    assert_eq!((found.len(), found[0].id), (1, "took-turns"));
    assert!(found[0].evidence.contains("30 of 60 slices"), "{found:?}");
}
