//! Adds up what several drivers report, second by second: counts and histograms, never percentiles.

use std::collections::BTreeMap;
use std::ops::AddAssign;

use anyhow::{Result, anyhow};
use model::load::drive::{Done, DriverLine, LoadEnding};
use model::load::histogram::HistogramSum;
use model::load::interval::{HistogramLine, Interval, StatementErrors};
use model::telemetry::reading::{Tick, key, split_key};

/// Adds elements of a list to those of another, which grows.
fn add_each<T: Default + Copy + AddAssign>(sums: &mut Vec<T>, more: &[T]) {
    if sums.len() < more.len() {
        sums.resize(more.len(), T::default());
    }
    sums.iter_mut().zip(more).for_each(|(sum, &one)| *sum += one);
}

fn add_by_name(sums: &mut BTreeMap<String, u64>, more: &BTreeMap<String, u64>) {
    for (name, n) in more {
        *sums.entry(name.clone()).or_default() += n;
    }
}

/// Seconds that not every driver has reported yet.
pub(crate) struct Adder {
    names: Vec<String>,
    /// The second that each driver is reporting.
    current: Vec<u32>,
    /// Drivers that report no more.
    has_ended: Vec<bool>,
    seconds: BTreeMap<u32, Second>,
}

#[derive(Default)]
struct Second {
    scripts: BTreeMap<u32, OfScript>,
    tick: Option<Tick>,
    delivered: Vec<bool>,
}

#[derive(Default)]
struct OfScript {
    interval: Option<Interval>,
    /// Sums of the drivers, by the tags of their lines.
    histograms: BTreeMap<String, HistogramSum>,
}

impl Adder {
    pub(crate) fn new(names: Vec<String>) -> Adder {
        let n = names.len();
        Adder { names, current: vec![0; n], has_ended: vec![false; n], seconds: BTreeMap::new() }
    }

    /// Takes in a driver's interval.
    ///
    /// # Errors
    /// When a histogram cannot be decoded.
    pub(crate) fn interval(
        &mut self,
        from: usize,
        interval: Interval,
        histograms: &[HistogramLine],
    ) -> Result<()> {
        self.current[from] = interval.t;
        let second = self.second(interval.t);
        let script = second.scripts.entry(interval.script).or_default();
        for line in histograms {
            let of_driver = HistogramSum::read(line).map_err(|error| anyhow!(error))?;
            script.histograms.entry(line.tag.clone()).or_default().add(&of_driver);
        }
        match &mut script.interval {
            Some(sum) => add_interval(sum, &interval),
            None => script.interval = Some(interval),
        }
        Ok(())
    }

    /// Takes in a driver's tick, which ends its second.
    pub(crate) fn tick(&mut self, from: usize, tick: Tick) {
        let name = self.names[from].clone();
        let second = self.second(self.current[from]);
        second.delivered[from] = true;
        let named = |key_before: &str| match split_key(key_before) {
            ("driver.remote_cpu", _) => key_before.to_string(),
            (metric, Some(instance)) => key(metric, &format!("{name}/{instance}")),
            (metric, None) => metric.to_string(),
        };
        let values = tick.values.iter().map(|(key_before, value)| (named(key_before), value));
        match &mut second.tick {
            None => second.tick = Some(Tick { values: values.collect(), ..tick }),
            Some(sum) => {
                let start = (sum.end_unix_ns - sum.length_ns.min(sum.end_unix_ns))
                    .min(tick.end_unix_ns - tick.length_ns.min(tick.end_unix_ns));
                sum.end_unix_ns = sum.end_unix_ns.max(tick.end_unix_ns);
                sum.length_ns = sum.end_unix_ns - start;
                for (name, value) in values {
                    sum.values.add(&name, value);
                }
            }
        }
    }

    /// A driver reports no more.
    pub(crate) fn ended(&mut self, from: usize) {
        self.has_ended[from] = true;
    }

    /// The lines of the seconds that every driver has reported.
    pub(crate) fn complete(&mut self) -> Vec<DriverLine> {
        let mut lines = Vec::new();
        while let Some(entry) = self.seconds.first_entry() {
            let mut places = entry.get().delivered.iter().zip(&self.has_ended);
            if !places.all(|(&delivered, &ended)| delivered || ended) {
                break;
            }
            let second = entry.remove();
            for script in second.scripts.into_values() {
                let Some(interval) = script.interval else { continue };
                let histograms = script.histograms.iter().map(|(tag, sum)| sum.line(tag)).collect();
                lines.push(DriverLine::Interval { interval, histograms });
            }
            lines.extend(second.tick.map(DriverLine::Tick));
        }
        lines
    }

    fn second(&mut self, t: u32) -> &mut Second {
        let n = self.names.len();
        self.seconds.entry(t).or_insert_with(|| Second { delivered: vec![false; n], ..Second::default() })
    }
}

fn add_interval(sum: &mut Interval, more: &Interval) {
    let end = (sum.start_unix_ns + sum.length_ns).max(more.start_unix_ns + more.length_ns);
    sum.start_unix_ns = sum.start_unix_ns.min(more.start_unix_ns);
    sum.length_ns = end - sum.start_unix_ns;
    sum.counts += more.counts;
    sum.latency += more.latency;
    sum.lag += more.lag;
    sum.connects += more.connects;
    add_by_name(&mut sum.errors, &more.errors);
    add_by_name(&mut sum.facts, &more.facts);
    add_each(&mut sum.statements, &more.statements);
    add_each(&mut sum.statement_rows, &more.statement_rows);
    for errors in &more.statement_errors {
        let is_same = |known: &&mut StatementErrors| {
            (known.statement, &known.sqlstate) == (errors.statement, &errors.sqlstate)
        };
        match sum.statement_errors.iter_mut().find(is_same) {
            Some(known) => known.n += errors.n,
            None => sum.statement_errors.push(errors.clone()),
        }
    }
    add_each(&mut sum.commands, &more.commands);
}

/// The totals of all drivers.
pub(crate) fn total(dones: Vec<Done>) -> Done {
    let all_lost = dones.iter().all(|done| done.ending == LoadEnding::ConnectionsLost);
    let mut sum = Done::default();
    for done in dones {
        sum.ending = match (sum.ending, done.ending) {
            (LoadEnding::Stopped, _) | (_, LoadEnding::Stopped) => LoadEnding::Stopped,
            _ => LoadEnding::Completed,
        };
        sum.end_unix_ns = sum.end_unix_ns.max(done.end_unix_ns);
        sum.counts += done.counts;
        sum.backlog += done.backlog;
        add_by_name(&mut sum.errors, &done.errors);
        for (state, message) in done.messages {
            sum.messages.entry(state).or_insert(message);
        }
        // Each driver counts its own clients, by their numbers in the whole load.
        add_each(&mut sum.measured_by_client, &done.measured_by_client);
        sum.clients_lost += done.clients_lost;
        sum.unanswered += done.unanswered;
        sum.unanswered_ns = sum.unanswered_ns.max(done.unanswered_ns);
        sum.connect_ns_total += done.connect_ns_total;
        sum.n_connects += done.n_connects;
        sum.n_lost += done.n_lost;
        sum.outage_ns_total += done.outage_ns_total;
        sum.lines_dropped += done.lines_dropped;
        sum.late_ns = sum.late_ns.max(done.late_ns);
        add_each(&mut sum.committed_by_slice, &done.committed_by_slice);
        if let Some(sessions) = done.sessions {
            sum.sessions.get_or_insert_default().add(sessions);
        }
        // A trace has one driver.
        sum.replayed = sum.replayed.or(done.replayed);
    }
    if all_lost {
        sum.ending = LoadEnding::ConnectionsLost;
    }
    sum
}

#[cfg(test)]
mod tests {
    use base64::Engine as _;
    use base64::engine::general_purpose::STANDARD;
    use hdrhistogram::Histogram;
    use hdrhistogram::serialization::{Serializer as _, V2DeflateSerializer};
    use model::load::interval::Counts;
    use model::telemetry::reading::TickSource;

    use super::*;

    const GO: u64 = 1_000_000_000_000;

    /// A second of a driver that committed one transaction for each latency.
    fn second(t: u32, late_ns: u64, latencies_ns: &[u64]) -> (Interval, Vec<HistogramLine>) {
        let n = latencies_ns.len() as u64;
        let mut interval = Interval {
            t,
            start_unix_ns: GO + u64::from(t) * 1_000_000_000 + late_ns,
            length_ns: 1_000_000_000,
            counts: Counts { due: n, started: n, committed: n, ..Counts::default() },
            statements: vec![n],
            errors: BTreeMap::from([("40001".to_string(), 1)]),
            ..Interval::default()
        };
        let mut histogram = Histogram::<u64>::new(3).unwrap();
        for &ns in latencies_ns {
            interval.latency.record(ns);
            histogram.record(ns).unwrap();
        }
        let mut bytes = Vec::new();
        V2DeflateSerializer::new().serialize(&histogram, &mut bytes).unwrap();
        let max_ns = latencies_ns.iter().copied().max().unwrap_or(0);
        (interval, vec![HistogramLine { tag: "a".to_string(), max_ns, data: STANDARD.encode(bytes) }])
    }

    fn tick(cpu_s: f64) -> Tick {
        let values = [("driver.cpu.user".to_string(), cpu_s), (key("driver.thread_cpu", "0"), cpu_s)];
        Tick {
            source: TickSource::Driver,
            end_unix_ns: GO + 1_000_000_000,
            length_ns: 1_000_000_000,
            values: values.into(),
        }
    }

    #[test]
    fn a_second_is_passed_on_when_every_driver_has_reported_it() {
        let mut adder = Adder::new(vec!["x".into(), "y".into()]);
        let fast: Vec<u64> = (1..=98).map(|i| i * 1_000).collect();
        let slow = [5_000_000, 9_000_000];
        for (from, latencies) in [(0, &fast[..]), (1, &slow[..])] {
            assert!(adder.complete().is_empty());
            let (interval, histograms) = second(0, from as u64 * 50, latencies);
            adder.interval(from, interval, &histograms).unwrap();
            adder.tick(from, tick(0.25));
        }
        let lines = adder.complete();
        let [DriverLine::Interval { interval, histograms }, DriverLine::Tick(tick)] = lines.as_slice() else {
            panic!("{lines:?}");
        };
        assert_eq!(
            (interval.counts.committed, interval.latency.n, &interval.statements),
            (100, 100, &vec![100])
        );
        assert_eq!((interval.start_unix_ns, interval.length_ns), (GO, 1_000_000_050));
        assert_eq!(interval.errors["40001"], 2);
        // The 99th percentile of all transactions; the mean of both drivers' would be between the two groups.
        let sum = HistogramSum::read(&histograms[0]).unwrap();
        assert_eq!((sum.n(), histograms[0].max_ns), (100, 9_000_000));
        let p99_ns = sum.quantile_ns(0.99).unwrap();
        assert!(p99_ns.abs_diff(5_000_000) < 4_096, "{p99_ns}");
        let expected =
            [("driver.cpu.user", 0.5), ("driver.thread_cpu[x/0]", 0.25), ("driver.thread_cpu[y/0]", 0.25)];
        assert_eq!(tick.values, expected.map(|(name, value)| (name.to_string(), value)).into());
    }

    #[test]
    fn a_driver_that_has_ended_delays_nobody() {
        let mut adder = Adder::new(vec!["x".into(), "y".into()]);
        let (interval, histograms) = second(3, 0, &[1_000]);
        adder.interval(0, interval, &histograms).unwrap();
        adder.tick(0, tick(0.1));
        assert!(adder.complete().is_empty());
        adder.ended(1);
        assert_eq!(adder.complete().len(), 2);
    }

    #[test]
    fn totals_are_sums_and_extremes_and_say_how_the_load_ended() {
        let done = |ending, committed, by_client: [u64; 3]| Done {
            ending,
            end_unix_ns: committed,
            counts: Counts { committed, ..Counts::default() },
            measured_by_client: by_client.to_vec(),
            late_ns: committed,
            ..Done::default()
        };
        let (completed, stopped, lost) =
            (LoadEnding::Completed, LoadEnding::Stopped, LoadEnding::ConnectionsLost);
        let sum = total(vec![done(completed, 5, [5, 0, 0]), done(completed, 9, [0, 4, 5])]);
        assert_eq!((sum.ending, sum.counts.committed, sum.end_unix_ns, sum.late_ns), (completed, 14, 9, 9));
        assert_eq!(sum.measured_by_client, [5, 4, 5]);
        for (endings, expected) in [
            ([completed, stopped], stopped),
            ([lost, completed], completed),
            ([stopped, lost], stopped),
            ([lost, lost], lost),
        ] {
            assert_eq!(total(endings.map(|ending| done(ending, 1, [0; 3])).into()).ending, expected);
        }
    }
}
