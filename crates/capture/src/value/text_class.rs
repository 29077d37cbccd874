//! What a text looks like.

use crate::value::times::timestamp_us;

/// The look of a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TextClass {
    /// A whole number of 64 bits, as it is usually written.
    Int,
    /// Another number.
    Number,
    /// A date, a time, or both.
    Time,
    /// True or false.
    Bool,
    /// A UUID.
    Uuid,
    /// A JSON object or array.
    Json,
    /// Anything else.
    Other,
}

/// Longest text that is tried as JSON.
const JSON_BYTES_MAX: usize = 1 << 20;

/// The look of a text. Zeros in front make a text of a number.
pub fn class(text: &str) -> TextClass {
    if int(text).is_some() {
        TextClass::Int
    } else if is_number(text) {
        TextClass::Number
    } else if matches!(text, "t" | "f" | "true" | "false" | "TRUE" | "FALSE" | "on" | "off") {
        TextClass::Bool
    } else if timestamp_us(text).is_some() || is_clock_time(text) {
        TextClass::Time
    } else if is_uuid(text) {
        TextClass::Uuid
    } else if is_json(text) {
        TextClass::Json
    } else {
        TextClass::Other
    }
}

/// The number that a text is, if it is written as numbers are.
pub fn int(text: &str) -> Option<i64> {
    let number: i64 = text.parse().ok()?;
    let digits = text.strip_prefix('-').unwrap_or(text);
    let is_usual = digits.as_bytes()[0].is_ascii_digit() && (digits == "0" || !digits.starts_with('0'));
    if is_usual && text != "-0" { Some(number) } else { None }
}

/// Whether a text is a number with digits, at most one point and an exponent, and no zeros in front.
pub fn is_number(text: &str) -> bool {
    let digits = text.strip_prefix('-').unwrap_or(text);
    let is_led_by_zero = digits.len() > 1 && digits.starts_with('0') && !digits.starts_with("0.");
    let begins = digits.as_bytes().first().is_some_and(|byte| byte.is_ascii_digit() || *byte == b'.');
    let has_only =
        digits.bytes().all(|byte| byte.is_ascii_digit() || matches!(byte, b'.' | b'e' | b'E' | b'-' | b'+'));
    begins && has_only && !is_led_by_zero && text.parse::<f64>().is_ok_and(f64::is_finite)
}

/// Whether a text is a number without exponent of at most 18 digits.
pub fn is_decimal(text: &str) -> bool {
    let n_digits = text.bytes().filter(u8::is_ascii_digit).count();
    is_number(text)
        && (1..=18).contains(&n_digits)
        && !text.contains(['e', 'E'])
        && !text.ends_with('.')
        && !text.trim_start_matches('-').starts_with('.')
}

fn is_clock_time(text: &str) -> bool {
    let parts: Vec<&str> = text.split(':').collect();
    let is_part = |part: &&str| {
        !part.is_empty() && part.len() <= 9 && part.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.')
    };
    (2..=3).contains(&parts.len()) && parts.iter().all(is_part)
}

/// Whether a text is a UUID with its hyphens.
pub fn is_uuid(text: &str) -> bool {
    text.len() == 36
        && text.bytes().enumerate().all(|(at, byte)| match at {
            8 | 13 | 18 | 23 => byte == b'-',
            _ => byte.is_ascii_hexdigit(),
        })
}

/// Whether a text is a JSON object or array.
pub fn is_json(text: &str) -> bool {
    let trimmed = text.trim_start();
    let begins = trimmed.starts_with('{') || trimmed.starts_with('[');
    begins && text.len() <= JSON_BYTES_MAX && serde_json::from_str::<serde_json::Value>(text).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_have_classes() {
        for (text, expected) in [
            ("0", TextClass::Int),
            ("-17", TextClass::Int),
            ("007", TextClass::Other),
            ("+5", TextClass::Other),
            ("1.50", TextClass::Number),
            ("1e5", TextClass::Number),
            ("99999999999999999999", TextClass::Number),
            ("inf", TextClass::Other),
            ("t", TextClass::Bool),
            ("2024-01-31", TextClass::Time),
            ("2024-01-31 10:00:00.5+02", TextClass::Time),
            ("10:30", TextClass::Time),
            ("6f1c2f6e-7c42-4b5c-9d2e-0a1b2c3d4e5f", TextClass::Uuid),
            ("{\"a\": 1}", TextClass::Json),
            ("{a,b}", TextClass::Other),
            ("", TextClass::Other),
            ("-", TextClass::Other),
        ] {
            assert_eq!(class(text), expected, "{text}");
        }
        assert!(is_decimal("-1.50") && !is_decimal("1e5") && !is_decimal("1."));
    }
}
