//! Outages of a few seconds: nothing is served, what queued is served at once, and one connection fails at a time.

use analysis::summary::{
    CaseOutages, CommitCounts, CommitsAfter, LossOfCommits, OutageFigure, OutageLength, OutageMark,
    OutageParts, OutagePoint, OutageSummary, Study,
};

use super::Random;

const RATE_PER_S: f64 = 200.0;

/// Gives each run an outage of 2.4 to 3.6 s; the last one of a case that loses has lost commits.
pub(crate) fn add_outages(study: &mut Study, loses: bool) {
    let mut random = Random(23);
    let n = study.runs.len();
    for (index, run) in study.runs.iter_mut().enumerate() {
        let length_s = 2.4 + 1.2 * index as f64 / (n - 1).max(1) as f64;
        let lost = if loses && index + 1 == n { 37 } else { 0 };
        run.outage = Some(Box::new(outage(20.0 + random.next() * 20.0, length_s, lost, &mut random)));
    }
    for case in &mut study.cases {
        let of_case: Vec<&OutageSummary> = study
            .runs
            .iter()
            .filter(|run| run.case == case.case.id)
            .filter_map(|run| run.outage.as_deref())
            .collect();
        let figure = |of: fn(&OutageSummary) -> f64| figure(of_case.iter().map(|one| of(one)).collect());
        let lost: Vec<u64> = of_case.iter().filter_map(|one| one.commits.lost()).filter(|n| *n > 0).collect();
        let n_known = of_case.len();
        case.outages = Some(CaseOutages {
            fault: "kill-primary".to_string(),
            n: n_known,
            write_outage: figure(|one| one.write_outage.s),
            lost_service: figure(|one| one.lost_service_s),
            gap: figure(|one| one.gap.s),
            loss: LossOfCommits {
                n_known,
                chance_below: if lost.is_empty() { stats::chance_of_none_seen(n_known, 0.95) } else { None },
                lost,
            },
        });
    }
}

fn figure(values: Vec<f64>) -> OutageFigure {
    let at = |q: f64| OutageLength { s: stats::quantile(&values, q).unwrap_or(0.0), is_at_least: false };
    OutageFigure {
        median: at(0.5),
        min: at(0.0),
        max: at(1.0),
        coverage: stats::extremes_cover_median(values.len()),
        values: values.iter().map(|s| OutageLength { s: *s, is_at_least: false }).collect(),
    }
}

fn outage(at_s: f64, length_s: f64, lost: u64, random: &mut Random) -> OutageSummary {
    let length = |s: f64| OutageLength { s, is_at_least: false };
    let ready_s = length_s - 0.3;
    let mark = |at_s: f64, text: &str| OutageMark { at_s, text: text.to_string() };
    OutageSummary {
        fault: "kill-primary".to_string(),
        at_s,
        took_s: Some(0.011),
        is_proved: true,
        wal_since_checkpoint_bytes: Some(30_000_000 + (random.next() * 2e8) as u64),
        offered_per_s: RATE_PER_S,
        p99_before_ns: Some(9_000_000),
        limit_ns: 100_000_000,
        write_outage: length(length_s),
        onset_s: None,
        n_due: (length_s * RATE_PER_S) as u64,
        n_not_served: ((length_s - 0.1) * RATE_PER_S) as u64,
        lost_service_s: length_s - 0.1,
        gap: length(length_s + 0.004),
        parts: OutageParts {
            detection_s: Some(1.0),
            recovery_s: Some(ready_s - 1.0),
            first_commit_s: Some(0.3),
            clients_s: Some(0.34),
        },
        commits: CommitsAfter {
            unknown: None,
            node: Some("s1".to_string()),
            counted: Some(CommitCounts {
                acknowledged: 12_345,
                lost,
                lost_before_s: (lost > 0).then_some([0.41, 0.002]),
                ghosts: 0,
                doubled: 0,
                unknown_present: 3,
                unknown_absent: 5,
                of_two_primaries: Some(0),
            }),
        },
        after_effects: Some(length(1.4)),
        errors: vec![("lost".to_string(), 8)],
        marks: vec![
            mark(0.0, "kill-primary"),
            mark(1.0, "promote s1"),
            mark(ready_s, "s1 ready"),
            mark(length_s, "service back"),
        ],
        points: (-50..(10.0 * (length_s + 10.0)) as i64).map(|n| point(n, length_s, random)).collect(),
    }
}

fn point(n: i64, length_s: f64, random: &mut Random) -> OutagePoint {
    let at_s = n as f64 / 10.0;
    let is_out = at_s >= 0.0 && at_s + 0.1 < length_s;
    let due = (0.1 * random.around(RATE_PER_S, 0.15)) as u32;
    let is_first = !is_out && at_s >= 0.0 && at_s < length_s;
    let queued = (length_s * RATE_PER_S) as u32;
    let slow = if at_s > length_s { 1.0 + 3.0 * (-(at_s - length_s)).exp() } else { 1.0 };
    let ms = if is_out { 1e3 * (length_s - at_s) } else { random.around(4.0, 0.2) * slow };
    OutagePoint {
        at_s,
        due,
        served: if is_out { 0 } else { due },
        committed: if is_first {
            queued
        } else if is_out {
            0
        } else {
            due
        },
        errors: if n == 0 { 8 } else { 0 },
        p50_ns: Some((ms * 1e6) as u64),
        max_ns: Some((ms * if is_out { 1.02 } else { 2.2 } * 1e6) as u64),
    }
}
