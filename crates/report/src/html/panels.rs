//! The charts of one run on a common time axis: the driver's view, then host and server below it.

use std::collections::BTreeSet;

use analysis::summary::{RunSummary, Second, Series};

use super::timeline::under_load;
use crate::html::thinning::{self, Point};
use crate::prose::phrases;

/// More processors than this are drawn as a range.
const MAX_CORES: usize = 8;

/// The panels from the analysis, in drawing order; others follow.
const PANELS: [&str; 15] = [
    "cpu",
    "disk",
    "wal",
    "waits",
    "server",
    "psi",
    "memory",
    "net",
    "remote_cpu",
    "remote_disk",
    "remote_net",
    "remote_memory",
    "driver",
    "driver_host_cpu",
    "driver_host_net",
];

/// One chart of a run.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Panel {
    /// Title for people.
    pub(super) title: String,
    /// Unit of the values.
    pub(super) unit: String,
    /// Whether the value axis is logarithmic.
    pub(super) log: bool,
    /// How colours are chosen: `case`, `percentile`, `error`, `cores`, `share` (stacked) or `plain`.
    pub(super) palette: &'static str,
    pub(super) lines: Vec<Line>,
}

/// One line of a chart.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Line {
    /// Name for the legend.
    pub(super) name: String,
    /// Points in the order of time.
    pub(super) points: Vec<Point>,
}

/// All charts of a run that have a point.
pub(super) fn of(run: &RunSummary) -> Vec<Panel> {
    let mut panels = vec![throughput(run), latency(run)];
    if run.seconds.iter().any(|second| second.errors > 0) {
        let line = per_second(&run.seconds, "errors", |second| Some(second.errors as f64));
        panels.push(Panel {
            title: "Errors".to_string(),
            unit: "per second".to_string(),
            log: false,
            palette: "error",
            lines: vec![line],
        });
    }
    panels.extend(telemetry(&run.series));
    panels.retain(|panel| panel.lines.iter().any(|line| line.points.iter().any(|point| point.1.is_some())));
    panels
}

fn throughput(run: &RunSummary) -> Panel {
    Panel {
        title: "Throughput".to_string(),
        unit: "tps".to_string(),
        log: false,
        palette: "case",
        lines: vec![per_second(under_load(run), "tps", |second| Some(second.tps))],
    }
}

fn latency(run: &RunSummary) -> Panel {
    let ms = |ns: Option<u64>| ns.map(|ns| ns as f64 / 1e6);
    Panel {
        title: "Latency".to_string(),
        unit: "ms".to_string(),
        log: true,
        palette: "percentile",
        lines: vec![
            per_second(&run.seconds, "p50", |second| ms(second.p50_ns)),
            per_second(&run.seconds, "p95", |second| ms(second.p95_ns)),
            per_second(&run.seconds, "p99", |second| ms(second.p99_ns)),
            per_second(&run.seconds, "max", |second| ms(second.max_ns)),
        ],
    }
}

fn per_second(seconds: &[Second], name: &str, value: impl Fn(&Second) -> Option<f64>) -> Line {
    // A value is drawn in the middle of its second.
    let points = seconds.iter().map(|second| (f64::from(second.t) + 0.5, value(second))).collect();
    Line { name: name.to_string(), points }
}

/// Telemetry by panel and unit, in a fixed order of panels, so that all runs look the same.
fn telemetry(series: &[Series]) -> Vec<Panel> {
    let (cores, others): (Vec<&Series>, Vec<&Series>) =
        series.iter().partition(|s| s.panel == "cpu" && is_core(&s.name));
    let mut panels = Vec::new();
    if !cores.is_empty() {
        panels.push(Panel {
            title: "Processors".to_string(),
            unit: cores[0].unit.clone(),
            log: false,
            palette: if cores.len() > MAX_CORES { "percentile" } else { "cores" },
            lines: if cores.len() > MAX_CORES {
                range_of(&cores)
            } else {
                cores.iter().map(|s| line(s)).collect()
            },
        });
    }
    let mut keys: Vec<(&str, &str)> = Vec::new();
    for s in &others {
        if !keys.contains(&(s.panel.as_str(), s.unit.as_str())) {
            keys.push((&s.panel, &s.unit));
        }
    }
    keys.sort_by_key(|(panel, _)| PANELS.iter().position(|known| known == panel).unwrap_or(usize::MAX));
    for (panel, unit) in keys {
        let lines = others.iter().filter(|s| s.panel == panel && s.unit == unit).map(|s| line(s)).collect();
        let (title, mut palette) = describe(panel, unit);
        let mut lines: Vec<Line> = lines;
        if palette == "share" && !align(&mut lines) {
            palette = "plain";
        }
        panels.push(Panel { title, unit: unit_words(unit), log: false, palette, lines });
    }
    panels
}

fn is_core(name: &str) -> bool {
    name.strip_prefix("cpu").is_some_and(|n| !n.is_empty() && n.bytes().all(|b| b.is_ascii_digit()))
}

fn describe(panel: &str, unit: &str) -> (String, &'static str) {
    match (panel, unit) {
        ("cpu", _) => ("CPU by user".to_string(), "share"),
        ("remote_cpu", _) => ("CPU by mode (exporter)".to_string(), "share"),
        ("driver_host_cpu", _) => ("Driver's host: CPU by user".to_string(), "share"),
        ("net", _) => ("Network".to_string(), "plain"),
        ("remote_net", _) => ("Network (exporter)".to_string(), "plain"),
        ("driver_host_net", _) => ("Driver's host: network".to_string(), "plain"),
        ("remote_memory", _) => ("Memory (exporter)".to_string(), "plain"),
        ("remote_disk", "MiB/s") => ("Disk throughput (exporter)".to_string(), "plain"),
        ("remote_disk", "IOPS") => ("Disk operations (exporter)".to_string(), "plain"),
        ("remote_disk", _) => ("Disk busy (exporter)".to_string(), "plain"),
        ("disk", "MiB/s") => ("Disk throughput".to_string(), "plain"),
        ("disk", "IOPS") => ("Disk operations".to_string(), "plain"),
        ("disk", "%") => ("Disk busy".to_string(), "plain"),
        ("disk", "ms") => ("Disk latency".to_string(), "plain"),
        ("wal", _) => ("WAL written".to_string(), "plain"),
        ("waits", _) => ("Wait events of sessions".to_string(), "plain"),
        ("server", _) => ("Sessions".to_string(), "plain"),
        ("psi", _) => ("Pressure: time during which tasks waited".to_string(), "plain"),
        ("driver", _) => ("Driver".to_string(), "plain"),
        _ => (phrases::capital(&phrases::of_id(panel)), "plain"),
    }
}

fn unit_words(unit: &str) -> String {
    if unit == "1" { String::new() } else { unit.to_string() }
}

fn line(series: &Series) -> Line {
    let points =
        series.points.iter().map(|(t, value)| (*t, Some(*value).filter(|v| v.is_finite()))).collect();
    Line { name: series.name.clone(), points }
}

/// Keeps the times that all lines share, because only those can be stacked; returns `false` and changes nothing if that
/// would lose much.
fn align(lines: &mut [Line]) -> bool {
    let times = |line: &Line| line.points.iter().map(|point| point.0.to_bits()).collect::<BTreeSet<u64>>();
    let longest = lines.iter().map(|line| line.points.len()).max().unwrap_or(0);
    let Some(common) = lines.iter().map(times).reduce(|a, b| &a & &b) else { return false };
    if common.len() * 10 < longest * 9 {
        return false;
    }
    for line in lines {
        line.points.retain(|point| common.contains(&point.0.to_bits()));
    }
    true
}

/// Thins lines that are stacked: all at the same times, where their sum is extreme.
pub(super) fn thin_together(lines: &[Line], limit: usize) -> Vec<Vec<Point>> {
    let n_points = lines.iter().map(|line| line.points.len()).min().unwrap_or(0);
    let sums: Vec<Point> = (0..n_points)
        .map(|i| (i as f64, Some(lines.iter().filter_map(|line| line.points[i].1).sum())))
        .collect();
    let kept = thinning::thin(&sums, limit);
    lines.iter().map(|line| kept.iter().map(|(i, _)| line.points[*i as usize]).collect()).collect()
}

/// Many processors as three lines: the least busy, the median and the busiest at each moment.
fn range_of(cores: &[&Series]) -> Vec<Line> {
    let n_points = cores.iter().map(|core| core.points.len()).min().unwrap_or(0);
    let names = ["idlest", "middle", "busiest"];
    let mut lines = names.map(|name| Line { name: format!("{name} of {}", cores.len()), points: Vec::new() });
    for i in 0..n_points {
        let mut values: Vec<f64> =
            cores.iter().map(|core| core.points[i].1).filter(|v| v.is_finite()).collect();
        values.sort_by(f64::total_cmp);
        let picks = [values.first(), values.get(values.len() / 2), values.last()];
        for (line, pick) in lines.iter_mut().zip(picks) {
            line.points.push((cores[0].points[i].0, pick.copied()));
        }
    }
    lines.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_processors_become_their_range() {
        let cores: Vec<Series> = (0..16)
            .map(|i| Series {
                panel: "cpu".to_string(),
                name: format!("cpu{i}"),
                unit: "%".to_string(),
                points: vec![(0.5, f64::from(i)), (1.5, f64::from(i) * 2.0)],
            })
            .collect();
        let panels = telemetry(&cores);
        assert_eq!(panels.len(), 1);
        let names: Vec<&str> = panels[0].lines.iter().map(|line| line.name.as_str()).collect();
        assert_eq!(names, ["idlest of 16", "middle of 16", "busiest of 16"]);
        assert_eq!(panels[0].lines[2].points, [(0.5, Some(15.0)), (1.5, Some(30.0))]);
    }

    #[test]
    fn panels_stand_in_a_fixed_order() {
        let series = |panel: &str, name: &str, unit: &str| Series {
            panel: panel.to_string(),
            name: name.to_string(),
            unit: unit.to_string(),
            points: vec![(0.5, 1.0)],
        };
        let panels = telemetry(&[
            series("wal", "wal", "MiB/s"),
            series("disk", "reads", "IOPS"),
            series("cpu", "server", "%"),
            series("new", "x", "1"),
            series("cpu", "cpu0", "%"),
            series("disk", "writes", "IOPS"),
        ]);
        let titles: Vec<&str> = panels.iter().map(|panel| panel.title.as_str()).collect();
        assert_eq!(titles, ["Processors", "CPU by user", "Disk operations", "WAL written", "New"]);
        assert_eq!(panels[2].lines.len(), 2);
    }
}
