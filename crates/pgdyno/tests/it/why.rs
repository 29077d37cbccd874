//! What-ifs against real servers: what is changed, that it is put back or nobody else's, and what is said about it. Nothing here
//! asserts a speed: the limiter is what these seconds show.

use nix::sys::signal::Signal;
use serde_json::Value;
use testbed::{ClusterOptions, Pg, TestServer};

use crate::judge::json;
use crate::tool::{Ended, Place, tell, wait_until};

/// Measured shortly, by clients that wait for their commits.
const LOAD: &str = "--scale 1 --ramp-up 1s --measure 4s --repeats 1 -c 4 --set prepare.settle=false --yes -q";

fn run(place: &Place, before: &[&str], more: &str) -> Ended {
    let args: Vec<&str> = before.iter().copied().chain(more.split_whitespace()).collect();
    place.run(&args)
}

/// A server whose every flush of WAL takes long, so that its commits are what limits.
fn slow_to_commit() -> TestServer {
    let settings = &["fsync=on", "commit_delay=20000", "commit_siblings=1", "autovacuum=off"];
    TestServer::start(&ClusterOptions { settings, ..ClusterOptions::default() })
}

/// The figures that every what-if has, and an outcome that follows from them.
fn expect_judged(proofs: &Value) {
    let proofs = proofs.as_array().unwrap();
    assert!(!proofs.is_empty());
    for proof in proofs {
        let number = |value: &Value| value.as_f64().unwrap_or_else(|| panic!("{proof}"));
        let [low, high] = [0, 1].map(|end| number(&proof["interval"][end]));
        let ratio = number(&proof["ratio"]);
        assert!(low <= ratio && ratio <= high && proof["n_pairs"] == 4, "{proof}");
        let outcome = proof["outcome"].as_str().unwrap();
        assert!(["proven", "refuted", "undecided"].contains(&outcome), "{proof}");
        if outcome == "proven" {
            assert!(if proof["kind"] == "lift" { low > 1.1 } else { high < 0.95 }, "{proof}");
        }
    }
}

/// Limiters of a load that other tests, or other guests of the host, left too little of the processors.
const DISTURBED: [&str; 2] = ["foreign-cpu", "steal"];

/// Whether others used the processors so much that nothing else could be said to limit.
fn is_disturbed(ended: &Ended) -> bool {
    let is_named = |limiter: &&str| ended.stderr.contains(&format!("not tested: {limiter}"));
    let is_so = ended.code() == Some(2) && DISTURBED.iter().any(is_named);
    if is_so {
        tell("others used the processors: nothing was proven");
    }
    is_so
}

#[test]
fn a_setting_of_the_loads_own_sessions_is_lifted_on_a_server_by_url_and_nobody_else_has_it() {
    let (server, place) = (slow_to_commit(), Place::new());
    let target = server.admin_target(&server.database_of("postgres"));
    let measure = ["run", "--server", &target, "-w", "tpcb-simple", "-o", "out", "--json"];
    let limiter = |study: &Value| study["cases"][0]["limiter"]["name"].clone();
    let mut study = json(&run(&place, &measure, LOAD).expect(0));
    // Other tests may use all processors: then nothing else can be named.
    for _ in 0..2 {
        if !DISTURBED.iter().any(|disturbed| limiter(&study) == *disturbed) {
            break;
        }
        std::fs::remove_dir_all(place.path("out")).unwrap();
        study = json(&run(&place, &measure, LOAD).expect(0));
    }
    let ended = run(&place, &["why", "out", "-o", "lifted"], "--time 1s --measure 1s --yes -q --json");
    if is_disturbed(&ended) {
        return;
    }
    let ended = ended.expect(0);
    let words = "note: 4 pairs of each what-if, the fewest, take about ";
    assert!(ended.stderr.contains(words), "{}", ended.stderr);
    assert!(ended.stderr.contains(", longer than `why --time 1s`; measuring"), "{}", ended.stderr);
    let told = json(&ended);
    expect_judged(&told["proofs"]);
    let of_wal = |proof: &&Value| proof["limiter"] == "wal-sync";
    let lift = told["proofs"].as_array().unwrap().iter().find(of_wal).unwrap_or_else(|| panic!("{told}"));
    assert_eq!(lift["change"], "synchronous_commit=off in the load's sessions");
    assert!(lift["overruled"].is_null(), "{lift}");
    // What it says is what the run has: the load's sessions reported the value, and the server another one.
    let lifted = place.results("lifted");
    let of_lift = |case: &&model::experiment::case::Case| !case.workload.session_settings.is_empty();
    let case = lifted.plan.cases.iter().find(of_lift).unwrap();
    for run in &lifted.runs {
        let record = &run.record;
        let sessions = record.done.as_ref().unwrap().sessions.as_ref().unwrap();
        let values: Vec<&str> = sessions.values("synchronous_commit").map(|s| s.value.as_str()).collect();
        assert_eq!(values, if record.spec.case == case.id { vec!["off"] } else { vec![] });
        assert_eq!(record.server.as_ref().unwrap().setting("synchronous_commit"), Some("on"));
    }
    let settings = std::fs::read_to_string(server.path("data/postgresql.auto.conf")).unwrap();
    assert!(!settings.lines().any(|line| line.starts_with("synchronous_commit")), "{settings}");
    // The same is in the file, on the terminal and on the page of the results that it explains.
    let kept: Value =
        serde_json::from_str(&std::fs::read_to_string(place.path("out/why.json")).unwrap()).unwrap();
    assert_eq!(kept["cases"][0]["proofs"], told["proofs"]);
    let study = json(&place.run(&["report", "out", "--json"]).expect(0));
    assert_eq!(study["cases"][0]["limiter"], told["limiter"]);
    let page = std::fs::read_to_string(place.path("out/report.html")).unwrap();
    let text =
        place.run(&["report", "out"]).expect(0).stdout.split_whitespace().collect::<Vec<_>>().join(" ");
    for seen in [page.replace("&#39;", "'"), text] {
        assert!(seen.contains("synchronous_commit=off in the load's sessions gives"), "{seen}");
    }
    place.expect_clean();
}

#[test]
fn run_with_why_goes_on_with_the_what_ifs_which_can_be_stopped() {
    let (pg, place) = (Pg::shared(), Place::new());
    let script =
        "begin;\nupdate pgbench_branches set bbalance = bbalance + 1 where bid = 1;\n\\sleep 8 ms\ncommit;\n";
    let script = place.write("hold.sql", script).display().to_string();
    let server = pg.admin_target(&pg.database());
    let args =
        ["run", "--why", "--server", &server, "-f", &script, "--set", "workload.data=tpcb", "-o", "out"];
    let args: Vec<&str> = args.into_iter().chain(LOAD.split_whitespace()).collect();
    let running = place.start(place.command(&args));
    wait_until("the what-ifs begin, or end without one", || {
        running.has_said("what if ") || !running.is_alive()
    });
    if running.is_alive() {
        wait_until("their results have a directory", || place.path("results").exists());
        running.signal(Signal::SIGINT);
    }
    let ended = running.wait();
    assert!(ended.stdout.contains("TPS") || ended.stdout.contains("tps"), "{ended:?}");
    if is_disturbed(&ended) {
        return;
    }
    ended.expect(2);
    place.expect_clean();
}

#[test]
fn run_with_calibrate_measures_what_is_not_known_once_and_records_it() {
    let (pg, place) = (Pg::shared(), Place::new());
    let server = pg.admin_target(&pg.database());
    let data = place.path("cache").display().to_string();
    // The machine is known already, and the device from too short a measurement, which is none of a server by URL.
    let machine = place.run(&["calibrate", "--part", "300ms", "--data", &data, "--json"]).expect(0);
    assert_eq!(json(&machine).as_array().unwrap().len(), 2);
    let args = ["run", "--calibrate", "--server", &server, "-w", "tpcb-select", "-o"];
    let more = "--scale 1 --ramp-up 0s --measure 2s --repeats 1 -c 1 --set prepare.settle=false";
    let first = run(&place, &[&args[..], &["out"]].concat(), more).expect(0);
    assert_eq!(first.stderr.matches("once for 30 days").count(), 1, "{}", first.stderr);
    let again = run(&place, &[&args[..], &["again"]].concat(), more).expect(0);
    assert!(!again.stderr.contains("once for 30 days"), "{}", again.stderr);
    let [one, two] = ["out", "again"].map(|name| place.first_run(name).record.ceilings.measured);
    assert_eq!(one, two);
    assert_eq!((one["network"].part_ms, one["machine"].part_ms), (5000, 300));
    for (role, name) in
        [("network", "round_trip_rate"), ("network", "send_throughput"), ("machine", "core_rate")]
    {
        assert!(one[role].value(name).is_some(), "{one:?}");
    }
    // A short look at the way afterwards is shown, and not kept.
    let short = place.run(&["calibrate", "--part", "30ms", "--data", &data, "--server", &server]).expect(0);
    assert!(short.stderr.contains("network: not kept, because 30 ms for each part"), "{}", short.stderr);
    let kept = place.run(&["calibrate", "--kept", "--data", &data, "--server", &server, "--json"]).expect(0);
    assert_eq!(json(&kept)[2]["calibration"]["part_ms"], 5000, "{}", kept.stdout);
    place.expect_clean();
}

#[test]
fn what_ifs_that_were_stopped_have_no_confidence_and_go_on_with_the_same_command() {
    let (server, place) = (slow_to_commit(), Place::new());
    let target = server.admin_target(&server.database_of("postgres"));
    let measure = ["run", "--server", &target, "-w", "tpcb-simple", "-o", "out", "--json"];
    run(&place, &measure, LOAD).expect(0);
    let words = "why out -o lifted --time 1s --measure 2s --yes -q".split(' ').collect::<Vec<&str>>();
    let running = place.start(place.command(&words));
    let n_done = || {
        let records = store::read_records(&place.path("lifted")).unwrap_or_default();
        records.iter().filter(|one| one.state == model::experiment::plan::RunState::Completed).count()
    };
    // Two blocks of the unchanged case and of one or two changes.
    wait_until("two blocks are measured, or none is", || n_done() >= 6 || !running.is_alive());
    running.signal(Signal::SIGINT);
    let ended = running.wait();
    if is_disturbed(&ended) {
        return;
    }
    let ended = ended.expect(2);
    let said =
        ended.stdout.contains(" pairs give no verdict; to go on: pgdyno why DIR with the same options)");
    assert!(said && !ended.stdout.contains("confidence"), "{ended:?}");
    let page = std::fs::read_to_string(place.path("out/report.html")).unwrap();
    assert!(
        page.contains(" pairs give no verdict; to go on: pgdyno why DIR with the same options</span>"),
        "{page}"
    );

    let ended = place.run(&words).expect(0);
    assert!(ended.stderr.contains("going on in lifted: "), "{}", ended.stderr);
    assert!(
        ended.stdout.contains(" (4 pairs)\n") && ended.stdout.contains(" confidence)"),
        "{}",
        ended.stdout
    );
    place.expect_clean();
}

#[test]
fn clients_that_share_a_row_on_a_server_by_url_are_named_first_and_the_data_is_whole_afterwards() {
    let (pg, place) = (Pg::shared(), Place::new());
    let database = pg.database_of("postgres");
    let target = pg.admin_target(&database);
    let load = "-w tpcb -s 1 -c 16 --ramp-up 0s --measure 3s --repeats 1 --set prepare.settle=false --yes -q";
    run(&place, &["run", "--server", &target, "-o", "out"], load).expect(0);
    let args = ["why", "out", "-o", "whatif", "--time", "1s", "--measure", "1s", "--yes", "-q"];
    let running = place.start(place.command(&args));
    let named = "16 clients: first, 16 clients share 1 branch";
    wait_until("the limiter", || running.has_said(named) || !running.is_alive());
    if running.is_alive() {
        running.signal(Signal::SIGINT);
    }
    let ended = running.wait();
    assert!(ended.stderr.contains(named), "{ended:?}");
    place.run(&["check", "--server", &target]).expect(0);
    place.expect_clean();
}
