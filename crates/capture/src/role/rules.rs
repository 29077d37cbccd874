//! The rules that give a slot its role: the first that holds.

use crate::role::ValueRole;
use crate::role::numbers::{ValueFrequencies, order_correlation, spread};
use crate::role::variables::SlotView;
use crate::role::view::{SlotPlace, ValueCell, View};
use crate::statement::kind::{Kind, StatementRole};
use crate::statement::places::SlotUse;
use crate::statement::{Origin, SlotValue};
use crate::value::text_class::{int, is_json, is_uuid};
use crate::value::times::timestamp_us;

/// Fewest values of which a rule says anything.
const VALUES_MIN: usize = 20;
/// Share of the values that are equal to those of a link.
const LINK_SHARE: f64 = 0.99;
/// Correlation with the order of time from which values come from a sequence.
const SEQUENCE_MIN: f64 = 0.99;
/// Spread of `value - time` by the spread of values, below which a value is the clock.
const CLOCK_SHARE: f64 = 0.01;
/// Longest text that is kept, bytes.
pub const KEPT_BYTES_MAX: usize = 1024;
/// Longest JSON that is kept, bytes.
const JSON_BYTES_MAX: usize = 65_536;

/// Facts about a slot's values.
#[derive(Debug)]
pub struct SlotValues<'a> {
    /// The values.
    pub values: Vec<&'a SlotValue>,
    /// How often they repeat.
    pub frequencies: ValueFrequencies,
    /// The numbers, if all that are not null are numbers.
    pub ints: Option<Vec<i64>>,
    has_truncated: bool,
    bytes_max: usize,
    n_null: usize,
}

impl<'a> SlotValues<'a> {
    /// The facts about a column.
    pub fn new(values: Vec<&'a SlotValue>) -> SlotValues<'a> {
        let texts = || values.iter().filter_map(|value| value.text());
        let frequencies = ValueFrequencies::new(texts());
        let ints: Option<Vec<i64>> = texts().map(int).collect();
        SlotValues {
            frequencies,
            ints: ints.filter(|ints| !ints.is_empty()),
            has_truncated: values.iter().any(|value| matches!(value, SlotValue::Truncated(_))),
            bytes_max: texts().map(str::len).max().unwrap_or(0),
            n_null: values.iter().filter(|value| ***value == SlotValue::Null).count(),
            values,
        }
    }

    /// Whether all are one and the same.
    fn is_one(&self) -> bool {
        self.values.windows(2).all(|pair| pair[0] == pair[1]) && !self.has_truncated
    }

    fn is_unique(&self) -> bool {
        self.frequencies.n >= VALUES_MIN
            && self.frequencies.distinct == self.frequencies.n
            && self.n_null == 0
    }

    /// Whether numbers grow in the order of time.
    pub fn grows(&self) -> bool {
        self.is_unique() && self.ints.as_ref().is_some_and(|ints| order_correlation(ints) > SEQUENCE_MIN)
    }

    /// Whether a value is kept by its beginning only, or is too long.
    fn is_opaque(&self) -> bool {
        let is_document = |value: &&&SlotValue| {
            value.text().is_some_and(|text| text.len() <= JSON_BYTES_MAX && is_json(text))
        };
        let is_long = self.bytes_max > KEPT_BYTES_MAX;
        self.has_truncated
            || is_long
                && !self
                    .values
                    .iter()
                    .filter(|value| value.text().is_some_and(|text| text.len() > KEPT_BYTES_MAX))
                    .all(|value| is_document(&value))
    }
}

/// Whether a slot has the same value in all executions: literals of the text always, parameters if there are enough.
pub fn is_constant(slot: &SlotView<'_>, values: &SlotValues<'_>) -> bool {
    let is_enough = match slot.origin {
        Origin::Text | Origin::Number => true,
        Origin::Parameter => values.values.len() >= VALUES_MIN,
        Origin::Array => false,
    };
    is_enough && values.is_one() && !values.is_opaque()
}

/// Whether the program wrote a literal that all of `n` executions have: the statement has parameters, too, or no column has to do with it.
pub fn is_programs(usage: SlotUse, has_parameters: bool, n: usize) -> bool {
    has_parameters || matches!(usage, SlotUse::Other | SlotUse::Limit) && n >= VALUES_MIN
}

/// Whether a column equals one before it, in the same execution and, within a loop, in the same round.
pub fn is_link(view: &View<'_>, place: SlotPlace, earlier: SlotPlace) -> bool {
    let (own, of_earlier) = (view.steps[place.step].in_loop, view.steps[earlier.step].in_loop);
    if of_earlier.is_some() && of_earlier != own {
        return false;
    }
    let cells: Vec<ValueCell> = view.cells(place.step).collect();
    let most = ((1.0 - LINK_SHARE) * cells.len() as f64) as usize;
    let mut n_different = 0;
    let mut n_values = 0;
    for cell in cells {
        let (value, other) = (view.value(place, cell), view.value(earlier, cell));
        n_values += usize::from(value.is_some_and(|value| value.text().is_some()));
        if value != other {
            n_different += 1;
            if n_different > most {
                return false;
            }
        }
    }
    n_values > 0
}

/// The role of a slot that is neither constant, nor a link, nor returned.
pub fn role(view: &View<'_>, slot: &SlotView<'_>, values: &SlotValues<'_>) -> ValueRole {
    let usage = slot.usage();
    let is_unique_column = slot.facts.and_then(|facts| facts.column.as_ref()).map(|column| column.is_unique);
    if usage == SlotUse::Inserted && values.is_unique() && is_fresh(is_unique_column, values) {
        return ValueRole::Fresh;
    }
    if is_clock(view, slot.place, values) {
        return ValueRole::Clock;
    }
    if values.is_opaque() {
        return ValueRole::Opaque;
    }
    if usage == SlotUse::Range {
        return ValueRole::Range;
    }
    if usage == SlotUse::Equality {
        let is_gone = slot.role == StatementRole::Work(Kind::Delete);
        if is_gone && values.is_unique() && is_unique_column != Some(false) {
            return ValueRole::Consumed;
        }
        return ValueRole::Key { unseen: values.frequencies.unseen() };
    }
    ValueRole::Value
}

/// Without a server that knows, only UUIDs and what grows as a sequence does are taken for new keys.
fn is_fresh(is_unique_column: Option<bool>, values: &SlotValues<'_>) -> bool {
    let is_uuid = || values.values.iter().filter_map(|value| value.text()).all(is_uuid);
    match is_unique_column {
        Some(is_unique) => is_unique,
        None => values.grows() || is_uuid(),
    }
}

/// Whether a value is the time of its statement and a difference that varies little.
fn is_clock(view: &View<'_>, place: SlotPlace, values: &SlotValues<'_>) -> bool {
    if values.frequencies.n < VALUES_MIN || values.frequencies.distinct < 2 {
        return false;
    }
    let mut times = Vec::new();
    let mut differences = Vec::new();
    for cell in view.cells(place.step) {
        let Some(text) = view.value(place, cell).and_then(SlotValue::text) else { continue };
        let Some(time) = timestamp_us(text) else { return false };
        times.push(time);
        differences.push(time - view.began_us(place.step, cell));
    }
    // A timestamp without offset differs by a whole number of quarters of an hour, which is as constant.
    spread(&differences) < CLOCK_SHARE * spread(&times)
}

/// Rows selected by a value that is not whole cannot be the rows of the source.
pub fn selects_truncated(slot: &SlotView<'_>, values: &SlotValues<'_>) -> bool {
    values.has_truncated && matches!(slot.usage(), SlotUse::Equality | SlotUse::Range | SlotUse::Pattern)
}
