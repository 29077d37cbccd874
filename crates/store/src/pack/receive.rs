//! Takes in the files of an experiment from somewhere that is not believed: an archive, or a database.
//!
//! Paths are those of [`layout`] or refused, every file is written where there was nothing, has the size and the checksum that
//! the list says, and all of them together stay below a bound. What was written is removed again unless all of it was right.

use std::collections::BTreeSet;
use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};

use super::{Measure, PackedFile, Through, layout};
use crate::create::{make_ours, refuse_if_used};
use crate::names;

/// Most files.
const FILES_MAX: usize = 200_000;

/// A directory that is being filled. It is removed when it is dropped before its end.
#[derive(Debug)]
pub struct Receiver {
    to: PathBuf,
    /// Directories that were created, the outermost first.
    dirs: Vec<PathBuf>,
    files: Vec<PathBuf>,
    n_expected: usize,
    is_whole: bool,
}

impl Receiver {
    /// Begins to fill the new or empty directory `to` with these files, of at most `bytes_max` bytes in total.
    ///
    /// # Errors
    /// When the list is not one of an experiment, the files are larger, or the directory cannot be used.
    pub fn begin(to: &Path, files: &[PackedFile], bytes_max: u64) -> Result<Receiver> {
        check(files, bytes_max)?;
        let (to, n_expected) = (to.to_path_buf(), files.len());
        let dirs = make_ours(&to)?;
        let receiver = Receiver { to, dirs, files: Vec::new(), n_expected, is_whole: false };
        refuse_if_used(&receiver.to)?;
        Ok(receiver)
    }

    /// Takes in the next file of the list.
    ///
    /// # Errors
    /// When it is not as the list says, or cannot be written.
    pub fn take(&mut self, file: &PackedFile, from: &mut impl Read) -> Result<()> {
        let PackedFile { path, bytes, sha256 } = file;
        ensure!(layout::is_known(path), unknown(path));
        let target = self.to.join(path);
        if let Some(dir) = target.parent().filter(|dir| *dir != self.to) {
            let missing = dir.ancestors().take_while(|dir| *dir != self.to && !dir.exists());
            let mut missing: Vec<PathBuf> = missing.map(Path::to_path_buf).collect();
            missing.reverse();
            files::create_private_dir_all(dir).with_context(|| cannot_write(dir))?;
            self.dirs.extend(missing);
        }
        let mut out = files::create_new(&target, files::PRIVATE).with_context(|| cannot_write(&target))?;
        self.files.push(target.clone());
        let mut through = Through { out: &mut out, measure: Measure::default() };
        // One byte more shows that there is more.
        std::io::copy(&mut from.take(bytes.saturating_add(1)), &mut through)
            .with_context(|| format!("cannot copy `{path}` to `{}`", target.display()))?;
        let measure = through.measure;
        ensure!(measure.bytes == *bytes, "`{path}` has another size than the list says");
        ensure!(measure.hex() == *sha256, "`{path}` is damaged: its checksum differs");
        Ok(())
    }

    /// Keeps the directory.
    ///
    /// # Errors
    /// When files are missing, or the directory cannot be written.
    pub fn finish(mut self) -> Result<()> {
        ensure!(self.files.len() == self.n_expected, "files of the list are missing");
        files::sync_parent(&self.to.join(names::PLAN)).with_context(|| cannot_write(&self.to))?;
        self.is_whole = true;
        Ok(())
    }
}

impl Drop for Receiver {
    fn drop(&mut self) {
        if self.is_whole {
            return;
        }
        for file in &self.files {
            let _ = fs::remove_file(file);
        }
        for dir in self.dirs.iter().rev() {
            let _ = fs::remove_dir(dir);
        }
    }
}

fn check(files: &[PackedFile], bytes_max: u64) -> Result<()> {
    ensure!(files.len() <= FILES_MAX, "it has more than {FILES_MAX} files");
    let mut paths = BTreeSet::new();
    let mut bytes: u64 = 0;
    for file in files {
        ensure!(layout::is_known(&file.path), unknown(&file.path));
        ensure!(paths.insert(&file.path), "it holds `{}` twice", file.path);
        bytes = bytes.saturating_add(file.bytes);
    }
    ensure!(
        bytes <= bytes_max,
        "its files have {bytes} bytes, more than the {bytes_max} that are accepted; --size-limit accepts more"
    );
    let last = files.last().is_some_and(|file| file.path == names::PLAN);
    ensure!(last, "it does not end with `{}`", names::PLAN);
    Ok(())
}

fn unknown(path: &str) -> String {
    format!("it holds `{}`, which no experiment has", path.escape_debug())
}

fn cannot_write(path: &Path) -> String {
    format!("cannot write `{}`", path.display())
}
