//! Values of an experiment file that are out of the bounds of their keys' rows, each with its position.

use std::ops::Range;

use model::experiment::keys;
use model::experiment::keys::bounds::GivenValue;
use model::experiment::keys::row::KeyRow;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// A value that the row of its key refuses.
pub(super) struct OutOfBounds {
    pub(super) key: &'static str,
    /// Where it stands.
    pub(super) span: Range<usize>,
    pub(super) why: String,
}

/// The values of the file that their rows refuse.
pub(super) fn refusals(file: &DeTable) -> Vec<OutOfBounds> {
    let mut found = Vec::new();
    for row in keys::all() {
        let Some((section, name)) = row.parts() else { continue };
        for values in tables(file, section) {
            if let Some(value) = values.get(name) {
                refuse(row, value, &mut found);
            }
        }
    }
    found
}

/// The tables of a section: targets have some of their own.
fn tables<'a>(file: &'a DeTable<'a>, section: &'a str) -> impl Iterator<Item = &'a DeTable<'a>> {
    let targets = file.get(keys::TARGET).and_then(|targets| targets.get_ref().as_array());
    let targets = if section == "limits" { targets } else { None };
    let targets = targets.into_iter().flat_map(|targets| targets.iter());
    let all = std::iter::once(file).chain(targets.filter_map(|target| target.get_ref().as_table()));
    all.filter_map(move |table| table.get(section)?.get_ref().as_table())
}

fn refuse(row: &KeyRow, value: &Spanned<DeValue>, found: &mut Vec<OutOfBounds>) {
    let given = match value.get_ref() {
        DeValue::Array(levels) => return levels.iter().for_each(|level| refuse(row, level, found)),
        DeValue::Integer(n) => i128::from_str_radix(n.as_str(), n.radix()).ok().map(GivenValue::Whole),
        DeValue::Float(n) => n.as_str().parse().ok().map(GivenValue::Number),
        DeValue::String(text) => Some(GivenValue::Text(text)),
        _ => None,
    };
    let why = given.and_then(|given| row.refusal(given));
    found.extend(why.map(|why| OutOfBounds { key: row.name, span: value.span(), why }));
}
