//! How far off a figure can be, in words: `±5 %, mostly from steal`.

use analysis::budget;
use analysis::finding::{Finding, Grade};
use analysis::summary::uncertainty::{Contribution, Quality, Uncertainty};
use analysis::summary::{CaseSummary, Study};
use model::text::prose::grouped;

use crate::prose::scripts::queries;
use crate::prose::{condense, format, headline, phrases};

/// Causes that are named after a figure, at most, and the smallest part of the largest one that is worth it.
const CAUSES_MAX: usize = 2;
const WORTH_NAMING: f64 = 0.25;

/// `±5 %`, or `±30 %, rough` by this precision; a dash if it is unknown.
pub(crate) fn good_to(uncertainty: Option<&Uncertainty>, precision: f64) -> String {
    uncertainty.map_or_else(|| "-".to_string(), |known| words(known.good_to(), precision))
}

/// The same of a share.
pub(crate) fn words(good_to: f64, precision: f64) -> String {
    let rough = if Quality::new(good_to, precision) == Quality::Rough { ", rough" } else { "" };
    format!("{}{rough}", plus_minus(good_to))
}

/// A share from which on nothing but that is known: `±863 %` would pass for a number.
const UNKNOWN: f64 = 1.0;

/// `±5 %`.
pub(crate) fn plus_minus(good_to: f64) -> String {
    if good_to < UNKNOWN { format!("±{}", share(good_to)) } else { "over ±100 %".to_string() }
}

/// A share with one digit below 1 % and above it none: an uncertainty has no more.
pub(crate) fn share(share: f64) -> String {
    match 100.0 * share {
        _ if share >= UNKNOWN => "over 100 %".to_string(),
        percent if percent < 0.95 => format!("{percent:.1} %"),
        percent => format!("{} %", grouped(&format!("{percent:.0}"))),
    }
}

/// `runs differ (9 %), steal (6 %)`; empty if the case has no figure.
pub(crate) fn causes(case: &CaseSummary) -> String {
    let Some(known) = &case.uncertainty else { return String::new() };
    // Where the rate is given, the latency is the answer.
    let budget = match &known.p99 {
        Some(of_latency) if case.has_given_rate() => &of_latency.budget,
        _ => &known.throughput.budget,
    };
    let largest = budget.first().map_or(0.0, Contribution::good_to);
    let worth = budget.iter().filter(|row| row.good_to() >= WORTH_NAMING * largest);
    let words = |row: &Contribution| format!("{} ({})", title(row), share(row.good_to()));
    worth.take(CAUSES_MAX).map(words).collect::<Vec<String>>().join(", ")
}

/// What a finding can have done to the throughput, to go on with after its evidence; empty if nothing bounds it.
pub(crate) fn effect(finding: &Finding) -> String {
    let Some(effect) = finding.effect else { return String::new() };
    let [lower, higher] = [effect.low, effect.high].map(|ratio| (ratio - 1.0).abs() >= NOTICEABLE);
    let would_be = match (lower, higher) {
        (false, false) => return "; it did not change the throughput".to_string(),
        // The bound is drawn wide, so that a large one is no number.
        (false, true) if effect.high >= MANY_TIMES => {
            return "; without it the throughput could be many times as high".to_string();
        }
        (false, true) => format!("up to {}", change(effect.high)),
        (true, false) => format!("up to {}", change(effect.low)),
        (true, true) => format!("between {} and {}", change(effect.low), change(effect.high)),
    };
    format!("; without it the throughput would be {would_be}")
}

/// From this ratio on, a bound says that little is known.
const MANY_TIMES: f64 = 5.0;

/// A change of the throughput that is too small to be written, as a share.
const NOTICEABLE: f64 = 5e-5;

/// `12 % higher`, `3 % lower`, `10 times as high`.
fn change(ratio: f64) -> String {
    match ratio {
        _ if ratio >= 9.95 => format!("{ratio:.0} times as high"),
        _ if ratio >= 2.0 => format!("{ratio:.1} times as high"),
        _ if ratio > 1.0 => format!("{} higher", share(ratio - 1.0)),
        _ => format!("{} lower", share(1.0 - ratio)),
    }
}

/// What a row of a budget is in a few words.
pub(crate) fn title(row: &Contribution) -> &'static str {
    budget::row(row.id).map_or("the search", |row| row.title)
}

/// What stands behind a case's figures: its verdict and the reasons, if it is not valid; what its uncertainty comes from; and which of its
/// runs are left out.
pub(crate) fn remarks(study: &Study, case: &CaseSummary) -> String {
    let reasons = condense::reasons(study, case).join("; ");
    let is_valid = case.grade == Grade::Valid;
    let verdict = match (is_valid, reasons.as_str()) {
        (true, _) => String::new(),
        (false, "") => case.verdict().to_string(),
        (false, reasons) => format!("{}: {reasons}", case.verdict()),
    };
    let left_out = if is_valid { reasons } else { String::new() };
    let parts = [verdict, causes(case), left_out];
    parts.into_iter().filter(|part| !part.is_empty()).collect::<Vec<String>>().join("; ")
}

/// `undisturbed, 16 clients: 2,250 to 2,480 tps`, for the best case of a study. `None` if that is not valid: then nobody knows how far
/// off it is.
pub(crate) fn undisturbed(study: &Study) -> Option<String> {
    let best = headline::best(study).filter(|best| best.grade == Grade::Valid)?;
    let (known, median) = best.uncertainty.as_ref().map(|known| &known.throughput).zip(best.tps_median)?;
    // A rate that was asked for is the same, disturbed or not.
    if known.good_to() >= UNKNOWN || best.has_given_rate() {
        return None;
    }
    let [low, high] = [known.low, known.high].map(|ratio| format::tps(median * ratio));
    let unit = if best.capacity.is_some() { "transactions per second" } else { queries::unit(best) };
    let of =
        if study.cases.len() > 1 { format!(", {}", phrases::one_line(&best.label)) } else { String::new() };
    let why = known.budget.first().map_or(String::new(), |row| format!(" ({})", row.evidence));
    Some(format!("undisturbed{of}: {low} to {high} {unit}{why}"))
}

#[cfg(test)]
mod tests {
    use analysis::finding::{Effect, Severity};

    use super::*;

    #[test]
    fn an_effect_says_in_which_direction() {
        let finding = |low, high| Finding {
            id: "steal",
            severity: Severity::Note,
            evidence: String::new(),
            advice: String::new(),
            effect: Some(Effect { row: "steal", low, high }),
        };
        for (low, high, expected) in [
            (1.0, 1.0, "; it did not change the throughput"),
            (1.0, 10.0, "; without it the throughput could be many times as high"),
            (1.0, 1.12, "; without it the throughput would be up to 12 % higher"),
            (0.97, 1.0, "; without it the throughput would be up to 3 % lower"),
            (0.97, 1.004, "; without it the throughput would be between 3 % lower and 0.4 % higher"),
        ] {
            assert_eq!(effect(&finding(low, high)), expected);
        }
    }

    #[test]
    fn what_is_as_large_as_the_figure_is_no_number() {
        for (good_to, expected) in [(0.004, "±0.4 %"), (0.05, "±5 %"), (0.99, "±99 %")] {
            assert_eq!(plus_minus(good_to), expected);
        }
        for good_to in [1.0, 8.63] {
            assert_eq!(
                (plus_minus(good_to).as_str(), share(good_to).as_str()),
                ("over ±100 %", "over 100 %")
            );
        }
        assert_eq!(words(8.63, 0.05), "over ±100 %, rough");
    }
}
