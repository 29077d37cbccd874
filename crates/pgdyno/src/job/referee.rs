//! Decides whether a run was disturbed, by the same findings as a report.

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::Result;
use experiment::site::referee::{Referee, RunJudgement};
use model::run::RunRecord;

/// Judges by the rules of the catalogue.
pub(crate) struct ByFindings;

impl Referee for ByFindings {
    fn judge(&self, experiment: &Path, record: &RunRecord) -> Result<RunJudgement> {
        let data = store::load_one(experiment, record.spec.run)?;
        let (score, disturbance) = analysis::explain::judge(&data);
        Ok(RunJudgement { score, disturbance })
    }
}

/// The same for an experiment that was fitted to a time: a disturbed run is repeated while there is time for all that is left.
pub(crate) struct InTime {
    begun: Instant,
    budget: Duration,
}

impl InTime {
    /// Of a command that has begun now.
    pub(crate) fn from_now(budget: Duration) -> InTime {
        InTime { begun: Instant::now(), budget }
    }

    /// Seconds that the command has taken so far, and those that it was to take.
    pub(crate) fn spent_s(&self) -> (f64, f64) {
        (self.begun.elapsed().as_secs_f64(), self.budget.as_secs_f64())
    }
}

impl Referee for InTime {
    fn judge(&self, experiment: &Path, record: &RunRecord) -> Result<RunJudgement> {
        ByFindings.judge(experiment, record)
    }

    fn has_time(&self, needed_s: f64) -> bool {
        let (spent_s, budget_s) = self.spent_s();
        spent_s + needed_s <= budget_s
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_is_repeated_while_there_is_time_for_all_that_is_left() {
        let begun = Instant::now().checked_sub(Duration::from_secs(20)).unwrap();
        let in_time = InTime { begun, budget: Duration::from_secs(30) };
        assert!(in_time.has_time(9.0));
        assert!(!in_time.has_time(10.5));
        assert!(ByFindings.has_time(1e9), "nobody asked for a time");
    }
}
