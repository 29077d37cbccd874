//! Values of keys that a case carries as the experiment chose them, by the names that the keys have in their sections, or by whole names.
//!
//! A key whose row says so is one of a case, of its plan on the terminal and of the differences between two cases, and
//! the code that uses it asks for it by its name.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;

use crate::experiment::Experiment;
use crate::experiment::keys;
use crate::experiment::keys::key::Key;
use crate::experiment::keys::row::{Differs, KeyRow};
use crate::experiment::keys::value::KeyValue;

/// The values that are not those of an experiment that says nothing, by name in cases.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Carried(BTreeMap<&'static str, Value>);

/// An experiment that says nothing.
static SILENT: LazyLock<Experiment> = LazyLock::new(Experiment::default);

/// Sections whose keys cases carry by their whole names: `kind`, `mode` and `size` alone would not say of what.
const BY_WHOLE_NAME: [&str; 3] = ["topology", "pooler", "archive"];

/// The rows whose values cases carry, each with its name in a case and what it changes for comparisons.
pub fn rows() -> impl Iterator<Item = (&'static KeyRow, &'static str, Differs)> {
    keys::all().filter_map(|row| Some((row, name_in_cases(row.name)?, row.carried?)))
}

/// The name of a key in a case: that in its section, or the whole one.
fn name_in_cases(key: &'static str) -> Option<&'static str> {
    let (section, name) = key.split_once('.')?;
    let name = if BY_WHOLE_NAME.contains(&section) { key } else { name };
    Some(name.strip_suffix(&*format!(".{}", keys::row::NAME)).unwrap_or(name))
}

impl Carried {
    /// What a combination has, given the number of the level that it has of a key that varies or could.
    pub fn from_experiment(experiment: &Experiment, level: &dyn Fn(&str) -> Option<usize>) -> Carried {
        let value = |(row, name, _): (&KeyRow, &'static str, Differs)| {
            let value = (row.chosen)(experiment, level);
            (value != (row.chosen)(&SILENT, &|_| None)).then_some((name, value))
        };
        Carried(rows().filter_map(value).collect())
    }

    /// The value of a key that cases carry.
    pub(super) fn get<T: KeyValue>(&self, key: Key<T>) -> T::Chosen {
        let known = name(key).and_then(|name| self.0.get(name));
        let read = known.and_then(|value| T::Chosen::deserialize(value).ok());
        read.unwrap_or_else(|| key.chosen(&SILENT, |_| None))
    }

    /// Gives a key that cases carry a value.
    pub(super) fn set<T: KeyValue>(&mut self, key: Key<T>, value: &T::Chosen) {
        let Some(name) = name(key) else { return };
        let silent = key.chosen(&SILENT, |_| None);
        let values = [value, &silent].map(|value| serde_json::to_value(value).unwrap_or_default());
        let [value, silent] = values;
        if value == silent {
            self.0.remove(name);
        } else {
            self.0.insert(name, value);
        }
    }

    /// Whether all values whose names in cases begin so are the same in both.
    pub fn are_same(&self, other: &Carried, begin: &str) -> bool {
        let of = |carried: &Carried| -> Vec<(&'static str, Value)> {
            let all = carried.0.iter().filter(|(name, _)| name.starts_with(begin));
            all.map(|(name, value)| (*name, value.clone())).collect()
        };
        of(self) == of(other)
    }

    /// The value of a row as text, if it is not the default.
    pub fn text(&self, row: &KeyRow) -> Option<String> {
        let name = name_in_cases(row.name)?;
        self.0.get(name).map(|value| value.as_str().map_or_else(|| value.to_string(), str::to_string))
    }
}

/// The name of a key in its section.
fn name<T: KeyValue>(key: Key<T>) -> Option<&'static str> {
    assert!(key.is_carried, "the row of {key} does not say that cases carry it");
    name_in_cases(key.name)
}

impl Serialize for Carried {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Carried {
    /// Leaves out names that no row has: a case is part of a table that has others, and a newer pgdyno writes more.
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Carried, D::Error> {
        let mut given = BTreeMap::<String, Value>::deserialize(deserializer)?;
        let mut carried = BTreeMap::new();
        for (row, name, _) in rows() {
            if let Some(value) = given.remove(name) {
                (row.reads)(&value).map_err(|error| D::Error::custom(format!("{name}: {error}")))?;
                carried.insert(name, value);
            }
        }
        Ok(Carried(carried))
    }
}

#[cfg(test)]
mod tests {
    use crate::experiment::case::{Case, ServerSource, ServerSpec, WorkloadKind, WorkloadSpec};
    use crate::experiment::keys::run::{COUNTERS, MAX_FAILED, PERF};
    use crate::load::Window;

    #[test]
    fn a_case_carries_what_is_not_the_default() {
        let server = ServerSpec::new(ServerSource::BinDir("/x".into()));
        let window = Window { ramp_up_s: 0, measure_s: 2, grace_s: 0 };
        let mut case = Case::new(server, WorkloadSpec::new(WorkloadKind::default(), 1), window);
        assert_eq!((case.get(PERF), case.get(COUNTERS), case.get(MAX_FAILED)), (false, false, None));
        let plain = serde_json::to_string(&case).unwrap();
        assert!(!plain.contains("perf") && !plain.contains("carried"), "{plain}");

        case.set(PERF, true);
        case.set(MAX_FAILED, "5%".parse().ok());
        let written = serde_json::to_string(&case).unwrap();
        assert!(written.contains(r#""max_failed":"5%","perf":true"#), "{written}");
        let again: Case = serde_json::from_str(&written).unwrap();
        assert_eq!(again, case);
        assert_eq!((again.get(PERF), again.get(COUNTERS)), (true, false));
        assert_eq!(again.get(MAX_FAILED), "5%".parse().ok());

        case.set(PERF, false);
        case.set(MAX_FAILED, None);
        assert_eq!(serde_json::to_string(&case).unwrap(), plain);
    }

    #[test]
    fn a_value_that_is_none_is_refused_and_a_name_of_a_newer_case_is_not() {
        let server = ServerSpec::new(ServerSource::BinDir("/x".into()));
        let window = Window { ramp_up_s: 0, measure_s: 2, grace_s: 0 };
        let case = Case::new(server, WorkloadSpec::new(WorkloadKind::default(), 1), window);
        let with = |more: &str| {
            let text = serde_json::to_string(&case).unwrap();
            serde_json::from_str::<Case>(&text.replacen('{', &format!("{{{more},"), 1))
        };
        assert_eq!(with(r#""of_a_newer": [1]"#).unwrap(), case);
        let refused = with(r#""perf": 3"#).unwrap_err().to_string();
        assert!(refused.contains("perf: invalid type"), "{refused}");
    }
}
