//! pgbench scripts, compiled: SQL statements and backslash commands in order.
//!
//! Compiling does all that can be done once: splitting, parsing, resolving names, pairing `\if` with its ends.
//! `interpreter` runs programs, and `bundle` lets them share variables.

use std::fmt;
use std::sync::Arc;

use model::text::columns;

use crate::script::declared::Declared;
use crate::script::declared::glued::{self, GlueRange};
use crate::script::expr::Expr;
use crate::script::meta::{self, MetaCommand};
use crate::script::sqlscan::{SqlEnd, SqlScanner};
use crate::script::statement::{Fetch, PARAMETERS_MAX, Statement};
use crate::script::variables::{VariableId, VariableTable};

/// A compiled script.
#[derive(Clone, Debug, PartialEq)]
pub struct Program {
    /// File name or description, for messages and reports.
    pub name: String,
    /// The steps, in order.
    pub commands: Vec<ScriptStep>,
    /// The SQL statements, in order; commands refer to them by index.
    pub statements: Vec<Statement>,
    /// Names of all variables, those of other programs of the same bundle included.
    pub variables: Arc<VariableTable>,
    /// Which of the built-in transactions this is, counted from 0 in the order of their workload; `None` for a script.
    pub transaction: Option<usize>,
    /// Counts of successful transactions in addition to their number.
    pub facts: Vec<String>,
    /// Declarations of a workload directory for the script.
    pub declared: Option<Box<Declared>>,
}

/// The language of a script, as far as it is not always pgbench's.
#[derive(Clone, Copy, Default)]
pub(crate) struct Language<'a> {
    /// Backslash commands that do not exist.
    pub(crate) without: &'a [&'a str],
    /// What glued variables may be; `None` where there are none, as in pgbench.
    pub(crate) glue: Option<&'a GlueRange<'a>>,
    /// Names of the loops that `\repeat` can run, if the script has it.
    pub(crate) loops: Option<&'a [&'a str]>,
}

/// One command of a script and where it stands.
#[derive(Clone, Debug, PartialEq)]
pub struct ScriptStep {
    /// The command of the step.
    pub command: ScriptCommand,
    /// Line of the script, from 1.
    pub line: usize,
    /// The text, for reports.
    pub label: String,
}

/// What a command does. Targets are indexes of commands.
#[derive(Clone, Debug, PartialEq)]
pub enum ScriptCommand {
    /// Send a statement.
    Sql {
        /// Index in [`Program::statements`].
        statement: usize,
    },
    /// `\set`.
    Set {
        /// The assigned variable.
        variable: VariableId,
        /// The value.
        expr: Expr,
        /// Whether the name may be a variable; pgbench complains only when it runs the command.
        is_valid_name: bool,
    },
    /// `\sleep`.
    Sleep(Delay),
    /// `\if`.
    If {
        /// Whether to go on with the next command.
        condition: Expr,
        /// The `\elif`, `\else` or `\endif` to try next otherwise.
        otherwise: usize,
    },
    /// `\elif`; reached from the branch before it, it leads to the end.
    Elif {
        /// Whether to go on with the next command.
        condition: Expr,
        /// The `\elif`, `\else` or `\endif` to try next otherwise.
        otherwise: usize,
        /// The matching `\endif`.
        end: usize,
    },
    /// `\else`; reached from the branch before it, it leads to the end.
    Else {
        /// The matching `\endif`.
        end: usize,
    },
    /// `\endif`.
    Endif,
    /// `\repeat`: a loop, whose parameters are drawn in each round.
    Repeat {
        /// Index of the loop's parameters in the transaction.
        each: u16,
        /// The number of rounds.
        count: VariableId,
        /// The matching `\endrepeat`.
        end: usize,
    },
    /// `\endrepeat`.
    EndRepeat {
        /// Index of the loop's parameters in the transaction.
        each: u16,
        /// The matching `\repeat`.
        start: usize,
    },
    /// `\shell`.
    Shell {
        /// The command line, word by word.
        words: Vec<ShellWord>,
    },
    /// `\setshell`.
    SetShell {
        /// The variable that gets the integer that the command prints.
        variable: VariableId,
        /// The command line, word by word.
        words: Vec<ShellWord>,
    },
    /// `\startpipeline`.
    StartPipeline,
    /// `\syncpipeline`.
    SyncPipeline,
    /// `\endpipeline`.
    EndPipeline,
}

/// How long `\sleep` sleeps.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Delay {
    /// A constant; a negative one does not sleep.
    Fixed {
        /// Microseconds.
        us: i64,
    },
    /// A variable's value times a unit.
    Variable {
        /// Read with C's `atoi`.
        variable: VariableId,
        /// Microseconds per unit.
        unit_us: i64,
    },
}

/// A word of a shell command line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ShellWord {
    /// Literal text.
    Text(String),
    /// The variable's value.
    Variable(VariableId),
}

impl ScriptCommand {
    /// The command's name, as a script spells it.
    pub fn name(&self) -> &'static str {
        match self {
            ScriptCommand::Sql { .. } => "SQL",
            ScriptCommand::Set { .. } => "set",
            ScriptCommand::Sleep(_) => "sleep",
            ScriptCommand::If { .. } => "if",
            ScriptCommand::Elif { .. } => "elif",
            ScriptCommand::Else { .. } => "else",
            ScriptCommand::Endif => "endif",
            ScriptCommand::Repeat { .. } => "repeat",
            ScriptCommand::EndRepeat { .. } => "endrepeat",
            ScriptCommand::Shell { .. } => "shell",
            ScriptCommand::SetShell { .. } => "setshell",
            ScriptCommand::StartPipeline => "startpipeline",
            ScriptCommand::SyncPipeline => "syncpipeline",
            ScriptCommand::EndPipeline => "endpipeline",
        }
    }
}

/// Why a script does not compile.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScriptError {
    /// The script's name.
    pub file: String,
    /// Line from 1, or 0 when the whole script is meant.
    pub line: usize,
    /// Column from 1 within `source_line`, in bytes as pgbench counts; after it when its end was not expected.
    pub column: Option<usize>,
    /// What is wrong and where: pgbench's message.
    pub message: String,
    /// The command at fault, to be shown with a caret below.
    pub source_line: Option<String>,
}

impl fmt::Display for ScriptError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)?;
        if let Some(source_line) = &self.source_line {
            write!(f, "\n{source_line}")?;
            if let Some(column) = self.column {
                write!(f, "\n{} error found here", columns::right("^", column))?;
            }
        }
        Ok(())
    }
}

impl std::error::Error for ScriptError {}

impl ScriptError {
    /// An error about a script as a whole.
    pub(crate) fn whole(file: &str, message: String) -> ScriptError {
        ScriptError { file: file.to_owned(), line: 0, column: None, message, source_line: None }
    }

    pub(crate) fn at_line(file: &str, line: usize, message: &str) -> ScriptError {
        let message = format!("{file}:{line}: {message}");
        ScriptError { file: file.to_owned(), line, column: None, message, source_line: None }
    }
}

impl Program {
    /// Compiles one script with its own variables. Several scripts of one run are compiled by
    /// [`Bundle`](crate::Bundle).
    pub fn compile(name: &str, source: &str) -> Result<Program, ScriptError> {
        Program::compile_without(name, source, &[])
    }

    /// As [`Program::compile`], in a language that lacks some backslash commands.
    pub fn compile_without(name: &str, source: &str, without: &[&str]) -> Result<Program, ScriptError> {
        let mut variables = VariableTable::default();
        let language = Language { without, ..Language::default() };
        let mut program = Program::compile_with(name, source, language, &mut variables)?;
        program.variables = Arc::new(variables);
        Ok(program)
    }

    /// Compiles into a shared table; the caller sets [`Program::variables`] when the table is complete.
    pub(crate) fn compile_with(
        name: &str,
        source: &str,
        language: Language<'_>,
        variables: &mut VariableTable,
    ) -> Result<Program, ScriptError> {
        let Language { without, glue, loops } = language;
        let mut program = Program {
            name: name.to_owned(),
            commands: Vec::new(),
            statements: Vec::new(),
            variables: Arc::default(),
            transaction: None,
            facts: Vec::new(),
            declared: None,
        };
        let mut scanner = SqlScanner::new(source);
        let mut lines = LineCounter { source: source.as_bytes(), offset: 0, line: 1 };
        loop {
            let chunk = scanner.next_chunk();
            if !chunk.text.is_empty() {
                let line = lines.line_at(chunk.start);
                let glued = glue.map(|range_of| glued::compile(&chunk.text, line, variables, range_of));
                let glued = glued.transpose().map_err(|message| ScriptError {
                    source_line: Some(chunk.text.clone()),
                    ..ScriptError::at_line(name, line, &message)
                })?;
                let glued = glued.flatten().and_then(|glued| Statement::first_of(glued, &chunk.text));
                program.push_statement(glued.unwrap_or_else(|| Statement::new(&chunk.text, line, variables)));
            }
            match chunk.stop {
                SqlEnd::Semicolon => {}
                SqlEnd::EndOfScript => break,
                SqlEnd::Backslash => {
                    let line = lines.line_at(scanner.position);
                    let start = scanner.position - 1;
                    let place = meta::CommandPlace { file: name, source, line, start, without, loops };
                    let (parsed, end) = meta::parse(&place, variables)?;
                    scanner.position = end;
                    // For a script that begins so, pgbench reports the last line.
                    let is_first = program.commands.is_empty() && matches!(parsed, MetaCommand::Fetch(_));
                    program.push_parsed(parsed, if is_first { source.lines().count() } else { line })?;
                }
            }
        }
        if program.commands.is_empty() {
            return Err(ScriptError::whole(name, format!("empty command list for script \"{name}\"")));
        }
        program.pair_conditions()?;
        program.pair_loops()?;
        Ok(program)
    }

    /// pgbench's limit on parameters, which holds for the extended protocol only.
    pub fn check_parameter_counts(&self) -> Result<(), ScriptError> {
        let Some(statement) = self.statements.iter().find(|s| s.parameters.len() > PARAMETERS_MAX) else {
            return Ok(());
        };
        let text = statement.original(&self.variables);
        let message = format!("statement has too many arguments (maximum is {PARAMETERS_MAX}): {text}");
        Err(ScriptError { line: statement.line, ..ScriptError::whole(&self.name, message) })
    }

    fn push_statement(&mut self, statement: Statement) {
        let command = ScriptCommand::Sql { statement: self.statements.len() };
        self.commands.push(ScriptStep { command, line: statement.line, label: statement.label.clone() });
        self.statements.push(statement);
    }

    fn push_parsed(&mut self, parsed: MetaCommand, line: usize) -> Result<(), ScriptError> {
        match parsed {
            MetaCommand::Nothing => {}
            MetaCommand::Command { command, label } => {
                self.commands.push(ScriptStep { command, line, label })
            }
            MetaCommand::CopyData(data) => {
                let statement = match self.commands.last().map(|last| &last.command) {
                    Some(ScriptCommand::Sql { statement }) if self.statements[*statement].may_read_rows() => {
                        &mut self.statements[*statement]
                    }
                    _ => {
                        let message = "\\copydata must follow a COPY FROM STDIN";
                        return Err(ScriptError::at_line(&self.name, line, message));
                    }
                };
                statement.copy_data = Some(data);
            }
            MetaCommand::Fetch(fetch) => {
                let misplaced = |detail: String| {
                    let message = format!("\\gset must follow an SQL command{detail}");
                    ScriptError::at_line(&self.name, line, &message)
                };
                let statement = match self.commands.last().map(|last| (&last.command, &last.label)) {
                    Some((ScriptCommand::Sql { statement }, _))
                        if self.statements[*statement].fetch == Fetch::Discard =>
                    {
                        *statement
                    }
                    None | Some((ScriptCommand::Sql { .. }, _)) => return Err(misplaced(String::new())),
                    Some((_, label)) => return Err(misplaced(format!(" ({label})"))),
                };
                let statement = &mut self.statements[statement];
                for variant in statement.glued.iter_mut().flat_map(|glued| &mut glued.variants) {
                    variant.fetch = fetch.clone();
                }
                statement.fetch = fetch;
            }
        }
        Ok(())
    }

    /// Sets the targets of conditions, and refuses those that do not pair.
    fn pair_conditions(&mut self) -> Result<(), ScriptError> {
        // Each open \if with its \elif and \else.
        let mut open: Vec<Vec<usize>> = Vec::new();
        for at in 0..self.commands.len() {
            let has_else = |chain: &Vec<usize>| {
                chain
                    .last()
                    .is_some_and(|last| matches!(self.commands[*last].command, ScriptCommand::Else { .. }))
            };
            let message = match (&self.commands[at].command, open.last_mut()) {
                (ScriptCommand::If { .. }, _) => {
                    open.push(vec![at]);
                    continue;
                }
                (ScriptCommand::Elif { .. }, None) => "\\elif without matching \\if",
                (ScriptCommand::Elif { .. }, Some(chain)) if has_else(chain) => "\\elif after \\else",
                (ScriptCommand::Else { .. }, None) => "\\else without matching \\if",
                (ScriptCommand::Else { .. }, Some(chain)) if has_else(chain) => "\\else after \\else",
                (ScriptCommand::Elif { .. } | ScriptCommand::Else { .. }, Some(chain)) => {
                    chain.push(at);
                    continue;
                }
                (ScriptCommand::Endif, None) => "\\endif without matching \\if",
                (ScriptCommand::Endif, Some(_)) => {
                    let chain = open.pop().unwrap_or_default();
                    self.link(&chain, at);
                    continue;
                }
                _ => continue,
            };
            return Err(self.condition_error(at, message));
        }
        if open.is_empty() {
            return Ok(());
        }
        Err(self.condition_error(self.commands.len(), "\\if without matching \\endif"))
    }

    /// Sets the targets of loops, and refuses those that do not pair, or are within another one.
    fn pair_loops(&mut self) -> Result<(), ScriptError> {
        // The loop that is open, and the number of conditions that are open within it.
        let mut open: Option<(usize, usize)> = None;
        for at in 0..self.commands.len() {
            let message = match (&self.commands[at].command, open) {
                (ScriptCommand::Repeat { .. }, None) => {
                    open = Some((at, 0));
                    continue;
                }
                (ScriptCommand::Repeat { .. }, Some(_)) => "\\repeat within \\repeat",
                (ScriptCommand::EndRepeat { .. }, Some((start, 0))) => {
                    open = None;
                    self.link_loop(start, at);
                    continue;
                }
                (ScriptCommand::EndRepeat { .. }, _) => "\\endrepeat without matching \\repeat",
                (ScriptCommand::If { .. }, Some((start, n))) => {
                    open = Some((start, n + 1));
                    continue;
                }
                (ScriptCommand::Endif, Some((start, n @ 1..))) => {
                    open = Some((start, n - 1));
                    continue;
                }
                (
                    ScriptCommand::Elif { .. } | ScriptCommand::Else { .. } | ScriptCommand::Endif,
                    Some((_, 0)),
                ) => "a condition begins before the \\repeat in which it ends",
                _ => continue,
            };
            return Err(self.condition_error(at, message));
        }
        match open {
            None => Ok(()),
            Some(_) => {
                Err(self.condition_error(self.commands.len(), "\\repeat without matching \\endrepeat"))
            }
        }
    }

    fn link_loop(&mut self, at: usize, at_end: usize) {
        let each_of_loop = match &mut self.commands[at].command {
            ScriptCommand::Repeat { each, end, .. } => {
                *end = at_end;
                *each
            }
            _ => return,
        };
        if let ScriptCommand::EndRepeat { each, start } = &mut self.commands[at_end].command {
            (*each, *start) = (each_of_loop, at);
        }
    }

    fn link(&mut self, chain: &[usize], endif: usize) {
        for (position, at) in chain.iter().enumerate() {
            let next = chain.get(position + 1).copied().unwrap_or(endif);
            match &mut self.commands[*at].command {
                ScriptCommand::If { otherwise, .. } => *otherwise = next,
                ScriptCommand::Elif { otherwise, end, .. } => (*otherwise, *end) = (next, endif),
                ScriptCommand::Else { end } => *end = endif,
                _ => {}
            }
        }
    }

    fn condition_error(&self, at: usize, message: &str) -> ScriptError {
        let number = at + 1;
        let message = format!("condition error in script \"{}\" command {number}: {message}", self.name);
        let line = self.commands.get(at).or(self.commands.last()).map_or(0, |step| step.line);
        ScriptError { line, ..ScriptError::whole(&self.name, message) }
    }
}

/// Finds the lines of ascending offsets without counting from the beginning each time: scripts may have millions of lines.
struct LineCounter<'a> {
    source: &'a [u8],
    offset: usize,
    line: usize,
}

impl LineCounter<'_> {
    /// The line of an offset that is not before the last one.
    fn line_at(&mut self, offset: usize) -> usize {
        let passed = self.source[self.offset..offset].iter().filter(|byte| **byte == b'\n').count();
        (self.offset, self.line) = (offset, self.line + passed);
        self.line
    }
}
