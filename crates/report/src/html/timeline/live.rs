//! The charts of a run that is under way: each second adds points, and many points are thinned, so that a run of a day needs no
//! more memory than one of an hour.

use std::collections::VecDeque;

use analysis::summary::{RunSummary, TimelineMark};
use serde::Serialize;

use crate::html::data::{self, RunData};
use crate::html::panels::{self, HEAT, Line, Panel};
use crate::html::thinning::{self, SeriesPoint};

/// A line with more points is thinned, and the charts are sent whole again.
const N_POINTS_MAX: usize = 2 * data::N_POINTS_LIVE;
/// Most lines of a chart: the wait events that are most frequent change as the load does.
const LINES_MAX: usize = 12;
/// Most charts.
const PANELS_MAX: usize = 40;
/// Most marks: the latest are kept.
const MARKS_MAX: usize = 200;
/// For a reader that was away shorter than this number of steps, what came meanwhile is enough.
const STEPS_KEPT: usize = 120;

/// The palette of lines that are stacked.
const STACKED: &str = "share";

/// The charts of a run that is under way.
#[derive(Debug, Default)]
pub struct LiveCharts {
    run: u32,
    title: String,
    /// First measured second, end of the measurement window, and end of the time axis.
    window: [f64; 3],
    panels: Vec<Panel>,
    marks: Vec<TimelineMark>,
    /// How often charts or lines came, or were thinned: what a reader has of another generation cannot be continued.
    generation: u64,
    step: u64,
    /// The points of the last steps, the newest last.
    recent: VecDeque<(u64, Vec<Added>)>,
}

/// A point that came: numbers of chart and line, seconds since `go`, and value.
type Added = (usize, usize, f64, Option<f64>);

/// How far a reader is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Reached {
    /// See [`LiveCharts`].
    pub generation: u64,
    /// The last step that the reader has.
    pub step: u64,
}

/// The part of a run that a reader lacks, as JSON.
#[derive(Debug)]
pub enum Lacking {
    /// Nothing.
    Nothing,
    /// The run as on the page of a report.
    Whole(String),
    /// Points to be appended to its lines.
    More(String),
}

/// Points for a reader that has the others.
#[derive(Debug, Serialize)]
struct More<'a> {
    window: [f64; 3],
    points: Vec<Added>,
    marks: &'a [TimelineMark],
}

impl LiveCharts {
    /// Empty charts of a run. `load_s`: the lengths of ramp-up and measurement.
    pub fn new(run: u32, title: &str, load_s: (f64, f64)) -> LiveCharts {
        let (ramp_up_s, measure_s) = load_s;
        let window = [ramp_up_s, ramp_up_s + measure_s, 0.0];
        LiveCharts { run, title: title.to_string(), window, generation: 1, ..LiveCharts::default() }
    }

    /// Adds what is new in the summary of the run's last seconds.
    pub fn add(&mut self, latest: &RunSummary, n_clients: u32) {
        self.step += 1;
        let mut added = Vec::new();
        let mut is_other = false;
        for fresh in panels::from_run(latest, Some(n_clients)) {
            let place = match self.panels.iter().position(|known| known.title == fresh.title) {
                Some(place) => place,
                None if self.panels.len() < PANELS_MAX => {
                    is_other = true;
                    self.panels.push(Panel { lines: Vec::new(), ..fresh.clone() });
                    self.panels.len() - 1
                }
                None => continue,
            };
            is_other |= append(&mut self.panels[place], &fresh, place, &mut added);
        }
        if let Some(second) = latest.seconds.last() {
            self.lengthen(f64::from(second.t) + 1.0);
        }
        self.add_marks(&latest.marks);
        if self.panels.iter().flat_map(|panel| &panel.lines).any(|line| line.points.len() > N_POINTS_MAX) {
            self.panels.iter_mut().for_each(thin);
            is_other = true;
        }
        if is_other {
            self.generation += 1;
            self.recent.clear();
        } else {
            self.recent.push_back((self.step, added));
            if self.recent.len() > STEPS_KEPT {
                self.recent.pop_front();
            }
        }
    }

    /// The place of a reader that has everything.
    pub fn reached(&self) -> Reached {
        Reached { generation: self.generation, step: self.step }
    }

    /// What a reader at this place lacks; `None` is one that has nothing.
    pub fn lacking(&self, has: Option<Reached>) -> Lacking {
        let Some(has) = has.filter(|has| has.generation == self.generation && has.step <= self.step) else {
            let run = RunData::of_live(self.run, &self.title, self.window, &self.panels, self.marks.clone());
            return Lacking::Whole(json(&run));
        };
        if has.step == self.step {
            return Lacking::Nothing;
        }
        let oldest = self.recent.front().map_or(self.step, |(step, _)| *step);
        if has.step + 1 < oldest {
            return self.lacking(None);
        }
        let steps = self.recent.iter().filter(|(step, _)| *step > has.step);
        let points = steps.flat_map(|(_, added)| added.iter().copied()).collect();
        Lacking::More(json(&More { window: self.window, points, marks: &self.marks }))
    }

    /// The end of the time axis: all of a short load, so that its lines grow towards the end; of a long one what has passed, with
    /// some room.
    fn lengthen(&mut self, passed_s: f64) {
        const SHORT_S: f64 = 180.0;
        let planned_s = self.window[1];
        let end_s = if planned_s <= SHORT_S { planned_s } else { (1.25 * passed_s / 60.0).ceil() * 60.0 };
        self.window[2] = end_s.min(planned_s.max(passed_s)).max(passed_s);
    }

    /// Marks of the last seconds: one that goes on replaces what was known of it.
    fn add_marks(&mut self, latest: &[TimelineMark]) {
        for mark in latest {
            let is_same = |known: &&mut TimelineMark| known.kind == mark.kind && known.from_s == mark.from_s;
            match self.marks.iter_mut().find(is_same) {
                Some(known) => *known = mark.clone(),
                None => self.marks.push(mark.clone()),
            }
        }
        let n_over = self.marks.len().saturating_sub(MARKS_MAX);
        self.marks.drain(..n_over);
    }
}

/// Appends the points that a chart does not have yet. Returns whether a line came.
fn append(known: &mut Panel, fresh: &Panel, place: usize, added: &mut Vec<Added>) -> bool {
    // Lines without common times cannot be stacked.
    if known.palette == STACKED && fresh.palette != STACKED {
        return false;
    }
    let has_come = add_lines(known, fresh);
    known.guides.clone_from(&fresh.guides);
    let newest_s = newest(known);
    let is_stacked = known.palette == STACKED;
    for (n, own) in known.lines.iter_mut().enumerate() {
        let points: Vec<SeriesPoint> = match fresh.lines.iter().find(|line| line.name == own.name) {
            Some(line) => line.points.clone(),
            // What is stacked goes on at nothing.
            None if is_stacked => fresh.lines.first().map_or(Vec::new(), |first| at_nothing(&first.points)),
            None => continue,
        };
        let last_s =
            if is_stacked { newest_s } else { own.points.last().map_or(f64::NEG_INFINITY, |(t, _)| *t) };
        for (t, value) in points.into_iter().map(data::encoded).filter(|(t, _)| *t > last_s) {
            own.points.push((t, value));
            added.push((place, n, t, value));
        }
    }
    has_come
}

/// Adds the lines that a chart does not have yet. Returns whether there is one.
fn add_lines(known: &mut Panel, fresh: &Panel) -> bool {
    let n_before = known.lines.len();
    let most = LINES_MAX.max(fresh.lines.len());
    for line in &fresh.lines {
        if known.lines.len() < most && known.lines.iter().all(|own| own.name != line.name) {
            // What is stacked has the same times; what was not there was nothing.
            let first = if known.palette == STACKED { known.lines.first() } else { None };
            let points = first.map_or(Vec::new(), |first| at_nothing(&first.points));
            known.lines.push(Line { name: line.name.clone(), points });
        }
    }
    known.lines.len() > n_before
}

fn at_nothing(points: &[SeriesPoint]) -> Vec<SeriesPoint> {
    points.iter().map(|(t, _)| (*t, Some(0.0))).collect()
}

/// The time of a chart's last point.
fn newest(panel: &Panel) -> f64 {
    let last = panel.lines.iter().filter_map(|line| line.points.last());
    last.map(|(t, _)| *t).fold(f64::NEG_INFINITY, f64::max)
}

fn thin(panel: &mut Panel) {
    let thinned = match panel.palette {
        STACKED => panels::thin_together(&panel.lines, data::N_POINTS_LIVE),
        HEAT => panels::rows_of_cells(&panel.lines),
        _ => panel.lines.iter().map(|line| thinning::thin(&line.points, data::N_POINTS_LIVE)).collect(),
    };
    panel.lines.iter_mut().zip(thinned).for_each(|(line, points)| line.points = points);
}

fn json(value: &impl Serialize) -> String {
    serde_json::to_string(value).expect("the page's data has text keys and plain values")
}

#[cfg(test)]
mod tests;
