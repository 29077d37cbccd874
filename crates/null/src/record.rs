//! When messages truly arrived and were answered, for comparison with what a driver recorded.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;

use anyhow::{Context, Result};

/// One message with statements; times in nanoseconds of the monotonic clock.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Passage {
    /// Number of the connection, from 1; never reused.
    pub(crate) connection: u64,
    /// When the message had been read.
    pub(crate) arrived: u64,
    /// When the answer was about to be written: no client can have it earlier.
    pub(crate) leaving: u64,
    /// When the answer had been written.
    pub(crate) answered: u64,
}

/// A file of passages.
pub(crate) struct PassageFile {
    file: BufWriter<File>,
    /// The first error; reported at the end, because answers must not wait.
    failure: Option<std::io::Error>,
}

const BUFFER_BYTES: usize = 1 << 20;

impl PassageFile {
    /// Creates a new file; fails if it exists.
    pub(crate) fn create(path: &Path) -> Result<PassageFile> {
        let file = File::create_new(path).with_context(|| format!("cannot create `{}`", path.display()))?;
        Ok(PassageFile { file: BufWriter::with_capacity(BUFFER_BYTES, file), failure: None })
    }

    /// Appends one passage as four numbers.
    pub(crate) fn take(&mut self, passage: Passage) {
        let Passage { connection, arrived, leaving, answered } = passage;
        let mut bytes = [0; 32];
        for (place, number) in bytes.chunks_exact_mut(8).zip([connection, arrived, leaving, answered]) {
            place.copy_from_slice(&number.to_le_bytes());
        }
        if let Err(e) = self.file.write_all(&bytes) {
            self.failure.get_or_insert(e);
        }
    }

    /// Flushes the file and reports the first error.
    pub(crate) fn finish(mut self) -> Result<()> {
        match self.failure.take().map_or_else(|| self.file.flush(), Err) {
            Ok(()) => Ok(()),
            Err(e) => Err(e).context("cannot write the record of arrivals and answers"),
        }
    }
}
