//! Words that statements need to be valid and that are nobody's: units of time, zones, formats.

/// Such words, in small letters.
const KEPT: [&str; 33] = [
    "century",
    "day",
    "days",
    "decade",
    "dow",
    "doy",
    "epoch",
    "hour",
    "hours",
    "isodow",
    "isoyear",
    "microseconds",
    "millennium",
    "milliseconds",
    "minute",
    "minutes",
    "month",
    "months",
    "quarter",
    "second",
    "seconds",
    "timezone",
    "utc",
    "week",
    "weeks",
    "year",
    "years",
    "english",
    "simple",
    "hex",
    "base64",
    "escape",
    "utf8",
];
/// Letters of the formats of `to_char`, `to_date` and the like.
const FORMATS: [&str; 14] =
    ["YYYY", "YY", "MM", "DD", "HH24", "HH12", "HH", "MI", "SS", "MS", "US", "IYYY", "IW", "FM"];
/// Units with a number before them: intervals.
const UNITS: [&str; 20] = [
    "day", "days", "hour", "hours", "minute", "minutes", "month", "months", "second", "seconds", "week",
    "weeks", "year", "years", "ms", "mon", "mons", "min", "mins", "sec",
];

/// Whether a literal is such a word, a format, or an interval.
pub(super) fn is_kept(text: &str) -> bool {
    KEPT.contains(&text.to_ascii_lowercase().as_str()) || is_format(text) || is_interval(text)
}

fn is_format(text: &str) -> bool {
    let mut rest = text.to_string();
    for part in FORMATS {
        rest = rest.replace(part, "");
    }
    rest.len() < text.len()
        && rest.bytes().all(|byte| matches!(byte, b'-' | b'/' | b':' | b'.' | b' ' | b'T' | b'Z' | b'_'))
}

fn is_interval(text: &str) -> bool {
    let words: Vec<&str> = text.split_whitespace().collect();
    let is_pair = |pair: &[&str]| match pair {
        [number, unit] => {
            number.parse::<f64>().is_ok() && UNITS.contains(&unit.to_ascii_lowercase().as_str())
        }
        _ => false,
    };
    !words.is_empty() && words.chunks(2).all(is_pair)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_formats_and_intervals_are_kept() {
        for text in ["day", "UTC", "YYYY-MM-DD HH24:MI:SS", "1 day", "2 hours 30 minutes", "YYYYMM"] {
            assert!(is_kept(text), "{text}");
        }
        for text in ["", "Joe", "1", "1 joe", "dayjoe", "--"] {
            assert!(!is_kept(text), "{text}");
        }
    }
}
