//! Unpacks an archive that a stranger may have made. Headers are read here, one at a time; files go to [`Receiver`].

use std::io::{self, BufReader, ErrorKind, Read};
use std::path::Path;

use anyhow::{Context, Error, Result, anyhow, bail, ensure};
use flate2::read::GzDecoder;
use serde::Deserialize;
use tar::{EntryType, Header};

use super::{BLOCK, Contents, LIST, PACK_FORMAT, Receiver, padding};

/// Longest list: 100,000 files have one of 15 MB.
const LIST_BYTES_MAX: u64 = 64 << 20;
/// How gzip begins (RFC 1952, 2.3.1).
const GZIP: [u8; 2] = [0x1f, 0x8b];

/// An archive that was unpacked.
#[derive(Debug)]
pub struct Unpacked {
    /// Name of the directory that was packed, as its archive says.
    pub name: String,
    /// Version of the pgdyno that packed it.
    pub tool_version: String,
    /// Number of files.
    pub n_files: usize,
}

/// Unpacks the archive `from` into the new or empty directory `to`; its files have at most `bytes_max` bytes in total.
///
/// # Errors
/// When the archive is not one of pgdyno's, is damaged or larger, or the directory cannot be written. Then nothing is left.
pub fn unpack(from: &Path, to: &Path, bytes_max: u64) -> Result<Unpacked> {
    let mut file = files::open(from).with_context(|| format!("cannot read `{}`", from.display()))?;
    let mut start = [0; GZIP.len()];
    let is_gzip = file.read_exact(&mut start).is_ok() && start == GZIP;
    ensure!(is_gzip, "`{}` is not an archive of `pgdyno pack`", from.display());
    let mut archive = GzDecoder::new(start.as_slice().chain(BufReader::new(file)));
    let unpacked = entries(&mut archive, to, bytes_max);
    let explained = |error: Error| {
        if is_cut(&error) {
            anyhow!("the file is incomplete, and nothing was unpacked; copy or download it again")
        } else {
            error
        }
    };
    unpacked.map_err(explained).with_context(|| format!("cannot unpack `{}`", from.display()))
}

/// Whether the archive ended too early: no error of writing is of that kind.
fn is_cut(error: &Error) -> bool {
    let mut causes = error.chain().filter_map(|cause| cause.downcast_ref::<io::Error>());
    causes.any(|cause| cause.kind() == ErrorKind::UnexpectedEof)
}

fn entries(archive: &mut impl Read, to: &Path, bytes_max: u64) -> Result<Unpacked> {
    let Contents { files, name, tool_version, .. } = read_list(archive)?;
    let bytes = files.iter().fold(0, |sum: u64, file| sum.saturating_add(file.bytes));
    ensure!(
        bytes <= bytes_max,
        "its files have {bytes} bytes, more than the {bytes_max} that are accepted; --size-limit accepts more"
    );
    let mut receiver = Receiver::begin(to, &files, bytes_max)?;
    for file in &files {
        let (path, bytes) = read_header(archive)?;
        ensure!(path == file.path && bytes == file.bytes, "its files are not those of its list");
        receiver.take(file, &mut archive.take(bytes))?;
        skip_padding(archive, bytes)?;
    }
    let mut end = [1; BLOCK];
    archive.read_exact(&mut end).context("it ends early")?;
    ensure!(end.iter().all(|byte| *byte == 0), "it holds more than its list");
    receiver.finish()?;
    Ok(Unpacked { name, tool_version, n_files: files.len() })
}

fn read_list(archive: &mut impl Read) -> Result<Contents> {
    let no_list = || anyhow!("it does not begin with `{LIST}`: it is not an archive of `pgdyno pack`");
    let (path, bytes) = read_header(archive).map_err(|_| no_list())?;
    if path != LIST {
        return Err(no_list());
    }
    ensure!(bytes <= LIST_BYTES_MAX, "its list of files is longer than {LIST_BYTES_MAX} bytes");
    let mut list = Vec::new();
    let n_read = archive.take(bytes).read_to_end(&mut list).context("it is damaged")?;
    ensure!(n_read as u64 == bytes, "it ends early");
    skip_padding(archive, bytes)?;
    let Version { pack_format } = serde_json::from_slice(&list).context("its list of files is damaged")?;
    ensure!(
        pack_format <= PACK_FORMAT,
        "it has the pack format {pack_format}, and this pgdyno reads up to {PACK_FORMAT}; use a newer pgdyno"
    );
    serde_json::from_slice(&list).context("its list of files is damaged")
}

#[derive(Deserialize)]
struct Version {
    pack_format: u32,
}

/// The path and the size of the next file.
fn read_header(archive: &mut impl Read) -> Result<(String, u64)> {
    let mut block = [0; BLOCK];
    archive.read_exact(&mut block).context("it ends early, or is damaged")?;
    let header = Header::from_byte_slice(&block);
    let path = String::from_utf8_lossy(&header.path_bytes()).into_owned();
    if header.entry_type() != EntryType::Regular {
        bail!("`{}` is not a regular file", path.escape_debug());
    }
    let bytes = header.entry_size().with_context(|| format!("`{}` has no size", path.escape_debug()))?;
    Ok((path, bytes))
}

fn skip_padding(archive: &mut impl Read, bytes: u64) -> Result<()> {
    let mut rest = [0; BLOCK];
    archive.read_exact(&mut rest[..padding(bytes)]).context("it ends early")
}
