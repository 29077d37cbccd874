//! Results that cannot be used or cannot be written: exit codes, and the order of table and page.

use std::fs;

use nix::sys::signal::Signal;
use testbed::Pg;

use crate::tool::{Ended, PACE, Place, expect_found};

/// The shortest experiment with the user's own script.
fn run_script(place: &Place, script: &str, more: &[&str]) -> Ended {
    let pg = Pg::shared();
    let server = pg.admin_target(&pg.database());
    place.write("own.sql", script);
    let args = "run -f own.sql -c 1 --measure 2s --ramp-up 0s --repeats 1 --set prepare.settle=false \
                --set run.repeat_disturbed=0 -o out --server";
    let args: Vec<&str> =
        args.split_whitespace().chain([server.as_str(), PACE]).chain(more.iter().copied()).collect();
    place.run(&args)
}

#[test]
fn a_run_without_any_number_does_not_end_as_done() {
    let place = Place::new();
    let ended = run_script(&place, "SELECT 1/0;\n", &[]).expect(1);
    assert!(ended.stdout.contains("No number: the only run is void"), "{}", ended.stdout);
    assert!(
        ended.stdout.contains("most often 22012 division by zero"),
        "the cause is reported: {}",
        ended.stdout
    );
    assert!(!ended.stdout.contains("Measure longer"), "{}", ended.stdout);
    assert!(ended.stderr.contains("no case has a number"), "{}", ended.stderr);
    expect_found(&place, "out", &["transactions-failed", "nothing-counts"]);
    place.run(&["report", "out"]).expect(0);
    place.run(&["report", "--strict", "out"]).expect(3);
    place.expect_clean();
}

#[test]
fn a_run_that_aborts_every_client_has_no_number_and_failed() {
    let place = Place::new();
    let ended = run_script(&place, "\\set x :n + 1\nSELECT :x;\n", &["-D", "n=abc"]).expect(1);
    assert!(
        ended.stderr.contains("ended early: 0 runs completed, 1 interrupted or failed"),
        "{}",
        ended.stderr
    );
    assert!(ended.stderr.contains("no case has a number"), "{}", ended.stderr);
    place.expect_clean();
}

#[test]
fn an_experiment_that_is_being_measured_is_read_and_left_alone() {
    let (place, pg) = (Place::new(), Pg::shared());
    let server = pg.admin_target(&pg.database());
    place.write("own.sql", "SELECT 1;\n");
    let args = "run -f own.sql -c 1 --measure 60s --ramp-up 0s --repeats 2 --set prepare.settle=false -o out --server";
    let args: Vec<&str> = args.split_whitespace().chain([server.as_str(), PACE]).collect();
    let running = place.start(place.command(&args));
    place.wait_for_load("out", 1);
    let report = place.run(&["report", "out"]).expect(2);
    let expected = format!(
        "`out` is still being measured by process {}: these are the results so far (0 of 2 runs)",
        running.pid()
    );
    assert!(report.stderr.contains(&expected), "{}", report.stderr);
    assert!(
        !report.stdout.contains("cut off in") && !report.stdout.contains("Repeat the run"),
        "{}",
        report.stdout
    );
    for name in ["report.html", "report.md", "runs.csv"] {
        assert!(!place.path("out").join(name).exists(), "{name} is for who measures to write");
    }
    let listed = place.run(&["list", "out"]).expect(0).stdout;
    assert!(listed.contains("  running   0/2 runs") && !listed.contains("void"), "{listed}");
    assert!(listed.contains("being measured; pgdyno report out shows what there is so far"), "{listed}");
    running.signal(Signal::SIGINT);
    running.wait().expect(2);
    place.run(&["report", "out"]).expect(0);
    let listed = place.run(&["list", "out"]).expect(0).stdout;
    assert!(!listed.contains("running") && listed.contains(", partial"), "{listed}");
    place.expect_clean();
}

#[test]
fn a_report_that_cannot_be_written_costs_neither_the_table_nor_the_results() {
    let place = Place::new();
    run_script(&place, "SELECT 1;\n", &[]).expect(0);
    fs::remove_file(place.path("out/report.html")).unwrap();
    fs::create_dir(place.path("out/report.html.tmp")).unwrap();
    let ended = place.run(&["report", "out"]).expect(1);
    assert!(ended.stdout.contains("median tps"), "{}", ended.stdout);
    for expected in ["`pgdyno report out` writes it later", "Is a directory"] {
        assert!(ended.stderr.contains(expected), "{}", ended.stderr);
    }
    fs::remove_dir(place.path("out/report.html.tmp")).unwrap();
    place.run(&["report", "out"]).expect(0);
    assert!(place.path("out/report.html").exists());
}

/// Copies a results directory as if its run had been measured a minute later, on another machine.
fn measured_elsewhere(place: &Place, from: &str, to: &str) {
    let copy = format!("cp -r {from} {to}");
    place.start(place.command_of("sh".as_ref(), &["-c", &copy])).wait().expect(0);
    let path = place.path(to).join("runs/0001/run.json");
    let mut record: serde_json::Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
    let go_unix_ns = record["go_unix_ns"].as_u64().unwrap() + 60_000_000_000;
    record["go_unix_ns"] = go_unix_ns.into();
    record["host"]["hostname"] = "elsewhere".into();
    fs::write(&path, serde_json::to_vec(&record).unwrap()).unwrap();
}

#[test]
fn results_of_two_places_become_one_study() {
    let place = Place::new();
    run_script(&place, "SELECT 1;\n", &[]).expect(0);
    measured_elsewhere(&place, "out", "later");
    let merged = place.run(&["merge", "out", "second=later", "-o", "both"]).expect(0);
    assert!(merged.stderr.contains("`both` holds 2 runs of 2 experiments: out, second"), "{}", merged.stderr);
    assert!(merged.stdout.contains("[machine-changed]"), "{}", merged.stdout);
    let both = place.results("both");
    assert_eq!(both.runs.iter().map(|run| run.record.spec.run).collect::<Vec<_>>(), [1, 2]);
    assert_eq!(both.plan.origin_of(2).unwrap().name, "second");
    let [first, second] = &both.runs[..] else { panic!("{both:?}") };
    assert_eq!((&first.intervals, &first.histograms), (&second.intervals, &second.histograms));
    let csv = fs::read_to_string(place.path("both/runs.csv")).unwrap();
    assert!(csv.starts_with("run,block,case,label,origin,seed,"), "{csv}");

    let apart = place.run(&["merge", "out", "later", "--by-origin", "-o", "apart"]).expect(0);
    assert!(apart.stdout.contains("\norigin later "), "{}", apart.stdout);
    assert!(!apart.stdout.contains("[machine-changed]"), "{}", apart.stdout);
    let csv = fs::read_to_string(place.path("apart/runs.csv")).unwrap();
    assert!(csv.starts_with("run,block,case,label,origin,seed,"), "{csv}");
    for (refused, words) in [
        (&["merge", "out", "again=out", "-o", "no"][..], "are the same run, which would count twice"),
        (&["merge", "out", "both", "-o", "no"], "`both` has itself been merged"),
        (&["merge", "out", "later", "-o", "both"], "already"),
        (&["merge", "out", "nowhere", "-o", "no"], "cannot read `nowhere`"),
        (&["run", "--resume", "both"], "`both` was merged from out, second; resume those"),
    ] {
        let error = place.run(refused).expect(1).stderr;
        assert!(error.contains(words), "{error}");
    }
    // Nothing that a planted link leads to gets into the study.
    let events = place.path("later/runs/0001/events.jsonl");
    fs::remove_file(&events).unwrap();
    std::os::unix::fs::symlink("/etc/hostname", &events).unwrap();
    let error = place.run(&["merge", "out", "later", "-o", "no"]).expect(1).stderr;
    assert!(error.contains("symbolic link"), "{error}");
    assert!(!place.path("no").exists());
    place.expect_clean();
}

#[test]
fn the_history_of_an_experiment_that_goes_on_has_the_runs_that_have_ended() {
    let (place, pg) = (Place::new(), Pg::shared());
    let target = pg.admin_target(&pg.database());
    let words = "run -w tpcb-select -s 1 -c 1 --measure 4s --ramp-up 0s --repeats 2 --yes -o out \
                 --set prepare.settle=false --server";
    let args: Vec<&str> = words.split_whitespace().chain([target.as_str(), PACE]).collect();
    let running = place.start(place.command(&args));
    place.wait_for_load("out", 1);
    let history = |more: &[&str]| place.run(&[&["history", "out"], more].concat());
    let none = history(&[]).expect(0);
    assert!(none.stderr.contains(" has ended with a number that counts"), "{none:?}");
    history(&["--fail-on", "slower"]).expect(2);
    running.wait().expect(0);
    let both = history(&[]).expect(0).stdout;
    assert!(both.contains(": 2 runs\n") && both.contains("out run 2"), "{both}");
    place.expect_clean();
}
