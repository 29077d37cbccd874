//! Decides whether a repeat of a run is worth its time, by the same findings and the same budget as a report.

use std::path::Path;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use analysis::explain::{RepeatJudge, RunVerdict};
use anyhow::Result;
use experiment::site::referee::{Referee, RunFigures, RunJudgement};
use model::run::RunRecord;

/// Judges by the rules of the catalogue and the budget of the uncertainty. It remembers the runs that it has judged.
#[derive(Debug, Default)]
pub(crate) struct ByBudget {
    judge: Mutex<RepeatJudge>,
}

impl Referee for ByBudget {
    fn judge(&self, experiment: &Path, record: &RunRecord) -> Result<RunJudgement> {
        let plan = store::read_plan(experiment)?;
        let data = store::load_one(experiment, record.spec.run)?;
        let mut judge = self.judge.lock().unwrap_or_else(PoisonError::into_inner);
        let RunVerdict { score, repeat, range, costs } = judge.judge(&plan, &data);
        let costs = costs.iter().map(|cost| (cost.id, cost.value)).collect();
        Ok(RunJudgement { score, repeat, figures: RunFigures { range, costs } })
    }
}

/// How many times as long as it was asked for a fitted experiment may take before it leaves out runs.
const TIMES_MAX: f64 = 1.1;

/// The same for an experiment that was fitted to a time: a disturbed run is repeated while there is time for all that is left.
pub(crate) struct InTime {
    begun: Instant,
    budget: Duration,
    referee: ByBudget,
}

impl InTime {
    /// Of a command that has begun now.
    pub(crate) fn from_now(budget: Duration) -> InTime {
        InTime { begun: Instant::now(), budget, referee: ByBudget::default() }
    }

    /// Seconds that the command has taken so far, and those that it was to take.
    pub(crate) fn spent_s(&self) -> (f64, f64) {
        (self.begun.elapsed().as_secs_f64(), self.budget.as_secs_f64())
    }
}

impl Referee for InTime {
    fn judge(&self, experiment: &Path, record: &RunRecord) -> Result<RunJudgement> {
        self.referee.judge(experiment, record)
    }

    fn may_go_on(&self, needed_s: f64) -> bool {
        let (spent_s, budget_s) = self.spent_s();
        spent_s + needed_s <= budget_s * TIMES_MAX
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
        let in_time = InTime { begun, budget: Duration::from_secs(30), referee: ByBudget::default() };
        assert!(in_time.has_time(9.0));
        assert!(!in_time.has_time(10.5));
        assert!(in_time.may_go_on(12.0) && !in_time.may_go_on(13.5), "33 s in all");
        let free = ByBudget::default();
        assert!(free.has_time(1e9) && free.may_go_on(1e9), "nobody asked for a time");
    }
}
