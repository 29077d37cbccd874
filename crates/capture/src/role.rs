//! The role of each value of a template: what a replay puts in its place.

pub mod numbers;
pub mod planned;
pub mod rules;
pub mod variables;
pub mod view;

use crate::statement::form::FormSlot;
use crate::statement::places::SlotUse;

/// What a server says of a slot of a form.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SlotFacts {
    /// The type, as `format_type` writes it.
    pub type_name: String,
    /// What it does with which column, if with one.
    pub column: Option<SlotColumn>,
}

/// A column that a value meets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SlotColumn {
    /// The table.
    pub table: String,
    /// The column.
    pub column: String,
    /// The use of the value there.
    pub usage: SlotUse,
    /// Whether it alone is unique.
    pub is_unique: bool,
    /// Whether an index begins with it.
    pub is_indexed: bool,
    /// Whether it has a default.
    pub has_default: bool,
    /// Smallest value.
    pub least: Option<i64>,
    /// Largest value.
    pub most: Option<i64>,
}

/// Answers of a server about a form.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FormFacts {
    /// Of each slot, in order; empty if nothing is known.
    pub slots: Vec<SlotFacts>,
}

/// What a value does with which column: as the server says, or else as its place in the text hints.
pub(crate) fn met<'a>(slot: &'a FormSlot, facts: Option<&'a SlotFacts>) -> (SlotUse, Option<&'a str>) {
    match facts.and_then(|facts| facts.column.as_ref()) {
        Some(known) => (known.usage, Some(&known.column)),
        None => (slot.hint.usage, slot.hint.column.as_deref()),
    }
}

impl SlotFacts {
    /// The name of the type without its length and without being an array.
    pub(crate) fn base_type(&self) -> &str {
        // The length stands before `with time zone`; such types are written without a length by the server that was asked.
        let name = self.type_name.trim_end_matches("[]");
        name.split('(').next().unwrap_or_default().trim()
    }

    /// Whether the type holds texts that people write.
    pub fn is_text(&self) -> bool {
        matches!(
            self.base_type(),
            "text"
                | "character varying"
                | "character"
                | "name"
                | "citext"
                | "json"
                | "jsonb"
                | "xml"
                | "bytea"
        )
    }

    /// Largest value of a whole number of this type.
    pub fn int_max(&self) -> i64 {
        match self.type_name.as_str() {
            "smallint" => i16::MAX.into(),
            "integer" => i32::MAX.into(),
            _ => i64::MAX / 2,
        }
    }
}

/// The role of a value.
#[derive(Clone, Debug, PartialEq)]
pub enum ValueRole {
    /// The same in all executions.
    Constant,
    /// Equal to a value before it.
    Link,
    /// A value that an INSERT returned.
    Returned,
    /// A value that must be new.
    Fresh,
    /// The time of the execution, and a difference.
    Clock,
    /// One end of a range.
    Range,
    /// The key of a row that exists, and the share of keys that the sample cannot have seen.
    Key {
        /// Values seen once by values (Good 1953).
        unseen: f64,
    },
    /// The key of a row that is gone afterwards.
    Consumed,
    /// Too long to be kept, or cut off.
    Opaque,
    /// Anything else.
    Value,
}

impl ValueRole {
    /// The word in files.
    pub fn word(&self) -> &'static str {
        match self {
            ValueRole::Constant => "constant",
            ValueRole::Link => "link",
            ValueRole::Returned => "returned",
            ValueRole::Fresh => "fresh",
            ValueRole::Clock => "clock",
            ValueRole::Range => "range",
            ValueRole::Key { .. } => "key",
            ValueRole::Consumed => "consumed",
            ValueRole::Opaque => "opaque",
            ValueRole::Value => "value",
        }
    }
}
