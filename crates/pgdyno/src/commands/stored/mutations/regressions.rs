//! What was found: each kind by its name, as an example that once ended a command or a server.

use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};

use serde_json::{Value, json};

use super::drive::{self, All, Pages};
use super::samples::Sample;

/// Changes a file of a sample with `change`, and drives all that reads it.
fn check(kind: &str, name: &str, change: impl Fn(&mut Value)) -> Sample {
    let place = tempfile::tempdir().unwrap();
    let sample = Sample::unpack(place.path(), kind);
    let changed: Vec<String> = parts(name, &sample.text(name))
        .into_iter()
        .map(|mut value| {
            change(&mut value);
            value.to_string()
        })
        .collect();
    sample.write(name, &(changed.join("\n") + "\n"));
    let driven = catch_unwind(AssertUnwindSafe(|| drive::all(&sample, &mut Pages::default(), &mut All)));
    driven.unwrap_or_else(|_| panic!("`{name}` ends a command")).unwrap();
    // The directory is only looked at by tests that keep it.
    std::mem::forget(place);
    sample
}

/// The values of a file: one, or one of each line.
fn parts(name: &str, text: &str) -> Vec<Value> {
    if name.ends_with(".json") {
        vec![serde_json::from_str(text).unwrap()]
    } else {
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }
}

fn remove(sample: &Sample) {
    fs::remove_dir_all(sample.root.parent().unwrap()).unwrap();
}

#[test]
fn a_negative_reading_is_damage() {
    let sample = check("run", "runs/0001/readings.jsonl.zst", |tick| {
        tick["values"].as_object_mut().unwrap().values_mut().for_each(|value| *value = json!(-5.0));
    });
    let run = store::load_one(&sample.changed, 1).unwrap();
    assert!(run.damage.iter().any(|note| note.contains("of -5e0 is impossible")), "{:?}", run.damage);
    remove(&sample);
}

#[test]
fn ticks_without_number_at_one_moment_are_refused() {
    let place = tempfile::tempdir().unwrap();
    let sample = Sample::unpack(place.path(), "run");
    let name = "runs/0001/readings.jsonl.zst";
    let line = sample.text(name).lines().nth(16).unwrap().to_string() + "\n";
    sample.write(name, &(sample.text(name) + &line.repeat(3_000)));
    let run = store::load_one(&sample.changed, 1).unwrap();
    assert!(run.ticks.len() < 300, "{}", run.ticks.len());
    assert!(run.damage.iter().any(|note| note.contains("overlap")), "{:?}", run.damage);
}

#[test]
fn a_name_of_70_000_characters_hides_no_other_result() {
    remove(&check("run", "plan.json", |plan| plan["name"] = json!("n".repeat(70_000))));
}

#[test]
fn a_text_is_cut_between_characters() {
    remove(&check("run", "runs/0001/run.json", |record| {
        record["server"]["executable_sha256"] = json!("aéééééé")
    }));
}

#[test]
fn a_profile_leaves_out_no_more_than_there_is() {
    remove(&check("run", "profiles/0001/profile.json", |profile| {
        (profile["n_without_symbol"], profile["n_left_out"]) = (json!(1_000), json!(1_000));
    }));
}

#[test]
fn counts_of_records_do_not_overflow() {
    remove(&check("duet", "runs/0001/run.json", |record| {
        for key in ["committed", "failed", "unknown", "aborted", "started", "due"] {
            record["done"]["counts"][key] = json!(u64::MAX - 1);
        }
    }));
    remove(&check("duet", "duet.json", |duet| {
        for pair in duet["pairs"].as_array_mut().unwrap() {
            (pair["a"], pair["b"]) = (json!(u64::MAX), json!(u64::MAX));
        }
    }));
}

#[test]
fn windows_of_a_century_are_refused() {
    remove(&check("run", "plan.json", |plan| {
        for case in plan["cases"].as_array_mut().unwrap() {
            case["window"] = json!({"ramp_up_s": u32::MAX, "measure_s": u32::MAX, "grace_s": u32::MAX});
        }
    }));
    remove(&check("search", "runs/0001/run.json", |record| {
        record["case"]["window"] = json!({"ramp_up_s": u32::MAX, "measure_s": u32::MAX, "grace_s": 1});
        record["load"]["window"] = record["case"]["window"].clone();
        record["search"]["probe_s"] = json!(0);
    }));
}

#[test]
fn a_bomb_is_read_to_its_bound() {
    let place = tempfile::tempdir().unwrap();
    let sample = Sample::unpack(place.path(), "run");
    // A comment takes no memory, however often it is there: time is what it takes.
    let (name, line) = ("runs/0001/latency.hlog.zst", "#[Histogram log format version 1.3]\n");
    sample.write(name, &line.repeat((256 << 20) / line.len()));
    let stored = fs::metadata(sample.changed.join(name)).unwrap().len();
    assert!(stored < 100_000, "{stored}");
    let run = store::load_one(&sample.changed, 1).unwrap();
    assert!(run.damage.iter().any(|note| note.contains("decodes to more than")), "{:?}", run.damage);
}
