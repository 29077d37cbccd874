//! Captured values as 64 bits, from the text that PostgreSQL writes.

use super::calendar;
use super::kind::{SCALE_MAX, power_of_ten};

/// Digits of a decimal without its point, and how many of them are behind it.
pub(crate) fn parse_decimal(text: &str) -> Option<(i64, u8)> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    let scale = u8::try_from(fraction.len()).ok().filter(|scale| *scale <= SCALE_MAX)?;
    let digits = whole.strip_prefix('-').unwrap_or(whole);
    let is_plain = |digits: &str| digits.bytes().all(|digit| digit.is_ascii_digit());
    if digits.is_empty() || !is_plain(digits) || !is_plain(fraction) {
        return None;
    }
    format!("{whole}{fraction}").parse().ok().map(|word| (word, scale))
}

/// A decimal with more digits behind the point.
pub(crate) fn rescaled(word: i64, from: u8, to: u8) -> Option<i64> {
    word.checked_mul(power_of_ten(to.saturating_sub(from)))
}

/// 1 or 0.
pub(crate) fn parse_bool(text: &str) -> Option<i64> {
    match text {
        "t" | "true" => Some(1),
        "f" | "false" => Some(0),
        _ => None,
    }
}

/// Microseconds of a timestamp, with an offset as PostgreSQL writes it, or in UTC.
pub(crate) fn parse_timestamp(text: &str) -> Option<i64> {
    let text = text.strip_suffix('Z').unwrap_or(text);
    let time_at = text.find([' ', 'T']).unwrap_or(text.len());
    let offset_at = text[time_at..].find(['+', '-']).map(|at| time_at + at);
    let Some(offset_at) = offset_at else { return calendar::parse_timestamp(text) };
    let (time, offset) = text.split_at(offset_at);
    let sign = if offset.starts_with('-') { -1 } else { 1 };
    let mut seconds = 0;
    let mut parts = offset.get(1..)?.split(':');
    for unit in [3600, 60, 1] {
        let Some(part) = parts.next() else { break };
        if part.len() != 2 {
            return None;
        }
        let number: i64 = part.parse().ok()?;
        seconds += unit * number;
    }
    if parts.next().is_some() {
        return None;
    }
    calendar::parse_timestamp(time)?.checked_sub(sign * seconds * 1_000_000)
}
