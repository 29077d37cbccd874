//! Random text from the kernel's generator: temporary names, passwords, words that nobody guesses.

use std::fs::File;
use std::io::Read;

use anyhow::{Context, Result};

/// `n_bytes` random bytes as hexadecimal digits.
///
/// # Errors
/// When `/dev/urandom` cannot be read.
pub fn random_hex(n_bytes: usize) -> Result<String> {
    let mut bytes = vec![0; n_bytes];
    File::open("/dev/urandom")
        .and_then(|mut source| source.read_exact(&mut bytes))
        .context("cannot read `/dev/urandom`")?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}
