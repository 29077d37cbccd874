//! Records of a run against each other: what a file lost is found by what another one says.

use analysis::finding::{Finding, Grade};
use analysis::study;
use model::experiment::plan::RunState;
use model::load::histogram::HistogramSum;
use model::load::interval::Moments;
use model::run::{RunData, StampedHistogram};

use crate::quiet::{self, latencies_ns};

/// A run whose seconds say exactly how many times its histograms hold.
fn exact() -> RunData {
    let mut data = quiet::run(1);
    for interval in &mut data.intervals {
        let mut latency = Moments::default();
        latencies_ns(interval.t).into_iter().for_each(|ns| latency.record(ns));
        interval.statements = vec![latency.n];
        interval.latency = latency;
    }
    data
}

fn damage(data: RunData) -> (Grade, Option<Finding>) {
    let run = study(&quiet::experiment(1, vec![data])).runs.remove(0);
    (run.grade, run.findings.into_iter().find(|finding| finding.id == "records-damaged"))
}

#[test]
fn records_that_agree_are_whole() {
    assert_eq!(damage(exact()), (Grade::Valid, None));
}

#[test]
fn histograms_that_hold_other_times_than_the_seconds_counted_are_damage() {
    let check = |change: fn(&mut RunData), expected: &str| {
        let mut data = exact();
        change(&mut data);
        let (grade, found) = damage(data);
        let found = found.unwrap_or_else(|| panic!("nothing is found where there should be `{expected}`"));
        assert!(found.evidence.contains(expected), "`{}` lacks `{expected}`", found.evidence);
        assert_eq!(grade, Grade::Doubtful);
    };
    check(
        |data| data.histograms.truncate(30 * 3),
        "18 histograms differ in latency.hlog and intervals.jsonl, first in second 30: the histogram `tpcb` holds 0 of \
         200 times",
    );
    check(|data| drop(data.histograms.pop()), "1 histogram differs");
    check(|data| data.histograms.clear(), "108 histograms differ");
    check(
        |data| data.histograms[60].line = quiet::histogram("tpcb", &[5_000_000; 199]),
        "first in second 20: the histogram `tpcb` holds 199 of 200 times",
    );
    check(|data| data.histograms.push(data.histograms[60].clone()), "`tpcb` holds 400 of 200 times");
}

/// The run with its statement's histograms as one over the measurement, without the last `n_missing` seconds of it.
fn summed(n_missing: u32) -> RunData {
    let mut data = exact();
    let mut sum = HistogramSum::new();
    data.histograms.retain(|one| {
        let is_of_statement = one.line.tag == "tpcb.0";
        if is_of_statement && (5..35 - n_missing).contains(&one.t) {
            sum.add(&HistogramSum::read(&one.line).unwrap());
        }
        !is_of_statement
    });
    data.histograms.push(StampedHistogram { t: 5, line: sum.line("tpcb.0.measured") });
    data
}

#[test]
fn the_sum_of_a_statement_says_what_its_seconds_say() {
    assert_eq!(damage(summed(0)), (Grade::Valid, None));
    let statements = |data| study(&quiet::experiment(1, vec![data])).runs.remove(0).statements;
    let (summed_up, by_second) = (statements(summed(0)), statements(exact()));
    assert_eq!(summed_up.len(), 1);
    assert_eq!(format!("{summed_up:?}"), format!("{by_second:?}"));
    // A second statement ran in the ramp-up alone.
    let mut early = summed(0);
    for interval in &mut early.intervals {
        interval.statements.push(if interval.t == 1 { 1 } else { 0 });
    }
    early.histograms.push(StampedHistogram { t: 0, line: HistogramSum::new().line("tpcb.1.measured") });
    assert_eq!(damage(early), (Grade::Valid, None));
    let lost = damage(summed(1)).1.unwrap().evidence;
    assert!(
        lost.contains("first in second 5: the histogram `tpcb.0.measured` holds 5800 of 6000 times"),
        "{lost}"
    );
}

#[test]
fn a_run_that_was_cut_off_may_lack_its_last_lines() {
    let mut data = exact();
    data.record.state = RunState::Partial;
    data.histograms.truncate(35 * 3);
    assert_eq!(damage(data).1, None);
}

#[test]
fn records_without_exact_sums_say_nothing_of_their_histograms() {
    let mut data = quiet::run(1);
    data.histograms.truncate(30 * 3);
    assert_eq!(damage(data).1, None);
}
