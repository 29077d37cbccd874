//! Random text from the kernel's generator, for temporary names and for passwords.

use std::fs::File;
use std::io::Read;

use anyhow::{Context, Result};

/// `n_bytes` random bytes as hexadecimal digits.
pub(crate) fn random_hex(n_bytes: usize) -> Result<String> {
    let mut bytes = vec![0; n_bytes];
    File::open("/dev/urandom")
        .and_then(|mut source| source.read_exact(&mut bytes))
        .context("read random bytes from `/dev/urandom`")?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}
