//! The directory that a cluster was made in. The marker names it, so that a copy, a link, or a cluster that somebody has renamed to keep it
//! does not pass for the one that pgdyno made.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use anyhow::{Result, ensure};
use serde::{Deserialize, Serialize};

/// The directory of a cluster, as no copy of it and no other name has it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Home {
    /// Number in its file system.
    pub inode: u64,
    /// Name in the directory of clusters.
    pub name: String,
}

impl Home {
    pub(crate) fn of(root: &Path) -> io::Result<Home> {
        let name = root.file_name().unwrap_or_default().to_string_lossy().into_owned();
        Ok(Home { inode: fs::symlink_metadata(root)?.ino(), name })
    }

    /// Fails if `root` is another directory.
    ///
    /// # Errors
    /// Says what it is, and what to do.
    pub(crate) fn expect(&self, root: &Path) -> Result<()> {
        ensure!(
            Home::of(root).is_ok_and(|here| here == *self),
            "`{}` is not the cluster that pgdyno made, but a copy of `{}`, a link, or that one under another name: pgdyno leaves it alone; \
             rename it back, or remove it yourself",
            root.display(),
            self.name
        );
        Ok(())
    }
}
