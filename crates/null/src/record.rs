//! What truly happened, for comparison with what a driver recorded.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;

use anyhow::{Context, Result};

/// A file of pairs of moments.
pub(crate) struct Record {
    file: BufWriter<File>,
    /// The first error; told at the end, for the answers must not wait.
    failure: Option<std::io::Error>,
}

const BUFFER_BYTES: usize = 1 << 20;

impl Record {
    /// A new file; one that is there already is left alone.
    pub(crate) fn create(path: &Path) -> Result<Record> {
        let file = File::create_new(path).with_context(|| format!("cannot make `{}`", path.display()))?;
        Ok(Record { file: BufWriter::with_capacity(BUFFER_BYTES, file), failure: None })
    }

    /// A message came at `arrived` and its answer was gone at `answered`.
    pub(crate) fn take(&mut self, arrived: u64, answered: u64) {
        let mut pair = [0; 16];
        pair[..8].copy_from_slice(&arrived.to_le_bytes());
        pair[8..].copy_from_slice(&answered.to_le_bytes());
        if let Err(e) = self.file.write_all(&pair) {
            self.failure.get_or_insert(e);
        }
    }

    /// Everything is written.
    pub(crate) fn finish(mut self) -> Result<()> {
        match self.failure.take().map_or_else(|| self.file.flush(), Err) {
            Ok(()) => Ok(()),
            Err(e) => Err(e).context("cannot write the record of arrivals and answers"),
        }
    }
}
