//! Resource usage of a run.

use serde::Serialize;

/// Resource usage over the measurement; `None` if it could not be observed.
#[derive(Debug, Clone, Default, Serialize)]
pub struct ResourceUsage {
    /// Processors of the host.
    pub n_cpus: Option<u32>,
    /// Busy share of all processors, 0 to 1.
    pub host_busy: Option<f64>,
    /// Largest busy share of a single processor, 0 to 1.
    pub busiest_cpu: Option<f64>,
    /// Share of processor time taken by the hypervisor, 0 to 1.
    pub steal: Option<f64>,
    /// CPU seconds of the server's process tree per wall second.
    pub server_cpu: Option<f64>,
    /// CPU seconds of the driver per wall second.
    pub driver_cpu: Option<f64>,
    /// Processors that the server may use at once, by affinity, cpuset or quota, where that is less than its machine has.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub server_room: Option<f64>,
    /// The same of the driver, without a quota that it shares with the server.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub driver_room: Option<f64>,
    /// Busiest driver thread, share of one processor, 0 to 1.
    pub driver_busiest_thread: Option<f64>,
    /// CPU seconds per wall second used by anything else on the host: busy minus server, driver and pgdyno.
    pub foreign_cpu: Option<f64>,
    /// The processes that used most of it, as far as the observer saw them, the most first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub foreign_processes: Vec<ForeignProcess>,
    /// Driver CPU per transaction that ended, microseconds.
    pub driver_cpu_us_per_transaction: Option<f64>,
    /// Server CPU per transaction that ended, microseconds.
    pub server_cpu_us_per_transaction: Option<f64>,
    /// WAL written, bytes per second.
    pub wal_bytes_per_s: Option<f64>,
    /// WAL written, bytes per minute.
    pub wal_bytes_per_minute: Option<f64>,
    /// Full-page images in the WAL per second; `None` before 14, where the server does not count them ([`ResourceUsage::unknown`] says so).
    pub full_page_images_per_s: Option<f64>,
    /// The same as a share of the pages of the largest table that the load wrote to, 0 to 1: the share of its pages that a second touches
    /// for the first time since a checkpoint, at most.
    pub new_pages_share_per_s: Option<f64>,
    /// The most bytes of WAL that the server kept.
    pub wal_directory_bytes_max: Option<f64>,
    /// Bytes of a read of the data device, on average.
    pub disk_read_size_bytes: Option<f64>,
    /// Bytes of a write to the data device, on average.
    pub disk_write_size_bytes: Option<f64>,
    /// WAL written per committed transaction, bytes.
    pub wal_bytes_per_transaction: Option<f64>,
    /// Share of block reads found in shared buffers, 0 to 1.
    pub cache_hit: Option<f64>,
    /// Bytes read per second from the data device.
    pub disk_read_bytes_per_s: Option<f64>,
    /// Bytes written per second to the data device.
    pub disk_write_bytes_per_s: Option<f64>,
    /// Reads per second from the data device.
    pub disk_reads_per_s: Option<f64>,
    /// Writes per second to the data device.
    pub disk_writes_per_s: Option<f64>,
    /// Share of time the data device was busy, 0 to 1.
    pub disk_busy: Option<f64>,
    /// Writes per second to the WAL's device.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub wal_device_writes_per_s: Option<f64>,
    /// Bytes written per second to the WAL's device.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub wal_device_write_bytes_per_s: Option<f64>,
    /// Bytes received per second over all interfaces of the host.
    pub net_received_bytes_per_s: Option<f64>,
    /// Bytes sent per second over all interfaces of the host.
    pub net_sent_bytes_per_s: Option<f64>,
    /// CPU seconds of `pgdyno watch` on the server's host per wall second.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub watch_cpu: Option<f64>,
    /// The machine of pgdyno and its driver, if the host is another one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub driver_host: Option<DriverHostResources>,
    /// The machine of the target, if an exporter on it was polled.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub remote: Option<RemoteResources>,
    /// Figures that the server does not give, each with the reason.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub unknown: Vec<UnknownFigure>,
}

/// A figure that nobody knows.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct UnknownFigure {
    /// The figure's name: `full-page images`.
    pub name: &'static str,
    /// Why it is unknown.
    pub reason: String,
}

/// Processes of one name that belong neither to the server nor to pgdyno.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ForeignProcess {
    /// The name as the kernel has it, of at most 15 bytes.
    pub name: String,
    /// CPU seconds per wall second.
    pub cpu: f64,
}

/// Activity of the driver's machine over the measurement, where the server's was observed on its own.
#[derive(Debug, Clone, Default, Serialize)]
pub struct DriverHostResources {
    /// Processors of the machine.
    pub n_cpus: u32,
    /// Busy share of all processors, 0 to 1.
    pub busy: Option<f64>,
    /// Share of processor time taken by the hypervisor, 0 to 1.
    pub steal: Option<f64>,
    /// CPU seconds per wall second used by anything but pgdyno and its driver.
    pub foreign_cpu: Option<f64>,
    /// The processes that used most of it, as far as the observer saw them, the most first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub foreign_processes: Vec<ForeignProcess>,
    /// Bytes received per second over all interfaces.
    pub net_received_bytes_per_s: Option<f64>,
    /// Bytes sent per second over all interfaces.
    pub net_sent_bytes_per_s: Option<f64>,
}

/// Activity of the target's machine over the measurement, as an exporter on it reported it; `None` for values it did
/// not report.
#[derive(Debug, Clone, Default, Serialize)]
pub struct RemoteResources {
    /// Processors of the machine.
    pub n_cpus: u32,
    /// Busy share of all processors, 0 to 1.
    pub busy: Option<f64>,
    /// Idle share of all processors, excluding waits for I/O, 0 to 1.
    pub idle: Option<f64>,
    /// Share of processor time taken by the hypervisor, 0 to 1.
    pub steal: Option<f64>,
    /// Bytes read per second from the device that was read most.
    pub disk_read_bytes_per_s: Option<f64>,
    /// Bytes written per second to the device that was written most.
    pub disk_write_bytes_per_s: Option<f64>,
    /// Reads per second from the device with the most.
    pub disk_reads_per_s: Option<f64>,
    /// Writes per second to the device with the most.
    pub disk_writes_per_s: Option<f64>,
    /// Share of time the busiest device was busy, 0 to 1.
    pub disk_busy: Option<f64>,
    /// Bytes received per second by the interface with the most.
    pub received_bytes_per_s: Option<f64>,
    /// Bytes sent per second by the interface with the most.
    pub sent_bytes_per_s: Option<f64>,
}
