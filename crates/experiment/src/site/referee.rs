//! Judges runs that have ended.

use std::path::Path;

use anyhow::Result;
use model::run::RunRecord;

/// Judgement of a run.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct RunJudgement {
    /// How much it was disturbed: 0 not at all, else by how many times a threshold was exceeded; infinite if the run
    /// cannot count.
    pub score: f64,
    /// What a repeat is expected to do and what disturbed the run, in words, if a repeat is worth its time: not for a run that is void
    /// for a reason of its own.
    pub repeat: Option<String>,
    /// Further figures.
    pub figures: RunFigures,
}

/// Figures of a run that has ended, which take all of its records.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct RunFigures {
    /// The range in which its throughput would lie undisturbed, as ratios to it, if that is known.
    pub range: Option<[f64; 2]>,
    /// What a committed transaction cost, by the names of the costs.
    pub costs: Vec<(&'static str, f64)>,
}

/// Judges runs from their records on disk; what a record means is not this crate's business.
pub trait Referee {
    /// Judges a run whose files in the experiment's directory are complete.
    ///
    /// # Errors
    /// When its files cannot be read.
    fn judge(&self, experiment: &Path, record: &RunRecord) -> Result<RunJudgement>;

    /// Judges a run that was made before an interruption, and takes no time now.
    ///
    /// # Errors
    /// When its files cannot be read.
    fn recall(&self, experiment: &Path, record: &RunRecord) -> Result<RunJudgement> {
        self.judge(experiment, record)
    }

    /// Whether planned runs that take so many seconds may still be made: an experiment that was given a time ends with what it has.
    fn may_go_on(&self, _needed_s: f64) -> bool {
        true
    }

    /// Whether there is time to repeat a turn, if that and all planned runs that are left take so many seconds.
    fn has_time(&self, _needed_s: f64) -> bool {
        true
    }
}
