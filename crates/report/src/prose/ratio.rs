//! How B stands to A by a ratio, in words.

use analysis::comparison::{ComparedFigure, FamilyRatio, FamilyVerdict};

use crate::prose::format;

/// From here on a ratio is said as a multiple.
const TIMES_MIN: f64 = 2.0;
/// The difference of the two sides of an interval, over half its length, from which on `±` would mislead: our convention.
const SKEWED: f64 = 0.2;

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

/// A ratio of a family with its interval: `+12.4 % (+12.1 to +12.7 %)`.
pub(crate) fn of_family(found: &FamilyRatio) -> String {
    let [low, high, change] = [found.low, found.high, found.ratio].map(|one| format::signed(one - 1.0));
    format!("{change} ({} to {high})", low.trim_end_matches(" %"))
}

/// The size of such a difference without its direction: `12.4 % (±0.3)`, or `12.4 % (9.1 to 18.0)` where the ends of its interval are not
/// equally far away.
pub(crate) fn size(found: &FamilyRatio) -> String {
    let change = percent((found.ratio - 1.0).abs());
    let [below, above] = [found.ratio - found.low, found.high - found.ratio].map(|part| 100.0 * part);
    let half = (below + above) / 2.0;
    if (above - below).abs() > SKEWED * half && half >= 0.5 {
        let [a, b] = [found.low, found.high].map(|end| 100.0 * (end - 1.0).abs());
        return format!("{change} ({:.1} to {:.1})", a.min(b), a.max(b));
    }
    let half = if half < 0.095 { format!("{half:.2}") } else { format!("{half:.1}") };
    format!("{change} (±{half})")
}

/// The word for a verdict that says nothing of a difference.
pub(crate) fn undecided(verdict: Option<FamilyVerdict>, margin: f64) -> String {
    match verdict {
        Some(FamilyVerdict::Same) => format!("no difference larger than {}", percent(margin)),
        Some(_) => "undecided".to_string(),
        None => "no verdict".to_string(),
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
