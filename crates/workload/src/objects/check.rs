//! A rule that the rows of a workload keep.

/// One invariant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Check {
    /// A short name.
    pub id: &'static str,
    /// The invariant.
    pub title: &'static str,
    /// Returns at most 100 rows that violate it; none if all is well.
    pub sql: String,
}
