//! Captured parameter rows: the tables that `draws/NAME.zst` hold, read within bounds, in memory once and shared by whoever draws.
//!
//! Which row an execution gets is decided in `instance`; here is only what a row has.

mod column;
mod loops;
mod nearness;
mod text;

use std::collections::BTreeMap;
use std::fmt;
use std::io::Read;
use std::sync::Arc;

use sha2::{Digest, Sha256};

pub(crate) use column::{DrawnColumn, DrawnValues};
pub(crate) use loops::LoopRows;
pub(crate) use nearness::Nearness;

use crate::problem::Problem;

/// The directory of captured rows.
pub(crate) const DRAWS: &str = "draws/";
/// How the names of their files end.
const SUFFIX: &str = ".zst";
/// Longest file of captured rows, unpacked, bytes.
const UNPACKED_BYTES_MAX: u64 = 64 << 20;
/// All of them together, unpacked, bytes.
const ALL_UNPACKED_BYTES_MAX: u64 = 256 << 20;
/// All files together as they are stored, bytes: they are sent to drivers.
pub const PACKED_BYTES_MAX: u64 = 64 << 20;
/// zstd's default window of its highest levels; a larger one would only take memory.
const WINDOW_LOG_MAX: u32 = 27;

/// The bytes of files, by the SHA-256 of these.
pub type DrawsContents = BTreeMap<String, Arc<[u8]>>;

/// A table of captured rows.
pub(crate) struct DrawsTable {
    /// Name of its file.
    pub(crate) file: String,
    pub(crate) columns: Vec<DrawnColumn>,
    pub(crate) n_rows: u32,
}

impl fmt::Debug for DrawsTable {
    /// Its file alone: the rows may be personal.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DrawsTable").field("file", &self.file).finish_non_exhaustive()
    }
}

impl DrawsTable {
    /// The column of this name.
    pub(crate) fn column(&self, name: &str) -> Option<usize> {
        self.columns.iter().position(|column| column.name == name)
    }
}

/// Whether a file of a directory has captured rows.
pub fn is_draws_file(name: &str) -> bool {
    name.strip_prefix(DRAWS).and_then(|rest| rest.strip_suffix(SUFFIX)).is_some_and(|stem| !stem.is_empty())
}

/// The file of a transaction's rows.
pub(crate) fn rows_file(name: &str) -> String {
    format!("{DRAWS}{name}{SUFFIX}")
}

/// The file of the rows of a transaction's loop.
pub(crate) fn loop_file(name: &str, of_loop: &str) -> String {
    format!("{DRAWS}{name}.{of_loop}{SUFFIX}")
}

/// The text that stands for a file of captured rows in results: its size and its hash, and no value.
pub fn reference(bytes: &[u8]) -> String {
    format!("captured rows, not stored here\nbytes {}\nsha256 {}\n", bytes.len(), sha256(bytes))
}

/// The hash that a reference names.
pub fn referenced_sha256(text: &str) -> Option<&str> {
    let hash = text.lines().find_map(|line| line.strip_prefix("sha256 "))?;
    (hash.len() == 64 && hash.bytes().all(|byte| byte.is_ascii_hexdigit())).then_some(hash)
}

/// SHA-256 in hexadecimal.
pub fn sha256(bytes: &[u8]) -> String {
    format!("{:x}", Sha256::digest(bytes))
}

/// The tables of all files of captured rows whose contents are there.
///
/// # Errors
/// All files that cannot be read, each with the first line that is wrong.
pub(crate) fn tables(
    files: &BTreeMap<String, String>,
    contents: &DrawsContents,
) -> Result<BTreeMap<String, Arc<DrawsTable>>, Vec<Problem>> {
    let (mut found, mut problems) = (BTreeMap::new(), Vec::new());
    let mut left = ALL_UNPACKED_BYTES_MAX;
    for (file, text) in files.iter().filter(|(file, _)| is_draws_file(file)) {
        let Some(hash) = referenced_sha256(text) else {
            problems.push(Problem::whole(file, "names no SHA-256 of captured rows"));
            continue;
        };
        let Some(bytes) = contents.get(hash) else { continue };
        let most = left.min(UNPACKED_BYTES_MAX);
        let table = unpacked(bytes, most).map_err(|why| match why {
            UnpackFault::Broken(why) => Problem::whole(file, why),
            UnpackFault::Longer => Problem::whole(
                file,
                format!(
                    "has more than {most} bytes unpacked; a file of captured rows has at most {UNPACKED_BYTES_MAX}, and all of a directory \
                     {ALL_UNPACKED_BYTES_MAX}"
                ),
            ),
        });
        let table = table.and_then(|text| {
            left = left.saturating_sub(text.len() as u64);
            text::table(file, &text)
        });
        match table {
            Ok(table) => drop(found.insert(file.clone(), Arc::new(table))),
            Err(problem) => problems.push(problem),
        }
    }
    if problems.is_empty() { Ok(found) } else { Err(problems) }
}

/// Why a packed file was not unpacked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum UnpackFault {
    /// It is none; in words.
    Broken(String),
    /// Its text is longer than it may be.
    Longer,
}

/// The text of a packed file, which may say that it is longer than it should be.
///
/// # Errors
/// When it is none, or longer than `most` bytes.
pub fn unpacked(bytes: &[u8], most: u64) -> Result<String, UnpackFault> {
    let broken =
        |error: std::io::Error| UnpackFault::Broken(format!("is no file of zstd, or is broken: {error}"));
    let mut decoder = zstd::stream::read::Decoder::with_buffer(bytes).map_err(broken)?;
    decoder.window_log_max(WINDOW_LOG_MAX).map_err(broken)?;
    let mut text = String::new();
    decoder.take(most + 1).read_to_string(&mut text).map_err(broken)?;
    if text.len() as u64 > most { Err(UnpackFault::Longer) } else { Ok(text) }
}
