//! Values as text: PostgreSQL's input formats, COPY's escapes, JSON's and arrays' quotes, and random characters.

use std::io::Write;

use super::calendar;
use super::kind::{Type, power_of_ten};
use crate::random::Draws;

/// Longest text of a cell, in bytes.
pub(crate) const BYTES_MAX: u64 = 1 << 20;

/// Appends a decimal number.
pub(crate) fn push_int(out: &mut Vec<u8>, value: i64) {
    if value < 0 {
        out.push(b'-');
    }
    match value.unsigned_abs() {
        digit @ 0..=9 => out.push(b'0' + digit as u8),
        pair @ 10..=99 => push_pair(out, pair),
        longer => push_padded(out, longer, 1),
    }
}

/// The digits of 0 to 99, two each.
const PAIRS: [u8; 200] = {
    let mut pairs = [0; 200];
    let mut at = 0;
    while at < 100 {
        pairs[2 * at] = b'0' + (at / 10) as u8;
        pairs[2 * at + 1] = b'0' + (at % 10) as u8;
        at += 1;
    }
    pairs
};

/// Appends digits, at least `width` of them (up to 20 at once).
pub(crate) fn push_padded(out: &mut Vec<u8>, mut value: u64, width: usize) {
    let mut digits = [b'0'; 20];
    let mut at = digits.len();
    while value >= 10 {
        let pair = 2 * (value % 100) as usize;
        value /= 100;
        at -= 2;
        digits[at..at + 2].copy_from_slice(&PAIRS[pair..pair + 2]);
    }
    if value > 0 {
        at -= 1;
        digits[at] = b'0' + value as u8;
    }
    at = at.min(digits.len().saturating_sub(width));
    out.extend_from_slice(&digits[at..]);
}

/// Appends the two digits of a number below 100.
pub(crate) fn push_pair(out: &mut Vec<u8>, value: u64) {
    let at = 2 * (value % 100) as usize;
    out.extend_from_slice(&PAIRS[at..at + 2]);
}

/// Appends a number of hundred-millionths of at most 1, as `0.12345678`.
pub(crate) fn push_unit(out: &mut Vec<u8>, mut units: u64) {
    let mut digits = *b"0.00000000";
    for at in [8, 6, 4, 2] {
        let pair = 2 * (units % 100) as usize;
        units /= 100;
        digits[at..at + 2].copy_from_slice(&PAIRS[pair..pair + 2]);
    }
    digits[0] = b'0' + (units % 10) as u8;
    out.extend_from_slice(&digits);
}

fn push_decimal(out: &mut Vec<u8>, value: i64, scale: u8) {
    if value < 0 {
        out.push(b'-');
    }
    let unit = power_of_ten(scale) as u64;
    let magnitude = value.unsigned_abs();
    push_padded(out, magnitude / unit, 1);
    if scale > 0 {
        out.push(b'.');
        push_padded(out, magnitude % unit, usize::from(scale));
    }
}

/// Appends the text of 64 bits of a type.
#[inline]
pub(crate) fn write_word(kind: &Type, value: i64, out: &mut Vec<u8>) {
    match kind {
        Type::Decimal(scale) => push_decimal(out, value, *scale),
        Type::Bool => out.push(if value == 0 { b'f' } else { b't' }),
        Type::Date => calendar::write_date(value, out),
        Type::Timestamp => calendar::write_timestamp(value, out),
        Type::Interval => {
            push_int(out, value);
            out.extend_from_slice(b" microseconds");
        }
        _ => push_int(out, value),
    }
}

/// Appends the shortest text that is this double.
pub(crate) fn write_float(value: f64, out: &mut Vec<u8>) {
    // Writing to memory does not fail.
    let _ = write!(out, "{value:?}");
}

/// Most characters of a word's text when it is at least `low` and at most `high`.
pub(crate) fn word_length(kind: &Type, low: i128, high: i128) -> u64 {
    let number = |value: i128| value.to_string().len() as u64;
    match kind {
        Type::Decimal(scale) => {
            let fraction = if *scale > 0 { 1 + u64::from(*scale) } else { 0 };
            let whole =
                |value: i128| (value.unsigned_abs() / power_of_ten(*scale) as u128).to_string().len() as u64;
            let length = |value: i128| u64::from(value < 0) + whole(value) + fraction;
            length(low).max(length(high))
        }
        Type::Bool => 1,
        Type::Date => 10,
        Type::Timestamp => 29,
        Type::Interval => number(low).max(number(high)) + 13,
        _ => number(low).max(number(high)),
    }
}

/// Most characters of a double's text: `-2.2250738585072014e-308`.
pub(crate) const FLOAT_LENGTH: u64 = 24;

/// Whether COPY writes this byte with a backslash.
#[inline]
pub(crate) fn is_special(byte: u8) -> bool {
    byte == b'\\' || byte.wrapping_sub(8) < 6
}

/// Escapes what was appended after `start` as COPY's text format wants it.
pub fn escape_copy(out: &mut Vec<u8>, start: usize) {
    let n_special = out[start..].iter().filter(|byte| is_special(**byte)).count();
    if n_special == 0 {
        return;
    }
    let mut from = out.len();
    let mut to = from + n_special;
    out.resize(to, 0);
    // From the end, so that nothing is overwritten before it has moved; what is before the first one stays.
    while from < to {
        from -= 1;
        to -= 1;
        let byte = out[from];
        if is_special(byte) {
            out[to] = match byte {
                b'\t' => b't',
                b'\n' => b'n',
                b'\r' => b'r',
                8 => b'b',
                11 => b'v',
                12 => b'f',
                other => other,
            };
            to -= 1;
            out[to] = b'\\';
        } else {
            out[to] = byte;
        }
    }
}

/// Appends `text` as a JSON string.
pub(crate) fn push_json_text(out: &mut Vec<u8>, text: &[u8]) {
    out.push(b'"');
    if !text.iter().any(|byte| *byte < 32 || *byte == b'"' || *byte == b'\\') {
        out.extend_from_slice(text);
        out.push(b'"');
        return;
    }
    for byte in text {
        match byte {
            b'"' | b'\\' => out.extend_from_slice(&[b'\\', *byte]),
            b'\n' => out.extend_from_slice(b"\\n"),
            b'\r' => out.extend_from_slice(b"\\r"),
            b'\t' => out.extend_from_slice(b"\\t"),
            0..=31 => {
                let _ = write!(out, "\\u{byte:04x}");
            }
            _ => out.push(*byte),
        }
    }
    out.push(b'"');
}

/// Appends `text` as an element of an array: always in quotes.
pub(crate) fn push_element(out: &mut Vec<u8>, text: &[u8]) {
    out.push(b'"');
    for byte in text {
        if matches!(byte, b'"' | b'\\') {
            out.push(b'\\');
        }
        out.push(*byte);
    }
    out.push(b'"');
}

/// Letters, digits.
pub(crate) const ALPHANUMERIC: &[u8; 62] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";

/// Product of the sizes of the alphabets of the characters that one draw makes: a combination of them is then at most
/// 2^-24 more likely than another.
pub(crate) const COMBINATIONS_MAX: u64 = 1 << 40;

/// Appends `n` random characters of an alphabet of `M`, `K` from each draw.
///
/// A character is the upper half of the draw times `M` (128 bits); the lower half makes the next one. `K` is the most whose
/// combinations are at most [`COMBINATIONS_MAX`].
#[inline]
pub(crate) fn push_characters<const M: u64, const K: usize>(
    out: &mut Vec<u8>,
    draws: &mut Draws,
    n: usize,
    character: impl Fn(u64) -> u8,
) {
    const { assert!(M.pow(K as u32) <= COMBINATIONS_MAX && M.pow(K as u32 + 1) > COMBINATIONS_MAX) }
    let mut n_left = n;
    while n_left > 0 {
        let mut bits = draws.next_bits();
        let drawn: [u8; K] = std::array::from_fn(|_| character(next_below(&mut bits, M)));
        let n_taken = n_left.min(K);
        out.extend_from_slice(&drawn[..n_taken]);
        n_left -= n_taken;
    }
}

/// Uniform in `0..m` from bits that serve for the next ones, too.
#[inline]
pub(crate) fn next_below(bits: &mut u64, m: u64) -> u64 {
    let product = u128::from(*bits) * u128::from(m);
    *bits = product as u64;
    (product >> 64) as u64
}
