//! Rows of memory: pages, what is written back and when, shared buffers.

use super::host::{HOST, mib};
use super::{DoctorRow, DoctorVerdict, Examined, Look, RowScope, RowVerdict, either, value};

/// Shared memory from which on huge pages pay (pgtune), bytes.
const HUGE_FROM: f64 = 2_147_483_648.0;

pub(super) const HUGE_PAGES: DoctorRow = DoctorRow {
    id: "huge-pages",
    wanted: "huge pages for all shared memory of 2 GB and more",
    why: "Each session maps shared memory with its own 4 kB pages: page tables and misses grow with both.",
    source: "study of releases; postgresqltuner 288bce8; pgtune 7caef27: from 2 GB; Callaghan's sysbench settings: off",
    fix: "sysctl -w vm.nr_hugepages=N for shared_memory_size_in_huge_pages (15 and later), and restart the server",
    judge: |e| either(huge_pages(e)),
    ..HOST
};

fn huge_pages(e: &Examined) -> Look {
    if e.server.is_none() {
        return Ok(RowVerdict::unseen("how many depends on a server, and none was named"));
    }
    let is_try = |value: &str| value != "off";
    let (wanted, status) = (e.setting("huge_pages")?, e.setting("huge_pages_status").ok());
    let page = e.number("huge_page_bytes")?;
    let total = e.number("huge_pages_total")?;
    let by_server = e.setting("shared_memory_size_in_huge_pages").ok().and_then(|n| n.parse::<f64>().ok());
    let by_peak = || Some(e.number("server_virtual_peak_bytes").ok()? / page);
    let needed = by_server.filter(|n| *n > 0.0).or_else(by_peak);
    let needed = needed.ok_or_else(|| RowVerdict::unseen("how many the server needs is not visible"))?.ceil();
    if status == Some("on") {
        return Ok(RowVerdict::fine(format!("{needed:.0} pages are in use")));
    }
    if needed * page < HUGE_FROM {
        return Ok(RowVerdict::fine(format!("{} of shared memory need none", mib(needed * page))));
    }
    let found = format!("{total:.0} pages are reserved, the server needs {needed:.0}; huge_pages = {wanted}");
    let fix = format!("sysctl -w vm.nr_hugepages={needed:.0}; huge_pages = try; and restart the server");
    // It began before they were reserved.
    let is_late = status == Some("off");
    let is_set = total >= needed && is_try(wanted) && !is_late;
    Ok(RowVerdict::unless(is_set, DoctorVerdict::Advice, found).fix(fix))
}

pub(super) const THP: DoctorRow = DoctorRow {
    id: "thp",
    wanted: "never (or madvise, which PostgreSQL does not ask for)",
    why: "The kernel joins and splits pages meanwhile: latency has spikes that no setting explains.",
    source: "study of releases; tuned 2bfa442, profile postgresql; postgres-ai howto 88",
    fix: "echo never > /sys/kernel/mm/transparent_hugepage/enabled, or --apply",
    knob: Some(("transparent_huge_pages", &["never"])),
    judge: |e| {
        either(
            e.fact("transparent_hugepage")
                .map(|value| RowVerdict::unless(value != "always", DoctorVerdict::Advice, value)),
        )
    },
    ..HOST
};

pub(super) const THP_DEFRAG: DoctorRow = DoctorRow {
    id: "thp-defrag",
    wanted: "not always",
    why: "A process that wants a large page stops until memory is compacted.",
    source: "study of releases; tuned 2bfa442, profile postgresql",
    fix: "echo never > /sys/kernel/mm/transparent_hugepage/defrag",
    judge: |e| {
        either(
            e.fact("transparent_hugepage_defrag")
                .map(|value| RowVerdict::unless(value != "always", DoctorVerdict::Advice, value)),
        )
    },
    ..HOST
};

const SWAPPINESS_MAX: f64 = 10.0;

pub(super) const SWAPPINESS: DoctorRow = DoctorRow {
    id: "swappiness",
    wanted: "vm.swappiness of at most 10",
    why: "The kernel swaps parts of the server out to cache files that are read once.",
    source: "study of provisioned IOPS: 0; study of releases, postgres-ai howto 88: 1; tuned 2bfa442: 3, throughput-performance: 10",
    fix: "sysctl -w vm.swappiness=1, or --apply",
    knob: Some(("swappiness", &["1"])),
    judge: |e| either(swappiness(e)),
    ..HOST
};

fn swappiness(e: &Examined) -> Look {
    if e.number("swap_bytes") == Ok(0.0) {
        return Ok(RowVerdict::fine("there is no swap"));
    }
    e.number("swappiness")
        .map(|n| RowVerdict::unless(n <= SWAPPINESS_MAX, DoctorVerdict::Advice, format!("{n:.0}")))
}

pub(super) const OVERCOMMIT: DoctorRow = DoctorRow {
    id: "overcommit",
    wanted: "vm.overcommit_memory = 2 with a CommitLimit above what all programs reserve",
    why: "Out of memory, the kernel kills a server process, and the server restarts; with 2 a statement \
          fails instead.",
    source: "PostgreSQL documentation, Linux memory overcommit; postgresqltuner 288bce8; postgres-ai howto \
             88",
    fix: "raise vm.overcommit_ratio until CommitLimit in /proc/meminfo is far above Committed_AS, then set \
          2; --apply does not",
    judge: |e| either(overcommit(e)),
    ..HOST
};

fn overcommit(e: &Examined) -> Look {
    let mode = e.fact("overcommit_memory")?;
    let (limit, used) = (e.number("commit_limit_bytes"), e.number("committed_bytes"));
    let room = match (limit, used) {
        (Ok(limit), Ok(used)) => format!("; with 2, {} of {} would be taken", mib(used), mib(limit)),
        _ => String::new(),
    };
    Ok(RowVerdict::unless(mode == "2", DoctorVerdict::Advice, format!("{mode}{room}")))
}

pub(super) const DIRTY_BACKGROUND: DoctorRow = DoctorRow {
    id: "dirty-background",
    wanted: "writing back begins at 64 MiB",
    why: "The kernel collects a checkpoint's pages and writes them at once: commits wait behind them.",
    source: "tuned 2bfa442, profile postgresql; postgres-ai howto 88",
    fix: "sysctl -w vm.dirty_background_bytes=67108864",
    judge: |e| either(dirty(e, "dirty_background", 64.0)),
    ..HOST
};

pub(super) const DIRTY: DoctorRow = DoctorRow {
    id: "dirty",
    wanted: "writers wait from 512 MiB of unwritten pages on",
    why: "Above it, writers wait for the device: the more was collected, the longer.",
    source: "tuned 2bfa442, profile postgresql; postgres-ai howto 88",
    fix: "sysctl -w vm.dirty_bytes=536870912",
    judge: |e| either(dirty(e, "dirty", 512.0)),
    ..HOST
};

/// Bytes count if they are set; else the kernel takes a part of the memory.
fn dirty(e: &Examined, name: &str, mib_max: f64) -> Look {
    let bytes = e.number(&format!("{name}_bytes"))?;
    let (bytes, how) = if bytes > 0.0 {
        (bytes, format!("vm.{name}_bytes"))
    } else {
        let ratio = e.number(&format!("{name}_ratio"))?;
        (ratio / 100.0 * e.host.memory_bytes as f64, format!("vm.{name}_ratio = {ratio:.0}"))
    };
    let is_fine = bytes <= mib_max * 1_048_576.0;
    Ok(RowVerdict::unless(is_fine, DoctorVerdict::Advice, format!("{} ({how})", mib(bytes))))
}

pub(super) const ZONE_RECLAIM: DoctorRow = DoctorRow {
    id: "zone-reclaim",
    wanted: "vm.zone_reclaim_mode = 0",
    why: "A node drops cached files although another has free memory.",
    source: "postgres-ai howto 88; the kernel's admin-guide/sysctl/vm",
    fix: "sysctl -w vm.zone_reclaim_mode=0",
    judge: |e| {
        either(
            e.fact("zone_reclaim_mode")
                .map(|value| RowVerdict::unless(value == "0", DoctorVerdict::Advice, value)),
        )
    },
    ..HOST
};

/// The kernel's default.
const MAPS_MIN: f64 = 65_530.0;

pub(super) const MAX_MAP_COUNT: DoctorRow = DoctorRow {
    id: "max-map-count",
    wanted: "vm.max_map_count of at least the kernel's default, 65530",
    why: "A process with more mappings gets no memory; PostgreSQL's have some hundred.",
    source: "the kernel's admin-guide/sysctl/vm; study of releases: 3112960",
    fix: "sysctl -w vm.max_map_count=65530, or --apply",
    knob: Some(("max_map_count", &["65530"])),
    judge: |e| {
        either(
            e.number("max_map_count")
                .map(|n| RowVerdict::unless(n >= MAPS_MIN, DoctorVerdict::Advice, format!("{n:.0}"))),
        )
    },
    ..HOST
};

/// Shares of memory between which shared buffers are usual.
const BUFFERS: std::ops::RangeInclusive<f64> = 0.15..=0.40;
/// Default of initdb, bytes.
const BUFFERS_DEFAULT: f64 = 134_217_728.0;

pub(super) const SHARED_BUFFERS: DoctorRow = DoctorRow {
    id: "shared-buffers",
    scope: RowScope::Server,
    wanted: "a quarter of the memory, and not above 40 %",
    why: "Pages outside it are copied from the kernel's cache or read; too much is missing elsewhere.",
    source: "PostgreSQL documentation, pgtune 7caef27, study of releases, EDB's study: 25 %; postgresqltuner 288bce8 warns above 40 % \
             (HammerDB study: 43 %)",
    fix: "alter system set shared_buffers = '25 % of the memory'; and restart the server",
    judge: |e| either(shared_buffers(e)),
    ..HOST
};

fn shared_buffers(e: &Examined) -> Look {
    let (text, bytes) = e.size("shared_buffers")?;
    match e.server_memory() {
        Some(memory) => {
            let found = format!("{text}, {:.0} % of {}", 100.0 * bytes / memory, mib(memory));
            let fix = value::restart("shared_buffers", &value::size(memory / 4.0));
            Ok(RowVerdict::unless(BUFFERS.contains(&(bytes / memory)), DoctorVerdict::Advice, found).fix(fix))
        }
        None if bytes <= BUFFERS_DEFAULT => {
            Ok(RowVerdict::new(DoctorVerdict::Advice, format!("{text}, which is initdb's default")))
        }
        None => Ok(RowVerdict::unseen(format!("{text} of a memory that is not visible"))),
    }
}
