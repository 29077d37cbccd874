//! Script commands that need more than sending a statement: pipelines, shells, rows to variables, COPY.

use std::time::Duration;

use model::load::Protocol;
use model::telemetry::event::{Event, EventKind};
use wire::message;
use workload::{Fetch, RunError, Unsendable};

use super::Worker;
use super::failing::Abort;
use crate::client::State;
use crate::client::fetch::FetchVariableError;
use crate::clock::{self, Nanos};
use crate::tally::{SCRIPT, TimeKind};
use crate::thread::messages;
use crate::thread::shell::ShellCommand;

/// How late the end of a shell command or of a second may be noticed.
const SHELL_GRAIN: Duration = Duration::from_millis(100);

impl Worker<'_> {
    /// `\startpipeline`.
    pub(super) fn start_pipeline(&mut self, index: usize) -> Result<(), RunError> {
        if self.setup.scripts.protocol == Protocol::Simple {
            return Err(self.refused(index, "cannot use pipeline mode with the simple query protocol"));
        }
        let client = &mut self.setup.clients[index];
        if client.exchange.pipeline.is_on {
            return Err(self.refused(index, "already in pipeline mode"));
        }
        client.exchange.pipeline.start();
        client.exchange.refused.clear();
        client.begin_message();
        client.want_rows(false);
        let (script, command) = (client.transaction.script, client.emulator.current());
        self.setup.scripts.parse_pipeline(script, command, client);
        Ok(())
    }

    /// `\syncpipeline`.
    pub(super) fn sync_pipeline(&mut self, index: usize) -> Result<(), RunError> {
        let client = &mut self.setup.clients[index];
        if !client.exchange.pipeline.is_on {
            return Err(self.refused(index, "not in pipeline mode"));
        }
        message::sync(client.buffer());
        client.exchange.pipeline.push_sync();
        Ok(())
    }

    /// `\endpipeline`: sends all, and waits for all answers.
    pub(super) fn end_pipeline(&mut self, index: usize, now: Nanos) -> Result<(), RunError> {
        self.sync_pipeline(index)?;
        let client = &mut self.setup.clients[index];
        client.transaction.statement_sent = now;
        client.exchange.pipeline.is_ending = true;
        client.state = State::Waiting;
        self.flush(index);
        Ok(())
    }

    /// Counts the statements of a pipeline that is over.
    pub(super) fn count_pipeline(&mut self, index: usize) {
        let client = &mut self.setup.clients[index];
        let tally = &mut self.tally.scripts[client.transaction.script];
        for answered in client.exchange.pipeline.answered() {
            tally.note(TimeKind::Statement(answered.index as u32), answered.ns);
            tally.rows(answered.index, answered.n_rows);
        }
        client.exchange.pipeline.stop();
    }

    /// `\gset` or `\aset` inside a pipeline.
    pub(super) fn fetch_in_pipeline(&mut self, index: usize, statement: usize) -> RunError {
        let client = &self.setup.clients[index];
        let program = &self.setup.scripts.bundle.programs[client.transaction.script];
        let name = match program.statements[statement].fetch {
            Fetch::Aset { .. } => "aset",
            _ => "gset",
        };
        let outcome = match name {
            "aset" => "\\aset is not allowed in pipeline mode",
            _ => "\\gset is not allowed in pipeline mode",
        };
        RunError { command_name: name, ..client.emulator.failed(program, outcome, String::new()) }
    }

    /// The client's current statement needs a variable that cannot be sent.
    #[cold]
    pub(super) fn stop_unsendable(&mut self, index: usize, now: Nanos, unsendable: Unsendable) {
        let client = &self.setup.clients[index];
        let program = &self.setup.scripts.bundle.programs[client.transaction.script];
        let cause = unsendable.cause(&program.variables);
        let error = client.emulator.failed(program, "a variable has no value to send", cause);
        self.script_error(index, now, &error);
    }

    fn refused(&self, index: usize, outcome: &'static str) -> RunError {
        let client = &self.setup.clients[index];
        let program = &self.setup.scripts.bundle.programs[client.transaction.script];
        client.emulator.failed(program, outcome, String::new())
    }

    /// `\shell` and `\setshell`. The thread waits, as in pgbench, and its other clients with it.
    pub(super) fn run_shell(&mut self, index: usize, now: &mut Nanos) -> Result<(), RunError> {
        let client = &mut self.setup.clients[index];
        let program = &self.setup.scripts.bundle.programs[client.transaction.script];
        // Only scripts call shells.
        let Some(script) = client.emulator.script() else { return Ok(()) };
        let line = script.shell_line(program)?;
        let shell = ShellCommand::start(line);
        let ran = loop {
            match shell.wait(SHELL_GRAIN) {
                Some(ran) => break ran,
                // The parent expects a report every second.
                None => self.close_intervals(clock::now()),
            }
        };
        let Some(script) = self.setup.clients[index].emulator.script_mut() else { return Ok(()) };
        let ran = ran.map_err(|_| script.shell_error(program, "could not launch shell command"))?;
        let is_set = program.commands[script.current()].command.name() == "setshell";
        let result = if is_set && ran.output.is_empty() {
            Err(script.shell_error(program, "could not read result of shell command"))
        } else if is_set {
            script.take_shell_answer(program, &ran.output)
        } else if ran.is_success {
            Ok(())
        } else {
            Err(script.shell_error(program, "could not launch shell command"))
        };
        let id = self.setup.clients[index].id;
        *now = clock::now();
        if !is_set && !ran.output.is_empty() {
            let text = String::from_utf8_lossy(&ran.output).into_owned();
            self.report_event(*now, Event::new(0, EventKind::ShellOutput, text).with("client", id));
        }
        self.close_intervals(*now);
        result
    }

    /// Assigns the rows of the statement that was just answered to variables; `false` if that ended the client.
    pub(super) fn store_rows(&mut self, index: usize, now: Nanos) -> bool {
        let client = &mut self.setup.clients[index];
        let program = &self.setup.scripts.bundle.programs[client.transaction.script];
        let command = &program.commands[client.emulator.current()].command;
        let workload::ScriptCommand::Sql { statement } = command else { return true };
        let Some(fetched) = &client.exchange.fetched else { return true };
        let Some(script) = client.emulator.script_mut() else {
            let Err(error) = fetched.give(program, &mut client.emulator) else { return true };
            self.script_error(index, now, &error);
            return false;
        };
        let stored = fetched.store(&program.statements[*statement].fetch, program, script);
        let place = self.place(index);
        let (text, cause) = match stored {
            Ok(()) => return true,
            Err(FetchVariableError::RowCount { query, n_rows }) => {
                (messages::row_count(place, query, n_rows), None)
            }
            Err(FetchVariableError::Name { query, name, cause }) => {
                (messages::bad_column(place, query, &name), Some(cause))
            }
        };
        self.abort(index, now, Abort { state: SCRIPT, text, cause });
        false
    }

    /// Reports what `debug()` printed.
    #[cold]
    pub(super) fn report_debug(&mut self, index: usize, now: Nanos) {
        let client = &mut self.setup.clients[index];
        let (id, script) = (client.id, client.transaction.script);
        let lines = client.emulator.take_debug_lines();
        for line in lines {
            self.report_event(
                now,
                Event::new(0, EventKind::ScriptDebug, line.text(script)).with("client", id),
            );
        }
    }

    /// The server waits for the rows of a COPY, which follow the statement in the script.
    pub(super) fn copy_in(&mut self, index: usize, now: Nanos) {
        let client = &mut self.setup.clients[index];
        if !client.exchange.may_copy || client.exchange.pipeline.is_on || client.state != State::Waiting {
            return self.refuse_copy(index, now);
        }
        client.exchange.is_copying = false;
        let program = &self.setup.scripts.bundle.programs[client.transaction.script];
        let data = program.statements[client.transaction.statement].copy_data.as_deref();
        client.begin_message();
        client.exchange.has_copied = true;
        let (emulator, _, out) = client.parts();
        match data {
            Some(data) => {
                let mut rendered = Ok(());
                message::copy_data_with(out, |out| rendered = emulator.render_pieces(program, data, out));
                if let Err(unsendable) = rendered {
                    client.drop_message();
                    return self.stop_unsendable(index, now, unsendable);
                }
                message::copy_done(out);
            }
            None => message::copy_fail(out, "no \\copydata follows the statement in the script"),
        }
        if self.setup.scripts.protocol != Protocol::Simple {
            // The server ignored the Sync that came while it waited for rows.
            message::sync(out);
        }
        self.flush(index);
    }
}
