//! Resolved expressions at work: rows of tables as COPY text, parameters of transactions as text.

mod frame;
mod stream;

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

pub(super) use frame::{ChildPlace, Frame, children_value, keep, n_lines};
pub use stream::{ClientStream, Clock};

use super::captured::DrawnRow;
use super::node::Code;
use super::scope::ValueFacts;
use crate::value::kind::{Type, power_of_ten};
use crate::value::text::{escape_copy, write_float, write_word};

/// All tables and parameters of a directory, resolved: shared by the threads that make rows.
pub struct Generator {
    /// Tables, then sets of parameters.
    pub(super) sets: Vec<SetCode>,
    pub(super) n_tables: usize,
    pub(super) used: UsedNames,
}

/// Names that expressions have used.
#[derive(Clone, Debug, Default)]
pub(super) struct UsedNames {
    pub(super) lets: BTreeSet<String>,
    pub(super) lists: BTreeSet<String>,
    pub(super) options: BTreeSet<String>,
    pub(super) options_of_tables: BTreeSet<String>,
}

/// The values of one row, or of one execution.
pub(super) struct SetCode {
    pub(super) name: String,
    pub(super) form: SetForm,
    /// Of parameters: the inputs first.
    pub(super) values: Vec<ValueCode>,
    pub(super) facts: Vec<ValueFacts>,
    /// The sets that the values read, by the number of their frame.
    pub(super) targets: Vec<usize>,
}

/// What a set of values belongs to.
pub(super) enum SetForm {
    /// A row of a table of so many rows.
    Rows,
    /// A line of a parent's row.
    Lines { lines: ValueCode, least: u64, most: u64 },
    /// An execution of a transaction.
    Parameters { n_inputs: usize },
}

/// One value.
pub(super) struct ValueCode {
    /// The key of the column's cells.
    pub(super) key: u64,
    pub(super) name: String,
    pub(super) kind: Type,
    pub(super) code: Code,
    /// Other values read it: it is kept while the row is made.
    pub(super) is_kept: bool,
    pub(super) is_hidden: bool,
    pub(super) has_specials: bool,
}

/// A value that could not be made: a row that does not exist, a rejection without end, a division by zero.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CellFault {
    /// The table or, for parameters, the transaction's name as the caller gave it.
    pub table: String,
    /// The column or parameter.
    pub column: String,
    /// The row, from 0; of a line, the parent's.
    pub row: u64,
    /// The reason in words.
    pub message: String,
}

impl fmt::Display for CellFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let CellFault { table, column, row, message } = self;
        if table.is_empty() {
            write!(f, "`{column}`: {message}")
        } else {
            write!(f, "`{table}.{column}`, row {row}: {message}")
        }
    }
}

impl std::error::Error for CellFault {}

impl Generator {
    /// A generator of nothing, in which constants are evaluated.
    pub(super) fn empty() -> Generator {
        Generator { sets: Vec::new(), n_tables: 0, used: UsedNames::default() }
    }

    /// What is known of the values of a table, in the order in which they were given.
    pub fn table(&self, table: usize) -> &[ValueFacts] {
        &self.sets[table].facts
    }

    /// What is known of a set of parameters, in the order in which they were given.
    pub fn parameters(&self, set: usize) -> &[ValueFacts] {
        &self.sets[self.n_tables + set].facts
    }

    /// Fewest and most lines of a parent; none if the table has rows of its own.
    pub fn lines_reach(&self, table: usize) -> Option<(u64, u64)> {
        match self.sets[table].form {
            SetForm::Lines { least, most, .. } => Some((least, most)),
            _ => None,
        }
    }

    /// `let`s that an expression uses.
    pub fn used_lets(&self) -> &BTreeSet<String> {
        &self.used.lets
    }

    /// Lists that an expression uses.
    pub fn used_lists(&self) -> &BTreeSet<String> {
        &self.used.lists
    }

    /// Options that an expression uses.
    pub fn used_options(&self) -> &BTreeSet<String> {
        &self.used.options
    }

    /// Options on which the data depends.
    pub fn options_of_tables(&self) -> &BTreeSet<String> {
        &self.used.options_of_tables
    }

    /// A maker of rows of a table; each thread has its own.
    pub fn rows(self: &Arc<Self>, table: usize) -> RowMaker {
        RowMaker { frame: Frame::new(self, table), generator: Arc::clone(self), table }
    }

    /// A maker of a set of parameters; each client has its own.
    pub fn parameters_maker(self: &Arc<Self>, set: usize) -> ParameterMaker {
        let set = self.n_tables + set;
        let n_inputs = match self.sets[set].form {
            SetForm::Parameters { n_inputs } => n_inputs,
            _ => 0,
        };
        ParameterMaker { frame: Frame::new(self, set), generator: Arc::clone(self), set, n_inputs }
    }
}

/// Makes rows of one table, in any order.
pub struct RowMaker {
    generator: Arc<Generator>,
    frame: Frame,
    table: usize,
}

impl RowMaker {
    /// Appends a row as COPY's text format has it: the columns in their order, and a line feed.
    ///
    /// # Errors
    /// A value that cannot be made; nothing is appended then.
    pub fn write_row(&mut self, row: u64, out: &mut Vec<u8>) -> Result<(), CellFault> {
        self.frame.go(row as i64, None);
        self.write_sent(out)
    }

    /// The number of lines of a parent's row.
    ///
    /// # Errors
    /// A value that cannot be made.
    pub fn n_lines(&mut self, parent: u64) -> Result<u64, CellFault> {
        let n = n_lines(&self.generator, &mut self.frame, parent as i64);
        self.frame.fault.take().map_or(Ok(n), |fault| Err(*fault))
    }

    /// As [`RowMaker::write_row`], for a line of a parent's row.
    ///
    /// # Errors
    /// A value that cannot be made; nothing is appended then.
    pub fn write_line(&mut self, parent: u64, line: u64, out: &mut Vec<u8>) -> Result<(), CellFault> {
        self.frame.go(parent as i64, Some(line));
        self.write_sent(out)
    }

    /// Appends the plain text of one value, hidden or not; false if it is null.
    ///
    /// # Errors
    /// A value that cannot be made.
    pub fn write_value(
        &mut self,
        row: u64,
        line: Option<u64>,
        value: usize,
        out: &mut Vec<u8>,
    ) -> Result<bool, CellFault> {
        self.frame.go(row as i64, line);
        keep(&self.generator, &mut self.frame, value);
        let is_there = self.frame.write(value, &self.generator.sets[self.table].values[value].kind, out);
        self.frame.fault.take().map_or(Ok(is_there), |fault| Err(*fault))
    }

    fn write_sent(&mut self, out: &mut Vec<u8>) -> Result<(), CellFault> {
        let start = out.len();
        let generator = &*self.generator;
        let mut is_first = true;
        for (at, value) in generator.sets[self.table].values.iter().enumerate() {
            if value.is_hidden {
                continue;
            }
            if !is_first {
                out.push(b'\t');
            }
            is_first = false;
            let value_start = out.len();
            let is_there = if value.is_kept {
                keep(generator, &mut self.frame, at);
                self.frame.write(at, &value.kind, out)
            } else {
                write_direct(generator, &mut self.frame, value, out)
            };
            if !is_there {
                out.truncate(value_start);
                out.extend_from_slice(b"\\N");
            } else if value.has_specials {
                escape_copy(out, value_start);
            }
        }
        out.push(b'\n');
        if let Some(fault) = self.frame.fault.take() {
            out.truncate(start);
            return Err(*fault);
        }
        Ok(())
    }
}

/// A value that no other reads goes straight to where it is sent.
#[inline]
fn write_direct(generator: &Generator, frame: &mut Frame, value: &ValueCode, out: &mut Vec<u8>) -> bool {
    frame.enter_cell(value.key);
    let is_there = match &value.code {
        Code::Word(code) => code(generator, frame).map(|word| write_word(&value.kind, word, out)).is_some(),
        Code::Float(code) => code(generator, frame).map(|double| write_float(double, out)).is_some(),
        Code::Text(code) => code(generator, frame, out),
    };
    frame.name_fault(generator, value);
    is_there
}

/// Makes the parameters of one transaction for one client.
#[derive(Clone)]
pub struct ParameterMaker {
    generator: Arc<Generator>,
    frame: Frame,
    set: usize,
    n_inputs: usize,
}

impl ParameterMaker {
    /// Gives a variable that the values use, before [`ParameterMaker::draw`].
    pub fn set_input(&mut self, input: usize, value: Option<i64>) {
        self.frame.set_word(input, value);
    }

    /// Says which captured rows the values are of.
    pub(crate) fn set_drawn(&mut self, drawn: DrawnRow) {
        self.frame.drawn = drawn;
    }

    /// The row of a loop's next round.
    pub(crate) fn set_round(&mut self, row: u32) {
        self.frame.drawn.own = row;
    }

    /// Makes all values; they stay until this is called again.
    ///
    /// # Errors
    /// A value that cannot be made.
    pub fn draw(&mut self, stream: &mut ClientStream) -> Result<(), CellFault> {
        self.frame.renew(self.n_inputs);
        std::mem::swap(&mut self.frame.stream, stream);
        self.frame.draws = self.frame.stream.draws;
        for value in self.n_inputs..self.generator.sets[self.set].values.len() {
            keep(&self.generator, &mut self.frame, value);
        }
        self.frame.stream.draws = self.frame.draws;
        std::mem::swap(&mut self.frame.stream, stream);
        self.frame.fault.take().map_or(Ok(()), |fault| Err(*fault))
    }

    /// Appends the text of a value; false if it is null.
    pub fn write(&self, value: usize, out: &mut Vec<u8>) -> bool {
        let at = self.n_inputs + value;
        self.frame.write(at, self.kind(at), out)
    }

    /// An int, or 0 or 1 of a bool; none if it is null or of another type.
    pub fn int(&self, value: usize) -> Option<i64> {
        let at = self.n_inputs + value;
        if matches!(self.kind(at), Type::Int | Type::Bool) { self.frame.word(at) } else { None }
    }

    /// A number as a double; none if it is null or no number.
    pub fn float(&self, value: usize) -> Option<f64> {
        let at = self.n_inputs + value;
        match self.kind(at) {
            Type::Float => self.frame.float(at),
            Type::Int | Type::Bool => self.frame.word(at).map(|word| word as f64),
            Type::Decimal(scale) => self.frame.word(at).map(|word| word as f64 / power_of_ten(*scale) as f64),
            _ => None,
        }
    }

    fn kind(&self, at: usize) -> &Type {
        &self.generator.sets[self.set].values[at].kind
    }
}
