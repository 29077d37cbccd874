//! One client's interpreter: its variables, its random stream, and its place in the running script.
//!
//! It decides what comes next and never waits: SQL and sleeping are returned to the caller as [`Action`]s; everything
//! else happens inside [`Interpreter::step`]. Nothing is allocated per transaction by scripts that only compute
//! numbers.

use std::collections::BTreeMap;

use crate::action::Action;
use crate::random::Prng;
use crate::script::eval::{self, DebugLine, EvalScope, Slot};
use crate::script::expr::Expr;
use crate::script::meta::leading_int;
use crate::script::program::{Delay, Program, ScriptCommand};
use crate::script::statement::TextPiece;
use crate::script::value::{BoundParameter, Dialect, EvalError, Value, undefined};
use crate::script::variables::{VariableId, VariableTable};

/// Why a client cannot continue its script.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{script}:{line}: {cause} in command \"{command_name}\"")]
pub struct RunError {
    /// The script's name.
    pub script: String,
    /// Line of the command, from 1.
    pub line: usize,
    /// Index of the command in the script.
    pub command: usize,
    /// Name of the command.
    pub command_name: &'static str,
    /// What failed, in pgbench's words: `evaluation of meta-command failed`, for one.
    pub outcome: &'static str,
    /// Why it failed.
    pub cause: String,
}

impl RunError {
    /// An error of a command, by its index in the program.
    pub fn at(program: &Program, command: usize, outcome: &'static str, cause: String) -> RunError {
        let step = &program.commands[command];
        RunError {
            script: program.name.clone(),
            line: step.line,
            command,
            command_name: step.command.name(),
            outcome,
            cause,
        }
    }
}

/// A variable whose value cannot be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unsendable {
    /// Nothing has set it.
    Unset(VariableId),
    /// It is NULL, and stands inside a text.
    NullInText(VariableId),
}

impl Unsendable {
    /// Why a client cannot continue, in pgbench's words where it has some.
    pub fn cause(self, variables: &VariableTable) -> String {
        match self {
            Unsendable::Unset(id) => undefined(variables.name(id)),
            Unsendable::NullInText(id) => {
                format!("variable \"{}\" is NULL, which has no place inside a text", variables.name(id))
            }
        }
    }
}

/// The interpreter state of one client.
#[derive(Clone, Debug)]
pub struct Interpreter {
    slots: Vec<Slot>,
    dialect: Dialect,
    prng: Prng,
    /// The random stream as it was when the transaction began.
    prng_at_begin: Prng,
    command: usize,
    /// The next command is an `\elif` whose condition decides, because no branch before it was taken.
    is_undecided: bool,
    debug: Vec<DebugLine>,
}

impl Interpreter {
    /// A client with the given variables set. `client_id` becomes the variable of that name, unless it is defined.
    pub fn new(
        variables: &VariableTable,
        prng: Prng,
        client_id: usize,
        defines: &BTreeMap<String, String>,
    ) -> Interpreter {
        let mut interpreter = Interpreter {
            slots: vec![Slot::Unset; variables.len()],
            dialect: Dialect::default(),
            prng_at_begin: prng.clone(),
            prng,
            command: 0,
            is_undecided: false,
            debug: Vec::new(),
        };
        if let Some(id) = variables.find("client_id") {
            interpreter.set_value(id, Value::Int(client_id as i64));
        }
        for (name, text) in defines {
            if let Some(id) = variables.find(name) {
                interpreter.set_text(id, text.as_bytes());
            }
        }
        interpreter
    }

    /// The same client with other rules for variables without a value.
    #[must_use]
    pub fn speaking(mut self, dialect: Dialect) -> Interpreter {
        self.dialect = dialect;
        self
    }

    /// Starts a transaction at the first command and remembers the random stream for [`Interpreter::rewind`].
    #[inline]
    pub fn begin(&mut self) {
        self.prng_at_begin.clone_from(&self.prng);
        self.command = 0;
        self.is_undecided = false;
        self.debug.clear();
    }

    /// Starts the transaction over with the same random values. Variables keep the values that the failed try assigned,
    /// as in pgbench.
    pub fn rewind(&mut self) {
        self.prng.clone_from(&self.prng_at_begin);
        self.command = 0;
        self.is_undecided = false;
        self.debug.clear();
    }

    /// Runs commands up to the next one that the caller has to carry out.
    #[inline]
    pub fn step(&mut self, program: &Program) -> Result<Action, RunError> {
        // Conditions only lead forward, so this ends.
        loop {
            if let Some(action) = self.step_one(program)? {
                return Ok(action);
            }
        }
    }

    /// Runs one command; `None` if it is done. A `\else` or `\endif` that ends a branch not taken is skipped and
    /// does not count as a command, as in pgbench's statistics.
    #[inline]
    pub fn step_one(&mut self, program: &Program) -> Result<Option<Action>, RunError> {
        let Some(step) = program.commands.get(self.command) else { return Ok(Some(Action::End)) };
        let action = match &step.command {
            ScriptCommand::Sql { statement } => Action::Send { statement: *statement },
            ScriptCommand::Sleep(delay) => {
                let us = self.delay_us(program, delay)?;
                Action::Sleep { ns: u64::try_from(us).unwrap_or(0).saturating_mul(1000) }
            }
            ScriptCommand::Set { variable, expr, is_valid_name } => {
                let value = self.evaluate(program, expr)?;
                if !is_valid_name {
                    let cause =
                        format!("set: invalid variable name: \"{}\"", program.variables.name(*variable));
                    return Err(self.error(program, "assignment of meta-command failed", cause));
                }
                self.slots[variable.index()] = Slot::Value(value);
                self.command += 1;
                return Ok(None);
            }
            ScriptCommand::If { condition, otherwise } => {
                self.branch(program, condition, *otherwise)?;
                return Ok(None);
            }
            ScriptCommand::Elif { condition, otherwise, .. } if self.is_undecided => {
                self.is_undecided = false;
                self.branch(program, condition, *otherwise)?;
                return Ok(None);
            }
            ScriptCommand::Elif { end, .. } | ScriptCommand::Else { end } => {
                self.command = *end + 1;
                return Ok(None);
            }
            ScriptCommand::Endif => {
                self.command += 1;
                return Ok(None);
            }
            ScriptCommand::Shell { .. } => Action::Shell,
            ScriptCommand::SetShell { .. } => Action::SetShell,
            ScriptCommand::StartPipeline => Action::StartPipeline,
            ScriptCommand::SyncPipeline => Action::SyncPipeline,
            ScriptCommand::EndPipeline => Action::EndPipeline,
        };
        self.command += 1;
        Ok(Some(action))
    }

    /// Index of the command that was handed out last as an [`Action`].
    pub fn current(&self) -> usize {
        self.command.saturating_sub(1)
    }

    /// Index of the command that runs next.
    pub fn command(&self) -> usize {
        self.command
    }

    /// Appends a parameter's text for Bind, if it has one.
    #[inline]
    pub fn parameter(&self, variable: VariableId, out: &mut Vec<u8>) -> BoundParameter {
        match (&self.slots[variable.index()], self.dialect) {
            (Slot::Value(Value::Null), Dialect::Exact) | (Slot::Unset, Dialect::Pgbench) => {
                return BoundParameter::Null;
            }
            (Slot::Unset, Dialect::Exact) => return BoundParameter::Unset,
            (Slot::Value(value), _) => value.write_text(out),
            (Slot::Text(text, _), _) => out.extend_from_slice(text),
        }
        BoundParameter::Text
    }

    /// Whether a variable is NULL where NULL is no text.
    pub(crate) fn is_null(&self, variable: VariableId) -> bool {
        matches!((&self.slots[variable.index()], self.dialect), (Slot::Value(Value::Null), Dialect::Exact))
    }

    /// Appends a variable's text for a command line; `false` if nothing has set it.
    pub(crate) fn text(&self, variable: VariableId, out: &mut Vec<u8>) -> bool {
        match &self.slots[variable.index()] {
            Slot::Unset => return false,
            Slot::Value(value) => value.write_text(out),
            Slot::Text(text, _) => out.extend_from_slice(text),
        }
        true
    }

    /// Appends a statement's text for the simple protocol, values in place of variables.
    ///
    /// # Errors
    /// The first variable that cannot be sent; the text is incomplete then. With [`Dialect::Pgbench`] all can.
    pub fn render(&self, program: &Program, statement: usize, out: &mut Vec<u8>) -> Result<(), Unsendable> {
        self.render_pieces(program, &program.statements[statement].pieces, out)
    }

    /// Appends a text that is given in pieces: a statement, or the rows of its `\copydata`.
    ///
    /// # Errors
    /// See [`Interpreter::render`].
    pub fn render_pieces(
        &self,
        program: &Program,
        pieces: &[TextPiece],
        out: &mut Vec<u8>,
    ) -> Result<(), Unsendable> {
        for piece in pieces {
            let (variable, is_quoted) = match piece {
                TextPiece::Text(text) => {
                    out.extend_from_slice(text.as_bytes());
                    continue;
                }
                TextPiece::Variable(variable) => (*variable, false),
                TextPiece::Quoted(variable) => (*variable, true),
            };
            match (self.parameter(variable, out), self.dialect) {
                (BoundParameter::Text, _) => {}
                (BoundParameter::Null | BoundParameter::Unset, Dialect::Pgbench) => {
                    out.push(b':');
                    out.extend_from_slice(program.variables.name(variable).as_bytes());
                }
                (BoundParameter::Null, Dialect::Exact) if is_quoted => {
                    return Err(Unsendable::NullInText(variable));
                }
                (BoundParameter::Null, Dialect::Exact) => Value::Null.write_text(out),
                (BoundParameter::Unset, Dialect::Exact) => return Err(Unsendable::Unset(variable)),
            }
        }
        Ok(())
    }

    /// The values of the variables, in the order of their table.
    pub fn slots(&self) -> &[Slot] {
        &self.slots
    }

    /// The value of a variable.
    pub fn slot(&self, variable: VariableId) -> &Slot {
        &self.slots[variable.index()]
    }

    /// Assigns a typed value.
    pub fn set_value(&mut self, variable: VariableId, value: Value) {
        self.slots[variable.index()] = Slot::Value(value);
    }

    /// Assigns what a column of a row has.
    pub(crate) fn set_column(&mut self, variable: VariableId, value: Option<&[u8]>) {
        match (value, self.dialect) {
            (None, Dialect::Exact) => self.set_value(variable, Value::Null),
            (value, _) => self.set_text(variable, value.unwrap_or_default()),
        }
    }

    /// Assigns text, to be typed when an expression asks for it.
    pub fn set_text(&mut self, variable: VariableId, text: &[u8]) {
        self.slots[variable.index()] = Slot::Text(text.into(), None);
    }

    /// The lines of `debug` since the transaction began, oldest first.
    pub fn debug_lines(&self) -> &[DebugLine] {
        &self.debug
    }

    /// Takes [`Interpreter::debug_lines`], to be printed.
    pub fn take_debug_lines(&mut self) -> Vec<DebugLine> {
        std::mem::take(&mut self.debug)
    }

    /// Enters the branch if its condition holds, else goes to the next condition, or past `\else` or `\endif`.
    fn branch(&mut self, program: &Program, condition: &Expr, otherwise: usize) -> Result<(), RunError> {
        if self.evaluate(program, condition)?.is_true() {
            self.command += 1;
        } else if matches!(program.commands[otherwise].command, ScriptCommand::Elif { .. }) {
            self.command = otherwise;
            self.is_undecided = true;
        } else {
            self.command = otherwise + 1;
        }
        Ok(())
    }

    fn evaluate(&mut self, program: &Program, expr: &Expr) -> Result<Value, RunError> {
        let mut scope = EvalScope {
            names: &program.variables,
            slots: &mut self.slots,
            prng: &mut self.prng,
            command: self.command,
            debug: &mut self.debug,
        };
        eval::evaluate(expr, &mut scope).map_err(|cause: EvalError| {
            self.error(program, "evaluation of meta-command failed", cause.to_string())
        })
    }

    fn delay_us(&self, program: &Program, delay: &Delay) -> Result<i64, RunError> {
        let (variable, unit_us) = match delay {
            Delay::Fixed { us } => return Ok(*us),
            Delay::Variable { variable, unit_us } => (*variable, *unit_us),
        };
        let mut text = Vec::new();
        let name = program.variables.name(variable);
        let failed = |cause| self.error(program, "execution of meta-command failed", cause);
        if !self.text(variable, &mut text) {
            return Err(failed(format!("sleep: {}", undefined(name))));
        }
        let amount = leading_int(&text);
        if amount == 0 && !text.first().is_some_and(u8::is_ascii_digit) {
            let text = String::from_utf8_lossy(&text);
            return Err(failed(format!("sleep: invalid sleep time \"{text}\" for variable \"{name}\"")));
        }
        Ok(amount.saturating_mul(unit_us))
    }

    /// An error of the command that was handed out last.
    pub fn failed(&self, program: &Program, outcome: &'static str, cause: String) -> RunError {
        RunError::at(program, self.current(), outcome, cause)
    }

    fn error(&self, program: &Program, outcome: &'static str, cause: String) -> RunError {
        RunError::at(program, self.command, outcome, cause)
    }
}
