//! The clusters that embedded servers leave for the next run: listed, removed, swept.

use std::fs::Permissions;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use crate::tool::{PACE, Place};

#[test]
fn clusters_are_listed_and_removed_by_name() {
    let place = Place::with_binaries(&["18"]);
    place.run(&["init", "--scale", "1"]).expect(0);
    let list = place.run(&["server", "list"]).expect(0);
    let name = list.stdout.split_whitespace().next().unwrap().to_string();
    assert!(list.stdout.contains("PostgreSQL 18") && list.stdout.contains("scale 1"), "{list:?}");
    assert!(list.stderr.contains("1 cluster,") && list.stderr.contains("cache"), "{list:?}");
    let json = place.run(&["server", "list", "--json"]).expect(0);
    assert!(json.stdout.contains(&format!("\"name\":\"{name}\"")), "{json:?}");

    place.run(&["server", "remove", &name]).expect(0);
    assert_eq!(place.run(&["server", "list"]).expect(0).stdout, "");
    let again = place.run(&["server", "remove", &name]).expect(1);
    assert!(again.stderr.contains("there is no cluster"), "{again:?}");
    place.expect_clean();
}

#[test]
fn an_unfinished_cluster_is_swept() {
    let place = Place::with_binaries(&["18"]);
    place.run(&["init", "--scale", "1"]).expect(0);
    let list = place.run(&["server", "list", "--json"]).expect(0);
    let entry: serde_json::Value = serde_json::from_str(&list.stdout).unwrap();
    let marker = format!("{}/pgdyno-cluster.json", entry["path"].as_str().unwrap());
    let text = std::fs::read_to_string(&marker).unwrap();
    std::fs::write(&marker, text.replace("\"is_complete\": true", "\"is_complete\": false")).unwrap();
    let list = place.run(&["server", "list"]).expect(0);
    assert!(list.stdout.contains("incomplete"), "{list:?}");
    place.run(&["init", "--scale", "2"]).expect(0);
    let list = place.run(&["server", "list"]).expect(0);
    assert!(list.stdout.contains("scale 2") && list.stdout.lines().count() == 1, "{list:?}");
}

#[test]
fn check_looks_into_the_cluster_with_the_workloads_data() {
    let place = Place::with_binaries(&["18"]);
    place.run(&["init", "-w", "tpcc", "--scale", "1"]).expect(0);
    place.run(&["init", "--scale", "1"]).expect(0);
    let tpcc = place.run(&["check", "-w", "tpcc", "--scale", "1"]).expect(0).stdout;
    assert!(tpcc.contains("3.3.2.12"), "{tpcc}");
    let last = place.run(&["check", "--scale", "1"]).expect(0).stdout;
    assert!(!last.contains("3.3.2.12"), "the one used last is that of tpcb: {last}");
    let none = place.run(&["check", "-w", "tproc-c", "--scale", "1"]).expect(1).stderr;
    assert!(none.contains("no embedded server with such data (tproc-c, scale 1)"), "{none}");
    place.expect_clean();
}

#[test]
fn root_runs_nothing_for_a_marker_that_the_servers_user_replaced() {
    let account = server::Account::choose().unwrap();
    // Another user's marker is dangerous only to root.
    if !account.is_switched {
        return;
    }
    let place = Place::with_binaries(&["18"]);
    place.run(&["init", "--scale", "1"]).expect(0);
    let list = place.run(&["server", "list", "--json"]).expect(0);
    let entry: serde_json::Value = serde_json::from_str(&list.stdout).unwrap();
    let root = entry["path"].as_str().unwrap();
    let open = place.path("open");
    std::fs::create_dir(&open).unwrap();
    std::fs::set_permissions(&open, Permissions::from_mode(0o777)).unwrap();
    let script = "for name in postgres initdb; do \
                    printf '#!/bin/sh\\nid -u >>%s/who\\necho postgres 18.6\\n' $PWD >$name; chmod 755 $name; done; \
                  sed \"s|\\\"labels\\\": {|&\\\"bin_dir\\\": \\\"$PWD\\\",|\" $0/pgdyno-cluster.json >marker";
    let prepared = Command::new("sh").args(["-c", script, root]).current_dir(&open).status().unwrap();
    assert!(prepared.success());
    let marker = std::fs::read_to_string(open.join("marker")).unwrap();
    serde_json::from_str::<serde_json::Value>(&marker).unwrap();
    assert!(marker.contains("bin_dir"), "{marker}");
    let planted = Command::new("sh")
        .args(["-c", "cp marker $0/new && mv -f $0/new $0/pgdyno-cluster.json", root])
        .current_dir(&open)
        .uid(account.uid)
        .gid(account.gid)
        .output()
        .unwrap();
    let checked = place.run(&["check", "--scale", "1"]);
    let who = std::fs::read_to_string(open.join("who")).unwrap_or_default();
    assert!(!who.lines().any(|user| user == "0"), "root ran what another user named: {who}");
    assert!(!planted.status.success(), "the server's user replaced the marker");
    checked.expect(0);
}

/// Name and directory of the only cluster of a place.
fn only_cluster(place: &Place) -> (String, std::path::PathBuf) {
    let list = place.run(&["server", "list", "--json"]).expect(0);
    let entry: serde_json::Value = serde_json::from_str(&list.stdout).unwrap();
    (entry["name"].as_str().unwrap().to_string(), entry["path"].as_str().unwrap().into())
}

#[test]
fn a_marker_that_a_power_failure_left_empty_blocks_nothing() {
    let place = Place::new();
    let wal = place.path("wal");
    std::fs::create_dir(&wal).unwrap();
    std::fs::set_permissions(&wal, Permissions::from_mode(0o755)).unwrap();
    let wal = format!("server.wal_directory={}", wal.display());
    let init = ["init", "--bin-dir", "/usr/lib/postgresql/15/bin", "--scale", "1"];
    let break_marker = || {
        place.run(&init).expect(0);
        let (name, root) = only_cluster(&place);
        std::fs::write(root.join("pgdyno-cluster.json"), "").unwrap();
        let list = place.run(&["server", "list"]).expect(0);
        assert!(list.stdout.contains("is damaged"), "{list:?}");
        (name, root)
    };
    let (_, root) = break_marker();
    place.run(&init).expect(0);
    assert!(
        std::fs::read_to_string(root.join("pgdyno-cluster.json")).unwrap().contains("\"is_complete\": true")
    );
    let (name, root) = break_marker();
    let cleaned = place.run(&["clean"]).expect(0);
    let words = format!("/{name}`, a cluster that was incomplete");
    assert!(cleaned.stderr.contains(&words) && !root.exists(), "{cleaned:?}");
    let (name, root) = break_marker();
    place.run(&["server", "remove", &name]).expect(0);
    assert!(!root.exists());

    // Without a marker it is removed only by force, and not if it has files that are in no cluster.
    let (name, root) = break_marker();
    std::fs::remove_file(root.join("pgdyno-cluster.json")).unwrap();
    std::fs::write(root.join("thesis.txt"), "precious").unwrap();
    place.run(&["clean"]).expect(0);
    place.run(&["server", "remove", &name]).expect(1);
    let refused = place.run(&["server", "remove", "--force", &name]).expect(1);
    assert!(refused.stderr.contains("has `thesis.txt`, which is in no cluster of pgdyno"), "{refused:?}");
    assert!(root.join("data/PG_VERSION").exists() && root.join("thesis.txt").exists());
    std::fs::remove_file(root.join("thesis.txt")).unwrap();
    place.run(&["server", "remove", "--force", &name]).expect(0);
    assert!(!root.exists());

    // A WAL on another device is removed with it, because it has its own marker.
    let run = [
        &["run", "--set", &wal, "--measure", "2s", "--ramp-up", "0s", "--repeats", "1", "-c", "1", PACE],
        &init[1..],
    ];
    place.run(&run.concat());
    let (name, root) = only_cluster(&place);
    let holders = || std::fs::read_dir(place.path("wal")).unwrap().count();
    assert_eq!(holders(), 1);
    std::fs::write(root.join("pgdyno-cluster.json"), "{").unwrap();
    place.run(&["server", "remove", &name]).expect(0);
    assert_eq!((root.exists(), holders()), (false, 0));
    place.expect_clean();
}

/// A kill between the creation of the directory and of its marker must not block later `init`s and `run`s.
#[test]
fn a_cluster_whose_creation_or_removal_was_interrupted_before_or_after_its_marker_blocks_nothing() {
    let place = Place::new();
    let init = ["init", "--bin-dir", "/usr/lib/postgresql/15/bin", "--scale", "1"];
    place.run(&init).expect(0);
    let (name, root) = only_cluster(&place);
    let leave = |name: Option<&str>| {
        std::fs::remove_dir_all(&root).ok();
        std::fs::create_dir(&root).unwrap();
        name.iter().for_each(|name| std::fs::write(root.join(name), "").unwrap());
        place.run(&["server", "list"]).expect(0);
    };
    for left in [None, Some("pgdyno-cluster.json.tmp")] {
        for args in [&["clean"][..], &["server", "remove", &name]] {
            leave(left);
            place.run(args).expect(0);
            assert!(!root.exists(), "{left:?} {args:?}");
        }
    }
    // Nothing shows whose log it is.
    for left in ["server.log", "restore.log"] {
        leave(Some(left));
        place.run(&["clean"]).expect(0);
        place.run(&["server", "remove", &name]).expect(1);
        assert!(root.join(left).exists(), "{left}");
    }
    leave(None);
    place.run(&init).expect(0);
    place.run(&["check", "--bin-dir", init[2], "--scale", "1"]).expect(0);
    place.expect_clean();
}

/// Marks a directory as pgdyno marks those in which it works for a time; returns the mark's path.
fn mark(dir: &Path) -> PathBuf {
    let path = dir.join(".pgdyno-temporary");
    std::fs::write(&path, format!("{}\n", std::fs::metadata(dir).unwrap().ino())).unwrap();
    path
}

#[test]
fn directories_of_a_user_with_the_names_of_builds_survive_a_clean() {
    let place = Place::new();
    let dir = |name: &str| place.path("cache/builds").join(name);
    for name in
        ["photos.work/2026", "photos.stage/2026", "REL_15_1-ab.work/source", "repositories/mine.part/x"]
    {
        std::fs::create_dir_all(dir(name)).unwrap();
    }
    mark(&dir("REL_15_1-ab.work"));
    let cleaned = place.run(&["clean"]).expect(0);
    assert!(cleaned.stderr.contains("REL_15_1-ab.work`, an incomplete build"), "{cleaned:?}");
    assert!(!dir("REL_15_1-ab.work").exists());
    for name in ["photos.work/2026", "photos.stage/2026", "repositories/mine.part/x"] {
        assert!(dir(name).exists(), "{name}");
    }
}

/// With a mistake in PGDYNO_CACHE, such as `/`, nothing that pgdyno makes appears there.
#[test]
fn commands_that_only_read_or_remove_create_nothing_in_the_cache() {
    let place = Place::new();
    let [empty, absent] = ["empty", "absent"].map(|name| place.path(name));
    std::fs::create_dir(&empty).unwrap();
    let commands: [(&[&str], i32); 5] = [
        (&["clean"], 0),
        (&["server", "list"], 0),
        (&["server", "remove", "--all"], 0),
        (&["server", "remove", "x"], 1),
        (&["list", "."], 0),
    ];
    for cache in [&empty, &absent] {
        for (args, code) in commands {
            let output = place.command(args).env("PGDYNO_CACHE", cache).output().unwrap();
            assert_eq!(output.status.code(), Some(code), "{args:?} {output:?}");
        }
    }
    assert_eq!(std::fs::read_dir(&empty).unwrap().count(), 0);
    assert!(!absent.exists());
}

/// What is in our directory is removed with it, but not what its owner mounts there.
#[test]
fn what_is_mounted_in_our_directory_survives_its_removal() {
    if !nix::unistd::geteuid().is_root() {
        // Nobody else may mount something.
        return;
    }
    let place = Place::new();
    let work = place.path("cache/builds/REL_15_1-ab.work");
    std::fs::create_dir_all(work.join("source/photos")).unwrap();
    mark(&work);
    std::fs::create_dir(place.path("photos")).unwrap();
    std::fs::write(place.path("photos/2026.jpg"), "mine").unwrap();
    let script = "mount --bind photos cache/builds/REL_15_1-ab.work/source/photos && exec \"$0\" clean";
    let program = env!("CARGO_BIN_EXE_pgdyno");
    let mut cleaned = place.command_of("unshare".as_ref(), &["--mount", "sh", "-c", script, program]);
    let said = cleaned.output().unwrap();
    let stderr = String::from_utf8_lossy(&said.stderr).into_owned();
    assert!(stderr.contains("something is mounted at `photos` in it; unmount it"), "{stderr}");
    assert!(stderr.contains("left `") && stderr.contains("ab.work`, an incomplete build: "), "{stderr}");
    assert!(!stderr.contains("nothing was left behind") && said.status.code() == Some(1), "{said:?}");
    assert_eq!(std::fs::read_to_string(place.path("photos/2026.jpg")).unwrap(), "mine");
    assert!(work.exists(), "what cannot be removed is there for the next one");
    place.run(&["clean"]).expect(0);
    assert!(!work.exists());
}

#[test]
fn partly_unpacked_binaries_are_removed_unless_a_process_is_unpacking_them() {
    let place = Place::new();
    let dir = |name: &str| place.path("cache/postgres").join(name);
    for name in [".unpack-dead/bin", ".unpack-busy/bin", ".unpack-mine/bin", "mine/bin"] {
        std::fs::create_dir_all(dir(name)).unwrap();
    }
    mark(&dir(".unpack-dead"));
    let lock = std::fs::File::open(mark(&dir(".unpack-busy"))).unwrap();
    lock.lock().unwrap();
    let cleaned = place.run(&["clean"]).expect(0);
    assert!(cleaned.stderr.contains(".unpack-dead`, which was not completely unpacked"), "{cleaned:?}");
    assert!(!dir(".unpack-dead").exists() && dir(".unpack-busy/bin").exists() && dir("mine/bin").exists());
    assert!(dir(".unpack-mine/bin").exists(), "a name proves nothing");
    drop(lock);
    place.run(&["clean"]).expect(0);
    assert!(!dir(".unpack-busy").exists());
}

#[test]
fn directories_of_a_cluster_elsewhere_are_removed_with_it_even_after_a_kill_and_without_its_marker() {
    let place = Place::new();
    for dir in ["wal", "snapshots"] {
        std::fs::create_dir(place.path(dir)).unwrap();
        std::fs::set_permissions(place.path(dir), Permissions::from_mode(0o755)).unwrap();
    }
    let n_holders = || ["wal", "snapshots"].map(|dir| std::fs::read_dir(place.path(dir)).unwrap().count());
    let wal = format!("server.wal_directory={}", place.path("wal").display());
    let snapshots = format!("prepare.snapshot_directory={}", place.path("snapshots").display());
    let line = [
        &["run", "--bin-dir", "/usr/lib/postgresql/15/bin", "--scale", "1", "-c", "1", "--set", &wal][..],
        &["--set", &snapshots, "--measure", "2s", "--ramp-up", "0s", "--repeats", "1", PACE][..],
    ]
    .concat();
    for kind in [0, 1] {
        for _ in 0..3 {
            let running = place.start(place.command(&line));
            let end = Instant::now() + Duration::from_secs(90);
            while n_holders()[kind] == 0 {
                assert!(Instant::now() < end, "the directory is not made");
                std::thread::sleep(Duration::from_millis(1));
            }
            running.signal(nix::sys::signal::Signal::SIGKILL);
            running.wait();
            place.run(&["clean"]).expect(0);
            assert_eq!(n_holders(), [0, 0], "{kind}");
        }
    }

    place.run(&line).expect(0);
    let (name, root) = only_cluster(&place);
    assert_eq!(n_holders(), [1, 1]);
    std::fs::remove_file(root.join("pgdyno-cluster.json")).unwrap();
    place.run(&["server", "remove", "--force", &name]).expect(0);
    assert_eq!((root.exists(), n_holders()), (false, [0, 0]));
    place.expect_clean();
}
