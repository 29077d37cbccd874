//! Says in the directory of the results what happens besides loads, for whoever looks on.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use experiment::site::progress::Progress;
use model::run::now::Now;
use model::run::phase::Phase;
use store::ExperimentDir;

/// How often the progress of loading is said.
const PAUSE: Duration = Duration::from_secs(1);

/// The last thing that was said.
pub(crate) struct Doing<'a> {
    dir: &'a ExperimentDir,
    said: String,
    at: Instant,
}

impl<'a> Doing<'a> {
    pub(crate) fn new(dir: &'a ExperimentDir) -> Doing<'a> {
        Doing { dir, said: String::new(), at: Instant::now() }
    }

    /// Takes note of a step of progress. Nothing is written while a load runs.
    pub(crate) fn show(&mut self, progress: &Progress) {
        match progress.itself() {
            Progress::Step(text) => self.say(text.clone()),
            Progress::RunBegins { .. } => self.say(Phase::Restore.as_str().to_string()),
            Progress::PhaseBegins(Phase::RampUp | Phase::Measure | Phase::Drain) => {}
            Progress::PhaseBegins(phase) => self.say(phase.as_str().replace('_', "-")),
            Progress::Load(load) if self.at.elapsed() >= PAUSE => {
                let percent = 100.0 * load.rows_done as f64 / load.rows_total.max(1) as f64;
                self.say(format!("loading: {} {percent:.0} %", load.step));
            }
            _ => {}
        }
    }

    fn say(&mut self, doing: String) {
        if doing == self.said {
            return;
        }
        let t_unix_ns =
            SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_nanos() as u64);
        let now = Now { format: model::FORMAT, t_unix_ns, doing };
        // Who looks on sees less; the results lack nothing.
        let _ = self.dir.write_now(&now);
        (self.said, self.at) = (now.doing, Instant::now());
    }
}

impl Drop for Doing<'_> {
    fn drop(&mut self) {
        self.dir.clear_now();
    }
}
