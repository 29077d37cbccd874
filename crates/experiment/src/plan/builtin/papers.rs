//! The files of the published studies against the tables of docs/studies.md: each number is the study's, and what the study does not
//! state is said to be chosen.

use std::collections::{BTreeMap, BTreeSet};

use toml::Value;

const TABLES: &str = include_str!("../../../../../docs/studies.md");
const STUDIES: [&str; 5] = ["m5-metal", "piops", "five-clouds", "low-variation", "numa-hugepages"];
/// Keys that name, describe or bundle; what they say is in other rows.
const WORDS: [&str; 4] = ["experiment.name", "experiment.title", "experiment.description", "experiment.zip"];

/// A row: the value of a key in the file, and what the study states of it.
struct Row {
    file: String,
    study: String,
}

/// The rows of a study's table by key.
fn rows(study: &str) -> BTreeMap<String, Row> {
    let section = TABLES.split(&format!("\n## {study}\n")).nth(1).unwrap();
    let section = section.split("\n## ").next().unwrap();
    let cells = |line: &str| -> Option<(String, Row)> {
        let cells: Vec<&str> = line.trim_matches('|').split('|').map(str::trim).collect();
        let [key, file, study] = cells.as_slice() else { return None };
        let key = key.strip_prefix('`')?.strip_suffix('`')?;
        Some((key.to_string(), Row { file: file.to_string(), study: study.to_string() }))
    };
    section.lines().filter_map(cells).collect()
}

/// The keys of a file with their values as the tables write them.
fn keys_of(table: &toml::Table, prefix: &str, found: &mut BTreeMap<String, String>) {
    for (name, value) in table {
        let key = format!("{prefix}{name}");
        match value {
            _ if WORDS.contains(&key.as_str()) || ["target", "driver"].contains(&key.as_str()) => {}
            Value::Table(levels) if key == "experiment.baseline" => {
                let levels: Vec<String> = levels.iter().map(|(k, v)| format!("{k} {}", text(v))).collect();
                found.insert(key, levels.join(", "));
            }
            Value::Table(table) => keys_of(table, &format!("{key}."), found),
            value => {
                found.insert(key, text(value));
            }
        }
    }
}

fn text(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Array(all) => {
            let mut texts: Vec<String> = Vec::new();
            for one in all.iter().map(text).filter(|one| !texts.contains(one)).collect::<Vec<_>>() {
                if !texts.contains(&one) {
                    texts.push(one);
                }
            }
            texts.join(", ")
        }
        other => other.to_string(),
    }
}

#[test]
fn each_file_has_the_numbers_of_its_study_and_says_what_was_chosen() {
    for study in STUDIES {
        let text = super::text(study, 2).unwrap();
        let mut keys = BTreeMap::new();
        keys_of(&text.parse().unwrap(), "", &mut keys);
        let rows = rows(study);
        let of_file: BTreeMap<&String, &String> = keys.iter().collect();
        let of_table: BTreeMap<&String, &String> = rows.iter().map(|(key, row)| (key, &row.file)).collect();
        assert_eq!(of_file, of_table, "{study}");
        let (_, chosen) = text.split_once("which was chosen:").unwrap();
        let chosen = chosen.split("\n[").next().unwrap();
        for (key, _) in rows.iter().filter(|(_, row)| row.study == "-") {
            let name = key.rsplit('.').next().unwrap();
            assert!(chosen.contains(name), "{study}: {key} was chosen, which the file does not say");
        }
    }
}

#[test]
fn the_clouds_are_the_servers_of_the_study() {
    let text = super::text("five-clouds", 2).unwrap();
    let experiment = crate::plan::file::parse("five-clouds", &text, &[]).unwrap();
    let label = |text: &Option<String>| text.clone().unwrap();
    let places: BTreeSet<(String, String)> =
        experiment.target.iter().map(|t| (label(&t.provider), label(&t.region))).collect();
    assert_eq!(places.len(), 10, "two regions of five providers");
    let n = |disk: &str, size: &str| {
        let is = |t: &&model::experiment::target::TargetSection| {
            t.disk.as_deref() == Some(disk) && t.labels["size"] == size
        };
        experiment.target.iter().filter(is).count()
    };
    let sizes =
        [n("network", "small"), n("network", "large"), n("local NVMe", "small"), n("local NVMe", "large")];
    assert_eq!(sizes, [10, 10, 2, 2]);
    for (target, clients) in experiment.target.iter().zip(experiment.workload.clients.all()) {
        let expected = match target.labels["size"].as_str() {
            "small" => (16, "16GB"),
            _ => (64, "64GB"),
        };
        assert_eq!((*clients, target.memory.as_deref().unwrap()), expected, "{}", target.name);
    }
}
