//! Summaries of runs, cases and experiments: the values that reports draw.
//!
//! Only types; `explain` computes them. Latencies are in nanoseconds, times in seconds since `go`.

pub mod capacity;
mod case;
pub mod cost;
mod counters;
mod imported;
pub mod limiter;
pub mod proof;
mod resources;
mod run;
pub mod scalability;
mod study;
mod top_statement;
pub mod tpcc;
pub mod uncertainty;
pub mod variation;

pub use case::CaseSummary;
pub use counters::{CounterSummary, EventCount};
pub use imported::ImportedSummary;
pub use resources::{DriverHostResources, ForeignProcess, RemoteResources, ResourceUsage, UnknownFigure};
pub use run::executions::StatementExecutions;
pub use run::outage::{
    CaseOutages, CommitCounts, CommitsAfter, LossOfCommits, OutageFigure, OutageLength, OutageMark,
    OutageParts, OutagePoint, OutageSummary,
};
pub use run::query::{AnalyticalSummary, QuerySummary};
pub use run::script::{LimitSummary, MeasureSummary, ScriptSummary};
pub use run::{
    Disturbance, ErrorSummary, LatencySummary, RunSummary, Second, StatementSummary, TelemetrySeries,
    TimelineMark,
};
pub(crate) use run::{TOO_FEW_TRANSACTIONS, UNREACHABLE};
pub use study::Study;
pub use top_statement::TopStatement;
