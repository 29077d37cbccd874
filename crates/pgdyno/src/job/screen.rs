//! Progress for people, on standard error: a line with a bar for each lane on a terminal, lines otherwise.

mod live;

use std::io::IsTerminal;
use std::time::{Duration, Instant};

use experiment::site::progress::ProgressEvent;
use indicatif::{MultiProgress, ProgressBar, ProgressDrawTarget, ProgressStyle};
use live::Live;
use model::experiment::plan::{Plan, RunState};
use model::experiment::target::lane::Lane;
use model::text::prose::{bytes, grouped};
use model::text::visible::visible;
use server::FetchProgress;

use crate::job::left::RemainingTime;
use crate::job::preview::{builds, duration, order, outlook, size};
use crate::{say, signals};

/// How often the time left moves.
const TICK: Duration = Duration::from_millis(500);

/// Shows progress.
pub(crate) struct Screen {
    /// Whether only notes are shown.
    quiet: bool,
    /// One for each lane that is measured side by side, otherwise one.
    rows: Vec<Row>,
    /// The lines of several rows on a terminal, as many as fit.
    bars: Option<MultiProgress>,
}

/// What is known of one sequence of runs.
struct Row {
    /// Name of the lane and a colon; empty if there is one.
    name: String,
    live: Live,
    /// One line on a terminal.
    bar: Option<ProgressBar>,
    loading_said: Instant,
}

impl Row {
    fn new(name: String, n_runs: u32, left: RemainingTime) -> Row {
        Row { name, live: Live::new(n_runs, left), bar: None, loading_said: Instant::now() }
    }
}

impl Screen {
    /// A screen for the runs of `plan`, with their estimates ([`RemainingTime::of_plan`]).
    pub(crate) fn new(plan: &Plan, left: Vec<RemainingTime>, quiet: bool) -> Screen {
        if !quiet {
            // How long pairs take that end with their precision or time, the comparison has said.
            let words = match plan.precision {
                Some(_) => String::new(),
                None => format!(", {}", outlook(plan).words()),
            };
            say(&format!("{}: {} in {}{words}", plan.name, size(plan), order(plan)));
            if let Some(builds) = builds(plan) {
                say(&format!("before their first runs, pgdyno builds {builds}; it keeps the builds"));
            }
        }
        let of_lane = |(lane, left): (&Lane, RemainingTime)| {
            Row::new(format!("{}: ", lane.name()), plan.of_lane(lane).runs.len() as u32, left)
        };
        let of_all = |left: RemainingTime| Row::new(String::new(), plan.runs.len() as u32, left);
        let rows = if plan.is_side_by_side() {
            plan.lanes.iter().zip(left).map(of_lane).collect()
        } else {
            left.into_iter().map(of_all).collect()
        };
        Screen::with_rows(rows, quiet)
    }

    /// A screen for a single task of unknown length.
    pub(crate) fn of_one() -> Screen {
        Screen::with_rows(vec![Row::new(String::new(), 1, RemainingTime::new(0.0))], false)
    }

    fn with_rows(mut rows: Vec<Row>, quiet: bool) -> Screen {
        let mut bars = None;
        if std::io::stderr().is_terminal() && !quiet {
            rows.iter_mut().for_each(|row| row.bar = Some(bar(row.live.length())));
            bars = (rows.len() > 1).then(|| MultiProgress::with_draw_target(target()));
            for row in rows.iter_mut().filter(|_| bars.is_some()) {
                row.bar = row.bar.take().and_then(|bar| Some(bars.as_ref()?.add(bar)));
            }
            rows.iter().flat_map(|row| &row.bar).for_each(|bar| bar.enable_steady_tick(TICK));
        }
        Screen { quiet, rows, bars }
    }

    /// Shows one step of progress.
    pub(crate) fn show(&mut self, progress: ProgressEvent) {
        match progress {
            ProgressEvent::OfLane { lane, progress } => self.show_of(Some(lane), *progress),
            ProgressEvent::OfSide { side, progress } => self.show_side(side, *progress),
            of_all => self.show_of(None, of_all),
        }
    }

    /// Shows progress of A as that of the duet: B does the same at the same time, and there is one row. The ends of their runs say
    /// nothing: each has been measured in its slices only.
    fn show_side(&mut self, side: usize, progress: ProgressEvent) {
        if side == 0 && !matches!(progress, ProgressEvent::RunBegins { .. } | ProgressEvent::RunEnds { .. }) {
            self.show_of(None, progress);
        }
    }

    /// Shows progress of a lane, or of all that there is.
    fn show_of(&mut self, lane: Option<usize>, progress: ProgressEvent) {
        match progress {
            ProgressEvent::OfLane { progress, .. } | ProgressEvent::OfSide { progress, .. } => {
                self.show_of(lane, *progress)
            }
            ProgressEvent::Fetch(fetch) => self.fetch(lane, fetch),
            ProgressEvent::Step(text) => self.line(lane, &text),
            ProgressEvent::Note(text) => self.note(lane, &text),
            ProgressEvent::Load(load) => {
                let percent = 100.0 * load.rows_done as f64 / load.rows_total.max(1) as f64;
                let elapsed_s = self.row(lane).loading_said.elapsed().as_secs_f64();
                let left_s = elapsed_s * (100.0 / percent.max(0.1) - 1.0);
                let eta =
                    if load.step == "rows" { format!(", {} left", duration(left_s)) } else { String::new() };
                self.doing(lane, format!("loading: {} {percent:.0} %{eta}", load.step));
            }
            ProgressEvent::RunBegins { run, n_runs, label } => {
                self.row(lane).live.begin(run, n_runs, label);
                self.doing(lane, "restore".to_string());
            }
            ProgressEvent::PhaseBegins(phase) => self.doing(lane, phase.as_str().replace('_', "-")),
            ProgressEvent::Second { t, n, committed, is_measured, histograms } => {
                let row = self.row(lane);
                row.live.second(t, n);
                // Only a terminal needs the decoded line.
                let p99 = row.bar.as_ref().and_then(|_| live::p99_ms(&histograms));
                self.doing(lane, live::second(t, n, committed, is_measured, p99));
            }
            ProgressEvent::RunRepeats(repeated) => {
                self.line(lane, &repeated.words());
                let row = self.row(lane);
                row.live.repeat(repeated.again.len() as u32);
                if let Some(bar) = &row.bar {
                    bar.set_length(row.live.length());
                }
            }
            ProgressEvent::RunEnds { state, tps, failed, reason, left_s, .. } => {
                let tps = tps.map(|tps| format!("{} tps{}", grouped(&format!("{tps:.0}")), failures(failed)));
                let ended = match (state, tps) {
                    (RunState::Completed, tps) => tps.unwrap_or_else(|| "done".to_string()),
                    (_, Some(tps)) => format!("{tps}, {reason}"),
                    (_, None) => reason,
                };
                let (name, left_s) = self.row(lane).live.end(left_s);
                let left = if left_s > 0.0 { format!(", {} left", duration(left_s)) } else { String::new() };
                self.line(lane, &format!("{name}: {ended}{left}"));
            }
        }
    }

    fn row(&mut self, lane: Option<usize>) -> &mut Row {
        let last = self.rows.len() - 1;
        &mut self.rows[lane.unwrap_or(0).min(last)]
    }

    /// Removes the bars.
    pub(crate) fn close(&mut self) {
        for bar in self.rows.iter_mut().filter_map(|row| row.bar.take()) {
            bar.finish_and_clear();
        }
    }

    fn fetch(&mut self, lane: Option<usize>, progress: FetchProgress) {
        match progress {
            FetchProgress::Resolving => self.doing(lane, "asking which releases exist".to_string()),
            FetchProgress::Downloading { release } => {
                self.line(lane, &format!("fetching PostgreSQL {release} (once)"));
            }
            FetchProgress::Unpacking { archive_bytes } => {
                self.doing(lane, format!("unpacking {}", bytes(archive_bytes as f64)));
            }
            FetchProgress::Note(text) => self.note(lane, &text),
        }
    }

    /// Prints a note, which stays and is shown in any case.
    fn note(&mut self, lane: Option<usize>, text: &str) {
        self.print(lane, "note: ", text);
    }

    /// Prints a line that stays.
    fn line(&mut self, lane: Option<usize>, text: &str) {
        if !self.quiet {
            self.print(lane, "", text);
        }
    }

    fn print(&mut self, lane: Option<usize>, kind: &str, text: &str) {
        let row = self.row(lane);
        row.loading_said = Instant::now();
        let name = lane.map_or("", |_| row.name.as_str());
        let text = format!("{kind}{name}{text}");
        let bar = row.bar.clone();
        match (&self.bars, bar) {
            (Some(bars), _) => bars.suspend(|| say(&text)),
            (None, Some(bar)) => bar.suspend(|| say(&text)),
            (None, None) => say(&text),
        }
    }

    /// Shows the current activity, on a terminal only.
    fn doing(&mut self, lane: Option<usize>, text: String) {
        let row = self.row(lane);
        let Some(bar) = &row.bar else { return };
        bar.set_position(row.live.position());
        let name = lane.map_or("", |_| row.name.as_str());
        let message = row.live.message(&text, signals::is_stopping());
        bar.set_message(visible(&format!("{name}{message}")).into_owned());
    }
}

/// The failed transactions of a run, if there are more than reports doubt by default.
fn failures(share: f64) -> String {
    // Not all have failed where one has not.
    let most = if share < 1.0 { 99.0 } else { 100.0 };
    if share > 0.01 { format!(", {:.0} % failed", (100.0 * share).min(most)) } else { String::new() }
}

fn bar(length: u64) -> ProgressBar {
    let bar = ProgressBar::with_draw_target(Some(length), target());
    // A wide message is cut at the edge of the terminal, so that the line never wraps.
    let style = ProgressStyle::with_template("[{bar:16}] {wide_msg}")
        .expect("the template is fixed and valid")
        .progress_chars("=> ");
    bar.set_style(style);
    bar
}

fn target() -> ProgressDrawTarget {
    ProgressDrawTarget::stderr_with_hz(10)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_are_said_from_the_threshold_of_doubt_on() {
        for (share, said) in
            [(0.0, ""), (0.01, ""), (0.02, ", 2 % failed"), (0.999, ", 99 % failed"), (1.0, ", 100 % failed")]
        {
            assert_eq!(failures(share), said);
        }
    }
}
