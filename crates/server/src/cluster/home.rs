//! The directory that a cluster was made in. The marker names it, so that a copy, a link, or a cluster that somebody has renamed to keep it
//! does not pass for the one that pgdyno made.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use serde::{Deserialize, Serialize};

/// The directory of a cluster, as no copy of it and no other name has it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClusterDir {
    /// Number in its file system.
    pub inode: u64,
    /// Name in the directory of clusters.
    pub name: String,
}

impl ClusterDir {
    pub(crate) fn open(root: &Path) -> io::Result<ClusterDir> {
        let name = root.file_name().unwrap_or_default().to_string_lossy().into_owned();
        Ok(ClusterDir { inode: fs::symlink_metadata(root)?.ino(), name })
    }

    /// Fails if `root` is another directory. One of the same name that pgdyno has left as it is, `is_as_left`, has moved with its cache: to
    /// another disk, from a backup, in an image.
    ///
    /// # Errors
    /// Says what it is, and what to do.
    pub(crate) fn expect(&self, root: &Path, is_as_left: impl FnOnce() -> bool) -> Result<()> {
        let here = ClusterDir::open(root).with_context(|| format!("look at `{}`", root.display()))?;
        if here == *self {
            return Ok(());
        }
        ensure!(
            here.name == self.name,
            "`{}` is a copy of `{}`, or that one under another name: pgdyno leaves it alone; name it was, or remove it yourself",
            root.display(),
            self.name
        );
        ensure!(
            fs::symlink_metadata(root).is_ok_and(|facts| facts.is_dir()) && is_as_left(),
            "`{}` is a link or a copy, and not as pgdyno left it, or it has files elsewhere that the original may need: pgdyno leaves it alone; \
             `pgdyno server remove --force {}` removes it, or move it elsewhere",
            root.display(),
            self.name
        );
        Ok(())
    }
}
