//! Decides after each pair of a comparison whether another one is needed, and whether there is time for it.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use anyhow::Result;
use experiment::schedule::conduct::measured_tps;
use experiment::site::referee::{Judged, Referee};
use model::experiment::plan::{Plan, RunState};
use model::run::RunRecord;
use stats::Precision;

use crate::front::cli::CompareArgs;
use crate::job::referee::ByFindings;

/// Decides after each pair whether another one is needed and whether there is time for it.
pub(super) struct Gauge {
    precision: Option<Precision>,
    time: Duration,
    made: Mutex<Made>,
}

/// Progress so far.
#[derive(Default)]
struct Made {
    /// When the first run ended: the time before it included loading data.
    first_end: Option<Instant>,
    /// Runs since then.
    n_since: u32,
    /// Throughput of A and B by block, of the runs that count.
    tps: BTreeMap<u32, [Option<f64>; 2]>,
}

impl Made {
    /// Time since the first run at which another pair will have ended.
    fn after_next_pair(&self) -> Duration {
        let spent = self.first_end.map_or(Duration::ZERO, |end| end.elapsed());
        spent + 2 * spent / self.n_since.max(1)
    }
}

impl Referee for Gauge {
    fn judge(&self, experiment: &Path, record: &RunRecord) -> Result<Judged> {
        let mut made = self.made();
        match made.first_end {
            None => made.first_end = Some(Instant::now()),
            Some(_) => made.n_since += 1,
        }
        drop(made);
        ByFindings.judge(experiment, record)
    }

    fn has_time(&self) -> bool {
        self.precision.is_none() || self.made().after_next_pair() <= self.time
    }
}

impl Gauge {
    pub(super) fn new(args: &CompareArgs, plan: &Plan) -> Gauge {
        // With a given rate throughput says nothing: only the time ends the comparison.
        let is_open = plan.cases.iter().any(|case| case.workload.pace.is_open());
        let half_width = if is_open { 0.0 } else { args.precision };
        Gauge {
            precision: plan.precision.map(|_| Precision { half_width }),
            time: Duration::from_millis(args.time.ms),
            made: Mutex::default(),
        }
    }

    fn made(&self) -> MutexGuard<'_, Made> {
        self.made.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Called for each run that counts; answers once its pair is complete.
    pub(super) fn is_enough(&self, record: &RunRecord) -> bool {
        let Some(precision) = self.precision else { return false };
        let mut made = self.made();
        let sides = made.tps.entry(record.spec.block).or_default();
        let of_run = measured_tps(record).filter(|_| record.state == RunState::Completed);
        sides[usize::from(record.spec.case != 1)] = Some(of_run.unwrap_or(0.0));
        if sides.iter().any(Option::is_none) {
            return false;
        }
        let log = |sides: &[Option<f64>; 2]| Some((sides[1]? / sides[0]?).ln()).filter(|log| log.is_finite());
        let logs: Vec<f64> = made.tps.values().filter_map(log).collect();
        precision.is_reached(&logs) || made.after_next_pair() > self.time
    }
}
