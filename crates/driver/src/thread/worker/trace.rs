//! Reports every step of every client, in the words of pgbench's debug output.

use model::telemetry::event::{Event, EventKind};
use workload::ScriptCommand;

use super::Worker;
use crate::clock::Nanos;

impl Worker<'_> {
    /// Reports a client's step.
    #[cold]
    pub(super) fn trace(&self, index: usize, now: Nanos, what: &str) {
        let id = self.setup.clients[index].id;
        let event = Event::new(0, EventKind::ScriptTrace, format!("client {id} {what}"));
        self.report_event(now, event.with("client", id));
    }

    /// A transaction begins.
    #[cold]
    pub(super) fn trace_start(&self, index: usize, now: Nanos) {
        let program = &self.setup.scripts.bundle.programs[self.setup.clients[index].transaction.script];
        self.trace(index, now, &format!("executing script \"{}\"", program.name));
    }

    /// Reports the next command, if it is a backslash command.
    #[cold]
    pub(super) fn trace_command(&self, index: usize, now: Nanos) {
        let client = &self.setup.clients[index];
        let program = &self.setup.scripts.bundle.programs[client.transaction.script];
        let Some(step) = program.commands.get(client.emulator.command()) else { return };
        let words = match &step.command {
            ScriptCommand::Sql { .. } => return,
            ScriptCommand::Set { variable, .. } => format!("\\set {}", program.variables.name(*variable)),
            ScriptCommand::If { .. } | ScriptCommand::Elif { .. } => format!("\\{}", step.command.name()),
            _ => step.label.split_whitespace().collect::<Vec<_>>().join(" "),
        };
        self.trace(index, now, &format!("executing {words}"));
    }

    /// A statement was written.
    #[cold]
    pub(super) fn trace_send(&self, index: usize, statement: usize, now: Nanos) {
        let client = &self.setup.clients[index];
        let text = self.setup.scripts.sent_text(client.transaction.script, statement, client);
        self.trace(index, now, &format!("sending {text}"));
    }
}
