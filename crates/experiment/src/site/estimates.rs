//! Estimates for a single case.

use model::experiment::case::{Case, ServerSource};

/// Committed transactions per second and processor, low estimates for those of pgbench: a virtual machine with 2 processors commits about
/// 3,000 TPC-B-like ones for each, and reads 15,000 accounts, with all clients busy and data in memory.
const TPS_PER_CPU: [(&str, f64); 3] = [("tpcb", 1500.0), ("tpcb-simple", 1500.0), ("tpcb-select", 5000.0)];
/// The same for any other workload, whose transactions may be long.
const TPS_PER_CPU_OF_OTHERS: f64 = 500.0;
/// Share of a processor's throughput that one client reaches: it waits for replies and for WAL.
const CLIENT_SHARE: f64 = 1.0 / 3.0;
/// Processors of a machine that a plan says nothing about.
const N_CPUS: u32 = 2;

/// Upper estimate of the seconds in which `n_clients` do `n` transactions each.
pub(crate) fn counted_s(kind: &str, n: f64, n_clients: f64, n_cpus: u32) -> f64 {
    let known = TPS_PER_CPU.iter().find(|(name, _)| *name == kind);
    let per_cpu = known.map_or(TPS_PER_CPU_OF_OTHERS, |(_, tps)| *tps);
    n / (per_cpu * f64::from(n_cpus) / n_clients).min(per_cpu * CLIENT_SHARE)
}

/// Seconds of a case's load: its window, or the time for its number of transactions if that is less.
pub(crate) fn load_s(case: &Case) -> f64 {
    let window_s = f64::from(case.adapt.longest(case.window).load_s());
    let workload = &case.workload;
    let counted = workload
        .transactions
        .map(|n| counted_s(&workload.kind.to_string(), n as f64, f64::from(workload.n_clients), N_CPUS));
    counted.map_or(window_s, |counted| window_s.min(counted))
}

/// The version number as far as the plan knows it; does not query binaries.
pub(crate) fn version_num(source: &ServerSource) -> u32 {
    // Version numbers before 10 have another format.
    let is_old = source.version().is_some_and(|version| version.series() == "9.6");
    if is_old { 90_600 } else { 100_000 }
}
