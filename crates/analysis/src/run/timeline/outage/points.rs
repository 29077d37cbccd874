//! An outage over time, in tenths of a second, for its chart.

use super::schedule::{DueTransaction, Schedule};
use crate::summary::OutagePoint;

/// Length of a point, seconds.
const POINT_S: f64 = 0.1;
/// How long before the fault the points begin, seconds.
const BEFORE_S: f64 = 5.0;
/// How long after the end of the outage they end, seconds.
const AFTER_S: f64 = 10.0;
/// Most time after the fault that they show, seconds.
const SHOWN_S_MAX: f64 = 120.0;

/// The points around the fault of an outage that ended then.
pub(super) fn around(schedule: &Schedule, end_s: f64) -> Vec<OutagePoint> {
    let Some(first) = schedule.transactions.first() else { return Vec::new() };
    let from_s = first.due_s.max(-BEFORE_S);
    let to_s = (end_s + AFTER_S).min(schedule.horizon_s).min(SHOWN_S_MAX);
    let begin = (from_s / POINT_S).ceil() as i64;
    let end = ((to_s / POINT_S).floor() as i64).max(begin);
    let index = |t_s: f64| usize::try_from((t_s / POINT_S).floor() as i64 - begin).ok();
    let point = |n: i64| OutagePoint { at_s: n as f64 / 10.0, ..OutagePoint::default() };
    let mut points: Vec<OutagePoint> = (begin..end).map(point).collect();
    let mut latencies: Vec<Vec<u64>> = vec![Vec::new(); points.len()];

    for one in &schedule.transactions {
        if let Some(n) = index(one.due_s).filter(|n| *n < points.len()) {
            points[n].due += 1;
            points[n].served += u32::from(one.is_served);
            latencies[n].extend(one.is_committed().then(|| one.latency_ns()));
        }
        if let Some(point) = index(one.end_s).and_then(|n| points.get_mut(n)) {
            count_end(point, one);
        }
    }
    for (point, mut latencies) in points.iter_mut().zip(latencies) {
        latencies.sort_unstable();
        point.p50_ns = latencies.get(latencies.len() / 2).copied();
        point.max_ns = latencies.last().copied();
    }
    points
}

fn count_end(point: &mut OutagePoint, one: &DueTransaction) {
    point.committed += u32::from(one.is_committed());
    point.errors += u32::from(one.is_error());
}
