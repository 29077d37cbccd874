//! The search for the highest rate that meets a latency target: chooses the next rate from the counts of each second.
//! It does not judge the result; that happens where records are explained.

use anyhow::{Result, anyhow};
use model::experiment::case::Case;
use model::load::capacity::{HIGHEST_SHARE, LOWEST_SHARE, Probe, Probing, SearchRecord};
use model::load::drive::DriverLine;
use model::load::interval::Counts;
use stats::{ProbeSecond, Threshold};

/// The second in which a rate is ordered needs at least this much time left for the backlog to clear; else the next
/// second is used for that.
const SETTLE_LEFT_S: f64 = 0.6;
/// Confidence level of the probes' intervals.
const LEVEL: f64 = 0.95;

/// A search within one run.
pub(crate) struct Search {
    probing: Probing,
    ramp_up_s: u32,
    go_unix_ns: u64,
    record: SearchRecord,
    /// Counts of the second in progress.
    second: Counts,
    t: u32,
    /// Known from the first probe on.
    known: Option<Threshold>,
    current: Option<Current>,
}

/// The current probe.
struct Current {
    probe: Probe,
    seconds: Vec<ProbeSecond>,
}

impl Search {
    /// The search of a case whose load begins at `go_unix_ns`; `None` if the case does not search.
    pub(crate) fn new(case: &Case, go_unix_ns: u64) -> Result<Option<Search>> {
        let Some(target) = case.workload.pace.target() else { return Ok(None) };
        let probing = Probing::new(target, case.window).map_err(|reason| anyhow!(reason))?;
        let probe_s = probing.probe_s;
        Ok(Some(Search {
            probing,
            ramp_up_s: case.window.ramp_up_s,
            go_unix_ns,
            record: SearchRecord { target, ceiling_per_s: 0.0, probe_s, probes: Vec::new() },
            second: Counts::default(),
            t: 0,
            known: None,
            current: None,
        }))
    }

    /// Processes a line of the driver; returns the new rate if it changes.
    ///
    /// # Errors
    /// When the closed loop committed nothing, so that there is no rate to start from.
    pub(crate) fn line(&mut self, line: &DriverLine, now_unix_ns: u64) -> Result<Option<f64>> {
        match line {
            DriverLine::Interval { interval, .. } => {
                self.t = interval.t;
                self.second += interval.counts;
                Ok(None)
            }
            // The tick follows the intervals of its second.
            DriverLine::Tick(_) => {
                let counts = std::mem::take(&mut self.second);
                self.second_over(counts, now_unix_ns)
            }
            _ => Ok(None),
        }
    }

    /// Record of the search, even if it was cut short.
    pub(crate) fn into_record(mut self) -> SearchRecord {
        self.close_probe();
        self.record
    }

    fn second_over(&mut self, counts: Counts, now_unix_ns: u64) -> Result<Option<f64>> {
        let t = self.t;
        let Some(current) = &mut self.current else {
            self.record.ceiling_per_s = self.record.ceiling_per_s.max(counts.committed as f64);
            return if t + 1 < self.ramp_up_s { Ok(None) } else { self.begin_probe(now_unix_ns).map(Some) };
        };
        // Seconds after the load do not belong to the last probe.
        if t >= current.probe.from_t && t < current.probe.to_t {
            current.seconds.push(ProbeSecond { ended: counts.ended(), late: counts.not_in_time() });
        }
        if current.probe.confirms || t + 1 < current.probe.to_t {
            return Ok(None);
        }
        self.close_probe();
        self.begin_probe(now_unix_ns).map(Some)
    }

    /// Chooses the next rate.
    fn begin_probe(&mut self, now_unix_ns: u64) -> Result<f64> {
        let ceiling = self.record.ceiling_per_s;
        if self.known.is_none() {
            let allowed = self.record.target.late_share();
            self.known = Threshold::between(LOWEST_SHARE * ceiling, HIGHEST_SHARE * ceiling, allowed);
        }
        let Some(known) = &self.known else {
            return Err(anyhow!(
                "the closed loop of the ramp-up committed nothing in any second, so there is no rate to start the search from"
            ));
        };
        let elapsed_s = now_unix_ns.saturating_sub(self.go_unix_ns) as f64 / 1e9;
        let from_t = (elapsed_s + SETTLE_LEFT_S).ceil().max(f64::from(self.t + 2)) as u32;
        let Probing { probe_s, search_end_t, .. } = self.probing;
        let confirms = from_t + probe_s > search_end_t;
        let to_t = if confirms { self.probing.end_t } else { from_t + probe_s };
        let rate_per_s = known.next();
        let probe = Probe { rate_per_s, from_t, to_t, confirms };
        self.current = Some(Current { probe, seconds: Vec::new() });
        Ok(rate_per_s)
    }

    /// Evaluates the current probe, and keeps it if it has a full second.
    fn close_probe(&mut self) {
        let Some(Current { mut probe, seconds }) = self.current.take() else { return };
        probe.to_t = probe.from_t + seconds.len() as u32;
        let judged = stats::judge(&seconds, probe.rate_per_s, self.record.target.late_share(), LEVEL);
        if let (Some(judged), Some(known)) = (judged, &mut self.known) {
            known.see(probe.rate_per_s, &judged);
            self.record.probes.push(probe);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::sample;
    use model::load::drive::DriverLine;
    use model::load::interval::Interval;
    use model::telemetry::reading::{Tick, TickSource, Values};

    const GO: u64 = 1_000_000_000_000;
    const CAPACITY: f64 = 600.0;

    /// A server with 1000 transactions per second in a closed loop, and 1 % late ones at its capacity.
    fn counts(rate: Option<f64>) -> Counts {
        let n = rate.unwrap_or(1000.0).min(1000.0);
        let share = rate.map_or(1.0, |rate| (0.01 * (rate / CAPACITY).powi(12)).min(1.0));
        let (n, late) = (n as u64, (n * share).round() as u64);
        Counts { due: n, started: n, committed: n, late, ..Counts::default() }
    }

    /// Runs a search to its end; returns each order with the second at whose end it was given.
    fn searched(search: &mut Search, late_s: f64) -> Vec<(u32, f64)> {
        let (mut rate, mut orders) = (None, Vec::new());
        for t in 0..search.probing.end_t + 1 {
            let now = GO + ((f64::from(t + 1) + late_s) * 1e9) as u64;
            let interval = Interval { t, counts: counts(rate), ..Interval::default() };
            let told = DriverLine::Interval { interval, histograms: Vec::new() };
            assert_eq!(search.line(&told, now).unwrap(), None, "a second is not over before its tick");
            let tick = Tick {
                source: TickSource::Driver,
                end_unix_ns: now,
                length_ns: 1,
                values: Values::default(),
            };
            if let Some(ordered) = search.line(&DriverLine::Tick(tick), now).unwrap() {
                orders.push((t, ordered));
                rate = Some(ordered);
            }
        }
        orders
    }

    fn new_search() -> Search {
        let text =
            "[workload]\npace = \"max with p99 <= 10ms\"\n[run]\nramp_up = \"5s\"\nmeasure = \"60s\"\n";
        Search::new(&sample::case(text), GO).unwrap().unwrap()
    }

    #[test]
    fn probes_follow_each_other_and_the_last_one_confirms_what_they_found() {
        let mut search = new_search();
        let orders = searched(&mut search, 0.05);
        let record = search.into_record();
        assert_eq!((orders[0].0, record.ceiling_per_s, record.probe_s), (4, 1000.0, 2));
        assert_eq!(orders.len(), record.probes.len());
        for (order, probe) in orders.iter().zip(&record.probes) {
            assert_eq!((probe.from_t, probe.rate_per_s), (order.0 + 2, order.1), "a second settles");
        }
        for pair in record.probes.windows(2) {
            assert!(pair[0].to_t < pair[1].from_t && !pair[0].confirms, "{pair:?}");
        }
        let last = record.probes.last().unwrap();
        assert!(last.confirms && last.to_t == 65 && last.to_t - last.from_t >= 15, "{last:?}");
        assert!((last.rate_per_s / CAPACITY - 1.0).abs() < 0.03, "{last:?}");
    }

    #[test]
    fn a_late_order_is_given_time_to_take_effect() {
        let mut search = new_search();
        let orders = searched(&mut search, 0.7);
        let record = search.into_record();
        assert_eq!(record.probes[0].from_t, orders[0].0 + 3);
        assert!(record.probes.last().unwrap().confirms);
    }

    #[test]
    fn a_load_that_commits_nothing_cannot_be_searched() {
        let mut search = new_search();
        let tick =
            Tick { source: TickSource::Driver, end_unix_ns: 0, length_ns: 1, values: Values::default() };
        search.t = 4;
        let error = search.line(&DriverLine::Tick(tick), GO).unwrap_err();
        assert!(error.to_string().contains("committed nothing"), "{error}");
        let closed = sample::case("[workload]\nclients = 4\n");
        assert!(Search::new(&closed, GO).unwrap().is_none());
    }

    #[test]
    fn a_search_that_is_cut_short_keeps_what_it_has() {
        let mut search = new_search();
        search.probing.end_t = 20;
        searched(&mut search, 0.05);
        let record = search.into_record();
        assert!(record.probes.len() >= 4 && record.probes.iter().all(|probe| probe.to_t > probe.from_t));
    }
}
