//! The transactions of a load in the order in which they were due, and what they say of an outage.

use std::collections::BTreeMap;

use model::load::execution::{Execution, ExecutionEnd};
use model::run::{RunData, RunRecord};

use crate::summary::OutageLength;

/// How long service must last to be back, seconds. Our convention.
const LASTS_S: f64 = 5.0;
/// Share of the transactions due that must be served then.
const SERVED: f64 = 0.99;
/// The percentile of latency before the fault, as a share.
const PERCENTILE: f64 = 0.99;

/// A transaction. Times are seconds after the fault.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct DueTransaction {
    pub(super) due_s: f64,
    /// When it was answered, or lost.
    pub(super) end_s: f64,
    pub(super) client: u32,
    pub(super) end: ExecutionEnd,
    /// Whether it was answered within the limit.
    pub(super) is_served: bool,
    pub(super) error: Option<String>,
}

impl DueTransaction {
    fn new(execution: &Execution, fault_ns: i128) -> DueTransaction {
        let after = |ns: u64| (i128::from(ns) - fault_ns) as f64 / 1e9;
        DueTransaction {
            due_s: after(execution.due_ns.unwrap_or(execution.start_ns)),
            end_s: after(execution.end_ns()),
            client: execution.client,
            end: execution.end,
            is_served: false,
            error: execution.sqlstate.clone(),
        }
    }

    pub(super) fn is_committed(&self) -> bool {
        self.end == ExecutionEnd::Committed
    }

    /// Whether it had the answer that the workload expects: a commit, or an error that is part of it.
    fn is_answered(&self) -> bool {
        matches!(self.end, ExecutionEnd::Committed | ExecutionEnd::Expected)
    }

    /// Whether it ended with an error, or without an answer.
    pub(super) fn is_error(&self) -> bool {
        matches!(self.end, ExecutionEnd::Failed | ExecutionEnd::Unknown)
    }

    /// Time from due to answer, nanoseconds.
    pub(super) fn latency_ns(&self) -> u64 {
        ((self.end_s - self.due_s).max(0.0) * 1e9).round() as u64
    }
}

/// All transactions of a load by when they were due.
pub(super) struct Schedule {
    pub(super) transactions: Vec<DueTransaction>,
    /// Until when transactions were due, seconds after the fault.
    pub(super) horizon_s: f64,
}

/// What was due in a time, and not served.
pub(super) struct NotServed {
    pub(super) n_due: u64,
    pub(super) n_not_served: u64,
}

/// When writes were out, seconds after the fault.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct OutageSpan {
    pub(super) begin_s: f64,
    /// The end, or the end of what was seen.
    pub(super) end: OutageLength,
}

impl OutageSpan {
    /// How long writes were out.
    pub(super) fn length(self) -> OutageLength {
        OutageLength { s: (self.end.s - self.begin_s).max(0.0), ..self.end }
    }
}

/// When clients committed again, seconds after the server was ready.
pub(super) struct Back {
    pub(super) first_s: f64,
    /// Most of them; `None` if fewer did.
    pub(super) most_s: Option<f64>,
}

impl Schedule {
    /// The schedule of a run whose fault began `at_s` seconds after `go`.
    pub(super) fn new(data: &RunData, at_s: f64) -> Schedule {
        let fault_ns = (at_s * 1e9).round() as i128;
        let mut transactions: Vec<DueTransaction> =
            data.executions.iter().map(|execution| DueTransaction::new(execution, fault_ns)).collect();
        transactions.sort_by(|a, b| a.due_s.total_cmp(&b.due_s));
        let window = data.record.window();
        let planned_s = f64::from(window.ramp_up_s) + f64::from(window.measure_s) - at_s;
        let last_due_s = transactions.last().map_or(0.0, |last| last.due_s);
        Schedule { transactions, horizon_s: planned_s.max(last_due_s).max(0.0) }
    }

    /// The 99th percentile of latency of what was due from a time to the fault; `None` with fewer than so many.
    pub(super) fn p99_before_ns(&self, from_s: f64, n_min: usize) -> Option<u64> {
        let before = self.transactions.iter().filter(|one| one.due_s < 0.0 && one.end_s <= 0.0);
        let of = |from_s: f64| -> Vec<u64> {
            let counted = before.clone().filter(|one| one.due_s >= from_s && one.is_committed());
            counted.map(DueTransaction::latency_ns).collect()
        };
        // A fault in the ramp-up has nothing but the ramp-up before it.
        let mut latencies = if from_s < 0.0 { of(from_s) } else { of(f64::NEG_INFINITY) };
        if latencies.len() < n_min {
            return None;
        }
        latencies.sort_unstable();
        latencies.get(percentile_index(latencies.len())).copied()
    }

    /// Decides which transactions are served.
    pub(super) fn limit(&mut self, limit_ns: u64) {
        for one in &mut self.transactions {
            one.is_served = one.is_answered() && one.latency_ns() <= limit_ns;
        }
    }

    /// Transactions that were due per second: the rate that was asked for, else that before the fault.
    pub(super) fn offered_per_s(&self, record: &RunRecord) -> f64 {
        record.pace().rate_per_s().unwrap_or_else(|| {
            let first_s = self.transactions.first().map_or(0.0, |first| first.due_s);
            let n = self.transactions.partition_point(|one| one.due_s < 0.0);
            if first_s < 0.0 { n as f64 / -first_s } else { 0.0 }
        })
    }

    /// The outage of a fault whose effect is there when it has begun.
    pub(super) fn outage_at_once(&self) -> OutageSpan {
        OutageSpan { begin_s: 0.0, end: self.service_after(0.0) }
    }

    /// The outage of a fault whose effect may come later: it begins with the first transaction due that is not served, unless all but 1 % of
    /// what is due in the 5 s from there on is. What is due within the limit of an answer is of the fault itself.
    pub(super) fn outage_when_seen(&self, offered_per_s: f64, limit_ns: u64) -> OutageSpan {
        let from = self.transactions.partition_point(|one| one.due_s < 0.0);
        let due = &self.transactions[from..];
        let n_out = prefix_sums(due.iter().map(|one| !one.is_served));
        // At the end of the load, what was in flight is no outage.
        let few = (1.0 - SERVED) * LASTS_S * offered_per_s;
        let begins = |start: &usize| {
            let end = due.partition_point(|one| one.due_s < due[*start].due_s + LASTS_S);
            !due[*start].is_served && (n_out[end] - n_out[*start]) as f64 > few
        };
        let begin_s = (0..due.len()).find(begins).map_or(0.0, |start| due[start].due_s);
        let begin_s = if begin_s <= limit_ns as f64 / 1e9 { 0.0 } else { begin_s };
        OutageSpan { begin_s, end: self.service_after(begin_s) }
    }

    /// The first instant from which service lasted, from `begin_s` on, and with it the end of the outage: the first answer to a transaction
    /// that was due from then on. One that is due shortly before the server is back is answered within the limit, so that the instant alone
    /// would come too early by the limit.
    fn service_after(&self, begin_s: f64) -> OutageLength {
        let from = self.transactions.partition_point(|one| one.due_s < begin_s);
        let due = &self.transactions[from..];
        let n_served = prefix_sums(due.iter().map(|one| one.is_served));
        let mut end = 0;
        for start in 0..=due.len() {
            // Just after the transaction before was due, from the begin on.
            let t_s = start.checked_sub(1).map_or(begin_s, |before| due[before].due_s);
            while end < due.len() && due[end].due_s < t_s + LASTS_S {
                end += 1;
            }
            let until_s = (t_s + LASTS_S).min(self.horizon_s);
            let n_due = end.saturating_sub(start);
            let n = n_served[end.max(start)] - n_served[start];
            // Where nothing was due, nothing shows that service is back.
            if n_due == 0 || (n as f64) < SERVED * n_due as f64 || until_s <= t_s {
                continue;
            }
            let first_answer = due[start..end].iter().filter(|one| one.is_served).map(|one| one.end_s);
            let is_quiet = start == 0 && n == n_due as u64;
            let end_s = if is_quiet { begin_s } else { first_answer.fold(f64::INFINITY, f64::min).max(t_s) };
            let is_whole = t_s + LASTS_S <= self.horizon_s + 1e-9;
            return OutageLength { s: end_s, is_at_least: !is_whole };
        }
        OutageLength { s: self.horizon_s, is_at_least: true }
    }

    /// What was due from the fault to a time and not served.
    pub(super) fn not_served_until(&self, end_s: f64) -> NotServed {
        let due = self.transactions.iter().filter(|one| one.due_s >= 0.0 && one.due_s < end_s);
        let (mut n_due, mut n_not_served) = (0, 0);
        for one in due {
            n_due += 1;
            n_not_served += u64::from(!one.is_served);
        }
        NotServed { n_due, n_not_served }
    }

    /// The longest time without an acknowledged commit, of those that overlap the outage.
    pub(super) fn longest_gap(&self, outage: OutageLength) -> OutageLength {
        let mut commits: Vec<f64> =
            self.transactions.iter().filter(|one| one.is_committed()).map(|one| one.end_s).collect();
        commits.sort_by(f64::total_cmp);
        let first_s = self.transactions.first().map_or(0.0, |first| first.due_s.min(0.0));
        let starts = std::iter::once(first_s).chain(commits.iter().copied());
        let ends = commits.iter().copied().chain([self.horizon_s]);
        let is_of_outage = |(from_s, to_s): &(f64, f64)| *to_s >= 0.0 && *from_s <= outage.s;
        let longest =
            starts.zip(ends).filter(is_of_outage).max_by(|a, b| (a.1 - a.0).total_cmp(&(b.1 - b.0)));
        let Some((from_s, to_s)) = longest else { return OutageLength::default() };
        let is_at_least = commits.last().is_none_or(|last| *last <= from_s);
        OutageLength { s: (to_s - from_s).max(0.0), is_at_least }
    }

    /// When clients committed again after a server was ready; `None` if none did.
    pub(super) fn back_after(&self, ready_s: f64, share: f64) -> Option<Back> {
        let mut first_of: BTreeMap<u32, Option<f64>> = BTreeMap::new();
        for one in self.transactions.iter().filter(|one| one.is_committed()) {
            let first = first_of.entry(one.client).or_default();
            if one.end_s >= ready_s && first.is_none_or(|first| one.end_s < first) {
                *first = Some(one.end_s);
            }
        }
        let n_most = (share * first_of.len() as f64).ceil() as usize;
        let mut back: Vec<f64> = first_of.into_values().flatten().map(|at_s| at_s - ready_s).collect();
        back.sort_by(f64::total_cmp);
        let most_s = n_most.checked_sub(1).and_then(|index| back.get(index)).copied();
        Some(Back { first_s: *back.first()?, most_s })
    }

    /// Errors during the outage, the commonest first.
    pub(super) fn errors_during(&self, outage: OutageLength) -> Vec<(String, u64)> {
        let is_within =
            |one: &&DueTransaction| one.end_s >= 0.0 && (outage.is_at_least || one.end_s <= outage.s);
        let mut by_state: BTreeMap<String, u64> = BTreeMap::new();
        for one in self.transactions.iter().filter(is_within).filter(|one| one.is_error()) {
            let state = one.error.clone().unwrap_or_else(|| "unknown".to_string());
            *by_state.entry(state).or_default() += 1;
        }
        let mut errors: Vec<(String, u64)> = by_state.into_iter().collect();
        errors.sort_by_key(|(_, n)| std::cmp::Reverse(*n));
        errors
    }
}

/// The index of the 99th percentile among so many sorted values, at least one: the smallest that 99 % do not exceed.
fn percentile_index(n: usize) -> usize {
    (PERCENTILE * n as f64).ceil() as usize - 1
}

/// How many were true before each index, and in all.
pub(super) fn prefix_sums(values: impl Iterator<Item = bool>) -> Vec<u64> {
    let mut sum = 0;
    let sums = values.map(|value| {
        sum += u64::from(value);
        sum
    });
    std::iter::once(0).chain(sums).collect()
}
