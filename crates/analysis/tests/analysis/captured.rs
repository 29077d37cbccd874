//! What the judge says of captured workloads: errors that the source did not have, rows that ran out, writers that reading leaves out.

use analysis::finding::Severity;
use analysis::study;
use model::directory::CapturedFrom;
use model::experiment::case::directory::WorkloadDirectory;
use model::load::interval::Interval;
use model::load::replayed::ReplayedTrace;
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

/// A captured workload whose trace was replayed like this.
fn traced(trace: ReplayedTrace) -> RunData {
    let mut run = captured(|_| {});
    run.record.done.as_mut().unwrap().replayed = Some(trace);
    run
}

#[test]
fn a_trace_says_how_late_it_was_and_what_ended_in_another_way_than_at_the_source() {
    assert_eq!(found(captured(|_| {}), "trace-pace"), None);
    let kept = ReplayedTrace {
        n_in_trace: 1_000,
        n_statements: 1_000,
        lag_us_median: 200,
        lag_us_p99: 5_000,
        ..Default::default()
    };
    expect(
        traced(kept.clone()),
        "trace-pace",
        Severity::Note,
        "1000 statements were sent 0.2 ms late (median), 99 % of them at most 5.0 ms",
    );
    assert_eq!(found(traced(kept.clone()), "trace-diverged"), None);

    let late = ReplayedTrace { lag_us_median: 100_001, n_waits: 3, waits_us: 9_000, ..kept.clone() };
    expect(traced(late), "trace-pace", Severity::Doubt, "3 writes waited for the writer before it");

    let few = ReplayedTrace { n_missing_errors: 1, n_same_errors: 900, ..kept.clone() };
    expect(traced(few), "trace-diverged", Severity::Note, "1 failed at the source alone");
    let many =
        ReplayedTrace { n_in_trace: 1_022, n_new_errors: 8, n_cut_off: 22, n_spared: 10, ..kept.clone() };
    let words = "of the 1022 statements: 8 failed here alone, 12 were not sent";
    expect(traced(many), "trace-diverged", Severity::Doubt, words);

    assert_eq!(found(traced(kept.clone()), "counts-broken"), None);
    let twice = ReplayedTrace { n_refused: 1, ..kept };
    expect(
        traced(twice),
        "counts-broken",
        Severity::Void,
        "the statements of the trace break their identity",
    );
}
