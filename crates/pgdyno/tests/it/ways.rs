//! Finding one's way among results: names, answers, tables, and which stream has what.

use std::collections::BTreeMap;

use testbed::{Pg, bin_dir};

use crate::tool::{Ended, PACE, Place};

/// A run of a script against the shared server.
fn run(place: &Place, more: &[&str]) -> Ended {
    let pg = Pg::shared();
    let server = pg.admin_target(&pg.database());
    place.write("own.sql", "SELECT 1;\n");
    let args = "run -f own.sql --measure 2s --ramp-up 0s --repeats 1 --set prepare.settle=false --server";
    place.run(&[&args.split_whitespace().collect::<Vec<_>>()[..], &[&server, PACE], more].concat())
}

/// Rows of a table as maps from column to value; no value of these has a comma.
fn rows(csv: &str) -> Vec<BTreeMap<&str, &str>> {
    let mut lines = csv.lines();
    let heads: Vec<&str> = lines.next().unwrap_or_default().split(',').collect();
    lines.map(|line| heads.iter().copied().zip(line.split(',')).collect()).collect()
}

#[test]
fn results_are_found_by_name_answer_and_table() {
    let place = Place::new();
    let first = run(&place, &["-c", "1,2", "--csv", "--quiet"]).expect(0);
    let cases = rows(&first.stdout);
    let clients: Vec<&str> = cases.iter().map(|row| row["workload.clients"]).collect();
    assert_eq!(clients, ["1", "2"], "standard output has the table alone: {}", first.stdout);
    assert!(cases.iter().all(|row| row["tps"].parse::<f64>().is_ok_and(|tps| tps > 0.0)), "{}", first.stdout);
    assert!(!first.stderr.contains("run 1/2"), "quiet: {}", first.stderr);
    let page = first.stderr.lines().find_map(|line| line.strip_prefix("report: ")).unwrap();
    let dir = page.strip_suffix("/report.html").unwrap();
    assert!(dir.contains("-scripts-clients-1-2-"), "the name is what was asked: {dir}");
    let stored = std::fs::read_to_string(place.path(dir).join("cases.csv")).unwrap();
    assert_eq!(stored, first.stdout);

    let named = ["-c", "1", "--name", "monday", "--title", "Own title", "--note", "After the move."];
    let second = run(&place, &named).expect(0);
    assert!(second.stdout.starts_with("Own title\n"), "{}", second.stdout);
    assert!(second.stderr.contains("run 1/1"), "{}", second.stderr);

    // Whichever option names it, the name is not made from what is asked.
    let bin_dir = bin_dir().display().to_string();
    let words = ["plan", "-s", "1", "-c", "2", "--bin-dir", &bin_dir, "--set", "experiment.name=\"tuesday\""];
    let planned = place.run(&words).expect(0).stdout;
    assert!(planned.starts_with("tuesday: "), "{planned}");

    let list = place.run(&["list"]).expect(0).stdout;
    let places: Vec<usize> = ["monday", "scripts-clients-1-2"].map(|name| list.find(name).unwrap()).to_vec();
    assert!(places.is_sorted(), "newest first: {list}");
    let json = place.run(&["list", "--json"]).expect(0).stdout;
    let newest: serde_json::Value = serde_json::from_str(json.lines().next().unwrap()).unwrap();
    assert_eq!((&newest["name"], &newest["title"]), (&"monday".into(), &"Own title".into()));
    let headline = newest["headline"].as_str().unwrap();
    assert!(headline.contains("100/s was ") && list.contains(headline), "{headline} in {list}");
    let markdown = std::fs::read_to_string(place.path(newest["path"].as_str().unwrap()).join("report.md"));
    assert!(markdown.unwrap().contains("After the move."));

    let seconds = place.run(&["export", dir, "--run", "2"]).expect(0).stdout;
    let seconds = rows(&seconds);
    assert!(seconds.iter().all(|row| row["run"] == "2"), "{seconds:?}");
    assert!(seconds.iter().filter(|row| row["measured"] == "1").count() >= 2, "{seconds:?}");
    let missing = place.run(&["export", dir, "--run", "3"]).expect(1).stderr;
    assert!(missing.contains("has no run 3; its last run is 2"), "{missing}");
    place.expect_clean();
}

#[test]
fn transactions_of_own_scripts_are_tried_again_as_often_as_asked() {
    let pg = Pg::shared();
    let database = pg.database();
    pg.execute(&database, "CREATE TABLE one AS SELECT 1 AS id, 0 AS n");
    let server = pg.admin_target(&database);
    let place = Place::new();
    let script = "BEGIN ISOLATION LEVEL REPEATABLE READ;\nUPDATE one SET n = n + 1 WHERE id = 1;\nEND;\n";
    place.write("own.sql", script);
    let count = |more: &[&str]| {
        let args = "run -f own.sql -c 4 --measure 2s --ramp-up 0s --repeats 1 --no-restore --set prepare.settle=false \
                    --set run.max_failed=100% --quiet --csv --server";
        let args = [&args.split_whitespace().collect::<Vec<_>>()[..], &[&server], more].concat();
        place.run(&args);
        let dirs = place.run(&["list", "--json"]).expect(0).stdout;
        let newest: serde_json::Value = serde_json::from_str(dirs.lines().next().unwrap()).unwrap();
        let run = place.path(newest["path"].as_str().unwrap()).join("runs/0001");
        let read = |text: &str| -> serde_json::Value { serde_json::from_str(text).unwrap() };
        let intervals = std::fs::read_to_string(run.join("intervals.jsonl")).unwrap();
        let sum = |name: &str| -> u64 {
            intervals.lines().filter_map(|line| read(line)["counts"][name].as_u64()).sum()
        };
        let record = read(&std::fs::read_to_string(run.join("run.json")).unwrap());
        // The end of the load fails what each client is trying again.
        (sum("failed") > 4, sum("retries") > 0, record["case"]["workload"]["max_tries"].as_u64())
    };
    assert_eq!(count(&[]), (true, false, None));
    assert_eq!(count(&["--max-tries", "0"]), (false, true, Some(0)));
}
