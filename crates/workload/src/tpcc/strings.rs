//! Random strings and names (clause 4.3.2).

use crate::number::write_uint;
use crate::random::Prng;

/// The characters of a random alphanumeric string (clause 4.3.2.2).
const ALPHANUMERIC: &[u8; 62] = b"0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";

/// The syllables of last names (clause 4.3.2.3).
const SYLLABLES: [&str; 10] =
    ["BAR", "OUGHT", "ABLE", "PRI", "PRES", "ESE", "ANTI", "CALLY", "ATION", "EING"];

/// The text that a tenth of all I_DATA and S_DATA contain (clause 4.3.3.1).
pub(crate) const ORIGINAL: &[u8] = b"ORIGINAL";

/// Appends a random a-string of `min` to `max` characters.
pub(crate) fn a_string(prng: &mut Prng, out: &mut Vec<u8>, min: u64, max: u64) {
    let n = prng.uint64_range(min, max) as usize;
    fill(prng, out, n, ALPHANUMERIC);
}

/// Appends a random n-string of `n` digits.
pub(crate) fn n_string(prng: &mut Prng, out: &mut Vec<u8>, n: usize) {
    fill(prng, out, n, b"0123456789");
}

/// Four characters from each draw: 16 bits choose one of so few with a bias below a thousandth.
fn fill(prng: &mut Prng, out: &mut Vec<u8>, n: usize, characters: &[u8]) {
    const PER_DRAW: usize = 4;
    let start = out.len();
    let n_characters = characters.len() as u64;
    for _ in 0..n.div_ceil(PER_DRAW) {
        let bits = prng.uint64();
        let character =
            |at: u32| characters[((((bits >> (16 * at)) & 0xffff) * n_characters) >> 16) as usize];
        out.extend_from_slice(&[character(0), character(1), character(2), character(3)]);
    }
    out.truncate(start + n);
}

/// Appends an a-string of 26 to 50 characters that in one case of ten contains `ORIGINAL`.
pub(crate) fn data_string(prng: &mut Prng, out: &mut Vec<u8>) {
    let start = out.len();
    a_string(prng, out, 26, 50);
    if prng.uint64_range(1, 10) == 1 {
        let last = out.len() - start - ORIGINAL.len();
        let at = start + prng.uint64_range(0, last as u64) as usize;
        out[at..at + ORIGINAL.len()].copy_from_slice(ORIGINAL);
    }
}

/// Appends a zip code: four random digits and `11111` (clause 4.3.2.7).
pub(crate) fn zip(prng: &mut Prng, out: &mut Vec<u8>) {
    n_string(prng, out, 4);
    out.extend_from_slice(b"11111");
}

/// Appends the last name of a number from 0 to 999.
pub(crate) fn last_name(number: u32, out: &mut Vec<u8>) {
    for digit in [number / 100, number / 10 % 10, number % 10] {
        out.extend_from_slice(SYLLABLES[digit as usize].as_bytes());
    }
}

/// Appends a decimal with `digits` places after the point.
pub(crate) fn decimal(out: &mut Vec<u8>, value: u64, digits: u32) {
    let unit = 10u64.pow(digits);
    write_uint(out, value / unit);
    out.push(b'.');
    let mut place = unit / 10;
    while place > 0 {
        out.push(b'0' + (value / place % 10) as u8);
        place /= 10;
    }
}

/// The value of a decimal in hundredths, as the server writes numeric(n,2).
pub(crate) fn cents(text: &[u8]) -> Option<i64> {
    let text = std::str::from_utf8(text).ok()?;
    let (is_negative, digits) = text.strip_prefix('-').map_or((false, text), |rest| (true, rest));
    let (whole, fraction) = digits.split_once('.')?;
    if fraction.len() != 2 {
        return None;
    }
    let value = whole.parse::<i64>().ok()?.checked_mul(100)? + fraction.parse::<i64>().ok()?;
    Some(if is_negative { -value } else { value })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(write: impl FnOnce(&mut Vec<u8>)) -> String {
        let mut out = Vec::new();
        write(&mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn last_names_are_made_of_three_syllables() {
        for (number, expected) in [(0, "BARBARBAR"), (371, "PRICALLYOUGHT"), (999, "EINGEINGEING")] {
            assert_eq!(text(|out| last_name(number, out)), expected);
        }
    }

    #[test]
    fn decimals_are_written_and_read() {
        for (value, digits, expected) in
            [(500_000, 2, "5000.00"), (7, 4, "0.0007"), (1234, 4, "0.1234"), (0, 2, "0.00")]
        {
            assert_eq!(text(|out| decimal(out, value, digits)), expected);
        }
        for (text, expected) in
            [("5000.01", Some(500_001)), ("-10.00", Some(-1000)), ("1.5", None), ("x", None)]
        {
            assert_eq!(cents(text.as_bytes()), expected, "{text}");
        }
    }

    #[test]
    fn strings_have_their_lengths_and_a_tenth_is_original() {
        let mut prng = Prng::seed(3);
        let mut n_original = 0;
        for _ in 0..10_000 {
            let data = text(|out| data_string(&mut prng, out));
            assert!((26..=50).contains(&data.len()) && data.bytes().all(|b| b.is_ascii_alphanumeric()));
            n_original += u32::from(data.contains("ORIGINAL"));
        }
        assert!((880..=1120).contains(&n_original), "{n_original} of 10000");
        assert_eq!(text(|out| zip(&mut prng, out)).len(), 9);
    }
}
