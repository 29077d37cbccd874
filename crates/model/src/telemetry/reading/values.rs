//! The values of a tick: a sorted list, because a study has millions of them, which are read once and looked up often. Equal
//! names that a thread reads share one text.

use std::cell::RefCell;
use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::ops::Index;
use std::sync::Arc;

use serde::de::{DeserializeSeed, Error, IgnoredAny, MapAccess, Visitor};
use serde::ser::SerializeMap;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::split_key;
use crate::telemetry::metric;

/// Names that a thread remembers; a machine with hundreds of processors has some thousands. Further names are not shared.
const NAMES_MAX: usize = 16_384;
/// No metric has a longer name.
const NAME_BYTES_MAX: usize = 256;

/// One value and its key.
pub type ReadingValue = (Arc<str>, f64);

/// Values by key, in the order of their keys.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Values {
    entries: Vec<ReadingValue>,
}

impl Values {
    /// Number of values.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// The value of a key.
    pub fn get(&self, key: &str) -> Option<f64> {
        place_in(&self.entries, key).ok().map(|place| self.entries[place].1)
    }

    /// The value of a key, to be changed.
    pub fn get_mut(&mut self, key: &str) -> Option<&mut f64> {
        let place = place_in(&self.entries, key).ok()?;
        Some(&mut self.entries[place].1)
    }

    /// Whether there is a value of this key.
    pub fn contains_key(&self, key: &str) -> bool {
        self.get(key).is_some()
    }

    /// Sets the value of a key.
    pub fn insert(&mut self, key: &str, value: f64) {
        *self.get_or_zero(key) = value;
    }

    /// Adds to the value of a key, which begins at 0.
    pub fn add(&mut self, key: &str, value: f64) {
        *self.get_or_zero(key) += value;
    }

    /// Takes out a value.
    pub fn remove(&mut self, key: &str) -> Option<f64> {
        let place = place_in(&self.entries, key).ok()?;
        Some(self.entries.remove(place).1)
    }

    /// Keeps the values for which `keeps` returns true.
    pub fn retain(&mut self, mut keeps: impl FnMut(&str, f64) -> bool) {
        self.entries.retain(|(key, value)| keeps(key, *value));
    }

    /// Takes out all values.
    pub fn clear(&mut self) {
        self.entries.clear();
    }

    /// The keys in order.
    pub fn keys(&self) -> impl Iterator<Item = &str> {
        self.iter().map(|(key, _)| key)
    }

    /// Keys and values in order.
    pub fn iter(&self) -> impl Iterator<Item = (&str, f64)> {
        self.entries.iter().map(|(key, value)| (&**key, *value))
    }

    /// Keys and values in order, the values to be changed.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = (&str, &mut f64)> {
        self.entries.iter_mut().map(|(key, value)| (&**key, value))
    }

    /// All entries in order.
    pub fn entries(&self) -> &[ReadingValue] {
        &self.entries
    }

    /// The entries whose keys begin with `prefix`, in order.
    pub fn starting_with(&self, prefix: &str) -> &[ReadingValue] {
        let first = self.entries.partition_point(|(key, _)| **key < *prefix);
        let from_it = &self.entries[first..];
        let n = from_it.iter().take_while(|(key, _)| key.starts_with(prefix)).count();
        &from_it[..n]
    }

    fn get_or_zero(&mut self, key: &str) -> &mut f64 {
        let place = place_in(&self.entries, key).unwrap_or_else(|place| {
            self.entries.insert(place, (shared(key), 0.0));
            place
        });
        &mut self.entries[place].1
    }

    /// Sorts what was read in any order; of equal keys the last counts.
    fn new(mut entries: Vec<ReadingValue>) -> Values {
        if !entries.is_sorted_by(|a, b| a.0 < b.0) {
            entries.reverse();
            entries.sort_by(|a, b| a.0.cmp(&b.0));
            entries.dedup_by(|later, kept| later.0 == kept.0);
        }
        Values { entries }
    }
}

fn place_in(entries: &[ReadingValue], key: &str) -> Result<usize, usize> {
    entries.binary_search_by(|(other, _)| (**other).cmp(key))
}

thread_local! {
    static NAMES: RefCell<Names> = RefCell::default();
}

/// The text of a name that the thread has met before, or a new one.
fn shared(name: &str) -> Arc<str> {
    NAMES.with_borrow_mut(|names| names.text(name))
}

/// The names that a thread has met.
#[derive(Default)]
struct Names {
    texts: Vec<Arc<str>>,
    places: HashMap<Arc<str>, usize>,
    /// The name that followed each one the last time: ticks of a source have the same names in the same order.
    next: Vec<usize>,
    last: usize,
}

impl Names {
    /// The text of a key, if it is one of a metric.
    fn of_metric(&mut self, name: &str) -> Option<Arc<str>> {
        let is_met = self.is_next(name) || self.places.contains_key(name);
        let is_known = is_met || name.len() <= NAME_BYTES_MAX && metric::find(split_key(name).0).is_some();
        is_known.then(|| self.text(name))
    }

    /// The place of the name that usually follows the last one.
    fn guess(&self) -> usize {
        self.next.get(self.last).copied().unwrap_or_default()
    }

    fn is_next(&self, name: &str) -> bool {
        self.texts.get(self.guess()).is_some_and(|text| **text == *name)
    }

    fn text(&mut self, name: &str) -> Arc<str> {
        let guess = self.guess();
        if self.is_next(name) {
            self.last = guess;
            return self.texts[guess].clone();
        }
        let place = match self.places.get(name) {
            Some(place) => *place,
            None if self.texts.len() < NAMES_MAX && name.len() <= NAME_BYTES_MAX => self.add(name.into()),
            None => return name.into(),
        };
        if let Some(next) = self.next.get_mut(self.last) {
            *next = place;
        }
        self.last = place;
        self.texts[place].clone()
    }

    fn add(&mut self, text: Arc<str>) -> usize {
        let place = self.texts.len();
        self.places.insert(text.clone(), place);
        self.texts.push(text);
        self.next.push(0);
        place
    }
}

impl Index<&str> for Values {
    type Output = f64;

    /// # Panics
    /// When there is no such key.
    fn index(&self, key: &str) -> &f64 {
        match place_in(&self.entries, key) {
            Ok(place) => &self.entries[place].1,
            Err(_) => panic!("no value of `{key}`"),
        }
    }
}

impl<K: AsRef<str>> FromIterator<(K, f64)> for Values {
    fn from_iter<I: IntoIterator<Item = (K, f64)>>(from: I) -> Values {
        Values::new(from.into_iter().map(|(key, value)| (shared(key.as_ref()), value)).collect())
    }
}

impl<K: AsRef<str>> Extend<(K, f64)> for Values {
    fn extend<I: IntoIterator<Item = (K, f64)>>(&mut self, more: I) {
        more.into_iter().for_each(|(key, value)| self.insert(key.as_ref(), value));
    }
}

impl<K: AsRef<str>, const N: usize> From<[(K, f64); N]> for Values {
    fn from(from: [(K, f64); N]) -> Values {
        from.into_iter().collect()
    }
}

impl From<BTreeMap<String, f64>> for Values {
    fn from(from: BTreeMap<String, f64>) -> Values {
        from.into_iter().collect()
    }
}

impl Serialize for Values {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let mut map = to.serialize_map(Some(self.len()))?;
        self.iter().try_for_each(|(key, value)| map.serialize_entry(key, &value))?;
        map.end()
    }
}

impl<'de> Deserialize<'de> for Values {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Values, D::Error> {
        struct Visit;
        impl<'de> Visitor<'de> for Visit {
            type Value = Values;

            fn expecting(&self, out: &mut fmt::Formatter) -> fmt::Result {
                out.write_str("values by key")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Values, A::Error> {
                let mut entries = Vec::with_capacity(128);
                while let Some(name) = map.next_key_seed(Name)? {
                    match name {
                        Some(name) => entries.push((name, map.next_value()?)),
                        None => drop(map.next_value::<IgnoredAny>()?),
                    }
                }
                // A file may have millions of ticks, each with few values.
                entries.shrink_to_fit();
                Ok(Values::new(entries))
            }
        }
        from.deserialize_map(Visit)
    }
}

/// Reads a key without a text of its own; `None` if it is not one of a metric, as of a newer pgdyno.
struct Name;

impl<'de> DeserializeSeed<'de> for Name {
    type Value = Option<Arc<str>>;

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<Option<Arc<str>>, D::Error> {
        from.deserialize_str(self)
    }
}

impl Visitor<'_> for Name {
    type Value = Option<Arc<str>>;

    fn expecting(&self, out: &mut fmt::Formatter) -> fmt::Result {
        out.write_str("a key")
    }

    fn visit_str<E: Error>(self, name: &str) -> Result<Option<Arc<str>>, E> {
        Ok(NAMES.with_borrow_mut(|names| names.of_metric(name)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Values {
        serde_json::from_str(text).unwrap()
    }

    #[test]
    fn what_was_written_in_any_order_is_sorted_and_the_last_of_equal_keys_counts() {
        let values =
            read(r#"{"net.sent_bytes": 1, "disk.reads": 2.5, "net.sent_bytes": 3, "disk.reads[x]": 4}"#);
        let expected = [("disk.reads", 2.5), ("disk.reads[x]", 4.0), ("net.sent_bytes", 3.0)];
        assert_eq!(values, Values::from(expected));
        let written = r#"{"disk.reads":2.5,"disk.reads[x]":4.0,"net.sent_bytes":3.0}"#;
        assert_eq!(serde_json::to_string(&values).unwrap(), written);
        assert_eq!(read(r#"{"\u0064isk.reads": 1}"#)["disk.reads"], 1.0);
        assert!(read("{}").is_empty());
        assert_eq!(
            [read("{}"), read(r#"{"disk.reads": 1}"#)].map(|values| values.entries.capacity()),
            [0, 1]
        );
        for wrong in [r#"{"disk.reads": "1"}"#, r#"{"disk.reads": null}"#, "[1]", r#"{"disk.reads": 1"#] {
            assert!(serde_json::from_str::<Values>(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn values_are_found_changed_and_taken_out_by_key() {
        let mut values = Values::from([("m[b]", 2.0), ("m", 1.0), ("m[a]", 3.0), ("n", 4.0)]);
        assert_eq!((values.get("m[a]"), values.get("m[c]"), values["n"]), (Some(3.0), None, 4.0));
        let prefixed: Vec<&str> = values.starting_with("m[").iter().map(|(key, _)| &**key).collect();
        assert_eq!(prefixed, ["m[a]", "m[b]"]);
        assert!(values.starting_with("z").is_empty());
        values.insert("a", 7.0);
        values.add("n", 0.5);
        values.add("o", 1.0);
        assert_eq!(values.remove("m"), Some(1.0));
        values.retain(|key, _| key != "m[b]");
        assert_eq!(values, Values::from([("a", 7.0), ("m[a]", 3.0), ("n", 4.5), ("o", 1.0)]));
    }

    #[test]
    fn what_is_no_metric_is_dropped_while_it_is_read() {
        let long = "x".repeat(NAME_BYTES_MAX);
        let text = format!(
            r#"{{"no.metric": 1, "disk.reads[a]": 2, "disk.reads[{long}]": 3, "other": {{"a": [1]}}}}"#
        );
        assert_eq!(read(&text), Values::from([("disk.reads[a]", 2.0)]));
    }

    #[test]
    fn equal_names_of_two_ticks_share_one_text() {
        let (one, other) = (read(r#"{"host.cpu.user[cpu0]": 1}"#), read(r#"{"host.cpu.user[cpu0]": 2}"#));
        assert!(Arc::ptr_eq(&one.entries()[0].0, &other.entries()[0].0));
    }

    #[test]
    fn names_are_those_that_were_read_whatever_followed_them_before() {
        let mut names = Names::default();
        let long = "x".repeat(NAME_BYTES_MAX + 1);
        for name in ["a", "b", "a", "c", "a", "b", "b", "", long.as_str(), "a", "b", long.as_str(), "c"] {
            assert_eq!(*names.text(name), *name);
        }
        assert_eq!(names.texts.len(), 4, "a long one is not kept");
    }
}
