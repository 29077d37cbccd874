//! Captured rows of a workload directory: bytes that go along in memory and to drivers, and into no record. Its texts have their size
//! and hash in their place.

use std::collections::BTreeMap;
use std::fmt;
use std::ops::{Deref, DerefMut};
use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

/// The bytes of files of captured rows, by their SHA-256 in hexadecimal. They may be personal: nothing shows or serializes them.
#[derive(Clone, Default, Eq)]
pub struct DrawnFiles(pub BTreeMap<String, Arc<[u8]>>);

impl PartialEq for DrawnFiles {
    /// Two directories differ by the hashes that their texts name, not by what is at hand of it.
    fn eq(&self, _other: &DrawnFiles) -> bool {
        true
    }
}

impl fmt::Debug for DrawnFiles {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} files of captured rows", self.0.len())
    }
}

impl DrawnFiles {
    /// The files as an order has them.
    pub fn encoded(&self) -> Vec<String> {
        self.0.values().map(|bytes| STANDARD.encode(bytes)).collect()
    }

    /// The files of an order.
    ///
    /// # Errors
    /// When one is not as [`DrawnFiles::encoded`] makes it.
    pub fn decoded(texts: &[String]) -> Result<DrawnFiles, String> {
        let mut found = DrawnFiles::default();
        for text in texts {
            let bytes =
                STANDARD.decode(text).map_err(|_| "captured rows of the order are not base64".to_string())?;
            found.add(bytes);
        }
        Ok(found)
    }

    /// Adds a file.
    pub fn add(&mut self, bytes: Vec<u8>) {
        self.0.insert(format!("{:x}", Sha256::digest(&bytes)), bytes.into());
    }
}

/// The files of a workload directory: texts by name with `/`, and captured rows.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct WorkloadFiles {
    /// The texts; those of captured rows are references.
    pub texts: BTreeMap<String, String>,
    /// The captured rows that are at hand.
    #[serde(skip)]
    pub draws: DrawnFiles,
}

impl From<BTreeMap<String, String>> for WorkloadFiles {
    fn from(texts: BTreeMap<String, String>) -> WorkloadFiles {
        WorkloadFiles { texts, draws: DrawnFiles::default() }
    }
}

impl Deref for WorkloadFiles {
    type Target = BTreeMap<String, String>;

    fn deref(&self) -> &BTreeMap<String, String> {
        &self.texts
    }
}

impl DerefMut for WorkloadFiles {
    fn deref_mut(&mut self) -> &mut BTreeMap<String, String> {
        &mut self.texts
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn captured_rows_are_in_no_record_and_in_no_message() {
        let mut files =
            WorkloadFiles::from(BTreeMap::from([("draws/a.zst".to_string(), "sha256 x".to_string())]));
        files.draws.add(b"personal".to_vec());
        let written = serde_json::to_string(&files).unwrap();
        assert_eq!(written, r#"{"draws/a.zst":"sha256 x"}"#);
        assert!(!format!("{files:?}").contains("personal"));
        let read: WorkloadFiles = serde_json::from_str(&written).unwrap();
        assert!(read.draws.0.is_empty());
        let sent = DrawnFiles::decoded(&files.draws.encoded()).unwrap();
        assert_eq!(sent.0, files.draws.0);
        assert!(DrawnFiles::decoded(&["?".to_string()]).is_err());
    }
}
