//! How much of its ceiling a run used of each device and of the network. Ceilings are measured by `pgdyno calibrate`, or
//! declared in `[limits]`; of both, the lower one counts.

use model::run::RunRecord;
use model::run::ceilings::Calibration;
use model::telemetry::reading::key;
use model::text::prose::{grouped, significant};

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
pub(crate) struct Used {
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

impl Used {
    /// The used part of the lower of both ceilings; `None` if there is none to believe.
    pub(crate) fn share(&self) -> Option<f64> {
        let measured =
            self.measured.map(|ceiling| self.used / ceiling).filter(|share| *share <= CREDIBLE_MAX);
        let declared = self.declared.map(|ceiling| self.used / ceiling);
        measured.into_iter().chain(declared).reduce(f64::max)
    }

    /// `WAL flushes 3,870/s of 3,900/s measured`.
    pub(crate) fn words(&self) -> String {
        let value = |x: f64| match self.unit {
            Unit::PerSecond => format!("{}/s", grouped(&format!("{x:.0}"))),
            Unit::Bytes => format!("{} MB/s", significant(x / 1e6)),
        };
        let ceiling = |x: Option<f64>, how: &str| x.map(|x| format!("{} {how}", value(x)));
        let ceilings = [ceiling(self.declared, "declared"), ceiling(self.measured, "measured")];
        let ceilings: Vec<String> = ceilings.into_iter().flatten().collect();
        let flat = if self.is_flat { ", in most seconds the same" } else { "" };
        format!("{} {} of {}{flat}", self.what, value(self.used), ceilings.join(", "))
    }
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
pub(crate) fn of(usage: &Usage, span: (f64, f64), record: &RunRecord) -> Vec<Used> {
    let resources = [wal(usage, record), devices(record), network(usage, record)].concat();
    resources.into_iter().filter_map(|resource| used(usage, span, resource)).collect()
}

fn used(usage: &Usage, span: (f64, f64), resource: Resource) -> Option<Used> {
    let Resource { name, what, unit, keys, measured, declared } = resource;
    if keys.is_empty() || (measured.is_none() && declared.is_none()) {
        return None;
    }
    let rates: Option<Vec<f64>> = keys.iter().map(|key| usage.rate_of_key(key, span.0, span.1)).collect();
    let used = rates?.into_iter().fold(0.0, |sum, rate| sum + rate);
    let is_flat = is_flat(&seconds(usage, span, &keys));
    Some(Used { name, what, unit, used, measured, declared, is_flat })
}

/// Sums of counters for each tick of a span, per second.
fn seconds(usage: &Usage, (from_s, to_s): (f64, f64), keys: &[String]) -> Vec<f64> {
    let Some(first) = keys.first() else { return Vec::new() };
    let metric = first.split('[').next().unwrap_or(first);
    let within = usage.with_metric(metric).filter(|placed| placed.share_within(from_s, to_s) > 0.5);
    within
        .filter(|placed| placed.length_s() > 0.0)
        .map(|placed| {
            let values = keys.iter().filter_map(|key| placed.tick.values.get(key));
            values.fold(0.0, |sum, value| sum + value) / placed.length_s()
        })
        .collect()
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
    let (old, new) = match is_by_opening {
        true => ("server.wal_writes", "server.io.writes"),
        false => ("server.wal_syncs", "server.io.fsyncs"),
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

/// The busiest interface of the observed machine, each way.
fn network(usage: &Usage, record: &RunRecord) -> Vec<Resource> {
    let made = record.ceilings.measured.get("network");
    let declared = record.ceilings.declared.network_mb_s.map(|mb| mb * 1e6);
    let interfaces = usage.instances("net.sent_bytes");
    let ways = [("net.sent_bytes", "bytes sent"), ("net.received_bytes", "bytes received")];
    let of_way = |(metric, what): (&str, &'static str)| {
        interfaces
            .iter()
            .filter(|interface| *interface != "lo")
            .map(|interface| Resource {
                name: Bottleneck::Network,
                what,
                unit: Unit::Bytes,
                keys: vec![key(metric, interface)],
                measured: made.and_then(|made| made.value("receive_throughput")),
                declared,
            })
            .collect::<Vec<_>>()
    };
    ways.into_iter().flat_map(of_way).collect()
}

#[cfg(test)]
impl Used {
    pub(crate) fn of_flushes(used: f64, measured: f64) -> Used {
        let (name, what) = (Bottleneck::WalSync, "WAL flushes");
        let measured = Some(measured);
        Used { name, what, unit: Unit::PerSecond, used, measured, declared: None, is_flat: false }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn flushes(used: f64, measured: Option<f64>, declared: Option<f64>) -> Used {
        Used { measured, declared, ..Used::of_flushes(used, 1.0) }
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
        let wal = Used {
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
    fn a_flat_top_is_most_seconds_at_the_same_height() {
        let check = |seconds: &[f64], expected| assert_eq!(is_flat(seconds), expected, "{seconds:?}");
        check(&[2000.0, 1990.0, 2005.0, 1998.0, 1200.0, 2001.0], true);
        check(&[2000.0, 1500.0, 1800.0, 1700.0, 1200.0, 1900.0], false);
        check(&[2000.0, 2000.0], false);
        check(&[0.0; 10], false);
    }
}
