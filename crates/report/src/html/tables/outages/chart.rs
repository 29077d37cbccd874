//! An outage on one time axis around its fault, as SVG without scripts: what was due and served, how long answers took, errors, and marks.

use std::fmt::Write as _;

use analysis::summary::{OutageMark, OutagePoint, OutageSummary};

use crate::html::escape::escape_html;
use crate::prose::format;

/// Size of the drawing, and where its panels begin.
const WIDTH: f64 = 960.0;
const LEFT: f64 = 58.0;
const RIGHT: f64 = 12.0;
/// Room for the names of marks, a row each, and for the title below them.
const MARK_ROW: f64 = 15.0;
const TITLE_ROW: f64 = 18.0;
const RATE_HEIGHT: f64 = 130.0;
const LATENCY_HEIGHT: f64 = 110.0;
const ERROR_HEIGHT: f64 = 50.0;
const GAP: f64 = 30.0;
/// Room for the names of the time axis.
const BELOW: f64 = 34.0;
/// Points per second.
const PER_S: f64 = 10.0;
/// Shortest latency that is distinguished, ms.
const LOG_MIN: f64 = 0.1;
/// Width of a character of a mark's name.
const CHARACTER: f64 = 6.2;

/// A panel: where it is, and what its ordinate is.
struct Panel {
    top: f64,
    height: f64,
    max: f64,
    /// Whether a decade is as high as the next, from [`LOG_MIN`] on.
    is_log: bool,
}

impl Panel {
    fn y(&self, value: f64) -> f64 {
        let share = if self.is_log {
            (value.max(LOG_MIN) / LOG_MIN).log10() / (self.max.max(1.0) / LOG_MIN).log10()
        } else {
            value / self.max.max(1e-9)
        };
        self.top + self.height * (1.0 - share.min(1.0))
    }
}

/// The abscissa.
struct TimeAxis {
    from_s: f64,
    to_s: f64,
}

impl TimeAxis {
    fn x(&self, t_s: f64) -> f64 {
        LEFT + (t_s - self.from_s) / (self.to_s - self.from_s).max(0.1) * (WIDTH - LEFT - RIGHT)
    }

    /// Whole multiples of a round number of seconds.
    fn ticks(&self) -> Vec<f64> {
        let span = self.to_s - self.from_s;
        let step = [1.0, 2.0, 5.0, 10.0, 20.0].into_iter().find(|step| span / step <= 14.0).unwrap_or(60.0);
        let first = (self.from_s / step).ceil() as i64;
        (first..).map(|n| n as f64 * step).take_while(|t_s| *t_s <= self.to_s).collect()
    }
}

/// The drawing; empty if there are no points.
pub(super) fn svg(outage: &OutageSummary, label: &str) -> String {
    let points = &outage.points;
    let (Some(first), Some(last)) = (points.first(), points.last()) else { return String::new() };
    let axis = TimeAxis { from_s: first.at_s, to_s: last.at_s + 1.0 / PER_S };
    let rows = rows_of_marks(&axis, &outage.marks);
    let n_rows = rows.iter().map(|row| row + 1).max().unwrap_or(0);

    let top = 6.0 + MARK_ROW * n_rows as f64 + TITLE_ROW;
    let most =
        points.iter().map(|point| f64::from(point.due.max(point.committed)) * PER_S).fold(1.0, f64::max);
    // The burst of what queued would flatten all else.
    let typical = outage.offered_per_s.max(1.0);
    let rate = Panel { top, height: RATE_HEIGHT, max: most.min(3.0 * typical), is_log: false };
    let slowest = points.iter().filter_map(|point| point.max_ns).max().unwrap_or(0) as f64 / 1e6;
    let max = 10f64.powf(slowest.max(10.0).log10().ceil());
    let latency = Panel { top: top + RATE_HEIGHT + GAP, height: LATENCY_HEIGHT, max, is_log: true };
    let errors = points.iter().map(|point| f64::from(point.errors) * PER_S).fold(1.0, f64::max);
    let error_top = latency.top + LATENCY_HEIGHT + GAP;
    let failed = Panel { top: error_top, height: ERROR_HEIGHT, max: errors, is_log: false };
    let bottom = error_top + ERROR_HEIGHT;

    let mut drawing = format!(
        "<div class=\"scroll\" tabindex=\"0\" role=\"group\" aria-label=\"Chart\"><svg class=\"outage\" role=\"img\" aria-label=\"{}\" \
         viewBox=\"0 0 {WIDTH} {:.0}\">",
        escape_html(label),
        bottom + BELOW
    );
    time_axis(&mut drawing, &axis, [top, bottom]);
    heading(&mut drawing, &rate, "transactions per second", rate_ticks(&rate));
    heading(&mut drawing, &latency, "from due to commit, ms; dotted: the limit", latency_ticks(&latency));
    heading(&mut drawing, &failed, "errors per second", vec![failed.max]);
    rates(&mut drawing, &axis, &rate, points);
    latencies(&mut drawing, &axis, &latency, outage);
    bars(&mut drawing, &axis, &failed, points);
    marks(&mut drawing, &axis, &outage.marks, &rows, bottom);
    drawing.push_str("</svg></div>");
    drawing.push_str(KEYS);
    drawing
}

const KEYS: &str = "<p class=\"swatches\"><span><i class=\"o-due\"></i>due</span><span><i class=\"o-served\"></i>served in time</span>\
                    <span><i class=\"o-committed\"></i>committed then</span><span><i class=\"o-median\"></i>median</span>\
                    <span><i class=\"o-longest\"></i>longest</span><span><i class=\"o-error\"></i>errors</span></p>\n";

/// Gives each mark a row below the names that its line would cross.
fn rows_of_marks(axis: &TimeAxis, marks: &[OutageMark]) -> Vec<usize> {
    let mut rows: Vec<usize> = Vec::new();
    for (n, mark) in marks.iter().enumerate() {
        let (from, _) = extent(axis, mark);
        let crossed = marks[..n].iter().zip(&rows).filter(|(before, _)| extent(axis, before).1 > from);
        rows.push(crossed.map(|(_, row)| row + 1).max().unwrap_or(0));
    }
    rows
}

/// From where to where the name of a mark goes; near the right edge it ends at its mark.
fn extent(axis: &TimeAxis, mark: &OutageMark) -> (f64, f64) {
    let (x, width) = (axis.x(mark.at_s), width(mark));
    if is_at_the_right(axis, mark) { (x - width, x) } else { (x, x + width) }
}

fn is_at_the_right(axis: &TimeAxis, mark: &OutageMark) -> bool {
    axis.x(mark.at_s) + width(mark) > WIDTH
}

/// Room for the name of a mark.
fn width(mark: &OutageMark) -> f64 {
    CHARACTER * name(mark).chars().count() as f64 + 8.0
}

fn name(mark: &OutageMark) -> String {
    if mark.at_s == 0.0 { mark.text.clone() } else { format!("{} {:.2} s", mark.text, mark.at_s) }
}

fn marks(svg: &mut String, axis: &TimeAxis, marks: &[OutageMark], rows: &[usize], bottom: f64) {
    for (mark, row) in marks.iter().zip(rows).filter(|(mark, _)| mark.at_s <= axis.to_s) {
        let (x, y) = (axis.x(mark.at_s), 12.0 + MARK_ROW * *row as f64);
        let class = if mark.at_s == 0.0 { "o-fault" } else { "o-mark" };
        let (anchor, text_x) =
            if is_at_the_right(axis, mark) { ("end", x - 4.0) } else { ("start", x + 4.0) };
        // Writing into a string cannot fail.
        let _ = write!(
            svg,
            "<path class=\"{class}\" d=\"M{x:.1} {:.1}V{bottom:.1}\"/><text x=\"{text_x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\">{}</text>",
            y - 9.0,
            escape_html(&name(mark))
        );
    }
}

fn time_axis(svg: &mut String, axis: &TimeAxis, [top, bottom]: [f64; 2]) {
    for t_s in axis.ticks() {
        let x = axis.x(t_s);
        let _ = write!(
            svg,
            "<path class=\"o-grid\" d=\"M{x:.1} {top:.1}V{bottom:.1}\"/><text x=\"{x:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{t_s:.0}</text>",
            bottom + 14.0
        );
    }
    let _ = write!(
        svg,
        "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">seconds after the fault</text>",
        (LEFT + WIDTH - RIGHT) / 2.0,
        bottom + 29.0
    );
}

/// The title of a panel, and the lines of its ordinate.
fn heading(svg: &mut String, panel: &Panel, title: &str, ticks: Vec<f64>) {
    let _ = write!(svg, "<text class=\"o-title\" x=\"{LEFT}\" y=\"{:.1}\">{title}</text>", panel.top - 6.0);
    let base = panel.top + panel.height;
    let _ = write!(svg, "<path class=\"o-axis\" d=\"M{LEFT} {base:.1}H{:.1}\"/>", WIDTH - RIGHT);
    for value in ticks {
        let y = panel.y(value);
        let _ = write!(
            svg,
            "<path class=\"o-grid\" d=\"M{LEFT} {y:.1}H{:.1}\"/><text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>",
            WIDTH - RIGHT,
            LEFT - 6.0,
            y + 4.0,
            if value < 1.0 { format!("{value}") } else { format::count(value.round() as u64) }
        );
    }
}

fn rate_ticks(panel: &Panel) -> Vec<f64> {
    let decade = 10f64.powf(panel.max.log10().floor());
    let step = [0.2, 0.5, 1.0, 2.0, 5.0].map(|n| n * decade).into_iter().find(|step| panel.max / step <= 4.0);
    let step = step.unwrap_or(decade);
    (1..=4).map(|n| f64::from(n) * step).filter(|value| *value <= panel.max).collect()
}

fn latency_ticks(panel: &Panel) -> Vec<f64> {
    (0..=9).map(|n| 10f64.powi(n - 1)).filter(|value| *value <= panel.max).collect()
}

/// A line of steps, a tenth of a second wide.
fn steps(axis: &TimeAxis, panel: &Panel, points: &[OutagePoint], of: impl Fn(&OutagePoint) -> f64) -> String {
    let mut path = String::new();
    for (n, point) in points.iter().enumerate() {
        let (from, to) = (axis.x(point.at_s), axis.x(point.at_s + 1.0 / PER_S));
        let command = if n == 0 { format!("M{from:.1} ") } else { "V".to_string() };
        let _ = write!(path, "{command}{:.1}H{to:.1}", panel.y(of(point)));
    }
    path
}

fn rates(svg: &mut String, axis: &TimeAxis, panel: &Panel, points: &[OutagePoint]) {
    let served = steps(axis, panel, points, |point| f64::from(point.served) * PER_S);
    let from = axis.x(axis.from_s);
    let base = panel.top + panel.height;
    let _ = write!(svg, "<path class=\"o-served-area\" d=\"{served}V{base:.1}H{from:.1}Z\"/>");
    let due = steps(axis, panel, points, |point| f64::from(point.due) * PER_S);
    let committed = steps(axis, panel, points, |point| f64::from(point.committed) * PER_S);
    for (class, path) in [("o-due", due), ("o-committed", committed), ("o-served", served)] {
        let _ = write!(svg, "<path class=\"{class}\" d=\"{path}\"/>");
    }
    for point in points.iter().filter(|point| f64::from(point.committed) * PER_S > panel.max) {
        let x = axis.x(point.at_s + 0.5 / PER_S);
        let _ = write!(
            svg,
            "<text x=\"{:.1}\" y=\"{:.1}\">↑ {}</text>",
            x + 4.0,
            panel.top + 10.0,
            format::count((f64::from(point.committed) * PER_S) as u64)
        );
    }
}

fn latencies(svg: &mut String, axis: &TimeAxis, panel: &Panel, outage: &OutageSummary) {
    let dots = |of: fn(&OutagePoint) -> Option<u64>| {
        let mut path = String::new();
        for point in &outage.points {
            if let Some(ns) = of(point) {
                let (x, y) = (axis.x(point.at_s + 0.5 / PER_S), panel.y(ns as f64 / 1e6));
                let _ = write!(path, "M{x:.1} {y:.1}h0");
            }
        }
        path
    };
    let limit = panel.y(outage.limit_ns as f64 / 1e6);
    let _ = write!(svg, "<path class=\"o-limit\" d=\"M{LEFT} {limit:.1}H{:.1}\"/>", WIDTH - RIGHT);
    let _ = write!(svg, "<path class=\"o-longest\" d=\"{}\"/>", dots(|point| point.max_ns));
    let _ = write!(svg, "<path class=\"o-median\" d=\"{}\"/>", dots(|point| point.p50_ns));
}

fn bars(svg: &mut String, axis: &TimeAxis, panel: &Panel, points: &[OutagePoint]) {
    let base = panel.top + panel.height;
    let mut path = String::new();
    for point in points.iter().filter(|point| point.errors > 0) {
        let (from, to) = (axis.x(point.at_s), axis.x(point.at_s + 1.0 / PER_S));
        let _ = write!(
            path,
            "M{from:.1} {base:.1}V{:.1}H{to:.1}V{base:.1}Z",
            panel.y(f64::from(point.errors) * PER_S)
        );
    }
    let _ = write!(svg, "<path class=\"o-error\" d=\"{path}\"/>");
}
