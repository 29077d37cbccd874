//! The variables of a script and the columns of captured rows, as they are planned.

use std::collections::BTreeMap;

use crate::role::ValueRole;
use crate::role::view::SlotPlace;
use crate::statement::Origin;

/// The type of a column of captured rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DrawType {
    /// 64 bits.
    Int,
    /// A double.
    Float,
    /// A decimal.
    Decimal,
    /// Characters.
    Text,
}

impl DrawType {
    /// The word in files.
    pub fn word(self) -> &'static str {
        match self {
            DrawType::Int => "int",
            DrawType::Float => "float",
            DrawType::Decimal => "decimal",
            DrawType::Text => "text",
        }
    }
}

/// Where the values of a column of captured rows come from.
#[derive(Clone, Debug, PartialEq)]
pub enum Source {
    /// The values of a slot.
    Slot(SlotPlace),
    /// The difference of a slot's time and that of its statement, seconds.
    Difference(SlotPlace),
    /// Numbers from this one, in the order of rows, in place of a slot's values.
    Sequence(SlotPlace, i64),
    /// Time of the client before a statement, microseconds.
    Gap(usize),
    /// Rounds of a loop.
    Rounds(usize),
}

/// A column of captured rows.
#[derive(Clone, Debug, PartialEq)]
pub struct DrawColumn {
    /// Name.
    pub name: String,
    /// Type.
    pub kind: DrawType,
    /// Values.
    pub source: Source,
    /// The loop whose rows have it.
    pub in_loop: Option<usize>,
    /// The column of a table that the values are of.
    pub of_column: Option<String>,
    /// Whether that holds texts.
    pub is_text: Option<bool>,
}

/// A variable of a script.
#[derive(Clone, Debug, PartialEq)]
pub struct Variable {
    /// Name.
    pub name: String,
    /// Role.
    pub role: ValueRole,
    /// The loop in which it is drawn.
    pub in_loop: Option<usize>,
    /// How it is drawn; none if the script sets it.
    pub expression: Option<String>,
    /// The first slot that it fills.
    pub place: SlotPlace,
    /// Distinct values of the sample, and values.
    pub distinct: (usize, usize),
}

/// The filling of a slot.
#[derive(Clone, Debug, PartialEq)]
pub enum SlotFilling {
    /// A literal, as it was written: a number, or a text that has to be quoted.
    Literal(Origin, String),
    /// The value of a variable, with a cast if a number would lose its type.
    Variable(usize, &'static str),
}

/// The variables of a template.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Variables {
    /// The variables.
    pub all: Vec<Variable>,
    /// The filling of each slot.
    pub fillings: BTreeMap<SlotPlace, SlotFilling>,
    /// The role of each slot.
    pub roles: BTreeMap<SlotPlace, ValueRole>,
    /// Columns of captured rows.
    pub columns: Vec<DrawColumn>,
    /// `\gset` after a statement, with the prefix of its variables.
    pub gsets: BTreeMap<usize, String>,
    /// Whether each row is dealt once.
    pub deals_once: bool,
    /// Pauses of the client before statements: the variable.
    pub pauses: BTreeMap<usize, usize>,
    /// The variable that counts the rounds of each loop.
    pub rounds: Vec<usize>,
    /// Whether an execution may find that its new keys exist.
    pub may_collide: bool,
}

impl DrawColumn {
    /// Whether its values are made of those of this slot.
    pub(crate) fn source_of(&self, place: SlotPlace) -> bool {
        matches!(self.source, Source::Slot(of) | Source::Difference(of) | Source::Sequence(of, _) if of == place)
    }
}
