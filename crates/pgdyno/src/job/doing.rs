//! Says in the directory of the results what happens besides loads, for whoever looks on.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use experiment::site::progress::ProgressEvent;
use model::run::now::CurrentActivity;
use model::run::phase::Phase;
use store::ExperimentDir;

use crate::job::left::RemainingTime;

/// How often the progress of loading is said.
const PAUSE: Duration = Duration::from_secs(1);

/// The last thing that was said, and how long the runs of each lane will take.
pub(crate) struct Doing<'a> {
    dir: &'a ExperimentDir,
    now: CurrentActivity,
    at: Instant,
    left: Vec<RemainingTime>,
}

impl<'a> Doing<'a> {
    /// `left` are the estimates of the plan ([`RemainingTime::of_plan`]).
    pub(crate) fn new(dir: &'a ExperimentDir, left: Vec<RemainingTime>) -> Doing<'a> {
        // A killed pgdyno may have left what it said.
        dir.clear_now();
        let now = CurrentActivity {
            format: model::FORMAT,
            t_unix_ns: 0,
            doing: String::new(),
            ends_unix_ns: Vec::new(),
        };
        Doing { dir, now, at: Instant::now(), left }
    }

    /// Takes note of a step of progress. Nothing is written while a load runs.
    pub(crate) fn show(&mut self, progress: &ProgressEvent) {
        match progress.itself() {
            ProgressEvent::Step(text) => self.say(text.clone()),
            ProgressEvent::RunBegins { .. } => {
                if let Some(left) = self.left_of(progress) {
                    left.begin();
                }
                self.say_in_any_case(Phase::Restore.as_str().to_string());
            }
            ProgressEvent::RunEnds { left_s, .. } => {
                if let Some(left) = self.left_of(progress) {
                    left.end(*left_s);
                }
                self.write();
            }
            ProgressEvent::PhaseBegins(Phase::RampUp | Phase::Measure | Phase::Drain) => {}
            ProgressEvent::PhaseBegins(phase) => self.say(phase.as_str().replace('_', "-")),
            ProgressEvent::Load(load) if self.at.elapsed() >= PAUSE => {
                let percent = 100.0 * load.rows_done as f64 / load.rows_total.max(1) as f64;
                self.say(format!("loading: {} {percent:.0} %", load.step));
            }
            _ => {}
        }
    }

    /// The estimate that progress of a run is about. A duet's sides are measured at once, and its rounds end without progress: then
    /// nothing is estimated, and whoever looks on goes by the rounds so far.
    fn left_of(&mut self, progress: &ProgressEvent) -> Option<&mut RemainingTime> {
        match progress {
            ProgressEvent::OfLane { lane, .. } => self.left.get_mut(*lane),
            ProgressEvent::OfSide { .. } => {
                self.left.clear();
                None
            }
            _ => self.left.first_mut(),
        }
    }

    fn say(&mut self, doing: String) {
        if doing != self.now.doing {
            self.say_in_any_case(doing);
        }
    }

    /// Says it even if that is what was said before: the estimate is another one.
    fn say_in_any_case(&mut self, doing: String) {
        (self.now.doing, self.now.t_unix_ns) = (doing, now_unix_ns());
        self.at = Instant::now();
        self.write();
    }

    fn write(&mut self) {
        let now_unix_ns = now_unix_ns();
        let left: Vec<Option<f64>> = self.left.iter().map(RemainingTime::now_s).collect();
        let is_known = left.iter().any(Option::is_some);
        // A lane without runs has ended.
        let ends = left.iter().map(|left_s| now_unix_ns + (left_s.unwrap_or(0.0) * 1e9) as u64);
        self.now.ends_unix_ns = if is_known { ends.collect() } else { Vec::new() };
        // Who looks on sees less; the results lack nothing.
        let _ = self.dir.write_now(&self.now);
    }
}

fn now_unix_ns() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_nanos() as u64)
}

impl Drop for Doing<'_> {
    fn drop(&mut self) {
        self.dir.clear_now();
    }
}
