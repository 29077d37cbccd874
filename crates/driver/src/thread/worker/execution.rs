//! Reports each execution by itself, of loads whose executions are few and long.

use model::load::execution::{Execution, ExecutionEnd, ExecutionLine};

use super::Worker;
use crate::clock::Nanos;
use crate::tally::sqlstate_text;
use crate::thread::log::TransactionOutcome;
use crate::thread::report::Report;

/// How an execution ended, by the outcome of its transaction.
pub(super) fn end_of(outcome: TransactionOutcome) -> ExecutionEnd {
    match outcome {
        TransactionOutcome::Committed => ExecutionEnd::Committed,
        TransactionOutcome::Expected => ExecutionEnd::Expected,
        TransactionOutcome::Unknown => ExecutionEnd::Unknown,
        TransactionOutcome::Skipped
        | TransactionOutcome::Serialization
        | TransactionOutcome::Deadlock
        | TransactionOutcome::Other => ExecutionEnd::Failed,
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
        let client = &mut self.setup.clients[index];
        let n_in_order = client.role.n_in_order().max(1) as u64;
        let sqlstate = match end {
            ExecutionEnd::Committed => None,
            _ => client.transaction.ended_with.map(|state| sqlstate_text(&state)),
        };
        let execution = Execution {
            client: client.id as u32,
            pass: u32::try_from(n_before / n_in_order).unwrap_or(u32::MAX),
            script: client.transaction.script as u32,
            due_ns: self.setup.schedule.is_some().then(|| client.transaction.due.saturating_sub(go)),
            number: 0,
            start_ns: client.transaction.started.saturating_sub(go),
            length_ns: now.saturating_sub(client.transaction.started),
            end,
            sqlstate,
        };
        let statements = std::mem::take(&mut client.transaction.texts);
        self.report(Report::Execution(Box::new(ExecutionLine { execution, statements })));
    }
}
