//! Turns absolute readings into the values of a tick: increments of counters, levels of gauges, keys with instances.
//! Does not know where readings come from.

use std::collections::{BTreeMap, HashMap};

use model::telemetry::metric::{self, MetricKind};
use model::telemetry::reading::key;

/// Meaning of a counter that decreases, for the source that reads it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Backwards {
    /// A race in the reading, or rounding by the kernel: the tick gets 0, and nothing more until the counter exceeds
    /// its highest value, so that sums over ticks stay right.
    Jitter,
    /// The counter was reset: the tick gets no value, and later ticks count from the new value.
    Reset,
}

/// Limit for the keys of an untrusted source. PostgreSQL 18 has some 100 rows of `pg_stat_io` and 300 wait events.
const KEYS_MAX: usize = 10_000;
/// Longest name of an instance: names of databases, devices and wait events have at most 63 bytes, plus a few words.
pub(crate) const INSTANCE_BYTES_MAX: usize = 1000;

/// Highest readings so far, and the values of the tick in progress.
#[derive(Debug)]
pub(crate) struct Gather {
    backwards: Backwards,
    /// Whether a counter that was never read before counts from zero. True only after a complete first reading of a
    /// source that omits zeros.
    new_from_zero: bool,
    highest: HashMap<String, f64>,
    /// Last raw reading, and the amount that a wrapping counter has lost so far.
    wrapped: HashMap<String, (f64, f64)>,
    values: BTreeMap<String, f64>,
    n_resets: u32,
}

impl Gather {
    pub(crate) fn new(backwards: Backwards) -> Gather {
        Gather {
            backwards,
            new_from_zero: false,
            highest: HashMap::new(),
            wrapped: HashMap::new(),
            values: BTreeMap::new(),
            n_resets: 0,
        }
    }

    /// Adds the absolute reading `value` of a metric; `instance` is empty if the metric has none. Ignores a name that
    /// is not in the table of metrics.
    pub(crate) fn put(&mut self, name: &str, instance: &str, value: f64) {
        let Some(metric) = metric::find(name) else {
            debug_assert!(false, "`{name}` is not a row of METRICS");
            return;
        };
        debug_assert_eq!(metric.instance.is_empty(), instance.is_empty(), "`{name}` and its instance");
        let key = if instance.is_empty() { name.to_string() } else { key(name, &clean(instance)) };
        let value = match metric.kind {
            MetricKind::Gauge => Some(value),
            // No source is finer than nanoseconds; anything below is noise of the subtraction.
            MetricKind::Counter if metric.unit == "s" => {
                self.increase(&key, value).map(|s| (s * 1e9).round() / 1e9)
            }
            MetricKind::Counter => self.increase(&key, value),
        };
        if let Some(value) = value {
            self.values.insert(key, value);
        }
    }

    /// [`Gather::put`] for the answers of a server or another machine, which may be anything: ignores unknown names,
    /// values that are not finite, and an unbounded number of instances.
    pub(crate) fn put_said(&mut self, name: &str, instance: &str, value: f64) {
        // A counter is as it stands here, which may be less than before: its increase is checked where it is read.
        let is_row = metric::find(name)
            .is_some_and(|metric| metric.instance.is_empty() == instance.is_empty() && metric.can_be(value));
        if !is_row || instance.len() > INSTANCE_BYTES_MAX {
            return;
        }
        let is_full = self.highest.len().max(self.values.len()) >= KEYS_MAX;
        if !is_full || self.highest.contains_key(&key(name, &clean(instance))) {
            self.put(name, instance, value);
        }
    }

    /// [`Gather::put`] for a counter that wraps around at `modulus`.
    pub(crate) fn put_wrapping(&mut self, name: &str, instance: &str, raw: f64, modulus: f64) {
        let (last, lost) = self.wrapped.entry(key(name, instance)).or_insert((raw, 0.0));
        if raw < *last - modulus / 2.0 {
            *lost += modulus;
        }
        *last = raw;
        let value = raw + *lost;
        self.put(name, instance, value);
    }

    /// Adds to a counter whose increase somebody else has worked out.
    pub(crate) fn put_increase(&mut self, name: &str, instance: &str, increase: f64) {
        *self.values.entry(key(name, &clean(instance))).or_default() += increase;
    }

    /// Increment of the counter `key`, which is now `value`; `None` if there is no earlier reading.
    fn increase(&mut self, key: &str, value: f64) -> Option<f64> {
        let Some(highest) = self.highest.get_mut(key) else {
            self.highest.insert(key.to_string(), value);
            return self.new_from_zero.then_some(value);
        };
        let increase = value - *highest;
        if increase >= 0.0 {
            *highest = value;
            return Some(increase);
        }
        match self.backwards {
            Backwards::Jitter => Some(0.0),
            Backwards::Reset => {
                *highest = value;
                self.n_resets += 1;
                None
            }
        }
    }

    /// Ends the tick and returns its values, and the number of counters that were reset during it.
    pub(crate) fn take(&mut self) -> (BTreeMap<String, f64>, u32) {
        (std::mem::take(&mut self.values), std::mem::take(&mut self.n_resets))
    }

    /// Lets the counter `key` start over with its next reading.
    pub(crate) fn forget(&mut self, key: &str) {
        self.highest.remove(key);
    }

    /// From now on, a counter that was never read before counts from zero.
    pub(crate) fn count_new_from_zero(&mut self) {
        self.new_from_zero = true;
    }
}

/// Brackets delimit the instance within a key.
fn clean(instance: &str) -> String {
    instance.replace(['[', ']'], "_")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(backwards: Backwards, readings: &[f64]) -> Vec<Option<f64>> {
        let mut gather = Gather::new(backwards);
        let each = readings.iter().map(|&reading| {
            gather.put("host.context_switches", "", reading);
            gather.take().0.remove("host.context_switches")
        });
        each.collect()
    }

    #[test]
    fn counters_yield_their_increase_and_never_a_negative_one() {
        let readings = [10.0, 15.0, 15.0, 12.0, 14.0, 18.0];
        let jitter = [None, Some(5.0), Some(0.0), Some(0.0), Some(0.0), Some(3.0)];
        assert_eq!(run(Backwards::Jitter, &readings), jitter);
        let reset = [None, Some(5.0), Some(0.0), None, Some(2.0), Some(4.0)];
        assert_eq!(run(Backwards::Reset, &readings), reset);
    }

    #[test]
    fn a_counter_that_wraps_goes_on() {
        let mut gather = Gather::new(Backwards::Jitter);
        let mut step = |raw: f64| {
            gather.put_wrapping("disk.read_time", "sda", raw, 100.0);
            gather.take().0.remove("disk.read_time[sda]")
        };
        assert_eq!(
            [90.0, 99.0, 4.0, 3.0, 10.0].map(&mut step),
            [None, Some(9.0), Some(5.0), Some(0.0), Some(6.0)]
        );
    }

    #[test]
    fn of_a_servers_rows_only_those_with_numbers_count_and_only_so_many() {
        let mut gather = Gather::new(Backwards::Reset);
        let long = "x".repeat(INSTANCE_BYTES_MAX + 1);
        for (name, instance, value) in [
            ("\u{fffd}", "", 1.0),
            ("server.waiting", "", 1.0),
            ("server.waiting", &long, 1.0),
            ("server.waiting", "Lock:x", f64::NAN),
            ("server.checkpoints", "timed", f64::INFINITY),
        ] {
            gather.put_said(name, instance, value);
        }
        assert_eq!((gather.take().0, gather.highest.len()), (BTreeMap::new(), 0));
        gather.put_said("server.checkpoints", "timed", 1.0);
        for n in 0..2 * KEYS_MAX {
            gather.put_said("server.checkpoints", &n.to_string(), 1.0);
            gather.put_said("server.waiting", &n.to_string(), 1.0);
        }
        assert!(gather.highest.len() <= KEYS_MAX && gather.values.len() <= KEYS_MAX);
        gather.put_said("server.checkpoints", "timed", 3.0);
        assert_eq!(
            gather.take().0.get("server.checkpoints[timed]"),
            Some(&2.0),
            "those that are known go on"
        );
    }

    #[test]
    fn instances_are_part_of_the_key_and_gauges_pass() {
        let mut gather = Gather::new(Backwards::Reset);
        gather.put("server.waiting", "Lock:[x]", 2.0);
        gather.put("server.checkpoints", "timed", 2.0);
        let (values, resets) = gather.take();
        assert_eq!(values, BTreeMap::from([("server.waiting[Lock:_x_]".to_string(), 2.0)]));
        gather.count_new_from_zero();
        gather.put("server.checkpoints", "timed", 1.0);
        gather.put("server.checkpoints", "requested", 1.0);
        assert_eq!(resets, 0);
        assert_eq!(gather.take(), (BTreeMap::from([("server.checkpoints[requested]".to_string(), 1.0)]), 1));
    }
}
