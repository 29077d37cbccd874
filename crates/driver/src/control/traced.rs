//! The outcome of a replayed trace, from what its clients have seen.

use model::load::replayed::ReplayedTrace;
use workload::emulator::traced::TracedFigures;

/// The sum of all clients; `None` if none replays a trace.
pub(crate) fn outcome(clients: Vec<TracedFigures>) -> Option<ReplayedTrace> {
    if clients.is_empty() {
        return None;
    }
    let mut sum = ReplayedTrace::default();
    let mut lags_us: Vec<u32> = Vec::new();
    for of in clients {
        lags_us.extend(&of.lags_us);
        sum.add(&of.counted);
        sum.waits_us += of.waits_ns / 1000;
    }
    lags_us.sort_unstable();
    sum.lag_us_median = rank(&lags_us, 0.5);
    sum.lag_us_p99 = rank(&lags_us, 0.99);
    sum.lag_us_max = rank(&lags_us, 1.0);
    Some(sum)
}

/// The least of the sorted values that this share of them does not exceed; 0 of none.
fn rank(sorted: &[u32], share: f64) -> u64 {
    let at = ((share * sorted.len() as f64).ceil() as usize).saturating_sub(1);
    sorted.get(at).copied().unwrap_or(0).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lags_of_all_clients_are_ranked_together() {
        let of = |lags: std::ops::Range<u32>, n: u64| TracedFigures {
            lags_us: lags.collect(),
            counted: ReplayedTrace {
                n_statements: 50,
                n_new_errors: n,
                new_errors: [("23505".to_string(), n)].into(),
                ..ReplayedTrace::default()
            },
            ..TracedFigures::default()
        };
        assert_eq!(outcome(Vec::new()), None);
        let sum = outcome(vec![of(51..101, 2), of(1..51, 3)]).unwrap();
        assert_eq!((sum.n_statements, sum.lag_us_median, sum.lag_us_p99, sum.lag_us_max), (100, 50, 99, 100));
        assert_eq!((sum.n_new_errors, sum.n_diverged(), sum.new_errors["23505"]), (5, 5, 5));
        let idle = outcome(vec![TracedFigures::default()]).unwrap();
        assert_eq!((idle.n_statements, idle.lag_us_max), (0, 0));
    }
}
