//! Reading values of TOML with their places. What has the wrong type is a problem and counts as absent, so that reading goes on.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::time::Duration;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use crate::directory::MANIFEST;
use crate::manifest::OptionValue;
use crate::problem::{Problem, meant, nearest};
use crate::value::NAME_CHARS_MAX;

/// Most problems that are collected; what follows is seldom another one.
const PROBLEMS_MAX: usize = 100;
/// Most names in a table, or tables of a kind; more than a table of PostgreSQL has columns.
const ITEMS_MAX: usize = 2000;
/// Longest time that a duration may say, seconds: a week.
const DURATION_S_MAX: f64 = 7.0 * 86_400.0;

/// A value and where it stands in `workload.toml`.
#[derive(Clone, Debug)]
pub(crate) struct PlacedValue<T> {
    pub(crate) value: T,
    pub(crate) at: Range<usize>,
}

/// The file, and the problems found so far.
pub(crate) struct ManifestReader<'a> {
    pub(crate) text: &'a str,
    pub(crate) problems: Vec<Problem>,
}

impl<'a> ManifestReader<'a> {
    pub(crate) fn new(text: &'a str) -> ManifestReader<'a> {
        ManifestReader { text, problems: Vec::new() }
    }

    pub(crate) fn problem(&mut self, at: Range<usize>, message: impl Into<String>) {
        if !self.is_full() {
            self.push(Problem::at(MANIFEST, self.text, at, message));
        }
    }

    pub(crate) fn warning(&mut self, at: Range<usize>, message: impl Into<String>) {
        if !self.is_full() {
            self.push(Problem::at(MANIFEST, self.text, at, message).into_warning());
        }
    }

    pub(crate) fn push(&mut self, problem: Problem) {
        if !self.is_full() {
            self.problems.push(problem);
        }
    }

    /// Whether there are so many problems that no more are looked for.
    pub(crate) fn is_full(&self) -> bool {
        self.problems.len() >= PROBLEMS_MAX
    }

    /// Names that are given twice.
    pub(crate) fn doubles<'b>(&mut self, noun: &str, names: impl Iterator<Item = (&'b str, Range<usize>)>) {
        let mut seen = BTreeSet::new();
        for (name, at) in names {
            if !name.is_empty() && !seen.insert(name) {
                self.problem(at, format!("another {noun} is called `{name}`, too"));
            }
        }
    }
}

/// A table of the file. Keys that nothing asked for are unknown.
pub(crate) struct Section<'a, 'i> {
    /// How messages call it.
    noun: String,
    pub(crate) at: Range<usize>,
    table: &'a DeTable<'i>,
    known: BTreeSet<&'static str>,
    /// Keys that have to be there and are not, and what to say of them.
    missing: Vec<(&'static str, Range<usize>, String)>,
    /// Whether its keys are names.
    has_any_key: bool,
}

impl<'a, 'i> Section<'a, 'i> {
    pub(crate) fn new(noun: &str, at: Range<usize>, table: &'a DeTable<'i>) -> Section<'a, 'i> {
        Section {
            noun: noun.to_string(),
            at,
            table,
            known: BTreeSet::new(),
            missing: Vec::new(),
            has_any_key: false,
        }
    }

    pub(crate) fn has(&self, key: &str) -> bool {
        self.table.contains_key(key)
    }

    /// Whether a key's value is a table.
    pub(crate) fn is_table(&self, key: &str) -> bool {
        self.table.get(key).is_some_and(|value| value.get_ref().as_table().is_some())
    }

    /// Whether a key's value is a text.
    pub(crate) fn is_text(&self, key: &str) -> bool {
        self.table.get(key).is_some_and(|value| value.get_ref().as_str().is_some())
    }

    pub(crate) fn get(&mut self, key: &'static str) -> Option<&'a Spanned<DeValue<'i>>> {
        self.known.insert(key);
        self.table.get(key)
    }

    /// The value of a key as `take` reads it, or the problem that it is no `expected`.
    fn take<T>(
        &mut self,
        reader: &mut ManifestReader<'_>,
        key: &'static str,
        expected: &str,
        take: impl FnOnce(&DeValue<'i>) -> Option<T>,
    ) -> Option<PlacedValue<T>> {
        let value = self.get(key)?;
        let at = value.span();
        match take(value.get_ref()) {
            Some(value) => Some(PlacedValue { value, at }),
            None => {
                reader.problem(at, format!("`{key}` is {}; expected {expected}", kind(value.get_ref())));
                None
            }
        }
    }

    pub(crate) fn text(
        &mut self,
        reader: &mut ManifestReader<'_>,
        key: &'static str,
    ) -> Option<PlacedValue<String>> {
        self.take(reader, key, "a text", |value| value.as_str().map(str::to_string))
    }

    /// A text for people on one line.
    pub(crate) fn line(&mut self, reader: &mut ManifestReader<'_>, key: &'static str) -> Option<String> {
        let text = self.text(reader, key)?.value;
        Some(
            text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect::<String>().trim().to_string(),
        )
    }

    /// A text that must be there.
    pub(crate) fn required(
        &mut self,
        reader: &mut ManifestReader<'_>,
        key: &'static str,
    ) -> PlacedValue<String> {
        let is_there = self.has(key);
        let found = self.text(reader, key);
        let at = self.at.clone();
        match &found {
            None if !is_there => {
                let message = format!("`{key}` of {} is missing", self.noun);
                self.lacks(key, at.clone(), message);
            }
            Some(text) if text.value.trim().is_empty() => {
                reader.problem(text.at.clone(), format!("`{key}` is empty"));
            }
            _ => {}
        }
        found.unwrap_or(PlacedValue { value: String::new(), at })
    }

    /// Notes that a key is missing, which is said unless it is only misspelt.
    pub(crate) fn lacks(&mut self, key: &'static str, at: Range<usize>, message: impl Into<String>) {
        self.missing.push((key, at, message.into()));
    }

    /// The `name`, which is that of a file, too.
    pub(crate) fn name(&mut self, reader: &mut ManifestReader<'_>) -> PlacedValue<String> {
        let name = self.required(reader, "name");
        if !name.value.trim().is_empty() && !is_name(&name.value) {
            reader.problem(name.at.clone(), "a name has letters, digits, `-` and `_`, at most 63");
        }
        name
    }

    pub(crate) fn int(
        &mut self,
        reader: &mut ManifestReader<'_>,
        key: &'static str,
    ) -> Option<PlacedValue<i64>> {
        self.take(reader, key, "a whole number", int_of)
    }

    /// A whole number within bounds.
    pub(crate) fn count(
        &mut self,
        reader: &mut ManifestReader<'_>,
        key: &'static str,
        bounds: std::ops::RangeInclusive<i64>,
    ) -> Option<u32> {
        let found = self.int(reader, key)?;
        let within = bounds.contains(&found.value).then(|| u32::try_from(found.value).ok()).flatten();
        if within.is_none() {
            let message = format!("`{key}` is {} to {}", bounds.start(), bounds.end());
            reader.problem(found.at, message);
        }
        within
    }

    pub(crate) fn number(
        &mut self,
        reader: &mut ManifestReader<'_>,
        key: &'static str,
    ) -> Option<PlacedValue<f64>> {
        self.take(reader, key, "a number", number_of)
    }

    pub(crate) fn flag(&mut self, reader: &mut ManifestReader<'_>, key: &'static str) -> bool {
        self.take(reader, key, "true or false", DeValue::as_bool).is_some_and(|flag| flag.value)
    }

    /// One of several words.
    pub(crate) fn word(
        &mut self,
        reader: &mut ManifestReader<'_>,
        key: &'static str,
        known: &[&'static str],
    ) -> Option<String> {
        let text = self.text(reader, key)?;
        if known.contains(&text.value.as_str()) {
            return Some(text.value);
        }
        reader.problem(text.at, format!("`{key}` is one of {}", known.join(", ")));
        None
    }

    /// A time, as `\"100ms\"`.
    pub(crate) fn duration(
        &mut self,
        reader: &mut ManifestReader<'_>,
        key: &'static str,
    ) -> Option<Duration> {
        let text = self.text(reader, key)?;
        let duration = duration_of(&text.value);
        if duration.is_none() {
            reader.problem(text.at, format!("`{key}` is a time, such as \"100ms\", \"5s\" or \"30min\""));
        }
        duration
    }

    /// A list of texts, or one text with commas.
    pub(crate) fn texts(
        &mut self,
        reader: &mut ManifestReader<'_>,
        key: &'static str,
    ) -> Vec<PlacedValue<String>> {
        let Some(found) = self.get(key) else { return Vec::new() };
        if let Some(text) = found.get_ref().as_str() {
            let parts = text.split(',').map(str::trim).filter(|part| !part.is_empty());
            return parts.map(|part| PlacedValue { value: part.to_string(), at: found.span() }).collect();
        }
        self.list(reader, key, "a list of texts", |value| value.as_str().map(str::to_string))
    }

    pub(crate) fn numbers(
        &mut self,
        reader: &mut ManifestReader<'_>,
        key: &'static str,
    ) -> Vec<PlacedValue<f64>> {
        self.list(reader, key, "a list of numbers", number_of)
    }

    fn list<T>(
        &mut self,
        reader: &mut ManifestReader<'_>,
        key: &'static str,
        expected: &str,
        take: impl Fn(&DeValue<'i>) -> Option<T>,
    ) -> Vec<PlacedValue<T>> {
        let Some(found) = self.get(key) else { return Vec::new() };
        let Some(array) = found.get_ref().as_array() else {
            reader
                .problem(found.span(), format!("`{key}` is {}; expected {expected}", kind(found.get_ref())));
            return Vec::new();
        };
        let mut values = Vec::new();
        for item in array.iter() {
            match take(item.get_ref()) {
                Some(value) => values.push(PlacedValue { value, at: item.span() }),
                None => reader.problem(item.span(), format!("`{key}` is {expected}")),
            }
        }
        values
    }

    /// A value of an option.
    pub(crate) fn option_value(
        &mut self,
        reader: &mut ManifestReader<'_>,
        key: &'static str,
    ) -> Option<PlacedValue<OptionValue>> {
        self.take(reader, key, "a number, a text, true or false", |value| {
            let number = || number_of(value).map(OptionValue::Float);
            let text = || value.as_str().map(|text| OptionValue::Text(text.to_string()));
            let flag = || value.as_bool().map(OptionValue::Bool);
            int_of(value).map(OptionValue::Int).or_else(number).or_else(text).or_else(flag)
        })
    }

    /// A table in this one.
    pub(crate) fn section(
        &mut self,
        reader: &mut ManifestReader<'_>,
        key: &'static str,
    ) -> Option<Section<'a, 'i>> {
        let value = self.get(key)?;
        match value.get_ref().as_table() {
            Some(table) => Some(Section::new(&format!("`{key}`"), value.span(), table)),
            None => {
                let message = format!("`{key}` is {}; expected a table", kind(value.get_ref()));
                reader.problem(value.span(), message);
                None
            }
        }
    }

    /// The tables of `[[key]]`.
    pub(crate) fn array(
        &mut self,
        reader: &mut ManifestReader<'_>,
        key: &'static str,
    ) -> Vec<Section<'a, 'i>> {
        let Some(value) = self.get(key) else { return Vec::new() };
        let items: Vec<&'a Spanned<DeValue<'i>>> = match value.get_ref() {
            DeValue::Array(array) => array.iter().collect(),
            _ => vec![value],
        };
        let is_array = matches!(value.get_ref(), DeValue::Array(_));
        if items.len() > ITEMS_MAX {
            reader.problem(items[ITEMS_MAX].span(), format!("there are more than {ITEMS_MAX} of [[{key}]]"));
            return Vec::new();
        }
        let mut found = Vec::new();
        for item in items {
            match item.get_ref().as_table() {
                Some(table) if is_array => {
                    found.push(Section::new(&format!("[[{key}]]"), item.span(), table));
                }
                _ => reader.problem(item.span(), format!("`{key}` is written as [[{key}]], once for each")),
            }
        }
        found
    }

    /// Keys that are names, with their values, in the order of the file.
    pub(crate) fn entries(
        &mut self,
        reader: &mut ManifestReader<'_>,
    ) -> Vec<(PlacedValue<String>, &'a Spanned<DeValue<'i>>)> {
        self.has_any_key = true;
        let entry = |(key, value): (&Spanned<_>, &'a Spanned<DeValue<'i>>)| {
            let name: &std::borrow::Cow<'_, str> = key.get_ref();
            (PlacedValue { value: name.to_string(), at: key.span() }, value)
        };
        let mut entries: Vec<_> = self.table.iter().map(entry).collect();
        entries.sort_by_key(|(name, _)| name.at.start);
        if entries.len() > ITEMS_MAX {
            let message = format!("{} has more than {ITEMS_MAX} names", self.noun);
            reader.problem(entries[ITEMS_MAX].0.at.clone(), message);
            entries.truncate(ITEMS_MAX);
        }
        entries
    }

    /// Keys that are names of tables in this one.
    pub(crate) fn sections(
        &mut self,
        reader: &mut ManifestReader<'_>,
        noun: &str,
    ) -> Vec<(PlacedValue<String>, Section<'a, 'i>)> {
        let mut found = Vec::new();
        for (name, value) in self.entries(reader) {
            match value.get_ref().as_table() {
                Some(table) => {
                    let section = Section::new(&format!("`{}`", name.value), name.at.clone(), table);
                    found.push((name, section));
                }
                None => {
                    let message = format!(
                        "`{}` in `{noun}` is {}; expected a table",
                        name.value,
                        kind(value.get_ref())
                    );
                    reader.problem(value.span(), message);
                }
            }
        }
        found
    }

    /// Reports the keys that nothing asked for.
    pub(crate) fn finish(self, reader: &mut ManifestReader<'_>) {
        if self.has_any_key {
            return;
        }
        let unknown: BTreeMap<usize, _> = self
            .table
            .keys()
            .filter(|key| !self.known.contains(&**key.get_ref()))
            .map(|key| (key.span().start, key))
            .collect();
        let is_misspelt =
            |wanted: &str| unknown.values().any(|key| nearest(key.get_ref(), [wanted]).is_some());
        for (_, at, message) in self.missing.iter().filter(|(key, ..)| !is_misspelt(key)) {
            reader.problem(at.clone(), message.clone());
        }
        for key in unknown.values() {
            if reader.is_full() {
                return;
            }
            let name: &str = key.get_ref();
            let hint = meant(name, self.known.iter().copied());
            reader.problem(key.span(), format!("{} has no key `{name}`{hint}", self.noun));
        }
    }
}

/// A value's type in words.
pub(crate) fn kind(value: &DeValue<'_>) -> &'static str {
    match value {
        DeValue::String(_) => "a text",
        DeValue::Integer(_) => "a whole number",
        DeValue::Float(_) => "a number",
        DeValue::Boolean(_) => "true or false",
        DeValue::Datetime(_) => "a date",
        DeValue::Array(_) => "a list",
        DeValue::Table(_) => "a table",
    }
}

pub(crate) fn int_of(value: &DeValue<'_>) -> Option<i64> {
    let int = value.as_integer()?;
    i64::from_str_radix(int.as_str(), int.radix()).ok()
}

pub(crate) fn number_of(value: &DeValue<'_>) -> Option<f64> {
    let number = match value {
        DeValue::Float(float) => float.as_str().parse().ok()?,
        _ => int_of(value)? as f64,
    };
    number.is_finite().then_some(number)
}

/// `100ms`, `1.5 s`, `30min`, `2h`.
fn duration_of(text: &str) -> Option<Duration> {
    let digits = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let number: f64 = text[..digits].parse().ok()?;
    let unit_s = match text[digits..].trim() {
        "us" => 1e-6,
        "ms" => 1e-3,
        "s" => 1.0,
        "min" => 60.0,
        "h" => 3600.0,
        _ => return None,
    };
    let seconds = number * unit_s;
    (seconds <= DURATION_S_MAX).then(|| Duration::from_secs_f64(seconds))
}

/// A name that a file can have: of transactions, checks, variants, classes of clients.
pub(crate) fn is_name(name: &str) -> bool {
    let is_part = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    !name.is_empty() && name.len() <= NAME_CHARS_MAX && name.chars().all(is_part)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::value::is_identifier;

    #[test]
    fn times_have_units() {
        let check = |text: &str, expected: Option<u64>| {
            assert_eq!(duration_of(text).map(|time| time.as_micros() as u64), expected, "{text}");
        };
        check("100ms", Some(100_000));
        check("1.5 s", Some(1_500_000));
        check("30min", Some(1_800_000_000));
        check("0us", Some(0));
        for bad in ["", "5", "ms", "-1s", "1e9s", "900h", "1.2.3s", "5 days"] {
            check(bad, None);
        }
    }

    #[test]
    fn names_are_plain() {
        for name in ["a", "read-write", "q1", "_x"] {
            assert!(is_name(name), "{name}");
        }
        for name in ["", "a b", "../x", "ä", &"x".repeat(64)] {
            assert!(!is_name(name), "{name}");
        }
        assert!(is_identifier("c_custkey") && !is_identifier("1a") && !is_identifier("a-b"));
    }
}
