//! The figures of an outage, from the transactions that were due.
//!
//! A rate says nothing of an outage: what queued meanwhile is served at once in the end, and its burst hides the gap.

mod after;
mod commits;
mod points;
mod schedule;

use model::load::Pace;
use model::load::capacity::LatencyTarget;
use model::run::server::outage::OutageRecord;
use model::run::{RunData, RunRecord};

use super::since;
use crate::summary::{CaseOutages, LossOfCommits, OutageFigure, OutageLength, OutageMark, OutageParts};
use crate::summary::{OutageSummary, RunSummary};
use schedule::{OutageSpan, Schedule};

/// Shortest limit of an answer, nanoseconds: what a person notices. Our convention.
const LIMIT_NS_MIN: u64 = 100_000_000;
/// The limit in 99th percentiles before the fault. Our convention.
const LIMIT_TIMES: u64 = 10;
/// Fewest transactions before the fault of which a 99th percentile is taken.
const BEFORE_MIN: usize = 100;
/// Clients that must have committed again for the clients to be back, as a share.
const CLIENTS_BACK: f64 = 0.9;

/// When the fault of a run began, seconds since `go`.
pub(crate) fn fault_s(record: &RunRecord) -> Option<f64> {
    let began = record.outage.as_ref()?.began_unix_ns?;
    Some(since(record.go_unix_ns?, began))
}

/// The figures of a run's outage; `None` if it had none, or if its load ended before.
pub(crate) fn of_run(data: &RunData) -> Option<OutageSummary> {
    let record = &data.record;
    let outage = record.outage.as_ref()?;
    let began_unix_ns = outage.began_unix_ns?;
    let at_s = fault_s(record)?;
    let after = |unix_ns: u64| since(began_unix_ns, unix_ns);

    let mut schedule = Schedule::new(data, at_s);
    let window = record.window();
    let p99_before_ns = schedule.p99_before_ns(f64::from(window.ramp_up_s) - at_s, BEFORE_MIN);
    let limit_ns = limit_ns(record, p99_before_ns);
    schedule.limit(limit_ns);
    let offered_per_s = schedule.offered_per_s(record);
    let span = if is_shown_by_check(record) {
        schedule.outage_when_seen(offered_per_s, limit_ns)
    } else {
        schedule.outage_at_once()
    };
    let lost = schedule.not_served_until(span.end.s);
    let ready_s = outage.ready_unix_ns.map(after);

    Some(OutageSummary {
        fault: outage.fault.clone(),
        at_s,
        took_s: outage.complete_unix_ns.map(after),
        is_proved: outage.proof.is_some(),
        wal_since_checkpoint_bytes: outage.wal_since_checkpoint_bytes,
        offered_per_s,
        p99_before_ns,
        limit_ns,
        write_outage: span.length(),
        onset_s: (span.begin_s > 0.0).then_some(span.begin_s),
        n_due: lost.n_due,
        n_not_served: lost.n_not_served,
        lost_service_s: if offered_per_s > 0.0 { lost.n_not_served as f64 / offered_per_s } else { 0.0 },
        gap: schedule.longest_gap(span.end),
        parts: parts(outage, &schedule, ready_s, after),
        commits: commits::of_record(record, outage, at_s),
        after_effects: if span.end.is_at_least {
            None
        } else {
            after::effects(&schedule, span.end.s, p99_before_ns)
        },
        errors: schedule.errors_during(span.end),
        marks: marks(outage, span, after),
        points: points::around(&schedule, span.end.s),
    })
}

/// Whether a command of the user's has shown that the fault happened: what it does may come after it, so that service that goes on at first
/// is no sign that it hit nothing.
fn is_shown_by_check(record: &RunRecord) -> bool {
    let is_proved = record.outage.as_ref().is_some_and(|outage| outage.proof.is_some());
    is_proved && record.case.outage.as_ref().is_some_and(|outage| !outage.check.is_empty())
}

/// How long an answer may take: what the pace asks for, or else a tenth of a second or ten times the 99th percentile before, whichever is
/// more.
fn limit_ns(record: &RunRecord, p99_before_ns: Option<u64>) -> u64 {
    match record.pace() {
        Pace::Kept { target: LatencyTarget { limit_ns, .. }, .. } => limit_ns,
        _ => p99_before_ns.map_or(LIMIT_NS_MIN, |p99| p99.saturating_mul(LIMIT_TIMES).max(LIMIT_NS_MIN)),
    }
}

fn parts(
    outage: &OutageRecord,
    schedule: &Schedule,
    ready_s: Option<f64>,
    after: impl Fn(u64) -> f64,
) -> OutageParts {
    let detection_s = outage.first_step().map(|step| after(step.began_unix_ns));
    let back = ready_s.and_then(|ready_s| schedule.back_after(ready_s, CLIENTS_BACK));
    OutageParts {
        detection_s,
        recovery_s: ready_s.map(|ready_s| (ready_s - detection_s.unwrap_or(0.0)).max(0.0)),
        first_commit_s: back.as_ref().map(|back| back.first_s),
        clients_s: back.and_then(|back| back.most_s),
    }
}

fn marks(outage: &OutageRecord, span: OutageSpan, after: impl Fn(u64) -> f64) -> Vec<OutageMark> {
    let mark = |at_s: f64, text: &str| OutageMark { at_s, text: text.to_string() };
    let steps = outage.steps.iter().map(|step| {
        let failed = if step.error.is_some() { " failed" } else { "" };
        mark(after(step.began_unix_ns), &format!("{}{failed}", step.what))
    });
    let who = outage.survivor.as_deref().unwrap_or("server");
    let ready = outage.ready_unix_ns.map(|unix_ns| mark(after(unix_ns), &format!("{who} ready")));
    let begin = (span.begin_s > 0.0).then(|| mark(span.begin_s, "service lost"));
    let is_seen = !span.end.is_at_least && span.end.s > span.begin_s;
    let end = is_seen.then(|| mark(span.end.s, "service back"));
    let mut marks: Vec<OutageMark> =
        std::iter::once(mark(0.0, &outage.fault)).chain(steps).chain(ready).chain(begin).chain(end).collect();
    marks.sort_by(|a, b| a.at_s.total_cmp(&b.at_s));
    marks
}

/// The outages of a case, of its runs that count; `None` without any.
pub(crate) fn of_case(runs: &[&RunSummary]) -> Option<CaseOutages> {
    let outages: Vec<&OutageSummary> = runs.iter().filter_map(|run| run.outage.as_deref()).collect();
    let first = *outages.first()?;
    let figure =
        |of: fn(&OutageSummary) -> OutageLength| of_values(outages.iter().map(|one| of(one)).collect());
    Some(CaseOutages {
        fault: first.fault.clone(),
        n: outages.len(),
        write_outage: figure(|one| one.write_outage),
        lost_service: figure(OutageSummary::lost_service),
        gap: figure(|one| one.gap),
        loss: loss(&outages),
    })
}

/// Values with their median, smallest and largest. Where a value is a lower bound, so is what would grow with it.
fn of_values(values: Vec<OutageLength>) -> OutageFigure {
    let seconds: Vec<f64> = values.iter().map(|value| value.s).collect();
    let mut sorted = seconds.clone();
    sorted.sort_by(f64::total_cmp);
    let at = |q: f64| stats::quantile(&seconds, q).unwrap_or(0.0);
    // Of an even number, the median is that of the two in the middle.
    let upper_middle = sorted.get(sorted.len() / 2).copied().unwrap_or(0.0);
    let is_open_to = |s: f64| values.iter().any(|value| value.is_at_least && value.s <= s);
    OutageFigure {
        median: OutageLength { s: at(0.5), is_at_least: is_open_to(upper_middle) },
        min: OutageLength { s: at(0.0), is_at_least: is_open_to(at(0.0)) },
        max: OutageLength { s: at(1.0), is_at_least: is_open_to(at(1.0)) },
        coverage: stats::extremes_cover_median(values.len()),
        values,
    }
}

fn loss(outages: &[&OutageSummary]) -> LossOfCommits {
    let known: Vec<u64> = outages.iter().filter_map(|one| one.commits.lost()).collect();
    let lost: Vec<u64> = known.iter().copied().filter(|n| *n > 0).collect();
    let chance_below =
        if lost.is_empty() { stats::chance_of_none_seen(known.len(), LOSS_LEVEL) } else { None };
    LossOfCommits { n_known: known.len(), lost, chance_below }
}

/// Confidence of the bound of a chance of which no case was seen.
const LOSS_LEVEL: f64 = 0.95;
