//! Tests of packing and unpacking, with archives as a stranger could make them.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

use flate2::Compression;
use flate2::write::GzEncoder;
use model::run::profile::ProfileRecord;
use tar::{EntryType, Header};
use tempfile::TempDir;

use super::*;
use crate::{ExperimentDir, load_experiment, sample};

const LIMIT: u64 = 1 << 20;

struct Place(TempDir);

impl Place {
    fn new() -> Place {
        Place(tempfile::tempdir().unwrap())
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// An experiment and its archive.
    fn packed() -> Place {
        let place = Place::new();
        sample::write(&place.path("made"));
        pack(&place.path("made"), &place.path("a.tar.gz"), PackExtent::Report, "0.1.0").unwrap();
        place
    }

    fn unpack(&self, archive: &str) -> Result<Unpacked> {
        unpack(&self.path(archive), &self.path("out/there"), LIMIT)
    }

    /// The archive is refused with a message that contains `expected`, and nothing is left.
    fn refused(&self, archive: &[u8], expected: &str) {
        fs::write(self.path("bad.tar.gz"), archive).unwrap();
        let error = format!("{:#}", self.unpack("bad.tar.gz").unwrap_err());
        assert!(error.contains(expected), "{error}");
        assert!(!self.path("out").exists(), "{error}");
    }
}

#[test]
fn what_is_packed_comes_back_equal_without_what_a_report_does_not_need() {
    let place = Place::new();
    let log = "runs/0001/server.log";
    sample::write(&place.path("made"));
    fs::write(place.path("made").join(log), "LOG:  ready\n").unwrap();
    // A report shows what was proven, and why there is no profile.
    let proofs = "{\"format\": 1, \"cases\": []}";
    fs::write(place.path("made/why.json"), proofs).unwrap();
    let reason =
        ProfileRecord { format: 1, case: 1, reason: "no perf".to_string(), ..ProfileRecord::default() };
    let opened = ExperimentDir::open(&place.path("made")).unwrap();
    opened.begin_profile(1).unwrap().keep_profile(&reason, &[]).unwrap();
    drop(opened);
    pack(&place.path("made"), &place.path("a.tar.gz"), PackExtent::Report, "0.1.0").unwrap();
    let unpacked = place.unpack("a.tar.gz").unwrap();
    assert_eq!((unpacked.name.as_str(), unpacked.tool_version.as_str()), ("made", "0.1.0"));
    let (made, there) = (place.path("made"), place.path("out/there"));
    assert_eq!(load_experiment(&there).unwrap(), load_experiment(&made).unwrap());
    assert_eq!(load_experiment(&there).unwrap().profiles[0].record, reason);
    assert_eq!(fs::read_to_string(there.join("why.json")).unwrap(), proofs);
    assert!(!there.join(log).exists() && !there.join("lock").exists());
    let all = pack(&made, &place.path("all.tar.gz"), PackExtent::All, "0.1.0").unwrap();
    assert_eq!(all.files.len(), unpacked.n_files + 1, "the log of a run");
    let again = pack(&made, &place.path("again.tar.gz"), PackExtent::All, "0.1.0").unwrap();
    assert!(again.hidden.is_empty(), "{:?}", again.hidden);
    let [all, again] = ["all.tar.gz", "again.tar.gz"].map(|name| fs::read(place.path(name)).unwrap());
    assert!(all == again, "the same results give the same archive");
}

#[test]
fn what_a_killed_attempt_has_left_is_removed_and_nothing_else() {
    let place = Place::packed();
    let (made, there) = (place.path("made"), place.path("out/there"));
    // Killed while it collected: half of a file of a run; or while it moved: all is there, and the runs are in their place.
    for moved in [false, true] {
        let run = if moved { there.join("runs/0001") } else { there.join(".unpacking/runs/0001") };
        fs::create_dir_all(&run).unwrap();
        fs::create_dir_all(there.join(".unpacking")).unwrap();
        fs::write(run.join("run.json"), "{").unwrap();
        fs::write(there.join("lock"), "").unwrap();
        if moved {
            fs::copy(made.join("plan.json"), there.join(".unpacking/plan.json")).unwrap();
        }
        let whose = if moved { there.join("note") } else { there.join(".unpacking/note") };
        fs::write(&whose, "mine").unwrap();
        let error = format!("{:#}", place.unpack("a.tar.gz").unwrap_err());
        assert!(error.contains("contains files that pgdyno did not write"), "{error}");
        assert!(whose.exists() && run.join("run.json").exists());
        fs::remove_file(whose).unwrap();
        place.unpack("a.tar.gz").unwrap();
        assert_eq!(load_experiment(&there).unwrap(), load_experiment(&made).unwrap());
        assert!(!there.join(".unpacking").exists() && !there.join("lock").exists());
        fs::remove_dir_all(&there).unwrap();
    }
}

#[test]
fn nothing_is_overwritten() {
    let place = Place::packed();
    let error = pack(&place.path("made"), &place.path("a.tar.gz"), PackExtent::Report, "0.1.0").unwrap_err();
    assert!(format!("{error:#}").contains("cannot create"), "{error:#}");
    fs::create_dir_all(place.path("out/there")).unwrap();
    fs::write(place.path("out/there/note"), "mine").unwrap();
    let error = format!("{:#}", place.unpack("a.tar.gz").unwrap_err());
    assert!(error.contains("contains files that pgdyno did not write (note)"), "{error}");
    place.unpack("a.tar.gz").unwrap_err();
    assert_eq!(fs::read(place.path("out/there/note")).unwrap(), b"mine");
    fs::remove_file(place.path("out/there/note")).unwrap();
    place.unpack("a.tar.gz").unwrap();
}

#[test]
fn a_secret_that_an_earlier_version_wrote_is_not_packed() {
    let place = Place::new();
    let dir = place.path("made");
    sample::write(&dir);
    let secret = "postgres://bench:s3cr3t-word@db/x";
    let add = |name: &str, text: &str| {
        let path = dir.join(name);
        let old = fs::read_to_string(&path).unwrap_or_default();
        fs::write(path, old + text).unwrap();
    };
    add("experiment.toml", &format!("# {secret}\n"));
    add(
        "runs/0001/events.jsonl",
        &format!("{{\"t_unix_ns\":1,\"kind\":\"server_log\",\"text\":\"{secret}\"}}\n"),
    );
    let readings = dir.join("runs/0001/readings.jsonl.zst");
    let plain = zstd::decode_all(fs::File::open(&readings).unwrap()).unwrap();
    let line = format!("{{\"source\":\"{secret}\"}}\n");
    fs::write(&readings, zstd::encode_all(&[&plain, line.as_bytes()].concat()[..], 3).unwrap()).unwrap();
    add("runs/0001/server.log", "STATEMENT:  ALTER ROLE u PASSWORD\n\t'S3cret'\n");
    let all = pack(&dir, &place.path("all.tar.gz"), PackExtent::All, "0.1.0").unwrap();
    assert!(all.hidden.iter().any(|name| name == "runs/0001/server.log"), "{:?}", all.hidden);
    let packed = pack(&dir, &place.path("a.tar.gz"), PackExtent::Report, "0.1.0").unwrap();
    let hidden = ["experiment.toml", "runs/0001/events.jsonl", "runs/0001/readings.jsonl.zst"];
    assert_eq!(packed.hidden, ["experiment.toml", "runs/0001/readings.jsonl.zst", "runs/0001/events.jsonl"]);
    place.unpack("a.tar.gz").unwrap();
    for name in hidden {
        let mut bytes = fs::read(place.path("out/there").join(name)).unwrap();
        if name.ends_with("zst") {
            bytes = zstd::decode_all(&bytes[..]).unwrap();
        }
        let text = String::from_utf8(bytes).unwrap();
        assert!(text.contains("postgres://bench:(hidden") && !text.contains("s3cr3t-word"), "{name}: {text}");
    }
}

#[test]
fn results_of_a_newer_format_are_not_packed_whichever_file_has_it() {
    let place = Place::new();
    let dir = place.path("made");
    sample::write(&dir);
    fs::write(dir.join("duet.json"), "damaged").unwrap();
    let (own, archive) = (format!("\"format\": {},", model::FORMAT), place.path("a.tar.gz"));
    for name in ["runs/0001/run.json", "plan.json"] {
        let text = fs::read_to_string(dir.join(name)).unwrap();
        assert!(text.contains(&own), "{text:.200}");
        fs::write(dir.join(name), text.replacen(&own, "\"format\": 99,", 1)).unwrap();
        let error = format!("{:#}", pack(&dir, &archive, PackExtent::Report, "0.1.0").unwrap_err());
        assert!(error.contains(&format!("{name}` has format 99, and this pgdyno reads")), "{error}");
        assert!(!archive.exists());
        fs::write(dir.join(name), text).unwrap();
    }
    pack(&dir, &archive, PackExtent::Report, "0.1.0").unwrap();
}

#[test]
fn an_archive_cut_or_changed_anywhere_leaves_nothing_behind() {
    let place = Place::packed();
    let whole = fs::read(place.path("a.tar.gz")).unwrap();
    for length in (0..whole.len() - 32).step_by(41) {
        place.refused(&whole[..length], "");
    }
    place.refused(&whole[..whole.len() / 2], "bad.tar.gz`: the file is incomplete, and nothing was unpacked");
    for at in (0..whole.len() - 32).step_by(37) {
        let mut changed = whole.clone();
        changed[at] ^= 0x15;
        fs::write(place.path("bad.tar.gz"), &changed).unwrap();
        match place.unpack("bad.tar.gz") {
            // Times and names in gzip's own header mean nothing.
            Ok(_) => {
                let (made, there) = (place.path("made"), place.path("out/there"));
                assert_eq!(load_experiment(&there).unwrap(), load_experiment(&made).unwrap(), "byte {at}");
                fs::remove_dir_all(place.path("out")).unwrap();
            }
            Err(_) => assert!(!place.path("out").exists(), "byte {at}"),
        }
    }
}

/// An entry of a hand-made archive.
struct Handmade<'a> {
    path: &'a str,
    kind: EntryType,
    bytes: &'a [u8],
}

fn entry<'a>(path: &'a str, bytes: &'a str) -> Handmade<'a> {
    Handmade { path, kind: EntryType::Regular, bytes: bytes.as_bytes() }
}

/// An archive with a list that `edit` may falsify.
fn archive(entries: &[Handmade], edit: impl Fn(&mut serde_json::Value)) -> Vec<u8> {
    let listed = entries.iter().map(|entry| {
        let mut measure = Measure::default();
        measure.write_all(entry.bytes).unwrap();
        serde_json::json!({ "path": entry.path, "bytes": entry.bytes.len(), "sha256": measure.hex() })
    });
    let listed: Vec<serde_json::Value> = listed.collect();
    let mut list = serde_json::json!({ "pack_format": 1, "tool_version": "1", "name": "n", "files": listed });
    edit(&mut list);
    let list = list.to_string();
    let mut out = GzEncoder::new(Vec::new(), Compression::fast());
    let first = entry(LIST, &list);
    for Handmade { path, kind, bytes } in std::iter::once(&first).chain(entries) {
        let mut header = Header::new_ustar();
        // `set_path` refuses what a stranger would write.
        header.as_old_mut().name[..path.len()].copy_from_slice(path.as_bytes());
        header.set_entry_type(*kind);
        header.set_size(bytes.len() as u64);
        header.set_cksum();
        out.write_all(header.as_bytes()).unwrap();
        out.write_all(bytes).unwrap();
        pad(&mut out, bytes.len() as u64).unwrap();
    }
    out.write_all(&[0; 2 * BLOCK]).unwrap();
    out.finish().unwrap()
}

#[test]
fn what_a_stranger_puts_into_an_archive_is_refused() {
    let place = Place::new();
    let plan = || entry("plan.json", "{}");
    let as_is = |_: &mut serde_json::Value| {};
    for path in ["../evil", "/etc/evil", "runs/0001/../../evil", "evil", "runs/0001/evil", "plan.json/x"] {
        let bad = archive(&[entry(path, "x"), plan()], as_is);
        place.refused(&bad, &format!("it holds `{path}`, which no experiment has"));
    }
    let kinds = [
        EntryType::Link,
        EntryType::Symlink,
        EntryType::Char,
        EntryType::Block,
        EntryType::Fifo,
        EntryType::Directory,
        EntryType::XHeader,
        EntryType::GNULongName,
        EntryType::GNUSparse,
        EntryType::Continuous,
    ];
    for kind in kinds {
        let bad = archive(&[Handmade { kind, ..entry("state.jsonl", "") }, plan()], as_is);
        place.refused(&bad, "`state.jsonl` is not a regular file");
    }
    place.refused(&archive(&[plan(), plan()], as_is), "it holds `plan.json` twice");
    place.refused(&archive(&[plan(), entry("state.jsonl", "")], as_is), "it does not end with `plan.json`");
    let big = archive(&[plan()], |list| list["files"][0]["bytes"] = (LIMIT + 1).into());
    place.refused(&big, "--size-limit accepts more");
    let huge = archive(&[entry("state.jsonl", ""), plan()], |list| {
        list["files"][0]["bytes"] = u64::MAX.into();
        list["files"][1]["bytes"] = u64::MAX.into();
    });
    place.refused(&huge, "--size-limit accepts more");
    let other = archive(&[plan()], |list| list["files"][0]["sha256"] = "00".into());
    place.refused(&other, "`plan.json` is damaged: its checksum differs");
    let shorter = archive(&[plan()], |list| list["files"][0]["bytes"] = 1.into());
    place.refused(&shorter, "its files are not those of its list");
    let more = archive(&[plan(), entry("state.jsonl", "")], |list| {
        list["files"].as_array_mut().unwrap().pop();
    });
    place.refused(&more, "it holds more than its list");
    let newer = archive(&[plan()], |list| list["pack_format"] = 2.into());
    place.refused(&newer, "it has the pack format 2, and this pgdyno reads up to 1; use a newer pgdyno");
    place.refused(&archive(&[plan()], |list| *list = serde_json::json!({})), "its list of files is damaged");
    place.refused(b"PK\x03\x04", "is not an archive of `pgdyno pack`");
    let mut empty = GzEncoder::new(Vec::new(), Compression::fast());
    empty.write_all(&[0; 4096]).unwrap();
    place.refused(&empty.finish().unwrap(), "is not an archive of `pgdyno pack`");
}

#[test]
fn a_link_in_place_of_a_file_is_neither_packed_nor_read() {
    let place = Place::new();
    sample::write(&place.path("made"));
    fs::write(place.path("private"), "mine\n").unwrap();
    let events = place.path("made/runs/0001/events.jsonl");
    fs::remove_file(&events).unwrap();
    std::os::unix::fs::symlink(place.path("private"), &events).unwrap();
    let error = pack(&place.path("made"), &place.path("a.tar.gz"), PackExtent::Report, "0.1.0").unwrap_err();
    assert!(format!("{error:#}").contains("symbolic link"), "{error:#}");
    assert!(!place.path("a.tar.gz").exists());
    std::os::unix::fs::symlink(place.path("private"), place.path("link")).unwrap();
    assert!(unpack(Path::new(&place.path("link")), &place.path("out"), LIMIT).is_err());
}
