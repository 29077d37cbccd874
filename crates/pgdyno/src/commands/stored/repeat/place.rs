//! The results that are repeated: a directory, or a file that is unpacked for the time being.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use crate::front::cli::packed::RepeatArgs;
use crate::front::cli::stored::RESULTS;

/// Directory of the original results next to those of their repetition.
const ORIGINAL: &str = "original";

/// Where the original results are.
pub(super) struct Original {
    dir: PathBuf,
    /// It was unpacked, and is removed unless it is kept.
    is_unpacked: bool,
}

impl Original {
    /// Finds or unpacks the results.
    ///
    /// # Errors
    /// When they are neither a directory nor a packed file.
    pub(super) fn of(args: &RepeatArgs) -> Result<Original> {
        if args.results.is_dir() {
            return Ok(Original { dir: args.results.clone(), is_unpacked: false });
        }
        // Below the place of the new results, to which it moves later.
        let place = match &args.output {
            Some(output) => output.parent().filter(|parent| !parent.as_os_str().is_empty()),
            None => Some(Path::new(RESULTS)),
        };
        let name = format!(".unpacked-{}", files::random_hex(8).context("cannot name a directory")?);
        let dir = place.unwrap_or(Path::new(".")).join(name);
        store::unpack(&args.results, &dir, args.limit.size_limit)?;
        Ok(Original { dir, is_unpacked: true })
    }

    /// The directory of the results.
    pub(super) fn dir(&self) -> &Path {
        &self.dir
    }

    /// Keeps unpacked results within those of their repetition.
    ///
    /// # Errors
    /// When they cannot be moved.
    pub(super) fn keep_in(&mut self, dir: &Path) -> Result<()> {
        if self.is_unpacked {
            let kept = dir.join(ORIGINAL);
            std::fs::rename(&self.dir, &kept)
                .with_context(|| format!("cannot create `{}`", kept.display()))?;
            (self.dir, self.is_unpacked) = (kept, false);
        }
        Ok(())
    }
}

impl Drop for Original {
    fn drop(&mut self) {
        if self.is_unpacked {
            let _ = std::fs::remove_dir_all(&self.dir);
        }
    }
}
