//! The hash of a file.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use sha2::{Digest, Sha256};

/// SHA-256 of a file's bytes, hexadecimal.
///
/// # Errors
/// When the file cannot be read.
pub fn sha256(path: &Path) -> io::Result<String> {
    sha256_of(File::open(path)?)
}

/// SHA-256 of an open file's bytes, or of bytes in memory, hexadecimal.
///
/// # Errors
/// When the file cannot be read.
pub fn sha256_of(mut bytes: impl Read) -> io::Result<String> {
    let mut hash = Sha256::new();
    io::copy(&mut bytes, &mut hash)?;
    Ok(format!("{:x}", hash.finalize()))
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_hash_is_that_of_the_standard() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), "abc").unwrap();
        // FIPS 180-4, the example of one block.
        let expected = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(super::sha256(file.path()).unwrap(), expected);
    }
}
