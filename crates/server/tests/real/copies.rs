//! Snapshots of real clusters.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use server::{Cluster, CopyMethod, InitOptions, OwnServer, StopMode};

use crate::loop_mount::LoopMount;
use crate::support::{ask, cluster, installed, place, session, settings};

const FILL: &str = "create table t (i int primary key, x text); insert into t select g, repeat('x', 100) from generate_series(1, 20000) g";
const SUM: &str = "select count(*) || '/' || sum(i) || '/' || max(x) from t";

fn run(cluster: &Cluster, stop: StopMode, statements: &[&str]) -> String {
    let server = OwnServer::start(cluster, &settings(&[])).unwrap_or_else(|error| panic!("{error}"));
    let mut admin = session(&server.conninfo());
    for statement in statements {
        admin.execute(statement).unwrap_or_else(|error| panic!("{statement}: {error}"));
    }
    let sum = ask(&mut admin, SUM);
    drop(admin);
    server.stop(stop).unwrap();
    sum
}

/// Checks that data and WAL equal those of the snapshot, byte by byte.
fn expect_same_bytes(cluster: &Cluster) {
    let diff = |kept: &Path, present: &Path| {
        let found =
            Command::new("diff").args(["-r", "--no-dereference"]).arg(kept).arg(present).output().unwrap();
        assert!(found.status.success(), "{}", String::from_utf8_lossy(&found.stdout));
    };
    let snapshot = cluster.root.join("snapshots/loaded");
    diff(&snapshot.join("data"), &cluster.data_dir());
    if snapshot.join("wal").exists() {
        diff(&snapshot.join("wal"), &cluster.wal_dir());
    }
}

fn comes_back(mut cluster: Cluster, first: &[&str]) {
    let before = run(&cluster, StopMode::Fast, first);
    let taken = cluster.snapshot("loaded").unwrap();
    assert!(taken.bytes > 20 << 20 && taken.n_files > 900, "{taken:?}");
    assert!(cluster.snapshot("loaded").unwrap_err().to_string().contains("already exists"));
    for stop in [StopMode::Fast, StopMode::Immediate] {
        let changed = run(
            &cluster,
            stop,
            &[
                "update t set x = 'y' where i % 3 = 0",
                "delete from t where i > 15000",
                "create table u (a int)",
            ],
        );
        assert_ne!(changed, before);
        let restored = cluster.restore("loaded").unwrap();
        assert_eq!((restored.bytes, restored.n_files), (taken.bytes, taken.n_files));
        expect_same_bytes(&cluster);
        assert_eq!(run(&cluster, StopMode::Fast, &[]), before);
    }
    let again = cluster.restore("loaded").unwrap();
    assert!(again.written_bytes < again.bytes, "{again:?}");
    assert_eq!(cluster.snapshots().len(), 1);
    cluster.remove_snapshot("loaded").unwrap();
    assert!(cluster.restore("loaded").unwrap_err().to_string().contains("has no snapshot `loaded`"));
    cluster.remove().unwrap();
}

#[test]
fn rows_are_restored_after_changes_and_after_a_crash() {
    let place = place();
    comes_back(cluster(&installed(), &place), &[FILL]);
}

#[test]
fn a_separate_wal_and_a_tablespace_are_restored_too() {
    let place = place();
    let (wal, space) = (place.path().join("wal"), place.path().join("space"));
    fs::create_dir(&wal).unwrap();
    fs::create_dir(&space).unwrap();
    let options =
        InitOptions { wal_directory: Some(wal.clone()), checksums: Some(true), ..InitOptions::default() };
    let cluster = Cluster::create(&installed(), &place.path().join("cluster"), &options).unwrap();
    assert!(cluster.wal_dir().starts_with(&wal) && cluster.wal_dir().join("archive_status").exists());
    cluster.account.own(&space).unwrap();
    // Another release has its own directory in the same location.
    let foreign = space.join("PG_14_202107181");
    fs::create_dir(&foreign).unwrap();
    fs::write(foreign.join("rows"), "of another server").unwrap();
    let make_space = format!("create tablespace s location '{}'", space.display());
    let fill = [make_space.as_str(), "set default_tablespace = s", FILL];
    comes_back(cluster, &fill);
    assert_eq!(fs::read_dir(&wal).unwrap().count(), 0, "the WAL is left");
    assert_eq!(names_in(&space), ["PG_14_202107181"], "the tablespace is left");
    // Loading again needs the same directory.
    let again = || {
        let cluster = Cluster::create(&installed(), &place.path().join("again"), &options).unwrap();
        run(&cluster, StopMode::Fast, &fill);
        cluster
    };
    let cluster = again();
    cluster.mark_tablespaces().unwrap();
    assert_eq!(ask_of(&cluster, "select pg_tablespace_size('s') > 0"), "t");
    cluster.remove().unwrap();
    let mut cluster = again();
    cluster.snapshot("loaded").unwrap();
    fs::write(foreign.join("rows"), "changed").unwrap();
    cluster.restore("loaded").unwrap();
    assert_eq!(fs::read_to_string(foreign.join("rows")).unwrap(), "changed");
    only_its_own_is_overwritten(cluster, &space);
}

/// Another server takes the directory of a tablespace after the snapshot: it is neither overwritten nor removed.
fn only_its_own_is_overwritten(mut cluster: Cluster, space: &Path) {
    let refused = |cluster: &mut Cluster| format!("{:#}", cluster.restore("loaded").unwrap_err());
    let own = names_in(space).into_iter().find(|name| name.starts_with("PG_15_")).unwrap();
    fs::rename(space.join(&own), space.join("aside")).unwrap();
    fs::create_dir(space.join(&own)).unwrap();
    cluster.account.own(&space.join(&own)).unwrap();
    fs::write(space.join(&own).join("rows"), "of another server").unwrap();
    let why = refused(&mut cluster);
    assert!(why.contains("does not carry the mark"), "{why}");
    assert!(cluster.facts.restoring.is_none());
    fs::rename(space.join(&own), space.join("other")).unwrap();
    fs::rename(space.join("aside"), space.join(&own)).unwrap();
    // PostgreSQL itself removes the mark with the directory, and makes another without one.
    let location = format!("create tablespace s location '{}'", space.display());
    run_all(&cluster, &["drop table t", "drop tablespace s", &location]);
    let why = refused(&mut cluster);
    assert!(why.contains("no tablespace of"), "{why}");
    cluster.remove().unwrap();
    assert_eq!(names_in(space), ["PG_14_202107181", own.as_str(), "other"], "what has no mark stays");
}

fn run_all(cluster: &Cluster, statements: &[&str]) {
    let server = OwnServer::start(cluster, &settings(&[])).unwrap_or_else(|error| panic!("{error}"));
    let mut admin = session(&server.conninfo());
    for statement in statements {
        admin.execute(statement).unwrap_or_else(|error| panic!("{statement}: {error}"));
    }
    drop(admin);
    server.stop(StopMode::Fast).unwrap();
}

fn ask_of(cluster: &Cluster, sql: &str) -> String {
    let server = OwnServer::start(cluster, &settings(&[])).unwrap_or_else(|error| panic!("{error}"));
    let answer = ask(&mut session(&server.conninfo()), sql);
    server.stop(StopMode::Fast).unwrap();
    answer
}

fn names_in(dir: &Path) -> Vec<String> {
    let mut names: Vec<String> =
        fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[test]
fn where_blocks_can_be_shared_a_snapshot_is_restored_in_a_second_per_gigabyte() {
    let place = place();
    let mount = match LoopMount::new(place.path(), 1 << 30, &["mkfs.xfs", "-q"]) {
        Ok(mount) => mount,
        Err(reason) => return crate::tell(&format!("skipped: XFS cannot be mounted here: {reason}")),
    };
    fs::set_permissions(&mount.dir, Permissions::from_mode(0o755)).unwrap();
    let mut cluster =
        Cluster::create(&installed(), &mount.dir.join("cluster"), &InitOptions::default()).unwrap();
    let fill = FILL.replace("20000", "300000");
    let before = run(&cluster, StopMode::Fast, &[&fill, "checkpoint"]);
    let taken = cluster.snapshot("loaded").unwrap();
    assert_eq!((taken.method, taken.written_bytes), (CopyMethod::Reflink, 0), "{taken:?}");
    let mut best_s = f64::MAX;
    for _ in 0..3 {
        run(&cluster, StopMode::Immediate, &["update t set x = 'y' where i % 30 = 0"]);
        let restored = cluster.restore("loaded").unwrap();
        assert_eq!((restored.method, restored.written_bytes), (CopyMethod::Reflink, 0), "{restored:?}");
        expect_same_bytes(&cluster);
        best_s = restored.seconds.min(best_s);
    }
    let gigabytes = taken.bytes as f64 / 1e9;
    crate::tell(&format!("{best_s:.2} s for {gigabytes:.2} GB: {:.2} s per GB", best_s / gigabytes));
    // A second per GB, and some time for opening a thousand files on a busy machine.
    assert!(best_s < gigabytes + 0.5, "{best_s} s for {gigabytes} GB");
    assert_eq!(run(&cluster, StopMode::Fast, &[]), before);
    cluster.remove().unwrap();
}

#[test]
fn a_running_or_crashed_cluster_gives_no_snapshot() {
    let place = place();
    let cluster = cluster(&installed(), &place);
    let server = OwnServer::start(&cluster, &settings(&[])).unwrap();
    let refused = |cluster: &Cluster| cluster.snapshot("x").unwrap_err().to_string();
    assert!(refused(&cluster).contains("stop it to take a snapshot"), "{}", refused(&cluster));
    server.stop(StopMode::Immediate).unwrap();
    assert!(refused(&cluster).contains("not shut down cleanly"), "{}", refused(&cluster));
}

#[test]
fn an_interrupted_restore_keeps_the_server_from_starting() {
    let place = place();
    let cluster = cluster(&installed(), &place);
    cluster.snapshot("x").unwrap();
    let marker = cluster.root.join("pgdyno-cluster.json");
    let text = fs::read_to_string(&marker)
        .unwrap()
        .replace("\"is_complete\"", "\"restoring\": \"x\", \"is_complete\"");
    fs::write(&marker, text).unwrap();
    let mut cut_off = Cluster::open(&installed(), &cluster.root).unwrap();
    let error = OwnServer::start(&cut_off, &settings(&[])).unwrap_err().to_string();
    assert!(error.contains("interrupted; restore it again"), "{error}");
    cut_off.restore("x").unwrap();
    drop(OwnServer::start(&cut_off, &settings(&[])).unwrap());
}
