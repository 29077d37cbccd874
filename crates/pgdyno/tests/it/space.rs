//! Disk space: what plans and runs refuse, what the cache keeps, and experiments on disks that are nearly full.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::process::Command;

use nix::sys::signal::Signal;
use serde_json::Value;

use crate::tool::{Ended, PACE, Place, SMALL, expect_sound, tell};

const BIN_DIR: &str = "/usr/lib/postgresql/15/bin";

/// A file system in memory on a directory of a place; unmounted when dropped.
struct SmallDisk(PathBuf);

impl SmallDisk {
    /// `None` where this user cannot mount: tests that need one are skipped.
    fn at(place: &Place, name: &str, megabytes: u32) -> Option<SmallDisk> {
        let dir = place.path(name);
        fs::create_dir_all(&dir).unwrap();
        let options = format!("size={megabytes}m,mode=755");
        let mounted =
            Command::new("mount").args(["-t", "tmpfs", "-o", &options, "pgdyno-test"]).arg(&dir).output();
        let is_mounted = mounted.is_ok_and(|output| output.status.success());
        if !is_mounted {
            tell("skipped: file systems cannot be mounted here");
        }
        is_mounted.then_some(SmallDisk(dir))
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        // Lazily: a test that fails may leave a server that ends a moment later.
        let _ = Command::new("umount").arg("-l").arg(&self.0).status();
    }
}

/// A short experiment on PostgreSQL 15, with further lines.
fn short<'a>(command: &'a str, more: &[&'a str]) -> Vec<&'a str> {
    let base =
        "--bin-dir /usr/lib/postgresql/15/bin -c 2 --ramp-up 0s --measure 2s --set prepare.settle=false";
    [command, PACE, "--set", SMALL]
        .into_iter()
        .chain(base.split_whitespace())
        .chain(more.iter().copied())
        .collect()
}

/// pgdyno with a budget for its cache.
fn with_budget(place: &Place, budget: &str, args: &[&str]) -> Ended {
    let mut command = place.command(args);
    command.env("PGDYNO_CACHE_SIZE", budget);
    place.start(command).wait()
}

/// The clusters that the cache has.
fn clusters(place: &Place) -> Vec<Value> {
    let list = place.run(&["server", "list", "--json"]).expect(0).stdout;
    list.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// The scales of clusters, sorted.
fn scales(place: &Place) -> Vec<String> {
    let scale = |cluster: &Value| cluster["labels"]["scale"].as_str().unwrap().to_string();
    let mut scales: Vec<String> = clusters(place).iter().map(scale).collect();
    scales.sort();
    scales
}

/// Checks that plan and run refuse with the same text, which contains `words`.
#[track_caller]
fn expect_refused_alike(place: &Place, more: &[&str], words: &[&str]) {
    let plan = place.run(&short("plan", more)).expect(1).stdout;
    let refusal = plan.lines().find_map(|line| line.strip_prefix("problem ")).unwrap().to_string();
    let run = place.run(&short("run", &[more, &["--yes", "-o", "refused"]].concat())).expect(1).stderr;
    let said = run.lines().find_map(|line| line.strip_prefix("pgdyno: error: ")).unwrap().to_string();
    // Others write to the disk of this machine between the two.
    let figures = |text: &str| text.split("), and ").next().unwrap().to_string();
    assert_eq!(figures(&refusal), figures(&said));
    for word in words {
        assert!(refusal.contains(word) && said.contains(word), "{word}: {refusal}\n{said}");
    }
    assert!(!place.path("refused").exists(), "what is refused leaves no directory");
}

#[test]
fn plan_and_run_refuse_by_the_same_figures() {
    let place = Place::new();
    // 250 TB of WAL are more than any disk on which this is tested.
    let wal = ["--scale", "1", "--set", "server.settings.max_wal_size=250TB"];
    expect_refused_alike(&place, &wal, &["WAL 312", "prepare.wal_headroom", "are missing"]);
    let data = ["--scale", "1000000", "--set", "server.settings.max_wal_size=1GB"];
    expect_refused_alike(&place, &data, &["data 1", "snapshots 1", "are missing"]);
    let vouched = [&wal[..], &["--set", "prepare.wal_headroom=100MB"]].concat();
    let plan = place.run(&short("plan", &vouched)).expect(0).stdout;
    assert!(plan.contains("WAL 100 MiB") && plan.contains("are free"), "{plan}");
    for (key, value, words) in [
        ("prepare.wal_headroom", "10XiB", "is not a size"),
        ("run.servers_at_a_time", "2", "give 1, or leave it out"),
        ("prepare.snapshot_directory", "/tmp", "has no effect; remove one of the two"),
    ] {
        let set = format!("{key}={value}");
        let args = short("plan", &["--scale", "1", "--set", &set, "--set", "prepare.snapshot=false"]);
        let said = place.run(&args).expect(1).stderr;
        assert!(said.contains(key) && said.contains(words), "{said}");
    }
    place.expect_clean();
}

#[test]
fn a_wal_device_that_is_too_small_is_refused_and_headroom_is_believed() {
    let place = Place::new();
    let Some(_disk) = SmallDisk::at(&place, "wal", 600) else { return };
    let dir = format!("server.wal_directory={}", place.path("wal").display());
    let more = ["--scale", "1", "--repeats", "1", "--set", &dir, "--set", "server.settings.max_wal_size=1GB"];
    expect_refused_alike(
        &place,
        &more,
        &["/wal` needs 1.50 GiB at the peak (WAL 1.25 GiB, to stay free 256 MiB)", "600 MiB are free"],
    );
    let vouched = [&more[..], &["--set", "prepare.wal_headroom=150MB", "-o", "out"]].concat();
    place.run(&short("run", &vouched)).expect(0);
    expect_sound(&place.first_run("out"));
    place.expect_clean();
}

#[test]
fn one_server_at_a_time_fits_where_two_do_not() {
    let place = Place::new();
    let Some(_disk) = SmallDisk::at(&place, "cache", 900) else { return };
    let both = [
        "--scale",
        "4",
        "--repeats",
        "2",
        "--set",
        "server.data_checksums=[false, true]",
        "--set",
        "server.settings.max_wal_size=64MB",
    ];
    expect_refused_alike(
        &place,
        &both,
        &["/cache/clusters` needs", "run.servers_at_a_time = 1: one at a time of 2 clusters"],
    );
    let in_turn = [&both[..], &["--set", "run.servers_at_a_time=1"]].concat();
    let plan = place.run(&short("plan", &in_turn)).expect(0).stdout;
    assert!(plan.contains("note    run.servers_at_a_time = 1"), "{plan}");
    let ended = place.run(&short("run", &[&in_turn[..], &["-o", "out"]].concat())).expect(0);
    let data = place.results("out");
    data.runs.iter().for_each(expect_sound);
    let cases: Vec<u32> = data.runs.iter().map(|run| run.record.spec.case).collect();
    assert!(cases == [1, 1, 2, 2] || cases == [2, 2, 1, 1], "{cases:?}");
    let report = fs::read_to_string(place.path("out/report.md")).unwrap();
    assert!(report.contains("Servers were measured one after the other"), "{report}\n{ended:?}");
    assert_eq!(clusters(&place).len(), 1, "the first was removed");
    place.expect_clean();
}

#[test]
fn a_duet_needs_space_for_both_of_its_servers() {
    let place = Place::new();
    let Some(_disk) = SmallDisk::at(&place, "cache", 900) else { return };
    let one = ["--scale", "4", "--repeats", "1", "--set", "server.settings.max_wal_size=64MB"];
    place.run(&short("plan", &one)).expect(0);
    let duet = "compare --duet --a server.settings.jit=on --b server.settings.jit=off --set server.bin_dir=/usr/lib/postgresql/15/bin --scale 4 -c 2 \
                --rounds 1 --set server.settings.max_wal_size=64MB -o out";
    let refused = place.run(&duet.split_whitespace().collect::<Vec<_>>()).expect(1).stderr;
    assert!(refused.contains("/cache/clusters` needs") && refused.contains("are missing"), "{refused}");
    assert!(!place.path("out").exists() && clusters(&place).is_empty(), "nothing was begun");
    place.expect_clean();
}

#[test]
fn the_cache_removes_the_least_recently_used_and_nothing_in_use() {
    let place = Place::new();
    let init = |scale: &'static str| ["init", "--bin-dir", BIN_DIR, "--scale", scale];
    place.run(&init("1")).expect(0);
    place.run(&init("2")).expect(0);
    // Used again.
    place.run(&init("1")).expect(0);
    let bytes: u64 = clusters(&place).iter().map(|cluster| cluster["bytes"].as_u64().unwrap()).sum();
    // A new one has a few hundred MB at most: one of the two must be removed, and then there is room.
    let budget = format!("{}MB", (bytes >> 20) + 320);
    let made = with_budget(&place, &budget, &init("3")).expect(0);
    assert!(made.stderr.contains("removed cluster `") && made.stderr.contains(&budget), "{made:?}");
    assert_eq!(scales(&place), ["1", "3"]);

    let run = short("run", &["--scale", "1", "--repeats", "1", "--set", "run.measure=80s", "-o", "out"]);
    let running = place.start(place.command(&run));
    place.wait_for_load("out", 1);
    let made = with_budget(&place, "1MB", &init("4")).expect(0);
    assert!(made.stderr.contains("more than its budget"), "{made:?}");
    assert_eq!(scales(&place), ["1", "4"], "one is in use, the other the last");
    running.signal(Signal::SIGINT);
    running.wait().expect(2);
    place.expect_clean();
}

#[test]
fn a_budget_is_a_size_and_a_budget_of_zero_keeps_nothing() {
    let place = Place::new();
    for bad in ["lots", "50", "120%"] {
        let said = with_budget(&place, bad, &["server", "list"]).expect(1).stderr;
        assert!(said.contains(&format!("PGDYNO_CACHE_SIZE={bad} is not a size")), "{said}");
    }
    let said = with_budget(&place, "0", &["init", "--bin-dir", BIN_DIR, "--scale", "1"]).expect(1).stderr;
    assert!(said.contains("keeps no cluster"), "{said}");
    with_budget(&place, "0", &short("run", &["--scale", "1", "--repeats", "1", "-o", "out"])).expect(0);
    assert_eq!(clusters(&place).len(), 0);
    let list = with_budget(&place, "20%", &["server", "list"]).expect(0).stderr;
    assert!(list.contains("(PGDYNO_CACHE_SIZE=20%)"), "{list}");
    place.expect_clean();
}

#[test]
fn without_restore_there_is_no_snapshot_and_without_a_snapshot_data_is_loaded_again() {
    let place = Place::new();
    let snapshots = || {
        let path = PathBuf::from(clusters(&place)[0]["path"].as_str().unwrap());
        fs::read_dir(path.join("snapshots")).map_or(0, Iterator::count)
    };
    let as_it_is = ["--scale", "1", "--repeats", "2", "--set", "prepare.restore=false"];
    place.run(&short("run", &[&as_it_is[..], &["-o", "one"]].concat())).expect(0);
    assert_eq!(snapshots(), 0);
    let once = ["--scale", "1", "--repeats", "1", "--set", "prepare.restore=false", "-o", "two"];
    let again = place.run(&short("run", &once)).expect(0).stderr;
    assert!(again.contains("using the data"), "{again}");

    let reloaded = ["--scale", "1", "--repeats", "2", "--set", "prepare.snapshot=false", "-o", "three"];
    place.run(&short("run", &reloaded)).expect(0);
    assert_eq!(snapshots(), 0);
    let data = place.results("three");
    for (run, method) in data.runs.iter().zip(["loaded just now", "loaded again"]) {
        expect_sound(run);
        let detail = &run.record.phase(model::run::phase::Phase::Restore).unwrap().detail;
        assert!(detail["method"].contains(method), "{detail:?}");
        assert_eq!(run.record.rows_before["pgbench_history"], 0);
    }
    place.run(&short("run", &["--scale", "1", "--repeats", "1", "-o", "four"])).expect(0);
    assert_eq!(snapshots(), 1, "the default keeps one");
    place.expect_clean();
}

#[test]
fn snapshots_are_kept_on_another_device_and_removed_with_their_cluster() {
    let place = Place::new();
    let Some(disk) = SmallDisk::at(&place, "snapshots", 400) else { return };
    let dir = format!("prepare.snapshot_directory={}", disk.0.display());
    let more = ["--scale", "1", "--repeats", "2", "--set", &dir];
    let plan = place.run(&short("plan", &more)).expect(0).stdout;
    assert!(plan.contains("/snapshots` needs") && plan.contains("(snapshots "), "{plan}");
    place.run(&short("run", &[&more[..], &["-o", "out"]].concat())).expect(0);
    place.results("out").runs.iter().for_each(expect_sound);
    let cluster = clusters(&place).remove(0);
    let path = PathBuf::from(cluster["path"].as_str().unwrap());
    assert!(!path.join("snapshots").exists(), "nothing is kept next to the data");
    let held = || fs::read_dir(&disk.0).unwrap().flatten().map(|entry| entry.path()).collect::<Vec<_>>();
    let [holder] = held().try_into().unwrap();
    assert!(holder.join("loaded/data/PG_VERSION").is_file());
    // Only the user that pgdyno runs as can replace what is restored.
    assert_eq!(fs::metadata(&holder).unwrap().uid(), nix::unistd::geteuid().as_raw());
    assert_eq!(fs::metadata(&holder).unwrap().mode() & 0o777, 0o700);
    place.run(&["server", "remove", cluster["name"].as_str().unwrap()]).expect(0);
    assert_eq!(held(), Vec::<PathBuf>::new());
    place.expect_clean();
}
