//! Factors, targets and what is reported before anything begins.

use std::collections::BTreeSet;

use model::experiment::plan::RunState;
use testbed::{Pg, bin_dir};

use crate::tool::{PACE, Place, expect_sound};

/// `[server]` with the installed binaries, so that nothing is fetched.
fn own_binaries() -> String {
    format!("[server]\nbin_dir = \"{}\"\n", bin_dir().display())
}

#[test]
fn everything_that_would_make_a_run_fail_is_reported_before_the_first_run() {
    let place = Place::new();
    let text = format!(
        "[experiment]\nname = \"bad\"\nrepeats = 1\nexclude = [{{wal_compression = \"off\", clients = 200}}]\n{}\
         settings.no_such_setting = 1\nsettings.wal_compression = [\"on\", \"off\", \"purple\"]\n\
         settings.shared_buffers = \"900GB\"\nsettings.max_connections = 100\n\
         [workload]\nscale = 1\nclients = [1, 200]\n[run]\nmeasure = \"2s\"\n",
        own_binaries()
    );
    place.write("bad.toml", &text);
    let plan = place.run(&["plan", "bad.toml"]).expect(1).stdout;
    for expected in [
        "5 cases, 5 runs in 1 randomized block",
        "unrecognized configuration parameter \"no_such_setting\"",
        "invalid value for parameter \"wal_compression\": \"purple\"",
        "shared_buffers = 900GB is more than",
        "starts  5 of 5 runs restart the server",
        "memory  about",
        "snapshots",
        "at the peak",
        "time    about",
    ] {
        assert!(plan.contains(expected), "{expected} is not in\n{plan}");
    }
    let fewer = ["plan", "bad.toml", "--set", "server.settings.shared_buffers=64MB"];
    let crowd = place.run(&fewer).expect(1).stdout;
    assert!(crowd.contains("max_connections = 100 is not enough: 200 clients"), "{crowd}");
    let purple = plan.lines().find(|line| line.starts_with("problem") && line.contains("purple")).unwrap();
    assert!(purple.starts_with("problem cases "), "only the cases that it meets: {purple}");
    let ended = place.run(&["run", "bad.toml", "-o", "out"]).expect(1);
    assert!(ended.stderr.contains("no_such_setting"), "{}", ended.stderr);
    assert!(!place.path("out").exists() && !place.path("cache/clusters").exists(), "nothing was begun");
    place.expect_clean();
}

#[test]
fn the_plan_reports_that_a_user_cannot_create_tables() {
    let (place, pg) = (Place::new(), Pg::shared());
    let database = pg.database();
    let mut admin = pg.admin(&database);
    // Only the superuser may create tables there.
    admin
        .execute("revoke create on schema public from public; alter schema public owner to postgres")
        .unwrap();
    let target = format!("host=127.0.0.1 port={} user=bench dbname={database}", pg.port);
    let mut command = place.command(&["plan", "--server", &target, "-s", "1"]);
    command.env("PGPASSWORD", testbed::PASSWORD);
    let ended = place.start(command).wait().expect(1);
    assert!(ended.stdout.contains("`bench` cannot create tables in schema `public`"), "{}", ended.stdout);
    let crowd =
        place.run(&["plan", "--server", &pg.admin_target(&database), "-s", "1", "-c", "500"]).expect(1);
    assert!(crowd.stdout.contains("500 clients need 502 connections"), "{}", crowd.stdout);
}

#[test]
fn a_large_matrix_needs_consent() {
    let place = Place::new();
    let text =
        format!("[experiment]\nname = \"large\"\nrepeats = 101\n{}[workload]\nscale = 1\n", own_binaries());
    place.write("large.toml", &text);
    let plan = place.run(&["plan", "large.toml"]).expect(0);
    assert!(
        plan.stdout.contains("This would make 101 runs, more than 100: to run it, add --yes"),
        "{}",
        plan.stdout
    );
    let ended = place.run(&["run", "large.toml", "-o", "out"]).expect(1);
    assert!(ended.stderr.contains("confirm with --yes"), "{}", ended.stderr);
    assert!(!place.path("out").exists());
}

#[test]
fn a_number_of_transactions_ends_the_run_and_a_server_that_may_run_on_does() {
    let place = Place::new();
    let text = format!(
        "[experiment]\nname = \"counted\"\nrepeats = 1\norder = \"sequential\"\n{}[workload]\nscale = 1\nclients = [2, 3]\n\
         transactions = [50, 400]\n[run]\nmeasure = \"60s\"\n[prepare]\nrestore = false\nsettle = false\n",
        own_binaries()
    );
    place.write("counted.toml", &text);
    place.run(&["run", "counted.toml", "-o", "out"]).expect(0);
    let data = place.results("out");
    data.runs.iter().for_each(expect_sound);
    let made: Vec<u64> =
        data.runs.iter().map(|run| run.record.done.as_ref().unwrap().counts.committed).collect();
    assert_eq!(made, [100, 800, 150, 1200], "clients x transactions, in sequence");
    let starts: BTreeSet<&str> =
        data.runs.iter().map(|run| run.record.server.as_ref().unwrap().postmaster_start.as_str()).collect();
    assert_eq!(starts.len(), 1, "the server ran on: {starts:?}");
    let report = place.run(&["report", "out", "--json"]).expect(0).stdout;
    let study: serde_json::Value = serde_json::from_str(&report).unwrap();
    for (run, n) in study["runs"].as_array().unwrap().iter().zip(made) {
        assert_eq!(run["counts"]["committed"], n, "all transactions count");
        let tps = run["tps"].as_f64().unwrap();
        let elapsed_s = run["measured_s"].as_f64().unwrap();
        assert!((tps * elapsed_s - n as f64).abs() < 1e-6, "{tps} in {elapsed_s} s");
    }
    assert!(report.contains("\"sequential-order\""));
    place.expect_clean();
}

#[test]
fn a_number_of_transactions_that_is_not_reached_gives_no_number() {
    let place = Place::new();
    let text = format!(
        "[experiment]\nname = \"late\"\nrepeats = 1\n{}[workload]\nscale = 1\ntransactions = 100000000\n[run]\nmeasure = \"2s\"\n\
         [prepare]\nsettle = false\n",
        own_binaries()
    );
    place.write("late.toml", &text);
    place.run(&["run", "late.toml", "-o", "out"]).expect(1);
    let run = place.first_run("out");
    assert_eq!(run.record.state, RunState::Partial);
    assert!(run.record.reason.ends_with("raise run.measure"), "{}", run.record.reason);
}

#[test]
fn targets_on_two_disks_are_measured_in_the_same_blocks_and_have_costs() {
    let place = Place::new();
    let target = |name: &str, price: f64| {
        format!(
            "[[target]]\nname = \"{name}\"\ndirectory = \"{}\"\ndisk = \"disk of {name}\"\nprice_per_hour = {price}\n\
             currency = \"EUR\"\n",
            place.path(name).display()
        )
    };
    let text = format!(
        "[experiment]\nname = \"places\"\nrepeats = 2\n{}{}{}[workload]\nkind = \"tpcb-select\"\nscale = 1\n[run]\n\
         ramp_up = \"0s\"\nmeasure = \"2s\"\n[prepare]\nsettle = false\n",
        own_binaries(),
        target("first", 0.5),
        target("second", 2.0)
    );
    place.write("places.toml", &text);
    let ended = place.run(&["run", "places.toml", "-o", "out"]).expect(0);
    assert!(
        ended.stderr.contains("/second` for the next time; remove those you do not need"),
        "{}",
        ended.stderr
    );
    let data = place.results("out");
    data.runs.iter().for_each(expect_sound);
    for block in data.runs.chunks(2) {
        let names: BTreeSet<&str> =
            block.iter().map(|run| run.record.case.server.target.as_ref().unwrap().name.as_str()).collect();
        assert_eq!(names, BTreeSet::from(["first", "second"]), "each target once in each block");
    }
    for run in &data.runs {
        let name = &run.record.case.server.target.as_ref().unwrap().name;
        let directory = run.record.server.as_ref().unwrap().data_directory.clone().unwrap();
        assert!(directory.starts_with(&place.path(name).display().to_string()), "{directory}");
    }
    let page = std::fs::read_to_string(place.path("out/report.html")).unwrap();
    for expected in [
        "Transactions per unit of money",
        "0.5 EUR",
        "disk disk of second",
        "Targets by disk",
        "data-chart=\"prices\"",
        "data-chart=\"throughput\"",
    ] {
        assert!(page.contains(expected), "{expected}");
    }
    let some = place.run(&["report", "out", "--where", "disk=disk of second", "--csv"]).expect(0);
    let lines: Vec<&str> = some.stdout.lines().collect();
    assert_eq!(lines.len(), 2, "{}", some.stdout);
    assert!(lines[0].starts_with("case,label,target,target.disk,verdict,"), "{}", lines[0]);
    assert!(lines[1].starts_with("2,second,second,disk of second,"), "{}", lines[1]);
    let apart = std::fs::read_to_string(place.path("out/report-where-disk=disk_of_second.html")).unwrap();
    assert!(!apart.contains("disk disk of first"), "the other target is left out");
    assert_eq!(
        std::fs::read_to_string(place.path("out/report.html")).unwrap(),
        page,
        "the whole report stays"
    );
    let wrong = place.run(&["report", "out", "--where", "provider=x"]).expect(1);
    assert!(
        wrong.stderr.contains(
            "`provider` is neither a factor nor a label of a target; this study has target, target.disk"
        ),
        "{}",
        wrong.stderr
    );
    place.expect_clean();
}

#[test]
fn targets_by_url_are_separate_servers() {
    let (place, pg) = (Place::new(), Pg::shared());
    let (one, two) = (pg.database(), pg.database());
    let text = format!(
        "[experiment]\nname = \"urls\"\nrepeats = 1\n[[target]]\nname = \"one\"\nurl = \"{}\"\n[[target]]\nname = \"two\"\n\
         url = \"{}\"\n[workload]\nscale = 1\n[run]\nramp_up = \"0s\"\nmeasure = \"2s\"\n[prepare]\nsettle = false\n",
        pg.admin_target(&one),
        pg.admin_target(&two)
    );
    place.write("urls.toml", &text);
    place.run(&["run", "urls.toml", PACE, "-o", "out"]).expect(0);
    let data = place.results("out");
    data.runs.iter().for_each(expect_sound);
    for run in &data.runs {
        let database =
            if run.record.case.server.target.as_ref().unwrap().name == "one" { &one } else { &two };
        assert_eq!(&run.record.load.as_ref().unwrap().target["dbname"], database);
        let rows = pg.ask(database, "select count(*) from pgbench_history");
        assert_eq!(rows, run.record.done.as_ref().unwrap().counts.committed.to_string());
    }
    place.expect_clean();
}

#[test]
fn a_study_is_scaled_to_the_machine_and_says_how() {
    let place = Place::new();
    // No binaries are needed, so nothing is fetched; what other tests have reserved must not matter.
    let sets = ["server.settings={}", "server.version=18", "os.overcommit_memory=0"];
    let sets = sets.iter().flat_map(|set| ["--set", set]);
    let args: Vec<&str> = ["plan", "piops", "--fit=10min"].into_iter().chain(sets).collect();
    let ended = place.run(&args).expect(0);
    assert!(ended.stderr.contains("fit: workload.clients 16, 32, 48, 64, 80, 96 -> "), "{}", ended.stderr);
    assert!(ended.stdout.contains("transactions per client, 600 s at most"), "{}", ended.stdout);
    let bad = place.run(&["plan", "piops", "--fit=soon"]).expect(1);
    assert!(bad.stderr.contains("--fit: `soon` is not a span of time"), "{}", bad.stderr);
}
