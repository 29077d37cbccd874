//! What a stored number, text or list may be at most: results come from other people too. What reads results checks this once, so that
//! whatever computes, draws or writes with them may rely on it.
//!
//! Units are in names, so a key says what its number may be: [`BOUNDS`] is the only list. Bounds are far beyond any measurement; they
//! keep sums, differences and products of stored numbers within their types.

use std::cell::Cell;
use std::fmt;

use serde::Deserializer;
use serde::de::{DeserializeSeed, Error, MapAccess, SeqAccess, Visitor};

/// What the number of a key may be.
#[derive(Debug, Clone, Copy)]
pub struct NumberBound {
    /// The key, or how it ends if it begins with `_`.
    pub key: &'static str,
    /// The smallest number.
    pub min: f64,
    /// The largest one.
    pub max: f64,
}

/// A century in seconds: no time is longer.
const TIME_S_MAX: f64 = 3.2e9;

/// The numbers that other bounds than [`NUMBER_MAX`] hold for; the first row that fits counts.
pub const BOUNDS: &[NumberBound] = &[
    // Any 64 bits.
    row("seed", 0.0, u64::MAX as f64),
    row("nonce", 0.0, u64::MAX as f64),
    // To the year 2262.
    row("_unix_ns", 0.0, UNIX_NS_MAX as f64),
    // Differences of clocks may be negative.
    row("_ns", -1e9 * TIME_S_MAX, 1e9 * TIME_S_MAX),
    row("_us", -1e6 * TIME_S_MAX, 1e6 * TIME_S_MAX),
    row("_ms", -1e3 * TIME_S_MAX, 1e3 * TIME_S_MAX),
    row("measure_s", 0.0, SECONDS_MAX as f64),
    row("ramp_up_s", 0.0, SECONDS_MAX as f64),
    row("grace_s", 0.0, SECONDS_MAX as f64),
    row("_s", -TIME_S_MAX, TIME_S_MAX),
    // 64 PiB; limits that are none are written as the largest number of their type.
    row("_bytes", 0.0, u64::MAX as f64),
    // Numbers of runs, cases and blocks.
    row("run", 0.0, NUMBERED_MAX as f64),
    row("case", 0.0, NUMBERED_MAX as f64),
    row("block", 0.0, NUMBERED_MAX as f64),
    row("id", 0.0, NUMBERED_MAX as f64),
    row("of", 0.0, NUMBERED_MAX as f64),
    row("t", 0.0, SECONDS_MAX as f64),
    // What others measured, in any unit.
    row("points", -1e25, 1e25),
    // Sums of squares of nanoseconds, and what no rule computes with.
    row("sum", 0.0, 1e25),
    row("sum_squares", 0.0, 1e40),
];

const fn row(key: &'static str, min: f64, max: f64) -> NumberBound {
    NumberBound { key, min, max }
}

/// Latest moment, to which any length can be added, nanoseconds since the Unix epoch: in the year 2262.
pub const UNIX_NS_MAX: u64 = i64::MAX as u64;
/// Longest load, in seconds: ten years.
pub const SECONDS_MAX: u32 = 320_000_000;
/// Largest number of a run, a case or a block; a plan has at most a million runs.
pub const NUMBERED_MAX: u32 = 100_000_000;
/// The largest number of any other key, either way; a whole number keeps it when it is added to a thousand others.
pub const NUMBER_MAX: f64 = 1e15;
/// Longest text of a key that names something: that of a path.
pub const NAME_BYTES_MAX: usize = 5_000;
/// The keys whose texts are names: they become columns, labels and addresses.
pub const NAMES: [&str; 6] = ["name", "tag", "hostname", "version", "tool_version", "unit"];
/// The maps whose keys are names of others, such as tables, and say nothing of the numbers.
pub const MAPS: [&str; 10] = [
    "rows_before",
    "rows_after",
    "touched",
    "relations",
    "errors",
    "facts",
    "values",
    "labels",
    // Files and options of a workload directory.
    "texts",
    "options",
];
/// Longest other text: that of a script.
pub const TEXT_BYTES_MAX: usize = 64 << 20;
/// Longest key.
pub const KEY_BYTES_MAX: usize = 10_000;
/// Most parts of one record, and of the lines of one file: a plan of a million runs has five million.
pub const PARTS_MAX: u64 = 10_000_000;
/// Most values of one list or map.
pub const LIST_MAX: usize = 1_000_000;

/// The bound of a key.
fn bound_of(key: &str) -> (f64, f64) {
    let fits =
        |bound: &&NumberBound| bound.key == key || bound.key.starts_with('_') && key.ends_with(bound.key);
    BOUNDS.iter().find(fits).map_or((-NUMBER_MAX, NUMBER_MAX), |bound| (bound.min, bound.max))
}

/// What one file, or all lines of it, may still contain.
#[derive(Debug)]
pub struct ReadBudget {
    parts: Cell<u64>,
}

impl Default for ReadBudget {
    fn default() -> ReadBudget {
        ReadBudget { parts: Cell::new(PARTS_MAX) }
    }
}

impl ReadBudget {
    /// Checks a record or a line of JSON: its numbers, texts and lists, and how many parts it has.
    ///
    /// # Errors
    /// Names the first part that is out of its bounds, and says what they are. JSON that is none is not judged here.
    pub fn check(&self, json: &[u8]) -> Result<(), String> {
        let mut from = serde_json::Deserializer::from_slice(json);
        match (Part { budget: self, key: "" }).deserialize(&mut from) {
            Err(error) if error.is_data() => Err(error.to_string()),
            _ => Ok(()),
        }
    }

    fn take_one(&self) -> Result<(), String> {
        match self.parts.get().checked_sub(1) {
            Some(left) => {
                self.parts.set(left);
                Ok(())
            }
            None => Err(format!("it has more than {PARTS_MAX} parts")),
        }
    }
}

/// A part of JSON under a key, which the parts of a list share.
#[derive(Clone, Copy)]
struct Part<'a> {
    budget: &'a ReadBudget,
    key: &'a str,
}

impl Part<'_> {
    fn check_number(self, number: f64) -> Result<(), String> {
        self.budget.take_one()?;
        let (min, max) = bound_of(self.key);
        if (min..=max).contains(&number) {
            Ok(())
        } else {
            Err(format!("`{}` of {number:e} is not within {min:e} and {max:e}", short(self.key)))
        }
    }

    fn check_length(self, what: &str, n: usize, max: usize) -> Result<(), String> {
        match n {
            n if n > max => Err(format!("{what} of `{}` has more than {max}", short(self.key))),
            _ => Ok(()),
        }
    }
}

/// A key as an error shows it.
fn short(key: &str) -> String {
    key.chars().take(60).collect()
}

impl<'de> DeserializeSeed<'de> for Part<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<(), D::Error> {
        from.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Part<'_> {
    type Value = ();

    fn expecting(&self, out: &mut fmt::Formatter) -> fmt::Result {
        out.write_str("JSON")
    }

    fn visit_bool<E: Error>(self, _: bool) -> Result<(), E> {
        self.budget.take_one().map_err(E::custom)
    }

    fn visit_unit<E: Error>(self) -> Result<(), E> {
        self.budget.take_one().map_err(E::custom)
    }

    fn visit_u64<E: Error>(self, number: u64) -> Result<(), E> {
        self.check_number(number as f64).map_err(E::custom)
    }

    fn visit_i64<E: Error>(self, number: i64) -> Result<(), E> {
        self.check_number(number as f64).map_err(E::custom)
    }

    fn visit_f64<E: Error>(self, number: f64) -> Result<(), E> {
        self.check_number(number).map_err(E::custom)
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<(), E> {
        self.budget.take_one().map_err(E::custom)?;
        let max = if NAMES.contains(&self.key) { NAME_BYTES_MAX } else { TEXT_BYTES_MAX };
        self.check_length("the text", text.len(), max).map_err(E::custom)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<(), A::Error> {
        self.budget.take_one().map_err(A::Error::custom)?;
        let mut n = 0;
        while list.next_element_seed(self)?.is_some() {
            n += 1;
            self.check_length("the list", n, LIST_MAX).map_err(A::Error::custom)?;
        }
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        self.budget.take_one().map_err(A::Error::custom)?;
        let mut n = 0;
        while let Some(key) = map.next_key::<std::borrow::Cow<str>>()? {
            n += 1;
            self.check_length("the map", n, LIST_MAX).map_err(A::Error::custom)?;
            if key.len() > KEY_BYTES_MAX {
                return Err(A::Error::custom(format!(
                    "the key `{}…` has more than {KEY_BYTES_MAX} bytes",
                    short(&key)
                )));
            }
            let key = if MAPS.contains(&self.key) { self.key } else { &key };
            map.next_value_seed(Part { key, ..self })?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_beyond_its_bounds_is_named() {
        let check = |json: &str, expected: Option<&str>| {
            let said = ReadBudget::default().check(json.as_bytes()).err();
            assert_eq!(said.is_some(), expected.is_some(), "{json:.80}: {said:?}");
            assert!(said.as_deref().unwrap_or_default().contains(expected.unwrap_or_default()), "{said:?}");
        };
        check(
            r#"{"seed": 18446744073709551615, "go_unix_ns": 9223372036854775807, "x": null, "y": [true]}"#,
            None,
        );
        check(r#"{"window": {"measure_s": 4294967295}}"#, Some("`measure_s` of 4.294967295e9 is not within"));
        check(r#"{"x": [1, [2, -1e16]]}"#, Some("`x` of -1e16 is not within -1e15 and 1e15"));
        check(r#"{"clock_set_ns": -5, "measure_s": 3}"#, None);
        check(r#"{"rows_before": {"t": 5000000000, "run": 1e12, "stock_t": 1e10}}"#, None);
        check(r#"{"rows_before": {"stock": 1e16}}"#, Some("`rows_before` of 1e16"));
        check(r#"{"measure_s": -3}"#, Some("`measure_s` of -3e0"));
        check(
            &format!(r#"{{"name": "{}"}}"#, "x".repeat(5_001)),
            Some("the text of `name` has more than 5000"),
        );
        check(&format!(r#"{{"text": "{}"}}"#, "x".repeat(5_001)), None);
        check(&format!(r#"{{"{}": 1}}"#, "x".repeat(10_001)), Some("the key `xxx"));
        check(&format!("[{}1]", "1,".repeat(1_000_000)), Some("the list of `` has more than 1000000"));
        // What is no JSON is refused by whoever reads it.
        check("{", None);
    }

    #[test]
    fn the_lines_of_a_file_share_a_budget() {
        let budget = ReadBudget { parts: Cell::new(5) };
        budget.check(b"[1, 2]").unwrap();
        let said = budget.check(b"[1, 2]").unwrap_err();
        assert!(said.contains("parts"), "{said}");
    }
}
