//! Reads results back: the same files in a directory, byte for byte.

use std::io::{self, Read};
use std::path::Path;

use anyhow::{Context, Result, bail, ensure};
use store::{PackExtent, PackedFile, Receiver};
use wire::Session;
use wire::session::Rows;

use crate::push::{PART_BYTES, RESULT_BYTES_MAX, contents};
use crate::traps::{self, SessionPurpose};
use crate::{SCHEMA, Shelf};

/// Begins a transaction that reads one state of the store.
const READING: &str = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY";

/// A stored result.
#[allow(missing_docs, reason = "the names say it")]
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredResult {
    pub experiment_id: i64,
    pub name: String,
    /// Name of its directory when it was pushed.
    pub directory: String,
    pub seed: u64,
    pub made_unix_ns: u64,
    /// Digest of all its files.
    contents: String,
}

impl StoredResult {
    /// Whether a directory holds this result as it is stored.
    ///
    /// # Errors
    /// When the directory cannot be read.
    pub fn is_in(&self, dir: &Path) -> Result<bool> {
        Ok(contents(&store::packed(dir, PackExtent::Report)?.files)? == self.contents)
    }
}

impl Shelf {
    /// The stored results, the oldest first; of one experiment, if it is named.
    ///
    /// # Errors
    /// When they cannot be read.
    pub fn list(&mut self, name: Option<&str>) -> Result<Vec<StoredResult>> {
        self.session.execute(READING)?;
        let listed = self.list_rows(name);
        self.session.execute("COMMIT")?;
        let rows = listed?;
        let kept = |row: usize| {
            let text = |column: &str| rows.get(row, column).map(str::to_string);
            Some(StoredResult {
                experiment_id: rows.parse(row, "experiment_id")?,
                name: text("name")?,
                directory: text("directory")?,
                seed: rows.parse(row, "seed")?,
                made_unix_ns: rows.parse(row, "made_unix_ns")?,
                contents: text("contents")?,
            })
        };
        (0..rows.len())
            .map(kept)
            .collect::<Option<Vec<StoredResult>>>()
            .context("the store has a result without a name")
    }

    fn list_rows(&mut self, name: Option<&str>) -> Result<Rows> {
        traps::hold(&mut self.session, SessionPurpose::Read)?;
        let sql = format!(
            "SELECT experiment_id, name, directory, seed, made_unix_ns, contents FROM {SCHEMA}.experiment \
              WHERE $1::text IS NULL OR name = $1 ORDER BY made_unix_ns, experiment_id"
        );
        Ok(self.session.query_params(&sql, &[name])?)
    }

    /// The result that is meant: by its number, the name of its directory, or the name of its experiment if there is one such result.
    ///
    /// # Errors
    /// When there is none, or there are several.
    pub fn find(&mut self, meant: &str) -> Result<StoredResult> {
        let all = self.list(None)?;
        let by_number = |kept: &&StoredResult| {
            meant.strip_prefix('#').is_some_and(|n| n == kept.experiment_id.to_string())
        };
        if let Some(kept) = all.iter().find(by_number) {
            return Ok(kept.clone());
        }
        for key in [|kept: &StoredResult| kept.directory.clone(), |kept: &StoredResult| kept.name.clone()] {
            let found: Vec<&StoredResult> = all.iter().filter(|kept| key(kept) == meant).collect();
            match found.as_slice() {
                [] => {}
                [only] => return Ok((*only).clone()),
                several => {
                    let numbers: Vec<String> = several
                        .iter()
                        .map(|kept| format!("#{} {}", kept.experiment_id, kept.directory))
                        .collect();
                    bail!("the store has several results `{meant}`; name one of {}", numbers.join(", "));
                }
            }
        }
        let last: Vec<&str> = all.iter().rev().take(5).map(|kept| kept.directory.as_str()).collect();
        bail!(
            "the store has no result `{meant}`{}",
            if last.is_empty() { String::new() } else { format!("; the newest are {}", last.join(", ")) }
        )
    }

    /// Writes the files of a result into the new or empty directory `to`: those of one state, also if somebody replaces it meanwhile.
    ///
    /// # Errors
    /// When they are not those of an experiment, are damaged or larger than what is stored, or cannot be written. Then nothing is left.
    pub fn fetch(&mut self, kept: &StoredResult, to: &Path) -> Result<()> {
        let within = || format!("cannot read `{}` from the store", kept.directory);
        self.session.execute(READING).with_context(within)?;
        let fetched = self.fetch_files(kept, to).with_context(within);
        let ended = self.session.execute("COMMIT").with_context(within);
        fetched.and(ended)
    }

    fn fetch_files(&mut self, kept: &StoredResult, to: &Path) -> Result<()> {
        traps::hold(&mut self.session, SessionPurpose::Read)?;
        let files = self.files(kept.experiment_id)?;
        let mut receiver = Receiver::begin(to, &files, RESULT_BYTES_MAX)?;
        for (place, file) in files.iter().enumerate() {
            let mut parts = Parts {
                session: &mut self.session,
                id: kept.experiment_id,
                place,
                part: 0,
                rest: Vec::new(),
                at: 0,
            };
            receiver.take(file, &mut parts)?;
        }
        receiver.finish()
    }

    fn files(&mut self, id: i64) -> Result<Vec<PackedFile>> {
        let rows = self.session.query(&format!(
            "SELECT path, bytes, sha256 FROM {SCHEMA}.file WHERE experiment_id = {id} ORDER BY place"
        ))?;
        let file = |row: usize| {
            let text = |column: &str| rows.get(row, column).map(str::to_string);
            Some(PackedFile {
                path: text("path")?,
                bytes: rows.parse(row, "bytes")?,
                sha256: text("sha256")?,
            })
        };
        (0..rows.len()).map(file).collect::<Option<Vec<PackedFile>>>().context("its list of files is damaged")
    }
}

/// The parts of a file, one after the other.
struct Parts<'a> {
    session: &'a mut Session,
    id: i64,
    place: usize,
    part: u32,
    rest: Vec<u8>,
    at: usize,
}

impl Read for Parts<'_> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        if self.at == self.rest.len() {
            (self.rest, self.at) = (self.next().map_err(io::Error::other)?, 0);
        }
        let n = into.len().min(self.rest.len() - self.at);
        into[..n].copy_from_slice(&self.rest[self.at..self.at + n]);
        self.at += n;
        Ok(n)
    }
}

impl Parts<'_> {
    /// The next part; empty after the last one.
    fn next(&mut self) -> Result<Vec<u8>> {
        let Parts { id, place, part, .. } = self;
        let rows = self.session.query(&format!(
            "SELECT encode(data, 'hex') AS data FROM {SCHEMA}.file_part \
              WHERE experiment_id = {id} AND place = {place} AND part = {part}"
        ))?;
        self.part += 1;
        let text = rows.get(0, "data").unwrap_or_default();
        ensure!(text.len() <= 2 * PART_BYTES, "a part has more than {PART_BYTES} bytes");
        bytes_of(text).context("a part is no hexadecimal text")
    }
}

fn bytes_of(hex: &str) -> Option<Vec<u8>> {
    let digit = |byte: u8| (byte as char).to_digit(16).map(|digit| digit as u8);
    hex.as_bytes().chunks(2).map(|pair| Some(digit(*pair.first()?)? << 4 | digit(*pair.get(1)?)?)).collect()
}
