//! What a sweep has done with the directories that killed processes left.

use std::path::PathBuf;

/// A directory that pgdyno made and nobody works in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Swept {
    /// Where it is, or was.
    pub path: PathBuf,
    /// Why it is still there, if it could not be removed: something may be mounted in it.
    pub left: Option<String>,
}

impl Swept {
    /// One that was removed, or that cannot be, and why.
    pub fn from_result<E: std::fmt::Display>(path: PathBuf, removed: std::result::Result<(), E>) -> Swept {
        Swept { path, left: removed.err().map(|error| format!("{error:#}")) }
    }

    /// Paths of those that were removed.
    pub fn removed(all: Vec<Swept>) -> Vec<PathBuf> {
        all.into_iter().filter(|swept| swept.left.is_none()).map(|swept| swept.path).collect()
    }
}
