//! Numbers in sentences, formatted alike in findings, reports and messages.

use std::fmt::Display;

/// A number and its noun: `1 run`, `3 runs`.
pub fn plural(n: impl Display, noun: &str) -> String {
    let n = n.to_string();
    let ending = if n == "1" { "" } else { "s" };
    format!("{n} {noun}{ending}")
}

/// The first digits of a SHA-256, by which people know it.
pub fn brief_hash(sha256: &str) -> &str {
    sha256.get(..12).unwrap_or(sha256)
}

/// Words in a sentence: `a, b and c`.
pub fn joined(words: &[String]) -> String {
    match words {
        [] => String::new(),
        [only] => only.clone(),
        [first @ .., last] => format!("{} and {last}", first.join(", ")),
    }
}

/// A level or a value for people: the empty one as SQL writes it.
pub fn shown(value: &str) -> &str {
    if value.is_empty() { "''" } else { value }
}

/// Groups the digits before the point of a plain decimal number by three: `-1234.5` to `-1,234.5`.
pub fn grouped(number: &str) -> String {
    let (sign, rest) = number.strip_prefix('-').map_or(("", number), |rest| ("-", rest));
    let (whole, fraction) = rest.split_once('.').map_or((rest, None), |(w, f)| (w, Some(f)));
    let mut grouped = String::from(sign);
    for (i, digit) in whole.chars().enumerate() {
        if i > 0 && (whole.len() - i).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    if let Some(fraction) = fraction {
        grouped.push('.');
        grouped.push_str(fraction);
    }
    grouped
}

/// Three significant digits, but never fewer than all digits before the point: `0.123`, `12.3`, `1,234`.
pub fn significant(x: f64) -> String {
    if !x.is_finite() {
        return "-".to_string();
    }
    if x == 0.0 {
        return "0".to_string();
    }
    // Rounded first: 9.996 has one digit before the point, its rounded value has two.
    let rounded: f64 = format!("{x:.2e}").parse().unwrap_or(x);
    let exponent = rounded.abs().log10().floor() as i32;
    let decimals = usize::try_from(2 - exponent).unwrap_or(0).min(9);
    grouped(&format!("{x:.decimals$}"))
}

/// A share as a percentage: one decimal below 10 %, none above, but as many as it needs so that a share that is not 0 or
/// 100 % is never written as such: `3.4 %`, `34 %`, `99.97 %`, `0.003 %`.
pub fn percent(share: f64) -> String {
    let value = share * 100.0;
    if !value.is_finite() {
        return "-".to_string();
    }
    let few = usize::from(value.abs() < 9.95);
    let written = |decimals: usize| format!("{value:.decimals$}");
    let is_end =
        |text: &str| text.parse().is_ok_and(|end: f64| end == 0.0 || (end == 100.0 && value < 100.0));
    let text = if value == 0.0 {
        written(few)
    } else {
        (few..=12).map(written).find(|text| !is_end(text)).unwrap_or_else(|| written(few))
    };
    format!("{} %", grouped(&text))
}

/// Bytes in binary units with their IEC names (IEC 80000-13); PostgreSQL's `MB` is a `MiB`: `16.0 MiB`.
pub fn bytes(n: f64) -> String {
    let mut x = n;
    for unit in ["B", "KiB", "MiB", "GiB", "TiB"] {
        if x.abs() < 1000.0 || unit == "TiB" {
            let digits = if unit == "B" { format!("{x:.0}") } else { significant(x) };
            return format!("{digits} {unit}");
        }
        x /= 1024.0;
    }
    unreachable!("the last unit returns")
}

/// A duration as people say it.
pub fn duration(s: f64) -> String {
    let s = s.round() as u64;
    match s {
        0..=119 => format!("{s} s"),
        120..=7199 => format!("{} min {:02} s", s / 60, s % 60),
        _ => format!("{} h {:02} min", s / 3600, s % 3600 / 60),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_share_is_rounded_to_all_or_nothing() {
        for (share, expected) in [
            (0.0, "0.0 %"),
            (1.0, "100 %"),
            (0.034, "3.4 %"),
            (0.345, "34 %"),
            (0.0997, "10 %"),
            (0.996, "99.6 %"),
            (0.9997, "99.97 %"),
            (0.999999, "99.9999 %"),
            (0.0002, "0.02 %"),
            (1.0 / 30_000.0, "0.003 %"),
            (-0.0002, "-0.02 %"),
            (1.004, "100 %"),
            (12.345, "1,234 %"),
            (f64::NAN, "-"),
        ] {
            assert_eq!(percent(share), expected, "{share}");
        }
    }

    #[test]
    fn three_digits_carry_every_magnitude() {
        for (x, expected) in [
            (0.0, "0"),
            (0.000512, "0.000512"),
            (0.1234, "0.123"),
            (3.4, "3.40"),
            (9.996, "10.0"),
            (12.34, "12.3"),
            (99.96, "100"),
            (123.4, "123"),
            (1234.5, "1,234"),
            (-1_234_567.0, "-1,234,567"),
            (f64::NAN, "-"),
        ] {
            assert_eq!(significant(x), expected, "{x}");
        }
    }

    #[test]
    fn bytes_are_shown_in_binary_units() {
        for (n, expected) in [
            (0, "0 B"),
            (512, "512 B"),
            (8192, "8.00 KiB"),
            (16_777_216, "16.0 MiB"),
            (128 << 20, "128 MiB"),
            (1536 << 20, "1.50 GiB"),
            (1023 << 20, "0.999 GiB"),
            (u64::MAX, "16,777,216 TiB"),
        ] {
            assert_eq!(bytes(n as f64), expected, "{n}");
        }
    }

    #[test]
    fn numbers_fit_into_sentences() {
        assert_eq!([plural(1, "run"), plural("2", "run"), plural(0, "run")], ["1 run", "2 runs", "0 runs"]);
        for (plain, expected) in [("-1234567.25", "-1,234,567.25"), ("999", "999"), ("1000", "1,000")] {
            assert_eq!(grouped(plain), expected);
        }
    }
}
