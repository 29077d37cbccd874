//! Reports each execution by itself, of loads whose executions are few and long, and of those with an outage.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use model::load::execution::{Execution, ExecutionEnd, ExecutionLine};

use super::{EVENTS_GRAIN, Worker};
use crate::clock::Nanos;
use crate::tally::sqlstate_text;
use crate::thread::log::TransactionOutcome;
use crate::thread::report::Report;
use crate::thread::stop;

/// How long the parent is waited for in all, until it has read the slots that nobody took: what is left out then voids the load.
const READ_MAX: Duration = Duration::from_secs(120);
/// Executions that are reported together; fewer at the end of each second.
const TOGETHER_MAX: usize = 128;

/// How an execution ended, by the outcome of its transaction.
pub(super) fn end_of(outcome: TransactionOutcome) -> ExecutionEnd {
    match outcome {
        TransactionOutcome::Committed => ExecutionEnd::Committed,
        TransactionOutcome::Expected => ExecutionEnd::Expected,
        TransactionOutcome::Unknown => ExecutionEnd::Unknown,
        TransactionOutcome::Skipped => ExecutionEnd::Skipped,
        TransactionOutcome::Serialization | TransactionOutcome::Deadlock | TransactionOutcome::Other => {
            ExecutionEnd::Failed
        }
    }
}

impl Worker<'_> {
    /// Keeps the text of a statement that the first client sends in its first pass: with the same parameters it can be explained later.
    #[cold]
    pub(super) fn keep_text(&mut self, index: usize, statement: usize) {
        let client = &self.setup.clients[index];
        let is_first_pass = client.record.n_ended < client.role.n_in_order() as u64;
        if client.id != 0 || !is_first_pass {
            return;
        }
        let text = self.setup.scripts.literal_text(client.transaction.script, statement, client);
        self.setup.clients[index].transaction.texts.push(text);
    }

    /// Reports an execution that has been counted as ended.
    #[cold]
    pub(super) fn report_execution(&mut self, index: usize, end: ExecutionEnd, now: Nanos) {
        self.report_as(index, end, self.setup.clients[index].record.n_ended.saturating_sub(1), now);
    }

    /// Reports an execution that ended without being counted among the client's, if each is reported: it was cut off, or ended its client.
    #[cold]
    pub(super) fn report_uncounted(&mut self, index: usize, end: ExecutionEnd, now: Nanos) {
        if self.setup.load.each_execution {
            self.report_as(index, end, self.setup.clients[index].record.n_ended, now);
        }
    }

    fn report_as(&mut self, index: usize, end: ExecutionEnd, n_before: u64, now: Nanos) {
        let go = self.setup.go;
        let has_token = self.setup.scripts.has_token(self.setup.clients[index].transaction.script);
        let client = &mut self.setup.clients[index];
        let n_in_order = client.role.n_in_order() as u64;
        let sqlstate = match end {
            ExecutionEnd::Committed | ExecutionEnd::Skipped => None,
            _ => client.transaction.ended_with.map(|state| sqlstate_text(&state)),
        };
        let execution = Execution {
            client: client.id as u32,
            pass: n_before.checked_div(n_in_order).map_or(0, |pass| u32::try_from(pass).unwrap_or(u32::MAX)),
            script: client.transaction.script as u32,
            due_ns: self.setup.schedule.is_some().then(|| client.transaction.due.saturating_sub(go)),
            number: if has_token && end != ExecutionEnd::Skipped { n_before + 1 } else { 0 },
            start_ns: client.transaction.started.saturating_sub(go),
            length_ns: now.saturating_sub(client.transaction.started),
            end,
            sqlstate,
        };
        let statements = std::mem::take(&mut client.transaction.texts);
        self.keep_execution(ExecutionLine { execution, statements });
    }

    /// Reports the slots that nobody took, of which there are `n`: those that a client had taken while it had no connection, and those that
    /// the schedule still has at `end`. They are as many as the whole load may have, and come at once: the load is over, so that this waits
    /// for whoever reads them rather than leave any out.
    #[cold]
    pub(super) fn report_unserved(&mut self, n: u64, end: Nanos, now: Nanos) {
        let go = self.setup.go;
        let Some(client) = self.setup.clients.first().map(|client| client.id as u32) else { return };
        let pending = self.setup.clients.iter_mut().filter_map(|client| client.dial.pending_due.take());
        let mut all: Vec<Nanos> = pending.collect();
        all.extend(std::iter::from_fn(|| self.setup.schedule.as_mut()?.take(end)));
        debug_assert_eq!(all.len() as u64, n, "the schedule and its count agree");

        let deadline = Instant::now() + READ_MAX;
        for due in all {
            if self.record.executions.is_empty() {
                self.wait_for_parent(deadline);
            }
            let execution = Execution {
                client,
                due_ns: Some(due.saturating_sub(go)),
                start_ns: now.saturating_sub(go),
                end: ExecutionEnd::Skipped,
                ..Execution::default()
            };
            self.keep_execution(ExecutionLine { execution, statements: Vec::new() });
        }
    }

    /// Waits while more is on its way to the parent than anybody reads.
    fn wait_for_parent(&self, deadline: Instant) {
        let controls = &self.setup.controls;
        while controls.events.are_too_many()
            && controls.stop.load(Ordering::Relaxed) < stop::AT_ONCE
            && Instant::now() < deadline
        {
            std::thread::sleep(EVENTS_GRAIN);
        }
    }

    /// Keeps what is to be reported, and reports it when it is much: one message to the control loop for each would cost as much as a
    /// short transaction.
    fn keep_execution(&mut self, line: ExecutionLine) {
        if self.record.executions.capacity() == 0 {
            self.record.executions.reserve_exact(TOGETHER_MAX);
        }
        self.record.executions.push(line);
        if self.record.executions.len() >= TOGETHER_MAX {
            self.report_executions();
        }
    }

    /// Reports what was kept.
    pub(super) fn report_executions(&mut self) {
        if !self.record.executions.is_empty() {
            let lines = std::mem::take(&mut self.record.executions);
            self.setup.controls.events.add();
            self.report(Report::Executions(lines));
        }
    }
}
