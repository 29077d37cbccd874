//! Telemetry as series for charts, one value per tick, on the time line of the run.
//!
//! A counter's point is in the middle of its tick, over which it is a mean; a gauge's point is at the end, when it was
//! read.

mod sessions;
mod standbys;

pub(crate) use sessions::{KINDS, kind};
pub use standbys::STANDBY_PANEL;

use std::collections::BTreeMap;

use model::run::RunData;
use model::telemetry::reading::{key, split_key};

use crate::run::imports;
use crate::run::limiter::utilisation;
use crate::run::resources;
use crate::run::timeline::{Placed, Timeline};
use crate::run::usage::{CpuSplit, Usage, sum_of};
use crate::summary::TelemetrySeries;

/// Bytes to MiB: reports have sizes in one family of units.
const MIB: f64 = 1.0 / (1 << 20) as f64;
/// What is drawn of every disk: name, metric, unit, and factor from the metric's rate to it.
const DISK_RATES: [(&str, &str, &str, f64); 6] = [
    ("read", "read_bytes", "MiB/s", MIB),
    ("written", "write_bytes", "MiB/s", MIB),
    ("reads", "reads", "IOPS", 1.0),
    ("writes", "writes", "IOPS", 1.0),
    ("flushes", "flushes", "IOPS", 1.0),
    ("busy", "busy_time", "%", 100.0),
];

/// Disks of one machine: the panel that draws them, and what their metrics begin with.
struct DiskPanel {
    panel: &'static str,
    prefix: &'static str,
}

const OWN_DISKS: DiskPanel = DiskPanel { panel: "disk", prefix: "disk." };
const REMOTE_DISKS: DiskPanel = DiskPanel { panel: "remote_disk", prefix: "remote.disk." };

/// Telemetry this long before `go` and after the load is still drawn, seconds.
const MARGIN_S: f64 = 2.0;
/// How many wait events are drawn, the most frequent first.
const N_WAIT_EVENTS: usize = 5;

/// How many network interfaces are drawn, the busiest first.
const N_INTERFACES: usize = 4;

type Points = Vec<(f64, f64)>;

/// All series of a run; empty ones are left out.
pub(crate) fn series(
    data: &RunData,
    line: &Timeline,
    usage: &Usage,
    driver_usage: Option<&Usage>,
) -> Vec<TelemetrySeries> {
    let (from_s, to_s) = (-MARGIN_S, line.end_s + MARGIN_S);
    let draw = Draw { usage, from_s, to_s };
    let mut all = draw.processors(resources::n_cpus(data.record.host.as_ref(), usage));
    all.extend(draw.cores());
    all.extend(draw.disks(data));
    all.push(one("wal", "WAL written", "MiB/s", draw.rate("server.wal_bytes", MIB)));
    let images = draw.rate("server.wal_full_page_images", 1.0);
    all.push(one("wal_images", "full-page images", "per s", images));
    all.push(one("wal_directory", "WAL kept", "MiB", draw.level("server.wal_directory_bytes", MIB)));
    all.extend(draw.archiver());
    all.extend(standbys::series(&draw));
    all.extend(draw.memory());
    all.extend(draw.frequency());
    all.extend(draw.counters());
    all.extend(draw.networks("net", "net."));
    all.extend(draw.ceilings(line.measured_span(), data));
    all.extend(draw.sessions());
    all.extend(draw.pooler());
    all.extend(draw.server());
    all.extend(draw.pressure());
    all.extend(draw.driver());
    all.extend(draw.exporter());
    if let Some(usage) = driver_usage {
        let n_cpus = resources::n_cpus(data.record.driver_host.as_ref(), usage);
        all.extend(Draw { usage, from_s, to_s }.driver_host(n_cpus));
    }
    all.extend(imports::series(data, line, from_s, to_s));
    all.retain(|series| !series.points.is_empty());
    all
}

fn one(panel: &str, name: &str, unit: &str, points: Points) -> TelemetrySeries {
    let points = points.into_iter().filter(|(_, value)| value.is_finite()).collect();
    TelemetrySeries { panel: panel.to_string(), name: name.to_string(), unit: unit.to_string(), points }
}

/// Ticks, and the part of the time line to draw.
struct Draw<'a, 'b> {
    usage: &'a Usage<'b>,
    from_s: f64,
    to_s: f64,
}

impl Draw<'_, '_> {
    fn shows(&self, from_s: f64, to_s: f64) -> bool {
        from_s >= self.from_s && to_s <= self.to_s
    }

    /// A value for each tick with a metric.
    fn each(&self, metric: &str, value: impl Fn(&Placed) -> Option<f64>) -> Points {
        let shown = self.usage.with_metric(metric).filter(|placed| self.shows(placed.from_s, placed.to_s));
        shown
            .filter_map(|placed| Some((millis(middle(placed.from_s, placed.to_s)), value(placed)?)))
            .collect()
    }

    /// A level read at the end of each tick with a metric.
    fn read(&self, metric: &str, level: impl Fn(&Placed) -> f64) -> Points {
        let shown = self.usage.with_metric(metric).filter(|placed| self.shows(placed.from_s, placed.to_s));
        shown.map(|placed| (millis(placed.to_s), level(placed))).collect()
    }

    /// A counter's increase per second times a factor, summed over instances.
    fn rate(&self, metric: &str, factor: f64) -> Points {
        self.each(metric, |placed| Some(factor * sum_of(placed, metric) / placed.length_s()))
    }

    /// [`Draw::rate`] of one key.
    fn rate_of_key(&self, key: &str, factor: f64) -> Points {
        self.each(split_key(key).0, |placed| Some(factor * placed.value(key)? / placed.length_s()))
    }

    /// A gauge's values times a factor.
    fn level(&self, key: &str, factor: f64) -> Points {
        let shown = self.usage.with_key(key).filter(|(placed, _)| self.shows(placed.from_s, placed.to_s));
        shown.map(|(placed, value)| (millis(placed.to_s), factor * value)).collect()
    }

    /// Users of the processors, in percent of all of them; to be stacked.
    fn processors(&self, n_cpus: Option<u32>) -> Vec<TelemetrySeries> {
        let Some(n_cpus) = n_cpus else { return Vec::new() };
        let mut splits = self.usage.cpu_by_tick();
        splits.retain(|split| self.shows(split.from_s, split.to_s));
        let part = |name: &str, value: &dyn Fn(&CpuSplit) -> Option<f64>| {
            let percent = |split| Some(value(split)?.max(0.0) * 100.0 / f64::from(n_cpus));
            let points = splits
                .iter()
                .filter_map(|split| Some((millis(middle(split.from_s, split.to_s)), percent(split)?)));
            one("cpu", name, "%", points.collect())
        };
        vec![
            part("server", &|split| split.server),
            part("driver", &|split| split.driver),
            part("pgdyno", &|split| Some(split.pgdyno)),
            part("pooler", &|split| split.pooler),
            part("standbys", &|split| split.standbys),
            part("foreign", &|split| split.foreign),
            part("steal", &|split| Some(split.steal)),
        ]
    }

    /// The queue of our own pooler: clients that wait, connections in use, and how long a transaction waits.
    fn pooler(&self) -> Vec<TelemetrySeries> {
        let level = |name: &str, metric: &str, state: &str| {
            one("pooler", name, "1", self.level(&key(metric, state), 1.0))
        };
        let wait_ms = self.each("pooler.wait", |placed| {
            let n = placed.value("pooler.transactions").filter(|n| *n > 0.0)?;
            Some(1e3 * placed.value("pooler.wait")? / n)
        });
        vec![
            level("clients waiting", "pooler.clients", "waiting"),
            level("clients served", "pooler.clients", "active"),
            level("connections in use", "pooler.servers", "active"),
            level("connections idle", "pooler.servers", "idle"),
            one("pooler", "wait of a transaction", "ms", wait_ms),
        ]
    }

    /// How busy each processor was, in percent.
    fn cores(&self) -> Vec<TelemetrySeries> {
        let cpus = self.usage.instances("host.cpu.user");
        let of_cpu = |cpu: &String| {
            let (user, system) = (key("host.cpu.user", cpu), key("host.cpu.system", cpu));
            let points = self.each("host.cpu.user", |placed| {
                let values = &placed.tick.values;
                let busy_s = values.get(&user)? + values.get(&system).unwrap_or(0.0);
                Some((100.0 * busy_s / placed.length_s()).min(100.0))
            });
            one("cpu", cpu, "%", points)
        };
        cpus.iter().map(of_cpu).collect()
    }

    /// The devices below the server's directories, or all devices if those are not known.
    fn disks(&self, data: &RunData) -> Vec<TelemetrySeries> {
        devices(data, self.usage).into_iter().flat_map(|(device, label)| self.disk(&device, &label)).collect()
    }

    fn disk(&self, device: &str, label: &str) -> Vec<TelemetrySeries> {
        let mean_ms = |name: &str, time: &str, count: &str| {
            let (time, count) = (key(time, device), key(count, device));
            let points = self.each("disk.reads", |placed| {
                let n = placed.tick.values.get(&count)?;
                (n > 0.0).then_some(1e3 * placed.tick.values.get(&time)? / n)
            });
            one("disk", &format!("{label} {name}"), "ms", points)
        };
        let mut all = self.disk_rates(&OWN_DISKS, device, label);
        all.extend([
            mean_ms("read latency", "disk.read_time", "disk.reads"),
            mean_ms("write latency", "disk.write_time", "disk.writes"),
            mean_ms("flush latency", "disk.flush_time", "disk.flushes"),
        ]);
        all
    }

    /// The rates of one of these disks.
    fn disk_rates(&self, disks: &DiskPanel, device: &str, label: &str) -> Vec<TelemetrySeries> {
        let DiskPanel { panel, prefix } = disks;
        let rate = |&(name, metric, unit, factor): &(&str, &str, &str, f64)| {
            let points = self.rate_of_key(&key(&format!("{prefix}{metric}"), device), factor);
            one(panel, &format!("{label} {name}"), unit, points)
        };
        DISK_RATES.iter().map(rate).collect()
    }

    fn memory(&self) -> Vec<TelemetrySeries> {
        let level = |name: &str, key: &str| one("memory", name, "MiB", self.level(key, MIB));
        vec![
            level("available", "host.memory.available"),
            level("page cache", "host.memory.cached"),
            level("dirty", "host.memory.dirty"),
            level("writeback", "host.memory.writeback"),
        ]
    }

    /// Segments of WAL archived, failed attempts, and segments that wait; nothing where there were none.
    fn archiver(&self) -> Vec<TelemetrySeries> {
        let rate = |name: &str, metric: &str| one("archiver", name, "per second", self.rate(metric, 1.0));
        let mut all = vec![
            rate("archived", "server.archived"),
            rate("failed attempts", "server.archive_failures"),
            one("archiver", "waiting", "segments", self.level("archive.ready", 1.0)),
        ];
        if all.iter().all(|series| series.points.iter().all(|(_, n)| *n == 0.0)) {
            all.clear();
        }
        all
    }

    /// The slowest and the fastest processor at each moment.
    fn frequency(&self) -> Vec<TelemetrySeries> {
        let extreme = |name: &str, pick: fn(f64, f64) -> f64| {
            let points = self.each("host.cpu.frequency", |placed| {
                let of_cpus = placed.tick.values.starting_with("host.cpu.frequency[").iter();
                of_cpus.map(|(_, hz)| 1e-6 * hz).reduce(pick)
            });
            one("frequency", name, "MHz", points)
        };
        vec![extreme("slowest", f64::min), extreme("fastest", f64::max)]
    }

    /// Instructions per cycle of the server's processes, and the bytes between each last-level cache and memory.
    fn counters(&self) -> Vec<TelemetrySeries> {
        let ipc = self.each("counters.instructions", |placed| {
            let cycles = sum_of(placed, "counters.cycles");
            (cycles > 0.0).then(|| sum_of(placed, "counters.instructions") / cycles)
        });
        let domains = self.usage.instances("counters.memory_bytes");
        let bandwidth = domains.iter().map(|domain| {
            let points = self.rate_of_key(&key("counters.memory_bytes", domain), MIB);
            one("memory_bandwidth", domain, "MiB/s", points)
        });
        [one("ipc", "server", "per cycle", ipc)].into_iter().chain(bandwidth).collect()
    }

    /// What each interface received and sent, the busiest ones.
    fn networks(&self, panel: &str, prefix: &str) -> Vec<TelemetrySeries> {
        let metrics = ["received", "sent"].map(|what| (what, format!("{prefix}{what}_bytes")));
        let total = |interface: &str| {
            let of_key = |(_, metric): &(&str, String)| {
                self.usage.with_key(&key(metric, interface)).map(|(_, bytes)| bytes).fold(0.0, |a, b| a + b)
            };
            metrics.iter().map(of_key).fold(0.0, |a, b| a + b)
        };
        let mut interfaces: Vec<(String, f64)> = self
            .usage
            .instances(&metrics[0].1)
            .into_iter()
            .map(|name| (name.clone(), total(&name)))
            .collect();
        interfaces.retain(|(_, bytes)| *bytes > 0.0);
        interfaces.sort_by(|a, b| b.1.total_cmp(&a.1));
        let busiest = interfaces.iter().take(N_INTERFACES).flat_map(|(interface, _)| {
            metrics.iter().map(move |(what, metric)| {
                let points = self.rate_of_key(&key(metric, interface), MIB);
                one(panel, &format!("{interface} {what}"), "MiB/s", points)
            })
        });
        busiest.collect()
    }

    /// The machine of a target, as its exporter reports it.
    fn exporter(&self) -> Vec<TelemetrySeries> {
        let n_cpus = self.usage.instances("remote.cpu.idle").len().max(1) as f64;
        let share =
            |name: &str, metric: &str| one("remote_cpu", name, "%", self.rate(metric, 100.0 / n_cpus));
        let mut all = vec![
            share("user", "remote.cpu.user"),
            share("system", "remote.cpu.system"),
            share("I/O wait", "remote.cpu.iowait"),
            share("steal", "remote.cpu.steal"),
        ];
        for device in self.usage.instances("remote.disk.reads") {
            let of_device = self.disk_rates(&REMOTE_DISKS, &device, &device);
            // An idle disk is not one of the database.
            let is_used = of_device.iter().any(|series| series.points.iter().any(|(_, value)| *value > 0.0));
            all.extend(of_device.into_iter().filter(|_| is_used));
        }
        all.extend(self.networks("remote_net", "remote.net."));
        all.push(one("remote_memory", "available", "MiB", self.level("remote.memory.available", MIB)));
        all
    }

    /// Users of the processors and networks of the driver's machine, where it is another one than the server's.
    fn driver_host(&self, n_cpus: Option<u32>) -> Vec<TelemetrySeries> {
        let mut all = self.processors(n_cpus);
        all.iter_mut().for_each(|series| series.panel = "driver_host_cpu".to_string());
        all.extend(self.networks("driver_host_net", "net."));
        all
    }

    /// The part of its ceiling that each resource used, in percent.
    fn ceilings(&self, span: Option<(f64, f64)>, data: &RunData) -> Vec<TelemetrySeries> {
        let Some(span) = span else { return Vec::new() };
        let of_resource = |used: utilisation::UtilisationSeries| {
            let shown = used.points.into_iter().filter(|(placed, _)| self.shows(placed.0, placed.1));
            let points = shown.map(|((from_s, to_s), share)| (millis(middle(from_s, to_s)), 100.0 * share));
            one("ceilings", &used.name, "%", points.collect())
        };
        utilisation::courses(self.usage, span, &data.record).into_iter().map(of_resource).collect()
    }

    /// Sessions that are not idle by what they do; to be stacked. Kinds that no session was of are left out.
    fn sessions(&self) -> Vec<TelemetrySeries> {
        let of_kind = |(place, kind): (usize, &&str)| {
            let points = self.each("waits.samples", |placed| Some(sessions::by_kind(placed)?[place]));
            one("sessions", kind, "sessions", points)
        };
        let mut all: Vec<TelemetrySeries> = sessions::KINDS.iter().enumerate().map(of_kind).collect();
        all.retain(|series| series.points.iter().any(|(_, n)| *n > 0.0));
        all
    }

    /// Sessions by state, and the most frequent wait events.
    fn server(&self) -> Vec<TelemetrySeries> {
        let active = self.level(&key("server.connections", "active"), 1.0);
        let waiting = self.read("server.connections", |placed| sum_of(placed, "server.waiting"));
        let mut all = vec![
            one("server", "active", "sessions", active),
            one("server", "on CPU", "sessions", self.level("server.on_cpu", 1.0)),
            one("server", "waiting", "sessions", waiting),
        ];
        all.extend(self.top_wait_events().into_iter().map(|event| {
            let key = key("server.waiting", &event);
            let points =
                self.read("server.connections", |placed| placed.tick.values.get(&key).unwrap_or(0.0));
            one("waits", &event, "sessions", points)
        }));
        all
    }

    fn top_wait_events(&self) -> Vec<String> {
        let mut sums: BTreeMap<&str, f64> = BTreeMap::new();
        for placed in self.usage.with_metric("server.waiting") {
            if !self.shows(placed.from_s, placed.to_s) {
                continue;
            }
            for (key, value) in placed.tick.values.starting_with("server.waiting[") {
                if let (_, Some(event)) = split_key(key) {
                    *sums.entry(event).or_default() += value;
                }
            }
        }
        let mut events: Vec<(&str, f64)> = sums.into_iter().collect();
        events.sort_by(|a, b| b.1.total_cmp(&a.1));
        events.into_iter().take(N_WAIT_EVENTS).map(|(event, _)| event.to_string()).collect()
    }

    /// Transactions in the driver; a backlog only if there is one.
    fn driver(&self) -> Vec<TelemetrySeries> {
        let level = |name: &str, key: &str| one("driver", name, "transactions", self.level(key, 1.0));
        let mut backlog = level("due, not started", "driver.backlog");
        if backlog.points.iter().all(|(_, n)| *n == 0.0) {
            backlog.points.clear();
        }
        vec![level("in flight", "driver.in_flight"), backlog]
    }

    fn pressure(&self) -> Vec<TelemetrySeries> {
        let share = |name: &str, metric: &str| one("psi", name, "%", self.rate(metric, 100.0));
        vec![
            share("cpu, some", "host.psi.cpu.some"),
            share("I/O, some", "host.psi.io.some"),
            share("I/O, all", "host.psi.io.full"),
            share("memory, some", "host.psi.memory.some"),
        ]
    }
}

/// Devices with the label of their roles: `data`, `data+wal`; if no role is known, every device by its name.
fn devices(data: &RunData, usage: &Usage) -> Vec<(String, String)> {
    let seen = usage.instances("disk.reads");
    let mut roles: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for role in ["data", "wal"] {
        if let Some(device) = resources::device(data, role) {
            roles.entry(device).or_default().push(role);
        }
    }
    let known: Vec<(String, String)> = seen
        .iter()
        .filter_map(|device| Some((device.clone(), roles.get(device.as_str())?.join("+"))))
        .collect();
    if known.is_empty() { seen.into_iter().map(|device| (device.clone(), device)).collect() } else { known }
}

fn middle(from_s: f64, to_s: f64) -> f64 {
    0.5 * (from_s + to_s)
}

/// A time rounded to milliseconds: a chart shows no more, and the report stays small.
fn millis(t_s: f64) -> f64 {
    (t_s * 1e3).round() / 1e3
}
