//! The rows that a load read and changed, as the server counted them.

use serde::{Deserialize, Serialize};

/// Rows of a table that the load read and changed, from ramp-up to drain.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Touched {
    /// Rows that scans of the table and of its indexes returned.
    pub rows_read: u64,
    /// Rows inserted, updated and deleted.
    pub rows_changed: u64,
    /// Those of them that were inserted.
    #[serde(default)]
    pub rows_inserted: u64,
    /// Pages of the table when the load began; 0 in older results.
    #[serde(default)]
    pub pages: u64,
}

impl Touched {
    /// The rows touched since `before` was read.
    pub fn since(self, before: Touched) -> Touched {
        Touched {
            rows_read: self.rows_read.saturating_sub(before.rows_read),
            rows_changed: self.rows_changed.saturating_sub(before.rows_changed),
            rows_inserted: self.rows_inserted.saturating_sub(before.rows_inserted),
            pages: before.pages,
        }
    }
}
