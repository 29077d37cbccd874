//! The scalability panel: growth to the peak, the decline after it, and the fitted law, which the chart of throughput
//! draws over the medians.

use analysis::case::factors::{self, Scaling};
use analysis::summary::scalability::{EstimatedFigure as Number, Fit, Scalability};
use analysis::summary::{CaseSummary, Study};
use serde::Serialize;

use crate::axis::{self, Axis};
use crate::html::escape::escape_html;
use crate::html::{table, thinning};
use crate::prose::scalability::others;
use crate::prose::{format, phrases};

/// With more groups in a panel, the curves would hide the lines of the medians.
const CURVES_MAX: usize = 4;

/// The law of one curve, drawn over the medians of its group.
#[derive(Debug, Serialize)]
pub(in crate::html) struct CurveData {
    /// Number of the group on the axis of clients.
    group: usize,
    /// Clients and throughput.
    curve: Vec<(f64, f64)>,
    /// Clients and throughput at its peak.
    peak: Option<(f64, f64)>,
}

/// The fitted laws of a study that its chart of throughput draws.
pub(in crate::html) fn data(study: &Study, axis: &Axis) -> Vec<CurveData> {
    let has_room = |group: &usize| {
        let panel = axis.series[*group].panel;
        axis.series.iter().filter(|series| series.panel == panel).count() <= CURVES_MAX
    };
    let fitted = study.scalability.iter().filter_map(|one| Some((one, one.fit.as_ref()?)));
    fitted
        .filter_map(|(one, fit)| {
            let is_of =
                |key: &String, level: &String, case: &CaseSummary| case.case.levels.get(key) == Some(level);
            let case = study
                .cases
                .iter()
                .find(|case| one.others.iter().all(|(key, level)| is_of(key, level, case)))?;
            Some(CurveData {
                group: Some(axis.places.get(&case.case.id)?.group).filter(has_room)?,
                curve: fit.curve.iter().map(|point| (point.0, rounded(point.1))).collect(),
                peak: fit.peak_clients.and_then(|clients| Some((clients.point, fit.peak_tps?.point))),
            })
        })
        .collect()
}

fn rounded(x: f64) -> f64 {
    thinning::rounded(x).unwrap_or(x)
}

/// The panel; empty unless the number of clients varies.
pub(super) fn panel(study: &Study) -> String {
    let scaling = factors::scaling(study);
    if scaling.is_empty() {
        return String::new();
    }
    let heads =
        ["Factors", "Fewest", "tps", "Peak", "tps", "Most", "tps", "Growth", "Drop factor after the peak"];
    let rows: Vec<Vec<String>> = scaling.iter().map(scaling_row).collect();
    format!(
        "<h3>Scalability</h3><p class=\"quiet\">Growth: peak ÷ throughput at the fewest clients. Drop factor: peak ÷ throughput at the most clients; \
         1.00 if it never drops.</p>{}\n{}",
        table("plain", &heads, &rows),
        law(study)
    )
}

fn scaling_row(scaling: &Scaling) -> Vec<String> {
    let level = |(key, level): (&String, &String)| format!("{} {level}", axis::factor_words(key));
    let others: Vec<String> = scaling.others.iter().map(level).collect();
    let others = if others.is_empty() { "all".to_string() } else { others.join(", ") };
    let of = |(n_clients, tps): (u32, f64)| [phrases::plural(n_clients, "client"), format::tps(tps)];
    let mut row = vec![others];
    row.extend([scaling.first, scaling.peak, scaling.last].map(of).into_iter().flatten());
    row.push(format!("{:.2}", scaling.growth()));
    row.push(format!("{:.2}", scaling.drop_factor()));
    row.iter().map(|cell| escape_html(cell)).collect()
}

/// The fitted law: its table, and its limits.
fn law(study: &Study) -> String {
    if study.scalability.iter().all(|one| one.points.len() < 2) {
        return String::new();
    }
    let heads = ["Factors", "λ, tps", "σ", "κ", "Peak, clients", "Peak, tps", "Explained", "Worst miss"];
    let rows: Vec<Vec<String>> =
        study.scalability.iter().filter_map(|one| Some(fit_row(one, one.fit.as_ref()?))).collect();
    // What is true of all is said once.
    let shared = |remark: &String| study.scalability.iter().all(|one| one.remarks.contains(remark));
    let first = study.scalability.iter().take(1).flat_map(|one| &one.remarks);
    let of_all = first.filter(|remark| study.scalability.len() > 1 && shared(remark));
    let of_one = study
        .scalability
        .iter()
        .flat_map(|one| one.remarks.iter().map(move |remark| (one, remark)))
        .filter(|(_, remark)| study.scalability.len() == 1 || !shared(remark));
    let remarks: String =
        of_all
            .map(|remark| format!("<li>All: {}</li>", escape_html(remark)))
            .chain(of_one.map(|(one, remark)| {
                format!("<li>{}: {}</li>", escape_html(&others(one)), escape_html(remark))
            }))
            .collect();
    let remarks = if remarks.is_empty() { remarks } else { format!("<ul class=\"quiet\">{remarks}</ul>\n") };
    // The chart of throughput draws the law over the medians.
    let fitted = match rows.as_slice() {
        [] => String::new(),
        rows => format!(
            "<p class=\"quiet\">The fitted law: X(n) = λ n / (1 + σ (n − 1) + κ n (n − 1)), the universal scalability law.</p>{}",
            table("plain", &heads, rows)
        ),
    };
    format!("{fitted}\n{remarks}")
}

fn fit_row(one: &Scalability, fit: &Fit) -> Vec<String> {
    let with = |number: &Number, words: fn(f64) -> String| match number.interval {
        Some((low, high)) => format!("{} ({} to {})", words(number.point), words(low), words(high)),
        None => words(number.point),
    };
    let of = |number: Option<Number>, words: fn(f64) -> String| {
        number.map_or("none".to_string(), |number| with(&number, words))
    };
    let (n, off) = fit.worst;
    [
        others(one),
        with(&fit.lambda, format::tps),
        with(&fit.sigma, format::significant),
        with(&fit.kappa, format::significant),
        of(fit.peak_clients, format::significant),
        of(fit.peak_tps, format::tps),
        format::percent(fit.explained),
        format!("{:+.1} % at {}", 100.0 * off, phrases::plural(n, "client")),
    ]
    .iter()
    .map(|cell| escape_html(cell))
    .collect()
}
