//! The time line of a run: which seconds count, and where ticks and events are on it.
//!
//! All times are seconds since `go`, the moment at which the load began.

pub(crate) mod outage;

use std::collections::{BTreeMap, BTreeSet};

use model::experiment::plan::RunState;
use model::load::drive::LoadEnding;
use model::run::RunData;
use model::run::phase::Phase;
use model::telemetry::reading::{Tick, split_key};

/// What is needed to place anything of a run in time.
#[derive(Debug, Clone)]
pub(crate) struct Timeline {
    go_unix_ns: Option<u64>,
    /// Numbers of the seconds that count, with their lengths in nanoseconds.
    measured: BTreeMap<u32, u64>,
    /// Numbers of the seconds of the window that do not count because a fault was injected in them or before.
    from_fault: BTreeSet<u32>,
    /// End of the last interval, seconds since `go`.
    pub(crate) end_s: f64,
}

/// Counters of the time in which something was so, each of which grows by a second per second at most.
const TIMES: [&str; 7] = [
    "disk.busy_time",
    "remote.disk.busy_time",
    "host.psi.cpu.some",
    "host.psi.io.some",
    "host.psi.io.full",
    "host.psi.memory.some",
    "host.psi.memory.full",
];

/// A tick placed in time.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Placed<'a> {
    /// Start, seconds since `go`.
    pub(crate) from_s: f64,
    /// End, seconds since `go`.
    pub(crate) to_s: f64,
    /// The tick.
    pub(crate) tick: &'a Tick,
}

impl Placed<'_> {
    /// Length in seconds.
    pub(crate) fn length_s(&self) -> f64 {
        self.to_s - self.from_s
    }

    /// A value of the tick. Of a time in which something was so, there is no more than the tick's length: the kernel counts
    /// that of a request when the request ends, and may add idle time before it.
    pub(crate) fn value(&self, key: &str) -> Option<f64> {
        Some(self.bounded(split_key(key).0, self.tick.values.get(key)?))
    }

    /// [`Placed::value`] of what the tick says of an instance of a metric.
    pub(crate) fn bounded(&self, metric: &str, value: f64) -> f64 {
        let is_too_much = value > self.length_s() && TIMES.contains(&metric);
        if is_too_much { self.length_s() } else { value }
    }

    /// The part of the tick that lies within a span, 0 to 1.
    pub(crate) fn share_within(&self, from_s: f64, to_s: f64) -> f64 {
        let overlap = self.to_s.min(to_s) - self.from_s.max(from_s);
        if self.length_s() > 0.0 { (overlap / self.length_s()).clamp(0.0, 1.0) } else { 0.0 }
    }
}

impl Timeline {
    /// The time line of a run.
    pub(crate) fn from_run(data: &RunData) -> Timeline {
        let start =
            data.intervals.iter().map(|i| i.start_unix_ns.saturating_sub(u64::from(i.t) * 1_000_000_000));
        let go_unix_ns = data.record.go_unix_ns.or_else(|| start.min());
        let mut line =
            Timeline { go_unix_ns, measured: BTreeMap::new(), from_fault: BTreeSet::new(), end_s: 0.0 };
        for interval in &data.intervals {
            line.end_s = line.end_s.max(f64::from(interval.t) + interval.length_ns as f64 / 1e9);
        }
        line.measured = measured_seconds(data);
        // The time before a fault is a normal window; what follows it is judged as an outage.
        if let Some(fault_s) = outage::fault_s(&data.record) {
            let is_after = |t: &u32| f64::from(*t) + 1.0 > fault_s;
            line.from_fault = line.measured.keys().copied().filter(is_after).collect();
            line.measured.retain(|t, _| !line.from_fault.contains(t));
        }
        line
    }

    /// Whether second number `t` counts.
    pub(crate) fn measures(&self, t: u32) -> bool {
        self.measured.contains_key(&t)
    }

    /// Whether second number `t` is part of the window, although it may lie after a fault: sums over the measurement contain it.
    pub(crate) fn is_in_window(&self, t: u32) -> bool {
        self.measures(t) || self.from_fault.contains(&t)
    }

    /// Whether sums over the measurement contain more than the seconds that count.
    pub(crate) fn is_cut_by_fault(&self) -> bool {
        !self.from_fault.is_empty()
    }

    /// Total length of the seconds that count.
    pub(crate) fn measured_s(&self) -> f64 {
        self.measured.values().sum::<u64>() as f64 / 1e9
    }

    /// Start and end of the measurement; `None` if nothing was measured.
    pub(crate) fn measured_span(&self) -> Option<(f64, f64)> {
        let (first, _) = self.measured.first_key_value()?;
        let (last, length_ns) = self.measured.last_key_value()?;
        Some((f64::from(*first), f64::from(*last) + *length_ns as f64 / 1e9))
    }

    /// A time in seconds since `go`; `None` if the load never began.
    pub(crate) fn place(&self, t_unix_ns: u64) -> Option<f64> {
        Some(since(self.go_unix_ns?, t_unix_ns))
    }

    /// The ticks in the order of their ends; none if the load never began.
    pub(crate) fn place_ticks<'a>(&self, ticks: &'a [Tick]) -> Vec<Placed<'a>> {
        let mut placed: Vec<Placed> = ticks
            .iter()
            .filter(|tick| tick.length_ns > 0)
            .filter_map(|tick| {
                let to_s = self.place(tick.end_unix_ns)?;
                Some(Placed { from_s: to_s - tick.length_ns as f64 / 1e9, to_s, tick })
            })
            .collect();
        placed.sort_by(|a, b| a.to_s.total_cmp(&b.to_s));
        placed
    }
}

/// Seconds from one moment to another, both in nanoseconds since the Unix epoch.
fn since(from_unix_ns: u64, to_unix_ns: u64) -> f64 {
    (i128::from(to_unix_ns) - i128::from(from_unix_ns)) as f64 / 1e9
}

/// The whole seconds within the window; for a run that was cut short, those before the cut.
fn measured_seconds(data: &RunData) -> BTreeMap<u32, u64> {
    let cut_t = if ran_its_window(data) { None } else { data.intervals.iter().map(|i| i.t).max() };
    let cut_unix_ns = match (cut_t, data.record.phase(Phase::Measure)) {
        (Some(_), Some(phase)) => phase.end_unix_ns,
        _ => u64::MAX,
    };
    // For a search, only the rate that was found counts.
    let confirmed = crate::run::capacity::confirmed(data);
    let mut measured = BTreeMap::new();
    let counts = data.intervals.iter().filter(|interval| {
        data.record.measures(interval.t, interval.length_ns)
            && confirmed.as_ref().is_none_or(|seconds| seconds.contains(&interval.t))
            // In the last second of a run that was cut short, and afterwards, clients were already stopping.
            && cut_t.is_none_or(|last| interval.t < last)
            && interval.start_unix_ns.saturating_add(interval.length_ns) <= cut_unix_ns
    });
    for interval in counts {
        let length_ns = measured.entry(interval.t).or_insert(0);
        *length_ns = interval.length_ns.max(*length_ns);
    }
    measured
}

/// Whether the load lasted to the end of its window.
fn ran_its_window(data: &RunData) -> bool {
    let completed = |ending| ending == LoadEnding::Completed;
    data.record.state == RunState::Completed
        || data.record.done.as_ref().is_some_and(|done| completed(done.ending))
}

#[cfg(test)]
mod tests {
    use model::telemetry::reading::TickSource;

    use super::*;

    #[test]
    fn nothing_lasts_longer_than_its_tick() {
        let values = [("disk.busy_time[vda]", 6.7), ("disk.writes[vda]", 9.0), ("host.psi.cpu.some", 0.01)];
        let values = values.map(|(key, value)| (key.to_string(), value)).into();
        let tick = Tick { source: TickSource::Host, end_unix_ns: 0, length_ns: 20_000_000, values };
        let placed = Placed { from_s: 9.98, to_s: 10.0, tick: &tick };
        let length_s = placed.length_s();
        assert_eq!(placed.value("disk.busy_time[vda]"), Some(length_s));
        assert_eq!(placed.value("disk.writes[vda]"), Some(9.0));
        assert_eq!(placed.value("host.psi.cpu.some"), Some(0.01));
        assert_eq!(placed.value("host.psi.io.some"), None);
    }
}
