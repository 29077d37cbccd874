//! The runs over time: a small picture of each that is also the choice of the run drawn large below.

use analysis::summary::{RunSummary, Study};

use super::escape::text;
use crate::axis::Axis;
use crate::{format, headline, sample, words};

/// Points of a small picture.
const SPARK_POINTS: usize = 160;
/// Size of a small picture's coordinate system.
const SPARK: (f64, f64) = (200.0, 44.0);

/// The section; its large charts are made by the script.
pub(super) fn section(study: &Study, axis: &Axis) -> String {
    let drawn: Vec<&RunSummary> = study.runs.iter().filter(|run| !run.seconds.is_empty()).collect();
    let Some(chosen) = first_choice(study) else { return String::new() };
    let highest = drawn.iter().flat_map(|run| &run.seconds).map(|second| second.tps).fold(0.0, f64::max);
    let mut html = format!(
        "<p class=\"quiet\">Throughput of each run on one scale, 0 to {} tps. Choose a run to see it below.</p>\n\
         <div class=\"strip\" role=\"group\" aria-label=\"Run\">\n",
        format::tps(highest)
    );
    for run in &drawn {
        html.push_str(&small(study, axis, run, highest.max(1e-9), run.run == chosen));
    }
    html.push_str("</div>\n<div id=\"run\" aria-live=\"polite\"></div>\n");
    html.push_str("<noscript><p class=\"banner\">Charts need the page's own script, which is switched off.</p></noscript>\n");
    html
}

/// The run shown first: of the best case the one whose throughput is closest to the median.
pub(super) fn first_choice(study: &Study) -> Option<u32> {
    let drawn = || study.runs.iter().filter(|run| !run.seconds.is_empty());
    let best = headline::best(study);
    let typical = best.and_then(|case| {
        let median = case.tps_median?;
        let distance = |run: &&RunSummary| (run.tps.unwrap_or(f64::INFINITY) - median).abs();
        drawn()
            .filter(|run| run.case == case.case.id && words::run_counts(run))
            .min_by(|a, b| distance(a).total_cmp(&distance(b)))
    });
    typical.or_else(|| drawn().next()).map(|run| run.run)
}

fn small(study: &Study, axis: &Axis, run: &RunSummary, highest: f64, pressed: bool) -> String {
    let case = study.cases.iter().find(|case| case.case.id == run.case);
    let label = case.map_or_else(|| format!("case {}", run.case), |case| case.label.clone());
    let colour = axis.places.get(&run.case).map_or(0, |place| place.colour);
    let counts = words::run_counts(run);
    let tps = run.tps.map_or_else(|| "-".to_string(), format::tps);
    let why = if counts { String::new() } else { format!(" <em>{}</em>", text(&why_not(run))) };
    format!(
        "<button type=\"button\" data-run=\"{}\" aria-pressed=\"{pressed}\" class=\"{}\">\
         <span><b>{}</b> {}{why}</span><span class=\"tps\">{tps} tps</span>{}</button>\n",
        run.run,
        if counts { format!("c{colour}") } else { "void".to_string() },
        run.run,
        text(&label),
        picture(run, highest)
    )
}

/// Why a run does not count, in few words.
pub(super) fn why_not(run: &RunSummary) -> String {
    if run.state != model::plan::RunState::Completed {
        return match run.reason.as_str() {
            "" => words::of_state(run.state).to_string(),
            reason => format!("{}: {reason}", words::of_state(run.state)),
        };
    }
    let voids = run.findings.iter().filter(|f| f.severity == analysis::finding::Severity::Void);
    let ids: Vec<String> = voids.map(|finding| words::of_id(finding.id)).collect();
    if ids.is_empty() { "nothing was measured".to_string() } else { format!("void: {}", ids.join(", ")) }
}

fn picture(run: &RunSummary, highest: f64) -> String {
    let end = run.seconds.last().map_or(1.0, |second| f64::from(second.t) + 1.0);
    let (width, height) = SPARK;
    let x = |t: f64| t / end * width;
    let points: Vec<sample::Point> =
        run.seconds.iter().map(|second| (f64::from(second.t) + 0.5, Some(second.tps))).collect();
    let mut path = String::new();
    for (t, tps) in sample::thin(&points, SPARK_POINTS) {
        let y = height - tps.unwrap_or(0.0).max(0.0) / highest * (height - 2.0);
        path.push_str(&format!("{}{:.1} {y:.1}", if path.is_empty() { "M" } else { "L" }, x(t)));
    }
    let marks: String = run
        .marks
        .iter()
        .filter(|mark| mark.kind == "checkpoint" && mark.to_s > 0.0)
        .map(|mark| {
            let from = x(mark.from_s.max(0.0));
            let length = (x(mark.to_s.min(end)) - from).max(1.0);
            format!("<rect class=\"checkpoint\" x=\"{from:.1}\" width=\"{length:.1}\" height=\"{height}\"/>")
        })
        .collect();
    let ramp = run.seconds.iter().find(|second| second.measured).map_or(0.0, |second| x(f64::from(second.t)));
    format!(
        "<svg viewBox=\"0 0 {width} {height}\" preserveAspectRatio=\"none\" aria-hidden=\"true\">\
         <rect class=\"ramp\" width=\"{ramp:.1}\" height=\"{height}\"/>{marks}<path d=\"{path}\"/></svg>"
    )
}
