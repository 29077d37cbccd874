//! Numbers in sentences, the same in findings, reports and messages.

use std::fmt::Display;

/// A number and its noun: `1 run`, `3 runs`.
pub fn plural(n: impl Display, noun: &str) -> String {
    let n = n.to_string();
    let ending = if n == "1" { "" } else { "s" };
    format!("{n} {noun}{ending}")
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_fit_into_sentences() {
        assert_eq!([plural(1, "run"), plural("2", "run"), plural(0, "run")], ["1 run", "2 runs", "0 runs"]);
        for (plain, expected) in [("-1234567.25", "-1,234,567.25"), ("999", "999"), ("1000", "1,000")] {
            assert_eq!(grouped(plain), expected);
        }
    }
}
