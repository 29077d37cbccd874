//! What one statement of a script did over the measurement of a run.

use std::collections::BTreeMap;

/// Executions of a statement, rows and errors.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct StatementExecutions {
    /// Index of the script in the load.
    pub script: usize,
    /// Name of the script.
    pub script_name: String,
    /// Index of the statement in the script.
    pub index: usize,
    /// First line of the statement.
    pub label: String,
    /// Executions that were acknowledged.
    pub n: u64,
    /// Their time from send to the end of the reply, nanoseconds.
    pub sum_ns: f64,
    /// Rows that they returned or changed; `None` in results of earlier versions, which did not count them.
    pub rows: Option<u64>,
    /// Errors by SQLSTATE, of every try.
    pub errors: BTreeMap<String, u64>,
    /// Its generic plan, as EXPLAIN wrote it in JSON, if it was recorded.
    pub explained: Option<String>,
}

impl StatementExecutions {
    /// Time of one, nanoseconds.
    pub fn mean_ns(&self) -> Option<f64> {
        (self.n > 0).then(|| self.sum_ns / self.n as f64)
    }
}
