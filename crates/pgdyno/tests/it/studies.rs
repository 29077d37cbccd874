//! Studies as people run them: what they state is printed with the figures and held against each run; placeholders are refused, and
//! what is fitted to this machine has none.

use std::fs;

use testbed::{ClusterOptions, TestServer};

use crate::judge::{expect, json, loaded, words};
use crate::tool::Place;

#[test]
fn conditions_of_a_study_are_printed_and_held_against_the_server() {
    let place = Place::on_disk();
    let server = TestServer::start(&ClusterOptions {
        settings: &["fsync=off"],
        is_on_disk: true,
        ..ClusterOptions::default()
    });
    let (_, url) = loaded(&place, &server);
    let script = place.write("write.sql", "insert into pgbench_history (tid) values (1);\n");
    let conditions = "experiment.conditions=[\"fsync=off\", \"full_page_writes=off\", \"disks by LUKS\"]";
    let args = "-c 2 --pace=100/s --measure 2s --ramp-up 0s --repeats 1 --set workload.data=\"none\" --set prepare.settle=false";
    let mut all: Vec<&str> =
        vec!["run", "--server", &url, "-f", script.to_str().unwrap(), "--set", conditions];
    all.extend(args.split(' '));
    let ended = place.run(&[&all[..], &["-o", "out"]].concat());
    let line = "Conditions: fsync=off, full_page_writes=off, disks by LUKS";
    assert!(ended.stdout.contains(line), "{}", ended.stdout);
    let read = |name: &str| fs::read_to_string(place.path("out").join(name)).unwrap();
    assert!(read("report.md").contains(&line.replace('_', "\\_")), "{}", read("report.md"));
    let page = read("report.html");
    let (captions, conditions) =
        (page.matches("</figcaption>").count(), page.matches("note conditions").count());
    assert!(captions > 0 && captions == conditions, "{captions} captions, {conditions} with conditions");
    let shown = json(&place.run(&["report", "out", "--json"]));
    let found = words(&shown["runs"][0]["findings"]);
    expect(&found, "not-durable note", "fsync = off, a condition of the study");
    expect(&found, "condition-unmet doubt", "full_page_writes is on, not off");
    place.expect_clean();
}

#[test]
fn placeholders_of_a_study_are_refused_and_fitted() {
    let place = Place::on_disk();
    let refused = place.run(&["plan", "piops"]).expect(1);
    assert!(
        refused.stderr.contains("m1-large.example, raid.example, single.example name no machine"),
        "{}",
        refused.stderr
    );
    let fitted = place.run(&["plan", "piops", "--fit=5min", "--set", "server.version=18"]).expect(0);
    for words in
        ["fit: driver m1-large.example -> this machine", "fit: target 2 servers by URL -> one server"]
    {
        assert!(fitted.stderr.contains(words), "{}", fitted.stderr);
    }
    assert!(fitted.stdout.contains("target"), "{}", fitted.stdout);
}

#[test]
fn fit_says_what_is_left_of_each_figure_and_how_long_it_takes() {
    let place = Place::on_disk();
    let fitted = place.run(&["plan", "piops", "--fit=15min", "--set", "server.version=18"]).expect(0);
    let said_once = fitted.stderr.split_whitespace().collect::<Vec<&str>>().join(" ");
    for words in [
        "fit: kept Box plot of throughput over all runs, for each target: target 2 of 2",
        "fit: takes about ",
    ] {
        assert!(said_once.contains(words), "{}", fitted.stderr);
    }
    // What --fit says and what the plan says is one estimate.
    let said = |text: &str, before: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(before)).unwrap_or_default();
        line.split([';', ',']).next().unwrap_or_default().to_string()
    };
    let of_fit = said(&fitted.stderr, "fit: takes ");
    assert!(of_fit.starts_with("about "), "{}", fitted.stderr);
    assert_eq!(said(&fitted.stdout, "time    "), of_fit);
    // Nothing that is still the experiment takes half a minute, which is said before anything begins.
    let short = place.run(&["plan", "quick", "--fit=10s"]).expect(0);
    assert!(
        short.stderr.contains("fit: the least that is left of this experiment takes about "),
        "{}",
        short.stderr
    );
}

#[test]
fn blocks_that_are_not_sure_to_have_the_time_stay_in_the_plan() {
    let place = Place::on_disk();
    let args = ["plan", "quick", "--fit=40s", "-c", "1", "-s", "1", "--repeats", "40"];
    let fitted = place.run(&args).expect(0);
    let said_once = fitted.stdout.split_whitespace().collect::<Vec<&str>>().join(" ");
    assert!(said_once.contains(" more while there is time"), "{}", fitted.stdout);
    let plan = place.run(&[&args[..], &["--json"]].concat()).expect(0);
    let plan: serde_json::Value = serde_json::from_str(&plan.stdout).expect("a plan");
    let (n_blocks, n_spare) = (plan["repeats"].as_u64(), plan["spare_blocks"].as_u64());
    assert!(n_blocks == Some(40) && n_spare.is_some_and(|n| (1..40).contains(&n)), "{plan}");
    assert_eq!(plan["sum"]["runs"].as_u64(), n_blocks.zip(n_spare).map(|(all, spare)| all - spare));
}
