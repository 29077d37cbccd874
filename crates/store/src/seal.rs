//! The seal of an experiment: that this user's pgdyno, with this cache, made the plan and the experiment file that are in this
//! directory. Whoever owns a file has not therefore written what it says: what was unpacked, fetched, copied or changed has no seal
//! that fits.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use anyhow::{Context, Result};
use model::experiment::plan::Plan;
use model::secret;
use serde::{Deserialize, Serialize};

use crate::load::{self, LoadError, read_whole};
use crate::names;
use crate::records::write_record;

/// What the digest is for: no other use of the key makes the same one.
const PURPOSE: &str = "plan and experiment of results";

/// `seal.json`.
#[derive(Debug, Serialize, Deserialize)]
struct Seal {
    /// Format version, [`model::FORMAT`].
    format: u32,
    /// The digest, in hexadecimal.
    seal: String,
}

/// A stored experiment, as it may be executed: the plan and the text are those that were compared with the seal.
#[derive(Debug, Clone)]
pub struct Sealed {
    /// The plan.
    pub plan: Plan,
    /// The experiment file.
    pub experiment_toml: String,
    /// Who wrote them.
    pub author: Author,
}

/// Who wrote a plan and its experiment file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Author {
    /// This user's pgdyno, into this directory.
    Ours,
    /// Nobody knows.
    Unknown(Reason),
}

/// Why it is not known who wrote a plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reason {
    /// There is no seal.
    Unsealed,
    /// The seal does not fit.
    Broken,
}

impl Reason {
    /// In words.
    pub fn words(self) -> &'static str {
        match self {
            Reason::Unsealed => {
                "they have no `seal.json`: they were unpacked, fetched from a store, merged from such results, measured by the experiment file of \
                 somebody else, or measured by a pgdyno that wrote none"
            }
            Reason::Broken => {
                "their `seal.json` does not fit: another user measured them, or with another cache (PGDYNO_CACHE) or on another machine, \
                 or plan or experiment file were changed, or the directory is a copy"
            }
        }
    }
}

impl Author {
    /// Whether this user's pgdyno wrote them.
    pub fn is_us(self) -> bool {
        self == Author::Ours
    }
}

/// Reads a stored plan and its experiment file to execute them, each file once, and who wrote them.
///
/// # Errors
/// As [`crate::read_plan`] and [`crate::read_experiment`].
pub fn read_sealed(path: &Path) -> Result<Sealed, LoadError> {
    let (plan_bytes, plan) = load::plan_of(path)?;
    let text_bytes = load::experiment_bytes(path)?;
    let author = author(path, &plan_bytes, &text_bytes);
    let experiment_toml = load::experiment_text(path, text_bytes)?;
    Ok(Sealed { plan, experiment_toml, author })
}

fn author(path: &Path, plan: &[u8], text: &[u8]) -> Author {
    let kept = match read_whole(&path.join(names::SEAL)) {
        Ok(bytes) => serde_json::from_slice::<Seal>(&bytes).ok(),
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Author::Unknown(Reason::Unsealed),
        Err(_) => None,
    };
    let fits = |kept: &Seal| digest(path, plan, text).is_some_and(|digest| is_same(&digest, &kept.seal));
    if kept.as_ref().is_some_and(fits) { Author::Ours } else { Author::Unknown(Reason::Broken) }
}

/// Whether two texts are equal, in a time that does not depend on where they differ.
fn is_same(one: &str, other: &str) -> bool {
    let differences = one.bytes().zip(other.bytes()).map(|(a, b)| a ^ b).fold(0, |all, bits| all | bits);
    one.len() == other.len() && differences == 0
}

/// The directory counts by its number in its file system, which a move within it keeps and no copy has: records and the journal next to
/// the plan have no seal of their own, and decide what is left to do.
fn digest(path: &Path, plan: &[u8], text: &[u8]) -> Option<String> {
    let directory = fs::metadata(path).ok()?.ino();
    secret::seal(PURPOSE, &[&directory.to_le_bytes(), plan, text])
}

/// Seals the plan and the experiment file that are about to be in a directory. Without a key there is no seal.
///
/// # Errors
/// When the directory is not writable.
pub(crate) fn write(path: &Path, plan: &[u8], text: &[u8]) -> Result<()> {
    let Some(seal) = digest(path, plan, text) else { return Ok(()) };
    write_record(&path.join(names::SEAL), &Seal { format: model::FORMAT, seal })
        .context("cannot seal the plan")
}
