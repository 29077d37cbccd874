//! What truly happened, for comparison with what a driver recorded.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;

use anyhow::{Context, Result};

/// What became of one message with statements; moments in nanoseconds of the monotonic clock.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Passage {
    /// Number of the connection, from 1; never used again.
    pub(crate) connection: u64,
    /// The message had been read.
    pub(crate) arrived: u64,
    /// The answer was about to be written: no client can have it earlier.
    pub(crate) leaving: u64,
    /// The answer had been written.
    pub(crate) answered: u64,
}

/// A file of passages.
pub(crate) struct Record {
    file: BufWriter<File>,
    /// The first error; reported at the end, because answers may not wait.
    failure: Option<std::io::Error>,
}

const BUFFER_BYTES: usize = 1 << 20;

impl Record {
    /// A new file; one that is there already is left alone.
    pub(crate) fn create(path: &Path) -> Result<Record> {
        let file = File::create_new(path).with_context(|| format!("cannot make `{}`", path.display()))?;
        Ok(Record { file: BufWriter::with_capacity(BUFFER_BYTES, file), failure: None })
    }

    /// Adds one, as four numbers.
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

    /// Everything is written.
    pub(crate) fn finish(mut self) -> Result<()> {
        match self.failure.take().map_or_else(|| self.file.flush(), Err) {
            Ok(()) => Ok(()),
            Err(e) => Err(e).context("cannot write the record of arrivals and answers"),
        }
    }
}
