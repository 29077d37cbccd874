//! Values that nobody has logged, drawn as pg_stats describes their columns: the most common ones with their frequencies, others evenly over
//! the quantiles of the histogram. Ranges are as wide as the rows say that they returned.

use crate::role::{SlotColumn, SlotFacts, met};
use crate::statement::form::FormSlot;
use crate::statement::literal::array_text;
use crate::statement::places::SlotUse;
use crate::statement::{Origin, SlotValue};
use crate::template::reservoir::Mixer;
use crate::value::text_class::{int, is_decimal};

/// Share of a table that a range has, if nothing says more.
const WIDTH_UNKNOWN: f64 = 0.01;
/// Most elements of an array that is searched for.
const ELEMENTS_MAX: f64 = 100.0;
/// Where a number of values that a limit allows has no other bound.
const LIMIT_MAX: f64 = 1e6;

/// A column as pg_stats describes it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ColumnValues {
    /// Share of rows without a value.
    pub null_share: f64,
    /// The most common values and their shares of the rows.
    pub common: Vec<(String, f64)>,
    /// Bounds of a histogram with as many rows in each bin, of all other values.
    pub bounds: Vec<String>,
    /// Rows of the table.
    pub n_rows: f64,
}

/// A value to draw.
#[derive(Clone, Copy, Debug)]
pub(super) struct SlotDraw<'a> {
    pub(super) slot: &'a FormSlot,
    pub(super) facts: Option<&'a SlotFacts>,
    pub(super) column: Option<&'a ColumnValues>,
    /// Elements of a long list.
    pub(super) n_elements: Option<usize>,
    /// Rows of an execution.
    pub(super) rows_per_call: f64,
}

impl SlotDraw<'_> {
    /// The column that it meets, as the server says.
    fn met(&self) -> Option<&SlotColumn> {
        self.facts?.column.as_ref()
    }

    fn usage(&self) -> SlotUse {
        met(self.slot, self.facts).0
    }

    fn base_type(&self) -> &str {
        self.facts.map_or("", SlotFacts::base_type)
    }

    /// Whether it is the other end of the range that `other` begins.
    fn ends(&self, other: &SlotDraw<'_>) -> bool {
        let (Some(own), Some(of_other)) = (self.met(), other.met()) else { return false };
        let are_ranges = own.usage == SlotUse::Range && of_other.usage == SlotUse::Range;
        are_ranges && own.table == of_other.table && own.column == of_other.column
    }

    /// Share of the table that a range has.
    fn width(&self) -> f64 {
        match self.column {
            Some(column) if column.n_rows >= 1.0 => (self.rows_per_call / column.n_rows).min(1.0),
            _ => WIDTH_UNKNOWN,
        }
    }
}

/// The values of an execution; `None` if there is a type of which no value is known.
pub(super) fn draw_row(slots: &[SlotDraw<'_>], row: u64, mixer: &mut Mixer) -> Option<Vec<SlotValue>> {
    let mut values = Vec::with_capacity(slots.len());
    let mut ranges: Vec<(usize, f64)> = Vec::new();
    for (at, slot) in slots.iter().enumerate() {
        if slot.usage() == SlotUse::Range
            && let Some(column) = slot.column.filter(|column| column.bounds.len() > 1)
        {
            let begun = ranges.iter().find(|(other, _)| slot.ends(&slots[*other]));
            let position = match begun {
                Some((_, position)) => position + slot.width(),
                None => unit(mixer) * (1.0 - slot.width()),
            };
            ranges.push((at, position));
            values.push(SlotValue::Text(column.quantile(position).into()));
            continue;
        }
        values.push(draw(slot, row, mixer)?);
    }
    Some(values)
}

fn draw(slot: &SlotDraw<'_>, row: u64, mixer: &mut Mixer) -> Option<SlotValue> {
    if slot.slot.origin == Origin::Array {
        let n = slot.n_elements.unwrap_or(1);
        let elements: Vec<String> = (0..n).map(|_| one(slot, mixer)).collect::<Option<_>>()?;
        return Some(SlotValue::List(elements.into_iter().map(|element| Some(element.into())).collect()));
    }
    let text = match slot.usage() {
        SlotUse::Limit => Some(format!("{:.0}", slot.rows_per_call.ceil().clamp(1.0, LIMIT_MAX))),
        SlotUse::Inserted if slot.met().is_some_and(|column| column.is_unique) => {
            Some(fresh(slot, row, mixer)?)
        }
        _ if slot.facts.is_some_and(|facts| facts.type_name.ends_with("[]")) => Some(array(slot, mixer)?),
        _ => {
            let is_written = matches!(slot.usage(), SlotUse::Inserted | SlotUse::Assigned);
            let null_share = slot.column.map_or(0.0, |column| column.null_share);
            if is_written && unit(mixer) < null_share { None } else { Some(one(slot, mixer)?) }
        }
    };
    Some(text.map_or(SlotValue::Null, |text| SlotValue::Text(text.into())))
}

/// A key that no row has: the next number, or random digits.
fn fresh(slot: &SlotDraw<'_>, row: u64, mixer: &mut Mixer) -> Option<String> {
    match slot.base_type() {
        "smallint" | "integer" | "bigint" => {
            let most = slot.met().and_then(|column| column.most);
            let next = most.unwrap_or(0).checked_add_unsigned(row + 1)?;
            Some(next.to_string())
        }
        "uuid" => Some(uuid(mixer)),
        "text" | "character varying" => Some(format!("{:016x}", mixer.next_u64())),
        _ => one(slot, mixer),
    }
}

/// An array of as many elements as rows were found; of one that is stored, nothing is known but that it may be empty.
fn array(slot: &SlotDraw<'_>, mixer: &mut Mixer) -> Option<String> {
    if slot.usage() != SlotUse::Equality {
        return Some("{}".to_string());
    }
    let n = slot.rows_per_call.round().clamp(1.0, ELEMENTS_MAX) as usize;
    let elements: Vec<String> = (0..n).map(|_| one(slot, mixer)).collect::<Option<_>>()?;
    Some(array_text(elements.iter().map(|element| Some(element.as_str()))))
}

/// A value of the column; without one, any value of the type.
fn one(slot: &SlotDraw<'_>, mixer: &mut Mixer) -> Option<String> {
    if let Some(text) = slot.column.and_then(|column| column.draw(mixer)) {
        return Some(text);
    }
    let text = match slot.base_type() {
        "smallint" | "integer" | "bigint" | "numeric" | "real" | "double precision" | "oid" => "1",
        "boolean" => "true",
        "text" | "character varying" | "character" | "\"char\"" | "name" | "citext" => "x",
        "date" => "2000-01-01",
        "timestamp without time zone" | "timestamp with time zone" => "2000-01-01 00:00:00+00",
        "time without time zone" | "time with time zone" => "00:00:00",
        "interval" => "1 day",
        "json" | "jsonb" => "{}",
        "bytea" => "\\x00",
        "inet" | "cidr" => "127.0.0.1",
        "uuid" => return Some(uuid(mixer)),
        _ => return None,
    };
    Some(text.to_string())
}

fn uuid(mixer: &mut Mixer) -> String {
    let (a, b) = (mixer.next_u64(), mixer.next_u64());
    format!(
        "{:08x}-{:04x}-4{:03x}-8{:03x}-{:012x}",
        a >> 32,
        a >> 16 & 0xffff,
        a & 0xfff,
        b >> 48 & 0xfff,
        b & 0xffff_ffff_ffff
    )
}

/// A number from 0 to below 1.
fn unit(mixer: &mut Mixer) -> f64 {
    (mixer.next_u64() >> 11) as f64 / (1_u64 << 53) as f64
}

impl ColumnValues {
    /// A value that is not null, as often as in the table; `None` if nothing is known of them.
    fn draw(&self, mixer: &mut Mixer) -> Option<String> {
        let of_common: f64 = self.common.iter().map(|(_, share)| share).sum();
        let of_bounds =
            if self.bounds.is_empty() { 0.0 } else { (1.0 - self.null_share - of_common).max(0.0) };
        let mut at = unit(mixer) * (of_common + of_bounds);
        for (value, share) in &self.common {
            if at < *share {
                return Some(value.clone());
            }
            at -= share;
        }
        if self.bounds.is_empty() {
            return self.common.last().map(|(value, _)| value.clone());
        }
        Some(self.quantile(unit(mixer)))
    }

    /// The value below which this share of the histogram is; there are bounds.
    fn quantile(&self, share: f64) -> String {
        let last = self.bounds.len() - 1;
        let at = share.clamp(0.0, 1.0) * last as f64;
        let below = (at as usize).min(last);
        let (from, to) = (&self.bounds[below], &self.bounds[(below + 1).min(last)]);
        let part = at - below as f64;
        if let (Some(from), Some(to)) = (int(from), int(to)) {
            return from.saturating_add((part * to.saturating_sub(from) as f64) as i64).to_string();
        }
        let decimals = |text: &str| text.split_once('.').map_or(0, |(_, digits)| digits.len());
        if is_decimal(from)
            && is_decimal(to)
            && let (Ok(low), Ok(high)) = (from.parse::<f64>(), to.parse::<f64>())
        {
            return format!("{:.*}", decimals(from).max(decimals(to)).min(15), low + part * (high - low));
        }
        from.clone()
    }
}
