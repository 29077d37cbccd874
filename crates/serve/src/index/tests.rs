//! Results as they are listed, searched and addressed.

use analysis::finding::Grade;
use model::experiment::case::{Case, ServerSource, ServerSpec, WorkloadKind, WorkloadSpec};
use model::experiment::plan::{Plan, RunSpec, RunState, StateLine};
use model::load::Window;
use store::ExperimentDir;

use super::*;

fn make(root: &Path, name: &str, made_unix_ns: u64) -> PathBuf {
    let window = Window { ramp_up_s: 1, measure_s: 2, grace_s: 1 };
    let server = ServerSpec::new(ServerSource::Version("15".parse().unwrap()));
    let plan = Plan {
        format: model::FORMAT,
        name: "sample".to_string(),
        title: "Does <b>it</b> help?".to_string(),
        made_unix_ns,
        cases: vec![Case::new(server, WorkloadSpec::new(WorkloadKind::Tpcb, 1), window)],
        // As in a merged study, whose first origin had repeats.
        runs: vec![RunSpec { run: 3, block: 1, case: 1, seed: 1 }],
        ..Plan::default()
    };
    let path = root.join(name);
    let dir = ExperimentDir::create(&path, &plan, "").unwrap();
    let line = |run, state| StateLine { t_unix_ns: 1, run, state, reason: String::new() };
    dir.append_state(&line(3, RunState::Completed)).unwrap();
    dir.append_state(&line(0, RunState::Completed)).unwrap();
    path
}

#[test]
fn results_are_listed_newest_first_with_their_facts_and_read_again_only_when_they_change() {
    let root = tempfile::tempdir().unwrap();
    let (old, new) = (make(root.path(), "old", 1), make(root.path(), "new", 2));
    std::fs::write(
        new.join(facts::ANSWER),
        "{\"headline\": \"8 clients: 5 tps\", \"verdict\": \"valid\", \"limiter\": \"wal-sync\", \"machine\": \"db1\"}",
    )
    .unwrap();
    let mut index = Index::new(root.path());
    let listed = index.refresh().unwrap();
    assert_eq!(listed.entries.iter().map(|entry| entry.name.as_str()).collect::<Vec<_>>(), ["new", "old"]);
    let first = &listed.entries[0];
    assert_eq!((first.version.as_str(), first.workload.as_str()), ("PostgreSQL 15", "tpcb"));
    assert_eq!(
        (first.grade, first.limiter.as_str(), first.machine.as_str()),
        (Some(Grade::Valid), "wal-sync", "db1")
    );
    assert_eq!((first.n_completed, first.n_planned, first.state), (1, 1, ""));
    assert_eq!(listed.entries[1].grade, None);
    std::fs::write(old.join(store::names::PLAN), "{").unwrap();
    std::fs::create_dir(root.path().join("other")).unwrap();
    let listed = index.refresh().unwrap();
    assert_eq!(listed.entries.len(), 1);
    assert!(listed.damaged[0].starts_with("old: plan.json"), "{:?}", listed.damaged);
}

#[test]
fn nothing_outside_of_the_root_has_a_name() {
    let root = tempfile::tempdir().unwrap();
    make(root.path(), "outside", 1);
    let inner = root.path().join("inner");
    std::fs::create_dir(&inner).unwrap();
    make(&inner, "a b", 1);
    // What a command unpacks for the time being is no result of this place.
    make(&inner, ".unpacked-1", 1);
    std::os::unix::fs::symlink(root.path().join("outside"), inner.join("link")).unwrap();
    let mut index = Index::new(&inner);
    assert_eq!(index.refresh().unwrap().entries.len(), 1);
    assert_eq!(index.dir("a b"), Some(inner.join("a b")));
    for name in ["", ".", "..", "../outside", "link", "a b/../a b", "none", "/", ".unpacked-1"] {
        assert_eq!(index.dir(name), None, "{name}");
    }
    // Neither the directory of all runs nor that of one may be elsewhere.
    let runs = inner.join("a b").join(store::names::RUNS);
    let machine = || facts::read(&inner.join("a b"), "a b").unwrap().machine;
    let run = runs.join(store::names::run_dir(1));
    std::fs::create_dir_all(&run).unwrap();
    std::fs::write(run.join(store::names::RUN), "{\"host\": {\"hostname\": \"db1\"}}").unwrap();
    assert_eq!(machine(), "db1");
    for (moved, linked) in [("one", &run), ("elsewhere", &runs)] {
        let moved = root.path().join(moved);
        std::fs::rename(linked, &moved).unwrap();
        std::os::unix::fs::symlink(&moved, linked).unwrap();
        assert_eq!(machine(), "", "{}", linked.display());
        std::fs::remove_file(linked).unwrap();
        std::fs::rename(&moved, linked).unwrap();
    }
    let one = Index::new(&inner.join("a b"));
    assert_eq!(one.dir("a b"), Some(inner.join("a b")));
    assert_eq!(one.dir("runs"), None);
}

#[test]
fn words_and_values_are_searched_together() {
    let entry = ListedResult {
        name: "2026-versions".to_string(),
        experiment: "versions".to_string(),
        version: "PostgreSQL 15, PostgreSQL 18".to_string(),
        workload: "tpcc".to_string(),
        grade: Some(Grade::Doubtful),
        headline: "Version 18 is faster".to_string(),
        ..ListedResult::default()
    };
    for (query, expected) in [
        (&[][..], true),
        (&[("q", "FASTER 2026")], true),
        (&[("q", "faster slower")], false),
        (&[("version", "PostgreSQL 15"), ("verdict", "doubtful")], true),
        (&[("version", "PostgreSQL 1")], false),
        (&[("workload", "tpcb")], false),
        (&[("workload", "")], true),
        (&[("verdict", "running")], false),
    ] {
        let pairs: Vec<(String, String)> =
            query.iter().map(|(k, v)| (k.to_string(), v.to_string())).collect();
        assert_eq!(is_wanted(&entry, &wanted(&pairs)), expected, "{query:?}");
    }
    let choices = choices(&[entry]);
    let of = |name: &str| choices.iter().find(|choice| choice.name == name).unwrap().values.clone();
    assert_eq!(of("version"), ["PostgreSQL 15", "PostgreSQL 18"]);
    assert!(of("machine").is_empty());
}
