//! `run` on embedded servers, then `check`, `report`, and a second run without a network.

use std::collections::BTreeMap;
use std::fs;
use std::process::Command;

use model::telemetry::reading::Tick;
use testbed::bin_dir;

use crate::harm::expect_made;
use crate::tool::{PACE, Place, expect_sound, history_growth};

/// The shortest run that can be measured.
const SHORT: [&str; 9] = ["--scale", "1", "--measure", "2s", "--ramp-up", "0s", "--repeats", "1", PACE];

#[test]
fn an_experiment_on_the_default_server_ends_with_a_report_and_balances() {
    let place = Place::with_binaries(&["18"]);
    let args = "run --scale 1 -c 1,4 --pace=200/s --measure 2s --ramp-up 1s --repeats 2 -o out --json \
                --set experiment.seed=7 --set server.settings.work_mem=8MB";
    let ended = place.run(&args.split_whitespace().collect::<Vec<_>>()).expect(0);
    let study: serde_json::Value = serde_json::from_str(&ended.stdout).unwrap();
    assert_eq!(study["runs"].as_array().unwrap().len(), 4, "{study}");

    let data = place.results("out");
    assert_eq!(data.plan.seed, 7);
    let order: Vec<(u32, u32)> = data.plan.runs.iter().map(|run| (run.block, run.case)).collect();
    let mut sorted = order.clone();
    sorted.sort_unstable();
    assert_eq!(sorted, [(1, 1), (1, 2), (2, 1), (2, 2)], "each case once per block");
    assert!(order.iter().map(|(block, _)| block).is_sorted(), "{order:?}");
    assert_eq!(data.runs.len(), 4);
    for run in &data.runs {
        expect_sound(run);
        assert_eq!(run.record.rows_before["pgbench_history"], 0, "restored to the first state");
        let done = run.record.done.as_ref().unwrap();
        assert_eq!(history_growth(run), done.counts.committed);
        let measured: u64 =
            run.intervals.iter().filter(|i| (1..3).contains(&i.t)).map(|i| i.counts.committed).sum();
        assert_eq!(done.measured_by_client.iter().sum::<u64>(), measured);
        assert_eq!(done.measured_by_client.len(), run.record.case.workload.n_clients as usize);
        let server = run.record.server.as_ref().unwrap();
        assert_eq!(server.release(), "18.6");
        for (name, value) in
            [("fsync", "on"), ("synchronous_commit", "on"), ("full_page_writes", "on"), ("work_mem", "8MB")]
        {
            assert_eq!(server.setting(name), Some(value), "{name}");
        }
        assert!(!run.ticks.is_empty() && !run.histograms.is_empty());
        assert!(run.record.host.is_some() && run.record.server_is_local);
    }
    expect_report(&place);
    expect_uncertainty(&place, &study);
    expect_same_order(&place);
    place.expect_clean();

    let checked = place.run(&["check", "--json"]).expect(0);
    let report: serde_json::Value = serde_json::from_str(&checked.stdout).unwrap();
    assert_eq!(report["sound"], true, "{report}");
    assert_eq!(report["history_rows"], history_growth(&data.runs[3]));
    place.expect_clean();

    expect_no_network_needed(&place);
    place.expect_clean();
}

/// Each case says how far off it can be, and what that adds up from; two runs of two seconds are not good to a thousandth of a per cent.
fn expect_uncertainty(place: &Place, study: &serde_json::Value) {
    for case in study["cases"].as_array().unwrap() {
        let known = &case["uncertainty"]["throughput"];
        let [low, high] = ["low", "high"].map(|end| known[end].as_f64().unwrap());
        // Next to much foreign work, all of the range lies above the figure, which is then its lower end.
        assert!(0.0 < low && low <= 1.0 && 1.0 < high, "{known}");
        let rows: Vec<&str> =
            known["budget"].as_array().unwrap().iter().map(|row| row["id"].as_str().unwrap()).collect();
        assert!(rows.contains(&"runs-differ") && rows.contains(&"edges"), "{rows:?}");
    }
    let ended = place.run(&["report", "out", "--max-uncertainty", "0.00001"]).expect(3);
    // Data in memory: how far off that is, nobody knows.
    assert!(ended.stderr.contains("--max-uncertainty 0.001 %: 1 client is doubtful; "), "{}", ended.stderr);
    assert!(ended.stdout.contains("good to") && !ended.stdout.contains("undisturbed, "), "{}", ended.stdout);
    let asked = place.run(&["report", "out", "--precision", "0.001%"]).expect(0);
    assert!(asked.stdout.contains(" %, rough"), "{}", asked.stdout);
}

/// The files exist, and the page loads nothing from elsewhere.
fn expect_report(place: &Place) {
    let html = fs::read_to_string(place.path("out/report.html")).unwrap();
    for outside in ["src=\"http", "href=\"http", "src='http", "@import", "url(http", "src=\"//"] {
        assert!(!html.contains(outside), "the page has `{outside}`");
    }
    assert!(html.contains("Content-Security-Policy") && html.contains("default-src 'none'"));
    let csv = fs::read_to_string(place.path("out/runs.csv")).unwrap();
    let mut lines = csv.lines();
    let header: Vec<&str> = lines.next().unwrap().split(',').collect();
    let rows: Vec<BTreeMap<&str, &str>> =
        lines.map(|line| header.iter().copied().zip(line.split(',')).collect()).collect();
    assert_eq!(rows.len(), 4);
    let data = place.results("out");
    for (row, run) in rows.iter().zip(&data.runs) {
        assert_eq!(row["run"], run.record.spec.run.to_string());
        assert_eq!(row["total_committed"], run.record.done.as_ref().unwrap().counts.committed.to_string());
        assert_eq!(row["state"], "completed");
    }
    assert!(fs::read_to_string(place.path("out/report.md")).unwrap().contains("18.6"));

    let before = fs::read(place.path("out/runs.csv")).unwrap();
    let again = place.run(&["report", "out"]).expect(0);
    assert!(again.stderr.contains("report: out/report.html"), "{}", again.stderr);
    assert_eq!(fs::read(place.path("out/runs.csv")).unwrap(), before, "a pure function of the records");

    let list = place.run(&["list", "."]).expect(0);
    assert!(list.stdout.contains("4/4 runs") && list.stdout.contains("Lowest p99: "), "{}", list.stdout);
}

/// The experiment as recorded gives the same plan again.
fn expect_same_order(place: &Place) {
    let plan = place.run(&["plan", "out/experiment.toml", "--json"]).expect(0);
    let again: model::experiment::plan::Plan = serde_json::from_str(&plan.stdout).unwrap();
    let first = place.results("out").plan;
    assert_eq!((again.runs, again.cases, again.seed), (first.runs, first.cases, first.seed));
}

/// Binaries and data are cached; as root, the process gets a namespace without a network.
fn expect_no_network_needed(place: &Place) {
    let args = [&["run", "-c", "1", "-o", "offline"], &SHORT[..]].concat();
    let unshare = Command::new("unshare").args(["-n", "true"]).output();
    let has_none = unshare.is_ok_and(|output| output.status.success());
    let mut command = if has_none {
        let pgdyno = env!("CARGO_BIN_EXE_pgdyno");
        place.command_of("unshare".as_ref(), &[&["-n", pgdyno], &args[..]].concat())
    } else {
        place.command(&args)
    };
    for name in ["HTTPS_PROXY", "HTTP_PROXY", "ALL_PROXY", "https_proxy", "http_proxy", "all_proxy"] {
        command.env(name, "http://127.0.0.1:9");
    }
    let ended = place.start(command).wait().expect(0);
    assert!(ended.stderr.contains("loaded before"), "the snapshot is used again: {}", ended.stderr);
    expect_sound(&place.first_run("offline"));
}

#[test]
fn old_versions_and_given_binaries_run_too() {
    let place = Place::with_binaries(&["9.6", "12"]);
    let debian = bin_dir();
    let check = |options: &[&str], name: &str, version_nums: std::ops::Range<u32>| {
        let args = [&["run", "-c", "2", "-o", name], &SHORT[..], options].concat();
        let ended = expect_made(place.run(&args));
        assert!(ended.stdout.contains("2 clients"), "{}", ended.stdout);
        let run = place.first_run(name);
        expect_sound(&run);
        assert_eq!(history_growth(&run), run.record.done.as_ref().unwrap().counts.committed);
        let server = run.record.server.unwrap();
        assert!(version_nums.contains(&server.version_num), "{}", server.version_num);
        server.data_checksums
    };
    let has_checksums = check(&["--version", "9.6"], "out96", 90_600..90_700);
    assert!(!has_checksums, "the default before 18");
    let page = std::fs::read_to_string(place.path("out96/report.html")).unwrap();
    let unknown = "Unknown: full-page images of run 1: the server counts them since PostgreSQL 14 (pg_stat_wal), and `pg_xlogdump` is \
                   not in `";
    assert!(page.contains(unknown), "the page says why there is no figure");
    let asked = ["--version", "12", "-M", "simple", "--set", "server.data_checksums=true"];
    assert!(check(&asked, "out12", 120_000..130_000));
    check(&["--bin-dir", debian.to_str().unwrap(), "-M", "extended"], "own", 130_000..200_000);
    place.run(&["check", "--version", "9.6"]).expect(0);
    place.run(&["check", "--bin-dir", debian.to_str().unwrap()]).expect(0);
    place.expect_clean();
}

/// What a plan says of loading is what would be loaded: data that is kept is not, and neither is data that is measured as it is.
#[test]
fn data_that_is_kept_is_not_announced_as_missing() {
    let place = Place::new();
    let bin_dir = bin_dir();
    let with = ["--bin-dir", bin_dir.to_str().unwrap(), "-c", "1"];
    let planned = |more: &[&str]| {
        let ended = place.run(&[&["plan"], &with[..], &SHORT[..], more].concat()).expect(0);
        ended.stdout.contains("to load data that is missing")
    };
    assert!(planned(&[]) && planned(&["--no-restore"]));
    place.run(&[&["run", "-o", "out"], &with[..], &SHORT[..]].concat()).expect(0);
    assert!(!planned(&[]), "it is restored from its snapshot");
    assert!(!planned(&["--no-restore"]));
    assert!(planned(&["--set", "workload.scale=2"]), "of another scale");
    assert!(planned(&["--set", "workload.partitions=2"]), "of another layout");
    let of_fit = place.run(&[&["plan", "--fit=1min"], &with[..], &SHORT[..]].concat()).expect(0);
    assert!(!of_fit.stderr.contains("to load data that is missing"), "{}", of_fit.stderr);
    place.expect_clean();
}

#[test]
fn a_library_of_statement_statistics_that_is_preloaded_is_made_readable() {
    let place = Place::new();
    let bin_dir = bin_dir();
    let with = ["--bin-dir", bin_dir.to_str().unwrap(), "-c", "1,2", "-o", "out"];
    let library = ["--set", "server.settings.shared_preload_libraries=pg_stat_statements"];
    place.run(&[&["run"], &SHORT[..], &with, &library].concat()).expect(0);
    for run in place.results("out").runs {
        let missing = &run.record.telemetry_unavailable;
        assert!(!missing.contains_key("statements.calls"), "{missing:?}");
        let is_counted = |tick: &Tick| tick.values.keys().any(|key| key.starts_with("statements.calls["));
        assert!(run.ticks.iter().any(is_counted));
    }
    place.expect_clean();
}
