//! The directory of an experiment: created, appended to during runs, and read back later.
//!
//! Directories are the only source of truth. This crate moves records between memory and files; what a record means is
//! not its business. `FORMAT.md` describes the layout.

mod create;
mod follow;
mod hlog;
#[cfg(test)]
mod hostile;
mod list;
mod load;
mod lock;
mod pack;
mod parse;
mod profiles;
mod records;
mod run_writer;
#[cfg(test)]
mod sample;
mod seal;
mod server_log;
mod statements;

pub use create::{ExperimentDir, default_path, expect_ours, write_report};
pub use follow::{NewRecords, RunFollow};
pub use list::{ListedRuns, Listing, Listings, is_hidden, list};
pub use load::{
    LoadError, Stored, decoded_bytes_max, has_intervals, is_experiment_dir, load_experiment, load_one,
    read_all_records, read_comparison, read_duet, read_experiment, read_now, read_plan, read_records,
    read_state,
};
pub use lock::{Writer, writer_of};
pub use pack::{
    PackExtent, Packed, PackedFile, Receiver, Unpacked, copy_packed, name_of, pack, packed, unpack,
};
pub use parse::record as parse_record;
pub use profiles::{profiled_cases, read_profiles};
pub use run_writer::RunWriter;
pub use seal::{Author, Reason, Sealed, read_sealed};

/// File names in the directories of an experiment and of a run.
pub mod names {
    /// The experiment file, verbatim.
    pub const EXPERIMENT: &str = "experiment.toml";
    /// The ordered runs. Its presence makes a directory the directory of an experiment.
    pub const PLAN: &str = "plan.json";
    /// That this user's pgdyno made the plan and the experiment file.
    pub const SEAL: &str = "seal.json";
    /// The request that a comparison answers.
    pub const COMPARISON: &str = "comparison.json";
    /// Commits of both sides of a duet in each slice.
    pub const DUET: &str = "duet.json";
    /// What what-ifs proved of cases, which every report takes into account.
    pub const PROOFS: &str = "why.json";
    /// What happens now, while a process writes to the directory.
    pub const NOW: &str = "now.json";
    /// Progress of each run, one line per step.
    pub const STATE: &str = "state.jsonl";
    /// Directory of the runs.
    pub const RUNS: &str = "runs";
    /// Present while a process writes to the directory.
    pub const LOCK: &str = "lock";
    /// Directory of the runs that were made for profiles, by case.
    pub const PROFILES: &str = "profiles";
    /// How a profile was made.
    pub const PROFILE: &str = "profile.json";
    /// Stacks of a profile, folded.
    pub const STACKS: &str = "stacks.folded";
    /// The record of a run.
    pub const RUN: &str = "run.json";
    /// Counts per script per second.
    pub const INTERVALS: &str = "intervals.jsonl";
    /// Histograms per second of a run in progress: an HdrHistogram interval log with tags.
    pub const LATENCY: &str = "latency.hlog";
    /// Histograms per second of a finished run; if it completed, statements have their sums there.
    pub const LATENCY_ZST: &str = "latency.hlog.zst";
    /// Histograms per second of the statements of a completed run.
    pub const STATEMENTS_ZST: &str = "statements.hlog.zst";
    /// Telemetry of a run in progress.
    pub const READINGS: &str = "readings.jsonl";
    /// Telemetry of a finished run.
    pub const READINGS_ZST: &str = "readings.jsonl.zst";
    /// Output of an exporter on the target's machine, verbatim, of a run in progress.
    pub const REMOTE: &str = "remote.prom";
    /// Output of that exporter in a finished run.
    pub const REMOTE_ZST: &str = "remote.prom.zst";
    /// Events of a run.
    pub const EVENTS: &str = "events.jsonl";
    /// Series that others measured during a run.
    pub const IMPORTS: &str = "imports.jsonl";
    /// Executions of a run with an analytical workload or with an outage, each by itself.
    pub const EXECUTIONS: &str = "executions.jsonl";
    /// Plans of the queries of an analytical run.
    pub const PLANS: &str = "plans.jsonl";
    /// The server's log during a run.
    pub const SERVER_LOG: &str = "server.log";
    /// The log of the pooler that pgdyno ran.
    pub const POOLER_LOG: &str = "pooler.log";

    /// What is measured in a run: all its files but the record.
    pub const MEASUREMENTS: [&str; 14] = [
        INTERVALS,
        LATENCY,
        LATENCY_ZST,
        STATEMENTS_ZST,
        READINGS,
        READINGS_ZST,
        REMOTE,
        REMOTE_ZST,
        EVENTS,
        IMPORTS,
        EXECUTIONS,
        PLANS,
        SERVER_LOG,
        POOLER_LOG,
    ];

    /// Directory name of a run.
    pub fn run_dir(run: u32) -> String {
        format!("{run:04}")
    }
}
