//! Durations, scales, versions and setting values as people write them, and positions in the WAL as servers do.

use std::fmt;
use std::str::FromStr;

use serde::de::{self, Deserializer, Visitor};
use serde::{Deserialize, Serialize, Serializer};

/// A duration, with units as in postgresql.conf: `500ms`, `30s`, `5min`, `2h`, `2min30s`; also as reports print it: `2 min 30 s`.
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
        let wrong = || format!("`{text}` is not a span of time; examples: 500ms, 30s, 5min, 2min30s, 2h");
        if text.starts_with('-') && text[1..].starts_with(|c: char| c.is_ascii_digit()) {
            return Err(format!("`{text}` is below 0; examples of a span of time: 500ms, 30s, 5min"));
        }
        if let Some(bare) = plain(text) {
            // Nothing is as long in every unit.
            return if bare == 0.0 {
                Ok(Span { ms: 0 })
            } else {
                Err(format!("`{text}` needs a unit: write `{text}s` or `{text}min`"))
            };
        }

        let (mut rest, mut ms, mut unit_before_ms) = (text, 0.0, f64::INFINITY);
        while !rest.is_empty() {
            let (number, after) = rest.split_at(number_end(rest));
            let after = after.trim_start();
            let (unit, next) =
                after.split_at(after.find(|c: char| !c.is_alphabetic()).unwrap_or(after.len()));
            let unit_ms = unit_ms(unit).filter(|unit_ms| *unit_ms < unit_before_ms).ok_or_else(wrong)?;
            ms += plain(number).ok_or_else(wrong)? * unit_ms;
            (rest, unit_before_ms) = (next.trim_start(), unit_ms);
        }
        if text.is_empty() {
            return Err(wrong());
        }
        if ms > 366.0 * 86_400_000.0 {
            return Err(format!("`{text}` is longer than a year"));
        }
        Ok(Span { ms: ms.round() as u64 })
    }
}

/// Milliseconds of a unit of time.
fn unit_ms(unit: &str) -> Option<f64> {
    match unit {
        "ms" => Some(1.0),
        "s" => Some(1000.0),
        "min" | "m" => Some(60_000.0),
        "h" => Some(3_600_000.0),
        "d" => Some(86_400_000.0),
        _ => None,
    }
}

/// Where the number ends with which a text begins.
fn number_end(text: &str) -> usize {
    text.find(|c: char| !c.is_ascii_digit() && !['.', ','].contains(&c)).unwrap_or(text.len())
}

/// A number without a sign, also with its digits in groups of three, as reports print it: `1,234.5`.
pub fn plain(text: &str) -> Option<f64> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, "0"));
    let is_digits = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    let mut groups = whole.split(',');
    let is_first =
        groups.next().is_some_and(|first| is_digits(first) && (first.len() <= 3 || !whole.contains(',')));
    let are_groups = groups.all(|group| group.len() == 3 && is_digits(group));
    let is_number = is_first && are_groups && is_digits(fraction);
    is_number.then(|| text.replace(',', "").parse().ok()).flatten()
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
        expect_no_group(&lower)?;
        if lower == "fit" {
            return Ok(Scale::Fit);
        }
        if let Some(times) = lower.strip_suffix("ram").map(|t| t.trim_end().trim_end_matches(['x', '*'])) {
            return match times.trim().parse::<f64>() {
                Ok(times) if times > 0.0 && times <= 1000.0 => Ok(Scale::TimesRam(times)),
                _ => Err(format!("`{text}` is not a multiple of memory; example: 3x RAM")),
            };
        }
        let whole = plain(&lower).filter(|n| n.fract() == 0.0 && *n < 1e15).map(|n| n as i64);
        match lower.parse::<i64>().ok().or(whole) {
            Some(n) => Scale::from_int(n),
            None => Err(format!("`{text}` is not a scale; examples: 100, fit, 3x RAM")),
        }
    }
}

/// Fails for the `000` of `1,000` where commas separate levels.
pub fn expect_no_group(text: &str) -> Result<(), String> {
    let is_group = text.len() == 3 && text.starts_with('0') && text.bytes().all(|byte| byte.is_ascii_digit());
    if is_group {
        Err(format!("`{text}` begins with 0: commas separate levels here; write 1000 for 1,000"))
    } else {
        Ok(())
    }
}

impl Scale {
    /// Most scale units.
    pub const UNITS_MAX: u32 = 1_000_000;

    fn from_int(n: i64) -> Result<Scale, String> {
        match u32::try_from(n) {
            Ok(units) if (1..=Scale::UNITS_MAX).contains(&units) => Ok(Scale::Units(units)),
            _ => Err(format!("scale {n} is not in 1..{}", Scale::UNITS_MAX)),
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

/// A size in PostgreSQL's notation or as reports print it (`1.50 GiB`, which is PostgreSQL's `1.5GB`), in bytes, with a fraction as since
/// 12; a bare number is in units of `bare_bytes`. `None` if it is not a size.
pub fn size_bytes(text: &str, bare_bytes: u64) -> Option<u64> {
    let text = text.trim();
    let (number, unit) = text.split_at(number_end(text));
    let unit_bytes = match unit.trim() {
        "" => bare_bytes,
        "B" => 1,
        "kB" | "KiB" => 1 << 10,
        "MB" | "MiB" => 1 << 20,
        "GB" | "GiB" => 1 << 30,
        "TB" | "TiB" => 1 << 40,
        _ => return None,
    };
    match number.parse::<u64>() {
        Ok(whole) => whole.checked_mul(unit_bytes),
        Err(_) => {
            let bytes = plain(number)? * unit_bytes as f64;
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

/// A position in the WAL as bytes from its beginning: `1/10` is 0x100000010.
pub fn wal_position(text: &str) -> Option<u64> {
    let (high, low) = text.trim().split_once('/')?;
    let part = |text: &str| u32::from_str_radix(text, 16).ok().map(u64::from);
    Some((part(high)? << 32) | part(low)?)
}

/// Types that files write as text alone: serde's `try_from` and `into` of a `String`, by `FromStr` and `Display`.
macro_rules! as_text {
    ($($name:ty),+) => {
        $(
            impl TryFrom<String> for $name {
                type Error = String;

                fn try_from(text: String) -> Result<$name, String> {
                    text.parse()
                }
            }

            impl From<$name> for String {
                fn from(value: $name) -> String {
                    value.to_string()
                }
            }
        )+
    };
}
pub(crate) use as_text;

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
    |n| match n {
        0 => Ok(Span { ms: 0 }),
        n if n < 0 =>
            Err(format!("{n} is below 0; examples of a span of time: \"500ms\", \"30s\", \"5min\"")),
        n => Err(format!("{n} needs a unit: write \"{n}s\" or \"{n}min\"")),
    },
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
    use crate::text::prose::{bytes, duration, grouped};

    #[test]
    fn what_reports_print_is_read_as_the_same() {
        for s in (0_u32..200).chain([599, 3599, 3600, 7199, 7200, 9000, 86_400, 200_000]) {
            let printed = duration(f64::from(s));
            let span: Span = printed.parse().unwrap_or_else(|error| panic!("{error}"));
            // Hours are printed without seconds.
            let expected = if s < 7200 { s } else { s - s % 60 };
            assert_eq!(span, Span::from_s(u64::from(expected)), "{printed}");
        }
        for ms in [0, 1, 999, 1000, 1500, 60_000, 90_000, 150_000, 3_600_000, 5_400_000] {
            assert_eq!(Span { ms }.to_string().parse(), Ok(Span { ms }));
        }
        for n in [0_u64, 512, 8192, 1_234_567, 16 << 20, 1536 << 20, 1023 << 20, 7 << 40] {
            let printed = bytes(n as f64);
            let read = size_bytes(&printed, 1).unwrap_or_else(|| panic!("{printed}"));
            assert!(read.abs_diff(n) as f64 <= 0.005 * n as f64, "{printed}: {read} of {n}");
        }
        for (n, printed) in [(1, "1"), (999, "999"), (1000, "1,000"), (123_456, "123,456")] {
            assert_eq!(printed.parse(), Ok(Scale::Units(n)));
            assert_eq!(grouped(&n.to_string()), printed);
            assert_eq!(plain(printed), Some(f64::from(n)));
        }
        for text in ["1,00", ",100", "1,2345", "1234,567", "1,000,", ".", "1.", "+1", "-1", "1e3", "inf", ""]
        {
            assert_eq!(plain(text), None, "{text}");
        }
    }

    #[test]
    fn spans_have_several_units_from_large_to_small() {
        let check = |text: &str, ms: u64| assert_eq!(text.parse(), Ok(Span { ms }), "{text}");
        check("2min30s", 150_000);
        check("2 min 30 s", 150_000);
        check("1h 05 min", 3_900_000);
        check("1d2h3min4s5ms", 93_784_005);
        check("1.5min", 90_000);
        check("0", 0);
        let refused = |text: &str, why: &str| {
            let error = text.parse::<Span>().unwrap_err();
            assert!(error.contains(why), "{text}: {error}");
        };
        refused("30", "needs a unit: write `30s`");
        refused("2min30", "is not a span of time");
        refused("30s2min", "is not a span of time");
        refused("2min2min", "is not a span of time");
        refused("-5s", "is below 0");
        for text in ["", "s", "5 parsecs", "1,00s", "--5s", "5s-"] {
            refused(text, "is not a span of time");
        }
    }

    #[test]
    fn a_position_is_a_number_of_64_bits() {
        for (text, expected) in [
            ("0/0", Some(0)),
            ("1/A0", Some(0x1_0000_00A0)),
            ("FFFFFFFF/FFFFFFFF", Some(u64::MAX)),
            ("16B3740", None),
            ("1/", None),
            ("1/100000000", None),
            ("", None),
        ] {
            assert_eq!(wal_position(text), expected, "{text}");
        }
    }

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
