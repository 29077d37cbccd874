//! Who judges runs that have ended.

use std::path::Path;

use anyhow::Result;
use model::run::RunRecord;

/// What a run that has ended was like.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Judged {
    /// How much it was disturbed: 0 not at all, else by how many times a threshold was exceeded; infinite if the run
    /// cannot count.
    pub score: f64,
    /// What disturbed it, in words, if something did.
    pub disturbance: Option<String>,
}

/// Who judges runs, from what is on disk of them: what a record means is not this crate's business.
pub trait Referee {
    /// What the run was like whose directory is whole in the experiment's one.
    ///
    /// # Errors
    /// When it cannot be read.
    fn judge(&self, experiment: &Path, record: &RunRecord) -> Result<Judged>;

    /// Whether there is time to make a turn again.
    fn has_time(&self) -> bool {
        true
    }
}
