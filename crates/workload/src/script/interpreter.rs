//! One client's interpreter: its variables, its random stream, and its place in the running script.
//!
//! It decides what comes next and never waits: SQL and sleeping are returned to the caller as [`Action`]s; all else happens
//! inside [`Interpreter::step`]. Nothing is allocated per transaction by scripts that only compute numbers.

use std::collections::BTreeMap;

use crate::action::Action;
use crate::random::Prng;
use crate::script::declared::draws::ParameterDraws;
use crate::script::declared::glued::Glued;
use crate::script::declared::{DeclaredParameter, ParameterKind};
use crate::script::declared::{facts, quote};
use crate::script::eval::{self, DebugLine, EvalScope, Slot};
use crate::script::expr::Expr;
use crate::script::meta::leading_int;
use crate::script::program::{Delay, Program, ScriptCommand};
use crate::script::statement::TextPiece;
use crate::script::value::{BoundParameter, Dialect, EvalError, Value, undefined};
use crate::script::variables::{NUMBER, VariableId, VariableTable};

/// Most rounds of a loop.
const ROUNDS_MAX: u32 = 1000;

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
    /// It is a part of a name, and has a value for which nothing was compiled.
    OutOfRange(VariableId),
}

impl Unsendable {
    /// Why a client cannot continue, in pgbench's words where it has some.
    pub fn cause(self, variables: &VariableTable) -> String {
        match self {
            Unsendable::Unset(id) => undefined(variables.name(id)),
            Unsendable::NullInText(id) => {
                format!("variable \"{}\" is NULL, which has no place inside a text", variables.name(id))
            }
            Unsendable::OutOfRange(id) => {
                format!("variable \"{}\" is a part of a name, and not within its range", variables.name(id))
            }
        }
    }
}

/// The interpreter state of one client.
#[derive(Debug)]
pub struct Interpreter {
    slots: Vec<Slot>,
    /// The variable [`NUMBER`], if a script mentions it.
    number: Option<VariableId>,
    /// What the parameters of a workload directory are, and why the transaction that was begun has none.
    draws: Option<Box<ParameterDraws>>,
    fault: Option<String>,
    dialect: Dialect,
    prng: Prng,
    /// The random stream as it was when the transaction began.
    prng_at_begin: Prng,
    command: usize,
    /// Rounds of the loop that are left, the current one included.
    n_rounds_left: u32,
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
            number: variables.find(NUMBER),
            draws: None,
            fault: None,
            dialect: Dialect::default(),
            prng_at_begin: prng.clone(),
            prng,
            command: 0,
            n_rounds_left: 0,
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

    /// The same client with parameters.
    #[must_use]
    pub(crate) fn drawing(mut self, draws: ParameterDraws) -> Interpreter {
        self.draws = Some(Box::new(draws));
        self
    }

    /// Makes literals of the texts of these variables.
    pub(crate) fn quote_texts(&mut self, variables: &[VariableId]) {
        for variable in variables {
            if let Slot::Text(text, _) = &mut self.slots[variable.index()] {
                self.slots[variable.index()] = Slot::Literal(std::mem::take(text));
            }
        }
    }

    /// Gives scripts the number of the transaction that begins.
    #[inline]
    pub fn number(&mut self, number: u64) {
        if let Some(id) = self.number {
            self.set_value(id, Value::Int(number as i64));
        }
    }

    /// Starts a transaction at the first command, draws its parameters, and remembers the random stream for
    /// [`Interpreter::rewind`].
    #[inline]
    pub fn begin(&mut self, program: &Program) {
        self.prng_at_begin.clone_from(&self.prng);
        self.start();
        if let (Some(declared), Some(draws)) = (&program.declared, &mut self.draws) {
            match draws.begin(declared.transaction) {
                Ok(()) => self.assign_parameters(&declared.parameters),
                Err(cause) => self.fail_begun(cause),
            }
        }
    }

    /// Starts the transaction over with the same random values and parameters. Other variables keep the values that the failed
    /// try assigned, as in pgbench.
    pub fn rewind(&mut self, program: &Program) {
        self.prng.clone_from(&self.prng_at_begin);
        self.start();
        if let (Some(declared), Some(draws)) = (&program.declared, &mut self.draws) {
            draws.rewind();
            self.assign_parameters(&declared.parameters);
        }
    }

    /// The transaction cannot go on, because a parameter has no value: its first step says so.
    #[cold]
    fn fail_begun(&mut self, cause: String) {
        self.command = usize::MAX;
        self.fault = Some(cause);
    }

    /// What comes after the last command.
    #[inline]
    fn end(&mut self, program: &Program) -> Result<Option<Action>, RunError> {
        match self.fault.take() {
            None => Ok(Some(Action::End)),
            Some(cause) => {
                self.command = 0;
                Err(self.error(program, "a parameter has no value", cause))
            }
        }
    }

    #[inline]
    fn start(&mut self) {
        self.command = 0;
        self.is_undecided = false;
        self.debug.clear();
    }

    /// Integers are kept as such, because scripts compute with them; other values stay where they were drawn.
    #[inline]
    fn assign_parameters(&mut self, parameters: &[DeclaredParameter]) {
        let Some(draws) = &self.draws else { return };
        for DeclaredParameter { variable, place, kind } in parameters {
            self.slots[variable.index()] = match kind {
                ParameterKind::Int => Slot::Value(draws.int(*place).map_or(Value::Null, Value::Int)),
                ParameterKind::Plain => Slot::Parameter { place: *place, is_literal: false },
                ParameterKind::Literal => Slot::Parameter { place: *place, is_literal: true },
            };
        }
    }

    /// Begins the rounds of a loop, or passes it over.
    fn begin_loop(
        &mut self,
        program: &Program,
        each: u16,
        count: VariableId,
        end: usize,
    ) -> Result<(), RunError> {
        let n = self.evaluate(program, &Expr::Variable(count))?.to_int().unwrap_or(-1);
        match u32::try_from(n) {
            Ok(0) => self.command = end + 1,
            Ok(n @ 1..=ROUNDS_MAX) => {
                self.n_rounds_left = n;
                self.begin_round(program, each)?;
                self.command += 1;
            }
            _ => {
                let cause = format!("repeat: {n} rounds; a loop has 0 to {ROUNDS_MAX}");
                return Err(self.error(program, "execution of meta-command failed", cause));
            }
        }
        Ok(())
    }

    /// The end of a round: the next one, or what follows the loop.
    fn end_round(&mut self, program: &Program, each: u16, start: usize) -> Result<(), RunError> {
        self.n_rounds_left = self.n_rounds_left.saturating_sub(1);
        if self.n_rounds_left == 0 {
            self.command += 1;
            return Ok(());
        }
        self.begin_round(program, each)?;
        self.command = start + 1;
        Ok(())
    }

    fn begin_round(&mut self, program: &Program, each: u16) -> Result<(), RunError> {
        let (Some(declared), Some(draws)) = (&program.declared, &mut self.draws) else { return Ok(()) };
        match draws.begin_round(each) {
            Ok(()) => self.assign_parameters(&declared.each[usize::from(each)]),
            Err(cause) => return Err(self.error(program, "a parameter has no value", cause)),
        }
        Ok(())
    }

    /// The transaction was committed.
    #[inline]
    pub(crate) fn committed(&mut self) {
        if let Some(draws) = &mut self.draws {
            draws.committed();
        }
    }

    /// Adds the facts of the transaction that was committed, in the order of [`Program::facts`].
    ///
    /// # Errors
    /// A fact that cannot be computed.
    pub(crate) fn add_facts(&mut self, program: &Program, sums: &mut [u64]) -> Result<(), RunError> {
        let Some(declared) = &program.declared else { return Ok(()) };
        for (fact, (name, sum)) in declared.facts.iter().zip(program.facts.iter().zip(sums)) {
            let value = eval::evaluate(fact, &mut self.scope(program)).map_err(|cause| {
                let cause = format!("fact \"{name}\": {cause}");
                self.failed(program, "evaluation of a fact failed", cause)
            })?;
            *sum = sum.saturating_add(facts::counted(value));
        }
        Ok(())
    }

    /// Which of the statements is sent that a statement with glued names became.
    ///
    /// # Errors
    /// A variable whose value is not within its range.
    #[inline]
    pub(crate) fn variant(&self, glued: &Glued) -> Result<usize, Unsendable> {
        let value_of = |variable: VariableId| match self.slots[variable.index()] {
            Slot::Value(Value::Int(value)) => Some(value),
            // A variable that the user set, and nothing changes.
            Slot::Text(ref text, _) => std::str::from_utf8(text).ok()?.parse().ok(),
            _ => None,
        };
        glued.variant(value_of).map_err(Unsendable::OutOfRange)
    }

    /// Runs commands up to the next one that the caller has to carry out.
    #[inline]
    pub fn step(&mut self, program: &Program) -> Result<Action, RunError> {
        // Conditions only lead forward, and loops have an end, so this ends.
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
        let Some(step) = program.commands.get(self.command) else { return self.end(program) };
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
            ScriptCommand::Repeat { each, count, end } => {
                self.begin_loop(program, *each, *count, *end)?;
                return Ok(None);
            }
            ScriptCommand::EndRepeat { each, start } => {
                self.end_round(program, *each, *start)?;
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
            (Slot::Text(text, _) | Slot::Literal(text), _) => out.extend_from_slice(text),
            (Slot::Parameter { place, .. }, _) => {
                if !self.draws.as_ref().is_some_and(|draws| draws.write(*place, out)) {
                    return BoundParameter::Null;
                }
            }
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
            Slot::Text(text, _) | Slot::Literal(text) => out.extend_from_slice(text),
            Slot::Parameter { .. } => return self.parameter(variable, out) == BoundParameter::Text,
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
        for (n, piece) in pieces.iter().enumerate() {
            let (variable, is_quoted) = match piece {
                TextPiece::Text(text) => {
                    out.extend_from_slice(text.as_bytes());
                    continue;
                }
                TextPiece::Variable(variable) => (*variable, false),
                TextPiece::Quoted(variable) => (*variable, true),
            };
            let start = out.len();
            match (self.parameter(variable, out), self.dialect) {
                (BoundParameter::Text, _) => {
                    self.fit_in(variable, is_quoted, start, out);
                    if program.declared.is_some() && !is_quoted {
                        enclose_negative(out, start, pieces.get(n + 1));
                    }
                }
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

    /// Makes what was just written from `start` on a part of the text: a literal where it is one, or a field of a row.
    #[inline]
    fn fit_in(&self, variable: VariableId, is_in_text: bool, start: usize, out: &mut Vec<u8>) {
        let is_literal = match self.slots[variable.index()] {
            Slot::Parameter { is_literal, .. } => is_literal,
            Slot::Literal(_) => true,
            Slot::Unset | Slot::Value(_) | Slot::Text(..) => return,
        };
        if is_in_text {
            generator::escape_copy(out, start);
        } else if is_literal {
            quote::literal(out, start);
        }
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

    fn scope<'a>(&'a mut self, program: &'a Program) -> EvalScope<'a> {
        EvalScope {
            names: &program.variables,
            slots: &mut self.slots,
            draws: self.draws.as_deref(),
            prng: &mut self.prng,
            command: self.command,
            debug: &mut self.debug,
        }
    }

    fn evaluate(&mut self, program: &Program, expr: &Expr) -> Result<Value, RunError> {
        eval::evaluate(expr, &mut self.scope(program)).map_err(|cause: EvalError| {
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

/// Puts a negative number that was written from `start` on into parentheses where it would mean something else: after `-` it would begin a
/// comment, and a cast would be applied before its sign.
#[inline]
fn enclose_negative(out: &mut Vec<u8>, start: usize, next: Option<&TextPiece>) {
    let is_negative = out.get(start) == Some(&b'-');
    let is_cast = || matches!(next, Some(TextPiece::Text(text)) if text.starts_with("::"));
    if is_negative && (out[..start].last() == Some(&b'-') || is_cast()) {
        out.insert(start, b'(');
        out.push(b')');
    }
}
