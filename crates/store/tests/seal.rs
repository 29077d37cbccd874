//! Seals of experiments, in a process of their own: it has one key.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::fs;
use std::path::{Path, PathBuf};

use model::experiment::plan::Plan;
use model::secret;
use store::{Author, ExperimentDir, Reason, names, read_sealed};

fn plan() -> Plan {
    Plan { format: model::FORMAT, name: "sealed".to_string(), ..Plan::default() }
}

fn with_key() {
    secret::set_key_source(|| Some([7; 32]));
}

fn author_of(path: &Path) -> Author {
    read_sealed(path).unwrap().author
}

/// Results as this user's pgdyno makes them, and their directory.
fn made(place: &Path) -> PathBuf {
    with_key();
    let path = place.join("out");
    drop(ExperimentDir::create(&path, &plan(), "x = 1\n").unwrap());
    path
}

/// Copies the files of a directory, the seal with them.
fn copied(from: &Path, to: &Path) {
    fs::create_dir(to).unwrap();
    for entry in fs::read_dir(from).unwrap().flatten().filter(|entry| entry.path().is_file()) {
        fs::copy(entry.path(), to.join(entry.file_name())).unwrap();
    }
}

#[test]
fn what_was_changed_copied_or_never_sealed_is_of_unknown_authors() {
    let place = tempfile::tempdir().unwrap();
    let out = made(place.path());
    assert_eq!(author_of(&out), Author::Ours);
    let moved = place.path().join("moved");
    fs::rename(&out, &moved).unwrap();
    assert_eq!(author_of(&moved), Author::Ours, "a move within the file system");
    let broken = Author::Unknown(Reason::Broken);
    let copy = place.path().join("copy");
    copied(&moved, &copy);
    assert_eq!(author_of(&copy), broken);
    for name in [names::PLAN, names::EXPERIMENT] {
        let kept = fs::read(moved.join(name)).unwrap();
        fs::write(moved.join(name), [&kept[..], b"\n"].concat()).unwrap();
        assert_eq!(author_of(&moved), broken, "{name}");
        fs::write(moved.join(name), kept).unwrap();
        assert_eq!(author_of(&moved), Author::Ours);
    }
    for text in ["", "{}", "{\"format\": 1, \"seal\": \"\"}"] {
        fs::write(moved.join(names::SEAL), text).unwrap();
        assert_eq!(author_of(&moved), broken, "{text}");
    }
    fs::remove_file(moved.join(names::SEAL)).unwrap();
    assert_eq!(author_of(&moved), Author::Unknown(Reason::Unsealed));
}

#[test]
fn an_amended_plan_is_sealed_again_only_if_it_was_ours() {
    let place = tempfile::tempdir().unwrap();
    let out = made(place.path());
    let amend = |text: &str| {
        let dir = ExperimentDir::open(&out).unwrap();
        dir.amend_plan(&plan(), text).unwrap();
    };
    amend("x = 2\n");
    assert_eq!(author_of(&out), Author::Ours);
    fs::write(out.join(names::EXPERIMENT), "x = 3\n").unwrap();
    amend("x = 4\n");
    assert_eq!(author_of(&out), Author::Unknown(Reason::Broken));
}

#[test]
fn what_was_made_of_plans_of_others_is_not_sealed() {
    with_key();
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join("merged");
    drop(ExperimentDir::create_unsealed(&path, &plan(), "").unwrap());
    assert_eq!(author_of(&path), Author::Unknown(Reason::Unsealed));
}
