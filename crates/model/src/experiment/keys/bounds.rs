//! Bounds of values: what a row refuses although the type of its key would take it.

use crate::experiment::keys::row::{KeyKind, KeyRow};
use crate::text::units::Span;

/// A value as it is given.
#[derive(Debug, Clone, Copy)]
pub enum GivenValue<'a> {
    /// A whole number.
    Whole(i128),
    /// Another number.
    Number(f64),
    /// Text.
    Text(&'a str),
}

impl KeyRow {
    /// Why the key cannot have this value; `None` if it can, or if its type says why not.
    pub fn refusal(&self, given: GivenValue) -> Option<String> {
        // A machine takes what its kernel takes, which it says itself.
        let is_of_machine = self.parts().is_some_and(|(section, _)| section == "os");
        if is_of_machine { None } else { refusal(&self.kind, given) }
    }
}

fn refusal(kind: &KeyKind, given: GivenValue) -> Option<String> {
    match (kind, given) {
        (KeyKind::Whole(least, most), GivenValue::Whole(n)) => {
            of_whole(n, i128::from(*least), i128::from(*most))
        }
        (KeyKind::Positive, GivenValue::Whole(n)) => of_positive(n as f64),
        (KeyKind::Positive, GivenValue::Number(n)) => of_positive(n),
        (KeyKind::Seconds(least), GivenValue::Text(text)) => of_seconds(text, *least),
        // Nothing needs no unit.
        (KeyKind::Seconds(least), GivenValue::Whole(n)) => of_seconds(&n.to_string(), *least),
        (KeyKind::Seconds(least), GivenValue::Number(n)) => of_seconds(&n.to_string(), *least),
        (KeyKind::Name, GivenValue::Text(text)) => of_name(text),
        (KeyKind::Or(kinds), _) => kinds.iter().find_map(|kind| refusal(kind, given)),
        _ => None,
    }
}

fn of_whole(n: i128, least: i128, most: i128) -> Option<String> {
    if (least..=most).contains(&n) {
        return None;
    }
    if least == most {
        return Some(format!("{n} is not supported; give {least}, or leave it out"));
    }
    let end = if most < i128::from(u32::MAX) { most.to_string() } else { String::new() };
    Some(format!("{n} is not in {least}..{end}"))
}

fn of_positive(n: f64) -> Option<String> {
    let fits = n.is_finite() && n > 0.0;
    (!fits).then(|| format!("{n} is not a positive number; example: 3000"))
}

fn of_seconds(text: &str, least: u32) -> Option<String> {
    let span: Span = text.parse().ok()?;
    match span.whole_s() {
        None => Some(format!("{span} is not a whole number of seconds")),
        Some(seconds) if seconds < least => Some(format!("{span} is too short; give at least {least}s")),
        Some(_) => None,
    }
}

fn of_name(name: &str) -> Option<String> {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "_-.".contains(c);
    let fits = (1..=64).contains(&name.len()) && name.chars().all(is_plain) && !name.starts_with('.');
    let words = "must be 1 to 64 letters, digits, `-`, `_` or `.`: it names a directory";
    (!fits).then(|| format!("`{name}` {words}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::keys::{find, header, limits, os, run, workload};

    #[test]
    fn bounds_are_those_of_the_row() {
        let refused = |key: &str, given: GivenValue| find(key).unwrap().refusal(given).unwrap_or_default();
        let whole = |key: &str, n: i128| refused(key, GivenValue::Whole(n));
        assert_eq!(whole(workload::CLIENTS.name, 1), "");
        assert_eq!(whole(workload::CLIENTS.name, 0), "0 is not in 1..100000");
        assert_eq!(whole(workload::TRANSACTIONS.name, 0), "0 is not in 1..");
        assert_eq!(whole(run::SERVERS_AT_A_TIME.name, 2), "2 is not supported; give 1, or leave it out");
        assert_eq!(whole(os::SWAPPINESS.name, 201), "", "the machine decides");
        assert_eq!(whole(limits::DATA_IOPS.name, 0), "0 is not a positive number; example: 3000");
        for wrong in [-1.5, f64::NAN, f64::INFINITY] {
            let refusal = refused(limits::DATA_IOPS.name, GivenValue::Number(wrong));
            assert_eq!(refusal, format!("{wrong} is not a positive number; example: 3000"));
        }

        let text = |key: &str, text: &str| refused(key, GivenValue::Text(text));
        assert_eq!(text(run::MEASURE.name, "2s"), "");
        assert_eq!(text(run::MEASURE.name, "1s"), "1s is too short; give at least 2s");
        assert_eq!(whole(run::MEASURE.name, 0), "0s is too short; give at least 2s");
        assert_eq!(text(run::GRACE.name, "0s"), "");
        assert_eq!(text(run::RAMP_UP.name, "1500ms"), "1500ms is not a whole number of seconds");
        assert_eq!(text(run::RAMP_UP.name, "auto"), "");
        assert_eq!(text(header::NAME.name, "a-1.b"), "");
        for wrong in ["", ".a", "a b", "ä", "a".repeat(65).as_str()] {
            assert!(text(header::NAME.name, wrong).contains("it names a directory"), "{wrong}");
        }
    }
}
