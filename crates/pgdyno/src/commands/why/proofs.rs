//! What what-ifs proved, kept with the results that they explain.

use std::path::Path;

use analysis::summary::Study;
use analysis::summary::proof::Proof;
use analysis::what_if;
use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};

/// The file in the directory of the results.
const FILE: &str = "why.json";
/// Longest file that is read; pgdyno writes much shorter ones.
const BYTES_MAX: u64 = 1 << 20;

/// What the what-ifs of a case proved.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Proofs {
    /// Format version, [`model::FORMAT`].
    pub(crate) format: u32,
    /// Number of the case.
    pub(crate) case: u32,
    /// Results of the what-ifs.
    pub(crate) measured_in: String,
    /// Each what-if.
    pub(crate) proofs: Vec<Proof>,
}

/// Keeps what was proven of the results in `dir`.
///
/// # Errors
/// When the directory is not writable.
pub(super) fn keep(dir: &Path, proofs: &Proofs) -> Result<()> {
    let text = serde_json::to_string_pretty(proofs)?;
    store::write_report(&dir.join(FILE), text.as_bytes())
}

/// Gives a study what was proven of it, if anything was.
///
/// # Errors
/// When the file is damaged.
pub(crate) fn confirm(dir: &Path, study: &mut Study) -> Result<()> {
    let path = dir.join(FILE);
    if !path.exists() {
        return Ok(());
    }
    let within = || format!("`{}` is damaged; remove it, or run pgdyno why again", path.display());
    let bytes = files::read(&path, BYTES_MAX).with_context(within)?;
    let proofs: Proofs = serde_json::from_slice(&bytes).with_context(within)?;
    what_if::confirm(study, proofs.case, &proofs.proofs);
    Ok(())
}
