//! How much of its ceiling a run used of each device and of the network. Ceilings are measured by `pgdyno calibrate`, or
//! declared in `[limits]`; of both, the lower one counts.

use model::run::RunRecord;
use model::run::ceilings::Calibration;
use model::telemetry::reading::{key, split_key};
use model::text::prose::{grouped, significant};

use crate::run::timeline::Placed;
use crate::run::usage::Usage;
use crate::summary::limiter::Bottleneck;

/// More than this part of a measured ceiling shows that it is none: it was measured on another amount of data, or a
/// cache in between answered.
const CREDIBLE_MAX: f64 = 1.25;
/// Part of the seconds that a flat top needs, and how near they are to the 95th percentile.
const FLAT_SHARE: f64 = 0.6;
const FLAT_WITHIN: f64 = 0.03;
/// Seconds without which nothing is called flat.
const FLAT_SECONDS_MIN: usize = 5;

/// One resource, and how much of it was used.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ResourceUse {
    /// The limiter that it would be.
    pub(crate) name: Bottleneck,
    /// What was counted: `WAL flushes`.
    what: &'static str,
    unit: Unit,
    used: f64,
    measured: Option<f64>,
    declared: Option<f64>,
    /// Whether most seconds are as high as the highest ones.
    pub(crate) is_flat: bool,
}

/// How values are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Unit {
    PerSecond,
    Bytes,
}

impl ResourceUse {
    /// The used part of the lower of both ceilings; `None` if there is none to believe.
    pub(crate) fn share(&self) -> Option<f64> {
        self.ceiling().map(|(ceiling, _)| self.used / ceiling)
    }

    /// The lower of both ceilings, and how it is known; `None` if there is none to believe.
    fn ceiling(&self) -> Option<(f64, &'static str)> {
        let measured = self.measured.filter(|ceiling| self.used <= CREDIBLE_MAX * ceiling);
        let both = [(measured, "measured"), (self.declared, "declared")];
        let known = both.into_iter().filter_map(|(ceiling, how)| Some((ceiling?, how)));
        known.filter(|(ceiling, _)| *ceiling > 0.0).min_by(|a, b| a.0.total_cmp(&b.0))
    }

    /// `WAL flushes 3,870/s of 3,900/s measured`.
    pub(crate) fn words(&self) -> String {
        let value = |x: f64| self.unit.words(x);
        let ceiling = |x: Option<f64>, how: &str| x.map(|x| format!("{} {how}", value(x)));
        let ceilings = [ceiling(self.declared, "declared"), ceiling(self.measured, "measured")];
        let ceilings: Vec<String> = ceilings.into_iter().flatten().collect();
        let flat = if self.is_flat { ", in most seconds the same" } else { "" };
        format!("{} {} of {}{flat}", self.what, value(self.used), ceilings.join(", "))
    }
}

impl Unit {
    fn words(self, x: f64) -> String {
        match self {
            Unit::PerSecond => format!("{}/s", grouped(&format!("{x:.0}"))),
            Unit::Bytes => format!("{} MB/s", significant(x / 1e6)),
        }
    }
}

/// How much of its ceiling a resource used over time.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct UtilisationSeries {
    /// The resource and its ceiling: `WAL flushes (of 3,900/s measured)`.
    pub(crate) name: String,
    /// Start and end of each tick, and the used part.
    pub(crate) points: Vec<((f64, f64), f64)>,
}

/// A resource before its use is looked up.
#[derive(Clone)]
struct Resource {
    name: Bottleneck,
    what: &'static str,
    unit: Unit,
    keys: Vec<String>,
    measured: Option<f64>,
    declared: Option<f64>,
}

/// The use of each resource with a ceiling over a span.
pub(crate) fn resource_uses(usage: &Usage, span: (f64, f64), record: &RunRecord) -> Vec<ResourceUse> {
    resources(usage, record).iter().filter_map(|resource| used(usage, span, resource)).collect()
}

/// The use of each resource over the whole load; the ceiling to believe is that of a span.
pub(crate) fn courses(usage: &Usage, span: (f64, f64), record: &RunRecord) -> Vec<UtilisationSeries> {
    resources(usage, record).iter().filter_map(|resource| course(usage, span, resource)).collect()
}

fn course(usage: &Usage, span: (f64, f64), resource: &Resource) -> Option<UtilisationSeries> {
    let used = used(usage, span, resource)?;
    let (ceiling, name) = match (used.ceiling(), used.measured) {
        (Some((ceiling, how)), _) => {
            (ceiling, format!("{} (of {} {how})", resource.what, resource.unit.words(ceiling)))
        }
        // It is drawn all the same, above the line: silence would look like a resource that nobody has measured.
        (None, Some(measured)) if measured > 0.0 => {
            let value = resource.unit.words(measured);
            (measured, format!("{} (more than the {value} measured, so that is no ceiling)", resource.what))
        }
        (None, _) => return None,
    };
    let points =
        rates(usage, &resource.keys).map(|(placed, rate)| ((placed.from_s, placed.to_s), rate / ceiling));
    Some(UtilisationSeries { name, points: points.collect() })
}

fn resources(usage: &Usage, record: &RunRecord) -> Vec<Resource> {
    [wal(usage, record), devices(record), network(usage, record)].concat()
}

fn used(usage: &Usage, span: (f64, f64), resource: &Resource) -> Option<ResourceUse> {
    let Resource { name, what, unit, ref keys, measured, declared } = *resource;
    if keys.is_empty() || (measured.is_none() && declared.is_none()) {
        return None;
    }
    let of_key = |key: &String| usage.rate_of_key(key, span.0, span.1);
    let used = keys.iter().map(of_key).sum::<Option<f64>>()?;
    let is_within = |placed: &Placed| placed.share_within(span.0, span.1) > 0.5;
    let within = rates(usage, keys).filter(|(placed, _)| is_within(placed));
    let is_flat = is_flat(&within.map(|(_, rate)| rate).collect::<Vec<f64>>());
    Some(ResourceUse { name, what, unit, used, measured, declared, is_flat })
}

/// Sums of counters for each tick, per second.
fn rates<'a>(usage: &'a Usage, keys: &'a [String]) -> impl Iterator<Item = (&'a Placed<'a>, f64)> {
    let metric = keys.first().map_or("", |key| split_key(key).0);
    let of_tick = |placed: &'a Placed| {
        let values = keys.iter().filter_map(|key| placed.value(key));
        (placed, values.fold(0.0, |sum, value| sum + value) / placed.length_s())
    };
    usage.with_metric(metric).filter(|placed| placed.length_s() > 0.0).map(of_tick)
}

/// Whether most seconds are within 3 % of the 95th percentile: a device that has more to give varies with its load.
fn is_flat(seconds: &[f64]) -> bool {
    if seconds.len() < FLAT_SECONDS_MIN {
        return false;
    }
    let mut sorted = seconds.to_vec();
    sorted.sort_by(f64::total_cmp);
    let top = sorted[(sorted.len() * 95).div_ceil(100) - 1];
    let near = seconds.iter().filter(|rate| (**rate - top).abs() <= FLAT_WITHIN * top).count();
    top > 0.0 && near as f64 >= FLAT_SHARE * seconds.len() as f64
}

/// WAL: flushes, and bytes. A method that opens the file for synchronous writes has no flushes of its own.
fn wal(usage: &Usage, record: &RunRecord) -> Vec<Resource> {
    let ceilings = &record.ceilings;
    let made = ceilings.measured.get("wal");
    let setting = record.server.as_ref().and_then(|server| server.settings.get("wal_sync_method"));
    let method = setting.map(|setting| setting.value.as_str());
    let is_by_opening = method.is_some_and(|method| method.starts_with("open_"));
    let (old, new) = if is_by_opening {
        ("server.wal_writes", "server.io.writes")
    } else {
        ("server.wal_syncs", "server.io.fsyncs")
    };
    // Since 18 they are in pg_stat_io, by process and context; segments that are created do not count.
    let is_wal = |instance: &String| instance.contains(":wal:") && !instance.ends_with(":init");
    let of_io: Vec<String> = usage
        .instances(new)
        .iter()
        .filter(|instance| is_wal(instance))
        .map(|instance| key(new, instance))
        .collect();
    let keys = if of_io.is_empty() { vec![old.to_string()] } else { of_io };
    let measured = method.and_then(|method| made?.value(&key("sync_rate", method)));
    let flushes = Resource {
        name: Bottleneck::WalSync,
        what: "WAL flushes",
        unit: Unit::PerSecond,
        keys,
        measured,
        declared: None,
    };
    let bytes = Resource {
        name: Bottleneck::WalVolume,
        what: "WAL",
        unit: Unit::Bytes,
        keys: vec!["server.wal_bytes".to_string()],
        measured: made.and_then(|made| made.value("write_throughput")),
        declared: ceilings.declared.wal_mb_s.map(|mb| mb * 1e6),
    };
    vec![flushes, bytes]
}

/// The devices of data and WAL. What a provider sells counts reads and writes together.
fn devices(record: &RunRecord) -> Vec<Resource> {
    let Some(host) = record.server_host().or(record.host.as_ref().filter(|_| record.eyes.is_some())) else {
        return Vec::new();
    };
    let device = |role: &str| Some(host.mounts.get(role)?.device.clone()).filter(|device| !device.is_empty());
    let declared = record.ceilings.declared;
    let mut all = Vec::new();
    let counters = |device: &str, names: &[&str]| names.iter().map(|name| key(name, device)).collect();
    if let Some(device) = device("data") {
        let made = record.ceilings.measured.get("data");
        let most = |name: &str| made.and_then(|made: &Calibration| made.most(name));
        let mut put = |name, what, unit, keys: &[&str], measured, declared| {
            all.push(Resource { name, what, unit, keys: counters(&device, keys), measured, declared });
        };
        let (reads, writes) = (Bottleneck::DataRead, Bottleneck::DataWrite);
        put(reads, "reads of the data device", Unit::PerSecond, &["disk.reads"], most("read_rate"), None);
        put(writes, "writes of the data device", Unit::PerSecond, &["disk.writes"], most("write_rate"), None);
        put(
            reads,
            "reads of the data device",
            Unit::Bytes,
            &["disk.read_bytes"],
            most("read_throughput"),
            None,
        );
        put(
            writes,
            "writes of the data device",
            Unit::Bytes,
            &["disk.write_bytes"],
            most("write_throughput"),
            None,
        );
        let both = ["disk.reads", "disk.writes"];
        put(reads, "I/O of the data device", Unit::PerSecond, &both, None, declared.data_iops);
        let both = ["disk.read_bytes", "disk.write_bytes"];
        let bytes = declared.data_mb_s.map(|mb| mb * 1e6);
        put(reads, "I/O of the data device", Unit::Bytes, &both, None, bytes);
    }
    // On a device of its own, whatever is written is WAL: its bytes count in whole pages, with segments that are created.
    if let Some(device) = device("wal").filter(|wal| Some(wal) != device("data").as_ref()) {
        all.push(Resource {
            name: Bottleneck::WalVolume,
            what: "writes of the WAL device",
            unit: Unit::Bytes,
            keys: counters(&device, &["disk.write_bytes"]),
            measured: None,
            declared: declared.wal_mb_s.map(|mb| mb * 1e6),
        });
    }
    if let Some(device) = device("wal").or_else(|| device("data")) {
        all.push(Resource {
            name: Bottleneck::WalSync,
            what: "I/O of the WAL device",
            unit: Unit::PerSecond,
            keys: counters(&device, &["disk.reads", "disk.writes"]),
            measured: None,
            declared: declared.wal_iops,
        });
    }
    all
}

/// The busiest interface of the observed machine, each way. The ways were measured from the driver: seen from the server's own
/// machine, what it sends is what the driver receives.
fn network(usage: &Usage, record: &RunRecord) -> Vec<Resource> {
    let made = record.ceilings.measured.get("network");
    let declared = record.ceilings.declared.network_mb_s.map(|mb| mb * 1e6);
    let interfaces = usage.instances("net.sent_bytes");
    let (sent, received) = if record.eyes.is_some() {
        ("receive_throughput", "send_throughput")
    } else {
        ("send_throughput", "receive_throughput")
    };
    let ways = [("net.sent_bytes", "bytes sent", sent), ("net.received_bytes", "bytes received", received)];
    let of_way = |(metric, what, ceiling): (&str, &'static str, &str)| {
        interfaces
            .iter()
            .filter(|interface| *interface != "lo")
            .map(|interface| Resource {
                name: Bottleneck::Network,
                what,
                unit: Unit::Bytes,
                keys: vec![key(metric, interface)],
                measured: made.and_then(|made| made.value(ceiling)),
                declared,
            })
            .collect::<Vec<_>>()
    };
    ways.into_iter().flat_map(of_way).collect()
}

#[cfg(test)]
impl ResourceUse {
    pub(crate) fn of_flushes(used: f64, measured: f64) -> ResourceUse {
        let (name, what) = (Bottleneck::WalSync, "WAL flushes");
        let measured = Some(measured);
        ResourceUse { name, what, unit: Unit::PerSecond, used, measured, declared: None, is_flat: false }
    }

    pub(crate) fn of_wal_bytes(used: f64, declared: f64) -> ResourceUse {
        let (name, what) = (Bottleneck::WalVolume, "WAL");
        let declared = Some(declared);
        ResourceUse { name, what, unit: Unit::Bytes, used, measured: None, declared, is_flat: false }
    }
}

#[cfg(test)]
mod tests {
    use model::telemetry::reading::{Tick, TickSource};

    use super::*;
    use crate::run::usage::Parties;

    fn flushes(used: f64, measured: Option<f64>, declared: Option<f64>) -> ResourceUse {
        ResourceUse { measured, declared, ..ResourceUse::of_flushes(used, 1.0) }
    }

    #[test]
    fn the_lower_ceiling_counts_and_one_that_is_exceeded_is_none() {
        let check = |used, measured, declared, expected: Option<f64>| {
            assert_eq!(
                flushes(used, measured, declared).share(),
                expected,
                "{used} {measured:?} {declared:?}"
            );
        };
        check(3900.0, Some(4000.0), None, Some(0.975));
        check(1000.0, Some(4000.0), Some(2000.0), Some(0.5));
        check(1000.0, Some(2000.0), Some(4000.0), Some(0.5));
        check(9000.0, Some(4000.0), None, None);
        check(9000.0, Some(4000.0), Some(9000.0), Some(1.0));
        check(2100.0, None, Some(2000.0), Some(1.05));
        let words = flushes(3870.0, Some(3900.0), None).words();
        assert_eq!(words, "WAL flushes 3,870/s of 3,900/s measured");
        let wal = ResourceUse {
            what: "WAL",
            unit: Unit::Bytes,
            is_flat: true,
            ..flushes(1.18e8, Some(1.3e8), Some(1.25e8))
        };
        assert_eq!(
            wal.words(),
            "WAL 118 MB/s of 125 MB/s declared, 130 MB/s measured, in most seconds the same"
        );
    }

    #[test]
    fn a_course_is_the_use_of_each_tick_over_the_ceiling() {
        let ticks: Vec<Tick> = [(1, 1000.0), (2, 3000.0), (3, 2000.0)]
            .map(|(t, n)| Tick {
                source: TickSource::Server,
                end_unix_ns: t * 1_000_000_000,
                length_ns: 1_000_000_000,
                values: [("server.wal_bytes".to_string(), 1e6 * n)].into(),
            })
            .to_vec();
        let placed = ticks.iter().map(|tick| {
            let to_s = tick.end_unix_ns as f64 / 1e9;
            Placed { from_s: to_s - 1.0, to_s, tick }
        });
        let usage = Usage::new(placed.collect(), Parties { server: true, driver: true, pgdyno: true });
        let course = |measured: f64, declared: Option<f64>| {
            let wal = Resource {
                name: Bottleneck::WalVolume,
                what: "WAL",
                unit: Unit::Bytes,
                keys: vec!["server.wal_bytes".to_string()],
                measured: Some(measured),
                declared,
            };
            course(&usage, (1.0, 3.0), &wal)
        };
        let found = course(4e9, Some(5e9)).unwrap();
        assert_eq!(found.name, "WAL (of 4,000 MB/s measured)");
        let shares: Vec<f64> = found.points.iter().map(|(_, share)| *share).collect();
        assert_eq!((found.points[1].0, shares), ((1.0, 2.0), vec![0.25, 0.75, 0.5]));
        assert_eq!(course(4e9, Some(2.5e9)).unwrap().name, "WAL (of 2,500 MB/s declared)");
        let exceeded = course(1e9, None).unwrap();
        assert_eq!(exceeded.name, "WAL (more than the 1,000 MB/s measured, so that is no ceiling)");
        assert_eq!(exceeded.points[1].1, 3.0);
    }

    #[test]
    fn the_method_of_the_server_and_the_direction_choose_the_ceiling() {
        use model::experiment::case::{Case, ServerSource, ServerSpec, WorkloadKind, WorkloadSpec};
        use model::experiment::plan::RunSpec;
        use model::load::Window;
        use model::run::server::{ServerRecord, Setting};

        let known = |values: &[(&str, f64)]| Calibration {
            machine: String::new(),
            place: String::new(),
            measured_unix_ns: 0,
            part_ms: 5000,
            values: values.iter().map(|(key, value)| (key.to_string(), *value)).collect(),
            unavailable: std::collections::BTreeMap::new(),
        };
        let ticks = [Tick {
            source: TickSource::Host,
            end_unix_ns: 1_000_000_000,
            length_ns: 1_000_000_000,
            values: [
                ("net.sent_bytes[eth0]".to_string(), 1e6),
                ("net.received_bytes[eth0]".to_string(), 1e6),
            ]
            .into(),
        }];
        let placed = ticks.iter().map(|tick| Placed { from_s: 0.0, to_s: 1.0, tick });
        let usage = Usage::new(placed.collect(), Parties { server: true, driver: true, pgdyno: true });
        let server = ServerSpec::new(ServerSource::Version("18".parse().unwrap()));
        let window = Window { ramp_up_s: 0, measure_s: 1, grace_s: 1 };
        let case = Case::new(server, WorkloadSpec::new(WorkloadKind::Tpcb, 1), window);
        let mut record = RunRecord::new(RunSpec { run: 1, block: 1, case: 1, seed: 1 }, case, "0");
        let flushes =
            [("sync_rate[fdatasync]", 900.0), ("sync_rate[fsync]", 500.0), ("sync_rate[open_sync]", 700.0)];
        let ways = [("receive_throughput", 3e8), ("send_throughput", 2e8)];
        record.ceilings.measured =
            [("wal".to_string(), known(&flushes)), ("network".to_string(), known(&ways))].into();
        for (method, expected) in [
            ("fdatasync", Some(900.0)),
            ("fsync", Some(500.0)),
            ("open_sync", Some(700.0)),
            ("fsync_writethrough", None),
        ] {
            let setting = Setting { value: method.to_string(), source: String::new() };
            record.server = Some(ServerRecord {
                settings: [("wal_sync_method".to_string(), setting)].into(),
                ..ServerRecord::default()
            });
            assert_eq!(wal(&usage, &record)[0].measured, expected, "{method}");
        }
        let by_way = |record: &RunRecord| -> Vec<(&str, Option<f64>)> {
            network(&usage, record).iter().map(|way| (way.what, way.measured)).collect()
        };
        record.eyes = None;
        assert_eq!(by_way(&record), [("bytes sent", Some(2e8)), ("bytes received", Some(3e8))]);
        record.eyes = Some(Default::default());
        assert_eq!(by_way(&record), [("bytes sent", Some(3e8)), ("bytes received", Some(2e8))]);
    }

    #[test]
    fn a_flat_top_is_most_seconds_at_the_same_height() {
        let check = |seconds: &[f64], expected| assert_eq!(is_flat(seconds), expected, "{seconds:?}");
        check(&[2000.0, 1990.0, 2005.0, 1998.0, 1200.0, 2001.0], true);
        check(&[2000.0, 1500.0, 1800.0, 1700.0, 1200.0, 1900.0], false);
        check(&[2000.0, 2000.0], false);
        check(&[0.0; 10], false);
    }
}
