//! Results that earlier releases wrote are read: the kept samples in `tests/formats`, whose figures are in a table next to them.
//!
//! `PGDYNO_BLESS=1 cargo test -p pgdyno --test it formats::` writes the tables: for the samples of a new release, and after a
//! correction of a figure that the changelog names.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use model::run::ceilings::Calibration;
use serde_json::Value;

use crate::tool::Place;

/// Kinds of results that each release keeps.
const KINDS: [&str; 9] =
    ["run", "again", "merged", "tpcc", "comparison", "duet", "search", "scripts", "limited"];

/// Columns of `runs.csv` that must not change for what was measured once.
const COLUMNS: [&str; 13] = [
    "run",
    "block",
    "case",
    "origin",
    "state",
    "measured_s",
    "tps",
    "nopm",
    "committed",
    "total_started",
    "latency_mean_ns",
    "latency_p50_ns",
    "latency_p99_ns",
];

/// The samples of each release, oldest first.
fn releases() -> Vec<PathBuf> {
    let formats = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/formats");
    let entries = fs::read_dir(formats).unwrap().map(|entry| entry.unwrap().path());
    let mut releases: Vec<PathBuf> = entries.filter(|path| path.is_dir()).collect();
    releases.sort();
    releases
}

/// The samples of the newest release.
pub(crate) fn newest() -> PathBuf {
    releases().pop().unwrap()
}

/// Unpacks one kind of the samples of a release below `results`.
pub(crate) fn unpack(place: &Place, release: &Path, kind: &str) {
    let file = release.join(format!("{kind}.tar.gz")).display().to_string();
    place.run(&["unpack", &file, "-o", &format!("results/{kind}")]).expect(0);
}

/// The samples of a release, unpacked below `results`.
fn unpacked(release: &Path) -> Place {
    let place = Place::new();
    KINDS.iter().for_each(|kind| unpack(&place, release, kind));
    place
}

/// Rows of a CSV file by their heads. No cell that is asked for holds a comma; those that do are in quotes.
fn rows(csv: &str) -> Vec<BTreeMap<String, String>> {
    let cells = |line: &str| -> Vec<String> {
        let mut cells = vec![String::new()];
        let mut is_quoted = false;
        for sign in line.chars() {
            match sign {
                '"' => is_quoted = !is_quoted,
                ',' if !is_quoted => cells.push(String::new()),
                sign => cells.last_mut().unwrap().push(sign),
            }
        }
        cells
    };
    let mut lines = csv.lines();
    let heads = cells(lines.next().unwrap());
    lines.map(|line| heads.iter().cloned().zip(cells(line)).collect()).collect()
}

fn json(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text:.400}"))
}

/// What is read of one kind of results, a figure a line.
fn figures(place: &Place, kind: &str) -> String {
    let dir = format!("results/{kind}");
    let study = json(&place.run(&["report", &dir, "--json"]).expect(0).stdout);
    let report = fs::read_to_string(place.path(&dir).join("report.html")).unwrap();
    assert!(report.contains("</html>"), "{kind}");
    let mut lines = String::new();
    for row in rows(&fs::read_to_string(place.path(&dir).join("runs.csv")).unwrap()) {
        let cells = COLUMNS.iter().filter_map(|name| Some(format!("{name}={}", row.get(*name)?)));
        lines.push_str(&format!("{kind}: {}\n", cells.collect::<Vec<String>>().join(" ")));
    }
    for (table, column) in [("seconds", "tps"), ("intervals", "committed"), ("readings", "value")] {
        let exported = rows(&place.run(&["export", &dir, "--table", table]).expect(0).stdout);
        let cells = exported.iter().filter_map(|row| row.get(column)?.parse::<f64>().ok());
        let sum = cells.fold(0.0, |sum, value| sum + value);
        lines.push_str(&format!("{kind}: {table} n={} {column}={sum}\n", exported.len()));
    }
    if let "comparison" | "duet" = kind {
        let compared = json(&place.run(&["compare", &dir, "--json"]).expect(0).stdout);
        let case = &compared["comparisons"][0];
        let result = &case["figures"][0]["result"];
        let values = ["ratio", "low", "high", "verdict"].map(|name| format!("{name}={}", result[name]));
        lines.push_str(&format!("{kind}: n_pairs={} {}\n", case["n_pairs"], values.join(" ")));
    }
    for case in study["cases"].as_array().unwrap() {
        for proof in case["limiter"]["proofs"].as_array().into_iter().flatten() {
            let values =
                ["limiter", "change", "ratio", "outcome"].map(|name| format!("{name}={}", proof[name]));
            lines.push_str(&format!("{kind}: proof {}\n", values.join(" ")));
        }
    }
    for run in study["runs"].as_array().unwrap() {
        for import in run["imported"].as_array().into_iter().flatten() {
            let values = ["name", "unit", "n", "mean"].map(|name| format!("{name}={}", import[name]));
            lines.push_str(&format!("{kind}: import {}\n", values.join(" ")));
        }
        if run["capacity"].is_object() {
            let capacity = &run["capacity"];
            lines.push_str(&format!(
                "{kind}: search rate={} outcome={}\n",
                capacity["rate"], capacity["outcome"]
            ));
        }
    }
    lines
}

/// Figures that need several results, or none.
fn other_figures(place: &Place, release: &Path) -> String {
    let mut lines = String::new();
    let compared = place.run(&["compare", "results/run:1", "results/again:1", "--json"]).expect(0);
    let case = &json(&compared.stdout)["comparisons"][0];
    lines.push_str(&format!("run and again: {} with {}, {}\n", case["a"], case["b"], case["pairing"]));
    let history = json(&place.run(&["history", "sample", "results", "--json"]).expect(0).stdout);
    for of_case in history.as_array().unwrap() {
        let n_points = of_case["points"].as_array().unwrap().len();
        lines.push_str(&format!("history: {} n_points={n_points}\n", of_case["label"]));
    }
    let listed = place.run(&["list", "results", "--json"]).expect(0).stdout;
    lines.push_str(&format!("list: n={}\n", listed.lines().count()));
    for line in fs::read_to_string(release.join("ceilings.jsonl")).unwrap().lines() {
        let calibration: Calibration = serde_json::from_str(line).unwrap();
        let place = Path::new(&calibration.place).file_name().map(|name| name.to_string_lossy().into_owned());
        let place = place.unwrap_or_default();
        for (name, value) in &calibration.values {
            lines.push_str(&format!("ceilings: {place} {name} {value:?}\n"));
        }
    }
    lines
}

#[test]
fn results_of_every_release_are_read_with_the_same_figures() {
    let releases = releases();
    assert!(!releases.is_empty());
    for release in releases {
        let place = unpacked(&release);
        let mut read: String = KINDS.iter().map(|kind| figures(&place, kind)).collect();
        read.push_str(&other_figures(&place, &release));
        let table = release.join("figures.txt");
        if std::env::var_os("PGDYNO_BLESS").is_some() {
            fs::write(table, read).unwrap();
            continue;
        }
        let kept = fs::read_to_string(&table).unwrap();
        for (read, kept) in read.lines().zip(kept.lines()) {
            assert_eq!(read, kept, "{}: this figure was another one in its release", table.display());
        }
        assert_eq!(read.lines().count(), kept.lines().count(), "{}", table.display());
        place.expect_clean();
    }
}

#[test]
fn results_of_a_newer_format_are_refused_in_words() {
    let place = Place::new();
    let newest = newest();
    let file = newest.join("run.tar.gz").display().to_string();
    place.run(&["unpack", &file, "-o", "new"]).expect(0);
    let newer = |name: &str| {
        let path = place.path(name);
        let text = fs::read_to_string(&path).unwrap();
        let own = format!("\"format\": {},", model::FORMAT);
        assert!(text.contains(&own), "{text:.200}");
        fs::write(&path, text.replacen(&own, "\"format\": 99,", 1)).unwrap();
    };
    let refused = |what: &str, commands: &[&str]| {
        let own = model::FORMAT;
        let expected =
            format!("{what}` has format 99, and this pgdyno reads formats up to {own}; use a newer pgdyno");
        for command in commands {
            let ended = place.run(&command.split(' ').collect::<Vec<_>>()).expect(1);
            assert!(ended.stderr.contains(&expected), "{command}: {}", ended.stderr);
        }
    };
    let readers = [
        "report new",
        "compare new:1 new:2",
        "export new",
        "merge new new -o merged",
        "pack new -o new.tar.gz",
    ];
    newer("new/runs/0001/run.json");
    refused("run.json", &readers);
    newer("new/plan.json");
    refused("plan.json", &readers);
    refused("plan.json", &["pack new", "run --resume new"]);
    place.expect_clean();
}
