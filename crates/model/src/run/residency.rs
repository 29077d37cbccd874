//! How much of a workload's data was in memory, before the load and after it.

use serde::{Deserialize, Serialize};

/// The tables and indexes of the load, with what of them was in memory. It is looked at, not inferred from what was read.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Residency {
    /// After they were read into memory, before checkpoint and quiet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub before: Option<InMemory>,
    /// After the drain, before rows were counted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<InMemory>,
}

/// Bytes of tables and indexes that are in memory. A page may be in both places.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct InMemory {
    /// Size of all of them.
    pub total_bytes: u64,
    /// In the server's shared buffers, if `pg_buffercache` can be asked and not all is in the page cache.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub buffers_bytes: Option<u64>,
    /// In the kernel's page cache, if the server's files are on this machine.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub page_cache_bytes: Option<u64>,
}

/// The share in the page cache that counts as all: a load makes new pages of which the last ones are in shared buffers alone.
const ALL: f64 = 0.99;

impl Residency {
    /// Whether nothing was looked at.
    pub fn is_empty(&self) -> bool {
        *self == Residency::default()
    }
}

impl InMemory {
    /// Whether the page cache has all of them, but for pages that the server has perhaps not written yet.
    pub fn is_in_page_cache(&self) -> bool {
        self.page_cache_bytes.is_some_and(|bytes| bytes as f64 >= ALL * self.total_bytes as f64)
    }

    /// The least that is in memory, as far as was seen: the larger place, since both may have the same pages.
    pub fn least_bytes(&self) -> Option<u64> {
        self.buffers_bytes.max(self.page_cache_bytes).map(|bytes| bytes.min(self.total_bytes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_in_both_places_count_once() {
        let of =
            |buffers_bytes, page_cache_bytes| InMemory { total_bytes: 100, buffers_bytes, page_cache_bytes };
        assert_eq!(of(Some(25), Some(90)).least_bytes(), Some(90));
        assert_eq!(of(Some(60), None).least_bytes(), Some(60));
        assert_eq!(of(None, Some(120)).least_bytes(), Some(100), "a file may have grown");
        assert_eq!(of(None, None).least_bytes(), None);
        assert!(of(None, Some(100)).is_in_page_cache());
        assert!(!of(Some(100), Some(98)).is_in_page_cache() && !of(Some(100), None).is_in_page_cache());
    }
}
