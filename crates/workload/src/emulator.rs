//! One client, whatever it emulates: a script, a TPC-C terminal or a TPROC-C user.
//!
//! An emulator decides what comes next and never waits: it returns statements and pauses to the caller as [`Action`]s.

pub(crate) mod builtins;
pub mod bundle;
pub mod traced;

use std::collections::BTreeMap;

use crate::action::{Action, NextTransaction};
use crate::emulator::builtins::Builtins;
use crate::emulator::bundle::Bundle;
use crate::emulator::traced::TracedClient;
use crate::random::Prng;
use crate::script::declared::draws::{Drawer, ParameterDraws};
use crate::script::declared::glued::Glued;
use crate::script::eval::{DebugLine, Slot};
use crate::script::interpreter::{Interpreter, RunError, Unsendable};
use crate::script::program::Program;
use crate::script::statement::TextPiece;
use crate::script::value::BoundParameter;
use crate::script::variables::VariableId;
use crate::tpcc::{Terminal, TransactionProfile};
use crate::tprocc::User;

/// One emulated user.
#[derive(Debug)]
pub enum Emulator {
    /// Runs scripts.
    Script(Interpreter),
    /// A terminal of TPC-C.
    Terminal(Box<Terminal>),
    /// A virtual user of TPROC-C.
    User(Box<User>),
    /// A client of a trace.
    Traced(Box<TracedClient>),
}

impl Emulator {
    /// A client with the given variables set. `client_id` becomes the variable of that name, unless it is defined.
    pub fn new(
        bundle: &Bundle,
        prng: Prng,
        client_id: usize,
        defines: &BTreeMap<String, String>,
    ) -> Emulator {
        if let Some(load) = &bundle.traced {
            return Emulator::Traced(Box::new(TracedClient::new(load, client_id)));
        }
        match bundle.builtins {
            None => {
                let mut script = Interpreter::new(&bundle.variables, prng, client_id, defines);
                script.quote_texts(&bundle.texts);
                Emulator::Script(script.speaking(bundle.dialect))
            }
            Some(Builtins::Tpcc(config)) => {
                Emulator::Terminal(Box::new(Terminal::new(config, prng, client_id)))
            }
            Some(Builtins::TprocC(config)) => Emulator::User(Box::new(User::new(config, prng, client_id))),
        }
    }

    /// The same client with the parameters of the bundle's workload directory, if it has one.
    #[must_use]
    pub fn drawing(self, bundle: &Bundle, drawer: Drawer) -> Emulator {
        match (self, &bundle.instance) {
            (Emulator::Script(script), Some(instance)) => {
                Emulator::Script(script.drawing(ParameterDraws::new(instance, drawer)))
            }
            (other, _) => other,
        }
    }

    /// Gives a script the number of the client's transaction that begins.
    #[inline]
    pub fn number(&mut self, number: u64) {
        if let Emulator::Script(script) = self {
            script.number(number);
        }
    }

    /// Starts a transaction at its first command and remembers the random stream for [`Emulator::rewind`].
    #[inline]
    pub fn begin(&mut self, program: &Program) {
        match (self, program.transaction) {
            (Emulator::Script(script), _) => script.begin(program),
            (Emulator::Terminal(terminal), Some(transaction)) => {
                terminal.begin(TransactionProfile::ALL[transaction])
            }
            (Emulator::User(user), Some(transaction)) => user.begin(TransactionProfile::ALL[transaction]),
            (Emulator::Traced(client), _) => client.rewind(),
            (Emulator::Terminal(_) | Emulator::User(_), None) => {}
        }
    }

    /// Starts the transaction over with the same random values. Variables keep the values that the failed try assigned, as in
    /// pgbench.
    pub fn rewind(&mut self, program: &Program) {
        match self {
            Emulator::Script(script) => script.rewind(program),
            Emulator::Terminal(terminal) => terminal.rewind(),
            Emulator::User(user) => user.rewind(),
            Emulator::Traced(client) => client.rewind(),
        }
    }

    /// Runs commands up to the next one that the caller has to carry out.
    ///
    /// # Errors
    /// When an expression cannot be evaluated, or the server did not return what the transaction needs.
    #[inline]
    pub fn step(&mut self, program: &Program) -> Result<Action, RunError> {
        match self {
            Emulator::Script(script) => script.step(program),
            Emulator::Terminal(terminal) => match terminal.step() {
                Ok(action) => Ok(action),
                Err(missing) => Err(self.not_found(program, missing)),
            },
            Emulator::User(user) => Ok(user.step()),
            Emulator::Traced(client) => Ok(client.step()),
        }
    }

    /// Runs one command; `None` if it is done. A `\else` or `\endif` that ends a branch not taken is skipped and
    /// does not count as a command, as in pgbench's statistics.
    ///
    /// # Errors
    /// See [`Emulator::step`].
    #[inline]
    pub fn step_one(&mut self, program: &Program) -> Result<Option<Action>, RunError> {
        match self {
            Emulator::Script(script) => script.step_one(program),
            Emulator::Terminal(_) | Emulator::User(_) | Emulator::Traced(_) => self.step(program).map(Some),
        }
    }

    /// Index of the command that was handed out last as an [`Action`].
    #[inline]
    pub fn current(&self) -> usize {
        match self {
            Emulator::Script(script) => script.current(),
            Emulator::Terminal(terminal) => terminal.statement(),
            Emulator::User(_) => 0,
            Emulator::Traced(client) => client.statement(),
        }
    }

    /// Index of the command that runs next.
    #[inline]
    pub fn command(&self) -> usize {
        match self {
            Emulator::Script(script) => script.command(),
            Emulator::Terminal(_) | Emulator::User(_) | Emulator::Traced(_) => 0,
        }
    }

    /// Appends a parameter's text for Bind, if it has one.
    #[inline]
    pub fn parameter(&self, variable: VariableId, out: &mut Vec<u8>) -> BoundParameter {
        match self {
            Emulator::Script(script) => script.parameter(variable, out),
            Emulator::Terminal(terminal) if terminal.parameter(variable, out) => BoundParameter::Text,
            Emulator::Terminal(_) => BoundParameter::Null,
            Emulator::User(user) => {
                user.parameter(variable, out);
                BoundParameter::Text
            }
            Emulator::Traced(client) => client.parameter(variable, out),
        }
    }

    /// Appends a statement's text for the simple protocol, values in place of variables.
    ///
    /// # Errors
    /// The first variable of a script that cannot be sent; the text is incomplete then.
    pub fn render(&self, program: &Program, statement: usize, out: &mut Vec<u8>) -> Result<(), Unsendable> {
        self.render_pieces(program, &program.statements[statement].pieces, out)
    }

    /// Appends a text that is given in pieces: a statement, or the rows of its `\copydata`.
    ///
    /// # Errors
    /// See [`Emulator::render`].
    pub fn render_pieces(
        &self,
        program: &Program,
        pieces: &[TextPiece],
        out: &mut Vec<u8>,
    ) -> Result<(), Unsendable> {
        if let Emulator::Script(script) = self {
            return script.render_pieces(program, pieces, out);
        }
        if let Emulator::Traced(client) = self {
            client.render(pieces, out);
            return Ok(());
        }
        for piece in pieces {
            match piece {
                TextPiece::Text(text) => out.extend_from_slice(text.as_bytes()),
                TextPiece::Variable(variable) | TextPiece::Quoted(variable) => self.quote(*variable, out),
            }
        }
        Ok(())
    }

    /// Appends a value of a built-in transaction as a literal: no value contains a quote, and a quoted literal takes on
    /// any type.
    fn quote(&self, variable: VariableId, out: &mut Vec<u8>) {
        let start = out.len();
        out.push(b'\'');
        if self.parameter(variable, out) == BoundParameter::Text {
            out.push(b'\'');
        } else {
            out.truncate(start);
            out.extend_from_slice(b"null");
        }
    }

    /// The built-in transaction that comes next; `None` if the caller chooses scripts. `now_ns` is the end of the
    /// last one, or the beginning.
    #[inline]
    pub fn next_transaction(&mut self, now_ns: u64) -> Option<NextTransaction> {
        match self {
            Emulator::Script(_) => None,
            Emulator::Terminal(terminal) => Some(terminal.next(now_ns)),
            Emulator::User(user) => Some(user.next(now_ns)),
            Emulator::Traced(client) => Some(client.next_transaction(now_ns)),
        }
    }

    /// Whether rows are for [`Emulator::take_row`] instead of variables.
    #[inline]
    pub fn takes_rows(&self) -> bool {
        matches!(self, Emulator::Terminal(_) | Emulator::User(_))
    }

    /// Takes in a row of a statement that fetches [`Fetch::Rows`](crate::Fetch::Rows); values in the order of their
    /// columns.
    ///
    /// # Errors
    /// When the row cannot be one of that statement.
    pub fn take_row<'a>(
        &mut self,
        program: &Program,
        row: &'a mut dyn Iterator<Item = Option<&'a [u8]>>,
    ) -> Result<(), RunError> {
        let Emulator::Terminal(terminal) = self else { return Ok(()) };
        terminal.take_row(row).map_err(|missing| self.not_found(program, missing))
    }

    /// An error of the command that was handed out last.
    pub fn failed(&self, program: &Program, outcome: &'static str, cause: String) -> RunError {
        RunError::at(program, self.current(), outcome, cause)
    }

    /// Whether the transaction is meant to end with this error of the server.
    pub fn expects(&self, sqlstate: &str) -> bool {
        matches!(self, Emulator::Terminal(terminal) if terminal.expects(sqlstate))
    }

    /// Which of the statements is sent that a statement with glued names became.
    ///
    /// # Errors
    /// A variable whose value is not within its range.
    #[inline]
    pub fn variant(&self, glued: &Glued) -> Result<usize, Unsendable> {
        self.script().map_or(Ok(0), |script| script.variant(glued))
    }

    /// The transaction was committed. Adds facts about it to `facts`, in the order of [`Program::facts`].
    ///
    /// # Errors
    /// A fact that cannot be computed.
    #[inline]
    pub fn committed(&mut self, program: &Program, facts: &mut [u64]) -> Result<(), RunError> {
        match self {
            Emulator::Script(script) => {
                script.committed();
                script.add_facts(program, facts)
            }
            Emulator::Terminal(terminal) => {
                terminal.add_facts(facts);
                Ok(())
            }
            Emulator::User(_) | Emulator::Traced(_) => Ok(()),
        }
    }

    /// The server may have committed the transaction: rows that it inserted may exist.
    pub fn may_be_committed(&mut self) {
        if let Emulator::Script(script) = self {
            script.committed();
        }
    }

    /// The client of a trace, if this is one.
    #[inline]
    pub fn traced(&mut self) -> Option<&mut TracedClient> {
        if let Emulator::Traced(client) = self { Some(client) } else { None }
    }

    /// Whether all transactions of a trace have ended.
    #[inline]
    pub fn is_finished(&self) -> bool {
        matches!(self, Emulator::Traced(client) if client.is_finished())
    }

    /// The interpreter, if this client runs scripts.
    #[inline]
    pub fn script(&self) -> Option<&Interpreter> {
        match self {
            Emulator::Script(script) => Some(script),
            Emulator::Terminal(_) | Emulator::User(_) | Emulator::Traced(_) => None,
        }
    }

    /// The interpreter, if this client runs scripts.
    #[inline]
    pub fn script_mut(&mut self) -> Option<&mut Interpreter> {
        match self {
            Emulator::Script(script) => Some(script),
            Emulator::Terminal(_) | Emulator::User(_) | Emulator::Traced(_) => None,
        }
    }

    /// The values of a script's variables, in the order of their table; empty for built-in transactions.
    #[inline]
    pub fn slots(&self) -> &[Slot] {
        self.script().map_or(&[], Interpreter::slots)
    }

    /// Whether `debug` was called since the transaction began.
    #[inline]
    pub fn has_debug_lines(&self) -> bool {
        self.script().is_some_and(|script| !script.debug_lines().is_empty())
    }

    /// Takes the lines of `debug`, oldest first.
    pub fn take_debug_lines(&mut self) -> Vec<DebugLine> {
        self.script_mut().map(Interpreter::take_debug_lines).unwrap_or_default()
    }

    #[cold]
    fn not_found(&self, program: &Program, missing: &str) -> RunError {
        let cause = format!("the server did not return {missing}; load the tables again with pgdyno init");
        self.failed(program, "the transaction cannot go on", cause)
    }
}
