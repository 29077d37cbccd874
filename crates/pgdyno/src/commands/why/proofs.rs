//! What what-ifs proved, kept with the results that they explain.

use std::path::Path;

use analysis::summary::Study;
use analysis::summary::proof::Proof;
use analysis::what_if;
use anyhow::{Context, Result, ensure};
use serde::{Deserialize, Serialize};

/// Longest file that is read; pgdyno writes much shorter ones.
const BYTES_MAX: u64 = 1 << 20;

/// The file of proofs.
#[derive(Debug, Default, Serialize, Deserialize)]
struct Kept {
    /// Format version, [`model::FORMAT`].
    format: u32,
    /// Each case of which something was tested.
    cases: Vec<Proofs>,
}

/// The proofs of a case.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Proofs {
    /// Number of the case.
    pub(crate) case: u32,
    /// Results of the what-ifs.
    pub(crate) measured_in: String,
    /// Each what-if.
    pub(crate) proofs: Vec<Proof>,
}

/// Keeps what was proven of the results in `dir`, instead of what was proven of the same case before.
///
/// # Errors
/// When the directory is not writable, or the file is damaged.
pub(crate) fn keep(dir: &Path, proofs: &Proofs) -> Result<()> {
    let mut kept = read(dir)?;
    kept.format = model::FORMAT;
    kept.cases.retain(|known| known.case != proofs.case);
    kept.cases.push(proofs.clone());
    let text = serde_json::to_string_pretty(&kept)?;
    store::write_report(&dir.join(store::names::PROOFS), text.as_bytes())
}

/// What was proven of each case of the results in `dir`.
///
/// # Errors
/// When the file is damaged.
pub(crate) fn of(dir: &Path) -> Result<Vec<Proofs>> {
    Ok(read(dir)?.cases)
}

/// What was proven so far; nothing if there is no file.
fn read(dir: &Path) -> Result<Kept> {
    let path = dir.join(store::names::PROOFS);
    if !path.exists() {
        return Ok(Kept::default());
    }
    let within = || format!("`{}` is damaged; remove it, or run pgdyno why again", path.display());
    let bytes = files::read(&path, BYTES_MAX).with_context(within)?;
    let kept: Kept = serde_json::from_slice(&bytes).with_context(within)?;
    ensure!(
        kept.format <= model::FORMAT,
        "`{}` has format {}, and this pgdyno reads formats up to {}; use a newer pgdyno",
        path.display(),
        kept.format,
        model::FORMAT
    );
    Ok(kept)
}

/// Gives a study what was proven of it, if anything was.
///
/// # Errors
/// When the file is damaged.
pub(crate) fn confirm(dir: &Path, study: &mut Study) -> Result<()> {
    for proofs in read(dir)?.cases {
        what_if::confirm(study, proofs.case, &proofs.proofs);
    }
    Ok(())
}
