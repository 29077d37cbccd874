//! An experiment as one file, for somebody else: a compressed tar archive that begins with the list of its files.
//!
//! `FORMAT.md` describes it. Archives are written here and read by `unpack.rs`, which trusts nothing in them.

mod hidden;
mod layout;
mod receive;
#[cfg(test)]
mod tests;
mod unpack;

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};
use flate2::Compression;
use flate2::write::GzEncoder;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use tar::{EntryType, Header};

pub use receive::Receiver;
pub use unpack::{Unpacked, unpack};

use crate::load::{expect_known_format, is_experiment_dir, read_plan};
use crate::lock::writer_of;

/// Version of the archive's own format.
const PACK_FORMAT: u32 = 1;
/// The list of the files, which is the first entry.
const LIST: &str = "pack.json";

/// The contents of [`LIST`].
#[derive(Debug, Serialize, Deserialize)]
struct Contents {
    pack_format: u32,
    tool_version: String,
    /// Name of the directory that was packed.
    name: String,
    files: Vec<PackedFile>,
}

/// A file of an experiment, as it leaves this machine: without secrets.
#[allow(missing_docs, reason = "the names say it")]
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PackedFile {
    /// Path within the directory of the experiment.
    pub path: String,
    pub bytes: u64,
    /// In hexadecimal.
    pub sha256: String,
}

/// Which files of an experiment are packed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PackExtent {
    /// Those that a report is made from.
    Report,
    /// Also logs of servers, the verbatim output of exporters, and histograms of statements per second.
    All,
}

/// The files of an experiment that are packed.
#[derive(Debug)]
pub struct Packed {
    /// In the order of the archive; the plan is the last one.
    pub files: Vec<PackedFile>,
    /// Files in which a secret is replaced by its mark.
    pub hidden: Vec<String>,
}

impl Packed {
    /// Bytes of all files, before compression.
    pub fn bytes(&self) -> u64 {
        self.files.iter().map(|file| file.bytes).sum()
    }
}

/// Lists the files of the experiment in `dir` that are packed, with their checksums. Secrets that an earlier version wrote are
/// replaced by their marks.
///
/// # Errors
/// When the directory is no experiment or is being written, or a file cannot be read or has a newer format.
pub fn packed(dir: &Path, extent: PackExtent) -> Result<Packed> {
    ensure!(
        is_experiment_dir(dir),
        "`{}` is not the directory of an experiment: it has no `plan.json`; `pgdyno list` shows the results in a directory",
        dir.display()
    );
    read_plan(dir)?;
    if let Some(writer) = writer_of(dir) {
        let process = writer.pid.map_or("another process".to_string(), |pid| format!("process {pid}"));
        bail!("`{}` is still being measured by {process}; wait until that has ended", dir.display());
    }
    let mut packed = Packed { files: Vec::new(), hidden: Vec::new() };
    for path in layout::found(dir, extent)? {
        if path.ends_with(".json") {
            expect_known_format(&dir.join(&path))?;
        }
        let mut measure = Measure::default();
        if hidden::copy(&dir.join(&path), &mut measure).with_context(|| unreadable(dir, &path))? {
            packed.hidden.push(path.clone());
        }
        packed.files.push(PackedFile { path, bytes: measure.bytes, sha256: measure.hex() });
    }
    Ok(packed)
}

/// Copies a file that [`packed`] listed, without secrets.
///
/// # Errors
/// When it cannot be read or written, or has changed since.
pub fn copy_packed(dir: &Path, file: &PackedFile, to: &mut impl Write) -> Result<()> {
    let mut through = Through { out: to, measure: Measure::default() };
    hidden::copy(&dir.join(&file.path), &mut through).with_context(|| unreadable(dir, &file.path))?;
    let written = through.measure;
    ensure!(
        written.bytes == file.bytes && written.hex() == file.sha256,
        "`{}` changed while it was read; try again",
        dir.join(&file.path).display()
    );
    Ok(())
}

/// Packs the experiment in `dir` into the new file `to`.
///
/// # Errors
/// As [`packed`], and when the file exists or cannot be written.
pub fn pack(dir: &Path, to: &Path, extent: PackExtent, tool_version: &str) -> Result<Packed> {
    let packed = packed(dir, extent)?;
    let contents = Contents {
        pack_format: PACK_FORMAT,
        tool_version: tool_version.to_string(),
        name: name_of(dir),
        files: packed.files.clone(),
    };
    let file = files::create_new(to, files::PRIVATE).with_context(|| cannot_create(to))?;
    write(dir, &contents, file).inspect_err(|_| {
        let _ = std::fs::remove_file(to);
    })?;
    Ok(packed)
}

fn cannot_create(to: &Path) -> String {
    let there = if to.exists() { ": it exists; remove it, or name another file with -o" } else { "" };
    format!("cannot create `{}`{there}", to.display())
}

fn unreadable(dir: &Path, path: &str) -> String {
    format!("cannot read `{}`", dir.join(path).display())
}

/// Name of a directory, also of `.`.
pub fn name_of(dir: &Path) -> String {
    let whole: PathBuf = dir.canonicalize().unwrap_or_else(|_| dir.to_path_buf());
    whole.file_name().map_or_else(|| "results".to_string(), |name| name.to_string_lossy().into_owned())
}

fn write(dir: &Path, contents: &Contents, file: File) -> Result<()> {
    let mut out = GzEncoder::new(BufWriter::new(file), Compression::default());
    write_entries(dir, contents, &mut out)?;
    let finish = || -> io::Result<()> {
        let file = out.finish()?.into_inner().map_err(io::IntoInnerError::into_error)?;
        file.sync_all()
    };
    finish().context(NOT_WRITTEN)
}

const NOT_WRITTEN: &str = "cannot write the archive";

fn write_entries(dir: &Path, contents: &Contents, out: &mut impl Write) -> Result<()> {
    let list = serde_json::to_vec_pretty(contents).context(NOT_WRITTEN)?;
    out.write_all(header(LIST, list.len() as u64)?.as_bytes()).context(NOT_WRITTEN)?;
    out.write_all(&list).context(NOT_WRITTEN)?;
    pad(out, list.len() as u64)?;
    for file in &contents.files {
        out.write_all(header(&file.path, file.bytes)?.as_bytes()).context(NOT_WRITTEN)?;
        copy_packed(dir, file, out)?;
        pad(out, file.bytes)?;
    }
    out.write_all(&[0; 2 * BLOCK]).context(NOT_WRITTEN)
}

/// Tar's unit: headers have one block, and files end with a whole one.
const BLOCK: usize = 512;

/// Bytes between the end of a file and the next header.
fn padding(bytes: u64) -> usize {
    (BLOCK - (bytes % BLOCK as u64) as usize) % BLOCK
}

fn pad(out: &mut impl Write, bytes: u64) -> Result<()> {
    out.write_all(&[0; BLOCK][..padding(bytes)]).context(NOT_WRITTEN)
}

/// Headers hold nothing of this machine: no user, no time.
fn header(path: &str, bytes: u64) -> Result<Header> {
    let mut header = Header::new_ustar();
    header.set_path(path).with_context(|| format!("cannot pack `{path}`"))?;
    header.set_entry_type(EntryType::Regular);
    header.set_mode(0o600);
    header.set_mtime(0);
    header.set_size(bytes);
    header.set_cksum();
    Ok(header)
}

/// The bytes that pass through, counted and hashed.
#[derive(Default)]
struct Measure {
    bytes: u64,
    digest: Sha256,
}

impl Measure {
    fn hex(self) -> String {
        self.digest.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
    }
}

/// A writer that measures what passes through.
struct Through<'a, W> {
    out: &'a mut W,
    measure: Measure,
}

impl<W: Write> Write for Through<'_, W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.out.write_all(bytes)?;
        self.measure.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Write for Measure {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.bytes += bytes.len() as u64;
        self.digest.update(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
