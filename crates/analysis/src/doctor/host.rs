//! Rows of the machine: processors, clocks, limits.

use super::{DoctorRow, DoctorVerdict, Examined, HostOf, Look, RowScope, RowVerdict, either};
use crate::findings::{FAST_CLOCKS, FOREIGN_STRETCH, STEADY_GOVERNORS};

/// A row of the host without anything that pgdyno can set.
pub(super) const HOST: DoctorRow = DoctorRow {
    id: "",
    scope: RowScope::Host,
    for_driver: false,
    wanted: "",
    why: "",
    source: "",
    fix: "",
    knob: None,
    judge: |_| RowVerdict { verdict: DoctorVerdict::Fine, found: String::new(), fix: None },
};

/// Load average, as a share of the processors, from which on others work, and the least that is reported.
const LOAD_SHARE: f64 = 0.1;
const LOAD_MIN: f64 = 0.3;
/// Load average, as a share of the processors, above which foreign-cpu will cast doubt on runs: a fifth of it is enough
/// for its share of 5 s. The rest may wait for disks, which counts as load too, or may have ended within the last minute.
const LOAD_SHARE_DOUBT: f64 = 5.0 * FOREIGN_STRETCH;

pub(super) const QUIET: DoctorRow = DoctorRow {
    id: "quiet",
    for_driver: true,
    wanted: "a load average below a tenth of the processors (0.3 on small machines)",
    why: "Foreign work on the processors explained most differences between identical runs.",
    source: "A/A study; thresholds are our convention: doubt above half of the processors, five times \
             foreign-cpu's 10 %, as not all load is processor time",
    fix: "wait, or stop what keeps the processors busy: top -o %CPU shows it",
    judge: |e| either(quiet(e)),
    ..HOST
};

fn quiet(e: &Examined) -> Look {
    let text = e.fact("load_average")?;
    let load: Option<f64> = text.split(' ').next().and_then(|load| load.parse().ok());
    let load = load.ok_or_else(|| RowVerdict::unseen(format!("`{text}` is no load average")))?;
    let n = f64::from(e.host.n_cpus);
    let found = format!("a load average of {load:.2} on {n:.0} processors");
    let verdict = if load > LOAD_SHARE_DOUBT * n { DoctorVerdict::Doubt } else { DoctorVerdict::Advice };
    Ok(RowVerdict::unless(load <= (LOAD_SHARE * n).max(LOAD_MIN), verdict, found))
}

pub(super) const CPU_QUOTA: DoctorRow = DoctorRow {
    id: "cpu-quota",
    for_driver: true,
    wanted: "no quota below the number of processors",
    why: "A throttled group stands still until the next period: the number is that of the quota.",
    source: "the kernel's sched-bwc documentation",
    fix: "raise or remove cpu.max, cpu.cfs_quota_us, CPUQuota= or --cpus",
    judge: cpu_quota,
    ..HOST
};

/// The server's limit, or our own where it would be inherited.
fn limit(e: &Examined, name: &str) -> Option<f64> {
    let of_server = e.host.facts.get(&format!("server_{name}"));
    let own = || e.host.facts.get(name).filter(|_| e.host_of != HostOf::Server);
    of_server.or_else(own)?.parse().ok()
}

fn cpu_quota(e: &Examined) -> RowVerdict {
    match limit(e, "cgroup_cpu_max") {
        None => RowVerdict::fine("none"),
        Some(quota) => {
            let found = format!("a control group may use {quota:.2} of {} processors", e.host.n_cpus);
            RowVerdict::unless(quota >= f64::from(e.host.n_cpus), DoctorVerdict::Advice, found)
        }
    }
}

pub(super) const MEMORY_LIMIT: DoctorRow = DoctorRow {
    id: "memory-limit",
    for_driver: true,
    wanted: "no limit of a control group below the machine's memory",
    why: "The page cache counts: files are read again and processes killed while the machine has memory.",
    source: "the kernel's cgroup-v2.rst, memory.max",
    fix: "raise or remove memory.max, memory.limit_in_bytes, MemoryMax= or --memory",
    judge: memory_limit,
    ..HOST
};

fn memory_limit(e: &Examined) -> RowVerdict {
    match limit(e, "cgroup_memory_max_bytes").filter(|bytes| *bytes < e.host.memory_bytes as f64) {
        None => RowVerdict::fine("none"),
        Some(bytes) => RowVerdict::new(
            DoctorVerdict::Advice,
            format!("{} of {}", mib(bytes), mib(e.host.memory_bytes as f64)),
        ),
    }
}

pub(super) fn mib(bytes: f64) -> String {
    model::text::prose::bytes(bytes)
}

pub(super) const CPU_GOVERNOR: DoctorRow = DoctorRow {
    id: "cpu-governor",
    for_driver: true,
    wanted: "performance",
    why: "The same work takes longer on a processor that was idle: low loads look slower than they are.",
    source: "tuned 2bfa442, profile postgresql; kernel documentation, CPU performance scaling",
    fix: "cpupower frequency-set -g performance, or --apply",
    knob: Some(("cpu_governor", &["performance"])),
    judge: |e| {
        let found = e.host.facts.get("cpu_governor");
        let hidden = "no frequency scaling is visible, as in most virtual machines";
        found.map_or(RowVerdict::unseen(hidden), |governor| {
            RowVerdict::unless(
                STEADY_GOVERNORS.contains(&governor.as_str()),
                DoctorVerdict::Advice,
                governor.as_str(),
            )
        })
    },
    ..HOST
};

/// Exit latency of the shallowest real idle state (C1) of most processors, microseconds.
const IDLE_US_MAX: f64 = 2.0;

pub(super) const CPU_IDLE: DoctorRow = DoctorRow {
    id: "cpu-idle",
    for_driver: true,
    wanted: "idle states that end within 2 us (C1)",
    why: "A deeply sleeping processor adds its waking to each message between client and server.",
    source: "tuned 2bfa442, profile postgresql: force_latency = 1",
    fix: "cpupower idle-set -D 3, or tuned-adm profile postgresql",
    judge: |e| {
        let hidden = "no idle states are visible, as in most virtual machines";
        either(e.number("cpu_idle_latency_us").map_err(|_| RowVerdict::unseen(hidden)).map(|us| {
            RowVerdict::unless(
                us <= IDLE_US_MAX,
                DoctorVerdict::Advice,
                format!("the deepest idle state takes {us:.0} us to end"),
            )
        }))
    },
    ..HOST
};

/// Time of a reading of the clock from which on timing costs, seconds: pg_test_timing's documentation calls less good.
const CLOCK_S_MAX: f64 = 100e-9;

pub(super) const CLOCK: DoctorRow = DoctorRow {
    id: "clock",
    for_driver: true,
    wanted: "tsc or the hypervisor's own fast clock, below 100 ns a reading",
    why: "Another clock costs each timestamp a system call or an exit to the hypervisor, in driver and server.",
    source: "PostgreSQL documentation, pg_test_timing; vdso(7)",
    fix: "boot with clocksource=tsc if /sys/devices/system/clocksource/clocksource0/available_clocksource has it",
    judge: |e| either(clock(e)),
    ..HOST
};

fn clock(e: &Examined) -> Look {
    let source = e.fact("clocksource")?;
    let is_fast = FAST_CLOCKS.contains(&source);
    let found = match e.clock_s {
        Some(s) => format!("{source}, {:.0} ns a reading", s * 1e9),
        None => source.to_string(),
    };
    Ok(RowVerdict::unless(is_fast && e.clock_s.is_none_or(|s| s < CLOCK_S_MAX), DoctorVerdict::Advice, found))
}

/// A kernel switch that should be off.
fn off(e: &Examined, name: &str) -> RowVerdict {
    either(e.fact(name).map(|value| RowVerdict::unless(value == "0", DoctorVerdict::Advice, value)))
}

pub(super) const SCHED_AUTOGROUP: DoctorRow = DoctorRow {
    id: "sched-autogroup",
    for_driver: true,
    wanted: "kernel.sched_autogroup_enabled = 0",
    why: "Terminals share processor time first: a server started from one gets as much as one shell.",
    source: "tuned 2bfa442, profile postgresql; postgres-ai howto 88",
    fix: "sysctl -w kernel.sched_autogroup_enabled=0",
    judge: |e| off(e, "sched_autogroup"),
    ..HOST
};

pub(super) const NUMA_BALANCING: DoctorRow = DoctorRow {
    id: "numa-balancing",
    wanted: "kernel.numa_balancing = 0 on several nodes",
    why: "The kernel moves shared memory between nodes while sessions of all nodes use it.",
    source: "tuned 2bfa442, profile postgresql; postgres-ai howto 88",
    fix: "sysctl -w kernel.numa_balancing=0",
    judge: |e| match e.host.n_numa_nodes {
        0 | 1 => RowVerdict::fine("one NUMA node"),
        _ => off(e, "numa_balancing"),
    },
    ..HOST
};

/// Files that a process of the server has open besides those of tables.
const OPEN_FILES_MORE: f64 = 24.0;

pub(super) const OPEN_FILES: DoctorRow = DoctorRow {
    id: "open-files",
    wanted: "a limit above max_files_per_process (with io_uring, plus max_connections)",
    why: "A session with fewer opens and closes files all the time.",
    source: "PostgreSQL documentation, kernel resources, max_files_per_process",
    fix: "LimitNOFILE= of the service, or ulimit -n",
    judge: |e| either(open_files(e)),
    ..HOST
};

fn open_files(e: &Examined) -> Look {
    if e.host_of == HostOf::ThisMachine {
        return Ok(RowVerdict::unseen("no server was named"));
    }
    let limit = e.fact("server_open_files")?;
    let is_ring = e.setting("io_method") == Ok("io_uring");
    let needed = e.number_setting("max_files_per_process")?
        + OPEN_FILES_MORE
        + if is_ring { e.number_setting("max_connections")? } else { 0.0 };
    let is_enough = limit.parse::<f64>().map_or(limit == "unlimited", |limit| limit >= needed);
    Ok(RowVerdict::unless(
        is_enough,
        DoctorVerdict::Advice,
        format!("{limit}, of which {needed:.0} are needed"),
    ))
}

const SOMAXCONN_MIN: f64 = 1024.0;

pub(super) const SOMAXCONN: DoctorRow = DoctorRow {
    id: "somaxconn",
    wanted: "net.core.somaxconn of at least 1024",
    why: "When the queue is full, simultaneous connections are refused or tried again after a second.",
    source: "study of releases: 1024; tuned 2bfa442, throughput-performance: 2048; postgres-ai howto 88: \
             65535",
    fix: "sysctl -w net.core.somaxconn=4096, or --apply",
    knob: Some(("somaxconn", &["4096"])),
    judge: |e| {
        either(
            e.number("somaxconn")
                .map(|n| RowVerdict::unless(n >= SOMAXCONN_MIN, DoctorVerdict::Advice, format!("{n:.0}"))),
        )
    },
    ..HOST
};

/// Users below are the system's, whose objects logind leaves alone (logind.conf(5); SYS_UID_MAX).
const SYSTEM_UIDS: u32 = 1000;

pub(super) const REMOVE_IPC: DoctorRow = DoctorRow {
    id: "remove-ipc",
    wanted: "RemoveIPC=no, or a server that runs as a system user",
    why: "When the last session of the server's user ends, logind removes the server's shared memory.",
    source: "PostgreSQL documentation, systemd RemoveIPC",
    fix: "RemoveIPC=no in /etc/systemd/logind.conf, then restart systemd-logind",
    judge: remove_ipc,
    ..HOST
};

fn remove_ipc(e: &Examined) -> RowVerdict {
    let uid = e.host.facts.get("server_uid").and_then(|uid| uid.parse::<u32>().ok());
    match (e.host.facts.get("remove_ipc").map(String::as_str), uid) {
        (None, _) => RowVerdict::fine("no logind runs"),
        (Some("no"), _) => RowVerdict::fine("no"),
        (Some(_), Some(uid)) if uid < SYSTEM_UIDS => {
            RowVerdict::fine("yes, and the server runs as a system user")
        }
        (Some(_), Some(uid)) => {
            RowVerdict::new(DoctorVerdict::Doubt, format!("yes, and the server runs as user {uid}"))
        }
        (Some(_), None) => RowVerdict::unseen("yes; whose server it would concern is not known"),
    }
}
