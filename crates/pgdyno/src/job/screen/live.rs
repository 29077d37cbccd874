//! What the line of progress says: how far the runs are, what the load does now, how long it will take.

use model::load::histogram::HistogramSum;
use model::load::interval::HistogramLine;
use model::text::prose::{grouped, significant};

use crate::job::left::RemainingTime;
use crate::job::preview::duration;

/// Steps of the bar in a run.
const STEPS: u64 = 100;
/// The share of a run that has passed, for the bar, when its load begins.
const BEFORE_LOAD: f64 = 0.1;

/// The state of all runs.
pub(super) struct Live {
    n_runs: u32,
    n_ended: u32,
    /// Share of the current run.
    share: f64,
    left: RemainingTime,
    /// `3/9`, and the label of the case; empty between runs.
    run: Option<(String, String)>,
}

impl Live {
    pub(super) fn new(n_runs: u32, left: RemainingTime) -> Live {
        Live { n_runs, n_ended: 0, share: 0.0, left, run: None }
    }

    /// Length of the bar.
    pub(super) fn length(&self) -> u64 {
        u64::from(self.n_runs) * STEPS
    }

    /// Position of the bar.
    pub(super) fn position(&self) -> u64 {
        u64::from(self.n_ended) * STEPS + (self.share * STEPS as f64) as u64
    }

    pub(super) fn begin(&mut self, run: u32, n_runs: u32, label: String) {
        self.left.begin();
        self.share = 0.0;
        self.run = Some((format!("{run}/{n_runs}"), label));
    }

    /// Second `t` of `n` of a load has passed. A load may be extended: the bar never goes back.
    pub(super) fn second(&mut self, t: u32, n: u32) {
        let of_load = f64::from(t) / f64::from(n.max(1));
        self.share = self.share.max(BEFORE_LOAD + (1.0 - BEFORE_LOAD) * of_load.min(1.0));
    }

    /// So many runs are repeated.
    pub(super) fn repeat(&mut self, n: u32) {
        self.n_runs += n;
    }

    /// The run has ended, and the others will take `left_s`, or less if a time ends them. Returns its name, and how long they take.
    pub(super) fn end(&mut self, left_s: f64) -> (String, f64) {
        self.n_ended += 1;
        self.share = 0.0;
        self.left.end(left_s);
        let (number, label) = self.run.take().unwrap_or_default();
        (format!("run {number}, {label}"), self.left.now_s().map_or(left_s, |now_s| now_s.min(left_s)))
    }

    /// The line: what matters most first, for its end may be cut. While it ends on request, the time of all runs says nothing.
    pub(super) fn message(&self, doing: &str, is_stopping: bool) -> String {
        let left = match self.left.now_s().filter(|_| !is_stopping) {
            None => String::new(),
            Some(left_s @ 600.0..7200.0) => format!("  {:.0} min left", left_s / 60.0),
            Some(left_s) => format!("  {} left", duration(left_s)),
        };
        match &self.run {
            Some((number, label)) => format!("{number} {doing}{left}  {label}"),
            None => format!("{doing}{left}"),
        }
    }
}

/// The load in its second `t` of `n`.
pub(super) fn second(t: u32, n: u32, committed: u64, is_measured: bool, p99_ms: Option<f64>) -> String {
    let phase = if is_measured { "measure" } else { "ramp-up" };
    let p99 = p99_ms.map_or(String::new(), |ms| format!("  p99 {} ms", significant(ms)));
    format!("{phase} {t}/{n} s  {} tps{p99}", grouped(&committed.to_string()))
}

/// The 99th percentile of latency over all scripts of a second, milliseconds. Tags with a point are of other times.
pub(super) fn p99_ms(histograms: &[HistogramLine]) -> Option<f64> {
    let mut sum = HistogramSum::new();
    for line in histograms.iter().filter(|line| !line.tag.contains('.')) {
        sum.add(&HistogramSum::read(line).ok()?);
    }
    sum.quantile_ns(0.99).map(|ns| ns as f64 / 1e6)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bar_moves_within_a_run_and_never_back() {
        let mut live = Live::new(4, RemainingTime::new(100.0));
        let mut last = live.position();
        for run in 1..=4 {
            live.begin(run, 4, "8 clients".to_string());
            for (t, n) in [(1, 10), (5, 10), (10, 10), (11, 20), (20, 20)] {
                live.second(t, n);
                assert!(live.position() >= last, "{run} {t}");
                last = live.position();
            }
            assert_eq!(live.end(10.0).0, format!("run {run}/4, 8 clients"));
        }
        assert_eq!(live.position(), live.length());
    }

    #[test]
    fn no_run_is_announced_beyond_the_time_that_ends_them() {
        let mut live = Live::new(12, RemainingTime::new(52.0).ending_after(26.0));
        live.begin(1, 12, "A".to_string());
        let (_, left_s) = live.end(37.0);
        assert!(left_s <= 26.0, "{left_s}");
        assert_eq!(Live::new(2, RemainingTime::new(0.0)).end(37.0).1, 37.0, "nothing else is known");
    }

    #[test]
    fn eighty_columns_hold_all_but_a_long_label() {
        let mut live = Live::new(12, RemainingTime::new(754.0));
        live.begin(11, 12, "version 18, wal_compression on, 128 clients".to_string());
        let line = live.message(&second(58, 70, 123_456, true, Some(12.34)), false);
        assert!(line.starts_with("11/12 measure 58/70 s  123,456 tps  p99 12.3 ms  13 min left  "), "{line}");
        let bar = "[================] ".len();
        assert!(bar + line.find("left").unwrap() + 4 < 80, "{line}");
        let stopping = live.message("drain", true);
        assert_eq!(stopping, "11/12 drain  version 18, wal_compression on, 128 clients");
    }
}
