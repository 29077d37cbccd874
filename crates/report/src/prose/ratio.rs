//! How B stands to A by a ratio, in words.

use analysis::comparison::ComparedFigure;

/// From here on a ratio is said as a multiple.
const TIMES_MIN: f64 = 2.0;

/// B against `other` by the ratio B to A of a figure: `is 5.0 times as fast as A`, `is 12 % slower than A`.
pub(crate) fn stands(figure: ComparedFigure, ratio: f64, other: &str) -> String {
    let change = percent((ratio - 1.0).abs());
    let word = figure.as_str();
    match figure {
        ComparedFigure::Throughput if ratio >= TIMES_MIN => format!("is {ratio:.1} times as fast as {other}"),
        ComparedFigure::Throughput if ratio >= 1.0 => format!("is {change} faster than {other}"),
        ComparedFigure::Throughput => format!("is {change} slower than {other}"),
        _ if ratio >= TIMES_MIN => format!("has {ratio:.1} times the {word} of {other}"),
        _ if ratio >= 1.0 => format!("has a {word} {change} above that of {other}"),
        _ => format!("has a {word} {change} below that of {other}"),
    }
}

/// Small numbers as words.
pub(crate) fn in_words(n: usize) -> String {
    let words = ["no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine"];
    words.get(n).map_or_else(|| n.to_string(), ToString::to_string)
}

/// A share as a percentage with as few digits as it needs: `2 %`, `4.1 %`, `0.35 %`.
pub(crate) fn percent(share: f64) -> String {
    let percent = 100.0 * share;
    let text = if percent < 0.995 { format!("{percent:.2}") } else { format!("{percent:.1}") };
    format!("{} %", text.strip_suffix(".0").unwrap_or(&text))
}
