//! The table of metrics: a metric exists if and only if it is one row here.

mod nodes;

use super::{Metric, counter, gauge};

/// Every metric that pgdyno records.
pub const METRICS: &[Metric] = &joined();

const N_METRICS: usize = OF_ONE_SERVER.len() + nodes::OF_NODES.len();

/// The rows of all files, in order.
const fn joined() -> [Metric; N_METRICS] {
    let mut all = [OF_ONE_SERVER[0]; N_METRICS];
    let mut n = 0;
    while n < N_METRICS {
        let is_first = n < OF_ONE_SERVER.len();
        all[n] = if is_first { OF_ONE_SERVER[n] } else { nodes::OF_NODES[n - OF_ONE_SERVER.len()] };
        n += 1;
    }
    all
}

const OF_ONE_SERVER: &[Metric] = &[
    counter("host.cpu.user", "cpu", "s", "time in user code, niced or not (/proc/stat)"),
    counter("host.cpu.system", "cpu", "s", "time in the kernel, interrupts included (/proc/stat)"),
    counter("host.cpu.iowait", "cpu", "s", "idle with I/O outstanding (/proc/stat)"),
    counter("host.cpu.steal", "cpu", "s", "runnable while the hypervisor ran others (/proc/stat)"),
    counter("host.cpu.idle", "cpu", "s", "idle (/proc/stat)"),
    counter("host.psi.cpu.some", "", "s", "time that some task waited for a processor (/proc/pressure/cpu)"),
    gauge(
        "host.cpu.frequency",
        "cpu",
        "Hz",
        "current frequency (/sys/devices/system/cpu/*/cpufreq/scaling_cur_freq)",
    ),
    counter("host.psi.io.some", "", "s", "time that some task waited for I/O (/proc/pressure/io)"),
    counter("host.psi.io.full", "", "s", "time that all tasks waited for I/O (/proc/pressure/io)"),
    counter("host.psi.memory.some", "", "s", "time some task waited for memory (/proc/pressure/memory)"),
    counter("host.psi.memory.full", "", "s", "time all tasks waited for memory (/proc/pressure/memory)"),
    counter("host.context_switches", "", "1", "context switches (/proc/stat)"),
    gauge(
        "host.clock_offset",
        "",
        "s",
        "how far the wall clock was set since the start (CLOCK_REALTIME, CLOCK_MONOTONIC)",
    ),
    gauge("host.runnable", "", "1", "tasks running or ready to run (/proc/stat)"),
    gauge("host.blocked", "", "1", "tasks waiting for I/O to complete (/proc/stat)"),
    gauge("host.memory.available", "", "bytes", "memory available to new work (/proc/meminfo)"),
    gauge("host.memory.dirty", "", "bytes", "page cache not yet written (/proc/meminfo)"),
    gauge("host.memory.writeback", "", "bytes", "page cache being written (/proc/meminfo)"),
    gauge("host.memory.cached", "", "bytes", "page cache (/proc/meminfo)"),
    gauge(
        "host.memory.huge_pages_free",
        "size",
        "1",
        "free huge pages by size: `2048kB` (/sys/kernel/mm/hugepages, else /proc/meminfo)",
    ),
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
    counter(
        "disk.over_limit_time",
        "device:limit",
        "s",
        "time above the limits of an EBS volume (`volume-iops`, `volume-throughput`) or its instance \
         (`instance-iops`, `instance-throughput`) (NVMe log page 0xD0)",
    ),
    gauge("disk.free_bytes", "role", "bytes", "free space for the role's directory (statvfs)"),
    counter(
        "net.received_bytes",
        "interface",
        "bytes",
        "bytes received (/proc/net/dev) by devices and whole bonds, not by bridges, VLANs and virtual \
         cables; without a device, as in a container, by each interface that is not above others",
    ),
    counter(
        "net.held_back_packets",
        "interface:allowance",
        "1",
        "packets that the instance's allowance queued or dropped: `bw_in`, `bw_out`, `pps`, … (ethtool -S of \
         the driver ena)",
    ),
    counter("net.sent_bytes", "interface", "bytes", "bytes sent (/proc/net/dev), of the same interfaces"),
    // The machine of a target, from its node_exporter; the same metrics as for this machine. `[[target]] telemetry`.
    counter("remote.cpu.user", "cpu", "s", "time in user code, niced or not (node_cpu_seconds_total)"),
    counter(
        "remote.cpu.system",
        "cpu",
        "s",
        "time in the kernel, interrupts included (node_cpu_seconds_total)",
    ),
    counter("remote.cpu.iowait", "cpu", "s", "idle with I/O outstanding (node_cpu_seconds_total)"),
    counter(
        "remote.cpu.steal",
        "cpu",
        "s",
        "runnable while the hypervisor ran others (node_cpu_seconds_total)",
    ),
    counter("remote.cpu.idle", "cpu", "s", "idle (node_cpu_seconds_total)"),
    gauge(
        "remote.memory.available",
        "",
        "bytes",
        "memory available to new work (node_memory_MemAvailable_bytes)",
    ),
    counter("remote.disk.reads", "device", "1", "reads completed (node_disk_reads_completed_total)"),
    counter("remote.disk.writes", "device", "1", "writes completed (node_disk_writes_completed_total)"),
    counter("remote.disk.flushes", "device", "1", "flushes completed (node_disk_flush_requests_total)"),
    counter("remote.disk.read_bytes", "device", "bytes", "bytes read (node_disk_read_bytes_total)"),
    counter("remote.disk.write_bytes", "device", "bytes", "bytes written (node_disk_written_bytes_total)"),
    counter(
        "remote.disk.read_time",
        "device",
        "s",
        "summed time of reads (node_disk_read_time_seconds_total)",
    ),
    counter(
        "remote.disk.write_time",
        "device",
        "s",
        "summed time of writes (node_disk_write_time_seconds_total)",
    ),
    counter(
        "remote.disk.busy_time",
        "device",
        "s",
        "time with I/O outstanding (node_disk_io_time_seconds_total)",
    ),
    counter(
        "remote.net.received_bytes",
        "interface",
        "bytes",
        "bytes received (node_network_receive_bytes_total)",
    ),
    counter("remote.net.sent_bytes", "interface", "bytes", "bytes sent (node_network_transmit_bytes_total)"),
    counter("server.cpu.user", "", "s", "user time of the server's process tree (/proc/PID/stat)"),
    counter("server.cpu.system", "", "s", "kernel time of the server's process tree (/proc/PID/stat)"),
    counter(
        "server.cpu.load",
        "",
        "s",
        "CPU time of the backends of the load's clients (/proc/PID/stat, BackendKeyData)",
    ),
    counter(
        "server.cpu.foreign",
        "",
        "s",
        "CPU time of backends of client sessions that are not pgdyno's (/proc/PID/stat, pg_stat_activity)",
    ),
    counter(
        "server.run_delay",
        "",
        "s",
        "summed time in which the server's processes could run and did not, also if throttled \
         (/proc/PID/schedstat)",
    ),
    gauge(
        "server.states",
        "state",
        "1",
        "the server's processes by kernel state: `R` runs or could run, `D` is in I/O, `S` sleeps, … \
         (/proc/PID/stat)",
    ),
    gauge(
        "affinity.processors",
        "party",
        "1",
        "processors that `server` (the load's backends, if known), `driver` or `pooler` may use \
         (sched_getaffinity)",
    ),
    gauge("affinity.cpu", "party:cpu", "1", "1 for each of them, unless all are"),
    gauge(
        "cgroup.quota",
        "party:path",
        "1",
        "processors that the control group may use (cpu.cfs_quota_us, cpu.max)",
    ),
    counter("cgroup.periods", "party:path", "1", "periods of the group's CPU quota (cpu.stat)"),
    counter(
        "cgroup.throttled_periods",
        "party:path",
        "1",
        "periods in which the group had used up its quota (cpu.stat)",
    ),
    counter(
        "cgroup.throttled_time",
        "party:path",
        "s",
        "time that the group was throttled, summed over processors (cpu.stat)",
    ),
    // Of the server's processes, those that have ended included, with `run.counters` (perf_event_open). Of an event that shared a
    // counter with others, the count is extended to all of its time.
    counter("counters.instructions", "", "1", "instructions of the server's processes (perf_event_open)"),
    counter("counters.cycles", "", "1", "cycles of processors (perf_event_open)"),
    counter("counters.cache_references", "", "1", "references to the last-level cache (perf_event_open)"),
    counter("counters.cache_misses", "", "1", "those that missed it (perf_event_open)"),
    counter("counters.dtlb_misses", "", "1", "loads that missed the data TLB (perf_event_open)"),
    counter("counters.page_faults", "", "1", "page faults (perf_event_open)"),
    counter("counters.context_switches", "", "1", "context switches (perf_event_open)"),
    counter("counters.cpu_migrations", "", "1", "moves to another processor (perf_event_open)"),
    counter("counters.task_clock", "", "s", "time on a processor (perf_event_open)"),
    gauge("counters.share", "event", "1", "share of its time in which an event had a counter, if below 1"),
    counter(
        "counters.memory_bytes",
        "domain",
        "bytes",
        "bytes between a last-level cache and memory, of all that runs there (resctrl mbm_total_bytes)",
    ),
    gauge("server.processes", "", "1", "processes of the server"),
    counter(
        "server.read_bytes",
        "",
        "bytes",
        "bytes the server's processes had read from storage (/proc/PID/io)",
    ),
    counter("server.write_bytes", "", "bytes", "bytes the server's processes sent to storage (/proc/PID/io)"),
    // PostgreSQL's own statistics. Sessions report theirs at the end of a transaction and at most once a second (twice
    // before 15), so these lag by up to about a second; WAL position and activity do not.
    counter("server.wal_bytes", "", "bytes", "WAL written, on a standby replayed (pg_current_wal_lsn)"),
    gauge(
        "server.wal_directory_bytes",
        "",
        "bytes",
        "size of WAL files, recycled ones included (pg_ls_waldir; before 10 pg_stat_file)",
    ),
    counter("server.slru.reads", "cache", "1", "blocks read (pg_stat_slru, 13 and later); absent is 0"),
    counter("server.slru.writes", "cache", "1", "blocks written (pg_stat_slru); absent is 0"),
    counter("server.slru.hits", "cache", "1", "blocks found (pg_stat_slru); absent is 0"),
    counter("server.wal_records", "", "1", "WAL records (pg_stat_wal, 14 and later)"),
    counter(
        "server.wal_full_page_images",
        "",
        "1",
        "full-page images in the WAL (pg_stat_wal; before 14 pg_waldump of a server that pgdyno runs)",
    ),
    counter(
        "server.wal_full_page_image_bytes",
        "",
        "bytes",
        "their size in the WAL (pg_stat_wal, 19 and later)",
    ),
    counter(
        "server.wal_buffers_full",
        "",
        "1",
        "WAL written because its buffers were full (pg_stat_wal, 14 and later)",
    ),
    counter("server.wal_writes", "", "1", "writes of WAL (pg_stat_wal, 14 to 17; later pg_stat_io)"),
    counter("server.wal_syncs", "", "1", "syncs of WAL (pg_stat_wal, 14 to 17; later pg_stat_io)"),
    counter("server.wal_write_time", "", "s", "time of WAL writes; absent if track_wal_io_timing is off"),
    counter("server.wal_sync_time", "", "s", "time of WAL syncs; absent if track_wal_io_timing is off"),
    counter("server.checkpoints", "cause", "1", "checkpoints counted, `timed` or `requested`"),
    counter(
        "server.checkpoint_write_time",
        "",
        "s",
        "writing time of checkpoints, counted when one ends (pg_stat_bgwriter, pg_stat_checkpointer)",
    ),
    counter(
        "server.checkpoint_sync_time",
        "",
        "s",
        "syncing time of checkpoints, counted when one ends (pg_stat_bgwriter, pg_stat_checkpointer)",
    ),
    counter(
        "server.buffers_written",
        "by",
        "1",
        "buffers written by `checkpointer`, `bgwriter`, `backend` (the last with extensions before 17)",
    ),
    counter("server.buffers_allocated", "", "1", "buffers allocated (pg_stat_bgwriter)"),
    counter(
        "server.bgwriter_halts",
        "",
        "1",
        "times that the background writer stopped after enough writes (maxwritten_clean)",
    ),
    counter("server.backend_fsyncs", "", "1", "syncs by backends themselves"),
    counter(
        "server.io.reads",
        "backend:object:context",
        "1",
        "reads (pg_stat_io, 16 and later); absent is 0",
    ),
    counter("server.io.writes", "backend:object:context", "1", "writes (pg_stat_io); absent is 0"),
    counter("server.io.extends", "backend:object:context", "1", "extensions (pg_stat_io); absent is 0"),
    counter("server.io.fsyncs", "backend:object:context", "1", "syncs (pg_stat_io); absent is 0"),
    counter(
        "server.io.hits",
        "backend:object:context",
        "1",
        "blocks found in buffers (pg_stat_io); absent is 0",
    ),
    counter("server.io.evictions", "backend:object:context", "1", "buffers reused (pg_stat_io); absent is 0"),
    counter(
        "server.io.read_bytes",
        "backend:object:context",
        "bytes",
        "bytes read (pg_stat_io); absent is 0",
    ),
    counter(
        "server.io.write_bytes",
        "backend:object:context",
        "bytes",
        "bytes written (pg_stat_io); absent is 0",
    ),
    counter(
        "server.io.read_time",
        "backend:object:context",
        "s",
        "time of reads (pg_stat_io); absent is 0, or unknown if track_io_timing is off",
    ),
    counter(
        "server.io.write_time",
        "backend:object:context",
        "s",
        "time of writes (pg_stat_io); absent is 0, or unknown if track_io_timing is off",
    ),
    counter(
        "server.io.fsync_time",
        "backend:object:context",
        "s",
        "time of syncs (pg_stat_io); absent is 0, or unknown if track_io_timing is off",
    ),
    gauge(
        "server.connections",
        "state",
        "1",
        "client sessions by state, the observer's left out (pg_stat_activity); `hidden`: this role cannot see it",
    ),
    gauge(
        "server.waiting",
        "type:event",
        "1",
        "sessions at work that wait, by event, sampled once per tick (pg_stat_activity); absent is 0",
    ),
    gauge(
        "server.on_cpu",
        "",
        "1",
        "active sessions without a wait event (pg_stat_activity); absent if this role cannot see the state \
         of all",
    ),
    gauge("waits.samples", "", "1", "samples of all processes of the server in the tick (pg_stat_activity)"),
    gauge(
        "waits.queries",
        "",
        "1",
        "statements of the observer for these samples and for roots, each a transaction",
    ),
    gauge("waits.time", "", "s", "summed time of these samples, the way to the server included"),
    gauge(
        "waits.processes",
        "class/state",
        "1",
        "processes, summed over samples, by class (`client`, `walwriter`, …) and wait event, `CPU`, `idle` or `idle in transaction`; \
         `Kernel:…` is I/O without a wait event (`waits.kernel`); without idle background processes; absent is 0",
    ),
    gauge(
        "waits.kernel",
        "place",
        "1",
        "processes without a wait event, summed over samples, by where the kernel had them: `running` (or \
         waiting for a processor); in I/O `data-read`, `data-write`, `wal-flush`, `wal-init`, \
         `temporary-file`, `slru`, `page-fault`, `journal`, `io`; `socket`, `semaphore`, `pipe`, \
         `log-write`, `timer`, `other`; only on this machine; absent is 0 (/proc/PID/stat, syscall, fd, \
         wchan)",
    ),
    gauge("waits.instants", "type:event", "1", "samples with at least one process in this wait; absent is 0"),
    gauge(
        "waits.stages",
        "stage",
        "1",
        "samples with at least one process in this serial stage: `wal-flush`, `wal-init`, `data-read`, \
         `data-write`, `spill`, `slru`, `standby`, `lock`; absent: not visible, as before 10 without the \
         kernel's states",
    ),
    gauge(
        "waits.roots",
        "state",
        "1",
        "sessions that wait for a lock, by what the root of their queue does, about once a second \
         (pg_blocking_pids); `idle`: it holds the lock between transactions; `cycle`: they wait for each \
         other; `gone`: it had ended; absent is 0",
    ),
    gauge(
        "waits.holders",
        "lock/owner",
        "1",
        "the same by lock (`advisory`, …) and whose the root is: `load`, `pgdyno`, `other:psql`, `autovacuum`, `prepared`, `unknown`; absent is 0",
    ),
    gauge("statements.samples", "", "1", "samples that say which statement each session is in"),
    gauge(
        "statements.sessions",
        "statement/state",
        "1",
        "client sessions in a statement (an identifier of `statements` in run.json; `other` beyond 30 in a tick), summed over these \
         samples, by wait event or `CPU` (pg_stat_activity); absent is 0",
    ),
    gauge("statements.span", "", "s", "time since the previous reading of pg_stat_statements"),
    counter(
        "statements.calls",
        "statement",
        "1",
        "executions, of the 50 statements with the most time in the tick and of the others as `other` \
         (pg_stat_statements); absent is 0",
    ),
    counter("statements.time", "statement", "s", "time in the executor (pg_stat_statements); absent is 0"),
    counter(
        "statements.plan_time",
        "statement",
        "s",
        "time in the planner (pg_stat_statements, 13 and later); absent is 0, or unknown if track_planning is off",
    ),
    counter(
        "statements.rows",
        "statement",
        "1",
        "rows returned or changed (pg_stat_statements); absent is 0",
    ),
    counter(
        "statements.blocks_read",
        "statement",
        "1",
        "blocks not found in shared buffers (pg_stat_statements); absent is 0",
    ),
    counter(
        "statements.temp_blocks",
        "statement",
        "1",
        "blocks of temporary files read and written (pg_stat_statements); absent is 0",
    ),
    counter(
        "statements.io_time",
        "statement",
        "s",
        "time of reads and writes (pg_stat_statements); absent is 0, or unknown if track_io_timing is off",
    ),
    counter(
        "statements.wal_bytes",
        "statement",
        "bytes",
        "WAL (pg_stat_statements, 13 and later); absent is 0",
    ),
    gauge("server.foreign_sessions", "", "1", "client sessions that are not pgdyno's (pg_stat_activity)"),
    gauge(
        "server.foreign_working",
        "",
        "1",
        "those, with parallel workers, that are active and wait for neither a lock nor a client nor time \
         (pg_stat_activity); absent if this role cannot see the state of all",
    ),
    gauge(
        "server.load_workers",
        "",
        "1",
        "parallel workers of pgdyno's sessions, before 13 of all (pg_stat_activity)",
    ),
    gauge(
        "server.clock_offset",
        "",
        "s",
        "the server's clock less the time line of the readings (clock_timestamp)",
    ),
    gauge("server.clock_error", "", "s", "largest error of server.clock_offset: half of the answer's time"),
    gauge(
        "server.slow_span",
        "metric",
        "s",
        "time since the previous reading, which this tick's increase covers, of what takes the server more than 10 ms and is read once a \
         minute: database.hot_updates, database.autovacuums with database.autoanalyzes, or statements.calls with the other counters of \
         statements; absent where each tick has them",
    ),
    gauge("server.autovacuum_workers", "", "1", "autovacuum workers at work (pg_stat_activity)"),
    gauge(
        "server.oldest_snapshot_age",
        "",
        "1",
        "transactions begun since the oldest one that a session still needs (backend_xmin, backend_xid)",
    ),
    counter(
        "server.transactions",
        "",
        "1",
        "transactions committed and rolled back in all databases: HammerDB's TPM (pg_stat_database)",
    ),
    counter(
        "database.commits",
        "",
        "1",
        "transactions committed, the observer's included (pg_stat_database)",
    ),
    counter("database.rollbacks", "", "1", "transactions rolled back (pg_stat_database)"),
    counter("database.blocks_read", "", "1", "blocks not found in shared buffers (pg_stat_database)"),
    counter("database.blocks_hit", "", "1", "blocks found in shared buffers (pg_stat_database)"),
    counter("database.rows_returned", "", "1", "rows read by scans (tup_returned)"),
    counter("database.rows_fetched", "", "1", "rows fetched by index scans (tup_fetched)"),
    counter("database.rows_inserted", "", "1", "rows inserted (tup_inserted)"),
    counter("database.rows_updated", "", "1", "rows updated (tup_updated)"),
    counter(
        "database.hot_updates",
        "",
        "1",
        "updates that changed no index (HOT), of all tables (pg_stat_get_tuples_hot_updated)",
    ),
    counter("database.rows_deleted", "", "1", "rows deleted (tup_deleted)"),
    counter("database.temp_files", "", "1", "temporary files (pg_stat_database)"),
    counter("database.temp_bytes", "", "bytes", "bytes in temporary files (pg_stat_database)"),
    counter("database.deadlocks", "", "1", "deadlocks (pg_stat_database)"),
    counter("database.parallel_workers", "", "1", "parallel workers launched (pg_stat_database, from 18 on)"),
    counter("database.conflicts", "", "1", "queries cancelled by recovery (pg_stat_database)"),
    counter("database.read_time", "", "s", "time reading blocks; absent if track_io_timing is off"),
    counter("database.write_time", "", "s", "time writing blocks; absent if track_io_timing is off"),
    counter(
        "database.autovacuums",
        "table",
        "1",
        "automatic vacuums that ended (pg_stat_get_autovacuum_count), unless the log is read; absent is 0",
    ),
    counter(
        "database.autoanalyzes",
        "table",
        "1",
        "automatic analyzes that ended (pg_stat_get_autoanalyze_count), unless the log is read; absent is 0",
    ),
    gauge("database.xid_age", "", "1", "age of the oldest unfrozen transaction id (datfrozenxid)"),
    gauge(
        "database.table_bytes",
        "table",
        "bytes",
        "size of each of the 20 largest tables with its indexes, once a minute and at the end (pg_total_relation_size)",
    ),
    gauge("database.bytes", "", "bytes", "size of the database, once a minute (pg_database_size)"),
    counter("pgdyno.cpu", "", "s", "CPU time of pgdyno's own process, without the driver (getrusage)"),
    gauge("pooler.clients", "state", "1", "`active` clients of our pooler, and those `waiting` (SHOW POOLS)"),
    gauge("pooler.servers", "state", "1", "its connections in use (`active`), and `idle` (SHOW POOLS)"),
    gauge("pooler.max_wait", "", "s", "longest wait of a client at this moment (SHOW POOLS)"),
    counter("pooler.wait", "", "s", "summed time that clients waited for a connection (SHOW STATS)"),
    counter("pooler.transactions", "", "1", "transactions through our pooler (SHOW STATS)"),
    counter(
        "host.process_cpu",
        "process",
        "s",
        "CPU time of processes other than the server, pgdyno, its driver and a pooler, by name: the five \
         with the most, each above 1 % of a processor. That of one that has ended belongs to whoever waited \
         for it (/proc/PID/stat)",
    ),
    counter("watch.cpu", "", "s", "CPU time of `pgdyno watch` on the server's host (getrusage)"),
    counter(
        "driver.run_delay",
        "",
        "s",
        "summed time in which the driver's threads could run and did not (/proc/PID/task/TID/schedstat)",
    ),
    counter("driver.cpu.user", "", "s", "user time of the driver (getrusage)"),
    counter("driver.cpu.system", "", "s", "kernel time of the driver (getrusage)"),
    counter("driver.remote_cpu", "driver", "s", "CPU time of a driver on another machine (getrusage)"),
    counter("driver.thread_cpu", "thread", "s", "CPU time of a driver thread (CLOCK_THREAD_CPUTIME_ID)"),
    counter(
        "driver.thread_polling",
        "thread",
        "s",
        "time that a driver thread was awake without news (busy_poll_us)",
    ),
    gauge("driver.loop_max", "thread", "s", "longest turn of a thread's event loop, waiting excluded"),
    counter(
        "driver.server_transactions",
        "",
        "1",
        "transactions that the server reported as ended (ReadyForQuery outside of a transaction)",
    ),
    gauge("driver.in_flight", "", "1", "transactions in flight"),
    gauge("driver.connected", "", "1", "clients with a connection"),
    gauge("driver.backlog", "", "1", "transactions due and not yet started (open loop)"),
    gauge("driver.memory", "", "bytes", "resident memory of the driver (/proc/self/statm)"),
];
