//! Reads numbers as C's library does, because pgbench's users rely on what it accepts.

/// Why `strtol` with a range rejects a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum BadInt {
    /// Trailing characters, or no number.
    Syntax,
    /// The number is out of range.
    Range,
}

/// PostgreSQL's `option_parse_int`: allows surrounding white space, and an empty text counts as 0.
pub(crate) fn option_int(text: &str, min: i32, max: i32) -> Result<i32, BadInt> {
    let (digits, rest) = split_integer(text);
    if !rest.trim_start_matches(is_space).is_empty() {
        return Err(BadInt::Syntax);
    }
    match digits.parse::<i128>() {
        _ if digits.is_empty() => in_range(0, min, max),
        Ok(value) => in_range(value, min, max),
        // More digits than i128 can hold.
        Err(_) => Err(BadInt::Range),
    }
}

fn in_range(value: i128, min: i32, max: i32) -> Result<i32, BadInt> {
    i32::try_from(value).ok().filter(|value| (min..=max).contains(value)).ok_or(BadInt::Range)
}

/// `strtol` that must consume the whole text and find at least one digit. `None` also beyond 64 bits.
pub(crate) fn whole_int(text: &str) -> Option<i64> {
    let (digits, rest) = split_integer(text);
    if rest.is_empty() { digits.parse().ok() } else { None }
}

/// `atoi`: the number that the text begins with, otherwise 0; larger values are truncated as glibc does.
pub(crate) fn leading_int(text: &str) -> i32 {
    let (digits, _) = split_integer(text);
    let value: i128 = digits.parse().unwrap_or(0);
    value.clamp(i64::MIN.into(), i64::MAX.into()) as i64 as i32
}

/// `sscanf("%lu%c")` that must stop at the end: a minus sign wraps around, and a number that is too large becomes the
/// maximum.
pub(crate) fn whole_unsigned(text: &str) -> Option<u64> {
    let (digits, rest) = split_integer(text);
    if digits.is_empty() || !rest.is_empty() {
        return None;
    }
    let (negative, digits) = match digits.strip_prefix('-') {
        Some(digits) => (true, digits),
        None => (false, digits.strip_prefix('+').unwrap_or(digits)),
    };
    match digits.parse::<u64>() {
        Ok(value) if negative => Some(value.wrapping_neg()),
        Ok(value) => Some(value),
        Err(_) => Some(u64::MAX),
    }
}

/// `atof`: the number that the text begins with, otherwise 0.
pub(crate) fn leading_float(text: &str) -> f64 {
    let text = text.trim_start_matches(is_space);
    if let Some((value, _)) = workload::number::leading_hex(text) {
        return value;
    }
    let is_part = |c: char| c.is_ascii_alphanumeric() || matches!(c, '+' | '-' | '.');
    let end = text.find(|c: char| !is_part(c)).unwrap_or(text.len());
    // The longest prefix that is a number: a few characters, read once.
    (1..=end).rev().find_map(|n| text[..n].parse::<f64>().ok()).unwrap_or(0.0)
}

fn is_space(c: char) -> bool {
    matches!(c, ' ' | '\t' | '\n' | '\r' | '\x0b' | '\x0c')
}

/// Sign and digits after leading white space (empty if there is no digit), and the rest.
fn split_integer(text: &str) -> (&str, &str) {
    let start = text.trim_start_matches(is_space);
    let unsigned = start.strip_prefix(['+', '-']).unwrap_or(start);
    let n_digits = unsigned.bytes().take_while(u8::is_ascii_digit).count();
    if n_digits == 0 {
        return ("", text);
    }
    start.split_at(start.len() - unsigned.len() + n_digits)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_of_options_are_read_as_strtol_reads_them() {
        let check = |text, expected| assert_eq!(option_int(text, 1, i32::MAX), expected, "{text:?}");
        check("7", Ok(7));
        check(" +7 ", Ok(7));
        check("three", Err(BadInt::Syntax));
        check("7x", Err(BadInt::Syntax));
        check("0x10", Err(BadInt::Syntax));
        check("", Err(BadInt::Range));
        check("  ", Err(BadInt::Range));
        check("-3", Err(BadInt::Range));
        check("2147483648", Err(BadInt::Range));
        check(&"9".repeat(50), Err(BadInt::Range));
    }

    #[test]
    fn the_other_readers_stop_where_c_stops() {
        for (text, expected) in [("12", Some(12)), ("-1", Some(-1)), ("", None), ("one", None), ("1 ", None)]
        {
            assert_eq!(whole_int(text), expected, "{text:?}");
        }
        for (text, expected) in [("-10", -10), ("5x", 5), ("x", 0), ("", 0)] {
            assert_eq!(leading_int(text), expected, "{text:?}");
        }
        for (text, expected) in [
            ("5432", Some(5432)),
            ("-1", Some(u64::MAX)),
            ("99999999999999999999", Some(u64::MAX)),
            ("one", None),
        ] {
            assert_eq!(whole_unsigned(text), expected, "{text:?}");
        }
        for (text, expected) in [
            ("0.5", 0.5),
            ("1e3x", 1000.0),
            (" 2ms", 2.0),
            ("", 0.0),
            ("x", 0.0),
            ("-1", -1.0),
            ("0x1p3x", 8.0),
            ("0x", 0.0),
        ] {
            assert_eq!(leading_float(text), expected, "{text:?}");
        }
    }
}
