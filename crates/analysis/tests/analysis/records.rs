//! Records of a run against each other: what a file lost is found by what another one says.

use analysis::finding::{Finding, Grade};
use analysis::study;
use model::experiment::plan::RunState;
use model::load::interval::Moments;
use model::run::RunData;

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
