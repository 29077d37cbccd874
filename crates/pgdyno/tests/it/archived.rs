//! WAL that a server which pgdyno runs archives, or cannot archive.

use std::path::PathBuf;

use crate::judge::{expect, json, words};
use crate::tool::{PACE, Place, wait_until};

/// Fills segments of WAL one after the other.
const SWITCHES: &str = "select pg_logical_emit_message(false, 'x', 'x');\nselect pg_switch_wal();\n";
/// Most transactions do nothing: a number needs many, and a disk takes few segments.
const NOTHING: &str = "select 1;\n";

/// Options of a run whose transactions fill about four segments a second.
fn args(place: &Place, measure: &str, archive: &[&str]) -> Vec<String> {
    let script = |name: &str, text: &str, weight: u32| {
        ["-f".to_string(), format!("{}@{weight}", place.write(name, text).display())]
    };
    let scripts = [script("switch.sql", SWITCHES, 1), script("nothing.sql", NOTHING, 24)].concat();
    let more =
        "-c 2 --ramp-up 0s -o out --json --set prepare.settle=false --set workload.data=\"none\" --measure";
    let more = more.split(' ').chain([measure, PACE]).chain(archive.iter().flat_map(|set| ["--set", *set]));
    std::iter::once("run".to_string()).chain(scripts).chain(more.map(str::to_string)).collect()
}

fn borrowed(args: &[String]) -> Vec<&str> {
    args.iter().map(String::as_str).collect()
}

/// The directories of archived WAL in the place's cache.
fn archives(place: &Place) -> Vec<PathBuf> {
    let clusters = std::fs::read_dir(place.path("cache/clusters")).into_iter().flatten().flatten();
    clusters.map(|cluster| cluster.path().join("archive")).filter(|path| path.exists()).collect()
}

#[test]
fn wal_that_waits_to_be_archived_is_found_with_when_the_disk_is_full() {
    let place = Place::with_binaries(&["18"]);
    let args = [args(&place, "6s", &["archive.command=\"false\""]), vec!["--repeats=2".to_string()]].concat();
    let ended = place.run(&borrowed(&args)).expect(0);
    let study = json(&ended);
    let results = place.results("out");
    assert_eq!(results.runs.len(), 2);
    for (n, run) in results.runs.iter().enumerate() {
        let values =
            |key: &str| -> Vec<f64> { run.ticks.iter().filter_map(|tick| tick.values.get(key)).collect() };
        let ready = values("archive.ready");
        assert!(
            ready.first().is_some_and(|n| *n < 10.0),
            "each run begins with nothing to archive: {ready:?}"
        );
        assert!(ready.last().is_some_and(|last| *last > ready[0] + 5.0), "{ready:?}");
        let age_s = values("archive.oldest_ready").into_iter().fold(0.0, f64::max);
        assert!((3.0..20.0).contains(&age_s), "{age_s}");
        let found = words(&study["runs"][n]["findings"]);
        expect(&found, "archiver-behind doubt", "segments waited to be archived at the end");
        expect(&found, "archiver-behind doubt", "the disk with WAL is full in");
        expect(&found, "archiving-failed doubt", "0 segments archived meanwhile");
        assert_eq!(run.record.server.as_ref().unwrap().setting("archive_mode"), Some("on"));
    }
    place.expect_clean();
}

#[test]
fn copies_are_made_while_the_load_runs_and_are_gone_afterwards() {
    let place = Place::with_binaries(&["18"]);
    let args = args(&place, "8s", &["archive.kind=[\"none\",\"copy\"]", "experiment.repeats=1"]);
    let running = place.start(place.command(&borrowed(&args)));
    wait_until("a copy of a segment", || {
        let segments =
            archives(&place).into_iter().flat_map(|directory| std::fs::read_dir(directory).unwrap());
        segments.flatten().any(|entry| {
            let is_whole = entry.metadata().is_ok_and(|facts| facts.len() == 16 << 20);
            is_whole && entry.file_name().len() == 24
        })
    });
    let ended = running.wait().expect(0);

    let results = place.results("out");
    assert_eq!(results.runs.len(), 2);
    for run in &results.runs {
        let is_archived = run.record.case.levels.get("archive.kind").map(String::as_str) == Some("copy");
        let sum = |key: &str| run.ticks.iter().filter_map(|tick| tick.values.get(key)).sum::<f64>();
        let n_ready = run.ticks.iter().filter(|tick| tick.values.get("archive.ready").is_some()).count();
        assert_eq!(n_ready > 0, is_archived, "nothing is known of a queue that there is not");
        assert_eq!(sum("server.archived") >= 3.0, is_archived, "{}", sum("server.archived"));
        assert_eq!(sum("server.archive_failures"), 0.0);
    }
    let text = ended.stdout;
    assert!(!text.contains("archiving-failed"), "{text}");
    assert_eq!(archives(&place), Vec::<PathBuf>::new());
    place.expect_clean();
}

#[test]
fn what_cannot_be_archived_is_refused_with_what_to_do() {
    let place = Place::new();
    for (set, problem) in [
        (
            &["archive.kind=\"command\""][..],
            "there is no command; say with archive.command what archives a segment",
        ),
        (
            &["archive.kind=\"copy\"", "server.settings.archive_mode=on"],
            "server.settings.archive_mode: archive.kind sets it; leave one of the two out",
        ),
        (&["archive.kind=\"copy\"", "prepare.restore=false"], "but prepare.restore is off"),
        (&["archive.kind=\"tape\""], "`tape` is none of `none`, `copy`, `command`"),
        (
            &["archive.kind=\"copy\"", "server.url=\"postgresql://localhost/x\""],
            "pgdyno archives only the WAL of a server that it runs itself",
        ),
    ] {
        let args: Vec<&str> = ["plan", "--scale", "1", "-c", "1"]
            .into_iter()
            .chain(set.iter().flat_map(|set| ["--set", *set]))
            .collect();
        let ended = place.run(&args).expect(1);
        let said = format!("{}{}", ended.stdout, ended.stderr);
        let words = said.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(words.contains(problem), "{set:?}: {said}");
    }
    place.expect_clean();
}
