//! The runs over time: a sparkline of each run, which also selects the run drawn large below.

pub(super) mod across;
pub(crate) mod drawn;
pub(crate) mod live;

use analysis::summary::{RunSummary, Second, Study};

use super::data::ALL_RUNS;
use super::escape::escape_html;
use crate::axis::Axis;
use crate::html::thinning;
use crate::prose::{format, headline, phrases};

/// Points of a sparkline.
const SPARK_POINTS: usize = 160;
/// Points of all sparklines: about nine bytes each.
const SPARK_POINTS_PAGE: usize = 40_000;
/// Fewest points of a sparkline.
const SPARK_POINTS_MIN: usize = 30;
/// Size of a sparkline's coordinate system.
const SPARK: (f64, f64) = (200.0, 44.0);

/// The section; the script draws its large charts.
pub(super) fn section(study: &Study, axis: &Axis) -> String {
    let drawn: Vec<&RunSummary> = study.runs.iter().filter(|run| !run.seconds.is_empty()).collect();
    let Some(chosen) = first_choice(study) else { return String::new() };
    let highest = highest(&drawn);
    let n_points = (SPARK_POINTS_PAGE / drawn.len()).clamp(SPARK_POINTS_MIN, SPARK_POINTS);
    let decimals = if n_points < SPARK_POINTS { 0 } else { 1 };
    let may_be_one = drawn.len() <= drawn::N_DRAWN_MAX;
    let why_none = if may_be_one && across::are_side_by_side(drawn.iter().copied()) {
        " Runs took place side by side, so there is no common time line of all."
    } else {
        ""
    };
    let mut html = format!(
        "<p class=\"quiet\">Throughput of each run on one scale, 0 to {} tps. Choose a run to see it below.{why_none}</p>\n\
         <div class=\"strip\" role=\"group\" aria-label=\"Run\">\n",
        format::tps(highest)
    );
    if may_be_one && across::is_one_line(drawn.iter().copied()) {
        html.push_str(&format!(
            "<button type=\"button\" data-run=\"{ALL_RUNS}\" aria-pressed=\"false\" class=\"all\"><span><b>All runs</b> on one \
             time line</span></button>\n"
        ));
    }
    for run in &drawn {
        html.push_str(&small(
            study,
            axis,
            run,
            &Spark { highest: highest.max(1e-9), n_points, decimals },
            run.run == chosen,
        ));
    }
    html.push_str("</div>\n<div id=\"run\" role=\"region\" aria-label=\"Chosen run\"></div>\n");
    html.push_str(
        "<noscript><p class=\"banner\">Charts need JavaScript, which is disabled.</p></noscript>\n",
    );
    html
}

/// The top of the common scale, by what is drawn: the last interval, after the measurement window, may be a millisecond
/// long, and its rate says nothing.
fn highest(drawn: &[&RunSummary]) -> f64 {
    drawn.iter().flat_map(|run| under_load(run)).map(|second| second.tps).fold(0.0, f64::max)
}

/// The run shown first: the run of the best case whose throughput is closest to the median.
pub(super) fn first_choice(study: &Study) -> Option<u32> {
    let drawn = || study.runs.iter().filter(|run| !run.seconds.is_empty());
    let best = headline::best(study);
    let typical = best.and_then(|case| drawn::typical_of(study, case));
    typical.or_else(|| drawn().next()).map(|run| run.run)
}

/// The scale of all sparklines.
struct Spark {
    highest: f64,
    n_points: usize,
    /// Of coordinates: pictures of few points are as good in whole pixels.
    decimals: usize,
}

fn small(study: &Study, axis: &Axis, run: &RunSummary, spark: &Spark, pressed: bool) -> String {
    let case = study.cases.iter().find(|case| case.case.id == run.case);
    let label = case.map_or_else(|| format!("case {}", run.case), |case| case.label.clone());
    let counts = run.counts();
    let wide = if label.chars().count() > 14 { " wide" } else { "" };
    // A number that does not count is not printed as if it did; the full reason is above the large charts.
    let figure = if counts {
        format!("<span class=\"tps\">{} tps</span>", run.tps.map_or_else(|| "-".to_string(), format::tps))
    } else {
        let why = phrases::why_not(run);
        format!(
            "<span class=\"why\" title=\"{}\">{}</span>",
            escape_html(&why),
            escape_html(why.split(':').next().unwrap_or_default())
        )
    };
    format!(
        "<button type=\"button\" data-run=\"{}\" aria-pressed=\"{pressed}\" class=\"{}{wide}\">\
         <span><b>{}</b> {}</span>{figure}{}</button>\n",
        run.run,
        if counts { axis.class(run.case) } else { "void".to_string() },
        run.run,
        escape_html(&label),
        picture(run, spark)
    )
}

/// The seconds before the drain, in which throughput only falls to zero.
pub(super) fn under_load(run: &RunSummary) -> &[Second] {
    let end =
        run.seconds.iter().rposition(|second| second.measured).map_or(run.seconds.len(), |last| last + 1);
    &run.seconds[..end]
}

fn picture(run: &RunSummary, spark: &Spark) -> String {
    let Spark { highest, n_points, decimals } = *spark;
    let seconds = under_load(run);
    let end = seconds.last().map_or(1.0, |second| f64::from(second.t) + 1.0);
    let (width, height) = SPARK;
    let x = |t: f64| t / end * width;
    let points: Vec<thinning::SeriesPoint> =
        seconds.iter().map(|second| (f64::from(second.t) + 0.5, Some(second.tps))).collect();
    let y = |tps: Option<f64>| height - tps.unwrap_or(0.0).max(0.0) / highest * (height - 2.0);
    let mut path = String::new();
    for (t, tps) in thinning::thin(&points, n_points) {
        let command = if path.is_empty() { "M" } else { "L" };
        path.push_str(&format!("{command}{:.decimals$} {:.decimals$}", x(t), y(tps)));
    }
    // Nothing is drawn of a point: a single second is a line as long as it.
    if let [(_, tps)] = points[..] {
        path = format!("M0 {:.decimals$}H{width}", y(tps));
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
