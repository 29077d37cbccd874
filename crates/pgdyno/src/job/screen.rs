//! Progress for people, on standard error: bars on a terminal, lines otherwise.

use std::io::IsTerminal;
use std::time::{Duration, Instant};

use experiment::site::progress::Progress;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use model::experiment::plan::{Plan, RunState};
use model::text::visible::visible;
use server::FetchProgress;

use crate::job::preview::{duration, order, outlook, size};
use crate::say;

/// Shows progress.
pub(crate) struct Screen {
    /// One line on a terminal: runs done, current activity, time left.
    bar: Option<ProgressBar>,
    plan_s: f64,
    left_s: f64,
    left_said: Instant,
    run: String,
    doing: String,
    loading_said: Instant,
}

impl Screen {
    /// A screen for the runs of `plan`.
    pub(crate) fn new(plan: &Plan) -> Screen {
        let plan_s = outlook(plan).runs_s;
        say(&format!("{}: {} in {}, about {}", plan.name, size(plan), order(plan), duration(plan_s)));
        Screen::of(plan.runs.len() as u64, plan_s)
    }

    /// A screen for a single task of unknown length.
    pub(crate) fn of_one() -> Screen {
        Screen::of(1, 0.0)
    }

    fn of(n: u64, plan_s: f64) -> Screen {
        let now = Instant::now();
        Screen {
            bar: std::io::stderr().is_terminal().then(|| bar(n)),
            plan_s,
            left_s: plan_s,
            left_said: now,
            run: String::new(),
            doing: String::new(),
            loading_said: now,
        }
    }

    /// Shows one step of progress.
    pub(crate) fn show(&mut self, progress: Progress) {
        match progress {
            Progress::Fetch(fetch) => self.fetch(fetch),
            Progress::Step(text) => self.line(&text),
            Progress::Note(text) => self.line(&format!("note: {text}")),
            Progress::Load(load) => {
                let percent = 100.0 * load.rows_done as f64 / load.rows_total.max(1) as f64;
                let elapsed_s = self.loading_said.elapsed().as_secs_f64();
                let left_s = elapsed_s * (100.0 / percent.max(0.1) - 1.0);
                let eta =
                    if load.step == "rows" { format!(", {} left", duration(left_s)) } else { String::new() };
                self.doing(format!("loading: {} {percent:.0} %{eta}", load.step));
            }
            Progress::RunBegins { run, n_runs, label } => {
                self.left_said = Instant::now();
                self.run = format!("run {run}/{n_runs}, {label}");
                self.doing("restore".to_string());
            }
            Progress::PhaseBegins(phase) => self.doing(phase.as_str().replace('_', "-")),
            Progress::Second { t, n, committed, is_measured } => {
                let phase = if is_measured { "measure" } else { "ramp-up" };
                self.doing(format!("{phase} {t}/{n} s, {committed} tps"));
            }
            Progress::RunRepeats { run, n, reason } => {
                self.line(&format!("run {run} was disturbed and is repeated: {reason}"));
                if let Some(bar) = &self.bar {
                    bar.inc_length(n.into());
                }
            }
            Progress::RunEnds { run, n_runs, state, tps, reason, left_s } => {
                self.left_s = left_s;
                self.left_said = Instant::now();
                let ended = match (state, tps) {
                    (RunState::Completed, Some(tps)) => format!("{tps:.0} tps"),
                    (_, Some(tps)) => format!("{tps:.0} tps, {reason}"),
                    (_, None) => reason,
                };
                let left = if run < n_runs { format!(", {} left", duration(left_s)) } else { String::new() };
                let run = std::mem::take(&mut self.run);
                self.line(&format!("{run}: {ended}{left}"));
                if let Some(bar) = &self.bar {
                    bar.inc(1);
                }
            }
        }
    }

    /// Takes the bar away.
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
                self.doing(format!("unpacking {:.0} MB", archive_bytes as f64 / 1e6));
            }
            FetchProgress::Note(text) => self.line(&format!("note: {text}")),
        }
    }

    /// Prints a line that stays.
    fn line(&mut self, text: &str) {
        self.loading_said = Instant::now();
        match &self.bar {
            Some(bar) => bar.suspend(|| say(text)),
            None => say(text),
        }
    }

    /// Shows the current activity, on a terminal only.
    fn doing(&mut self, text: String) {
        self.doing = text;
        let Some(bar) = &self.bar else { return };
        let left_s =
            (self.left_s - self.left_said.elapsed().as_secs_f64()).clamp(0.0, self.plan_s.max(self.left_s));
        let run = if self.run.is_empty() { String::new() } else { format!("{}: ", self.run) };
        let left = if self.plan_s > 0.0 { format!(" | {} left", duration(left_s)) } else { String::new() };
        bar.set_message(visible(&format!("{run}{}{left}", self.doing)).into_owned());
    }
}

fn bar(n_runs: u64) -> ProgressBar {
    let bar = ProgressBar::with_draw_target(Some(n_runs), ProgressDrawTarget::stderr_with_hz(10));
    let style = ProgressStyle::with_template("[{bar:20}] {pos}/{len} {elapsed} {msg}")
        .expect("the template is fixed and valid")
        .progress_chars("=> ");
    bar.set_style(style);
    bar.enable_steady_tick(Duration::from_millis(500));
    bar
}
