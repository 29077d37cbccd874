//! Estimates for a single case.

use model::experiment::case::{Case, ServerSource};

/// Transactions per second, a low estimate, if their number ends the run.
const COUNTED_TPS: f64 = 1000.0;

/// Seconds of a case's load: its window, or the time for its number of transactions if that is less.
pub(crate) fn load_s(case: &Case) -> f64 {
    let window_s = f64::from(case.adapt.longest(case.window).load_s());
    let all = case.workload.transactions.map(|n| n as f64 * f64::from(case.workload.n_clients));
    all.map_or(window_s, |all| window_s.min(all / COUNTED_TPS))
}

/// The version number as far as the plan knows it; does not query binaries.
pub(crate) fn version_num(source: &ServerSource) -> u32 {
    match source {
        // Version numbers before 10 have another format.
        ServerSource::Version(version) if version.series() == "9.6" => 90_600,
        _ => 100_000,
    }
}
