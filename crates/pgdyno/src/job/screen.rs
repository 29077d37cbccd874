//! Progress for people, on standard error: a line with a bar on a terminal, lines otherwise.

mod live;

use std::io::IsTerminal;
use std::time::{Duration, Instant};

use experiment::site::progress::Progress;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use live::Live;
use model::experiment::plan::{Plan, RunState};
use model::text::prose::{bytes, grouped};
use model::text::visible::visible;
use server::FetchProgress;

use crate::job::preview::{duration, order, outlook, size};
use crate::say;

/// Shows progress.
pub(crate) struct Screen {
    /// One line on a terminal.
    bar: Option<ProgressBar>,
    /// Whether only notes are shown.
    quiet: bool,
    live: Live,
    loading_said: Instant,
}

impl Screen {
    /// A screen for the runs of `plan`.
    pub(crate) fn new(plan: &Plan, quiet: bool) -> Screen {
        let plan_s = outlook(plan).runs_s;
        if !quiet {
            say(&format!("{}: {} in {}, about {}", plan.name, size(plan), order(plan), duration(plan_s)));
        }
        Screen::of(plan.runs.len() as u32, plan_s, quiet)
    }

    /// A screen for a single task of unknown length.
    pub(crate) fn of_one() -> Screen {
        Screen::of(1, 0.0, false)
    }

    fn of(n_runs: u32, plan_s: f64, quiet: bool) -> Screen {
        let live = Live::new(n_runs, plan_s);
        let bar = (std::io::stderr().is_terminal() && !quiet).then(|| bar(live.length()));
        Screen { bar, quiet, live, loading_said: Instant::now() }
    }

    /// Shows one step of progress.
    pub(crate) fn show(&mut self, progress: Progress) {
        match progress {
            Progress::Fetch(fetch) => self.fetch(fetch),
            Progress::Step(text) => self.line(&text),
            Progress::Note(text) => self.note(&text),
            Progress::Load(load) => {
                let percent = 100.0 * load.rows_done as f64 / load.rows_total.max(1) as f64;
                let elapsed_s = self.loading_said.elapsed().as_secs_f64();
                let left_s = elapsed_s * (100.0 / percent.max(0.1) - 1.0);
                let eta =
                    if load.step == "rows" { format!(", {} left", duration(left_s)) } else { String::new() };
                self.doing(format!("loading: {} {percent:.0} %{eta}", load.step));
            }
            Progress::RunBegins { run, n_runs, label } => {
                self.live.begin(run, n_runs, label);
                self.doing("restore".to_string());
            }
            Progress::PhaseBegins(phase) => self.doing(phase.as_str().replace('_', "-")),
            Progress::Second { t, n, committed, is_measured, histograms } => {
                self.live.second(t, n);
                // Only a terminal needs the decoded line.
                let p99 = self.bar.as_ref().and_then(|_| live::p99_ms(&histograms));
                self.doing(live::second(t, n, committed, is_measured, p99));
            }
            Progress::RunRepeats { run, n, reason } => {
                self.line(&format!("run {run} was disturbed and is repeated: {reason}"));
                self.live.repeat(n);
                if let Some(bar) = &self.bar {
                    bar.set_length(self.live.length());
                }
            }
            Progress::RunEnds { run, n_runs, state, tps, failed, reason, left_s } => {
                let tps = tps.map(|tps| format!("{} tps{}", grouped(&format!("{tps:.0}")), failures(failed)));
                let ended = match (state, tps) {
                    (RunState::Completed, tps) => tps.unwrap_or_else(|| "done".to_string()),
                    (_, Some(tps)) => format!("{tps}, {reason}"),
                    (_, None) => reason,
                };
                let left = if run < n_runs { format!(", {} left", duration(left_s)) } else { String::new() };
                let name = self.live.end(left_s);
                self.line(&format!("{name}: {ended}{left}"));
            }
        }
    }

    /// Removes the bar.
    pub(crate) fn close(&mut self) {
        if let Some(bar) = self.bar.take() {
            bar.finish_and_clear();
        }
    }

    fn fetch(&mut self, progress: FetchProgress) {
        match progress {
            FetchProgress::Resolving => self.doing("asking which releases exist".to_string()),
            FetchProgress::Downloading { release } => {
                self.line(&format!("fetching PostgreSQL {release} (once)"))
            }
            FetchProgress::Unpacking { archive_bytes } => {
                self.doing(format!("unpacking {}", bytes(archive_bytes as f64)));
            }
            FetchProgress::Note(text) => self.note(&text),
        }
    }

    /// Prints a note, which stays and is shown in any case.
    fn note(&mut self, text: &str) {
        self.print(&format!("note: {text}"));
    }

    /// Prints a line that stays.
    fn line(&mut self, text: &str) {
        if !self.quiet {
            self.print(text);
        }
    }

    fn print(&mut self, text: &str) {
        self.loading_said = Instant::now();
        match &self.bar {
            Some(bar) => bar.suspend(|| say(text)),
            None => say(text),
        }
    }

    /// Shows the current activity, on a terminal only.
    fn doing(&mut self, text: String) {
        let Some(bar) = &self.bar else { return };
        bar.set_position(self.live.position());
        bar.set_message(visible(&self.live.message(&text)).into_owned());
    }
}

/// The failed transactions of a run, if there are more than reports doubt by default.
fn failures(share: f64) -> String {
    // Not all have failed where one has not.
    let most = if share < 1.0 { 99.0 } else { 100.0 };
    if share > 0.01 { format!(", {:.0} % failed", (100.0 * share).min(most)) } else { String::new() }
}

fn bar(length: u64) -> ProgressBar {
    let bar = ProgressBar::with_draw_target(Some(length), ProgressDrawTarget::stderr_with_hz(10));
    // A wide message is cut at the edge of the terminal, so that the line never wraps.
    let style = ProgressStyle::with_template("[{bar:16}] {wide_msg}")
        .expect("the template is fixed and valid")
        .progress_chars("=> ");
    bar.set_style(style);
    bar.enable_steady_tick(Duration::from_millis(500));
    bar
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
