//! The charts of one run on a common time axis: the driver's view, then host and server below it.

use std::collections::BTreeSet;

use analysis::run::imports::PANEL;
use analysis::run::series::STANDBY_PANEL;
use analysis::summary::{ResourceUsage, RunSummary, Second, TelemetrySeries};
use serde::Serialize;

use super::timeline::under_load;
use crate::html::thinning::{self, SeriesPoint};
use crate::prose::phrases;

/// More processors than this are drawn as a range.
const MAX_CORES: usize = 8;
/// Resources that are drawn against their ceilings, those that were used most.
const MAX_RESOURCES: usize = 8;

/// The panels from the analysis that show what limited the run; they stand before those of processors.
const LIMITS: [&str; 2] = ["sessions", "ceilings"];

/// The other panels from the analysis, in drawing order; others follow.
const PANELS: [&str; 24] = [
    "pooler",
    "cpu",
    "disk",
    "wal",
    "wal_images",
    "wal_directory",
    "archiver",
    STANDBY_PANEL,
    "standby_cpu",
    "waits",
    "server",
    "psi",
    "memory",
    "frequency",
    "ipc",
    "memory_bandwidth",
    "net",
    "remote_cpu",
    "remote_disk",
    "remote_net",
    "remote_memory",
    "driver",
    "driver_host_cpu",
    "driver_host_net",
];

/// The palette of a heat map.
pub(super) const HEAT: &str = "heat";
/// Most cells of a heat map.
const CELLS_MAX: usize = 4000;
/// Most cells of a row, and the fewest.
const CELLS_OF_ROW: (usize, usize) = (240, 24);

/// One chart of a run.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Panel {
    /// Title for people.
    pub(super) title: String,
    /// Unit of the values.
    pub(super) unit: String,
    /// Whether the value axis is logarithmic.
    pub(super) log: bool,
    /// How colours are chosen: `case`, `percentile`, `error`, `cores`, `share` (stacked), `heat` (a row for each
    /// line) or `plain`.
    pub(super) palette: &'static str,
    pub(super) lines: Vec<Line>,
    /// What the lines are compared with.
    pub(super) guides: Vec<Guide>,
}

/// A value that does not change, drawn across the chart.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(super) struct Guide {
    /// The name at its end: `32 clients`.
    name: String,
    value: f64,
}

/// One line of a chart.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Line {
    /// Name for the legend.
    pub(super) name: String,
    /// Points in the order of time.
    pub(super) points: Vec<SeriesPoint>,
}

/// All charts of a run that have a point.
pub(super) fn from_run(run: &RunSummary, n_clients: Option<u32>) -> Vec<Panel> {
    let mut panels = vec![throughput(run), latency(run)];
    if run.seconds.iter().any(|second| second.errors > 0) {
        let line = per_second(&run.seconds, "errors", |second| Some(second.errors as f64));
        panels.push(Panel {
            title: "Errors".to_string(),
            unit: "per second".to_string(),
            log: false,
            palette: "error",
            lines: vec![line],
            guides: Vec::new(),
        });
    }
    panels.extend(telemetry(&run.series, &guides(&run.resources, n_clients)));
    panels.retain(|panel| panel.lines.iter().any(|line| line.points.iter().any(|point| point.1.is_some())));
    panels
}

pub(super) fn throughput(run: &RunSummary) -> Panel {
    Panel {
        title: "Throughput".to_string(),
        unit: "tps".to_string(),
        log: false,
        palette: "case",
        lines: vec![per_second(under_load(run), "tps", |second| Some(second.tps))],
        guides: Vec::new(),
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
        guides: Vec::new(),
    }
}

fn per_second(seconds: &[Second], name: &str, value: impl Fn(&Second) -> Option<f64>) -> Line {
    // A value is drawn in the middle of its second.
    let points = seconds.iter().map(|second| (f64::from(second.t) + 0.5, value(second))).collect();
    Line { name: name.to_string(), points }
}

/// What sessions at work are compared with: all clients, and the processors of the server's machine.
fn guides(used: &ResourceUsage, n_clients: Option<u32>) -> Vec<Guide> {
    let of_host = if used.server_cpu.is_some() { used.n_cpus } else { None };
    let n_cpus = of_host.or(used.remote.as_ref().map(|remote| remote.n_cpus)).filter(|n| *n > 0);
    let guide =
        |n: Option<u32>, word: &str| n.map(|n| Guide { name: phrases::plural(n, word), value: f64::from(n) });
    guide(n_clients, "client").into_iter().chain(guide(n_cpus, "processor")).collect()
}

/// Telemetry by panel and unit, in a fixed order of panels, so that all runs look the same.
fn telemetry(series: &[TelemetrySeries], guides: &[Guide]) -> Vec<Panel> {
    let (cores, others): (Vec<&TelemetrySeries>, Vec<&TelemetrySeries>) =
        series.iter().partition(|s| s.panel == "cpu" && is_core(&s.name));
    // Sessions by what they do say what a count of them says.
    let is_sampled = others.iter().any(|s| s.panel == "sessions");
    let others: Vec<&TelemetrySeries> =
        others.into_iter().filter(|s| !(is_sampled && s.panel == "server")).collect();
    let mut keys: Vec<(&str, &str)> = Vec::new();
    for s in &others {
        if !keys.contains(&(s.panel.as_str(), s.unit.as_str())) {
            keys.push((&s.panel, &s.unit));
        }
    }
    // A standby has panels of its own.
    let place = |panel: &str| {
        let wanted = if panel.starts_with(STANDBY_PANEL) { STANDBY_PANEL } else { panel };
        PANELS.iter().position(|known| *known == wanted).unwrap_or(usize::MAX)
    };
    keys.sort_by_key(|(panel, _)| place(panel));
    let of_key = |(panel, unit): &(&str, &str)| {
        let lines = others.iter().filter(|s| (s.panel.as_str(), s.unit.as_str()) == (*panel, *unit));
        panel_of(panel, unit, lines.map(|s| line(s)).collect(), guides)
    };
    let of_limits = |wanted: &&str| keys.iter().find(|(panel, _)| panel == wanted).map(of_key);
    let mut panels: Vec<Panel> = LIMITS.iter().filter_map(of_limits).collect();
    panels.extend(processors(&cores));
    panels.extend(heat_map(&cores));
    panels.extend(keys.iter().filter(|(panel, _)| !LIMITS.contains(panel)).map(of_key));
    panels
}

fn processors(cores: &[&TelemetrySeries]) -> Option<Panel> {
    let is_many = cores.len() > MAX_CORES;
    Some(Panel {
        title: "Processors".to_string(),
        unit: cores.first()?.unit.clone(),
        log: false,
        palette: if is_many { "percentile" } else { "cores" },
        lines: if is_many { range_of(cores) } else { cores.iter().map(|s| line(s)).collect() },
        guides: Vec::new(),
    })
}

/// Each processor as a row of cells; one processor is its line.
fn heat_map(cores: &[&TelemetrySeries]) -> Option<Panel> {
    let is_drawn = cores.len() > 1;
    is_drawn.then(|| Panel {
        title: "Each processor".to_string(),
        unit: cores[0].unit.clone(),
        log: false,
        palette: HEAT,
        lines: cores.iter().map(|s| line(s)).collect(),
        guides: Vec::new(),
    })
}

fn panel_of(panel: &str, unit: &str, mut lines: Vec<Line>, guides: &[Guide]) -> Panel {
    let (title, mut palette) = describe(panel, unit);
    if palette == "share" && !align(&mut lines) {
        palette = "plain";
    }
    if panel == "ceilings" {
        lines.sort_by(|a, b| highest(b).total_cmp(&highest(a)));
        lines.truncate(MAX_RESOURCES);
    }
    let guides = match panel {
        "sessions" => guides.to_vec(),
        "ceilings" => vec![Guide { name: "ceiling".to_string(), value: 100.0 }],
        _ => Vec::new(),
    };
    Panel { title, unit: unit_words(unit), log: false, palette, lines, guides }
}

fn highest(line: &Line) -> f64 {
    line.points.iter().filter_map(|(_, value)| *value).fold(0.0, f64::max)
}

fn is_core(name: &str) -> bool {
    name.strip_prefix("cpu").is_some_and(|n| !n.is_empty() && n.bytes().all(|b| b.is_ascii_digit()))
}

fn describe(panel: &str, unit: &str) -> (String, &'static str) {
    if let Some(name) = panel.strip_prefix(PANEL) {
        return (format!("{} (imported)", phrases::capital(name)), "plain");
    }
    if let Some(name) = panel.strip_prefix(STANDBY_PANEL) {
        let what = if unit == "s" { "lag in time" } else { "lag in bytes" };
        return (format!("Standby {name}: {what}"), "plain");
    }
    match (panel, unit) {
        ("sessions", _) => ("Sessions by what they do".to_string(), "share"),
        ("ceilings", _) => ("Use of ceilings".to_string(), "plain"),
        ("cpu", _) => ("CPU by user".to_string(), "share"),
        ("remote_cpu", _) => ("CPU by mode (exporter)".to_string(), "share"),
        ("driver_host_cpu", _) => ("Driver's host: CPU by user".to_string(), "share"),
        ("pooler", "ms") => ("Pooler: wait for a connection".to_string(), "plain"),
        ("pooler", _) => ("Pooler: clients and connections".to_string(), "plain"),
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
        ("wal_images", _) => ("Full-page images in the WAL".to_string(), "plain"),
        ("wal_directory", _) => ("WAL kept on disk".to_string(), "plain"),
        ("archiver", "segments") => ("Segments of WAL that wait to be archived".to_string(), "plain"),
        ("standby_cpu", _) => ("Processes of standbys, of one processor".to_string(), "plain"),
        ("archiver", _) => ("Archiving of WAL".to_string(), "plain"),
        ("frequency", _) => ("Frequency of processors".to_string(), "plain"),
        ("ipc", _) => ("Instructions of the server per cycle".to_string(), "plain"),
        ("memory_bandwidth", _) => ("Memory bandwidth".to_string(), "plain"),
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

fn line(series: &TelemetrySeries) -> Line {
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
pub(super) fn thin_together(lines: &[Line], limit: usize) -> Vec<Vec<SeriesPoint>> {
    let n_points = lines.iter().map(|line| line.points.len()).min().unwrap_or(0);
    let sums: Vec<SeriesPoint> = (0..n_points)
        .map(|i| (i as f64, Some(lines.iter().filter_map(|line| line.points[i].1).sum())))
        .collect();
    let kept = thinning::thin(&sums, limit);
    lines.iter().map(|line| kept.iter().map(|(i, _)| line.points[*i as usize]).collect()).collect()
}

/// Makes rows of a heat map of lines: the mean of each stretch, because extremes of two neighbours would look like change.
pub(super) fn rows_of_cells(lines: &[Line]) -> Vec<Vec<SeriesPoint>> {
    let (most, fewest) = CELLS_OF_ROW;
    let n_cells = (CELLS_MAX / lines.len().max(1)).min(most).max(fewest);
    let mean = |stretch: &[SeriesPoint]| {
        let known: Vec<f64> = stretch.iter().filter_map(|(_, value)| *value).collect();
        let middle = stretch.iter().map(|(t, _)| t).sum::<f64>() / stretch.len() as f64;
        let value = (!known.is_empty()).then(|| known.iter().sum::<f64>() / known.len() as f64);
        (middle, value.map(f64::round))
    };
    let row = |line: &Line| {
        let length = line.points.len().div_ceil(n_cells).max(1);
        line.points.chunks(length).map(mean).collect()
    };
    lines.iter().map(row).collect()
}

/// Many processors as three lines: the least busy, the median and the busiest at each moment.
fn range_of(cores: &[&TelemetrySeries]) -> Vec<Line> {
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
    use analysis::summary::RemoteResources;

    use super::*;

    #[test]
    fn many_processors_become_their_range() {
        let cores: Vec<TelemetrySeries> = (0..16)
            .map(|i| TelemetrySeries {
                panel: "cpu".to_string(),
                name: format!("cpu{i}"),
                unit: "%".to_string(),
                points: vec![(0.5, f64::from(i)), (1.5, f64::from(i) * 2.0)],
            })
            .collect();
        let panels = telemetry(&cores, &[]);
        assert_eq!(panels.len(), 2);
        let names: Vec<&str> = panels[0].lines.iter().map(|line| line.name.as_str()).collect();
        assert_eq!(names, ["idlest of 16", "middle of 16", "busiest of 16"]);
        assert_eq!(panels[0].lines[2].points, [(0.5, Some(15.0)), (1.5, Some(30.0))]);
        assert_eq!((panels[1].palette, panels[1].lines.len()), (HEAT, 16));
    }

    #[test]
    fn a_heat_map_has_a_bounded_number_of_cells_which_are_means() {
        let points =
            (0..1000).map(|t| (f64::from(t), Some(f64::from(t % 2) * 100.0))).collect::<Vec<SeriesPoint>>();
        let lines: Vec<Line> =
            (0..128).map(|i| Line { name: format!("cpu{i}"), points: points.clone() }).collect();
        let rows = rows_of_cells(&lines);
        assert_eq!((rows.len(), rows[0].len()), (128, 31));
        assert!(
            rows[5][..30].iter().all(|(_, value)| (48.0..=52.0).contains(&value.unwrap())),
            "{:?}",
            rows[5]
        );
        assert_eq!(rows_of_cells(&lines[..1])[0].len(), 200);
        let gap = [Line { name: "cpu0".to_string(), points: vec![(0.0, None), (1.0, Some(7.4))] }];
        assert_eq!(rows_of_cells(&gap), [[(0.0, None), (1.0, Some(7.0))]]);
    }

    #[test]
    fn panels_stand_in_a_fixed_order() {
        let series = |panel: &str, name: &str, unit: &str| TelemetrySeries {
            panel: panel.to_string(),
            name: name.to_string(),
            unit: unit.to_string(),
            points: vec![(0.5, 1.0)],
        };
        let mut all = vec![
            series("wal", "wal", "MiB/s"),
            series("disk", "reads", "IOPS"),
            series("cpu", "server", "%"),
            series("new", "x", "1"),
            series("frequency", "slowest", "MHz"),
            series("archiver", "archived", "per second"),
            series("cpu", "cpu0", "%"),
            series("disk", "writes", "IOPS"),
            series("server", "active", "sessions"),
        ];
        let titles = |panels: &[Panel]| panels.iter().map(|panel| panel.title.clone()).collect::<Vec<_>>();
        let panels = telemetry(&all, &[]);
        let others = ["Processors", "CPU by user", "Disk operations", "WAL written", "Archiving of WAL"];
        let last = ["Frequency of processors", "New"];
        assert_eq!(titles(&panels), [&others[..], &["Sessions"], &last].concat());
        assert_eq!(panels[2].lines.len(), 2);
        // With what limited the run before all others, and in place of a count of sessions.
        all.extend([
            series("ceilings", "WAL (of 2 MB/s declared)", "%"),
            series("sessions", "CPU", "sessions"),
        ]);
        let guides = [Guide { name: "2 processors".to_string(), value: 2.0 }];
        let panels = telemetry(&all, &guides);
        let first = ["Sessions by what they do", "Use of ceilings"];
        assert_eq!(titles(&panels), [&first[..], &others, &last].concat());
        assert_eq!((panels[0].palette, panels[0].guides.as_slice()), ("share", &guides[..]));
        assert_eq!(panels[1].guides[0].value, 100.0);
        assert!(panels[2..].iter().all(|panel| panel.guides.is_empty()));
    }

    #[test]
    fn the_resources_that_were_used_most_are_drawn_against_their_ceilings() {
        let resource = |i: u32| TelemetrySeries {
            panel: "ceilings".to_string(),
            name: format!("resource {i}"),
            unit: "%".to_string(),
            points: vec![(0.5, f64::from(i)), (1.5, 0.0)],
        };
        let panels = telemetry(&(1..=9).map(resource).collect::<Vec<_>>(), &[]);
        let names: Vec<&str> = panels[0].lines.iter().map(|line| line.name.as_str()).collect();
        assert_eq!((names.len(), names[0], names[7]), (8, "resource 9", "resource 2"));
    }

    #[test]
    fn sessions_are_compared_with_clients_and_the_servers_processors() {
        let check = |resources: ResourceUsage, n_clients, expected: &[(&str, f64)]| {
            let guides = guides(&resources, n_clients);
            let found: Vec<(&str, f64)> =
                guides.iter().map(|guide| (guide.name.as_str(), guide.value)).collect();
            assert_eq!(found, expected);
        };
        let observed = ResourceUsage { n_cpus: Some(2), server_cpu: Some(1.0), ..ResourceUsage::default() };
        check(observed.clone(), Some(32), &[("32 clients", 32.0), ("2 processors", 2.0)]);
        check(observed, None, &[("2 processors", 2.0)]);
        // The machine that was observed is the driver's.
        let elsewhere = ResourceUsage { n_cpus: Some(2), ..ResourceUsage::default() };
        check(elsewhere.clone(), Some(1), &[("1 client", 1.0)]);
        let remote = Some(RemoteResources { n_cpus: 16, ..RemoteResources::default() });
        check(ResourceUsage { remote, ..elsewhere }, Some(1), &[("1 client", 1.0), ("16 processors", 16.0)]);
    }
}
