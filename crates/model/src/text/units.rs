//! Durations, scales, versions and setting values as people write them.

use std::fmt;
use std::str::FromStr;

use serde::de::{self, Deserializer, Visitor};
use serde::{Deserialize, Serialize, Serializer};

/// A duration, with a unit as in postgresql.conf: `500ms`, `30s`, `5min`, `2h`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Span {
    /// Length in milliseconds.
    pub ms: u64,
}

impl Span {
    /// A duration of whole seconds.
    pub const fn from_s(s: u64) -> Span {
        Span { ms: s * 1000 }
    }

    /// The length in whole seconds, or `None` if there is a remainder.
    pub fn whole_s(self) -> Option<u32> {
        if self.ms.is_multiple_of(1000) { u32::try_from(self.ms / 1000).ok() } else { None }
    }
}

impl FromStr for Span {
    type Err = String;

    fn from_str(text: &str) -> Result<Span, String> {
        let text = text.trim();
        let split = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
        let (number, unit) = (&text[..split], text[split..].trim());
        let factor_ms = match unit {
            "ms" => 1.0,
            "s" => 1000.0,
            "min" | "m" => 60_000.0,
            "h" => 3_600_000.0,
            "d" => 86_400_000.0,
            "" if !number.is_empty() => {
                return Err(format!("`{text}` needs a unit: write `{text}s` or `{text}min`"));
            }
            _ => return Err(format!("`{text}` is not a span of time; examples: 500ms, 30s, 5min, 2h")),
        };
        let number: f64 =
            number.parse().map_err(|_| format!("`{text}` is not a span of time; examples: 30s, 5min"))?;
        let ms = number * factor_ms;
        if ms > 366.0 * 86_400_000.0 {
            return Err(format!("`{text}` is longer than a year"));
        }
        Ok(Span { ms: ms.round() as u64 })
    }
}

impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match self.ms {
            0 => f.write_str("0s"),
            ms if ms % 3_600_000 == 0 => write!(f, "{}h", ms / 3_600_000),
            ms if ms % 60_000 == 0 => write!(f, "{}min", ms / 60_000),
            ms if ms % 1000 == 0 => write!(f, "{}s", ms / 1000),
            ms => write!(f, "{ms}ms"),
        }
    }
}

/// How much data: a number of scale units, or a rule resolved against the machine when the plan is made.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Scale {
    /// This many scale units (branches for TPC-B-like, warehouses for TPC-C).
    Units(u32),
    /// Chosen to fit the machine and the largest number of clients.
    Fit,
    /// Data as a multiple of the database host's memory.
    TimesRam(f64),
}

impl FromStr for Scale {
    type Err = String;

    fn from_str(text: &str) -> Result<Scale, String> {
        let lower = text.trim().to_ascii_lowercase();
        if lower == "fit" {
            return Ok(Scale::Fit);
        }
        if let Some(times) = lower.strip_suffix("ram").map(|t| t.trim_end().trim_end_matches(['x', '*'])) {
            return match times.trim().parse::<f64>() {
                Ok(times) if times > 0.0 && times <= 1000.0 => Ok(Scale::TimesRam(times)),
                _ => Err(format!("`{text}` is not a multiple of memory; example: 3x RAM")),
            };
        }
        match lower.parse::<i64>() {
            Ok(n) => Scale::from_int(n),
            Err(_) => Err(format!("`{text}` is not a scale; examples: 100, fit, 3x RAM")),
        }
    }
}

impl Scale {
    fn from_int(n: i64) -> Result<Scale, String> {
        match u32::try_from(n) {
            Ok(units) if (1..=1_000_000).contains(&units) => Ok(Scale::Units(units)),
            _ => Err(format!("scale {n} is not in 1..1000000")),
        }
    }
}

impl fmt::Display for Scale {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match self {
            Scale::Units(units) => write!(f, "{units}"),
            Scale::Fit => f.write_str("fit"),
            Scale::TimesRam(times) => write!(f, "{times}x RAM"),
        }
    }
}

/// A requested PostgreSQL version: a series (`18`, `9.6`) or an exact release (`12.22`).
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct PgVersion(String);

impl PgVersion {
    /// The text as given.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The release series: `12` for `12.22`, `9.6` for `9.6.24`.
    pub fn series(&self) -> String {
        let parts: Vec<&str> = self.0.split('.').collect();
        if parts[0] == "9" && parts.len() > 1 { parts[..2].join(".") } else { parts[0].to_string() }
    }

    /// The last release of its series, if that is 9.4 or 9.5, which nobody offers as binaries that run anywhere.
    pub fn last_before_binaries(&self) -> Option<&'static str> {
        match self.series().as_str() {
            "9.4" => Some("9.4.26"),
            "9.5" => Some("9.5.25"),
            _ => None,
        }
    }

    /// The tag of this release in PostgreSQL's repository: `REL9_5_21`, `REL_12_1`. None for a series, except for one
    /// that has ended without binaries: then its last release is meant.
    pub fn source_tag(&self) -> Option<String> {
        if self.0 != self.series() {
            let number = self.0.replace('.', "_");
            return Some(if self.0.starts_with("9.") {
                format!("REL{number}")
            } else {
                format!("REL_{number}")
            });
        }
        self.last_before_binaries().map(|last| format!("REL{}", last.replace('.', "_")))
    }
}

impl FromStr for PgVersion {
    type Err = String;

    fn from_str(text: &str) -> Result<PgVersion, String> {
        let text = text.trim();
        let parts: Result<Vec<u32>, _> = text.split('.').map(str::parse::<u32>).collect();
        match parts.as_deref() {
            Ok([9]) => Err("version `9` is not one release series; write \"9.6\"".to_string()),
            Ok([9, 0..=3, ..]) => Err(format!(
                "version `{text}` is older than 9.4, the oldest supported: it has neither ALTER SYSTEM nor replication slots, and \
                 pg_stat_activity does not show which session keeps old rows (backend_xmin)"
            )),
            Ok([major, ..]) if *major < 9 => {
                Err(format!("version `{text}` is older than 9.4, the oldest supported"))
            }
            Ok([_] | [_, _] | [9, _, _]) => Ok(PgVersion(text.to_string())),
            _ => Err(format!("`{text}` is not a PostgreSQL version; examples: 18, 9.6, 12.22")),
        }
    }
}

impl fmt::Display for PgVersion {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A size in PostgreSQL's notation, in bytes, with a fraction as since 12; a bare number is in units of `bare_bytes`. `None` if it is
/// not a size.
pub fn size_bytes(text: &str, bare_bytes: u64) -> Option<u64> {
    let text = text.trim();
    let digits = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let unit_bytes = match unit.trim() {
        "" => bare_bytes,
        "B" => 1,
        "kB" => 1 << 10,
        "MB" => 1 << 20,
        "GB" => 1 << 30,
        "TB" => 1 << 40,
        _ => return None,
    };
    match number.parse::<u64>() {
        Ok(whole) => whole.checked_mul(unit_bytes),
        Err(_) => {
            let bytes = number.parse::<f64>().ok()? * unit_bytes as f64;
            (bytes < u64::MAX as f64).then_some(bytes.round() as u64)
        }
    }
}

/// The value of a server setting (GUC); numbers and booleans become the text PostgreSQL expects.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct SettingValue(pub String);

impl FromStr for SettingValue {
    type Err = String;

    fn from_str(text: &str) -> Result<SettingValue, String> {
        if text.contains(['\n', '\0']) {
            return Err("a setting's value cannot contain a line break".to_string());
        }
        Ok(SettingValue(text.to_string()))
    }
}

impl fmt::Display for SettingValue {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Text-like types share one form on disk: written by `Display`, read by `FromStr`; each type decides what a bare
/// number or boolean means.
macro_rules! serde_by_text {
    ($type:ty, $expecting:literal, $from_int:expr, $from_float:expr, $from_bool:expr) => {
        impl Serialize for $type {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        }
        impl<'de> Deserialize<'de> for $type {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                struct Text;
                impl Visitor<'_> for Text {
                    type Value = $type;
                    fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
                        f.write_str($expecting)
                    }
                    fn visit_str<E: de::Error>(self, text: &str) -> Result<$type, E> {
                        text.parse().map_err(E::custom)
                    }
                    fn visit_i64<E: de::Error>(self, n: i64) -> Result<$type, E> {
                        let convert: fn(i64) -> Result<$type, String> = $from_int;
                        convert(n).map_err(E::custom)
                    }
                    fn visit_u64<E: de::Error>(self, n: u64) -> Result<$type, E> {
                        self.visit_i64(i64::try_from(n).unwrap_or(i64::MAX))
                    }
                    fn visit_f64<E: de::Error>(self, x: f64) -> Result<$type, E> {
                        let convert: fn(f64) -> Result<$type, String> = $from_float;
                        convert(x).map_err(E::custom)
                    }
                    fn visit_bool<E: de::Error>(self, b: bool) -> Result<$type, E> {
                        let convert: fn(bool) -> Result<$type, String> = $from_bool;
                        convert(b).map_err(E::custom)
                    }
                }
                deserializer.deserialize_any(Text)
            }
        }
    };
}
pub(crate) use serde_by_text;

serde_by_text!(
    Span,
    "a span of time such as \"30s\"",
    |n| Err(format!("{n} needs a unit: write \"{n}s\" or \"{n}min\"")),
    |x| Err(format!("{x} needs a unit: write \"{x}s\"")),
    |_| Err("expected a span of time such as \"30s\"".into())
);
serde_by_text!(
    Scale,
    "a scale such as 100 or \"3x RAM\"",
    Scale::from_int,
    |x| Err(format!("scale {x} is not a whole number")),
    |_| Err("expected a scale such as 100 or \"3x RAM\"".into())
);
serde_by_text!(
    PgVersion,
    "a PostgreSQL version such as \"18\"",
    |n| n.to_string().parse(),
    |x| match x {
        9.6 => "9.6".parse(),
        x => Err(format!(
            "write the version as text, \"{x}\": a bare number cannot distinguish 10.1 from 10.10"
        )),
    },
    |_| Err("expected a PostgreSQL version such as \"18\"".into())
);
serde_by_text!(
    SettingValue,
    "a setting's value",
    |n| Ok(SettingValue(n.to_string())),
    |x| Ok(SettingValue(x.to_string())),
    |b| Ok(SettingValue(if b { "on" } else { "off" }.to_string()))
);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read_as_show_prints_them() {
        let check = |text: &str, expected| assert_eq!(size_bytes(text, 8 << 10), expected, "{text}");
        check("128MB", Some(128 << 20));
        check("16GB", Some(16 << 30));
        check("8kB", Some(8192));
        check("16384", Some(16384 * 8192));
        check("1.5GB", Some(1536 << 20));
        check("", None);
        check(".", None);
        check("99999999999999TB", None);
        check("99999999999999.5TB", None);
        check("12 parsecs", None);
    }
}
