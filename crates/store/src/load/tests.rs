//! Tests of reading back: what is intact comes back equal, and damage never stops reading the rest.

use super::lines::{LineBounds, read_lines_within};
use super::*;
use crate::sample;

fn sample_dir() -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    sample::write(dir.path());
    dir
}

fn run_file(dir: &tempfile::TempDir, run: u32, name: &str) -> PathBuf {
    dir.path().join(names::RUNS).join(names::run_dir(run)).join(name)
}

#[test]
fn what_was_written_is_read_back() {
    let dir = sample_dir();
    let data = load_experiment(dir.path()).unwrap();
    assert_eq!(data.plan, sample::plan());
    assert_eq!(data.experiment_toml, "[experiment]\nname = \"sample\"\n");
    assert_eq!(data.state, [sample::state_line(1), sample::state_line(2)]);
    assert_eq!(data.runs.len(), 2);
    for (run, number) in data.runs.iter().zip(1..) {
        assert_eq!(run.record, sample::record(number));
        assert_eq!(run.intervals, [0, 1, 2].map(sample::interval));
        assert_eq!(run.ticks, [0, 1, 2].map(sample::tick));
        assert_eq!(run.events, [0, 1, 2].map(sample::event));
        let expected: Vec<StampedHistogram> = (0..3)
            .flat_map(|t| sample::histograms().into_iter().map(move |line| StampedHistogram { t, line }))
            .collect();
        assert_eq!(run.histograms, expected);
        assert_eq!(run.damage, [""; 0]);
    }
}

/// What is read of a file of these ticks.
fn read_back(ticks: &[Tick]) -> (Vec<Tick>, Vec<String>) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join(names::READINGS);
    let lines: String = ticks.iter().map(|tick| serde_json::to_string(tick).unwrap() + "\n").collect();
    fs::write(&path, lines).unwrap();
    let mut damage = Damage::default();
    (read_ticks(&path, &mut damage), damage.found)
}

#[test]
fn a_clock_that_is_set_back_and_an_observer_that_was_away_cost_no_other_tick() {
    const SECOND_NS: u64 = 1_000_000_000;
    const HOUR_NS: u64 = 3_600 * SECOND_NS;
    let at = |end_unix_ns: u64| Tick { end_unix_ns, length_ns: SECOND_NS, ..sample::tick(0) };
    let begun = sample::tick(0).end_unix_ns + 2 * HOUR_NS;
    let before = (0..100).map(|n| at(begun + n * SECOND_NS));
    let after = (0..100).map(|n| at(begun - HOUR_NS + n * SECOND_NS));
    let ticks: Vec<Tick> = before.chain(after).collect();
    assert_eq!(read_back(&ticks), (ticks.clone(), Vec::new()));

    let away = Tick { length_ns: HOUR_NS + 1, ..at(begun) };
    assert_eq!(read_back(&[at(begun), away, at(begun)]), (vec![at(begun); 2], Vec::new()));
}

#[test]
fn an_impossible_value_costs_no_other_value_of_its_tick() {
    let good = sample::tick(0);
    let mut bad = good.clone();
    bad.values.insert("host.memory.available", -1.0);
    let (ticks, damage) = read_back(&[bad]);
    assert_eq!(ticks, [good]);
    assert!(
        damage.len() == 1 && damage[0].contains("`host.memory.available` of -1e0 is impossible"),
        "{damage:?}"
    );
}

/// Every file below `path`.
fn files_below(path: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(path).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(files_below(&path));
        } else {
            found.push(path);
        }
    }
    found
}

#[test]
fn a_file_cut_at_any_byte_costs_at_most_what_follows() {
    let dir = sample_dir();
    let mut n_cuts = 0;
    for path in files_below(dir.path()) {
        let whole = fs::read(&path).unwrap();
        let is_plan = path.ends_with(names::PLAN);
        for length in 0..whole.len() {
            fs::write(&path, &whole[..length]).unwrap();
            n_cuts += 1;
            match load_experiment(dir.path()) {
                Ok(_) if is_plan => panic!("a plan of {length} bytes was read"),
                Err(error) if !is_plan => panic!("{} cut to {length} bytes: {error}", path.display()),
                Err(_) => {}
                Ok(data) => {
                    assert_eq!(data.runs.len(), 2);
                    let n_read = |run: &RunData| [run.intervals.len(), run.ticks.len(), run.events.len()];
                    assert!(data.runs.iter().all(|run| n_read(run).iter().all(|&n| n <= 3)));
                    if path.extension().is_some_and(|e| e == "jsonl" || e == "hlog") {
                        let n_torn: usize = data.runs.iter().map(|run| run.damage.len()).sum();
                        assert!(n_torn <= 1, "one line at most is torn");
                    }
                }
            }
        }
        fs::write(&path, &whole).unwrap();
    }
    assert!(n_cuts > 4000, "{n_cuts}");
}

#[test]
fn a_file_with_any_byte_changed_never_panics() {
    let dir = sample_dir();
    for path in files_below(dir.path()) {
        let whole = fs::read(&path).unwrap();
        for at in (0..whole.len()).step_by(7) {
            let mut changed = whole.clone();
            changed[at] ^= 0x15;
            fs::write(&path, &changed).unwrap();
            let _ = load_experiment(dir.path());
        }
        fs::write(&path, &whole).unwrap();
    }
}

#[test]
fn a_torn_last_line_is_damage_only_in_a_completed_run() {
    for name in [names::INTERVALS, names::LATENCY, names::READINGS, names::EVENTS] {
        for (state, n_damaged) in [(RunState::Completed, 1), (RunState::Partial, 0), (RunState::Started, 0)] {
            let dir = sample_dir();
            let record = RunRecord { state, ..sample::record(2) };
            fs::write(run_file(&dir, 2, names::RUN), serde_json::to_vec(&record).unwrap()).unwrap();
            let path = run_file(&dir, 2, name);
            let whole = fs::read(&path).unwrap();
            fs::write(&path, &whole[..whole.len() - 2]).unwrap();
            let damage = load_experiment(dir.path()).unwrap().runs.remove(1).damage;
            assert_eq!(damage.len(), n_damaged, "{name}, {state:?}: {damage:?}");
            assert!(damage.iter().all(|text| text.starts_with(&format!("`{name}`: line "))), "{damage:?}");
        }
    }
}

#[test]
fn damage_within_a_file_is_noted_and_skipped() {
    for (name, run, expected) in [
        (names::INTERVALS, 1, "`intervals.jsonl`: line 2: "),
        (names::EVENTS, 1, "`events.jsonl`: line 2: "),
        (names::READINGS, 2, "`readings.jsonl`: line 2: "),
    ] {
        let dir = sample_dir();
        let path = run_file(&dir, run, name);
        let text = fs::read_to_string(&path).unwrap();
        let mut lines: Vec<&str> = text.lines().collect();
        lines[1] = "{ nonsense \u{fffd}";
        fs::write(&path, lines.join("\n") + "\n").unwrap();
        let data = load_experiment(dir.path()).unwrap();
        let run = &data.runs[run as usize - 1];
        assert_eq!(run.damage.len(), 1, "{:?}", run.damage);
        assert!(run.damage[0].starts_with(expected), "{:?}", run.damage);
        assert_eq!(run.intervals.len() + run.events.len() + run.ticks.len(), 8);
    }
}

#[test]
fn a_file_that_is_damaged_throughout_gets_few_notes() {
    let dir = sample_dir();
    fs::write(run_file(&dir, 1, names::LATENCY), "x\n".repeat(1000)).unwrap();
    fs::write(run_file(&dir, 1, names::EVENTS), "x\n").unwrap();
    let damage = &load_experiment(dir.path()).unwrap().runs[0].damage;
    assert_eq!(damage.len(), 7, "{damage:?}");
    assert_eq!(damage[5], "`latency.hlog`: and more damage");
}

#[test]
fn a_missing_file_is_noted() {
    for name in [names::INTERVALS, names::LATENCY_ZST, names::READINGS_ZST, names::EVENTS] {
        let dir = sample_dir();
        fs::remove_file(run_file(&dir, 1, name)).unwrap();
        let damage = &load_experiment(dir.path()).unwrap().runs[0].damage;
        assert_eq!(damage.len(), 1, "{damage:?}");
        assert!(damage[0].starts_with(&format!("`{name}`: No such file")), "{damage:?}");
    }
}

#[test]
fn a_run_without_its_record_is_known_from_the_plan() {
    let dir = sample_dir();
    fs::write(run_file(&dir, 2, names::RUN), "{").unwrap();
    let data = load_experiment(dir.path()).unwrap();
    let run = &data.runs[1];
    assert_eq!((run.record.spec.run, run.record.state), (2, RunState::Failed));
    assert!(run.record.reason.starts_with("`run.json` cannot be read: "), "{}", run.record.reason);
    assert_eq!((run.intervals.len(), run.damage.len()), (3, 1));
}

#[test]
fn a_damaged_record_is_skipped_by_those_that_can_do_without_it() {
    let dir = sample_dir();
    let record = run_file(&dir, 2, "run.json");
    fs::write(&record, "{").unwrap();
    assert_eq!(read_records(dir.path()).unwrap().len(), 1);
    let error = read_all_records(dir.path()).unwrap_err().to_string();
    assert!(error.contains("runs/0002/run.json` is damaged"), "{error}");
    fs::remove_file(&record).unwrap();
    assert_eq!(read_all_records(dir.path()).unwrap().len(), 1, "cut off before it had one");
}

#[test]
fn a_readings_file_cut_in_its_middle_gives_what_was_before() {
    let dir = tempfile::tempdir().unwrap();
    let experiment = crate::ExperimentDir::create(dir.path(), &sample::plan(), "").unwrap();
    let writer = experiment.begin_run(1).unwrap();
    writer.write_record(&sample::record(1)).unwrap();
    let mut tick = sample::tick(0);
    for t in 0..20_000_u64 {
        // Poorly compressible, so that the file has many blocks.
        tick.end_unix_ns = sample::GO_UNIX_NS + t * 1_000_000_000;
        let noise = t.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        tick.values.insert("host.cpu.user[cpu1]", (noise as f64).sqrt());
        writer.tick(&tick).unwrap();
    }
    writer.finish(&sample::record(1)).unwrap();
    let path = run_file(&dir, 1, names::READINGS_ZST);
    let whole = fs::read(&path).unwrap();
    fs::write(&path, &whole[..whole.len() / 2]).unwrap();
    let run = &load_experiment(dir.path()).unwrap().runs[0];
    assert!((5_000..15_000).contains(&run.ticks.len()), "{}", run.ticks.len());
    assert!(run.damage[0].starts_with("`readings.jsonl.zst`: ends early"), "{:?}", run.damage);
}

#[test]
fn errors_say_what_is_wrong_and_what_to_do() {
    let newer = |text: String| text.replace("\"format\": 1,", "\"format\": 99,");
    let check = |change: &dyn Fn(&tempfile::TempDir), expected: &str| {
        let dir = sample_dir();
        change(&dir);
        let error = load_experiment(dir.path()).unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
    };
    let rewrite = |path: PathBuf, change: &dyn Fn(String) -> String| {
        fs::write(&path, change(fs::read_to_string(&path).unwrap())).unwrap();
    };
    check(&|d| fs::remove_file(d.path().join(names::PLAN)).unwrap(), "it has no `plan.json`");
    check(&|d| rewrite(d.path().join(names::PLAN), &newer), "plan.json` has format 99, and this pgdyno");
    check(&|d| rewrite(run_file(d, 1, names::RUN), &newer), "run.json` has format 99, and this pgdyno");
    check(&|d| fs::write(d.path().join(names::PLAN), "{}").unwrap(), "is damaged: missing field");
    assert!(crate::ExperimentDir::open(Path::new("/nonexistent")).is_err());
    let unreadable = LoadError::Unreadable { path: "plan.json".into(), cause: io::Error::other("closed") };
    assert_eq!(unreadable.to_string(), "cannot read `plan.json`: closed");
    assert!(std::error::Error::source(&unreadable).is_none(), "its text has the cause, which comes once");
}

#[test]
fn a_directory_is_known_by_its_plan() {
    let dir = sample_dir();
    assert!(is_experiment_dir(dir.path()));
    assert!(!is_experiment_dir(&dir.path().join(names::RUNS)));
    assert!(!is_experiment_dir(Path::new("/nonexistent")));
}

#[test]
fn an_attempt_set_aside_is_not_read() {
    let dir = sample_dir();
    let experiment = crate::ExperimentDir::open(dir.path()).unwrap();
    experiment.begin_run(2).unwrap().write_record(&sample::record(2)).unwrap();
    let data = load_experiment(dir.path()).unwrap();
    assert_eq!(data.runs.iter().map(|r| r.intervals.len()).collect::<Vec<_>>(), [3, 0]);
}

#[test]
fn lines_and_files_of_lines_are_read_up_to_their_bounds() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("lines");
    let n_lines = |text: &str, line_bytes_max, file_bytes_max| {
        fs::write(&path, text).unwrap();
        let (mut damage, mut n_lines) = (Damage::default(), 0);
        let bounds = LineBounds { line_bytes_max, file_bytes_max, n_lines_max: 3 };
        read_lines_within(bounds, &path, &mut damage, &mut |_, _| {
            n_lines += 1;
            Ok(())
        });
        (n_lines, damage.found.concat())
    };
    assert_eq!(n_lines("1\n2\n3\n", 4, 6), (3, String::new()));
    assert_eq!(n_lines("1\n2345\n3\n", 4, 9), (1, "`lines`: line 2 has more than 4 bytes".to_string()));
    assert_eq!(n_lines("1\n2\n3\n4\n", 4, 8), (3, "`lines`: has more than 3 lines".to_string()));
    assert_eq!(n_lines("1\n2\n3\n", 4, 5), (2, "`lines`: has more than 5 bytes".to_string()));
}
