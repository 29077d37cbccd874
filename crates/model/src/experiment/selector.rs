//! Selects cases by their levels: `{version = "9.6", clients = [256, 512]}`.

use std::collections::BTreeMap;

use serde::{Deserialize, Deserializer, Serialize};

use crate::experiment::levels::Levels;
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
            found.any(|(_, level)| wanted.all().iter().any(|wanted| is_level(&wanted.0, level)))
        })
    }
}

/// Whether `key` names the factor `whole`: all of it, or the part after a dot.
pub fn names(key: &str, whole: &str) -> bool {
    whole == key || whole.strip_suffix(key).is_some_and(|head| head.ends_with('.'))
}

/// A bare boolean is read as a setting's `on`, which other keys write as `true`.
fn is_level(wanted: &str, level: &str) -> bool {
    wanted == level || matches!((wanted, level), ("on", "true") | ("off", "false"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cases_are_selected_by_whole_keys_and_by_their_ends() {
        let case: BTreeMap<String, String> =
            [("server.version", "9.6"), ("workload.clients", "512"), ("workload.all_warehouses", "true")]
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
    }
}
