//! Executions, each by itself: of an analytical workload, where they are too few for distributions, and of a load with an outage, where
//! the fate of each transaction counts.

use serde::{Deserialize, Serialize};

/// Most executions of a load that are recorded; a plan with more is refused.
pub const EXECUTIONS_MAX: u64 = 100_000;
/// Most transactions of a load with an outage, each of which is recorded: some 400 MB of lines. Our convention.
pub const TRANSACTIONS_MAX: u64 = 2_000_000;

/// One execution of a query or a transaction: a line of `executions.jsonl`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Execution {
    /// Number of the client, from 0: its stream.
    pub client: u32,
    /// The pass through the client's order, from 0, warm passes included; 0 without an order.
    pub pass: u32,
    /// Number of the script in the load.
    pub script: u32,
    /// When it was due, nanoseconds after `go`; `None` in a closed loop, where it is due when it starts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub due_ns: Option<u64>,
    /// Number of the transaction among its client's, from 1, which is in its token; 0 where none is written.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub number: u64,
    /// When its first statement was sent, nanoseconds after `go`; of a skipped one, when it was given up.
    pub start_ns: u64,
    /// Until its last answer, nanoseconds.
    pub length_ns: u64,
    /// How it ended.
    pub end: ExecutionEnd,
    /// The error with which it ended: a SQLSTATE, or a word of the driver.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sqlstate: Option<String>,
}

impl Execution {
    /// The end, nanoseconds after `go`.
    pub fn end_ns(&self) -> u64 {
        self.start_ns.saturating_add(self.length_ns)
    }
}

/// How an execution ended.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ExecutionEnd {
    /// With its answer.
    #[default]
    Committed,
    /// With an error that the workload expects.
    Expected,
    /// With an error.
    Failed,
    /// Without an answer: the connection was lost.
    Unknown,
    /// It was cancelled, because the load had ended.
    Aborted,
    /// It never began: it was due, and nobody was free for it before the load ended, or within the latency limit. Its client and script
    /// are those that report it.
    Skipped,
}

/// What a driver says of an execution.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExecutionLine {
    /// The execution.
    pub execution: Execution,
    /// Its statements with the values of parameters as literals: only of the first stream's first pass.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub statements: Vec<String>,
}

/// The plan of a query, taken after the measurement with the parameters of the first stream's first pass: a line of `plans.jsonl`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct QueryPlan {
    /// Name of the transaction.
    pub transaction: String,
    /// The statement, with the values of parameters as literals.
    pub statement: String,
    /// Whether the statement was executed for it, so that it has times and rows.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_analyzed: bool,
    /// What `EXPLAIN (FORMAT JSON)` answered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub plan: Option<serde_json::Value>,
    /// Why there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// Whether the rows of a query were the expected ones.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct AnswerRecord {
    /// Name of the transaction.
    pub transaction: String,
    /// File with the expected rows.
    pub file: String,
    /// The first difference; `None` if there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub difference: Option<String>,
    /// Why rows were not compared, if so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unfinished: Option<String>,
}

fn is_zero(number: &u64) -> bool {
    *number == 0
}
