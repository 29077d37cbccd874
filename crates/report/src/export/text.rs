//! Rows as CSV and as lines of JSON.

use std::io;

use serde_json::{Map, Value};

use super::{Cell, Column};
use crate::csv::line;

pub(super) fn heads(columns: &[Column]) -> String {
    let mut text = String::new();
    line(&mut text, columns.iter().map(|column| column.name.as_str()));
    text
}

pub(super) fn csv(row: &[Cell]) -> String {
    let fields: Vec<String> = row.iter().map(field).collect();
    let mut text = String::new();
    line(&mut text, fields.iter().map(String::as_str));
    text
}

fn field(cell: &Cell) -> String {
    match cell {
        Cell::Text(text) => text.to_string(),
        Cell::Int(number) => number.to_string(),
        Cell::Float(number) => number.to_string(),
        Cell::None => String::new(),
    }
}

/// One object; what a row does not have is null, so that all lines have the same keys.
pub(super) fn json(columns: &[Column], row: &[Cell]) -> io::Result<String> {
    let value = |cell: &Cell| match cell {
        Cell::Text(text) => Value::from(&**text),
        Cell::Int(number) => Value::from(*number),
        Cell::Float(number) => Value::from(*number),
        Cell::None => Value::Null,
    };
    let pairs = columns.iter().zip(row).map(|(column, cell)| (column.name.clone(), value(cell)));
    let mut text = serde_json::to_string(&pairs.collect::<Map<String, Value>>())?;
    text.push('\n');
    Ok(text)
}
