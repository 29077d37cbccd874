//! Files of captured rows: a line that says what they are, a line of columns, and rows as COPY writes them, packed by zstd.

use std::collections::HashMap;

use anyhow::{Context, Result};

use crate::privacy::{Mask, Place};
use crate::role::variables::{DrawColumn, Source, Variables, loop_name};
use crate::role::view::{ValueCell, View};
use crate::statement::SlotValue;
use crate::statement::literal::array_text;
use crate::value::times::timestamp_us;

/// The first line of a file.
pub(super) const HEAD: &str = "pgdyno draws 1\n";
/// Level of zstd.
const LEVEL: i32 = 9;

/// The files of a template by their names without `draws/` and `.zst`, each with at most so many bytes before it is packed: of more, every
/// second row is left out, until they fit.
pub(super) fn files(
    name: &str,
    view: &View<'_>,
    variables: &Variables,
    mask: &mut Mask,
    bytes_max: usize,
) -> Result<Vec<(String, Vec<u8>)>> {
    if variables.columns.is_empty() {
        return Ok(Vec::new());
    }
    let mut writer = Writer { view, mask, masked: HashMap::new(), bytes_max };
    let mut stride = 1;
    loop {
        let Some(texts) = writer.texts(variables, stride) else {
            stride *= 2;
            continue;
        };
        let files = texts.into_iter().map(|(of_loop, text)| {
            let file =
                of_loop.map_or_else(|| name.to_string(), |number| format!("{name}.{}", loop_name(number)));
            Ok((file, packed(&text)?))
        });
        return files.collect();
    }
}

/// The bytes of a file.
pub(super) fn packed(text: &str) -> Result<Vec<u8>> {
    zstd::encode_all(text.as_bytes(), LEVEL).context("captured rows cannot be packed")
}

pub(super) struct Writer<'a, 'v> {
    view: &'a View<'v>,
    mask: &'a mut Mask,
    /// Masked texts by column and text, so that equal ones are masked once.
    masked: HashMap<(usize, String), String>,
    bytes_max: usize,
}

/// Masked texts that are remembered.
const MASKED_MAX: usize = 200_000;

impl<'a, 'v> Writer<'a, 'v> {
    /// A writer of single rows.
    pub(super) fn new(view: &'a View<'v>, mask: &'a mut Mask) -> Writer<'a, 'v> {
        Writer { view, mask, masked: HashMap::new(), bytes_max: usize::MAX }
    }

    /// The fields of an execution, of a template without loops.
    pub(super) fn fields(&mut self, columns: &[DrawColumn], row: usize) -> Vec<String> {
        let cell = ValueCell { row, round: 0 };
        columns.iter().enumerate().map(|(at, column)| self.field(at, column, cell, row)).collect()
    }

    /// The text of the transaction's rows, and of those of its loops; `None` if one is too long.
    fn texts(&mut self, variables: &Variables, stride: usize) -> Option<Vec<(Option<usize>, String)>> {
        let mut found = Vec::new();
        let rows: Vec<usize> = (0..self.view.rows.len()).step_by(stride).collect();
        let tables = std::iter::once(None).chain((0..self.view.loops.len()).map(Some));
        for of_loop in tables {
            let columns: Vec<(usize, &DrawColumn)> = variables
                .columns
                .iter()
                .enumerate()
                .filter(|(_, column)| column.in_loop == of_loop)
                .collect();
            if columns.is_empty() {
                continue;
            }
            let mut text = String::from(HEAD);
            let heads: Vec<String> =
                columns.iter().map(|(_, column)| format!("{}:{}", column.name, column.kind.word())).collect();
            text.push_str(&if of_loop.is_some() {
                format!("row:int\t{}\n", heads.join("\t"))
            } else {
                format!("{}\n", heads.join("\t"))
            });
            for (number, row) in rows.iter().enumerate() {
                let n_rounds = of_loop.map_or(1, |of_loop| self.view.rounds(of_loop, *row));
                for round in 0..n_rounds {
                    let cell = ValueCell { row: *row, round };
                    let mut fields: Vec<String> = Vec::with_capacity(columns.len() + 1);
                    fields.extend(of_loop.map(|_| number.to_string()));
                    for (at, column) in &columns {
                        fields.push(self.field(*at, column, cell, number));
                    }
                    text.push_str(&fields.join("\t"));
                    text.push('\n');
                    if text.len() > self.bytes_max {
                        // One row alone is bounded by what a transaction may have.
                        if rows.len() > 1 {
                            return None;
                        }
                    }
                }
            }
            found.push((of_loop, text));
        }
        Some(found)
    }

    fn field(&mut self, at: usize, column: &DrawColumn, cell: ValueCell, number: usize) -> String {
        let null = || "\\N".to_string();
        match &column.source {
            Source::Slot(place) => match self.view.value(*place, cell) {
                Some(SlotValue::Text(text) | SlotValue::Truncated(text)) => {
                    escaped(&self.masked(at, column, text))
                }
                Some(SlotValue::List(all)) => {
                    let all: Vec<Option<String>> =
                        all.iter().map(|one| one.as_ref().map(|one| self.masked(at, column, one))).collect();
                    escaped(&array_text(all.iter().map(Option::as_deref)))
                }
                Some(SlotValue::Null) | None => null(),
            },
            Source::Difference(place) => {
                let time = self.view.value(*place, cell).and_then(SlotValue::text).and_then(timestamp_us);
                let began = self.view.began_us(place.step, cell);
                time.map_or_else(null, |time| format!("{:.6}", (time - began) as f64 / 1e6))
            }
            Source::Sequence(_, first) => first.saturating_add_unsigned(number as u64).to_string(),
            Source::Gap(step) => self.view.gap_us(*step, cell).to_string(),
            Source::Rounds(of_loop) => self.view.rounds(*of_loop, cell.row).to_string(),
        }
    }

    fn masked(&mut self, at: usize, column: &DrawColumn, text: &str) -> String {
        let key = (at, text.to_string());
        if let Some(known) = self.masked.get(&key) {
            return known.clone();
        }
        let place = Place { column: column.of_column.as_deref(), is_text: column.is_text };
        let masked = self.mask.value(text, place);
        if self.masked.len() < MASKED_MAX {
            self.masked.insert(key, masked.clone());
        }
        masked
    }
}

/// A value as COPY writes it.
fn escaped(text: &str) -> String {
    if !text.contains(['\\', '\t', '\n', '\r']) {
        return text.to_string();
    }
    text.replace('\\', "\\\\").replace('\t', "\\t").replace('\n', "\\n").replace('\r', "\\r")
}
