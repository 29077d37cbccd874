//! Adds up ticks over spans of time: rates of counters, levels of gauges, and users of the processors.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ops::Range;

use model::run::RunRecord;
use model::telemetry::reading::{OVERLAPS_MAX, ReadingValue, TickSource, split_key};

use crate::run::timeline::Placed;

/// User and system time of the machine, the server and the driver.
const HOST_CPU: [&str; 2] = ["host.cpu.user", "host.cpu.system"];
const SERVER_CPU: [&str; 2] = ["server.cpu.user", "server.cpu.system"];
const DRIVER_CPU: [&str; 2] = ["driver.cpu.user", "driver.cpu.system"];
/// That of a pooler or proxy which the load goes through.
const POOLER_CPU: [&str; 2] = ["pooler.cpu.user", "pooler.cpu.system"];
/// The smallest part of a span that ticks must cover to give a rate over it.
const MIN_COVERAGE: f64 = 0.5;

/// So many ticks in a row that begin after a span are followed by no other that overlaps it: as many of each source as may overlap.
const AFTER_MAX: usize = TickSource::ALL.len() * OVERLAPS_MAX;

/// The ticks of a run, placed in time.
#[derive(Debug, Clone)]
pub(crate) struct Usage<'a> {
    /// Ticks in the order of their ends.
    ticks: Vec<Placed<'a>>,
    /// The ticks that have a metric, with or without instances, in order; of the metrics of a machine, only those of the
    /// machine in question. Rules ask for hundreds of metrics second by second.
    by_metric: HashMap<&'a str, Vec<Summed>>,
    /// Length of the longest tick.
    longest_s: f64,
    parties: Parties,
    partner: Partner<'a>,
}

/// A metric in a tick.
#[derive(Debug, Clone)]
struct Summed {
    /// Number of the tick.
    tick: usize,
    /// Where its entries are among those of the tick, with any of names that lie between them.
    entries: Range<usize>,
    /// Sum over its instances.
    sum: f64,
}

/// Who shares the processors of the machine that the host ticks describe.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Parties {
    /// The server's processes.
    pub(crate) server: bool,
    /// The driver's process.
    pub(crate) driver: bool,
    /// pgdyno itself.
    pub(crate) pgdyno: bool,
}

impl Parties {
    /// Those of the machine that a run's host ticks describe.
    pub(crate) fn from_record(record: &RunRecord) -> Parties {
        let pgdyno = record.driver_is_on_host();
        let driver = pgdyno && !record.is_driven_from_elsewhere();
        Parties { server: record.server_is_local, driver, pgdyno }
    }
}

/// Prefixes of metrics that both the server's and the driver's machine have.
const OF_MACHINE: [&str; 3] = ["host.", "disk.", "net."];

/// The other run of a duet, whose processes are neither this run's nor foreign.
#[derive(Debug, Clone)]
enum Partner<'a> {
    /// The run was alone.
    None,
    /// The run took turns with an unknown run.
    Unknown,
    /// The run took turns with a run of these ticks.
    Run(Box<Usage<'a>>),
}

/// Users of the processors during one span, in processors (CPU seconds per second).
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct CpuSplit {
    pub(crate) from_s: f64,
    pub(crate) to_s: f64,
    /// User and system time of all processors.
    pub(crate) busy: f64,
    /// Time taken by the hypervisor.
    pub(crate) steal: f64,
    /// The server's process tree; `None` if it is on another machine.
    pub(crate) server: Option<f64>,
    /// `None` if it is on another machine.
    pub(crate) driver: Option<f64>,
    /// pgdyno itself, and its eyes.
    pub(crate) pgdyno: f64,
    /// A pooler or proxy that the load goes through; `None` if there is none on this machine, or it is unknown which process it is.
    pub(crate) pooler: Option<f64>,
    /// The processes of standbys on this machine; `None` if there are none.
    pub(crate) standbys: Option<f64>,
    /// Busy minus server, driver, pooler, standbys and pgdyno, and minus those of the other side of a duet; `None` if a part is not
    /// known. May be slightly negative: the kernel counts processors and processes separately, in steps of 10 ms.
    pub(crate) foreign: Option<f64>,
}

impl<'a> Usage<'a> {
    /// The ticks of a run, in the order of their ends.
    pub(crate) fn new(ticks: Vec<Placed<'a>>, parties: Parties) -> Usage<'a> {
        Usage::of_machine(ticks, parties, TickSource::Host)
    }

    /// The machine's ticks are of [`TickSource::Host`] or of [`TickSource::DriverHost`].
    fn of_machine(ticks: Vec<Placed<'a>>, parties: Parties, machine: TickSource) -> Usage<'a> {
        let longest_s = ticks.iter().map(Placed::length_s).fold(0.0, f64::max);
        let by_metric = by_metric(&ticks, machine);
        Usage { ticks, by_metric, longest_s, parties, partner: Partner::None }
    }

    /// The machine of the driver alone, where that of the server was observed too.
    pub(crate) fn of_driver_host(&self) -> Option<Usage<'a>> {
        let of_it =
            |placed: &&Placed| matches!(placed.tick.source, TickSource::DriverHost | TickSource::Driver);
        let ticks: Vec<Placed<'a>> = self.ticks.iter().filter(of_it).copied().collect();
        if !ticks.iter().any(|placed| placed.tick.source == TickSource::DriverHost) {
            return None;
        }
        let parties = Parties { server: false, driver: true, pgdyno: true };
        let usage = Usage::of_machine(ticks, parties, TickSource::DriverHost);
        let is_observed = usage.with_metric("host.cpu.user").next().is_some();
        is_observed.then_some(usage)
    }

    /// Adds the run that took turns with this one; its ticks are placed on this one's time line.
    pub(crate) fn with_partner(self, partner: Option<Vec<Placed<'a>>>) -> Usage<'a> {
        let parties = self.parties;
        let partner = partner.map(|ticks| Partner::Run(Box::new(Usage::new(ticks, parties))));
        Usage { partner: partner.unwrap_or(Partner::Unknown), ..self }
    }

    /// The ticks with a metric, with or without instances.
    pub(crate) fn with_metric(&self, metric: &str) -> impl Iterator<Item = &Placed<'a>> {
        self.readings(metric).iter().map(|reading| &self.ticks[reading.tick])
    }

    fn readings(&self, metric: &str) -> &[Summed] {
        self.by_metric.get(metric).map_or(&[], Vec::as_slice)
    }

    /// The ticks with a metric that overlap a span, and its sums over instances.
    fn overlapping(&self, metric: &str, from_s: f64, to_s: f64) -> impl Iterator<Item = (&Placed<'a>, f64)> {
        let readings = self.readings(metric);
        let first = readings.partition_point(|reading| self.ticks[reading.tick].to_s <= from_s);
        let after = to_s + self.longest_s;
        readings[first..]
            .iter()
            .map(|reading| (&self.ticks[reading.tick], reading.sum))
            .take_while(move |(placed, _)| placed.to_s <= after)
            .scan(0, move |n_after, (placed, sum)| {
                *n_after = if placed.from_s < to_s { 0 } else { *n_after + 1 };
                (*n_after <= AFTER_MAX).then_some((placed, sum))
            })
            .filter(move |(placed, _)| placed.from_s < to_s)
    }

    /// The entries of a metric in a tick, with any of names that lie between them.
    fn entries(&self, reading: &Summed) -> &'a [ReadingValue] {
        &self.ticks[reading.tick].tick.values.entries()[reading.entries.clone()]
    }

    /// The ticks with a key.
    pub(crate) fn with_key(&self, key: &str) -> impl Iterator<Item = (&Placed<'a>, f64)> {
        self.with_metric(split_key(key).0).filter_map(move |placed| Some((placed, placed.value(key)?)))
    }

    /// The ticks with a key of which more than half lies within a span.
    pub(crate) fn within(
        &self,
        key: &str,
        from_s: f64,
        to_s: f64,
    ) -> impl Iterator<Item = (&Placed<'a>, f64)> {
        self.with_key(key).filter(move |(placed, _)| placed.share_within(from_s, to_s) > 0.5)
    }

    /// Instances of a metric in any tick, in order.
    pub(crate) fn instances(&self, metric: &str) -> Vec<String> {
        let mut instances: BTreeSet<&str> = BTreeSet::new();
        let mut before: &[ReadingValue] = &[];
        for reading in self.readings(metric) {
            let entries = self.entries(reading);
            // Ticks that follow each other usually have the same instances.
            if !entries.iter().map(|(key, _)| key).eq(before.iter().map(|(key, _)| key)) {
                let of_it = |(key, _): &'a ReadingValue| match split_key(key) {
                    (name, instance) if name == metric => instance,
                    _ => None,
                };
                instances.extend(entries.iter().filter_map(of_it));
                before = entries;
            }
        }
        let mut instances: Vec<String> = instances.into_iter().map(String::from).collect();
        // cpu2 before cpu10.
        instances.sort_by_key(|name| (name.len(), name.clone()));
        instances
    }

    /// A counter's increase per second over a span, over all instances; a tick that extends beyond an edge counts in
    /// proportion. `None` if ticks with it cover less than half of the span.
    pub(crate) fn rate(&self, metric: &str, from_s: f64, to_s: f64) -> Option<f64> {
        self.rate_of(from_s, to_s, metric, |_, sum| sum)
    }

    /// [`Usage::rate`] of one instance, of a metric whose instances have ticks in common.
    pub(crate) fn rate_of_key(&self, key: &str, from_s: f64, to_s: f64) -> Option<f64> {
        self.rate_of(from_s, to_s, split_key(key).0, |placed, _| {
            // A tick with other instances of the metric but without this one means no increase.
            placed.value(key).unwrap_or(0.0)
        })
    }

    /// A counter's increase over a span; a tick that extends beyond an edge counts in proportion. Ticks without the key do not count: where
    /// each instance has an observer, they are those of others, and say nothing of it.
    pub(crate) fn increase_of_key(&self, key: &str, from_s: f64, to_s: f64) -> f64 {
        self.with_key(key).fold(0.0, |sum, (placed, n)| sum + placed.share_within(from_s, to_s) * n)
    }

    fn rate_of(
        &self,
        from_s: f64,
        to_s: f64,
        metric: &str,
        value: impl Fn(&Placed, f64) -> f64,
    ) -> Option<f64> {
        let (mut sum, mut covered_s) = (0.0, 0.0);
        for (placed, of_instances) in self.overlapping(metric, from_s, to_s) {
            let share = placed.share_within(from_s, to_s);
            sum += share * value(placed, of_instances);
            covered_s += share * placed.length_s();
        }
        let enough = to_s > from_s && covered_s >= MIN_COVERAGE * (to_s - from_s);
        enough.then(|| sum / covered_s).filter(|rate| rate.is_finite())
    }

    /// Processes that belong to none of the parties, by name, with the processors that each used over a span, the most first. `None` of a
    /// duet, whose other side has processes of the same names.
    pub(crate) fn strangers(&self, from_s: f64, to_s: f64) -> Option<Vec<(String, f64)>> {
        const METRIC: &str = "host.process_cpu";
        if !matches!(self.partner, Partner::None) {
            return None;
        }
        // In one pass: whoever starts processes chooses their names, and there may be other ones in each tick.
        let mut used: BTreeMap<&str, f64> = BTreeMap::new();
        for reading in self.readings(METRIC) {
            let share = self.ticks[reading.tick].share_within(from_s, to_s);
            for (key, s) in self.entries(reading).iter().filter(|_| share > 0.0) {
                if let (METRIC, Some(name)) = split_key(key) {
                    *used.entry(name).or_default() += share * s;
                }
            }
        }
        // A tick in which nobody used much has no instance: it counts as one without use.
        let processors = used.into_iter().map(|(name, s)| (name.to_string(), s / (to_s - from_s)));
        let mut found: Vec<(String, f64)> =
            processors.filter(|(_, used)| *used > 0.0 && used.is_finite()).collect();
        found.sort_by(|a, b| b.1.total_cmp(&a.1));
        Some(found)
    }

    /// Transactions of the server per second, without those of pgdyno's samples.
    pub(crate) fn server_transactions(&self, from_s: f64, to_s: f64) -> Option<f64> {
        let own = self.own_queries(from_s, to_s);
        Some((self.rate("server.transactions", from_s, to_s)? - own).max(0.0))
    }

    /// Statements per second of pgdyno's samples, each a transaction.
    pub(crate) fn own_queries(&self, from_s: f64, to_s: f64) -> f64 {
        own_queries(|metric| self.rate(metric, from_s, to_s))
    }

    /// Part of a span that a source's ticks cover, 0 to 1.
    pub(crate) fn coverage(&self, source: TickSource, from_s: f64, to_s: f64) -> f64 {
        let of_source = self.ticks.iter().filter(|placed| placed.tick.source == source);
        let covered_s =
            of_source.map(|p| p.share_within(from_s, to_s) * p.length_s()).fold(0.0, |sum, s| sum + s);
        if to_s > from_s { (covered_s / (to_s - from_s)).clamp(0.0, 1.0) } else { 0.0 }
    }

    /// Users of the processors, for each tick of the host.
    pub(crate) fn cpu_by_tick(&self) -> Vec<CpuSplit> {
        let spans: Vec<(f64, f64)> =
            self.with_metric("host.cpu.user").map(|placed| (placed.from_s, placed.to_s)).collect();
        spans.into_iter().filter_map(|(from_s, to_s)| self.cpu(from_s, to_s)).collect()
    }

    /// User and system time of one party over a span, in processors.
    fn time_of(&self, [user, system]: [&str; 2], from_s: f64, to_s: f64) -> Option<f64> {
        Some(self.rate(user, from_s, to_s)? + self.rate(system, from_s, to_s)?)
    }

    /// Processor usage of server and driver.
    fn parts(&self, from_s: f64, to_s: f64) -> (Option<f64>, Option<f64>) {
        let driver = self.parties.driver.then(|| self.time_of(DRIVER_CPU, from_s, to_s));
        (self.time_of(SERVER_CPU, from_s, to_s), driver.flatten())
    }

    /// What server and driver used of this machine; `None` if a part is not known.
    fn own(&self, parts: (Option<f64>, Option<f64>)) -> Option<f64> {
        match parts {
            (Some(server), Some(driver)) => Some(server + driver),
            (Some(server), None) if !self.parties.driver => Some(server),
            (None, Some(driver)) if !self.parties.server => Some(driver),
            _ => None,
        }
    }

    /// Processors that the processes of standbys used; those that send them WAL are of the server.
    fn standbys(&self, from_s: f64, to_s: f64) -> Option<f64> {
        self.rate_of(from_s, to_s, "standby.cpu", |placed, _| {
            let values = placed.tick.values.starting_with("standby.cpu[").iter();
            values.filter(|(key, _)| !key.ends_with("/walsender]")).fold(0.0, |sum, (_, s)| sum + s)
        })
    }

    /// Users of the processors over a span; `None` if the host was not observed.
    pub(crate) fn cpu(&self, from_s: f64, to_s: f64) -> Option<CpuSplit> {
        let busy = self.time_of(HOST_CPU, from_s, to_s)?;
        let (server, driver) = self.parts(from_s, to_s);
        let used = |metric: &str| self.rate(metric, from_s, to_s).unwrap_or(0.0);
        let pgdyno = if self.parties.pgdyno { used("pgdyno.cpu") } else { 0.0 } + used("watch.cpu");
        let partners = match &self.partner {
            Partner::None => Some(0.0),
            Partner::Unknown => None,
            Partner::Run(partner) => partner.own(partner.parts(from_s, to_s)),
        };
        let own = self.own((server, driver));
        let pooler = self.time_of(POOLER_CPU, from_s, to_s);
        let standbys = self.standbys(from_s, to_s);
        let others = pgdyno + pooler.unwrap_or(0.0) + standbys.unwrap_or(0.0);
        let foreign = own.zip(partners).map(|(own, partners)| busy - own - partners - others);
        let steal = self.rate("host.cpu.steal", from_s, to_s).unwrap_or(0.0);
        Some(CpuSplit { from_s, to_s, busy, steal, server, driver, pgdyno, pooler, standbys, foreign })
    }

    /// The largest value of `figure` over any `length_s` seconds of consecutive host ticks within a
    /// span, with the time at which those seconds begin.
    pub(crate) fn worst_stretch(
        &self,
        span: (f64, f64),
        length_s: f64,
        figure: impl Fn(&CpuSplit) -> Option<f64>,
    ) -> Option<(f64, f64)> {
        let starts: Vec<f64> = self.with_metric("host.cpu.user").map(|placed| placed.from_s).collect();
        let within =
            starts.into_iter().filter(|from_s| *from_s >= span.0 - 0.5 && from_s + length_s <= span.1 + 0.5);
        let figures = within.filter_map(|from_s| {
            let split = self.cpu(from_s, from_s + length_s)?;
            Some((figure(&split)?, from_s))
        });
        figures.max_by(|a, b| a.0.total_cmp(&b.0))
    }
}

/// Statements of pgdyno's samples of waits and of the primary's position, by a rate of metrics.
pub(crate) fn own_queries(rate: impl Fn(&str) -> Option<f64>) -> f64 {
    let own = ["waits.queries", "standby.queries"].map(|metric| rate(metric).unwrap_or(0.0));
    own.iter().sum()
}

/// The index of [`Usage::by_metric`].
fn by_metric<'a>(ticks: &[Placed<'a>], machine: TickSource) -> HashMap<&'a str, Vec<Summed>> {
    let mut index: HashMap<&str, Vec<Summed>> = HashMap::new();
    for (number, placed) in ticks.iter().enumerate() {
        let is_of_other = placed.tick.source != machine;
        let bounded = |(at, (key, value)): (usize, &'a ReadingValue)| {
            let metric = split_key(key).0;
            (at, metric, placed.bounded(metric, *value))
        };
        let mut values = placed.tick.values.entries().iter().enumerate().map(bounded).peekable();
        while let Some((at, metric, first)) = values.next() {
            let (mut sum, mut end) = (0.0 + first, at + 1);
            // Instances of a metric follow each other, but for names that begin with it and go on with a sign before `[`.
            while let Some((at, _, value)) = values.next_if(|(_, other, _)| *other == metric) {
                (sum, end) = (sum + value, at + 1);
            }
            if is_of_other && OF_MACHINE.iter().any(|prefix| metric.starts_with(prefix)) {
                continue;
            }
            let readings = index.entry(metric).or_default();
            match readings.last_mut() {
                Some(last) if last.tick == number => (last.sum, last.entries.end) = (last.sum + sum, end),
                _ => readings.push(Summed { tick: number, entries: at..end, sum }),
            }
        }
    }
    index
}

/// Sum of a metric's value over its instances. (`Iterator::sum` of nothing would be -0.0.)
pub(crate) fn sum_of(placed: &Placed, metric: &str) -> f64 {
    // `host.cpu.user-x` would lie between `host.cpu.user` and `host.cpu.user[…]`.
    let begins = placed.tick.values.starting_with(metric).iter();
    let of_it = begins.filter(|(key, _)| split_key(key).0 == metric);
    of_it.fold(0.0, |sum, (_, value)| sum + placed.bounded(metric, *value))
}

#[cfg(test)]
mod tests {
    use model::telemetry::reading::Tick;

    use super::*;

    #[test]
    fn no_rate_of_time_is_above_that_of_its_instances() {
        let values = [("disk.busy_time[vda]", 6.7), ("disk.busy_time[vdb]", 0.01), ("host.psi.io.some", 6.7)];
        let values = values.map(|(key, value)| (key.to_string(), value)).into();
        let tick = Tick { source: TickSource::Host, end_unix_ns: 0, length_ns: 20_000_000, values };
        let placed = Placed { from_s: 0.0, to_s: 0.02, tick: &tick };
        let usage = Usage::new(vec![placed], Parties { server: true, driver: true, pgdyno: true });
        assert_eq!(usage.rate("disk.busy_time", 0.0, 0.02), Some((0.02 + 0.01) / 0.02));
        assert_eq!(usage.rate_of_key("disk.busy_time[vda]", 0.0, 0.02), Some(1.0));
        assert_eq!(usage.rate("host.psi.io.some", 0.0, 0.02), Some(1.0));
        assert_eq!(sum_of(&placed, "disk.busy_time"), 0.02 + 0.01);
    }
}
