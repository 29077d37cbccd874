//! Rows of plans, reads ahead, and work in the background.

use super::data::is_rotational;
use super::host::mib;
use super::truth::SERVER;
use super::{DoctorRow, DoctorVerdict, Examined, Look, RowVerdict, either, value};

/// Part of the memory from which on the planner's idea of the cache is near the truth.
const CACHE_MIN: f64 = 0.5;

pub(super) const EFFECTIVE_CACHE_SIZE: DoctorRow = DoctorRow {
    id: "effective-cache-size",
    wanted: "three quarters of the memory",
    why: "The planner overestimates the cost of index scans.",
    source: "pgtune 7caef27: 75 %",
    fix: "alter system set effective_cache_size = '75 % of the memory'; select pg_reload_conf();",
    judge: |e| either(cache(e)),
    ..SERVER
};

fn cache(e: &Examined) -> Look {
    let (text, bytes) = e.size("effective_cache_size")?;
    let memory = e
        .server_memory()
        .ok_or_else(|| RowVerdict::unseen(format!("{text} of a memory that is not visible")))?;
    let share = bytes / memory;
    let found = format!("{text}, {:.0} % of {}", 100.0 * share, mib(memory));
    let fix = value::reload("effective_cache_size", &value::size(0.75 * memory));
    Ok(RowVerdict::unless((CACHE_MIN..=1.0).contains(&share), DoctorVerdict::Advice, found).fix(fix))
}

/// Judges a setting that depends on the kind of disk: rotating ones want the default.
fn by_disk(e: &Examined, name: &str, is_fine: impl Fn(f64) -> bool) -> Look {
    let text = e.setting(name)?;
    let number: f64 = text.parse().map_err(|_| RowVerdict::unseen(format!("`{text}` is no number")))?;
    let (rotates, disk) = match is_rotational(e) {
        Some(true) => (true, "on rotating disks"),
        Some(false) => (false, "on solid-state disks"),
        None => (false, "if the data is on solid-state disks"),
    };
    Ok(RowVerdict::unless(rotates || is_fine(number), DoctorVerdict::Advice, format!("{text} {disk}")))
}

pub(super) const RANDOM_PAGE_COST: DoctorRow = DoctorRow {
    id: "random-page-cost",
    wanted: "1.1 on solid-state disks",
    why: "With 4, the planner scans tables where an index is faster.",
    source: "EDB's study, study of provisioned IOPS: 1; pgtune 7caef27, HammerDB study: 1.1",
    fix: "alter system set random_page_cost = 1.1; select pg_reload_conf();",
    judge: |e| either(by_disk(e, "random_page_cost", |cost| cost <= 1.5)),
    ..SERVER
};

pub(super) const IO_CONCURRENCY: DoctorRow = DoctorRow {
    id: "io-concurrency",
    wanted: "effective_io_concurrency = 200 on solid-state disks, 1000 on NVMe",
    why: "Bitmap scans and, since 18, all reads ahead leave the disk idle between requests.",
    source: "pgtune 7caef27: 200, 1000 on NVMe; study of releases, EDB's study: 200",
    fix: "alter system set effective_io_concurrency = 200; select pg_reload_conf();",
    judge: |e| either(by_disk(e, "effective_io_concurrency", |n| n >= 200.0)),
    ..SERVER
};

pub(super) const IO_METHOD: DoctorRow = DoctorRow {
    id: "io-method",
    wanted: "io_uring, if the build has it",
    why: "Otherwise a few worker processes read ahead, or nothing does.",
    source: "pgtune 7caef27; PostgreSQL documentation, io_method (since 18)",
    fix: "alter system set io_method = 'io_uring'; and restart the server",
    judge: |e| either(io_method(e)),
    ..SERVER
};

fn io_method(e: &Examined) -> Look {
    let method = e.setting("io_method")?;
    let build = e.server.and_then(|server| server.build.get("CONFIGURE"));
    let has_ring = build.is_some_and(|flags| flags.contains("liburing"));
    Ok(match (method, has_ring) {
        ("io_uring", _) => RowVerdict::fine(method),
        ("worker", false) => RowVerdict::fine("worker; the build has no io_uring, or does not say"),
        ("sync", false) => {
            RowVerdict::new(DoctorVerdict::Advice, "sync; the build has no io_uring, or does not say")
                .fix(value::restart("io_method", "worker"))
        }
        _ => RowVerdict::new(DoctorVerdict::Advice, method),
    })
}

pub(super) const JIT: DoctorRow = DoctorRow {
    id: "jit",
    wanted: "off for short transactions",
    why: "A plan with a high estimated cost is compiled first, which takes longer than most short \
          statements.",
    source: "pgtune 7caef27",
    fix: "alter system set jit = off; select pg_reload_conf();",
    judge: |e| {
        either(e.setting("jit").map(|value| RowVerdict::unless(value == "off", DoctorVerdict::Advice, value)))
    },
    ..SERVER
};

/// The default, below which sorts and hashes of a few thousand rows go to disk.
const WORK_MEM_MIN: f64 = 4_194_304.0;

pub(super) const WORK_MEM: DoctorRow = DoctorRow {
    id: "work-mem",
    wanted: "4 MB or more",
    why: "Sorts and hashes that would fit into memory go to disk.",
    source: "PostgreSQL documentation, work_mem: the default",
    fix: "alter system set work_mem = '4MB'; select pg_reload_conf();",
    judge: |e| {
        either(
            e.size("work_mem")
                .map(|(text, bytes)| RowVerdict::unless(bytes >= WORK_MEM_MIN, DoctorVerdict::Advice, text)),
        )
    },
    ..SERVER
};

/// Settings that keep the planner from ways that it would choose, and are on by default in every release that has them.
const PLANNER_METHODS: [&str; 13] = [
    "enable_async_append",
    "enable_bitmapscan",
    "enable_gathermerge",
    "enable_hashagg",
    "enable_hashjoin",
    "enable_indexonlyscan",
    "enable_indexscan",
    "enable_material",
    "enable_memoize",
    "enable_mergejoin",
    "enable_nestloop",
    "enable_seqscan",
    "enable_sort",
];

pub(super) const PLANNER_METHODS_ON: DoctorRow = DoctorRow {
    id: "planner-methods",
    wanted: "enable_seqscan, enable_indexscan and the like are on",
    why: "They are for trying a single query: with one off, all plans avoid what would often be best.",
    source: "PostgreSQL documentation, planner method configuration",
    fix: "alter system set enable_seqscan = on; select pg_reload_conf();",
    judge: |e| either(methods(e)),
    ..SERVER
};

fn methods(e: &Examined) -> Look {
    // That no server was named, or that this role sees none of them.
    e.setting(PLANNER_METHODS[1])?;
    let off: Vec<&str> = PLANNER_METHODS
        .into_iter()
        .filter(|name| e.setting(name).is_ok_and(|value| value == "off"))
        .collect();
    if off.is_empty() {
        return Ok(RowVerdict::fine("all are on"));
    }
    let fix: String = off.iter().map(|name| format!("alter system set {name} = on; ")).collect();
    let found = format!("off: {}", off.join(", "));
    Ok(RowVerdict::new(DoctorVerdict::Advice, found).fix(format!("{fix}select pg_reload_conf();")))
}

pub(super) const AUTOVACUUM: DoctorRow = DoctorRow {
    id: "autovacuum",
    wanted: "on, as in production (HammerDB study: off after a vacuum)",
    why: "Without it, tables grow during the measurement, and nobody could keep such a server running.",
    source: "PostgreSQL documentation, routine vacuuming",
    fix: "alter system set autovacuum = on; select pg_reload_conf();",
    judge: |e| {
        either(
            e.setting("autovacuum")
                .map(|value| RowVerdict::unless(value == "on", DoctorVerdict::Advice, value)),
        )
    },
    ..SERVER
};

const NAPTIME_S_MAX: f64 = 10.0;

pub(super) const AUTOVACUUM_NAPTIME: DoctorRow = DoctorRow {
    id: "autovacuum-naptime",
    wanted: "10 s for loads that change much",
    why: "Rare large vacuums differ between runs; frequent small ones are part of each.",
    source: "Callaghan's sysbench settings",
    fix: "alter system set autovacuum_naptime = '10s'; select pg_reload_conf();",
    judge: |e| {
        either(e.setting("autovacuum_naptime").map(|text| {
            RowVerdict::unless(
                value::seconds(text).is_some_and(|s| s <= NAPTIME_S_MAX),
                DoctorVerdict::Advice,
                text,
            )
        }))
    },
    ..SERVER
};

pub(super) const BGWRITER: DoctorRow = DoctorRow {
    id: "bgwriter",
    wanted: "bgwriter_lru_maxpages = 1000 and more, or 0: sources disagree",
    why: "With 100, the background writer stops at 4 MB/s, and sessions write the rest.",
    source: "Callaghan's sysbench settings: 2000; HammerDB study: 0",
    fix: "alter system set bgwriter_lru_maxpages = 1000; select pg_reload_conf();",
    judge: |e| {
        either(e.setting("bgwriter_lru_maxpages").map(|text| {
            let is_chosen = text.parse::<f64>().is_ok_and(|n| n == 0.0 || n >= 1000.0);
            RowVerdict::unless(is_chosen, DoctorVerdict::Advice, text)
        }))
    },
    ..SERVER
};
