//! Starts that fail, and servers that end without warning.

use std::collections::BTreeSet;
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

use server::cluster::workspace::{ClusterKey, Workspace};
use server::swept::Swept;
use server::{Cluster, InitOptions, OwnServer, StartFault, StopMode};

use crate::support::{ask, cluster, installed, place, processes_in, session, settings};

fn fails(cluster: &Cluster, changed: &[(&str, &str)], fault: StartFault, words: &str) {
    let error = OwnServer::start(cluster, &settings(changed)).unwrap_err();
    let text = error.to_string();
    assert_eq!(error.fault, fault, "{text}");
    assert!(text.contains(words), "{text}");
    assert!(text.contains(fault.advice()), "{text}");
}

#[test]
fn a_start_that_fails_shows_postgres_messages_and_advice() {
    let place = place();
    let cluster = cluster(&installed(), &place);
    let data = cluster.data_dir();
    fails(
        &cluster,
        &[("shared_bufers", "1GB")],
        StartFault::UnknownSetting,
        "LOG:  unrecognized configuration parameter \"shared_bufers\" in file",
    );
    fails(&cluster, &[("shared_buffers", "banana")], StartFault::BadValue, "invalid value for parameter");
    fails(&cluster, &[("max_connections", "0")], StartFault::BadValue, "outside the valid range");
    fails(
        &cluster,
        &[("shared_buffers", "900GB")],
        StartFault::SharedMemory,
        "HINT:  This error usually means",
    );
    fails(
        &cluster,
        &[("shared_preload_libraries", "nolib")],
        StartFault::MissingFile,
        "could not access file",
    );
    for name in ["session_preload_libraries", "local_preload_libraries"] {
        fails(&cluster, &[(name, "nolib")], StartFault::MissingFile, "it runs, but refuses every session");
    }
    fails(&cluster, &[("port", "1")], StartFault::Preparation, "cannot be chosen");
    fs::set_permissions(&data, Permissions::from_mode(0o755)).unwrap();
    fails(&cluster, &[], StartFault::Permissions, "has invalid permissions");
    fs::set_permissions(&data, Permissions::from_mode(0o700)).unwrap();
    fs::write(data.join("postmaster.pid"), "").unwrap();
    fails(&cluster, &[], StartFault::EmptyLockFile, "is empty");
    fs::remove_file(data.join("postmaster.pid")).unwrap();
    let change = |name: &str, bytes: &[u8], fault, words| {
        let (path, kept) = (data.join(name), fs::read(data.join(name)).unwrap());
        fs::write(&path, bytes).unwrap();
        fails(&cluster, &[], fault, words);
        fs::write(&path, kept).unwrap();
    };
    change("PG_VERSION", b"14\n", StartFault::WrongMajor, "initialized by PostgreSQL version 14");
    change("global/pg_control", &[0; 8192], StartFault::Damaged, "PG_CONTROL_VERSION 0");
    // After all this it still starts, and nothing is left of the attempts.
    let server = OwnServer::start(&cluster, &settings(&[])).unwrap_or_else(|error| panic!("{error}"));
    server.stop(StopMode::Fast).unwrap();
    assert_eq!(processes_in(place.path()), Vec::<u32>::new());
}

#[test]
fn two_servers_cannot_run_on_one_cluster() {
    let place = place();
    let cluster = cluster(&installed(), &place);
    let server = OwnServer::start(&cluster, &settings(&[])).unwrap();
    let error = OwnServer::start(&cluster, &settings(&[])).unwrap_err().to_string();
    assert!(error.contains(&format!("runs as process {}", server.pid())), "{error}");
    assert!(cluster.clone().remove().is_err());
    assert!(server.data_dir().exists());
}

#[test]
fn a_dropped_server_is_gone_and_its_data_is_recovered() {
    let place = place();
    let cluster = cluster(&installed(), &place);
    let server = OwnServer::start(&cluster, &settings(&[])).unwrap();
    let socket = PathBuf::from(&server.conninfo().hosts[0].host);
    session(&server.conninfo()).execute("create table t as select 1 as i").unwrap();
    drop(server);
    assert_eq!(processes_in(place.path()), Vec::<u32>::new());
    assert!(!socket.exists());
    let server = OwnServer::start(&cluster, &settings(&[])).unwrap();
    assert_eq!(ask(&mut session(&server.conninfo()), "select i from t"), "1");
}

#[test]
fn the_death_of_a_server_is_noticed_with_its_cause() {
    let place = place();
    let cluster = cluster(&installed(), &place);
    let mut server = OwnServer::start(&cluster, &settings(&[])).unwrap();
    server.check_running().unwrap();
    let segments = dynamic_segments(&processes_in(place.path()));
    assert!(!segments.is_empty() && segments.iter().all(|path| path.exists()), "{segments:?}");
    Command::new("kill").args(["-9", &server.pid().to_string()]).status().unwrap();
    let end = Instant::now() + Duration::from_secs(5);
    let ending = loop {
        match server.check_running() {
            Err(ending) => break ending,
            Ok(()) => assert!(Instant::now() < end),
        }
    };
    assert!(ending.contains("SIGKILL"), "{ending}");
    let report = server.stop(StopMode::Fast).unwrap();
    assert!(!report.is_clean);
    // The killed one could not remove them, and the next start would not find them.
    assert!(!segments.iter().any(|path| path.exists()), "{segments:?}");
    let report = OwnServer::start(&cluster, &settings(&[])).unwrap().stop(StopMode::Fast).unwrap();
    assert!(report.is_clean);
}

/// Dynamic shared memory that these processes use.
fn dynamic_segments(pids: &[u32]) -> BTreeSet<PathBuf> {
    let maps = pids.iter().filter_map(|pid| fs::read_to_string(format!("/proc/{pid}/maps")).ok());
    let of = |text: String| {
        let paths = text.lines().filter_map(|line| line.split_whitespace().last());
        let segments = paths.filter(|path| path.starts_with("/dev/shm/PostgreSQL."));
        segments.map(PathBuf::from).collect::<Vec<_>>()
    };
    maps.flat_map(of).collect()
}

/// Not a test itself: the process that the next test kills.
#[test]
#[ignore = "run by another test, in a separate process"]
fn runs_a_server_until_it_is_killed() {
    let root = PathBuf::from(std::env::var_os("PGDYNO_TEST_ROOT").unwrap());
    let server = OwnServer::start(&Cluster::open(&installed(), &root).unwrap(), &settings(&[])).unwrap();
    fs::write(root.with_extension("ready"), &server.conninfo().hosts[0].host).unwrap();
    std::thread::sleep(Duration::from_secs(60));
}

#[test]
fn a_killed_pgdyno_takes_its_server_along() {
    let place = place();
    let cluster = cluster(&installed(), &place);
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--ignored", "--exact", "faults::runs_a_server_until_it_is_killed"])
        .env("PGDYNO_TEST_ROOT", &cluster.root)
        .spawn()
        .unwrap();
    let ready = cluster.root.with_extension("ready");
    let end = Instant::now() + Duration::from_secs(30);
    while !ready.exists() && Instant::now() < end {
        std::thread::sleep(Duration::from_millis(20));
    }
    assert!(cluster.running_pid().is_some());
    child.kill().unwrap();
    assert_eq!(child.wait().unwrap().signal(), Some(9));
    let end = Instant::now() + Duration::from_secs(10);
    while !processes_in(&cluster.root).is_empty() && Instant::now() < end {
        std::thread::sleep(Duration::from_millis(20));
    }
    assert_eq!(processes_in(&cluster.root), Vec::<u32>::new());
    let socket = PathBuf::from(fs::read_to_string(ready).unwrap());
    assert!(socket.exists(), "nobody was left to remove it");
    let swept = server::process::socket::sweep_sockets();
    assert!(Swept::removed(swept).iter().any(|dir| socket.starts_with(dir)));
    assert!(!socket.exists());
    OwnServer::start(&cluster, &settings(&[])).unwrap().stop(StopMode::Fast).unwrap();
}

#[test]
fn a_workspace_gives_the_same_cluster_again_and_lists_and_removes_it() {
    let place = place();
    let workspace = Workspace::open(place.path()).unwrap();
    let key = ClusterKey::new(&installed(), [("scale".to_string(), "1".to_string())].into()).unwrap();
    let options = InitOptions::default();
    let claim = workspace.claim(&key).unwrap();
    let mut cluster = claim.cluster(&installed(), &options).unwrap();
    cluster.set_labels([("workload".to_string(), "tpcb".to_string())].into()).unwrap();
    cluster.snapshot("loaded").unwrap();
    let again = claim.cluster(&installed(), &options).unwrap();
    assert_eq!(again.facts, cluster.facts);
    assert!(again.has_snapshot("loaded"));
    let listed = workspace.list().unwrap();
    assert_eq!((listed.len(), listed[0].snapshots.len()), (1, 1));
    assert_eq!(listed[0].used_by_pid, Some(std::process::id()));
    assert!(listed[0].bytes > 40 << 20);
    assert!(workspace.remove(&listed[0].name).unwrap_err().to_string().contains("in use"));
    drop(claim);
    workspace.remove(&listed[0].name).unwrap();
    assert_eq!(workspace.list().unwrap(), []);
}

#[test]
fn a_cluster_is_neither_created_where_something_exists_nor_opened_where_none_exists() {
    let place = place();
    fs::write(place.path().join("file"), "x").unwrap();
    let error = Cluster::create(&installed(), place.path(), &InitOptions::default()).unwrap_err().to_string();
    assert!(error.contains("already exists"), "{error}");
    let error = Cluster::open(&installed(), place.path()).unwrap_err().to_string();
    assert!(error.contains("is not a cluster created by pgdyno"), "{error}");
    let options = InitOptions {
        wal_directory: Some(place.path().join("none")),
        checksums: None,
        ..InitOptions::default()
    };
    let root = place.path().join("new");
    let error = Cluster::create(&installed(), &root, &options).unwrap_err().to_string();
    assert!(error.contains("cannot enter the WAL directory"), "{error}");
    assert!(!root.exists(), "the failed cluster is left");
    assert!(place.path().join("file").exists());
}
