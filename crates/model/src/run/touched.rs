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
    /// The rows touched since `before` was read; `None` if the server has forgotten what it had counted, as it does after a crash.
    pub fn since(self, before: Touched) -> Option<Touched> {
        Some(Touched {
            rows_read: self.rows_read.checked_sub(before.rows_read)?,
            rows_changed: self.rows_changed.checked_sub(before.rows_changed)?,
            rows_inserted: self.rows_inserted.checked_sub(before.rows_inserted)?,
            pages: before.pages,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_that_went_back_are_unknown() {
        let counted = |rows_read, rows_changed| Touched { rows_read, rows_changed, ..Touched::default() };
        assert_eq!(counted(7, 3).since(counted(5, 3)), Some(counted(2, 0)));
        assert_eq!(counted(7, 2).since(counted(5, 3)), None);
        assert_eq!(counted(0, 0).since(counted(5, 0)), None);
    }
}
