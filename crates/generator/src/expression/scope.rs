//! What names mean: options, `let`s, lists, tables and their values. The caller fills a scope, then compiles it.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::captured::SetDraws;
use super::compile;
use super::make::{Generator, UsedNames};
use super::parse::{Expression, ExpressionError};
use crate::value::kind::Type;
use crate::value::text::is_special;

/// A value that is known when the plan is made.
#[derive(Clone, Debug, PartialEq)]
pub enum Constant {
    /// 64 bits.
    Int(i64),
    /// A double.
    Float(f64),
    /// Characters.
    Text(String),
    /// True or false.
    Bool(bool),
}

/// A column, a hidden value or a parameter.
#[derive(Clone, Debug)]
pub struct ValueSource {
    /// Name, braces expanded.
    pub name: String,
    /// The expression that makes it.
    pub expression: Expression,
    /// Computed, not sent.
    pub is_hidden: bool,
}

/// A table: either of rows of its own, or of lines of each row of another.
#[derive(Clone, Debug)]
pub struct TableSource {
    /// Name, braces expanded.
    pub name: String,
    /// The number of rows, a constant; a float is rounded down. None if it has lines of a parent.
    pub rows: Option<Expression>,
    /// The parent, and the number of lines of each of its rows.
    pub each: Option<(String, Expression)>,
    /// Columns in the order in which they are sent, and hidden values.
    pub values: Vec<ValueSource>,
}

/// What is known of a value before one is made.
#[derive(Clone, Debug, PartialEq)]
pub struct ValueFacts {
    /// Name.
    pub name: String,
    /// Type.
    pub kind: Type,
    /// Computed, not sent.
    pub is_hidden: bool,
    /// Can be null.
    pub is_nullable: bool,
    /// Least and largest: of ints as they are, of decimals in units of their last digit, of dates in days and of
    /// timestamps and intervals in microseconds (since 1970).
    pub reach: Option<(i128, i128)>,
    /// Most characters of its text.
    pub longest: Option<u64>,
    /// Known to differ from row to row; if false, only the index will tell.
    pub is_unique: bool,
    /// The same in each row.
    pub is_constant: bool,
    /// Bound of the work of one value: parts evaluated, and an eighth of the characters made.
    pub steps: u64,
    /// Values of the same row that it reads, by their place in the order in which they were given.
    pub uses: Vec<usize>,
    /// Tables that it reads.
    pub tables: BTreeSet<usize>,
}

/// Names and what they mean.
#[derive(Clone, Debug)]
pub struct Scope {
    pub(super) data_seed: u64,
    pub(super) scale: Constant,
    pub(super) options: BTreeMap<String, Constant>,
    pub(super) lets: BTreeMap<String, Expression>,
    pub(super) lists: BTreeMap<String, Arc<WordList>>,
    pub(super) tables: Vec<SetSource>,
    pub(super) parameters: Vec<SetSource>,
    /// Names that constants have used, numbers of rows among them.
    pub(super) used: RefCell<UsedNames>,
}

/// The values of one table or transaction, as they were given.
#[derive(Clone, Debug)]
pub(super) struct SetSource {
    pub(super) name: String,
    pub(super) form: SourceForm,
    pub(super) values: Vec<ValueSource>,
    /// Captured rows that parameters are drawn from.
    pub(super) draws: Option<SetDraws>,
}

#[derive(Clone, Debug)]
pub(super) enum SourceForm {
    Rows(u64),
    Lines { parent: usize, lines: Expression },
    Parameters { inputs: Vec<String> },
}

/// Words of a list, one a line.
#[derive(Clone, Debug, Default)]
pub(super) struct WordList {
    pub(super) words: Vec<String>,
    /// Most characters, and most bytes, of a word.
    pub(super) characters: u64,
    pub(super) bytes: u64,
    pub(super) has_specials: bool,
}

impl Scope {
    /// A scope with nothing but builtin names.
    pub fn new(data_seed: u64, scale: Constant) -> Scope {
        Scope {
            data_seed,
            scale,
            options: BTreeMap::new(),
            lets: BTreeMap::new(),
            lists: BTreeMap::new(),
            tables: Vec::new(),
            parameters: Vec::new(),
            used: RefCell::default(),
        }
    }

    /// Names the value of an option.
    pub fn set_option(&mut self, name: &str, value: Constant) {
        self.options.insert(name.to_string(), value);
    }

    /// Names an expression; a later one of the same name replaces it.
    pub fn set_let(&mut self, name: &str, expression: Expression) {
        self.lets.insert(name.to_string(), expression);
    }

    /// Gives the words of a list, one a line; empty lines are left out.
    pub fn set_list(&mut self, file: &str, text: &str) {
        let words: Vec<String> = text.lines().filter(|line| !line.is_empty()).map(str::to_string).collect();
        let list = WordList {
            characters: words.iter().map(|word| word.chars().count() as u64).max().unwrap_or(0),
            bytes: words.iter().map(|word| word.len() as u64).max().unwrap_or(0),
            has_specials: words.iter().any(|word| word.bytes().any(is_special)),
            words,
        };
        self.lists.insert(file.to_string(), Arc::new(list));
    }

    /// Adds a table, and returns its number. Its number of rows can use options, `let`s, `scale` and `rows` of tables
    /// that were added before; its parent must have been added before.
    ///
    /// # Errors
    /// A number of rows that is none.
    pub fn add_table(&mut self, table: TableSource) -> Result<usize, ExpressionError> {
        let form = match (table.rows, table.each) {
            (_, Some((parent, lines))) => {
                let problem =
                    |message: String| ExpressionError { origin: lines.origin, at: 0, width: 1, message };
                let Some(parent) = self.table_number(&parent) else {
                    return Err(problem(format!(
                        "each row of `{parent}`: no table before this one has that name"
                    )));
                };
                if matches!(self.tables[parent].form, SourceForm::Lines { .. }) {
                    let parent = &self.tables[parent].name;
                    return Err(problem(format!("`{parent}` has lines itself; its lines cannot have lines")));
                }
                SourceForm::Lines { parent, lines }
            }
            (Some(rows), None) => SourceForm::Rows(compile::row_count(self, &rows)?),
            (None, None) => SourceForm::Rows(0),
        };
        self.tables.push(SetSource { name: table.name, form, values: table.values, draws: None });
        Ok(self.tables.len() - 1)
    }

    /// Adds the parameters of a transaction, or facts over `inputs`: integer variables that are given before each
    /// execution. Values can use each other. Returns the number of the set.
    pub fn add_parameters(&mut self, inputs: &[&str], values: Vec<ValueSource>) -> usize {
        let inputs = inputs.iter().map(|name| name.to_string()).collect();
        let form = SourceForm::Parameters { inputs };
        self.parameters.push(SetSource { name: String::new(), form, values, draws: None });
        self.parameters.len() - 1
    }

    /// Gives a set of parameters captured rows to draw from.
    pub(crate) fn set_draws(&mut self, set: usize, draws: SetDraws) {
        self.parameters[set].draws = Some(draws);
    }

    /// The value of an expression that needs no row.
    ///
    /// # Errors
    /// An expression that is none, or needs a row or a draw.
    pub fn constant(&self, expression: &Expression) -> Result<Constant, ExpressionError> {
        compile::constant(self, expression)
    }

    /// The number of rows of a table; of one with lines, of its parent.
    pub fn n_rows(&self, table: usize) -> u64 {
        match &self.tables[table].form {
            SourceForm::Rows(n) => *n,
            SourceForm::Lines { parent, .. } => self.n_rows(*parent),
            SourceForm::Parameters { .. } => 0,
        }
    }

    /// Resolves everything.
    ///
    /// # Errors
    /// All problems, one for each value that has one, in the order of their places.
    pub fn compile(self) -> Result<Arc<Generator>, Vec<ExpressionError>> {
        compile::all(&self).map(Arc::new)
    }

    pub(super) fn table_number(&self, name: &str) -> Option<usize> {
        self.tables.iter().position(|table| table.name == name)
    }

    /// The set of a number that counts tables, then parameters.
    pub(super) fn set(&self, set: usize) -> &SetSource {
        self.tables.get(set).unwrap_or_else(|| &self.parameters[set - self.tables.len()])
    }
}

impl SetSource {
    /// Names that come before the values: those of the inputs.
    pub(super) fn inputs(&self) -> &[String] {
        if let SourceForm::Parameters { inputs } = &self.form { inputs } else { &[] }
    }

    /// The number of an input or a value by its name.
    pub(super) fn value_number(&self, name: &str) -> Option<usize> {
        let inputs = self.inputs();
        inputs
            .iter()
            .position(|input| input == name)
            .or_else(|| self.values.iter().position(|value| value.name == name).map(|at| at + inputs.len()))
    }
}
