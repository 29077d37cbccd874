//! The search for the highest rate that holds a latency target: which rate is offered next, from what each second of the
//! load counted. What the search found is not decided here but where records are explained.

use anyhow::{Result, anyhow};
use model::capacity::{HIGHEST_SHARE, LOWEST_SHARE, Probe, Probing, SearchRecord};
use model::case::Case;
use model::drive::DriverLine;
use model::interval::Counts;
use stats::{ProbeSecond, Threshold};

/// Of the second in which an order is given so much must be left for what waits to go; else the next second goes to that.
const SETTLE_LEFT_S: f64 = 0.6;
/// Level of the probes' intervals.
const LEVEL: f64 = 0.95;

/// A search within one run.
pub(crate) struct Search {
    probing: Probing,
    ramp_up_s: u32,
    go_unix_ns: u64,
    record: SearchRecord,
    /// Counts of the second that is not over.
    second: Counts,
    t: u32,
    /// From the first probe on.
    known: Option<Threshold>,
    current: Option<Current>,
}

/// The probe that runs.
struct Current {
    probe: Probe,
    seconds: Vec<ProbeSecond>,
}

impl Search {
    /// The search of a case whose load begins at `go_unix_ns`; `None` if its pace is another.
    pub(crate) fn of(case: &Case, go_unix_ns: u64) -> Result<Option<Search>> {
        let Some(target) = case.workload.pace.target() else { return Ok(None) };
        let probing = Probing::of(target, case.window).map_err(|reason| anyhow!(reason))?;
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

    /// Takes a line of the driver in; returns the rate to be offered from now on, where it changes.
    ///
    /// # Errors
    /// When the closed loop committed nothing: there is nothing to search below.
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

    /// What the search did, also when it was cut short.
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
        // The seconds after the load are none of the last probe.
        if t >= current.probe.from_t && t < current.probe.to_t {
            let ended = counts.ended();
            current.seconds.push(ProbeSecond { ended, late: counts.late + ended - counts.committed });
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
                "the closed loop of the ramp-up committed nothing in any second, so there is no rate to search below"
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

    /// Learns from the probe that runs, and keeps it, if it has a second.
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
