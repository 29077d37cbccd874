//! The comparison part of the page: the verdict, the pairs, and the differences between A and B.

use analysis::comparison::{
    CaseComparison, ComparedFigure, ComparisonPurpose, ComparisonVerdict, Difference, FigureComparison,
    FigureSample, Pairing,
};
use analysis::finding::Severity;
use serde::Serialize;

use super::escape::escape_html;
use super::scripts::{self, statements};
use super::{ChartFigure as Drawing, lead, table};
use crate::html::tables::{costs, outages};
use crate::html::thinning;
use crate::prose::condense::{About, FindingGroup, Occurrence};
use crate::prose::{format, phrases};
use crate::{ComparisonInput, comparison};

/// With more comparisons than this, only the deciding figure is drawn.
const ALL_FIGURES_MAX: usize = 6;

/// The heading of the pairs, and for each side those of its findings and its disclosure.
pub(super) fn headings(purpose: ComparisonPurpose) -> (&'static str, [[&'static str; 2]; 2]) {
    match purpose {
        ComparisonPurpose::Change => {
            ("A and B", [["Findings of A", "Disclosure of A"], ["Findings of B", "Disclosure of B"]])
        }
        ComparisonPurpose::Repeat => (
            "Theirs and here",
            [["Findings of theirs", "Disclosure of theirs"], ["Findings here", "Disclosure here"]],
        ),
    }
}

/// Verdict, names of both sides, and the figures that say how far to trust it.
pub(super) fn head(input: &ComparisonInput) -> String {
    let mut html = String::new();
    for case in input.cases {
        html.push_str(&format!(
            "<p class=\"verdict {}\">{} {}</p>\n",
            class(case.verdict()),
            escape_html(&phrases::capital(&comparison::verdict(case))),
            lead::badge(case.grade)
        ));
        for sentence in comparison::sentences(case) {
            html.push_str(&format!("<p>{}.</p>\n", escape_html(&phrases::capital(&sentence))));
        }
        html.push_str(&sides(input, case));
    }
    if let [case] = input.cases {
        html.push_str(&tiles(input, case));
    }
    if let Some(floor) = input.floor {
        html.push_str(&format!(
            "<p class=\"quiet\">{}</p>\n",
            escape_html(&phrases::capital(&comparison::noise_floor(floor)))
        ));
    }
    html
}

fn class(verdict: Option<ComparisonVerdict>) -> &'static str {
    match verdict {
        Some(ComparisonVerdict::Faster) => "faster",
        Some(ComparisonVerdict::Slower) => "slower",
        Some(ComparisonVerdict::Same) => "same",
        Some(ComparisonVerdict::Unsure) | None => "unsure",
    }
}

fn sides(input: &ComparisonInput, case: &CaseComparison) -> String {
    let names = |side: usize, label: &str| match input.experiments {
        [_] => escape_html(&phrases::one_line(label)),
        [a, b, ..] => {
            let name = if side == 0 { &a.name } else { &b.name };
            format!(
                "{} <span class=\"why\">{}</span>",
                escape_html(&phrases::one_line(label)),
                escape_html(name)
            )
        }
        [] => String::new(),
    };
    let [name_a, name_b] = case.purpose.names();
    format!(
        "<dl class=\"sides\"><dt class=\"c0\">{name_a}</dt><dd>{}</dd><dt class=\"c1\">{name_b}</dt><dd>{}</dd></dl>\n",
        names(0, &case.a),
        names(1, &case.b)
    )
}

fn tiles(input: &ComparisonInput, case: &CaseComparison) -> String {
    let ratio = case.leading();
    let bare = |text: String| text.replace(" %", "");
    let without = if ratio.is_none() { ", no verdict" } else { "" };
    let what = format!("{}, {}{without}", comparison::against(case.purpose), case.lead.as_str());
    let [of_a, of_b] = case.purpose.owners();
    let provisional = case.leading_figure().and_then(|figure| figure.provisional);
    let shown = ratio.map(|ratio| ratio.ratio).or(provisional.map(|found| found.ratio));
    let n = case.n_pairs.to_string();
    let (n, pairs) = match (case.pairing, comparison::n_runs(case)) {
        (Pairing::Blocks, _) => (n, "pairs of runs".to_string()),
        (Pairing::Slices, _) => (n, "pairs of slices".to_string()),
        (Pairing::Rounds, _) => (n, "rounds".to_string()),
        (Pairing::None, [a, b]) if a == b => (a.to_string(), "runs of each side, not paired".to_string()),
        (pairing, [a, b]) => {
            (format!("{a} and {b}"), format!("{}s {of_a} and {of_b}, not paired", pairing.noun()))
        }
    };
    let tiles = [
        (shown.map(|ratio| bare(comparison::signed(ratio - 1.0))), "%", what.as_str()),
        (ratio.map(|ratio| bare(comparison::interval(ratio))), "%", "95 % interval"),
        (Some(n), "", pairs.as_str()),
        (
            ratio.and_then(|ratio| ratio.detectable).map(|share| bare(comparison::percent(share))),
            "%",
            "smallest detectable difference",
        ),
        (Some(bare(comparison::percent(case.margin))), "%", "difference that does not matter"),
        (
            input.floor.map(|floor| format!("±{}", bare(comparison::percent(floor.half_width)))),
            "%",
            "noise floor of the host (A/A)",
        ),
    ];
    lead::tiles(tiles.into_iter().filter_map(|(value, unit, name)| Some((value?, unit, name))))
}

/// The chart of pairs and the table of figures of each comparison.
pub(super) fn pairs(input: &ComparisonInput) -> String {
    let mut html = String::new();
    let is_drawn = |case: &CaseComparison, figure: &FigureComparison| {
        !figure.sample.a.is_empty() && (input.cases.len() <= ALL_FIGURES_MAX || figure.figure == case.lead)
    };
    for (n, case) in input.cases.iter().enumerate() {
        if input.cases.len() > 1 {
            html.push_str(&format!("<h3>{}</h3>", escape_html(&phrases::one_line(&case.a))));
        }
        html.push_str(&figures_table(case));
        if let Some(why) = comparison::why_otherwise(case) {
            html.push_str(&format!("<p class=\"quiet\">{}.</p>\n", escape_html(&why)));
        }
        html.push_str(&outages::compared(case));
        html.push_str(&costs::compared(case));
        html.push_str(&scripts::compared(case));
        html.push_str(&statements::compared(case));
        for (what, value) in comparison::supplement(case) {
            let line = format!("Besides the verdict: {what}: {value}.");
            html.push_str(&format!("<p class=\"quiet\">{}</p>\n", escape_html(&line)));
        }
        let drawn: Vec<&FigureComparison> =
            case.figures.iter().filter(|figure| is_drawn(case, figure)).collect();
        let (leading, others): (Vec<&FigureComparison>, Vec<_>) =
            drawn.into_iter().partition(|figure| figure.figure == case.lead);
        leading.iter().for_each(|figure| html.push_str(&drawing(n, case, figure, "mid")));
        html.push_str("<div class=\"trio\">");
        others.iter().for_each(|figure| html.push_str(&drawing(n, case, figure, "mid")));
        html.push_str("</div>\n");
    }
    html
}

fn figures_table(case: &CaseComparison) -> String {
    let rows: Vec<Vec<String>> = case
        .figures
        .iter()
        .map(|figure| {
            let [change, verdict] = comparison::change(figure, case);
            let values =
                [figure.a_median, figure.b_median].map(|v| comparison::value(case, figure.figure, v));
            vec![
                figure.figure.as_str().to_string(),
                escape_html(&values[0]),
                escape_html(&values[1]),
                escape_html(&change),
                escape_html(&verdict),
            ]
        })
        .collect();
    let [median_a, median_b] = comparison::medians(case.purpose);
    let ratio = comparison::ratio_head(case.purpose);
    table("figures", &["Figure", &median_a, &median_b, &ratio, "Verdict"], &rows)
}

fn drawing(n: usize, case: &CaseComparison, figure: &FigureComparison, height: &str) -> String {
    let sample = &figure.sample;
    let number = |value: f64| escape_html(&comparison::value(case, figure.figure, Some(value)));
    let noun = phrases::capital(case.pairing.noun());
    let ([name_a, name_b], [of_a, _]) = (case.purpose.names(), case.purpose.owners());
    let against = comparison::against(case.purpose);
    let (heads, rows): (Vec<&str>, Vec<Vec<String>>) = if !case.pairing.is_paired() {
        let longest = sample.a.len().max(sample.b.len());
        let at = |list: &[f64], i: usize| list.get(i).map_or(String::new(), |value| number(*value));
        let row = |i: usize| vec![(i + 1).to_string(), at(&sample.a, i), at(&sample.b, i)];
        (vec![&noun, name_a, name_b], (0..longest).map(row).collect())
    } else {
        let row = |i: usize| {
            let change = comparison::signed(sample.ratios[i] - 1.0);
            vec![sample.pairs[i].to_string(), number(sample.a[i]), number(sample.b[i]), escape_html(&change)]
        };
        (vec!["Pair", name_a, name_b, &against], (0..sample.pairs.len()).map(row).collect())
    };
    let each = match case.pairing {
        Pairing::RoundsApart | Pairing::None => {
            format!("each {} against the median {of_a}", case.pairing.noun())
        }
        _ => format!("{against} in each pair, in order"),
    };
    let note = format!("{each}; band: 95 % interval; grey: the margin");
    let title = match figure.figure {
        ComparedFigure::Throughput => "Throughput".to_string(),
        ComparedFigure::Ratio => "Ratio of each round".to_string(),
        latency => format!("Latency, {}", latency.as_str()),
    };
    Drawing {
        id: &chart_id(n, figure.figure),
        title: &title,
        note: &note,
        height,
        table: &table("plain", &heads, &rows),
    }
    .html()
}

fn chart_id(n: usize, figure: ComparedFigure) -> String {
    format!("ratio-{n}-{}", figure.as_str())
}

/// The differences, and the findings about the comparison itself.
pub(super) fn differences(input: &ComparisonInput) -> String {
    let mut html = String::new();
    for case in input.cases {
        if input.cases.len() > 1 {
            html.push_str(&format!("<h3>{}</h3>", escape_html(&phrases::one_line(&case.a))));
        }
        html.push_str(&difference_table(case));
        if !case.findings.is_empty() {
            html.push_str("<ul class=\"findings\">\n");
            for found in &case.findings {
                let group = FindingGroup {
                    id: found.id,
                    severity: found.severity,
                    delays: false,
                    found: vec![Occurrence::new(About::Comparison, found)],
                };
                html.push_str(&lead::finding(&group, 0));
            }
            html.push_str("</ul>\n");
        }
    }
    html
}

fn difference_table(case: &CaseComparison) -> String {
    let row = |difference: &Difference, why: &str| {
        let cells = [&difference.what, &difference.a, &difference.b];
        let mut cells: Vec<String> = cells.map(|cell| escape_html(&phrases::one_line(cell))).to_vec();
        cells.push(why.to_string());
        cells
    };
    let undeclared = |difference: &Difference| match difference.severity {
        Severity::Note => "not declared: note",
        Severity::Doubt => "not declared: doubt",
        Severity::Void => "not declared: void",
    };
    let mut rows: Vec<Vec<String>> = case.undeclared.iter().map(|d| row(d, undeclared(d))).collect();
    rows.extend(case.declared.iter().map(|d| row(d, "declared")));
    rows.extend(case.defaults.iter().map(|d| row(d, "default of the server")));
    if rows.is_empty() {
        let [a, b] = case.purpose.names();
        return format!("<p class=\"quiet\">No recorded fact differs between {a} and {b}.</p>\n");
    }
    let [a, b] = case.purpose.names();
    table("text", &["What", a, b, "Asked for"], &rows)
}

/// Data of the chart of one figure of one comparison.
#[derive(Debug, Serialize)]
pub(super) struct RatioData {
    id: String,
    title: String,
    /// What A and B are called, and what belongs to them.
    names: [&'static str; 2],
    owners: [&'static str; 2],
    unit: &'static str,
    /// What is one value: `Pair`, `Run`.
    noun: String,
    /// Numbers of the pairs; empty if runs are not paired.
    pairs: Vec<u32>,
    a: Vec<f64>,
    b: Vec<f64>,
    /// B against A for each pair, in per cent; without pairs, each run of B against the median of A.
    percent: Vec<f64>,
    /// A's runs against their median, in per cent, if runs are not paired.
    of_a: Vec<f64>,
    /// Low end, estimate and high end in per cent.
    interval: Option<[f64; 3]>,
    /// The margin that does not matter, in per cent.
    margin: [f64; 2],
}

/// Chart data of all comparisons.
pub(super) fn data(cases: &[CaseComparison]) -> Vec<RatioData> {
    let of_case = |(n, case): (usize, &CaseComparison)| {
        case.figures.iter().map(move |figure| ratio_data(n, case, figure)).collect::<Vec<_>>()
    };
    cases.iter().enumerate().flat_map(of_case).collect()
}

fn ratio_data(n: usize, case: &CaseComparison, figure: &FigureComparison) -> RatioData {
    let FigureSample { pairs, a, b, ratios } = &figure.sample;
    let percent = |ratio: f64| thinning::rounded(100.0 * (ratio - 1.0)).unwrap_or(0.0);
    let (unit, scale) = match figure.figure {
        ComparedFigure::Throughput => ("tps", 1.0),
        ComparedFigure::Ratio => ("times", 1.0),
        ComparedFigure::P50 | ComparedFigure::P95 | ComparedFigure::P99 => ("ms", 1e-6),
    };
    let values = |list: &[f64]| list.iter().filter_map(|v| thinning::rounded(scale * v)).collect();
    let of_median = |list: &[f64]| match figure.a_median.filter(|_| pairs.is_empty()) {
        Some(median) => list.iter().map(|value| percent(value / median)).collect(),
        None => Vec::new(),
    };
    RatioData {
        id: chart_id(n, figure.figure),
        title: figure.figure.as_str().to_string(),
        names: case.purpose.names(),
        owners: case.purpose.owners(),
        unit,
        noun: phrases::capital(case.pairing.noun()),
        pairs: pairs.clone(),
        a: values(a),
        b: values(b),
        percent: if pairs.is_empty() { of_median(b) } else { ratios.iter().map(|r| percent(*r)).collect() },
        of_a: of_median(a),
        interval: figure.result.map(|ratio| [ratio.low, ratio.ratio, ratio.high].map(percent)),
        margin: [percent(1.0 / (1.0 + case.margin)), percent(1.0 + case.margin)],
    }
}

/// When the runs of a comparison were planned, for the header.
pub(super) fn made(input: &ComparisonInput) -> String {
    let moments = input.experiments.iter().map(|one| format::utc(one.study.plan.made_unix_ns));
    moments.collect::<Vec<_>>().join(" and ")
}
