//! What `workload.apply` did before a load: how long it took, and what became larger or smaller.

use serde::{Deserialize, Serialize};

/// The statements of a case that ran after the restore.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[allow(missing_docs, reason = "the names say it")]
pub struct Applied {
    pub sql: String,
    /// Time of all statements, seconds.
    pub seconds: f64,
    /// Relations that were made, dropped, or have another size; their free space maps are left out.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub relations: Vec<AppliedRelation>,
}

/// A relation before and after.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs, reason = "the names say it")]
pub struct AppliedRelation {
    /// `schema.name`.
    pub name: String,
    /// `table`, `index`, `materialized view`, `toast`, `relation`.
    pub kind: String,
    /// Its size before; `None` if it was made.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub before_bytes: Option<u64>,
    /// Its size after; `None` if it was dropped.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after_bytes: Option<u64>,
}

impl AppliedRelation {
    /// Growth, bytes.
    pub fn growth(&self) -> f64 {
        self.after_bytes.unwrap_or(0) as f64 - self.before_bytes.unwrap_or(0) as f64
    }
}

impl Applied {
    /// By how much all relations together grew, bytes.
    pub fn growth(&self) -> f64 {
        self.relations.iter().map(AppliedRelation::growth).sum()
    }
}
