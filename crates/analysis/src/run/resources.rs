//! Resource usage of a run over its measurement.

use model::load::interval::Counts;
use model::run::RunData;
use model::run::host::HostRecord;
use model::telemetry::reading::key;

use crate::run::limiter::room::Room;
use crate::run::timeline::Timeline;
use crate::run::usage::{Parties, Usage};
use crate::summary::{DriverHostResources, ForeignProcess, RemoteResources, ResourceUsage, UnknownFigure};

/// The device below the directory of a role (`data`, `wal`), as in `/proc/diskstats`.
pub(crate) fn device<'a>(data: &'a RunData, role: &str) -> Option<&'a str> {
    let mount = data.record.host.as_ref()?.mounts.get(role)?;
    (!mount.device.is_empty()).then_some(mount.device.as_str())
}

/// Processors of a machine: as recorded, or as many as were seen.
pub(crate) fn n_cpus(host: Option<&HostRecord>, usage: &Usage) -> Option<u32> {
    let recorded = host.map(|host| host.n_cpus).filter(|n| *n > 0);
    recorded.or_else(|| u32::try_from(usage.instances("host.cpu.user").len()).ok().filter(|n| *n > 0))
}

/// Resources over the measurement; empty when nothing was measured.
pub(crate) fn resources(
    data: &RunData,
    line: &Timeline,
    usage: &Usage,
    driver_usage: Option<&Usage>,
    counts: Counts,
) -> ResourceUsage {
    let n_cpus = n_cpus(data.record.host.as_ref(), usage);
    let Some((from_s, to_s)) = line.measured_span() else {
        return ResourceUsage { n_cpus, ..ResourceUsage::default() };
    };
    // The kernel counts in steps of 10 ms, which may add up to more than the time that passed.
    let share = |processors: f64| n_cpus.map(|n| (processors / f64::from(n)).clamp(0.0, 1.0));
    let cpu = usage.cpu(from_s, to_s);
    let ended = (counts.ended() > 0).then_some(counts.ended() as f64);
    let us_each = |cpu: Option<f64>| Some(cpu? * line.measured_s() * 1e6 / ended?);
    let rate = |metric: &str| usage.rate(metric, from_s, to_s);
    let disk = |metric: &str| usage.rate_of_key(&key(metric, device(data, "data")?), from_s, to_s);
    let wal_device = device(data, "wal").or_else(|| device(data, "data"));
    let wal = |metric: &str| usage.rate_of_key(&key(metric, wal_device?), from_s, to_s);
    let server_cpu = cpu.and_then(|cpu| cpu.server);
    let driver_cpu = cpu
        .and_then(|cpu| cpu.driver)
        .or_else(|| Some(rate("driver.cpu.user")? + rate("driver.cpu.system")?));
    let (server_room, driver_room) = rooms(data, usage, (from_s, to_s), n_cpus);
    let wal_bytes_per_s = rate("server.wal_bytes");
    let images_per_s = rate("server.wal_full_page_images");
    let size = |bytes: &str, n: &str| Some(disk(bytes)? / disk(n).filter(|n| *n > 0.0)?);
    let committed = (counts.committed > 0).then_some(counts.committed as f64);
    // Of a load that is spread over hosts, nobody knows what part was on the one that was observed.
    let is_spread = data.record.spread_hosts().is_some();
    ResourceUsage {
        n_cpus,
        host_busy: cpu.and_then(|cpu| share(cpu.busy)),
        busiest_cpu: busiest_cpu(usage, from_s, to_s),
        steal: cpu.and_then(|cpu| share(cpu.steal)),
        server_cpu,
        driver_cpu,
        server_room,
        driver_room,
        driver_busiest_thread: busiest_thread(usage, from_s, to_s),
        foreign_cpu: cpu.and_then(|cpu| cpu.foreign).map(|foreign| foreign.max(0.0)),
        foreign_processes: foreign_processes(usage, from_s, to_s),
        driver_cpu_us_per_transaction: us_each(driver_cpu),
        server_cpu_us_per_transaction: us_each(server_cpu).filter(|_| !is_spread),
        wal_bytes_per_s,
        wal_bytes_per_minute: wal_bytes_per_s.map(|bytes| 60.0 * bytes),
        full_page_images_per_s: images_per_s,
        new_pages_share_per_s: images_per_s.zip(pages_of_largest(data)).map(|(images, pages)| images / pages),
        wal_directory_bytes_max: wal_directory_bytes_max(usage, from_s, to_s),
        disk_read_size_bytes: size("disk.read_bytes", "disk.reads"),
        disk_write_size_bytes: size("disk.write_bytes", "disk.writes"),
        wal_bytes_per_transaction: wal_bytes_per_s
            .zip(committed)
            .filter(|_| !is_spread)
            .map(|(bytes, committed)| bytes * line.measured_s() / committed),
        cache_hit: cache_hit(usage, from_s, to_s),
        disk_read_bytes_per_s: disk("disk.read_bytes"),
        disk_write_bytes_per_s: disk("disk.write_bytes"),
        disk_reads_per_s: disk("disk.reads"),
        disk_writes_per_s: disk("disk.writes"),
        disk_busy: disk("disk.busy_time").map(|share| share.clamp(0.0, 1.0)),
        wal_device_writes_per_s: wal("disk.writes"),
        wal_device_write_bytes_per_s: wal("disk.write_bytes"),
        net_received_bytes_per_s: rate("net.received_bytes"),
        net_sent_bytes_per_s: rate("net.sent_bytes"),
        watch_cpu: rate("watch.cpu"),
        driver_host: driver_usage.map(|usage| driver_host(data, usage, from_s, to_s)),
        remote: remote(usage, from_s, to_s),
        unknown: unknown(data),
    }
}

/// How many processors the server and the driver may use of their own, where those are fewer than all of their machines.
fn rooms(data: &RunData, usage: &Usage, span: (f64, f64), n_cpus: Option<u32>) -> (Option<f64>, Option<f64>) {
    let [of_server, of_driver] = ["server", "driver"].map(|party| Room::from_usage(usage, party, span));
    let room = |room: &Room, other: &Room, n_cpus: Option<u32>| {
        room.own(Some(0.0), other, n_cpus.map(f64::from)).map(|limited| limited.of)
    };
    let apart = Room::default();
    // Groups of two machines are never one, whatever their paths.
    let (near_driver, n_of_driver) = if Parties::from_record(&data.record).driver {
        (&of_server, n_cpus)
    } else {
        (&apart, data.record.driver_host.as_ref().map(|host| host.n_cpus))
    };
    (room(&of_server, &apart, n_cpus), room(&of_driver, near_driver, n_of_driver))
}

/// Figures that some servers do not give, by the metric that they are computed from.
const MAY_BE_UNKNOWN: [(&str, &str); 3] = [
    ("server.wal_full_page_images", "full-page images"),
    ("server.wal_full_page_images", "new pages of the largest table"),
    ("server.wal_directory_bytes", "WAL kept"),
];

fn unknown(data: &RunData) -> Vec<UnknownFigure> {
    let reason = |metric: &str| data.record.telemetry_unavailable.get(metric).cloned();
    let all = MAY_BE_UNKNOWN.into_iter();
    all.filter_map(|(metric, name)| Some(UnknownFigure { name, reason: reason(metric)? })).collect()
}

/// Pages of the largest table in which the load changed rows other than by inserting them.
fn pages_of_largest(data: &RunData) -> Option<f64> {
    let changed = data.record.touched.values().filter(|table| table.rows_changed > table.rows_inserted);
    changed.map(|table| table.pages as f64).max_by(f64::total_cmp).filter(|pages| *pages > 0.0)
}

fn wal_directory_bytes_max(usage: &Usage, from_s: f64, to_s: f64) -> Option<f64> {
    let ticks = usage.with_key("server.wal_directory_bytes");
    let measured = ticks.filter(|(placed, _)| placed.to_s >= from_s && placed.to_s <= to_s);
    measured.map(|(_, bytes)| bytes).max_by(f64::total_cmp)
}

/// Processes that are listed of a machine.
const FOREIGN_PROCESSES_MAX: usize = 10;

/// None where it is not known what is foreign: the server's processes may be among those that were seen.
fn foreign_processes(usage: &Usage, from_s: f64, to_s: f64) -> Vec<ForeignProcess> {
    if usage.cpu(from_s, to_s).is_none_or(|cpu| cpu.foreign.is_none()) {
        return Vec::new();
    }
    let strangers = usage.strangers(from_s, to_s).unwrap_or_default().into_iter();
    strangers.take(FOREIGN_PROCESSES_MAX).map(|(name, cpu)| ForeignProcess { name, cpu }).collect()
}

/// The driver's machine, where the server's was observed on its own.
fn driver_host(data: &RunData, usage: &Usage, from_s: f64, to_s: f64) -> DriverHostResources {
    let n_cpus = n_cpus(data.record.driver_host.as_ref(), usage).unwrap_or_default();
    let cpu = usage.cpu(from_s, to_s);
    let share = |processors: f64| (processors / f64::from(n_cpus.max(1))).clamp(0.0, 1.0);
    DriverHostResources {
        n_cpus,
        busy: cpu.map(|cpu| share(cpu.busy)),
        steal: cpu.map(|cpu| share(cpu.steal)),
        foreign_cpu: cpu.and_then(|cpu| cpu.foreign).map(|foreign| foreign.max(0.0)),
        foreign_processes: foreign_processes(usage, from_s, to_s),
        net_received_bytes_per_s: usage.rate("net.received_bytes", from_s, to_s),
        net_sent_bytes_per_s: usage.rate("net.sent_bytes", from_s, to_s),
    }
}

/// The target's machine, if an exporter on it reported it. It is not known which device has the data, and a disk or an interface may
/// be composed of others: takes the highest value of any device.
fn remote(usage: &Usage, from_s: f64, to_s: f64) -> Option<RemoteResources> {
    let n_cpus = u32::try_from(usage.instances("remote.cpu.idle").len()).ok()?;
    let share = |metrics: &[&str]| {
        let rates: Option<Vec<f64>> = metrics.iter().map(|metric| usage.rate(metric, from_s, to_s)).collect();
        rates
            .filter(|_| n_cpus > 0)
            .map(|rates| (rates.iter().sum::<f64>() / f64::from(n_cpus)).clamp(0.0, 1.0))
    };
    let most = |metric: &str| {
        let devices = usage.instances(metric);
        let rates = devices.iter().filter_map(|device| usage.rate_of_key(&key(metric, device), from_s, to_s));
        rates.max_by(f64::total_cmp)
    };
    let told = RemoteResources {
        n_cpus,
        busy: share(&["remote.cpu.user", "remote.cpu.system"]),
        idle: share(&["remote.cpu.idle"]),
        steal: share(&["remote.cpu.steal"]),
        disk_read_bytes_per_s: most("remote.disk.read_bytes"),
        disk_write_bytes_per_s: most("remote.disk.write_bytes"),
        disk_reads_per_s: most("remote.disk.reads"),
        disk_writes_per_s: most("remote.disk.writes"),
        disk_busy: most("remote.disk.busy_time").map(|share| share.clamp(0.0, 1.0)),
        received_bytes_per_s: most("remote.net.received_bytes"),
        sent_bytes_per_s: most("remote.net.sent_bytes"),
    };
    (n_cpus > 0 || told.disk_busy.is_some() || told.sent_bytes_per_s.is_some()).then_some(told)
}

/// How busy the busiest driver thread was.
pub(crate) fn busiest_thread(usage: &Usage, from_s: f64, to_s: f64) -> Option<f64> {
    busy_threads(usage, from_s, to_s).into_iter().max_by(f64::total_cmp)
}

/// How busy each driver thread was. A thread that stays awake on purpose is not busy while it waits.
pub(crate) fn busy_threads(usage: &Usage, from_s: f64, to_s: f64) -> Vec<f64> {
    let threads = usage.instances("driver.thread_cpu");
    let busy = threads.iter().filter_map(|thread| {
        let of_thread = |metric: &str| usage.rate_of_key(&key(metric, thread), from_s, to_s);
        let polling = of_thread("driver.thread_polling").unwrap_or(0.0);
        Some((of_thread("driver.thread_cpu")? - polling).clamp(0.0, 1.0))
    });
    busy.collect()
}

fn busiest_cpu(usage: &Usage, from_s: f64, to_s: f64) -> Option<f64> {
    let cpus = usage.instances("host.cpu.user");
    let busy = cpus.iter().filter_map(|cpu| {
        let user = usage.rate_of_key(&key("host.cpu.user", cpu), from_s, to_s)?;
        let system = usage.rate_of_key(&key("host.cpu.system", cpu), from_s, to_s)?;
        Some((user + system).clamp(0.0, 1.0))
    });
    busy.max_by(f64::total_cmp)
}

fn cache_hit(usage: &Usage, from_s: f64, to_s: f64) -> Option<f64> {
    let hit = usage.rate("database.blocks_hit", from_s, to_s)?;
    let read = usage.rate("database.blocks_read", from_s, to_s)?;
    (hit + read > 0.0).then(|| hit / (hit + read))
}

#[cfg(test)]
mod tests {
    use model::telemetry::reading::{Tick, TickSource};

    use super::*;
    use crate::run::timeline::Placed;
    use crate::run::usage::Parties;

    #[test]
    fn of_a_targets_interfaces_the_busiest_counts() {
        let values = [("bond0", 30.0), ("eth0", 20.0), ("eth1", 10.0)]
            .map(|(interface, bytes)| (key("remote.net.sent_bytes", interface), bytes));
        let tick = Tick {
            source: TickSource::Remote,
            end_unix_ns: 0,
            length_ns: 1_000_000_000,
            values: values.into(),
        };
        let placed = Placed { from_s: 0.0, to_s: 1.0, tick: &tick };
        let usage = Usage::new(vec![placed], Parties { server: false, driver: true, pgdyno: true });
        assert_eq!(remote(&usage, 0.0, 1.0).unwrap().sent_bytes_per_s, Some(30.0));
    }
}
