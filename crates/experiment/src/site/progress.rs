//! What is told while an experiment goes on: values, never text for a screen.

use model::experiment::plan::RunState;
use model::run::phase::Phase;
use server::FetchProgress;

use dataset::load::LoadProgress;

/// Something that a person who waits may want to see.
#[derive(Debug, Clone, PartialEq)]
pub enum Progress {
    /// Binaries are being fetched.
    Fetch(FetchProgress),
    /// Work outside of runs, in words: `loading scale 32`, `snapshot: 480 MB in 1.2 s`.
    Step(String),
    /// Data is being loaded.
    Load(LoadProgress),
    /// Something to know that is no error.
    Note(String),
    /// A run begins.
    RunBegins {
        /// Its number, from 1.
        run: u32,
        /// Runs in all.
        n_runs: u32,
        /// Its case's label.
        label: String,
    },
    /// A phase of the current run begins.
    PhaseBegins(Phase),
    /// A second of load is over.
    Second {
        /// Seconds since the load began.
        t: u32,
        /// Seconds of load in all.
        n: u32,
        /// Transactions committed in it.
        committed: u64,
        /// Whether it counts.
        is_measured: bool,
    },
    /// The run that has ended was disturbed, and is made again, with those of its pair.
    RunRepeats {
        /// Its number.
        run: u32,
        /// Runs that this adds.
        n: u32,
        /// What disturbed it.
        reason: String,
    },
    /// A run ended.
    RunEnds {
        /// Its number.
        run: u32,
        /// Runs in all.
        n_runs: u32,
        /// How it ended.
        state: RunState,
        /// Committed transactions per second of the measure.
        tps: Option<f64>,
        /// Why it did not complete, if so.
        reason: String,
        /// Seconds that the remaining runs will take, judged by those that were made.
        left_s: f64,
    },
}

/// Who is told.
pub type Watch<'a> = dyn FnMut(Progress) + 'a;
