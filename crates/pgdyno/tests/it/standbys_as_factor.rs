//! Standbys of a server that pgdyno runs: a factor, proved to be of the run, and gone afterwards.

use std::fs;

use nix::sys::signal::Signal;
use testbed::bin_dir;

use crate::tool::{PACE, Place, expect_sound, wait_until};

/// A run with a short load.
fn args<'a>(bin_dir: &'a str, more: &[&'a str]) -> Vec<&'a str> {
    let usual = "--scale 1 -c 1 --ramp-up 0s --repeats 1 --set experiment.seed=7";
    let usual: Vec<&str> = usual.split_whitespace().collect();
    [&["run", "--bin-dir", bin_dir, PACE][..], &usual, more].concat()
}

/// Directories of clusters in the cache.
fn clusters(place: &Place) -> Vec<String> {
    let entries = fs::read_dir(place.path("cache/clusters")).unwrap().flatten();
    let dirs = entries.filter(|entry| entry.file_type().unwrap().is_dir());
    let mut names: Vec<String> = dirs.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

#[test]
fn each_number_of_standbys_is_a_case_and_each_standby_is_of_its_run() {
    let (place, bin_dir) = (Place::new(), bin_dir().display().to_string());
    let factor = ["--standbys", "0,2", "--set", "topology.synchronous=any 1", "--measure", "2s", "-o", "out"];
    place.run(&args(&bin_dir, &factor)).expect(0);
    assert_eq!(clusters(&place).len(), 1, "only the primary's is kept: {:?}", clusters(&place));

    let data = place.results("out");
    let mut n_nodes = Vec::new();
    for run in &data.runs {
        expect_sound(run);
        let record = &run.record;
        n_nodes.push((record.case.levels["topology.standbys"].clone(), record.nodes.len()));
        let server = record.server.as_ref().unwrap();
        let names: Vec<&str> = record.nodes.iter().map(|node| node.name.as_str()).collect();
        assert_eq!(names, ["s1", "s2"][..names.len()]);
        for node in &record.nodes {
            assert_eq!(node.sync_state, "quorum");
            assert_eq!(Some(&node.system_identifier), server.system_identifier.as_ref());
            let after = node.after.as_ref().unwrap();
            assert_eq!(after.sync_state.as_deref(), Some("quorum"));
            assert!(after.catch_up_s.is_some() && after.relayed_bytes.is_none(), "{after:?}");
        }
        let expected = if names.is_empty() { "" } else { "ANY 1 (s1, s2)" };
        assert_eq!(server.setting("synchronous_standby_names"), Some(expected));
    }
    n_nodes.sort();
    assert_eq!(n_nodes, [("0".to_string(), 0), ("2".to_string(), 2)]);
    place.expect_clean();
}

#[test]
fn a_standby_of_a_standby_follows_it_and_no_commit_waits_for_it() {
    let (place, bin_dir) = (Place::new(), bin_dir().display().to_string());
    let cascade = ["--standbys", "2", "--set", "topology.from.s2=s1", "--set", "topology.delay=1ms"];
    let more = ["--set", "topology.synchronous=all", "--measure", "2s", "-o", "out"];
    place.run(&args(&bin_dir, &[&cascade[..], &more].concat())).expect(0);
    let run = place.first_run("out");
    expect_sound(&run);
    let server = run.record.server.as_ref().unwrap();
    assert_eq!(server.setting("synchronous_standby_names"), Some("s1"));
    let [s1, s2] = run.record.nodes.as_slice() else { panic!("{:?}", run.record.nodes) };
    assert_eq!((s1.upstream.as_deref(), s1.sync_state.as_str()), (None, "sync"));
    assert_eq!((s2.upstream.as_deref(), s2.sync_state.as_str()), (Some("s1"), "async"));
    for node in [s1, s2] {
        let after = node.after.as_ref().unwrap();
        assert!(after.catch_up_s.is_some() && after.relayed_bytes > Some(0), "{node:?}");
    }
    place.expect_clean();
}

/// Each script fails on the other kind of server.
const MIX: &str = r#"
[experiment]
name = "mix"

[workload]
kind = "scripts"
data = "tpcb"
scripts = [
    {name = "reads", text = "SELECT 1 / pg_is_in_recovery()::int;", weight = 3, to = "reads"},
    {name = "writes", text = "UPDATE pgbench_branches SET bbalance = bbalance + 1 WHERE bid = 1;"},
]
reads = ["standbys", "primary"]
"#;

#[test]
fn reads_of_a_mix_go_to_the_standby_and_its_writes_to_the_primary() {
    let (place, bin_dir) = (Place::new(), bin_dir().display().to_string());
    fs::write(place.path("mix.toml"), MIX).unwrap();
    let more = ["mix.toml", "--standbys", "1", "--measure", "2s", "-o", "out"];
    place.run(&args(&bin_dir, &more)).expect(0);
    for run in place.results("out").runs {
        let (done, load) = (run.record.done.as_ref().unwrap(), run.record.load.as_ref().unwrap());
        let to_standby = run.record.case.levels["workload.reads"] == "standbys";
        assert_eq!(load.reads.as_ref().map(|reads| reads.scripts.len()), to_standby.then_some(1));
        let ready = run.record.ready.as_ref().unwrap();
        assert_eq!(ready.backend_pids.len(), if to_standby { 2 } else { 1 });
        let counts = &done.counts;
        assert!(counts.committed > 10, "{counts:?}");
        let fails = if to_standby { 0..1 } else { 50..1000 };
        assert!(fails.contains(&counts.failed), "reads divide by zero on the primary: {counts:?}");
    }
    place.expect_clean();
}

#[test]
fn a_standby_that_never_streams_says_where_both_servers_are() {
    let (place, bin_dir) = (Place::new(), bin_dir().display().to_string());
    // The plan refuses 0. It does not read hexadecimal numbers, which the server takes.
    let none = ["--standbys", "1", "--set", "server.settings.max_wal_senders=\"0x0\"", "--measure", "2s"];
    let more = ["--set", "run.phase_timeout=12s", "-o", "out"];
    let said = place.run(&args(&bin_dir, &[&none[..], &more].concat())).stderr;
    let text = said.split_whitespace().collect::<Vec<&str>>().join(" ");
    for part in [
        "standby `s1` does not stream from `primary` within",
        "its upstream is at 0/",
        "slot `s1` is not active and keeps WAL from 0/",
        "the standby has received WAL up to",
        "and replayed it up to 0/",
        "its log ends with",
    ] {
        assert!(text.contains(part), "{part}: {said}");
    }
    place.expect_clean();
}

#[test]
fn what_no_server_could_do_is_refused_when_it_is_planned() {
    let place = Place::new();
    for (more, expected) in [
        (
            &["--set", "topology.synchronous=any 2"][..],
            "topology.synchronous = \"any 2\": commits would wait for 2 standbys, and the case has 1",
        ),
        (
            &["--set", "prepare.restore=false"],
            "all nodes start from one snapshot of the data before each run",
        ),
        (&["--set", "prepare.snapshot=false"], "but prepare.snapshot is off; leave it on"),
        (&["--set", "server.settings.wal_level=minimal"], "it writes too little WAL for standbys"),
        (&["--set", "server.settings.max_wal_senders=0"], "max_wal_senders = 0: the primary needs 1"),
        (&["--set", "server.settings.synchronous_standby_names=s1"], "pgdyno names the standbys itself"),
        (&["--set", "topology.standby_settings.primary_conninfo=x"], "pgdyno gives each standby its own"),
        (&["--server", "postgresql://127.0.0.1:1/x"], "only of a server that it runs itself"),
        (&["--standbys", "10"], "10 is not in 0..9"),
    ] {
        for command in ["plan", "run"] {
            let mut args = vec![command, "--scale", "1", "-c", "1"];
            args.extend(if more[0] == "--standbys" { &[][..] } else { &["--standbys", "1"][..] });
            let refused = place.run(&[&args[..], more].concat()).expect(1).stderr;
            assert!(refused.contains(expected), "{more:?}: {refused}");
        }
    }
    assert!(!place.path("cache/clusters").exists(), "nothing is made");
    place.expect_clean();
}

#[test]
fn a_killed_pgdyno_leaves_no_server_and_its_standby_is_swept_by_the_next() {
    let (place, bin_dir) = (Place::new(), bin_dir().display().to_string());
    let with = ["--standbys", "1", "--set", "topology.delay=1ms", "--measure", "60s", "-o", "killed"];
    let running = place.start(place.command(&args(&bin_dir, &with)));
    place.wait_for_load("killed", 1);
    assert_eq!(clusters(&place).len(), 2);
    running.signal(Signal::SIGKILL);
    running.wait();
    wait_until("the end of the servers", || place.processes().is_empty());
    assert_eq!(clusters(&place).len(), 2, "nobody could remove it");

    place.run(&args(&bin_dir, &["--measure", "2s", "-o", "next"])).expect(0);
    assert_eq!(clusters(&place).len(), 1, "{:?}", clusters(&place));
    place.expect_clean();
}
