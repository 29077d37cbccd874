//! What the judge says of captured workloads: errors that the source did not have, rows that ran out, writers that reading leaves out.

use analysis::finding::Severity;
use analysis::study;
use model::directory::CapturedFrom;
use model::experiment::case::directory::WorkloadDirectory;
use model::load::interval::Interval;
use model::run::RunData;

use crate::quiet;
use crate::scripts::mixed;

/// A captured workload of two transactions, of which intervals of the second are changed.
fn captured(change: impl Fn(&mut Interval)) -> RunData {
    let mut run = mixed(4);
    let directory =
        WorkloadDirectory { captured: Some(CapturedFrom::default()), ..WorkloadDirectory::default() };
    run.record.case.workload.directory = Some(Box::new(directory));
    run.intervals.iter_mut().filter(|interval| interval.script == 1).for_each(change);
    quiet::finish(&mut run);
    run
}

/// The finding of a rule in a run.
fn found(run: RunData, id: &str) -> Option<(Severity, String)> {
    let study = study(&quiet::experiment(1, vec![run]));
    let finding = study.runs[0].findings.iter().find(|finding| finding.id == id)?;
    Some((finding.severity, finding.evidence.clone()))
}

#[track_caller]
fn expect(run: RunData, id: &str, severity: Severity, words: &str) {
    let (of_found, evidence) = found(run, id).unwrap_or_else(|| panic!("no {id}"));
    assert!(of_found == severity && evidence.contains(words), "{of_found:?}: {evidence}");
}

fn fail(interval: &mut Interval, n: u64) {
    let n = n.min(interval.counts.committed);
    interval.counts.committed -= n;
    interval.counts.failed += n;
}

#[test]
fn errors_that_the_source_did_not_have_are_a_doubt_of_a_script_and_void_of_all() {
    assert_eq!(found(captured(|_| {}), "new-errors"), None);
    expect(captured(|of| fail(of, 5)), "new-errors", Severity::Doubt, "2.0 % of `take` failed, 0.5 % of all");
    expect(captured(|of| fail(of, 50)), "new-errors", Severity::Void, "20 % of `take` failed, 5.0 % of all");
    assert_eq!(found(captured(|of| fail(of, 1)), "new-errors"), None);
    let mut own = captured(|of| fail(of, 50));
    own.record.case.workload.directory = None;
    assert_eq!(found(own, "new-errors"), None);
}

#[test]
fn rows_that_ran_out_are_a_doubt_where_they_are_many() {
    let reused = |n: u64| captured(move |interval| interval.facts.extend([("reused_draws".to_string(), n)]));
    expect(
        reused(1),
        "draws-reused",
        Severity::Note,
        "30 transactions of `take` (0.4 %) got rows that were dealt before",
    );
    expect(reused(50), "draws-reused", Severity::Doubt, "of `take` (20 %)");
    assert_eq!(found(reused(0), "draws-reused"), None);
}

#[test]
fn writers_that_reading_leaves_out_are_named() {
    let refused = || {
        captured(|interval| {
            interval.counts.expected = interval.counts.committed;
            interval.counts.committed = 0;
        })
    };
    assert_eq!(found(refused(), "left-out-by-reading"), None, "the source had these errors");
    let mut run = refused();
    run.record.case.workload.only_reads = true;
    expect(
        run,
        "left-out-by-reading",
        Severity::Note,
        "of `take` were refused or ended with an expected error",
    );
}
