//! The results that are changed: the kept samples, and next to each what they do not have.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::change::{self, Kind, Random};

/// Kinds of samples; those of many runs would only take longer.
const KINDS: [&str; 7] = ["run", "merged", "tpcc", "duet", "search", "scripts", "limited"];
/// Settings of servers that are kept: they are most of a record, and all alike.
const SETTINGS_MAX: usize = 12;
/// Changes that are made at once.
const CHANGES_MAX: usize = 3;

/// A result in two copies, one of which is changed, in a directory of results.
pub(super) struct Sample {
    pub(super) root: PathBuf,
    pub(super) changed: PathBuf,
    pub(super) whole: PathBuf,
    /// The files by their paths.
    files: BTreeMap<String, Vec<u8>>,
}

impl Sample {
    /// Unpacks all below `dir`.
    pub(super) fn unpack_all(dir: &Path) -> Vec<Sample> {
        KINDS.iter().map(|kind| Sample::unpack(dir, kind)).collect()
    }

    pub(super) fn unpack(dir: &Path, kind: &str) -> Sample {
        let archive = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/formats/0.1");
        let root = dir.join(kind);
        let [changed, whole] = ["changed", "whole"].map(|name| root.join(name));
        for to in [&changed, &whole] {
            store::unpack(&archive.join(format!("{kind}.tar.gz")), to, 1 << 30).unwrap();
        }
        let mut sample = Sample { root, changed, whole, files: BTreeMap::new() };
        sample.add_what_is_missing();
        let mut dirs = vec![sample.changed.clone()];
        while let Some(dir) = dirs.pop() {
            for entry in fs::read_dir(&dir).unwrap() {
                let path = entry.unwrap().path();
                if path.is_dir() {
                    dirs.push(path);
                } else if path.file_name().is_some_and(|name| name != store::names::LOCK) {
                    let name = path.strip_prefix(&sample.changed).unwrap().to_str().unwrap().to_string();
                    sample.files.insert(name, shortened(&path));
                }
            }
        }
        sample.restore();
        sample
    }

    /// Writes the files that no sample has.
    fn add_what_is_missing(&self) {
        let write = |path: &str, text: String| {
            let path = self.changed.join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        let record: Value =
            serde_json::from_slice(&fs::read(self.changed.join("runs/0001/run.json")).unwrap()).unwrap();
        let go = record["go_unix_ns"].as_u64().unwrap();
        let event = |n: u64, kind: &str, detail: Value| json!({"t_unix_ns": go + n * 500_000_000, "kind": kind, "text": format!("{kind} happened"), "detail": detail});
        let events = [
            event(0, "checkpoint_start", json!({"cause": "time"})),
            event(
                1,
                "checkpoint_end",
                json!({"buffers": "12", "write_s": "0.2", "sync_s": "0.1", "total_s": "0.4"}),
            ),
            event(2, "autovacuum_end", json!({"table": "a.b.c", "elapsed_s": "0.3"})),
            event(
                2,
                "autovacuum_counted",
                json!({"what": "autovacuum", "table": "a.b.c", "n": "2", "span_s": "3"}),
            ),
            event(3, "autovacuum_seen", json!({"table": "a.b.c"})),
            event(3, "driver_paused", json!({"pause_s": "0.2"})),
            event(3, "connection_lost", json!({"client": "3", "sqlstate": "57P01"})),
            event(4, "connection_restored", json!({"client": "3", "outage_s": "0.5"})),
            event(4, "server_notice", json!({"client": "1", "severity": "WARNING", "n_dropped": "7"})),
            event(4, "disk_nearly_full", json!({"free_bytes": "1000", "path": "/srv"})),
        ];
        write("runs/0001/events.jsonl", lines(&events));
        let imports: Vec<Value> = (0..4)
            .map(|n| {
                let points: Vec<(f64, f64)> = (0..5).map(|s| (go as f64 / 1e9 + f64::from(s), 0.5)).collect();
                let series = json!([{"name": "a", "points": points}, {"name": "b", "points": points}]);
                json!({"name": format!("import {n}"), "unit": "B/s", "source": "power.csv: watts", "series": series})
            })
            .collect();
        write("runs/0001/imports.jsonl", lines(&imports));
        let profile = json!({"format": 1, "case": 1, "event": "cycles", "frequency_hz": 99, "length_s": 10, "n_samples": 12,
            "n_without_symbol": 1, "n_processes": 3, "n_left_out": 0, "tps": 12.5});
        write("profiles/0001/profile.json", profile.to_string());
        write(
            "profiles/0001/stacks.folded",
            "main;PostgresMain;ExecScan 7\nmain;do_syscall_64_[k] 5\n".to_string(),
        );
        let proof = json!({"limiter": "wal-sync", "kind": "lift", "change": "fsync = off", "side_effect": "", "ratio": 1.5, "interval": [1.2, 1.8],
            "n_pairs": 6, "outcome": "proven"});
        write(
            "why.json",
            json!({"format": 1, "cases": [{"case": 1, "measured_in": "why", "proofs": [proof]}]}).to_string(),
        );
        write(
            "now.json",
            json!({"format": 1, "t_unix_ns": go, "doing": "vacuum", "ends_unix_ns": [go + 1]}).to_string(),
        );
        let answer = json!({"title": "t", "headline": "h", "verdict": "valid", "server": "s", "tool_version": env!("CARGO_PKG_VERSION")});
        write("answer.json", answer.to_string());
    }

    /// Changes the copy; returns what was done.
    pub(super) fn change(&self, random: &mut Random) -> String {
        let names: Vec<&String> = self.files.keys().collect();
        let mut done = Vec::new();
        for _ in 0..=random.below(CHANGES_MAX) {
            let name = names[random.below(names.len())];
            // A second change of the same file is one of its changed text.
            let before = fs::read(self.changed.join(name)).unwrap_or_default();
            let (words, after) = change::file(Kind::from_name(name), &before, random);
            match after {
                Some(after) => fs::write(self.changed.join(name), after).unwrap(),
                None => drop(fs::remove_file(self.changed.join(name))),
            }
            done.push(format!("`{name}`: {words}"));
        }
        let kind = self.root.file_name().unwrap_or_default().to_string_lossy().into_owned();
        format!("{kind}: {}", done.join(", "))
    }

    /// The text of a file, of the copy that is changed.
    pub(super) fn text(&self, name: &str) -> String {
        String::from_utf8(change::unpacked(
            Kind::from_name(name),
            &fs::read(self.changed.join(name)).unwrap(),
        ))
        .unwrap()
    }

    /// Writes the text of a file of that copy.
    pub(super) fn write(&self, name: &str, text: &str) {
        fs::write(self.changed.join(name), change::packed(Kind::from_name(name), text.as_bytes())).unwrap();
    }

    /// Makes both copies what they were, without what reading has written.
    pub(super) fn restore(&self) {
        for dir in [&self.changed, &self.whole] {
            for entry in fs::read_dir(dir).unwrap() {
                let path = entry.unwrap().path();
                if path.is_file() {
                    fs::remove_file(path).unwrap();
                }
            }
            for (name, bytes) in &self.files {
                if fs::read(dir.join(name)).ok().as_ref() != Some(bytes) {
                    fs::create_dir_all(dir.join(name).parent().unwrap()).unwrap();
                    fs::write(dir.join(name), bytes).unwrap();
                }
            }
        }
    }
}

fn lines(values: &[Value]) -> String {
    values.iter().map(|value| format!("{value}\n")).collect()
}

/// A file without most settings of the server.
fn shortened(path: &Path) -> Vec<u8> {
    let bytes = fs::read(path).unwrap();
    if !path.ends_with(store::names::RUN) {
        return bytes;
    }
    let mut record: Value = serde_json::from_slice(&bytes).unwrap();
    if let Some(settings) = record["server"]["settings"].as_object_mut() {
        let mut n = 0;
        settings.retain(|_, _| {
            n += 1;
            n <= SETTINGS_MAX
        });
    }
    serde_json::to_vec_pretty(&record).unwrap()
}
