//! Decides whether a run was disturbed, by the same findings as a report.

use std::path::Path;

use anyhow::Result;
use experiment::site::referee::{Judged, Referee};
use model::run::RunRecord;

/// Judges by the rules of the catalogue.
pub(crate) struct ByFindings;

impl Referee for ByFindings {
    fn judge(&self, experiment: &Path, record: &RunRecord) -> Result<Judged> {
        let data = store::load_one(experiment, record.spec.run)?;
        let (score, disturbance) = analysis::explain::judge(&data);
        Ok(Judged { score, disturbance })
    }
}
