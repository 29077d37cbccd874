//! Takes in the files of an experiment from somewhere that is not believed: an archive, or a database.
//!
//! Paths are those of [`layout`] or refused, every file is written where there was nothing, has the size and the checksum that
//! the list says, and all of them together stay below a bound. They are collected in a hidden directory within the new one, and
//! moved to their places when all of them are right and on disk: a kill or a power cut leaves a part that is known as one, and the
//! next attempt removes it.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{self, ErrorKind, Read};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};

use super::{Measure, PackedFile, Through, layout};
use crate::create::{make_ours, refuse_if_used};
use crate::lock::WriteLock;
use crate::names;

/// Most files.
const FILES_MAX: usize = 200_000;
/// Where files are collected: it is made in an empty directory only.
const PART: &str = ".unpacking";

/// A directory that is being filled. What was written is removed when it is dropped before its end.
#[derive(Debug)]
pub struct Receiver {
    to: PathBuf,
    /// Directories that were created, the outermost first.
    dirs: Vec<PathBuf>,
    /// Keeps others out of the directory.
    lock: Option<WriteLock>,
    /// Whether the part is ours.
    has_part: bool,
    /// What stands in its place already.
    moved: Vec<PathBuf>,
    /// What the part has in its outermost directory.
    outermost: BTreeSet<String>,
    n_files: usize,
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
        let dirs = make_ours(to)?;
        let mut receiver = Receiver {
            to: to.to_path_buf(),
            dirs,
            lock: None,
            has_part: false,
            moved: Vec::new(),
            outermost: BTreeSet::new(),
            n_files: 0,
            n_expected: files.len(),
            is_whole: false,
        };
        receiver.lock = Some(WriteLock::take(to)?);
        clear_leftover(to).with_context(|| cannot_write(to))?;
        refuse_if_used(to)?;
        let part = receiver.part();
        files::create_private_dir_all(&part).with_context(|| cannot_write(&part))?;
        receiver.has_part = true;
        Ok(receiver)
    }

    fn part(&self) -> PathBuf {
        self.to.join(PART)
    }

    /// Takes in the next file of the list.
    ///
    /// # Errors
    /// When it is not as the list says, or cannot be written.
    pub fn take(&mut self, file: &PackedFile, from: &mut impl Read) -> Result<()> {
        let PackedFile { path, bytes, sha256 } = file;
        ensure!(layout::is_known(path), unknown(path));
        let target = self.part().join(path);
        if let Some(dir) = target.parent() {
            files::create_private_dir_all(dir).with_context(|| cannot_write(dir))?;
        }
        let mut out = files::create_new(&target, files::PRIVATE).with_context(|| cannot_write(&target))?;
        let mut through = Through { out: &mut out, measure: Measure::default() };
        // One byte more shows that there is more.
        io::copy(&mut from.take(bytes.saturating_add(1)), &mut through)
            .with_context(|| format!("cannot copy `{path}` to `{}`", target.display()))?;
        let measure = through.measure;
        ensure!(measure.bytes == *bytes, "`{path}` has another size than the list says");
        ensure!(measure.hex() == *sha256, "`{path}` is damaged: its checksum differs");
        self.outermost.extend(path.split('/').next().map(str::to_string));
        self.n_files += 1;
        Ok(())
    }

    /// Keeps the directory.
    ///
    /// # Errors
    /// When files are missing, or the directory cannot be written.
    pub fn finish(mut self) -> Result<()> {
        ensure!(self.n_files == self.n_expected, "files of the list are missing");
        self.move_all().with_context(|| cannot_write(&self.to))?;
        self.is_whole = true;
        Ok(())
    }

    /// Moves everything to its place once it is on disk, the plan last: its presence marks a complete directory.
    fn move_all(&mut self) -> io::Result<()> {
        let part = self.part();
        // One call instead of one for each of some thousand files.
        nix::unistd::syncfs(File::open(&part)?)?;
        self.outermost.remove(names::PLAN);
        for name in std::mem::take(&mut self.outermost) {
            let target = self.to.join(&name);
            fs::rename(part.join(&name), &target)?;
            self.moved.push(target);
        }
        let plan = self.to.join(names::PLAN);
        files::sync_parent(&plan)?;
        fs::rename(part.join(names::PLAN), &plan)?;
        self.moved.push(plan.clone());
        fs::remove_dir(&part)?;
        files::sync_parent(&plan)
    }
}

impl Drop for Receiver {
    fn drop(&mut self) {
        if self.is_whole {
            return;
        }
        // The plan first, as it was the last.
        for path in self.moved.iter().rev() {
            let _ = remove(path);
        }
        if self.has_part {
            let _ = fs::remove_dir_all(self.part());
        }
        self.lock = None;
        for dir in self.dirs.iter().rev() {
            let _ = fs::remove_dir(dir);
        }
    }
}

/// Removes what an attempt that was killed has left in `to`: its part, and what it had moved out of it already. Anything else that is
/// there is somebody's, and then everything stays.
fn clear_leftover(to: &Path) -> io::Result<()> {
    let part = to.join(PART);
    if !part.symlink_metadata().is_ok_and(|facts| facts.is_dir()) {
        return Ok(());
    }
    let (Some(inside), Some(outside)) = (known_below(&part)?, known_below(to)?) else { return Ok(()) };
    if outside.contains(names::PLAN) {
        // It was whole but for the removal of its part.
        return if inside.is_empty() { fs::remove_dir(&part) } else { Ok(()) };
    }
    // It begins to move when it has everything.
    if outside.is_empty() || inside.contains(names::PLAN) {
        for name in outside.iter().filter_map(|path| path.split('/').next()).collect::<BTreeSet<&str>>() {
            remove(&to.join(name))?;
        }
        fs::remove_dir_all(&part)?;
    }
    Ok(())
}

/// The files below a directory, without part and lock; `None` if an experiment would not have one of them.
fn known_below(dir: &Path) -> io::Result<Option<BTreeSet<String>>> {
    let (mut found, mut left) = (BTreeSet::new(), vec![(dir.to_path_buf(), String::new())]);
    while let Some((dir, prefix)) = left.pop() {
        for entry in fs::read_dir(&dir)? {
            let entry = entry?;
            let name = entry.file_name().to_string_lossy().into_owned();
            let kind = entry.file_type()?;
            let path = format!("{prefix}{name}");
            if prefix.is_empty() && [PART, names::LOCK].contains(&name.as_str()) {
                continue;
            }
            match kind.is_dir() {
                // Known paths are not deeper.
                true if path.matches('/').count() < 2 => left.push((entry.path(), path + "/")),
                false if kind.is_file() && layout::is_known(&path) => drop(found.insert(path)),
                _ => return Ok(None),
            }
        }
    }
    Ok(Some(found))
}

/// Removes a file, or a directory with all that is in it.
fn remove(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() == ErrorKind::IsADirectory => fs::remove_dir_all(path),
        other => other,
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
    ensure!(bytes <= bytes_max, "its files have {bytes} bytes, more than the {bytes_max} that are accepted");
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
