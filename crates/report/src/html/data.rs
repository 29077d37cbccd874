//! The data block of the page: what the script draws, already thinned and rounded for display.

use analysis::summary::{LatencySummary, RunSummary, Study, TimelineMark};
use serde::Serialize;

use super::capacity::{self, ProbesData};
use super::comparison::RatioData;
use super::factors::matrix::{self, PairData};
use super::factors::prices::{self, PriceData};
use super::factors::scalability::{self, CurveData};
use super::factors::{self, PoolData};
use super::panels::{self, Guide, Panel};
use super::timeline::across::{self, Across};
use super::timeline::{self, drawn};
use crate::axis::Axis;
use crate::axis::colour::Colour;
use crate::axis::series::GroupSeries;
use crate::html::thinning::{self, SeriesPoint};
use crate::prose::phrases;

/// Most points of a line.
const MAX_POINTS: usize = 2000;
/// Most points of the whole page: about ten bytes each.
const MAX_POINTS_PAGE: usize = 240_000;
/// Most points of a page that also has a line for each of many other runs.
const MAX_POINTS_PAGE_OF_MANY: usize = 110_000;
/// Most points of the charts of all runs on one time line.
const MAX_POINTS_ALL_RUNS: usize = 60_000;
/// Most points of the one line of a run that is not drawn in full.
const N_POINTS_BRIEF: usize = 20;
/// Most points of a line of a run that is under way, when it is sent whole.
pub(super) const N_POINTS_LIVE: usize = 600;

/// The number under which the charts of all runs stand.
pub(super) const ALL_RUNS: u32 = 0;

/// The data of the page.
pub(super) fn from_study(study: &Study, axis: &Axis, comparisons: Vec<RatioData>) -> Data {
    let n_clients = |run: &RunSummary| {
        let case = study.cases.iter().find(|case| case.case.id == run.case);
        case.map(|case| case.case.workload.n_clients)
    };
    let drawn = drawn::drawn(study);
    let panels: Vec<(&RunSummary, Vec<Panel>)> = study
        .runs
        .iter()
        .filter(|run| !run.seconds.is_empty())
        .map(|run| {
            if drawn.contains(&run.run) {
                (run, panels::from_run(run, n_clients(run)))
            } else {
                (run, vec![panels::throughput(run)])
            }
        })
        .collect();
    let in_full = panels.iter().filter(|(run, _)| drawn.contains(&run.run));
    let n_lines = n_lines(in_full.flat_map(|(_, panels)| panels));
    let budget = if panels.len() > drawn::N_DRAWN_MAX { MAX_POINTS_PAGE_OF_MANY } else { MAX_POINTS_PAGE };
    let limit = (budget / n_lines.max(1)).clamp(40, MAX_POINTS);
    let across = (panels.len() <= drawn::N_DRAWN_MAX).then(|| across::from_runs(&panels)).flatten();
    let run_data = |(run, panels): &(&RunSummary, Vec<Panel>)| {
        let is_whole = drawn.contains(&run.run);
        let limit = if is_whole { limit } else { N_POINTS_BRIEF };
        RunData { is_whole, ..RunData::new(study, axis, run, panels, limit) }
    };
    Data {
        axis: AxisData {
            title: axis.title.clone(),
            levels: axis.levels.clone(),
            numeric: axis.numeric,
            groups: GroupData::all_from_axis(axis),
            panels: axis.panels.clone(),
        },
        cases: study.cases.iter().map(|case| CaseData::new(case, axis)).collect(),
        points: study.runs.iter().filter_map(|run| RunPoint::new(study, run)).collect(),
        runs: across
            .iter()
            .map(|all| RunData::of_all(all, panels.len()))
            .chain(panels.iter().map(run_data))
            .collect(),
        first: timeline::first_choice(study),
        pools: factors::pools(study),
        capacity: capacity::data(study),
        scalability: scalability::data(study, axis),
        comparisons,
        pair: matrix::data(study),
        prices: prices::data(study, axis),
        histories: Vec::new(),
    }
}

/// The data of a page that draws comparisons only.
pub(super) fn of_ratios(comparisons: Vec<RatioData>) -> Data {
    Data { comparisons, ..nothing() }
}

/// The data of a page that draws histories only.
pub(crate) fn of_histories(histories: Vec<HistoryData>) -> Data {
    Data { histories, ..nothing() }
}

/// The data of a page without charts, or one that gets its data later.
pub(crate) fn nothing() -> Data {
    let axis = AxisData {
        title: String::new(),
        levels: Vec::new(),
        numeric: false,
        groups: Vec::new(),
        panels: Vec::new(),
    };
    Data {
        axis,
        cases: Vec::new(),
        points: Vec::new(),
        runs: Vec::new(),
        first: None,
        pools: Vec::new(),
        capacity: Vec::new(),
        scalability: Vec::new(),
        comparisons: Vec::new(),
        pair: None,
        prices: None,
        histories: Vec::new(),
    }
}

#[derive(Debug, Serialize)]
pub(crate) struct Data {
    axis: AxisData,
    cases: Vec<CaseData>,
    points: Vec<RunPoint>,
    runs: Vec<RunData>,
    first: Option<u32>,
    pools: Vec<PoolData>,
    capacity: Vec<ProbesData>,
    scalability: Vec<CurveData>,
    comparisons: Vec<RatioData>,
    pair: Option<PairData>,
    prices: Option<PriceData>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    histories: Vec<HistoryData>,
}

/// The history of a case: its runs in order, and the levels between changes.
#[derive(Debug, Serialize)]
pub(crate) struct HistoryData {
    pub(crate) label: String,
    /// When each run was measured, as text.
    pub(crate) when: Vec<String>,
    pub(crate) tps: Vec<f64>,
    pub(crate) revision: Vec<String>,
    /// Index of the first run of a level, of the last one, and the median of the level.
    pub(crate) levels: Vec<(usize, usize, f64)>,
    /// Index of the first run after a change, and the change in words.
    pub(crate) changes: Vec<(usize, String)>,
}

#[derive(Debug, Serialize)]
struct AxisData {
    title: String,
    levels: Vec<String>,
    numeric: bool,
    groups: Vec<GroupData>,
    panels: Vec<String>,
}

/// A group of cases, drawn alike.
#[derive(Debug, Serialize)]
struct GroupData {
    name: String,
    /// The name that it has in its panel.
    series: String,
    colour: String,
    panel: usize,
}

impl GroupData {
    fn all_from_axis(axis: &Axis) -> Vec<GroupData> {
        let of = |(name, series): (&String, &GroupSeries)| GroupData {
            name: name.clone(),
            series: series.name.clone(),
            colour: series.colour.class(),
            panel: series.panel,
        };
        axis.groups.iter().zip(&axis.series).map(of).collect()
    }
}

#[derive(Debug, Serialize)]
struct CaseData {
    id: u32,
    label: String,
    level: usize,
    group: usize,
    colour: String,
    median: Option<f64>,
    /// Lowest and highest run.
    range: Option<[f64; 2]>,
    /// First and third quartile, from five runs on: fewer would not support them.
    quartiles: Option<[f64; 2]>,
    ms: Option<Percentiles>,
}

impl CaseData {
    fn new(case: &analysis::summary::CaseSummary, axis: &Axis) -> CaseData {
        let place = axis.places.get(&case.case.id);
        CaseData {
            id: case.case.id,
            label: case.label.clone(),
            level: place.map_or(0, |p| p.level),
            group: place.map_or(0, |p| p.group),
            colour: axis.class(case.case.id),
            // As in the figures in large type.
            median: case.tps_median.filter(|tps| tps.is_finite()),
            range: between(&case.tps, 0.0, 1.0),
            quartiles: if case.tps.len() >= 5 { between(&case.tps, 0.25, 0.75) } else { None },
            ms: case.latency.map(Percentiles::from_latency),
        }
    }
}

pub(super) fn between(tps: &[f64], low: f64, high: f64) -> Option<[f64; 2]> {
    let at = |q: f64| stats::quantile(tps, q).and_then(thinning::rounded);
    Some([at(low)?, at(high)?])
}

/// Latencies in milliseconds.
#[derive(Debug, Serialize)]
struct Percentiles {
    p50: f64,
    p90: f64,
    p95: f64,
    p99: f64,
    p999: f64,
    max: f64,
}

impl Percentiles {
    fn from_latency(l: LatencySummary) -> Percentiles {
        let ms = |ns: u64| thinning::rounded(ns as f64 / 1e6).unwrap_or_default();
        Percentiles {
            p50: ms(l.p50_ns),
            p90: ms(l.p90_ns),
            p95: ms(l.p95_ns),
            p99: ms(l.p99_ns),
            p999: ms(l.p999_ns),
            max: ms(l.max_ns),
        }
    }
}

/// A run as one point of the throughput chart.
#[derive(Debug, Serialize)]
struct RunPoint {
    run: u32,
    case: u32,
    tps: f64,
    counts: bool,
    #[serde(skip_serializing_if = "String::is_empty")]
    why: String,
    ms: Option<Percentiles>,
}

impl RunPoint {
    fn new(study: &Study, run: &RunSummary) -> Option<RunPoint> {
        study.cases.iter().find(|case| case.case.id == run.case)?;
        let counts = run.counts();
        Some(RunPoint {
            run: run.run,
            case: run.case,
            tps: thinning::rounded(run.tps?)?,
            counts,
            why: if counts { String::new() } else { phrases::why_not(run) },
            ms: run.latency.map(Percentiles::from_latency),
        })
    }
}

/// Lines whose number of points is limited together; a heat map has a limit of its own.
fn n_lines<'a>(panels: impl Iterator<Item = &'a Panel>) -> usize {
    panels.filter(|panel| panel.palette != panels::HEAT).map(|panel| panel.lines.len()).sum()
}

/// A run over time.
#[derive(Debug, Serialize)]
pub(super) struct RunData {
    run: u32,
    title: String,
    colour: String,
    counts: bool,
    /// First measured second, end of the measurement window, end of the load.
    window: [f64; 3],
    panels: Vec<PanelData>,
    marks: Vec<TimelineMark>,
    /// Whether all its panels are here.
    is_whole: bool,
    /// On a time line of all runs: what is not measured. The window is then the whole.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    shaded: Vec<[f64; 2]>,
}

impl RunData {
    /// All runs on one time line, as run 0.
    fn of_all(all: &Across, n_runs: usize) -> RunData {
        let n_lines = n_lines(all.panels.iter());
        let limit = (MAX_POINTS_ALL_RUNS / n_lines.max(1)).min(120 * n_runs).max(60);
        RunData {
            run: ALL_RUNS,
            title: format!("All {n_runs} runs on one time line"),
            colour: Colour::FIRST.class(),
            counts: true,
            window: [0.0, all.end_s, all.end_s],
            panels: all.panels.iter().map(|panel| PanelData::from_panel(panel, limit)).collect(),
            marks: marks(&all.marks),
            is_whole: true,
            shaded: all.shaded.clone(),
        }
    }

    /// A run that is under way.
    pub(super) fn of_live(
        run: u32,
        title: &str,
        window: [f64; 3],
        panels: &[Panel],
        marks: Vec<TimelineMark>,
    ) -> RunData {
        RunData {
            run,
            title: title.to_string(),
            colour: Colour::FIRST.class(),
            counts: true,
            window,
            panels: panels.iter().map(|panel| PanelData::from_panel(panel, N_POINTS_LIVE)).collect(),
            marks,
            is_whole: true,
            shaded: Vec::new(),
        }
    }

    fn new(study: &Study, axis: &Axis, run: &RunSummary, panels: &[Panel], limit: usize) -> RunData {
        let case = study.cases.iter().find(|case| case.case.id == run.case);
        let label = case.map_or_else(|| format!("case {}", run.case), |case| case.label.clone());
        let counts = run.counts();
        let verdict = if counts { run.grade.as_str().to_string() } else { phrases::why_not(run) };
        let measured: Vec<f64> =
            run.seconds.iter().filter(|second| second.measured).map(|second| f64::from(second.t)).collect();
        let end = run.seconds.last().map_or(0.0, |second| f64::from(second.t) + 1.0);
        RunData {
            run: run.run,
            title: format!("Run {}, block {}: {label} - {verdict}", run.run, run.block),
            colour: axis.class(run.case),
            counts,
            window: [measured.first().copied().unwrap_or(end), measured.last().map_or(end, |t| t + 1.0), end],
            panels: panels.iter().map(|panel| PanelData::from_panel(panel, limit)).collect(),
            marks: marks(&run.marks),
            is_whole: true,
            shaded: Vec::new(),
        }
    }
}

#[derive(Debug, Serialize)]
struct PanelData {
    title: String,
    unit: String,
    log: bool,
    palette: &'static str,
    lines: Vec<LineData>,
    guides: Vec<Guide>,
}

impl PanelData {
    fn from_panel(panel: &Panel, limit: usize) -> PanelData {
        let thinned: Vec<Vec<SeriesPoint>> = match panel.palette {
            "share" => panels::thin_together(&panel.lines, limit),
            panels::HEAT => panels::rows_of_cells(&panel.lines),
            _ => panel.lines.iter().map(|line| thinning::thin(&line.points, limit)).collect(),
        };
        let lines = panel.lines.iter().zip(thinned).map(|(line, points)| LineData {
            name: line.name.clone(),
            points: points.into_iter().map(encoded).collect(),
        });
        PanelData {
            title: panel.title.clone(),
            unit: panel.unit.clone(),
            log: panel.log,
            palette: panel.palette,
            lines: lines.collect(),
            guides: panel.guides.clone(),
        }
    }
}

#[derive(Debug, Serialize)]
struct LineData {
    name: String,
    points: Vec<(f64, Option<f64>)>,
}

pub(super) fn encoded((t, value): SeriesPoint) -> (f64, Option<f64>) {
    (hundredths(t), value.and_then(thinning::rounded))
}

fn hundredths(t: f64) -> f64 {
    (t * 100.0).round() / 100.0
}

fn marks(all: &[TimelineMark]) -> Vec<TimelineMark> {
    let rounded = |mark: &TimelineMark| TimelineMark {
        from_s: hundredths(mark.from_s),
        to_s: hundredths(mark.to_s),
        ..mark.clone()
    };
    all.iter().map(rounded).collect()
}
