//! Each row with what makes it fine and what does not; links between rows, findings and limiters.

use std::collections::{BTreeMap, BTreeSet};

use model::run::host::{HostRecord, MountRecord};
use model::run::rights::RoleRights;
use model::run::server::{Route, ServerRecord, Setting};

use super::sight::SIGHTS;
use super::*;
use crate::findings::{CATALOGUE, DOCTOR_ROWS};
use crate::summary::limiter::Bottleneck;

/// Everything that is judged, to be changed by a test.
struct Case {
    host: HostRecord,
    host_of: HostOf,
    missing: BTreeMap<String, String>,
    server: Option<ServerRecord>,
    rights: RoleRights,
    n_sessions: Option<u32>,
    clock_s: Option<f64>,
}

fn texts<V: From<String>>(pairs: &[(&str, &str)], value: impl Fn(String) -> V) -> BTreeMap<String, V> {
    pairs.iter().map(|(name, text)| (name.to_string(), value(text.to_string()))).collect()
}

impl Case {
    /// A server of 15 with 64 GiB on this machine, with nothing in its favour or against it.
    fn new() -> Case {
        let mount = |device: &str| MountRecord {
            device: device.to_string(),
            fs_type: "ext4".to_string(),
            mount_point: format!("/{device}"),
            total_bytes: 1 << 40,
            free_bytes: 1 << 39,
            ..MountRecord::default()
        };
        Case {
            host: HostRecord {
                n_cpus: 16,
                n_numa_nodes: 2,
                memory_bytes: 64 << 30,
                mounts: BTreeMap::from([
                    ("data".to_string(), mount("nvme0n1")),
                    ("wal".to_string(), mount("nvme1n1")),
                ]),
                ..HostRecord::default()
            },
            host_of: HostOf::Server,
            missing: BTreeMap::new(),
            server: Some(ServerRecord { version_num: 150_018, ..ServerRecord::default() }),
            rights: RoleRights::new(),
            n_sessions: Some(3),
            clock_s: None,
        }
    }

    fn with_facts(mut self, facts: &[(&str, &str)]) -> Case {
        self.host.facts.extend(texts(facts, |text| text));
        self
    }

    fn with_settings(mut self, settings: &[(&str, &str)]) -> Case {
        let setting = |value| Setting { value, source: String::new() };
        let all: BTreeMap<String, Setting> =
            settings.iter().map(|(name, value)| (name.to_string(), setting(value.to_string()))).collect();
        self.server.get_or_insert_default().settings.extend(all);
        self
    }

    fn with_mount(mut self, role: &str, change: impl Fn(&mut MountRecord)) -> Case {
        change(self.host.mounts.get_mut(role).unwrap());
        self
    }

    fn diagnose(&self) -> Diagnosis {
        diagnose(&Examined {
            host: &self.host,
            host_of: self.host_of,
            missing: &self.missing,
            clock_s: self.clock_s,
            server: self.server.as_ref(),
            rights: &self.rights,
            n_sessions: self.n_sessions,
            names: &FixNames::default(),
        })
    }

    #[track_caller]
    fn check(self, id: &str, verdict: DoctorVerdict, found: &str) {
        let diagnosis = self.diagnose();
        let row = diagnosis.rows.iter().find(|row| row.id == id).unwrap();
        assert!(
            row.verdict == verdict && row.found.contains(found),
            "{id}: {:?}, {}",
            row.verdict,
            row.found
        );
    }
}

use DoctorVerdict::{Advice, Doubt, Fine, Unseen, Void};

#[test]
fn values_of_the_machine_are_judged() {
    let check = |id: &str, facts: &[(&str, &str)], verdict: DoctorVerdict, found: &str| {
        Case::new().with_facts(facts).check(id, verdict, found);
    };
    check("quiet", &[("load_average", "1.50 1 1 2/300 4")], Fine, "1.50 on 16");
    check("quiet", &[("load_average", "1.70 1 1 2/300 4")], Advice, "1.70");
    check("quiet", &[], Unseen, "does not show");
    check("cpu-quota", &[], Fine, "none");
    check("cpu-quota", &[("cgroup_cpu_max", "2")], Fine, "none");
    check("cpu-quota", &[("server_cgroup_cpu_max", "2")], Advice, "2.00 of 16");
    check(
        "memory-limit",
        &[("server_cgroup_memory_max_bytes", "1073741824")],
        Advice,
        "1.00 GiB of 64.0 GiB",
    );
    check("cpu-governor", &[("cpu_governor", "performance")], Fine, "performance");
    check("cpu-governor", &[("cpu_governor", "schedutil")], Advice, "schedutil");
    check("cpu-governor", &[], Unseen, "virtual machines");
    check("cpu-idle", &[("cpu_idle_latency_us", "2")], Fine, "2 us");
    check("cpu-idle", &[("cpu_idle_latency_us", "133")], Advice, "133 us");
    check("clock", &[("clocksource", "tsc")], Fine, "tsc");
    check("clock", &[("clocksource", "hpet")], Advice, "hpet");
    check("sched-autogroup", &[("sched_autogroup", "1")], Advice, "1");
    check("numa-balancing", &[("numa_balancing", "0")], Fine, "0");
    check("numa-balancing", &[("numa_balancing", "1")], Advice, "1");
    check("somaxconn", &[("somaxconn", "4096")], Fine, "4096");
    check("somaxconn", &[("somaxconn", "128")], Advice, "128");
    check("remove-ipc", &[], Fine, "no logind");
    check("remove-ipc", &[("remove_ipc", "yes"), ("server_uid", "115")], Fine, "system user");
    check("remove-ipc", &[("remove_ipc", "yes"), ("server_uid", "1000")], Doubt, "user 1000");
    check("thp", &[("transparent_hugepage", "madvise")], Fine, "madvise");
    check("thp", &[("transparent_hugepage", "always")], Advice, "always");
    check("thp-defrag", &[("transparent_hugepage_defrag", "always")], Advice, "always");
    check("swappiness", &[("swap_bytes", "1"), ("swappiness", "60")], Advice, "60");
    check("swappiness", &[("swap_bytes", "1"), ("swappiness", "10")], Fine, "10");
    check("swappiness", &[("swap_bytes", "0"), ("swappiness", "60")], Fine, "no swap");
    check("overcommit", &[("overcommit_memory", "2")], Fine, "2");
    check("overcommit", &[("overcommit_memory", "0")], Advice, "0");
    let ratio = [("dirty_background_bytes", "0"), ("dirty_background_ratio", "10")];
    check("dirty-background", &ratio, Advice, "6.40 GiB");
    check("dirty-background", &[("dirty_background_bytes", "67108864")], Fine, "64.0 MiB");
    check("dirty", &[("dirty_bytes", "1073741824")], Advice, "1.00 GiB");
    check("zone-reclaim", &[("zone_reclaim_mode", "1")], Advice, "1");
    check("max-map-count", &[("max_map_count", "65530")], Fine, "65530");
    let mut slow = Case::new().with_facts(&[("clocksource", "tsc")]);
    slow.clock_s = Some(1.5e-7);
    slow.check("clock", Advice, "tsc, 150 ns");
    let files = Case::new().with_settings(&[("max_files_per_process", "1000"), ("max_connections", "100")]);
    files.with_facts(&[("server_open_files", "1024")]).check("open-files", Fine, "1024, of which 1024");
    let files = Case::new().with_settings(&[("max_files_per_process", "4000")]);
    files.with_facts(&[("server_open_files", "1024")]).check("open-files", Advice, "of which 4024");
}

#[test]
fn load_that_foreign_cpu_would_doubt_is_a_doubt() {
    for (n_cpus, load, verdict) in [
        (2, "0.29", Fine),
        (2, "0.40", Advice),
        (2, "1.00", Advice),
        (2, "4.20", Doubt),
        (16, "8.00", Advice),
        (16, "8.10", Doubt),
    ] {
        let mut case = Case::new().with_facts(&[("load_average", &format!("{load} 1 1 2/300 4"))]);
        case.host.n_cpus = n_cpus;
        case.check("quiet", verdict, &format!("a load average of {load} on {n_cpus} processors"));
    }
}

#[test]
fn huge_pages_are_judged_by_what_the_server_needs() {
    let machine =
        |total: &str| Case::new().with_facts(&[("huge_page_bytes", "2097152"), ("huge_pages_total", total)]);
    let needs = |n: &'static str| [("huge_pages", "try"), ("shared_memory_size_in_huge_pages", n)];
    machine("0").with_settings(&needs("70")).check("huge-pages", Fine, "140 MiB of shared memory need none");
    machine("0").with_settings(&needs("8200")).check(
        "huge-pages",
        Advice,
        "0 pages are reserved, the server needs 8200",
    );
    machine("8200").with_settings(&needs("8200")).check("huge-pages", Fine, "8200");
    // Reserved after the server had started.
    machine("8200").with_settings(&needs("8200")).with_settings(&[("huge_pages_status", "off")]).check(
        "huge-pages",
        Advice,
        "8200",
    );
    machine("0").with_settings(&needs("8200")).with_settings(&[("huge_pages_status", "on")]).check(
        "huge-pages",
        Fine,
        "in use",
    );
    // Before 15, the server's largest size says how many.
    let old = machine("0").with_settings(&[("huge_pages", "try")]);
    old.with_facts(&[("server_virtual_peak_bytes", "4294967297")]).check("huge-pages", Advice, "needs 2049");
    machine("0").with_settings(&[("huge_pages", "try")]).check("huge-pages", Unseen, "not visible");
}

#[test]
fn file_systems_and_devices_are_judged_by_role() {
    Case::new().check("file-system", Fine, "data: ext4 at /nvme0n1; wal: ext4 at /nvme1n1");
    let on_memory = Case::new().with_mount("wal", |mount| mount.fs_type = "tmpfs".to_string());
    on_memory.check("file-system", Doubt, "wal: is tmpfs, which is memory");
    let options = |options: &'static str| {
        Case::new().with_mount("data", move |mount| mount.options = options.to_string())
    };
    options("rw,nobarrier").check("barriers", Doubt, "data: mounted without barriers; wal: barriers");
    options("rw,nobarrier").check("file-system", Fine, "ext4");
    let quiet = |mount: &mut MountRecord| mount.options = "rw,relatime".to_string();
    Case::new().with_mount("data", quiet).with_mount("wal", quiet).check(
        "atime",
        Fine,
        "data, wal: relatime",
    );
    options("rw,noatime").check("atime", Advice, "wal: times of reads are written");
    Case::new().with_mount("wal", |mount| mount.free_bytes = 1 << 30).check(
        "disk-space",
        Doubt,
        "wal: 1.00 GiB",
    );
    let fact = |name: &'static str, value: &'static str| {
        move |mount: &mut MountRecord| drop(mount.facts.insert(name.to_string(), value.to_string()))
    };
    Case::new().with_mount("data", fact("read_ahead_kb", "128")).check(
        "read-ahead",
        Advice,
        "data: 128 kB (nvme0n1)",
    );
    Case::new().with_mount("data", fact("read_ahead_kb", "4096")).check("read-ahead", Fine, "4096 kB");
    Case::new().with_mount("data", fact("scheduler[sda]", "bfq")).check(
        "io-scheduler",
        Advice,
        "bfq (nvme0n1)",
    );
    Case::new().with_mount("data", fact("scheduler", "none")).check("io-scheduler", Fine, "none");
    Case::new().check("wal-apart", Fine, "WAL on nvme1n1");
    let together = Case::new().with_mount("wal", |mount| mount.device = "nvme0n1".to_string());
    together.check("wal-apart", Advice, "both on nvme0n1");
    let mut hidden = Case::new();
    hidden.host.mounts.clear();
    hidden.missing.insert("disk (data)".to_string(), "it is hidden".to_string());
    hidden.check("atime", Unseen, "it is hidden");
    let cost = |case: Case| case.with_settings(&[("random_page_cost", "4")]);
    cost(Case::new().with_mount("data", fact("rotational", "0"))).check(
        "random-page-cost",
        Advice,
        "4 on solid-state",
    );
    cost(Case::new().with_mount("data", fact("rotational", "1"))).check(
        "random-page-cost",
        Fine,
        "on rotating",
    );
    let as_virtual = |mount: &mut MountRecord| {
        mount.device = "vda".to_string();
        fact("rotational", "1")(mount);
    };
    cost(Case::new().with_mount("data", as_virtual)).check("random-page-cost", Advice, "if the data is on");
}

#[test]
fn planner_methods_that_are_off_are_named_with_what_resets_them() {
    let with = |settings: &[(&str, &str)]| Case::new().with_settings(settings);
    with(&[("enable_bitmapscan", "on"), ("enable_seqscan", "on")]).check(
        "planner-methods",
        Fine,
        "all are on",
    );
    let off = [("enable_bitmapscan", "on"), ("enable_seqscan", "off"), ("enable_sort", "off")];
    with(&off).check("planner-methods", Advice, "off: enable_seqscan, enable_sort");
}

#[test]
fn settings_are_judged() {
    let check = |name: &str, value: &str, id: &str, verdict: DoctorVerdict, found: &str| {
        Case::new().with_settings(&[(name, value)]).check(id, verdict, found);
    };
    for (name, id, fine, poor) in [
        ("max_wal_size", "max-wal-size", "8GB", "1GB"),
        ("checkpoint_timeout", "checkpoint-timeout", "15min", "5min"),
        ("checkpoint_completion_target", "checkpoint-target", "0.9", "0.5"),
        ("wal_buffers", "wal-buffers", "16MB", "4MB"),
        ("wal_compression", "wal-compression", "pglz", "off"),
        ("effective_io_concurrency", "io-concurrency", "200", "1"),
        ("jit", "jit", "off", "on"),
        ("autovacuum", "autovacuum", "on", "off"),
        ("autovacuum_naptime", "autovacuum-naptime", "10s", "1min"),
        ("bgwriter_lru_maxpages", "bgwriter", "0", "100"),
        ("io_method", "io-method", "io_uring", "sync"),
        ("synchronous_commit", "synchronous-commit", "on", "off"),
        ("work_mem", "work-mem", "4MB", "64kB"),
        ("log_hostname", "log-hostname", "off", "on"),
        ("track_io_timing", "track-io-timing", "on", "off"),
        ("track_wal_io_timing", "track-wal-io-timing", "on", "off"),
        ("log_checkpoints", "log-checkpoints", "on", "off"),
        ("log_lock_waits", "log-lock-waits", "on", "off"),
        ("log_autovacuum_min_duration", "log-autovacuum", "0", "10min"),
        ("log_temp_files", "log-temp-files", "0", "-1"),
    ] {
        check(name, fine, id, Fine, fine);
        check(name, poor, id, Advice, poor);
        Case::new().check(id, Fine, &format!("PostgreSQL 15.18 has no {name}"));
    }
    for (name, id, poor) in [
        ("fsync", "fsync", "off"),
        ("full_page_writes", "full-page-writes", "off"),
        ("debug_assertions", "assertions", "on"),
    ] {
        check(name, poor, id, Doubt, poor);
    }
    check("shared_buffers", "16GB", "shared-buffers", Fine, "25 % of 64.0 GiB");
    check("shared_buffers", "128MB", "shared-buffers", Advice, "0 % of");
    check("shared_buffers", "28GB", "shared-buffers", Advice, "44 % of");
    check("effective_cache_size", "4GB", "effective-cache-size", Advice, "6 % of");
    check("log_statement", "all", "statement-logging", Doubt, "log_statement = all");
    check(
        "shared_preload_libraries",
        "pg_stat_statements",
        "statement-logging",
        Advice,
        "pg_stat_statements",
    );
    // The setting that names it is hidden from this role, and its own settings are not.
    check(
        "pg_stat_statements.max",
        "5000",
        "statement-logging",
        Advice,
        "loaded by a setting that is hidden",
    );
}

#[test]
fn values_that_depend_on_others_are_judged_and_mended_by_them() {
    let compression = |lz4: Option<Result<String, String>>| {
        let mut case = Case::new().with_settings(&[("wal_compression", "off")]);
        case.rights.extend(lz4.map(|lz4| ("wal-compression-lz4".to_string(), lz4)));
        case.diagnose().rows.into_iter().find(|row| row.id == "wal-compression").unwrap().fix
    };
    assert!(compression(Some(Ok("there".to_string()))).contains("'lz4'"));
    for unknown in [None, Some(Err("no such value".to_string()))] {
        assert!(compression(unknown).contains("'on'"));
    }
    let sessions = |used: u32| {
        let case =
            Case::new().with_settings(&[("max_connections", "100"), ("superuser_reserved_connections", "3")]);
        Case { n_sessions: Some(used), ..case }
    };
    let unknown = [("max_connections", "100"), ("superuser_reserved_connections", "?")];
    Case::new().with_settings(&unknown).check("free-sessions", Unseen, "`?` is no number");
    sessions(1).check("free-sessions", Fine, "96 of 100 are free");
    sessions(90).check("free-sessions", Advice, "7 of 100");
    sessions(97).check("free-sessions", Void, "0 of 100");
}

#[test]
fn a_standby_is_not_advised_what_only_a_primary_does() {
    let poor = [
        ("autovacuum", "off"),
        ("autovacuum_naptime", "1min"),
        ("log_autovacuum_min_duration", "10min"),
        ("wal_compression", "off"),
        ("wal_buffers", "4MB"),
    ];
    let mut case = Case::new().with_settings(&poor).with_settings(&[("jit", "on")]);
    case.server.as_mut().unwrap().in_recovery = true;
    let diagnosis = case.diagnose();
    let of = |id: &str| diagnosis.rows.iter().find(|row| row.id == id).unwrap();
    for id in ["autovacuum", "autovacuum-naptime", "log-autovacuum", "wal-compression", "wal-buffers"] {
        assert_eq!(of(id).verdict, Fine, "{id}");
        assert!(of(id).found.ends_with("; a standby neither vacuums nor writes WAL"), "{}", of(id).found);
    }
    assert_eq!(of("jit").verdict, Advice, "it reads");
}

#[test]
fn a_fix_is_that_of_the_place_that_has_the_value() {
    let fixes = |source: &str| {
        let mut case = Case::new().with_settings(&[("fsync", "off"), ("track_io_timing", "off")]);
        for setting in case.server.as_mut().unwrap().settings.values_mut() {
            setting.source = source.to_string();
        }
        let Diagnosis { rows, sights } = case.diagnose();
        let row = rows.into_iter().find(|row| row.id == "fsync").unwrap();
        let sight = sights.into_iter().find(|sight| sight.id == "io-timing").unwrap();
        [row.fix, sight.fix]
    };
    for fix in fixes("configuration file") {
        assert!(fix.starts_with("alter system set "), "{fix}");
    }
    for fix in fixes("command line") {
        assert!(fix.contains("command line") && !fix.contains("pg_reload_conf"), "{fix}");
    }
}

#[test]
fn the_server_and_the_way_to_it_are_judged() {
    let server = |change: &dyn Fn(&mut ServerRecord)| {
        let mut case = Case::new();
        change(case.server.as_mut().unwrap());
        case
    };
    server(&|server| server.in_recovery = true).check("writable", Void, "standby");
    server(&|server| server.version_num = 180_000).check("checksums", Advice, "off");
    server(&|_| {}).check("checksums", Fine, "off");
    server(&|_| {}).check("build", Unseen, "cannot read");
    let flags = |flags: &'static str| {
        move |server: &mut ServerRecord| drop(server.build.insert("CFLAGS".into(), flags.into()))
    };
    server(&flags("-g -O0")).check("build", Doubt, "-O0");
    server(&flags("-Os")).check("build", Advice, "-Os");
    server(&flags("-g -O2")).check("build", Fine, "-O2");
    let route = |answered: &'static str, pooler: Option<&'static str>| {
        move |server: &mut ServerRecord| {
            let (reached, answered) = ("127.0.0.1:6432".to_string(), answered.to_string());
            server.route = Some(Route { reached, answered, pooler: pooler.map(str::to_string) });
        }
    };
    server(&route("127.0.0.1:6432", None)).check("route", Fine, "TCP");
    server(&route("127.0.0.1:5432", None)).check("route", Advice, "a proxy answers at 127.0.0.1:6432");
    server(&route("127.0.0.1:5432", Some("transaction"))).check(
        "route",
        Advice,
        "a pooler in transaction mode",
    );
    let sights = server(&route("127.0.0.1:5432", Some("transaction"))).diagnose().sights;
    assert!(
        sights
            .iter()
            .any(|sight| sight.id == "direct" && !sight.has && sight.found.contains("transaction mode"))
    );
}

#[test]
fn what_nobody_said_is_not_seen_and_no_value() {
    let files = Case::new().with_facts(&[("server_open_files", "1024")]);
    files.with_settings(&[("max_files_per_process", "")]).check("open-files", Unseen, "`` is no number");
    let silent = |mount: &mut MountRecord| (mount.free_bytes, mount.total_bytes) = (0, 0);
    let half = Case::new().with_mount("wal", silent);
    half.check("disk-space", Fine, "wal: not said");
    let none = Case::new().with_mount("wal", silent).with_mount("data", silent);
    none.check("disk-space", Unseen, "does not say how much is free");
    Case::new().check("io-scheduler", Fine, "data: nvme0n1 does not show it");
    let no_device = |mount: &mut MountRecord| mount.device.clear();
    Case::new().with_mount("data", no_device).check("read-ahead", Fine, "data: no block device");
    // Neither is it said that no pooler is in between.
    let diagnosis = Case::new().diagnose();
    let direct = diagnosis.sights.iter().find(|sight| sight.id == "direct").unwrap();
    assert!(!direct.has && direct.found.contains("not known"), "{direct:?}");
}

#[test]
fn of_a_host_that_is_not_the_server_s_only_what_matters_to_a_driver_is_judged() {
    let mut case = Case::new().with_facts(&[
        ("swappiness", "60"),
        ("load_average", "9.0 1 1"),
        ("transparent_hugepage", "always"),
    ]);
    case.host_of = HostOf::Driver;
    let diagnosis = case.diagnose();
    let of = |id: &str| diagnosis.rows.iter().find(|row| row.id == id).unwrap();
    assert_eq!((of("quiet").verdict, of("swappiness").verdict, of("thp").verdict), (Doubt, Unseen, Unseen));
    assert!(of("atime").found.contains("--host"));
    let lacks: Vec<&str> = diagnosis.sights.iter().filter(|sight| !sight.has).map(|sight| sight.id).collect();
    assert!(lacks.starts_with(&["host", "server-log"]), "{lacks:?}");
    assert!(
        case.with_settings(&[("shared_buffers", "8GB")])
            .diagnose()
            .rows
            .iter()
            .any(|row| row.id == "shared-buffers" && row.verdict == Unseen)
    );
}

#[test]
fn without_a_server_its_rows_are_left_out_and_the_worst_comes_first() {
    let mut case = Case::new().with_facts(&[
        ("transparent_hugepage", "always"),
        ("remove_ipc", "yes"),
        ("server_uid", "1000"),
    ]);
    case.server = None;
    let diagnosis = case.diagnose();
    assert!(diagnosis.rows.iter().all(|row| row.scope != RowScope::Server) && diagnosis.sights.is_empty());
    let ids: Vec<&str> = diagnosis.rows.iter().take(2).map(|row| row.id).collect();
    assert_eq!((ids.as_slice(), diagnosis.worst()), (&["remove-ipc", "thp"][..], Doubt));
}

#[test]
fn an_old_server_lacks_what_came_later() {
    let mut case = Case::new();
    case.server = Some(ServerRecord { version_num: 90_624, ..ServerRecord::default() });
    let diagnosis = case.diagnose();
    let of = |id: &str| diagnosis.sights.iter().find(|sight| sight.id == id).unwrap();
    assert_eq!(of("wait-events").found, "exists since 10; this is 9.6.24");
    assert!(of("wait-events").silent.contains(&"data-read") && !of("all-stats").has);
}

#[test]
fn rows_findings_and_limiters_know_each_other() {
    let ids: BTreeSet<&str> = ROWS.iter().map(|row| row.id).collect();
    assert_eq!(ids.len(), ROWS.len());
    assert!(COSTLY.iter().all(|id| ids.contains(id)));
    let findings: BTreeSet<&str> = CATALOGUE.iter().map(|rule| rule.id).collect();
    for (finding, row) in DOCTOR_ROWS {
        assert!(findings.contains(finding) && ids.contains(row), "{finding}: {row}");
    }
    let limiters: BTreeSet<&str> = LIMITERS.iter().map(|limiter| limiter.as_str()).collect();
    for silent in SIGHTS.iter().flat_map(|sight| sight.silent) {
        assert!(findings.contains(silent) || limiters.contains(silent), "{silent}");
    }
    for row in ROWS {
        let texts = [row.wanted, row.why, row.source, row.fix];
        assert!(texts.iter().all(|text| !text.is_empty()), "{}", row.id);
    }
    let page = crate::findings::rule("not-durable").unwrap().page();
    assert!(
        page.contains(
            "For a server by URL, `pgdyno doctor URL` shows it before a run (fsync, full-page-writes"
        ),
        "{page}"
    );
    assert!(!crate::findings::rule("stall").unwrap().page().contains("doctor"));
}

/// Limiters that a sight may name.
const LIMITERS: [Bottleneck; 10] = [
    Bottleneck::Quota,
    Bottleneck::WalVolume,
    Bottleneck::DataRead,
    Bottleneck::DataWrite,
    Bottleneck::Memory,
    Bottleneck::ServerCpu,
    Bottleneck::Scheduling,
    Bottleneck::Checkpoint,
    Bottleneck::Autovacuum,
    Bottleneck::Standby,
];
