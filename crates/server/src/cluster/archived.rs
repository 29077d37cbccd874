//! The directory of a cluster into which its server may archive WAL. What is in it lasts as long as that server.

use std::path::{Path, PathBuf};

use anyhow::Result;

use crate::cluster::Cluster;
use crate::user::given;

/// Name of the directory in that of the cluster.
const ARCHIVE: &str = "archive";

impl Cluster {
    /// The directory for archived WAL, without what earlier servers left in it.
    ///
    /// # Errors
    /// When it cannot be emptied or made.
    pub fn empty_archive(&self) -> Result<PathBuf> {
        self.remove_archive()?;
        let directory = self.root.join(ARCHIVE);
        given::make(&directory, &self.account)?;
        Ok(directory)
    }

    /// Removes that directory, if there is one.
    ///
    /// # Errors
    /// When it cannot be removed.
    pub fn remove_archive(&self) -> Result<()> {
        remove_of(&self.root)
    }
}

/// Removes archived WAL of the cluster in `root`, if there is any.
pub(super) fn remove_of(root: &Path) -> Result<()> {
    given::remove(&root.join(ARCHIVE))
}
