//! The stored records that a made-up study would come from, as far as the disclosure reads them.

use std::collections::BTreeMap;

use analysis::summary::RunSummary;
use model::experiment::case::Case;
use model::experiment::plan::Plan;
use model::load::LoadSpec;
use model::load::drive::Ready;
use model::run::host::{HostRecord, MountRecord};
use model::run::phase::{Phase, PhaseRecord};
use model::run::server::{ServerRecord, Setting};
use model::run::{ExperimentData, RunData, RunRecord};

use super::Shape;

pub(super) fn of(shape: &Shape, plan: &Plan, runs: &[RunSummary]) -> ExperimentData {
    ExperimentData {
        profiles: Vec::new(),
        plan: plan.clone(),
        experiment_toml: format!(
            "[experiment]\nname = \"synthetic\"\ntitle = {:?}\nseed = {}\n\n[server]\nversion = {:?}\nsettings.shared_buffers = \"4GB\"\n\n\
             [workload]\nkind = \"tpcb\"\nscale = 100\nclients = {:?}\n\n[run]\nramp_up = \"{}s\"\nmeasure = \"{}s\"\n",
            shape.title, plan.seed, shape.versions, shape.clients, shape.window.0, shape.window.1
        ),
        state: Vec::new(),
        runs: runs.iter().map(|run| run_data(shape, plan, run)).collect(),
    }
}

fn run_data(shape: &Shape, plan: &Plan, run: &RunSummary) -> RunData {
    let case = plan.case(run.case).expect("runs are made from the plan").clone();
    let spec =
        plan.runs.iter().find(|spec| spec.run == run.run).expect("runs are made from the plan").clone();
    let version = case.levels.get("server.version").map_or("18", String::as_str).to_string();
    let record = RunRecord {
        state: run.state,
        reason: run.reason.clone(),
        load: Some(load(&case, spec.seed)),
        server: Some(server(shape, &version)),
        host: Some(host(shape)),
        server_is_local: true,
        phases: phases(run),
        go_unix_ns: Some(plan.made_unix_ns),
        ready: Some(Ready {
            pid: 4711,
            connect_ns: 8_000_000,
            prepare_ns: 1_000_000,
            poller: "epoll".to_string(),
            build_profile: "dist".to_string(),
            opt_level: "3".to_string(),
            rehearses: false,
            tls: None,
            statements: Vec::new(),
            backend_pids: Vec::new(),
        }),
        rows_before: [
            ("pgbench_accounts", 10_000_000),
            ("pgbench_tellers", 1000),
            ("pgbench_branches", 100),
            ("pgbench_history", 0),
        ]
        .map(|(table, n)| (table.to_string(), n))
        .into(),
        telemetry_unavailable: BTreeMap::from([(
            "host.psi.io.some".to_string(),
            "the kernel was built without pressure stall information".to_string(),
        )]),
        ..RunRecord::new(spec, case, "0.1.0")
    };
    RunData {
        record,
        intervals: Vec::new(),
        histograms: Vec::new(),
        ticks: Vec::new(),
        events: Vec::new(),
        imports: Vec::new(),
        executions: Vec::new(),
        plans: Vec::new(),
        damage: Vec::new(),
    }
}

fn load(case: &Case, seed: u64) -> LoadSpec {
    let target = [
        ("host", "/tmp/pgdyno-socket"),
        ("dbname", "bench"),
        ("user", "bench"),
        ("passfile", "/secret/pgpass"),
    ];
    LoadSpec {
        format: model::FORMAT,
        target: target.map(|(k, v)| (k.to_string(), v.to_string())).into(),
        scripts: Vec::new(),
        defines: BTreeMap::new(),
        protocol: case.workload.protocol,
        n_clients: case.workload.n_clients,
        n_threads: case.workload.n_threads,
        pace: case.workload.pace,
        window: case.window,
        seed,
        ..LoadSpec::default()
    }
}

fn phases(run: &RunSummary) -> Vec<PhaseRecord> {
    let all = [Phase::Restore, Phase::Vacuum, Phase::Checkpoint, Phase::Settle, Phase::Connect];
    let record = |(phase, (_, length_s)): (Phase, &(String, f64))| PhaseRecord {
        phase,
        start_unix_ns: 1_000_000_000,
        end_unix_ns: 1_000_000_000 + (length_s * 1e9) as u64,
        detail: match phase {
            Phase::Restore => BTreeMap::from([
                ("method".to_string(), "reflink copy".to_string()),
                ("bytes".to_string(), "1583242240".to_string()),
            ]),
            _ => BTreeMap::new(),
        },
    };
    all.into_iter().zip(&run.phases).map(record).collect()
}

fn server(shape: &Shape, version: &str) -> ServerRecord {
    let number: u32 = version.parse::<u32>().unwrap_or(18);
    let setting =
        |value: &str, source: &str| Setting { value: value.to_string(), source: source.to_string() };
    let mut settings = BTreeMap::from([
        ("shared_buffers".to_string(), setting("4GB", "command line")),
        ("max_connections".to_string(), setting("200", "configuration file")),
        ("application_name".to_string(), setting(&shape.title, "client")),
        ("data_checksums".to_string(), setting("on", "override")),
    ]);
    for name in [
        "autovacuum",
        "checkpoint_timeout",
        "fsync",
        "full_page_writes",
        "jit",
        "max_wal_size",
        "synchronous_commit",
        "wal_compression",
    ] {
        settings.insert(name.to_string(), setting("on", "default"));
    }
    ServerRecord {
        version: format!(
            "PostgreSQL {version}.6 on x86_64-pc-linux-gnu, compiled by gcc (Debian 14.2.0-19) 14.2.0, 64-bit"
        ),
        version_num: number * 10_000 + 6,
        build: BTreeMap::from([
            ("CC".to_string(), "gcc".to_string()),
            ("CFLAGS".to_string(), "-O2 -g".to_string()),
        ]),
        executable_sha256: Some(
            "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08".to_string(),
        ),
        settings,
        data_checksums: true,
        system_identifier: Some("7573422312340987654".to_string()),
        postmaster_start: "2026-11-20 11:49:02+00".to_string(),
        in_recovery: false,
        route: None,
        receivers: Vec::new(),
        database_bytes: 1_583_242_240,
        data_directory: Some("/var/tmp/pgdyno/18/data".to_string()),
        unavailable: BTreeMap::from([(
            "pg_stat_statements".to_string(),
            "the extension is not installed".to_string(),
        )]),
    }
}

fn host(shape: &Shape) -> HostRecord {
    let facts = |list: &[(&str, &str)]| list.iter().map(|(k, v)| (k.to_string(), v.to_string())).collect();
    HostRecord {
        hostname: "bench-1".to_string(),
        os: "Debian GNU/Linux 13 (trixie)".to_string(),
        kernel: "6.12.48+deb13-amd64".to_string(),
        cpu_model: "AMD EPYC 9354P".to_string(),
        n_cpus: shape.n_cpus,
        n_numa_nodes: 1,
        memory_bytes: 16_777_216_000,
        facts: facts(&[
            ("clocksource", "tsc"),
            ("cpu_governor", "performance"),
            ("transparent_hugepage", "madvise"),
            ("swappiness", "1"),
        ]),
        mounts: BTreeMap::from([(
            "data".to_string(),
            MountRecord {
                mount_point: "/var".to_string(),
                fs_type: "xfs".to_string(),
                options: "rw,noatime".to_string(),
                device: "nvme0n1".to_string(),
                facts: facts(&[("scheduler", "none"), ("read_ahead_kb", "128")]),
                free_bytes: 812_000_000_000,
                total_bytes: 960_000_000_000,
            },
        )]),
    }
}
