//! Estimates for a single case.

use model::experiment::case::{Case, ServerSource, WorkloadKind};

/// Share of a processor's throughput that one client reaches: it waits for replies and for WAL.
const CLIENT_SHARE: f64 = 1.0 / 3.0;
/// Processors of a machine that a plan says nothing about.
const N_CPUS: u32 = 2;

/// Upper estimate of the seconds in which `n_clients` do `n` transactions each.
pub(crate) fn counted_s(kind: WorkloadKind, n: f64, n_clients: f64, n_cpus: u32) -> f64 {
    let per_cpu = kind.row().tps_per_cpu;
    n / (per_cpu * f64::from(n_cpus) / n_clients).min(per_cpu * CLIENT_SHARE)
}

/// Seconds of a case's load: its window, or the time for its number of transactions if that is less.
pub(crate) fn load_s(case: &Case) -> f64 {
    let window_s = f64::from(case.adapt.longest(case.window).load_s());
    let workload = &case.workload;
    let counted = workload
        .transactions
        .map(|n| counted_s(workload.kind, n as f64, f64::from(workload.n_clients), N_CPUS));
    counted.map_or(window_s, |counted| window_s.min(counted))
}

/// The version number as far as the plan knows it; does not query binaries.
pub(crate) fn version_num(source: &ServerSource) -> u32 {
    // Version numbers before 10 have another format.
    let is_old = source.version().is_some_and(|version| version.series() == "9.6");
    if is_old { 90_600 } else { 100_000 }
}
