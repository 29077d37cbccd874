//! Comparisons in words.

use analysis::comparison::{CostComparison, FamilyRatio, FamilyVerdict, FigureSample};
use analysis::finding::Grade;

use super::*;

pub(super) fn ratio(ratio: f64, low: f64, high: f64, verdict: ComparisonVerdict) -> Ratio {
    let (detectable, more_pairs) = (Some(0.017), None);
    Ratio { ratio, low, high, level: 0.95, verdict, p: 0.01, p_adjusted: 0.01, detectable, more_pairs }
}

/// A comparison of two cases by one figure.
pub(super) fn compared(a: &str, b: &str, figure: FigureComparison) -> CaseComparison {
    CaseComparison {
        purpose: ComparisonPurpose::Change,
        a: a.to_string(),
        b: b.to_string(),
        pairing: Pairing::Blocks,
        n_pairs: 10,
        margin: 0.02,
        is_analytical: false,
        lead: figure.figure,
        more_with: "--pairs",
        figures: vec![figure],
        costs: Vec::new(),
        outages: Vec::new(),
        scripts: Vec::new(),
        statements: Default::default(),
        applied: [None, None],
        carry_over: None,
        supplement: Default::default(),
        declared: Vec::new(),
        defaults: Vec::new(),
        undeclared: Vec::new(),
        disturbed: Vec::new(),
        findings: Vec::new(),
        grade: Grade::Valid,
    }
}

/// The comparison as it is with these values and without a result.
pub(super) fn with_sample(mut case: CaseComparison, sample: FigureSample) -> CaseComparison {
    let FigureComparison { figure, a_median, b_median, .. } = case.figures[0];
    case.figures = vec![FigureComparison::new(figure, a_median, b_median, None, sample, case.pairing)];
    case
}

fn case(
    change: f64,
    low: f64,
    high: f64,
    verdict: ComparisonVerdict,
    more_pairs: Option<usize>,
) -> CaseComparison {
    let figure = FigureComparison {
        figure: ComparedFigure::Throughput,
        a_median: Some(1000.0),
        b_median: Some(1041.0),
        result: Some(Ratio { more_pairs, ..ratio(change, low, high, verdict) }),
        provisional: None,
        sample: FigureSample::default(),
    };
    compared("version 15", "version 18", figure)
}

#[test]
fn verdicts_read_as_they_should() {
    let check = |case: &CaseComparison, expected: &str| assert_eq!(verdict(case), expected);
    check(
        &case(1.041, 1.029, 1.053, ComparisonVerdict::Faster, None),
        "B is 4.1 % faster (95 % interval +2.9 to +5.3 %, 10 pairs)",
    );
    check(
        &case(0.959, 0.947, 0.971, ComparisonVerdict::Slower, None),
        "B is 4.1 % slower (95 % interval -5.3 to -2.9 %, 10 pairs)",
    );
    check(
        &case(1.001, 0.995, 1.009, ComparisonVerdict::Same, None),
        "no difference larger than 2 % (95 % interval -0.50 to +0.90 %, 10 pairs)",
    );
    check(
        &case(1.011, 0.988, 1.034, ComparisonVerdict::Unsure, Some(12)),
        "undecided: B is 1.1 % faster than A, -1.2 to +3.4 %; about 12 more pairs would settle it",
    );
    check(
        &case(1.011, 0.988, 1.034, ComparisonVerdict::Unsure, Some(1)),
        "undecided: B is 1.1 % faster than A, -1.2 to +3.4 %; about 1 more pair would settle it",
    );
    let mut of_latency = case(1.041, 1.029, 1.053, ComparisonVerdict::Slower, None);
    of_latency.lead = ComparedFigure::P99;
    of_latency.figures[0].figure = ComparedFigure::P99;
    check(&of_latency, "B is 4.1 % slower by p99 (95 % interval +2.9 to +5.3 %, 10 pairs)");
    let mut one_of_many = case(1.041, 1.029, 1.053, ComparisonVerdict::Faster, None);
    one_of_many.figures[0].result.as_mut().expect("it is there").p_adjusted = 0.2;
    assert!(
        verdict(&one_of_many)
            .starts_with("undecided: B is 4.1 % faster than A, +2.9 to +5.3 % (10 pairs); it would differ")
    );
    let mut none = case(1.0, 1.0, 1.0, ComparisonVerdict::Same, None);
    (none.more_with, none.pairing) = ("--repeats", Pairing::None);
    for (n_a, n_b, expected) in [
        (
            3,
            3,
            "no verdict: B is 10 % slower than A by the medians, and no run of B is as fast as one of A; 3 runs each give none: it \
             takes 4 of each (measure both again with --repeats 4)",
        ),
        (
            2,
            3,
            "no verdict: B is 10 % slower than A by the medians, and no run of B is as fast as one of A; 2 and 3 runs give none: it \
             takes 4 of each (measure both again with --repeats 4)",
        ),
        (0, 0, "no verdict: 0 runs each"),
        (0, 2, "no verdict: 0 and 2 runs"),
    ] {
        let sample = FigureSample { a: vec![1000.0; n_a], b: vec![900.0; n_b], ..FigureSample::default() };
        check(&with_sample(none.clone(), sample), expected);
    }
    // A comparison in rounds is continued.
    let mut rounds = none.clone();
    (rounds.more_with, rounds.pairing) = ("--rounds", Pairing::RoundsApart);
    let sample = FigureSample { a: vec![1000.0; 2], b: vec![900.0; 3], ..FigureSample::default() };
    let said = verdict(&with_sample(rounds, sample));
    assert!(said.ends_with(" give none: 2 more of A and 1 more of B are needed (--rounds 4)"), "{said}");
    let apart = FigureSample { a: vec![150.0, 158.0], b: vec![760.0, 768.0], ..FigureSample::default() };
    check(
        &with_sample(none.clone(), apart),
        "no verdict: B is 5.0 times as fast as A by the medians, and no run of A is as fast as one of B; 2 runs each give none: it takes 4 \
         of each (measure both again with --repeats 4)",
    );
    let overlapping =
        FigureSample { a: vec![100.0, 300.0], b: vec![150.0, 350.0], ..FigureSample::default() };
    check(
        &with_sample(none.clone(), overlapping),
        "no verdict: B is 25 % faster than A by the medians, but their runs overlap; 2 runs each give none: it takes 4 of each \
         (measure both again with --repeats 4)",
    );
}

#[test]
fn of_a_repetition_the_original_is_what_needs_more_runs() {
    let mut again = case(1.0, 1.0, 1.0, ComparisonVerdict::Same, None);
    (again.more_with, again.pairing, again.purpose) = ("--repeats", Pairing::None, ComparisonPurpose::Repeat);
    let sample = FigureSample { a: vec![150.0, 158.0], b: vec![760.0, 768.0], ..FigureSample::default() };
    let again = with_sample(again, sample);
    let said = verdict(&again);
    let end = "it takes 4 of each (measure the original with --repeats 4, and repeat that)";
    assert!(said.ends_with(end), "{said}");
    let shown = text(&again, None, (200, false));
    assert!(!shown.contains("by the medians"), "the statement on it says that: {shown}");
}

#[test]
fn fewer_pairs_than_a_verdict_needs_say_which_way_they_point() {
    for (lead, ratios, expected) in [
        (
            ComparedFigure::Throughput,
            vec![2.0, 2.2, 2.3, 2.3],
            "provisional: B is 2.2 times as fast as A in 4 of 4 pairs (2.0x to 2.3x); 4 pairs give no verdict: 2 more are needed \
             (--pairs 6)",
        ),
        (
            ComparedFigure::Throughput,
            vec![4.96],
            "provisional: B is 5.0 times as fast as A in 1 of 1 pair; one pair gives no verdict: 5 more are needed (--pairs 6)",
        ),
        (
            ComparedFigure::Throughput,
            vec![0.2],
            "provisional: B is 80 % slower than A in 1 of 1 pair; one pair gives no verdict: 5 more are needed (--pairs 6)",
        ),
        (
            ComparedFigure::P99,
            vec![1.3, 1.3],
            "provisional: B has a p99 30 % above that of A in 2 of 2 pairs (1.300x to 1.300x); 2 pairs give no verdict: 4 more are \
             needed (--pairs 6)",
        ),
    ] {
        let mut few = case(1.0, 1.0, 1.0, ComparisonVerdict::Same, None);
        (few.figures[0].figure, few.lead) = (lead, lead);
        let few = with_sample(few, FigureSample { ratios, ..FigureSample::default() });
        assert_eq!(verdict(&few), expected);
    }
}

#[test]
fn pairs_that_disagree_have_no_provisional_ratio() {
    let mut few = case(1.0, 1.0, 1.0, ComparisonVerdict::Same, None);
    (few.n_pairs, few.pairing) = (3, Pairing::Blocks);
    let few = with_sample(few, FigureSample { ratios: vec![0.52, 2.76, 0.76], ..FigureSample::default() });
    assert_eq!(
        verdict(&few),
        "no verdict yet: B is 2.9 % faster than A on average, and between 0.520x and 2.8x in 3 pairs; 3 more are needed (--pairs 6)"
    );
}

#[test]
fn a_change_that_points_the_other_way_than_the_medians_is_explained() {
    let mut case = case(1.028, 1.001, 1.053, ComparisonVerdict::Faster, None);
    assert_eq!(why_otherwise(&case), None);
    (case.figures[0].a_median, case.figures[0].b_median) = (Some(2470.0), Some(2389.0));
    let why = why_otherwise(&case).expect("the signs differ");
    assert_eq!(
        why,
        "the ratio is estimated pair by pair (Hodges-Lehmann), so it can disagree with the two medians, as it does for throughput"
    );
    assert!(text(&case, None, (200, false)).contains(&why));
    let narrow = text(&case, None, (80, false));
    assert!(narrow.lines().all(|line| line.chars().count() <= 80), "{narrow}");
    assert!(narrow.replace('\n', " ").contains(&why), "{narrow}");
    case.figures[0].result = None;
    assert_eq!(why_otherwise(&case), None);
}

#[test]
fn the_text_names_figures_floor_and_the_smallest_difference() {
    let floor = NoiseFloor {
        t_unix_ns: 1_760_000_000_000_000_000,
        hostname: "bench1".to_string(),
        workload: "tpcb".to_string(),
        n_clients: 8,
        n_pairs: 12,
        figure: ComparedFigure::Throughput,
        half_width: 0.012,
        detectable: None,
    };
    let text = text(&case(1.041, 1.029, 1.053, ComparisonVerdict::Faster, None), Some(&floor), (100, false));
    for expected in [
        "\n                 A, median     B, median   B to A\n",
        "throughput       1,000 tps     1,041 tps   +4.1 % (+2.9 to +5.3 %)  faster",
        "differences below 1.7 % would probably be missed",
        "noise floor of bench1, measured 2025-10-09 08:53 UTC: ±1.2 % over 12 A/A pairs (tpcb, 8 clients)",
    ] {
        assert!(text.contains(expected), "{text}");
    }
}

#[test]
fn costs_stand_below_the_figures_and_those_that_differ_below_the_verdict() {
    let cost = |id: &'static str, medians: [f64; 2], ends: [f64; 3], verdict: FamilyVerdict| CostComparison {
        id,
        a_median: medians[0],
        b_median: medians[1],
        n_pairs: 10,
        margin: 0.01,
        result: Some(FamilyRatio {
            low: ends[0],
            ratio: ends[1],
            high: ends[2],
            p: 1e-6,
            p_adjusted: 1e-5,
            detectable: None,
        }),
        verdict: Some(verdict),
    };
    let mut case = case(1.041, 0.96, 1.12, ComparisonVerdict::Unsure, Some(9));
    case.costs = vec![
        cost("cpu", [212.0, 209.0], [0.97, 0.99, 1.02], FamilyVerdict::Unsure),
        cost("wal", [412.0, 463.0], [1.121, 1.124, 1.127], FamilyVerdict::More),
        cost("blocks", [25.0, 20.0], [0.799, 0.8, 0.801], FamilyVerdict::Less),
        cost("reads", [0.001, 0.002], [1.0, 2.0, 3.0], FamilyVerdict::Same),
        cost("temporary", [0.0, 5e6], [4e6, 5e6, 6e6], FamilyVerdict::More),
    ];
    let text = text(&case, None, (100, false));
    let expected = "per transaction, B writes 12.4 % (±0.3) more WAL, touches 20 % (±0.1) fewer blocks and writes bytes\nof temporary files where there was next to none (4.77 MiB)\n";
    assert!(text.contains(expected), "{text}");
    for row in [
        "processor time         212 µs     209 µs   -1.0 % (-3.0 to +2.0 %)  undecided\n",
        "WAL                     412 B      463 B   +12.4 % (+12.1 to +12.7 %)  more\n",
        "blocks touched           25.0       20.0   -20.0 % (-20.1 to -19.9 %)  less\n",
        "temporary files           0 B   4.77 MiB   from next to nothing  more\n",
    ] {
        assert!(text.contains(row), "{text}");
    }
    assert!(!text.contains("blocks read"), "nobody asks for next to nothing: {text}");
    assert!(text.lines().all(|line| line.chars().count() <= 100), "{text}");
}
