//! Whether results that were measured again agree with the original ones, in a sentence.

use analysis::comparison::{CaseComparison, ComparedFigure, ComparisonVerdict, FigureComparison, Ratio};

use super::{interval, n_runs, percent, signed, value};
use crate::prose::phrases;

/// The statement on one case: A is the original, B the repetition.
pub(crate) fn statement(case: &CaseComparison) -> String {
    let statement = match (case.leading(), case.verdict()) {
        (Some(ratio), Some(verdict)) => of_verdict(case, ratio, verdict),
        _ => without_verdict(case),
    };
    format!("{}: {statement}", phrases::one_line(&case.b))
}

fn of_verdict(case: &CaseComparison, ratio: &Ratio, verdict: ComparisonVerdict) -> String {
    let (of_ratio, ratios) = (case.lead == ComparedFigure::Ratio, ratios(case));
    // A ratio is said before what is said about it.
    let of = if of_ratio { format!("{ratios},") } else { case.lead.as_str().to_string() };
    let level = (100.0 * ratio.level).round();
    let interval = format!("{level:.0} % interval {}", interval(ratio));
    let change = percent((ratio.ratio - 1.0).abs());
    match verdict {
        ComparisonVerdict::Same => {
            let differ = if of_ratio { "which differ" } else { "differs" };
            format!("agrees: {of} {differ} by no more than {} ({interval})", percent(case.margin))
        }
        // Holm's correction for several cases took the verdict.
        ComparisonVerdict::Unsure if ratio.verdict != ComparisonVerdict::Unsure => format!(
            "undecided: {of} {} ({interval}) would differ if this were the only case; among several it may be chance, and \
             more runs would tell",
            signed(ratio.ratio - 1.0)
        ),
        ComparisonVerdict::Unsure => {
            let missed = ratio.detectable.map_or_else(String::new, |share| {
                format!("; a difference below {} would probably be missed", percent(share))
            });
            format!("agrees within noise: {of} {} ({interval}){missed}", signed(ratio.ratio - 1.0))
        }
        ComparisonVerdict::Faster if of_ratio => {
            format!("differs: {ratios}, {change} higher here ({interval})")
        }
        ComparisonVerdict::Slower if of_ratio => {
            format!("differs: {ratios}, {change} lower here ({interval})")
        }
        ComparisonVerdict::Faster => format!("differs: {change} faster here, by {of} ({interval})"),
        ComparisonVerdict::Slower => format!("differs: {change} slower here, by {of} ({interval})"),
    }
}

/// The medians of the ratios of two duets: `ratio 1.035x here and 1.041x there`.
fn ratios(case: &CaseComparison) -> String {
    let figure = case.figures.iter().find(|figure| figure.figure == ComparedFigure::Ratio);
    figure.map_or_else(String::new, |figure| {
        let [here, there] =
            [figure.b_median, figure.a_median].map(|median| value(case, ComparedFigure::Ratio, median));
        format!("ratio {here} here and {there} there")
    })
}

/// Too few runs for an interval: the ranges are all that can be said.
fn without_verdict(case: &CaseComparison) -> String {
    let Some(found) = case.figures.iter().find(|figure| figure.figure == case.lead) else {
        return NOTHING.to_string();
    };
    let FigureComparison { a_median: Some(theirs), b_median: Some(ours), .. } = *found else {
        return NOTHING.to_string();
    };
    let [low, high] = range(&found.sample.a);
    let is_within = found.sample.b.iter().all(|value| (low..=high).contains(value));
    let noun = case.pairing.noun();
    let place = match (is_within, ours < low || ours > high) {
        (true, _) => format!("all {noun}s lie within those of the original"),
        (false, false) => format!("the median lies within the {noun}s of the original"),
        (false, true) => format!("the median lies outside of the {noun}s of the original"),
    };
    let n = match n_runs(case) {
        [there, here] if there == here => format!("{} on each side", phrases::plural(here, noun)),
        [there, here] => format!("{} here and {there} there", phrases::plural(here, noun)),
    };
    let of = if case.lead == ComparedFigure::Ratio { "ratio " } else { "" };
    format!(
        "no verdict with {n}: {of}{} here and {} there ({}); {place}",
        value(case, case.lead, Some(ours)),
        value(case, case.lead, Some(theirs)),
        signed(ours / theirs - 1.0)
    )
}

const NOTHING: &str = "no verdict: one of both has no run that counts";

fn range(values: &[f64]) -> [f64; 2] {
    let fold = |of: fn(f64, f64) -> f64, from| values.iter().copied().fold(from, of);
    [fold(f64::min, f64::INFINITY), fold(f64::max, f64::NEG_INFINITY)]
}

#[cfg(test)]
mod tests {
    use analysis::comparison::{FigureSample, Pairing};

    use super::*;
    use crate::comparison::tests::{self, compared};

    fn case(result: Option<Ratio>, ours: [f64; 3]) -> CaseComparison {
        let sample =
            FigureSample { a: vec![990.0, 1000.0, 1020.0], b: ours.to_vec(), ..FigureSample::default() };
        let (a_median, b_median) = (Some(1000.0), Some(ours[1]));
        let figure = FigureComparison {
            figure: ComparedFigure::Throughput,
            a_median,
            b_median,
            result,
            provisional: None,
            sample,
        };
        let case = compared("8 clients", "8 clients", figure);
        CaseComparison { pairing: Pairing::None, n_pairs: 3, ..case }
    }

    #[test]
    fn a_repetition_agrees_differs_or_is_too_short() {
        let check = |case: &CaseComparison, expected: &str| assert_eq!(statement(case), expected);
        let ratio = |verdict, ratio, low, high| {
            Some(Ratio { detectable: Some(0.041), ..tests::ratio(ratio, low, high, verdict) })
        };
        let with = |result| case(result, [990.0, 1000.0, 1010.0]);
        check(
            &with(ratio(ComparisonVerdict::Same, 1.001, 0.995, 1.009)),
            "8 clients: agrees: throughput differs by no more than 2 % (95 % interval -0.50 to +0.90 %)",
        );
        check(
            &with(ratio(ComparisonVerdict::Unsure, 0.987, 0.952, 1.024)),
            "8 clients: agrees within noise: throughput -1.3 % (95 % interval -4.8 to +2.4 %); a difference below 4.1 % would \
             probably be missed",
        );
        check(
            &with(ratio(ComparisonVerdict::Slower, 0.9, 0.88, 0.93)),
            "8 clients: differs: 10 % slower here, by throughput (95 % interval -12.0 to -7.0 %)",
        );
        let mut one_of_many = with(ratio(ComparisonVerdict::Faster, 1.5, 1.2, 2.0));
        one_of_many.figures[0].result.as_mut().unwrap().p_adjusted = 0.06;
        check(
            &one_of_many,
            "8 clients: undecided: throughput +50.0 % (95 % interval +20.0 to +100.0 %) would differ if this were the only \
             case; among several it may be chance, and more runs would tell",
        );
        for (ours, place) in [
            ([991.0, 995.0, 1019.0], "all runs lie within those of the original"),
            ([900.0, 995.0, 1019.0], "the median lies within the runs of the original"),
            ([900.0, 950.0, 1000.0], "the median lies outside of the runs of the original"),
        ] {
            let said = statement(&case(None, ours));
            assert!(said.starts_with("8 clients: no verdict with 3 runs on each side: "), "{said}");
            assert!(said.contains(" tps here and 1,000 tps there (-") && said.ends_with(place), "{said}");
        }
        let mut duet = with(ratio(ComparisonVerdict::Unsure, 0.994, 0.979, 1.010));
        (duet.lead, duet.pairing) = (ComparedFigure::Ratio, Pairing::RoundsApart);
        let of_duet = &mut duet.figures[0];
        (of_duet.figure, of_duet.a_median, of_duet.b_median) =
            (ComparedFigure::Ratio, Some(1.041), Some(1.035));
        check(
            &duet,
            "8 clients: agrees within noise: ratio 1.035x here and 1.041x there, -0.60 % (95 % interval -2.1 to +1.0 %); a \
             difference below 4.1 % would probably be missed",
        );
        let verdict = |duet: &mut CaseComparison, verdict| {
            duet.figures[0].result.as_mut().unwrap().verdict = verdict;
            statement(duet)
        };
        assert!(
            verdict(&mut duet, ComparisonVerdict::Same)
                .contains("and 1.041x there, which differ by no more than 2 % (")
        );
        let said = verdict(&mut duet, ComparisonVerdict::Slower);
        assert!(said.contains("differs: ratio 1.035x here and 1.041x there, 0.60 % lower here ("), "{said}");
        duet.figures[0].result = None;
        duet.figures[0].sample =
            FigureSample { a: vec![1.03, 1.05], b: vec![1.04], ..FigureSample::default() };
        assert_eq!(
            statement(&duet),
            "8 clients: no verdict with 1 round here and 2 there: ratio 1.035x here and 1.041x there (-0.58 %); all rounds lie \
             within those of the original"
        );
        let mut uneven = case(None, [900.0, 950.0, 1000.0]);
        uneven.figures[0].sample.b.pop();
        let said = statement(&uneven);
        assert!(said.contains(": no verdict with 2 runs here and 3 there: "), "{said}");
        assert!(
            statement(&CaseComparison { figures: Vec::new(), ..case(None, [1.0; 3]) })
                .ends_with("that counts")
        );
    }
}
