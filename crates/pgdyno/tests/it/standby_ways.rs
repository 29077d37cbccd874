//! The way between a standby and its primary: a relay with a delay and a rate.

use testbed::bin_dir;

use crate::tool::{PACE, Place, expect_sound};

/// Runs of a server with one standby and a short load.
fn run(place: &Place, more: &[&str]) {
    let bin_dir = bin_dir().display().to_string();
    let usual = "--standbys 1 --scale 1 --ramp-up 0s --measure 3s --repeats 1 -o out --set experiment.seed=7";
    let usual: Vec<&str> = usual.split_whitespace().collect();
    place.run(&[&["run", "--bin-dir", &bin_dir][..], &usual, more].concat()).expect(0);
}

#[test]
fn a_commit_that_waits_for_a_standby_takes_the_round_trip_longer() {
    let place = Place::new();
    let levels = ["--set", r#"topology.delay=["0ms","20ms"]"#, "--set", "topology.synchronous=all"];
    let commits = ["--set", "server.settings.synchronous_commit=on", "-w", "tpcb-simple", "-c", "1"];
    run(&place, &[&levels[..], &commits].concat());

    let data = place.results("out");
    for run in &data.runs {
        expect_sound(run);
        let [node] = run.record.nodes.as_slice() else {
            panic!("one standby is expected: {:?}", run.record.nodes)
        };
        assert_eq!((node.name.as_str(), node.sync_state.as_str()), ("s1", "sync"));
        let after = node.after.as_ref().unwrap();
        let committed = run.record.done.as_ref().unwrap().counts.committed;
        // Each commit has a record of its own, and the standby answers it.
        assert!(after.relayed_bytes.unwrap() > 50 * committed, "{after:?}");
        assert_eq!(after.swallowed_bytes, Some(0));
    }
    let study = analysis::study(&data);
    let p50_ms = |delay: &str| {
        let case = data.plan.cases.iter().find(|case| case.levels["topology.delay"] == delay).unwrap();
        let run = study.runs.iter().find(|run| run.case == case.id).unwrap();
        run.latency.as_ref().unwrap().p50_ns as f64 / 1e6
    };
    let (without, with) = (p50_ms("0ms"), p50_ms("20ms"));
    assert!(with >= 20.0, "a commit waits for a round trip: {with} ms");
    // The other test programs load the machine.
    assert!((15.0..50.0).contains(&(with - without)), "{without} ms, {with} ms");
    place.expect_clean();
}

#[test]
fn a_standby_gets_no_more_than_the_rate_lets_pass() {
    let place = Place::new();
    let script = place.write("wal.sql", "select pg_logical_emit_message(true, 'x', repeat('x', 80000));\n");
    let script = script.display().to_string();
    let load = ["-f", &script, "--set", "workload.data=none", "-c", "4", PACE];
    run(&place, &[&load[..], &["--set", "topology.rate=2MB/s"]].concat());

    let run = place.first_run("out");
    let committed = run.record.done.as_ref().unwrap().counts.committed;
    assert!(committed >= 200, "{committed}");
    let after = run.record.nodes[0].after.clone().unwrap();
    // Of 80 kB for each transaction, 2 MiB pass in each of 3 s, and until the standby is asked.
    assert!(after.write_lag_bytes.unwrap() > committed * 80_000 - (12 << 20), "{after:?}");
    place.expect_clean();
}

#[test]
fn all_cases_with_standbys_have_a_relay_if_one_has() {
    let place = Place::new();
    let plan = |more: &[&str]| place.run(&[&["plan", "--scale", "1", "-c", "1"][..], more].concat());
    let rates = ["--standbys", "0,1", "--set", "topology.rate=1MB/s"];
    let planned = plan(&rates).expect(0).stdout;
    let given =
        "          topology.standbys = 1\n          topology.delay = 0ms\n          topology.rate = 1MB/s\n";
    assert_eq!((planned.matches(given).count(), planned.matches("topology.delay = 0ms\n").count()), (1, 2));
    assert!(planned.contains("note    standbys reach their primary through a relay of pgdyno"), "{planned}");
    let direct = plan(&["--standbys", "1"]).expect(0).stdout;
    assert!(!direct.contains("relay") && !direct.contains("topology.delay"), "{direct}");

    for (more, expected) in [
        (
            &["--set", "topology.delay=5ms"][..],
            "topology.delay: no case has a standby; raise topology.standbys",
        ),
        (&["--standbys", "1", "--set", "topology.delay=5"][..], r#"5 needs a unit: write "5ms""#),
        (&["--standbys", "1", "--set", "topology.delay=1h"][..], "`1h` is not the time of a round trip"),
        (&["--standbys", "1", "--set", "topology.rate=10/s"][..], "`10/s` is not a rate in bytes per second"),
    ] {
        let refused = plan(more).expect(1).stderr;
        assert!(refused.contains(expected), "{more:?}: {refused}");
    }
    place.expect_clean();
}
