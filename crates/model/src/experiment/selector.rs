//! Selects cases by their levels: `{version = "9.6", clients = [256, 512]}`.

use std::collections::BTreeMap;

use serde::{Deserialize, Deserializer, Serialize};

use crate::experiment::keys;
use crate::experiment::keys::levels::Levels;
use crate::text::units::SettingValue;

/// Keys of factors, complete (`workload.clients`) or by their last part (`clients`), each with one or several levels. A
/// case is selected if it has one of the levels for every key.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
#[serde(transparent)]
pub struct Selector {
    /// The keys as written, with their levels.
    pub levels: BTreeMap<String, Levels<SettingValue>>,
}

/// TOML reads `workload.clients = 1` as a table in a table.
#[derive(Deserialize)]
#[serde(untagged)]
enum Node {
    Levels(Levels<SettingValue>),
    Below(BTreeMap<String, Node>),
}

impl<'de> Deserialize<'de> for Selector {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Selector, D::Error> {
        let mut levels = BTreeMap::new();
        flatten(String::new(), Node::Below(BTreeMap::deserialize(deserializer)?), &mut levels);
        Ok(Selector { levels })
    }
}

fn flatten(key: String, node: Node, into: &mut BTreeMap<String, Levels<SettingValue>>) {
    match node {
        Node::Levels(levels) => {
            into.insert(key, levels);
        }
        Node::Below(nodes) => {
            for (name, node) in nodes {
                flatten(if key.is_empty() { name } else { format!("{key}.{name}") }, node, into);
            }
        }
    }
}

impl Selector {
    /// Whether a case with these levels, by complete keys, is selected.
    pub fn selects(&self, case: &BTreeMap<String, String>) -> bool {
        self.levels.iter().all(|(key, wanted)| {
            let mut found = case.iter().filter(|(whole, _)| names(key, whole));
            found.any(|(whole, level)| wanted.all().iter().any(|wanted| is_level(whole, &wanted.0, level)))
        })
    }

    /// The same without the levels for which `is_there`, given the key as written, returns false; `None` if a key has no other.
    pub fn reduced(&self, is_there: impl Fn(&str, &str) -> bool) -> Option<Selector> {
        let of_key = |(key, wanted): (&String, &Levels<SettingValue>)| {
            let left = wanted.all().iter().filter(|level| is_there(key, &level.0)).cloned().collect();
            Some((key.clone(), Levels::many(left)?))
        };
        Some(Selector { levels: self.levels.iter().map(of_key).collect::<Option<_>>()? })
    }
}

/// Whether `key` names the factor `whole`: all of it, or the part after a dot.
pub fn names(key: &str, whole: &str) -> bool {
    whole == key || whole.strip_suffix(key).is_some_and(|head| head.ends_with('.'))
}

/// Whether `wanted`, as somebody writes it, is the level of the key `whole` that cases write as `level`: `60s` is `1min`.
pub fn is_level(whole: &str, wanted: &str, level: &str) -> bool {
    // A bare boolean is read as a setting's `on`, which other keys write as `true`.
    let is_switch = matches!((wanted, level), ("on", "true") | ("off", "false"));
    is_switch || wanted == level || as_cases_write(whole, wanted).is_some_and(|wanted| wanted == level)
}

/// A value of a key that cases write in a form of its own; `None` for other keys, and for what is no value of it.
fn as_cases_write(whole: &str, text: &str) -> Option<String> {
    (keys::find(whole)?.as_cases_write)(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cases_are_selected_by_whole_keys_and_by_their_ends() {
        let case: BTreeMap<String, String> = [
            ("server.version", "9.6"),
            ("server.settings.checkpoint_timeout", "60s"),
            ("workload.clients", "512"),
            ("workload.all_warehouses", "true"),
            ("workload.scale", "3x RAM"),
            ("workload.pace", "2000/s"),
            ("run.measure", "1min"),
            ("run.ramp_up", "1min"),
        ]
        .map(|(key, level)| (key.to_string(), level.to_string()))
        .into();
        let check = |text: &str, expected: bool| {
            let selector: Selector = serde_json::from_str(text).unwrap();
            assert_eq!(selector.selects(&case), expected, "{text}");
        };
        check("{}", true);
        check(r#"{"version": 9.6}"#, true);
        check(r#"{"version": "9.6", "clients": [256, 512]}"#, true);
        check(r#"{"server": {"version": "9.6"}, "workload": {"clients": 16}}"#, false);
        check(r#"{"workload.clients": 512, "all_warehouses": true}"#, true);
        check(r#"{"lients": 512}"#, false);
        check(r#"{"measure": ["30s", "60s"], "run.ramp_up": "60s"}"#, true);
        check(r#"{"scale": "3.0xRAM", "pace": 2000}"#, true);
        check(r#"{"pace": "poisson 2000.0/s"}"#, true);
        check(r#"{"pace": "constant 2000/s"}"#, false);
        check(r#"{"checkpoint_timeout": "1min"}"#, false);
    }

    #[test]
    fn levels_that_are_gone_leave_a_selector() {
        let reduced = |text: &str| {
            let selector: Selector = serde_json::from_str(text).unwrap();
            selector
                .reduced(|_, level| level != "512")
                .map(|selector| serde_json::to_string(&selector).unwrap())
        };
        assert_eq!(reduced(r#"{"clients": [256, 512]}"#).as_deref(), Some(r#"{"clients":"256"}"#));
        assert_eq!(reduced(r#"{"clients": 512, "version": "18"}"#), None);
    }
}
