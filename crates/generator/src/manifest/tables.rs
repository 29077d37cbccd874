//! Named expressions, and tables with their columns.

use std::ops::Range;

use toml::Spanned;
use toml::de::DeValue;

use crate::manifest::braces::Braces;
use crate::manifest::reader::{ManifestReader, PlacedValue, Section, kind};
use crate::value::is_identifier;

/// Most columns and hidden values that a table declares; PostgreSQL's tables have at most 1,600 columns.
const VALUES_MAX: usize = 1600;

/// An expression with a name, and the bytes of `workload.toml` at which both stand.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamedText {
    /// Name; it may have braces.
    pub name: String,
    /// Where the name stands.
    pub name_at: Range<usize>,
    /// The expression.
    pub text: String,
    /// Where the expression stands, with its quotes.
    pub at: Range<usize>,
}

/// An expression without a name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlacedText {
    /// The expression.
    pub text: String,
    /// Where it stands, with its quotes.
    pub at: Range<usize>,
}

/// A table, or several if its name has braces.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeclaredTable {
    /// Name, perhaps with braces.
    pub name: String,
    /// Where the name stands.
    pub name_at: Range<usize>,
    /// How many rows it has.
    pub size: TableSize,
    /// What is sent, in the order of the file.
    pub columns: Vec<NamedText>,
    /// Values that are only computed.
    pub hidden: Vec<NamedText>,
}

/// The number of rows of a table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TableSize {
    /// A number, rounded down.
    Rows(PlacedText),
    /// So many for each row of another table.
    Each {
        /// The other table.
        parent: String,
        /// Where its name stands.
        parent_at: Range<usize>,
        /// The number for a row of it.
        lines: PlacedText,
    },
}

pub(super) fn read(reader: &mut ManifestReader<'_>, top: &mut Section<'_, '_>) -> Vec<DeclaredTable> {
    let mut found: Vec<DeclaredTable> = Vec::new();
    for mut section in top.array(reader, "table") {
        let name = section.required(reader, "name");
        check_table_name(reader, &name);
        let size = size(reader, &mut section);
        let columns = named(reader, &mut section, "columns");
        let hidden = named(reader, &mut section, "hidden");
        if columns.len() + hidden.len() > VALUES_MAX {
            let message = format!("a table has at most {VALUES_MAX} columns and hidden values");
            reader.problem(section.at.clone(), message);
        }
        let all = columns.iter().chain(&hidden);
        reader.doubles("value of the table", all.map(|one| (one.name.as_str(), one.name_at.clone())));
        section.finish(reader);
        found.push(DeclaredTable { name: name.value, name_at: name.at, size, columns, hidden });
    }
    reader.doubles("table", found.iter().map(|table| (table.name.as_str(), table.name_at.clone())));
    found
}

fn check_table_name(reader: &mut ManifestReader<'_>, name: &PlacedValue<String>) {
    let plain = match Braces::from_name(&name.value) {
        Ok(None) => name.value.clone(),
        Ok(Some(braces)) => braces.example(),
        Err(why) => return reader.problem(name.at.clone(), why),
    };
    let has_capital = plain.chars().any(|c| c.is_ascii_uppercase());
    if !name.value.is_empty() && (!is_identifier(&plain) || has_capital) {
        reader.problem(
            name.at.clone(),
            "the name of a table has small letters, digits and `_`, no digit first, at most 63, as in SQL without quotes",
        );
    }
}

fn size(reader: &mut ManifestReader<'_>, section: &mut Section<'_, '_>) -> TableSize {
    let at = section.at.clone();
    let parent = section.text(reader, "each");
    let has_rows = section.has("rows");
    let rows = section.expression(reader, "rows");
    let lines = section.expression(reader, "lines");
    let nothing = || PlacedText { text: "0".to_string(), at: at.clone() };
    match (parent, lines) {
        (Some(parent), lines) => {
            if has_rows {
                reader.problem(parent.at.clone(), "a table has `rows`, or `each` and `lines`, but not both");
            }
            // What is wrong with one that is there has been said.
            if !section.has("lines") {
                let message = "`lines` is missing: how many rows there are for each row of the other table";
                section.lacks("lines", parent.at.clone(), message);
            }
            let lines = lines.unwrap_or_else(nothing);
            TableSize::Each { parent: parent.value, parent_at: parent.at, lines }
        }
        (None, Some(lines)) => {
            reader.problem(
                lines.at,
                "`lines` is for a table with `each`, which names the table of its parents",
            );
            TableSize::Rows(nothing())
        }
        (None, None) => {
            if !has_rows {
                section.lacks("rows", at.clone(), "`rows` of [[table]] is missing (or `each` and `lines`)");
            }
            TableSize::Rows(rows.unwrap_or_else(nothing))
        }
    }
}

/// Named expressions in the table of this key.
pub(crate) fn named(
    reader: &mut ManifestReader<'_>,
    section: &mut Section<'_, '_>,
    key: &'static str,
) -> Vec<NamedText> {
    let Some(section) = section.section(reader, key) else { return Vec::new() };
    section.named(reader)
}

fn check_value_name(reader: &mut ManifestReader<'_>, name: &PlacedValue<String>) {
    let plain = match Braces::from_name(&name.value) {
        Ok(None) => name.value.clone(),
        Ok(Some(braces)) => braces.example(),
        Err(why) => return reader.problem(name.at.clone(), why),
    };
    if !is_identifier(&plain) {
        reader.problem(name.at.clone(), "a name has letters, digits and `_`, no digit first, at most 63");
    }
}

/// An expression, which is a text, or a plain number or truth value.
fn expression_of(
    reader: &mut ManifestReader<'_>,
    name: &str,
    value: &Spanned<DeValue<'_>>,
) -> Option<PlacedText> {
    let text = match value.get_ref() {
        DeValue::String(text) => text.to_string(),
        DeValue::Integer(int) if int.radix() == 10 => int.as_str().to_string(),
        DeValue::Float(float) if float.as_str().starts_with(|c: char| c.is_ascii_digit() || c == '-') => {
            float.as_str().to_string()
        }
        DeValue::Boolean(flag) => flag.to_string(),
        other => {
            let message = format!("`{name}` is {}; expected an expression in quotes", kind(other));
            reader.problem(value.span(), message);
            return None;
        }
    };
    if text.trim().is_empty() {
        reader.problem(value.span(), format!("the expression of `{name}` is empty"));
        return None;
    }
    Some(PlacedText { text, at: value.span() })
}

impl Section<'_, '_> {
    /// The named expressions that this table has.
    pub(crate) fn named(mut self, reader: &mut ManifestReader<'_>) -> Vec<NamedText> {
        let mut found = Vec::new();
        for (name, value) in self.entries(reader) {
            check_value_name(reader, &name);
            if let Some(text) = expression_of(reader, &name.value, value) {
                found.push(NamedText { name: name.value, name_at: name.at, text: text.text, at: text.at });
            }
        }
        found
    }

    /// An expression under a key.
    fn expression(&mut self, reader: &mut ManifestReader<'_>, key: &'static str) -> Option<PlacedText> {
        let value = self.get(key)?;
        expression_of(reader, key, value)
    }
}
