//! Progress lines of `-P`: what happened since the previous one.

use super::results::decimal;
use super::totals::Sums;
use crate::command_line::options::BenchPlan;

/// A period and what happened in it.
#[derive(Debug)]
pub(crate) struct Stretch<'a> {
    /// Sums over all scripts.
    pub(crate) sums: &'a Sums,
    /// Length, nanoseconds.
    pub(crate) length_ns: u64,
    /// End of the period, nanoseconds after the beginning of the load.
    pub(crate) since_begin_ns: u64,
    /// End of the period, nanoseconds since the Unix epoch.
    pub(crate) end_unix_ns: u64,
}

impl Stretch<'_> {
    /// The progress line.
    pub(crate) fn line(&self, plan: &BenchPlan) -> String {
        let sums = self.sums;
        let time_s = if plan.progress_timestamp {
            decimal(self.end_unix_ns as f64 / 1e9, 3)
        } else {
            decimal(self.since_begin_ns as f64 / 1e9, 1)
        };
        let tps = decimal(1e9 * sums.processed() as f64 / self.length_ns as f64, 1);
        let ms = |ns: f64| decimal(ns / 1e6, 3);
        let (mean, sd) = (ms(sums.latency.mean()), ms(sums.latency.sd()));
        let failures = sums.failures();
        let mut line =
            format!("progress: {time_s} s, {tps} tps, lat {mean} ms stddev {sd}, {failures} failed");
        if plan.rate_per_s.is_some() {
            line += &format!(", lag {} ms", ms(sums.lag.mean()));
            if plan.latency_limit_us.is_some() {
                line += &format!(", {} skipped", sums.counts.skipped);
            }
        }
        if plan.max_tries != 1 {
            line += &format!(", {} retried, {} retries", sums.counts.retried, sums.counts.retries);
        }
        line + "\n"
    }
}
