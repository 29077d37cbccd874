//! Clusters that somebody uses without pgdyno, or a copy of them.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use server::cluster::workspace::Workspace;
use server::{Cluster, InitOptions, OwnServer, StopMode};
use testbed::ByHand;

use crate::support::{installed, place, session, settings};

const NAME: &str = "kept-000000000001";
const FILL: &str = "create table t as select g as i from generate_series(1, 1000) g";

/// A cluster of a workspace that has executed these statements, with a snapshot.
fn kept(workspace: &Workspace, statements: &[&str]) -> Cluster {
    let root = workspace.dir.join(NAME);
    let cluster = Cluster::create(&installed(), &root, &InitOptions::default()).unwrap();
    let server = OwnServer::start(&cluster, &settings(&[])).unwrap_or_else(|error| panic!("{error}"));
    let mut admin = session(&server.conninfo());
    for statement in statements {
        admin.execute(statement).unwrap_or_else(|error| panic!("{statement}: {error}"));
    }
    drop(admin);
    cluster.mark_tablespaces().unwrap();
    server.stop(StopMode::Fast).unwrap();
    cluster.snapshot("loaded").unwrap();
    cluster
}

/// The same with its table in a tablespace below `place`, and the location of that.
fn kept_with_tablespace(place: &Path, workspace: &Workspace) -> (PathBuf, Cluster) {
    let location = place.join("space");
    fs::create_dir(&location).unwrap();
    server::Account::choose().unwrap().own(&location).unwrap();
    let make_space = format!("create tablespace s location '{}'", location.display());
    let cluster = kept(workspace, &[&make_space, "set default_tablespace = s", FILL]);
    (location, cluster)
}

/// What pgdyno says about the cluster, which it neither uses, restores, nor removes.
#[track_caller]
fn expect_left(workspace: &Workspace, cluster: &mut Cluster, reason: &str) {
    let used = workspace.list().unwrap().remove(0).used_by_others.unwrap();
    assert!(used.contains(reason), "{used}");
    for why in [
        format!("{:#}", workspace.remove(NAME).unwrap_err()),
        format!("{:#}", cluster.restore("loaded").unwrap_err()),
        format!("{:#}", Cluster::open(&installed(), &cluster.root).unwrap_err()),
        OwnServer::start(cluster, &settings(&[])).unwrap_err().to_string(),
    ] {
        assert!(why.contains(reason), "{why}");
        assert!(why.contains(&format!("pgdyno server remove --force {NAME}")), "{why}");
    }
    assert!(cluster.root.join("snapshots/loaded").exists() && cluster.facts.restoring.is_none());
}

fn in_ordinary_use(workspace: &Workspace, cluster: &mut Cluster) {
    for stop in [StopMode::Fast, StopMode::Immediate] {
        let server = OwnServer::start(cluster, &settings(&[])).unwrap_or_else(|error| panic!("{error}"));
        session(&server.conninfo()).execute("update t set i = i + 1").unwrap();
        server.stop(stop).unwrap();
        assert_eq!(workspace.list().unwrap()[0].used_by_others, None);
        cluster.restore("loaded").unwrap();
        assert_eq!(workspace.list().unwrap()[0].used_by_others, None);
    }
}

#[test]
fn a_cluster_whose_server_somebody_has_started_is_left() {
    let place = place();
    let workspace = Workspace::open(&place.path().join("clusters")).unwrap();
    let mut cluster = kept(&workspace, &[FILL]);
    in_ordinary_use(&workspace, &mut cluster);
    // A pgdyno that is killed records nothing, and its cluster is used as ever.
    let server = OwnServer::start(&cluster, &settings(&[])).unwrap();
    server.crash().unwrap();
    in_ordinary_use(&workspace, &mut cluster);

    let own = ByHand::start(&cluster.data_dir());
    own.ask("create database mine");
    assert!(format!("{:#}", workspace.remove(NAME).unwrap_err()).contains("stop it first"));
    drop(own);
    expect_left(&workspace, &mut cluster, "its server was started without this pgdyno");
    let own = ByHand::start(&cluster.data_dir());
    assert_eq!(own.ask("select count(*) from pg_database where datname = 'mine'"), "1");
    drop(own);
    assert_eq!(workspace.remove_by_force(NAME).unwrap(), []);
    assert!(!cluster.root.exists());
}

#[test]
fn a_tablespace_that_a_copy_of_the_data_uses_is_neither_overwritten_nor_removed() {
    let place = place();
    let workspace = Workspace::open(&place.path().join("clusters")).unwrap();
    let (location, mut cluster) = kept_with_tablespace(place.path(), &workspace);
    in_ordinary_use(&workspace, &mut cluster);
    let dir = only_entry(&location);
    assert!(dir.ends_with("PG_15_202209061"), "{}", dir.display());

    let own = place.path().join("own");
    let copied = Command::new("cp").arg("-a").arg(cluster.data_dir()).arg(&own).status().unwrap();
    assert!(copied.success());
    let users = ByHand::start(&own);
    users.ask("insert into t select generate_series(1, 5000)");
    let listed = workspace.list().unwrap().remove(0).used_by_others.unwrap();
    assert!(listed.contains("a server with the data directory"), "{listed}");
    expect_left(&workspace, &mut cluster, &format!("a server with the data directory `{}`", own.display()));
    drop(users);
    expect_left(&workspace, &mut cluster, "has changed since pgdyno left it");

    let left = workspace.remove_by_force(NAME).unwrap();
    assert!(left.len() == 1 && left[0].0 == dir && left[0].1.contains("has changed"), "{left:?}");
    assert!(!cluster.root.exists());
    assert_eq!(ByHand::start(&own).ask("select count(*) from t"), "6000");
}

#[test]
fn a_tablespace_with_the_mark_of_a_copy_is_another_clusters() {
    let place = place();
    let workspace = Workspace::open(&place.path().join("clusters")).unwrap();
    let (_, cluster) = kept_with_tablespace(place.path(), &workspace);
    // Its data go elsewhere, and a copy takes their place.
    let data = cluster.data_dir();
    fs::rename(&data, cluster.root.join("aside")).unwrap();
    let copied = Command::new("cp").arg("-a").arg(cluster.root.join("aside")).arg(&data).status().unwrap();
    assert!(copied.success());
    fs::rename(cluster.root.join("aside"), place.path().join("own")).unwrap();
    let why = format!("{:#}", cluster.mark_tablespaces().unwrap_err());
    assert!(why.contains("it has the mark `pgdyno-"), "{why}");
    workspace.remove(NAME).unwrap();
    let own = ByHand::start(&place.path().join("own"));
    assert_eq!(own.ask("select count(*) from t"), "1000");
}

#[test]
fn a_cluster_that_moved_with_its_cache_is_used_as_ever_unless_somebody_has_used_it() {
    let place = place();
    let workspace = Workspace::open(&place.path().join("clusters")).unwrap();
    kept(&workspace, &[FILL]);
    let copied = |to: &str| {
        let to = place.path().join(to);
        assert!(Command::new("cp").arg("-a").args([&workspace.dir, &to]).status().unwrap().success());
        Workspace::open(&to).unwrap()
    };
    let (moved, used) = (copied("moved"), copied("used"));
    workspace.remove(NAME).unwrap();

    let mut cluster = Cluster::open(&installed(), &moved.dir.join(NAME)).unwrap();
    in_ordinary_use(&moved, &mut cluster);
    moved.remove(NAME).unwrap();

    ByHand::start(&used.dir.join(NAME).join("data")).ask("create database mine");
    let why = format!("{:#}", used.remove(NAME).unwrap_err());
    assert!(why.contains(&format!("pgdyno server remove --force {NAME}")), "{why}");
    used.remove_by_force(NAME).unwrap();
    assert!(!used.dir.join(NAME).exists());
}

fn only_entry(dir: &Path) -> PathBuf {
    fs::read_dir(dir).unwrap().next().unwrap().unwrap().path()
}
