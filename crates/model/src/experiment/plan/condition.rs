//! Conditions of a study: what its numbers hold under, and are printed with.

use std::fmt;
use std::str::FromStr;

use serde::de::{self, Deserialize, Deserializer};
use serde::ser::{Serialize, Serializer};

use crate::text::units::{Span, size_bytes};

/// One condition: a setting with its value (`fsync=off`), which each run is held against, or other words, which are
/// printed as they are.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Condition(String);

impl Condition {
    /// The setting and its value, if the condition is one.
    pub fn setting(&self) -> Option<(&str, &str)> {
        let (name, value) = self.0.split_once('=')?;
        let name = name.trim();
        let is_name = !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || "_.".contains(c));
        is_name.then_some((name, value.trim()))
    }

    /// Whether it is about this setting of a server.
    pub fn names(&self, setting: &str) -> bool {
        self.setting().is_some_and(|(name, _)| name.eq_ignore_ascii_case(setting))
    }

    /// Whether a server that shows `value` for the setting meets it.
    pub fn is_met_by(&self, value: &str) -> bool {
        self.setting().is_some_and(|(_, wanted)| is_same_value(wanted, value))
    }
}

/// Whether two texts are one value of a setting: `on` and `true`, `1GB` and `1024MB`, `60min` and `1h`.
fn is_same_value(a: &str, b: &str) -> bool {
    let switch = |text: &str| match text.to_ascii_lowercase().as_str() {
        "on" | "true" | "yes" | "1" => Some(true),
        "off" | "false" | "no" | "0" => Some(false),
        _ => None,
    };
    fn both<T: PartialEq>(a: Option<T>, b: Option<T>) -> bool {
        a.is_some() && a == b
    }
    a.eq_ignore_ascii_case(b)
        || both(switch(a), switch(b))
        || both(size_bytes(a, 0).filter(|n| *n > 0), size_bytes(b, 0).filter(|n| *n > 0))
        || both(a.parse::<Span>().ok(), b.parse::<Span>().ok())
        || both(a.parse::<f64>().ok(), b.parse::<f64>().ok())
}

impl FromStr for Condition {
    type Err = String;

    fn from_str(text: &str) -> Result<Condition, String> {
        let text = text.trim();
        match text.chars().count() {
            0 => {
                Err("a condition without words; examples: \"fsync=off\", \"disks encrypted by LUKS\""
                    .to_string())
            }
            n if n > LONGEST || text.chars().any(char::is_control) => {
                Err(format!("a condition is one line of at most {LONGEST} characters"))
            }
            _ => Ok(Condition(text.to_string())),
        }
    }
}

/// It is printed next to every figure.
const LONGEST: usize = 120;

impl fmt::Display for Condition {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Serialize for Condition {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Condition {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Condition, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_condition_is_a_setting_with_its_value_or_words() {
        let of = |text: &str| text.parse::<Condition>().unwrap();
        assert_eq!(of(" fsync = off ").setting(), Some(("fsync", "off")));
        assert_eq!(of("disks encrypted by LUKS").setting(), None);
        assert_eq!(of("a b=c").setting(), None);
        for (condition, value, expected) in [
            ("fsync=off", "off", true),
            ("fsync=false", "off", true),
            ("fsync=off", "on", false),
            ("shared_buffers=32768MB", "32GB", true),
            ("shared_buffers=1.5GB", "1536MB", true),
            ("checkpoint_timeout=60min", "1h", true),
            ("checkpoint_timeout=1.5h", "90min", true),
            ("random_page_cost=1.10", "1.1", true),
            ("archive_command=x", "y", false),
            ("work_mem=0", "1", false),
        ] {
            assert_eq!(of(condition).is_met_by(value), expected, "{condition}: {value}");
        }
        assert!(of("Fsync=off").names("fsync"));
        assert!("".parse::<Condition>().is_err() && "x".repeat(121).parse::<Condition>().is_err());
    }
}
