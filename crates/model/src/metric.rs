//! The table of metrics: a metric exists if and only if it is one row here.

/// How values of a metric combine over time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MetricKind {
    /// Only grows; a tick holds its increase.
    Counter,
    /// A level; a tick holds its value at the tick's end.
    Gauge,
}

/// One row of the table.
#[derive(Debug, Clone, Copy)]
pub struct Metric {
    /// Name, as in ticks.
    pub name: &'static str,
    /// What an instance is (`cpu`, `device`), or empty.
    pub instance: &'static str,
    /// Counter or gauge.
    pub kind: MetricKind,
    /// Unit: `s`, `bytes`, `1`.
    pub unit: &'static str,
    /// What it tells and where it is read.
    pub what: &'static str,
}

/// The row of a metric.
pub fn find(name: &str) -> Option<&'static Metric> {
    METRICS.iter().find(|metric| metric.name == name)
}

const fn counter(
    name: &'static str,
    instance: &'static str,
    unit: &'static str,
    what: &'static str,
) -> Metric {
    Metric { name, instance, kind: MetricKind::Counter, unit, what }
}

const fn gauge(name: &'static str, instance: &'static str, unit: &'static str, what: &'static str) -> Metric {
    Metric { name, instance, kind: MetricKind::Gauge, unit, what }
}

/// Every metric that pgdyno records.
pub const METRICS: &[Metric] = &[
    counter("host.cpu.user", "cpu", "s", "time in user code, niced or not (/proc/stat)"),
    counter("host.cpu.system", "cpu", "s", "time in the kernel, interrupts included (/proc/stat)"),
    counter("host.cpu.iowait", "cpu", "s", "idle with I/O outstanding (/proc/stat)"),
    counter("host.cpu.steal", "cpu", "s", "runnable while the hypervisor ran others (/proc/stat)"),
    counter("host.cpu.idle", "cpu", "s", "idle (/proc/stat)"),
    counter(
        "host.psi.cpu.some",
        "",
        "s",
        "time in which some task waited for a processor (/proc/pressure/cpu)",
    ),
    counter("host.psi.io.some", "", "s", "time in which some task waited for I/O (/proc/pressure/io)"),
    counter("host.psi.io.full", "", "s", "time in which all tasks waited for I/O (/proc/pressure/io)"),
    counter(
        "host.psi.memory.some",
        "",
        "s",
        "time in which some task waited for memory (/proc/pressure/memory)",
    ),
    counter("host.context_switches", "", "1", "context switches (/proc/stat)"),
    gauge("host.runnable", "", "1", "tasks running or ready to run (/proc/stat)"),
    gauge("host.memory.available", "", "bytes", "memory available to new work (/proc/meminfo)"),
    gauge("host.memory.dirty", "", "bytes", "page cache not yet written (/proc/meminfo)"),
    gauge("host.memory.writeback", "", "bytes", "page cache being written (/proc/meminfo)"),
    gauge("host.memory.cached", "", "bytes", "page cache (/proc/meminfo)"),
    gauge("host.memory.huge_pages_free", "", "1", "huge pages free (/proc/meminfo)"),
    counter("disk.reads", "device", "1", "reads completed (/proc/diskstats)"),
    counter("disk.writes", "device", "1", "writes completed (/proc/diskstats)"),
    counter("disk.flushes", "device", "1", "flushes completed (/proc/diskstats)"),
    counter("disk.read_bytes", "device", "bytes", "bytes read (/proc/diskstats)"),
    counter("disk.write_bytes", "device", "bytes", "bytes written (/proc/diskstats)"),
    counter("disk.read_time", "device", "s", "summed time of reads (/proc/diskstats)"),
    counter("disk.write_time", "device", "s", "summed time of writes (/proc/diskstats)"),
    counter("disk.flush_time", "device", "s", "summed time of flushes (/proc/diskstats)"),
    counter("disk.busy_time", "device", "s", "time with I/O outstanding (/proc/diskstats)"),
    gauge("disk.in_flight", "device", "1", "I/O outstanding (/proc/diskstats)"),
    gauge("disk.free_bytes", "role", "bytes", "free space for the role's directory (statvfs)"),
    counter("server.cpu.user", "", "s", "user time of the server's process tree (/proc/PID/stat)"),
    counter("server.cpu.system", "", "s", "kernel time of the server's process tree (/proc/PID/stat)"),
    gauge("server.processes", "", "1", "processes of the server"),
    counter(
        "server.read_bytes",
        "",
        "bytes",
        "bytes the server's processes had read from storage (/proc/PID/io)",
    ),
    counter("server.write_bytes", "", "bytes", "bytes the server's processes sent to storage (/proc/PID/io)"),
    counter("pgdyno.cpu", "", "s", "CPU time of pgdyno's own process, without the driver (getrusage)"),
    counter("driver.cpu.user", "", "s", "user time of the driver (getrusage)"),
    counter("driver.cpu.system", "", "s", "kernel time of the driver (getrusage)"),
    counter("driver.thread_cpu", "thread", "s", "CPU time of a driver thread (CLOCK_THREAD_CPUTIME_ID)"),
    gauge("driver.loop_max", "thread", "s", "longest turn of a thread's event loop, waiting excluded"),
    gauge("driver.in_flight", "", "1", "transactions in flight"),
    gauge("driver.connected", "", "1", "clients with a connection"),
    gauge("driver.backlog", "", "1", "transactions due and not yet started (open loop)"),
    gauge("driver.memory", "", "bytes", "resident memory of the driver (/proc/self/statm)"),
];
