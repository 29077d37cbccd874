//! What an outage leaves behind: latency that is not yet what it was.

use super::schedule::{DueTransaction, Schedule, prefix_sums};
use crate::summary::OutageLength;

/// How long latency must be as before, seconds. Our convention.
const LASTS_S: f64 = 10.0;
/// How much the 99th percentile may exceed that before the fault. Our convention.
const WITHIN: f64 = 1.1;
/// Share that may exceed a 99th percentile.
const BEYOND: f64 = 0.01;

/// From the end of an outage until the 99th percentile of what was due in the next ten seconds was within 10 % of that before; `None` if
/// nothing is known of before.
pub(super) fn effects(schedule: &Schedule, end_s: f64, p99_before_ns: Option<u64>) -> Option<OutageLength> {
    let limit_ns = (WITHIN * p99_before_ns? as f64) as u64;
    let is_late = |one: &DueTransaction| !one.is_committed() || one.latency_ns() > limit_ns;
    let all = &schedule.transactions;
    let n_late = prefix_sums(all.iter().map(is_late));
    let index = |t_s: f64| all.partition_point(|one| one.due_s < t_s);
    let calm = |t_s: f64| {
        let (from, to) = (index(t_s), index(t_s + LASTS_S));
        to > from && (n_late[to] - n_late[from]) as f64 <= BEYOND * (to - from) as f64
    };
    // Latency becomes what it was when one that was late is due.
    let first = index(end_s);
    let late = (first..all.len()).filter(|index| is_late(&all[*index])).map(|index| all[index].due_s + 1e-9);
    let last_s = schedule.horizon_s - LASTS_S;
    let found = std::iter::once(end_s).chain(late).take_while(|t_s| *t_s <= last_s).find(|t_s| calm(*t_s));
    Some(match found {
        Some(t_s) => OutageLength { s: t_s - end_s, is_at_least: false },
        None => OutageLength { s: (last_s - end_s).max(0.0), is_at_least: true },
    })
}
