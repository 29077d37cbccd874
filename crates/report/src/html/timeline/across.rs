//! All runs of an experiment on one time line: the charts of each run one after the other, at the times at which they took place.
//!
//! For runs back to back, as studies of variation draw them. A chart is drawn here if it is drawn of a run.

use analysis::summary::{RunSummary, TimelineMark};

use crate::html::panels::{Line, Panel};
use crate::html::thinning::SeriesPoint;

/// Below this share of load in the whole time, the time line is mostly empty.
const LOAD_MIN: f64 = 0.05;

/// So much may a load seem to last into the next one: its last second counts whole.
const OVERLAP_S_MAX: f64 = 1.0;

/// The charts of all runs, in seconds since the first load began.
#[derive(Debug)]
pub(in crate::html) struct Across {
    pub(in crate::html) panels: Vec<Panel>,
    /// What is not measured: from, to.
    pub(in crate::html) shaded: Vec<[f64; 2]>,
    pub(in crate::html) marks: Vec<TimelineMark>,
    /// End of the last load.
    pub(in crate::html) end_s: f64,
}

/// A run, and where it stands on the common time line.
struct Placed<'a> {
    run: &'a RunSummary,
    at_s: f64,
    /// Length of its load.
    length_s: f64,
}

/// Joins the charts of runs; `None` if these have no common time line.
pub(in crate::html) fn from_runs(runs: &[(&RunSummary, Vec<Panel>)]) -> Option<Across> {
    let placed = place(runs.iter().map(|(run, _)| *run))?;
    let drawn: Vec<Drawn> = placed
        .into_iter()
        .filter_map(|one| {
            let (_, panels) = runs.iter().find(|(run, _)| run.run == one.run.run)?;
            Some(Drawn { one, panels })
        })
        .collect();
    let mut titles: Vec<&str> = Vec::new();
    for panel in drawn.iter().flat_map(|drawn| drawn.panels) {
        if !titles.contains(&panel.title.as_str()) {
            titles.push(&panel.title);
        }
    }
    let end_s = drawn.iter().map(|drawn| drawn.one.end_s()).fold(0.0, f64::max);
    Some(Across {
        panels: titles.iter().filter_map(|title| joined(&drawn, title)).collect(),
        shaded: shaded(&drawn, end_s),
        marks: drawn.iter().flat_map(marks).collect(),
        end_s,
    })
}

/// Whether runs have a common time line: there are several, one after the other, and they do not lie too far apart.
pub(in crate::html) fn is_one_line<'a>(runs: impl Iterator<Item = &'a RunSummary>) -> bool {
    place(runs).is_some()
}

/// Whether a run began before an earlier one had ended, as on targets that are measured side by side, the sides of a duet, and in results
/// that were merged: one line cannot show both.
pub(in crate::html) fn are_side_by_side<'a>(runs: impl Iterator<Item = &'a RunSummary>) -> bool {
    overlap(&in_order(runs))
}

fn overlap(placed: &[Placed]) -> bool {
    placed.windows(2).any(|pair| pair[1].at_s + OVERLAP_S_MAX < pair[0].end_s())
}

fn place<'a>(runs: impl Iterator<Item = &'a RunSummary>) -> Option<Vec<Placed<'a>>> {
    let placed = in_order(runs);
    let end_s = placed.iter().map(Placed::end_s).fold(0.0, f64::max);
    let load_s: f64 = placed.iter().map(|one| one.length_s).sum();
    (placed.len() >= 2 && load_s >= LOAD_MIN * end_s && !overlap(&placed)).then_some(placed)
}

/// The runs with a load, by when it began.
fn in_order<'a>(runs: impl Iterator<Item = &'a RunSummary>) -> Vec<Placed<'a>> {
    let begun: Vec<(u64, &RunSummary)> = runs.filter_map(|run| Some((run.go_unix_ns?, run))).collect();
    let first = begun.iter().map(|(go, _)| *go).min().unwrap_or_default();
    let at = |(go, run): (u64, &'a RunSummary)| {
        let length_s = f64::from(run.seconds.last()?.t) + 1.0;
        Some(Placed { run, at_s: (go - first) as f64 / 1e9, length_s })
    };
    let mut placed: Vec<Placed> = begun.into_iter().filter_map(at).collect();
    placed.sort_by(|a, b| a.at_s.total_cmp(&b.at_s));
    placed
}

impl Placed<'_> {
    fn end_s(&self) -> f64 {
        self.at_s + self.length_s
    }
}

/// A run with its charts.
struct Drawn<'a> {
    one: Placed<'a>,
    panels: &'a [Panel],
}

impl Drawn<'_> {
    fn panel(&self, title: &str) -> Option<&Panel> {
        self.panels.iter().find(|panel| panel.title == title)
    }
}

/// One chart over all runs, with a gap between them.
fn joined(drawn: &[Drawn], title: &str) -> Option<Panel> {
    let first = drawn.iter().find_map(|one| one.panel(title))?;
    let mut names: Vec<&str> = Vec::new();
    for line in drawn.iter().filter_map(|one| one.panel(title)).flat_map(|panel| &panel.lines) {
        if !names.contains(&line.name.as_str()) {
            names.push(&line.name);
        }
    }
    let lines = names.iter().map(|name| joined_line(drawn, title, name)).collect();
    // Guides of different runs differ, as their clients do.
    let is_alike = drawn.iter().filter_map(|one| one.panel(title)).all(|panel| panel.guides == first.guides);
    let guides = if is_alike { first.guides.clone() } else { Vec::new() };
    Some(Panel { lines, guides, ..first.clone() })
}

fn joined_line(drawn: &[Drawn], title: &str, name: &str) -> Line {
    let mut points: Vec<SeriesPoint> = Vec::new();
    for one in drawn {
        let Some(panel) = one.panel(title) else { continue };
        let own = panel.lines.iter().find(|line| line.name == name);
        let moved = |line: &Line| -> Vec<SeriesPoint> {
            line.points.iter().map(|(t, value)| (t + one.one.at_s, *value)).collect()
        };
        match (own, panel.lines.first()) {
            (Some(own), _) => points.extend(moved(own)),
            // What is stacked must have the same times; what a run does not have is nothing.
            (None, Some(other)) if panel.palette == "share" => {
                points.extend(moved(other).into_iter().map(|(t, _)| (t, Some(0.0))));
            }
            _ => continue,
        }
        points.push((one.one.end_s(), None));
    }
    Line { name: name.to_string(), points }
}

/// The times before, between and after the measurements.
fn shaded(drawn: &[Drawn], end_s: f64) -> Vec<[f64; 2]> {
    let mut found = Vec::new();
    let mut from_s = 0.0;
    for Drawn { one, .. } in drawn {
        let mut measured = one.run.seconds.iter().filter(|second| second.measured).map(|second| second.t);
        let Some(first) = measured.next() else { continue };
        let last = measured.next_back().unwrap_or(first);
        let begin = one.at_s + f64::from(first);
        if begin > from_s {
            found.push([from_s, begin]);
        }
        from_s = one.at_s + f64::from(last) + 1.0;
    }
    if from_s < end_s {
        found.push([from_s, end_s]);
    }
    found
}

fn marks(drawn: &Drawn) -> Vec<TimelineMark> {
    let Placed { run, at_s, .. } = &drawn.one;
    let moved = |mark: &TimelineMark| TimelineMark {
        from_s: mark.from_s + at_s,
        to_s: mark.to_s + at_s,
        text: format!("run {}: {}", run.run, mark.text),
        ..mark.clone()
    };
    run.marks.iter().filter(|mark| mark.to_s >= 0.0).map(moved).collect()
}
