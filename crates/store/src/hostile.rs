//! Tests with directories that another user has prepared: nothing outside them is read or written, and nothing blocks.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown, symlink};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::channel;
use std::thread;
use std::time::Duration;

use model::run::ExperimentData;
use nix::unistd::{Uid, setfsuid};

use crate::create::make_ours;
use crate::{ExperimentDir, list, load_experiment, names, read_comparison, read_duet, sample, writer_of};

/// Far more than reading needs on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// The directory of an experiment inside a directory with other files.
struct Results {
    outer: tempfile::TempDir,
    dir: PathBuf,
}

impl Results {
    fn new() -> Results {
        let outer = tempfile::tempdir().unwrap();
        let dir = outer.path().join("experiment");
        sample::write(&dir);
        Results { outer, dir }
    }

    /// Every file of an experiment and of its first run.
    fn files(&self) -> Vec<PathBuf> {
        let run = self.dir.join(names::RUNS).join(names::run_dir(1));
        let of_run = [names::RUN, names::INTERVALS, names::LATENCY_ZST, names::READINGS_ZST, names::EVENTS];
        let of_all =
            [names::PLAN, names::EXPERIMENT, names::STATE, names::COMPARISON, names::DUET, names::LOCK];
        of_all.map(|name| self.dir.join(name)).into_iter().chain(of_run.map(|name| run.join(name))).collect()
    }
}

/// Reads everything, or fails the test if reading blocks.
fn read_all(dir: &Path) -> Result<ExperimentData, String> {
    let (dir, (answer, answered)) = (dir.to_path_buf(), channel());
    thread::spawn(move || {
        writer_of(&dir);
        list(&dir).ok();
        let others = [read_comparison(&dir).map(drop), read_duet(&dir).map(drop)];
        let others = others.into_iter().collect::<Result<(), _>>();
        answer.send(others.and_then(|()| load_experiment(&dir)).map_err(|error| error.to_string())).ok();
    });
    answered.recv_timeout(PATIENCE).expect("reading does not end")
}

/// Whether the result mentions `word`: in an error, a damage note, or a text.
fn says(found: &Result<ExperimentData, String>, word: &str) -> bool {
    match found {
        Err(error) => error.contains(word),
        Ok(data) => data.runs.iter().any(|run| run.damage.iter().any(|note| note.contains(word))),
    }
}

#[test]
fn a_link_in_place_of_a_file_is_not_read() {
    for n in 0..Results::new().files().len() {
        let results = Results::new();
        let path = results.files().remove(n);
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        let secret = results.outer.path().join("secret");
        // The same bytes elsewhere: if the link were followed, nothing would be wrong.
        fs::rename(&path, &secret).or_else(|_| fs::write(&secret, "{}")).unwrap();
        symlink(&secret, &path).unwrap();
        let found = read_all(&results.dir);
        match name.as_str() {
            names::EXPERIMENT => assert_eq!(found.unwrap().experiment_toml, ""),
            names::STATE => assert!(found.unwrap().state.is_empty()),
            names::LOCK => assert!(found.is_ok()),
            _ => assert!(says(&found, "symbolic link"), "{name}: {found:?}"),
        }
    }
}

#[test]
fn a_pipe_in_place_of_a_file_does_not_block() {
    for n in 0..Results::new().files().len() {
        let results = Results::new();
        let path = &results.files()[n];
        fs::remove_file(path).ok();
        nix::unistd::mkfifo(path, nix::sys::stat::Mode::S_IRWXU).unwrap();
        let found = read_all(&results.dir);
        let is_quiet = [names::EXPERIMENT, names::STATE, names::LOCK].iter().any(|name| path.ends_with(name));
        assert!(is_quiet == found.is_ok() || says(&found, "regular file"), "{}: {found:?}", path.display());
    }
}

#[test]
fn a_link_in_place_of_a_runs_directory_is_not_entered() {
    for name in [names::RUNS, "runs/0001"] {
        let results = Results::new();
        let elsewhere = results.outer.path().join("elsewhere");
        fs::rename(results.dir.join(name), &elsewhere).unwrap();
        symlink(&elsewhere, results.dir.join(name)).unwrap();
        match read_all(&results.dir) {
            Ok(data) => assert_eq!(data.runs.len(), 1, "{name}"),
            Err(error) => assert!(error.contains("symbolic link"), "{name}: {error}"),
        }
    }
}

#[test]
fn a_lock_file_that_names_another_file_is_not_written() {
    type Plant = fn(&Path, &Path);
    let plants: [Plant; 2] =
        [|victim, lock| symlink(victim, lock).unwrap(), |victim, lock| fs::hard_link(victim, lock).unwrap()];
    for plant in plants {
        let results = Results::new();
        let victim = results.outer.path().join("victim");
        fs::write(&victim, "mine").unwrap();
        plant(&victim, &results.dir.join(names::LOCK));
        let refused = format!("{:#}", ExperimentDir::open(&results.dir).unwrap_err());
        assert!(refused.contains("link"), "{refused}");
        let new = results.outer.path().join("new");
        fs::create_dir(&new).unwrap();
        plant(&victim, &new.join(names::LOCK));
        assert!(ExperimentDir::create(&new, &sample::plan(), "").is_err());
        assert_eq!(fs::read(&victim).unwrap(), b"mine");
    }
}

#[test]
fn the_target_of_a_link_is_not_written() {
    let results = Results::new();
    let victim = results.outer.path().join("victim");
    fs::write(&victim, "mine").unwrap();
    fs::remove_file(results.dir.join(names::STATE)).unwrap();
    symlink(&victim, results.dir.join(names::STATE)).unwrap();
    let refused = format!("{:#}", ExperimentDir::open(&results.dir).unwrap_err());
    assert!(refused.contains("symbolic link"), "{refused}");
    for name in ["report.html", "report.html.tmp"] {
        symlink(&victim, results.dir.join(name)).unwrap();
        crate::write_report(&results.dir.join("report.html"), b"page").unwrap();
    }
    assert_eq!(fs::read(&victim).unwrap(), b"mine");
}

#[test]
fn root_writes_no_results_where_others_can_replace_them() {
    if !nix::unistd::geteuid().is_root() {
        return;
    }
    let results = Results::new();
    let refused = |path: &Path, is_new: bool| {
        let opened =
            if is_new { ExperimentDir::create(path, &sample::plan(), "") } else { ExperimentDir::open(path) };
        let words = format!("{:#}", opened.expect_err("it was written"));
        assert!(words.contains("root does not write results to"), "{words}");
        words
    };
    let set = |path: &Path, mode| fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    set(&results.dir, 0o777);
    assert!(refused(&results.dir, false).contains("every user"));
    set(&results.dir, 0o755);
    drop(ExperimentDir::open(&results.dir).unwrap());
    chown(&results.dir, Some(65_534), None).unwrap();
    assert!(refused(&results.dir, false).contains("user `nobody`"));
    assert!(refused(&results.dir.join("new/one"), true).contains("user `nobody`"));
    assert!(!results.dir.join("new").exists());
}

#[test]
fn a_directory_that_somebody_makes_a_moment_earlier_is_not_used() {
    if !nix::unistd::geteuid().is_root() {
        return;
    }
    let outer = tempfile::tempdir().unwrap();
    fs::set_permissions(outer.path(), fs::Permissions::from_mode(0o1777)).unwrap();
    let dir = outer.path().join("results");
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            // Of this thread alone.
            setfsuid(Uid::from_raw(65_534));
            while !is_over.load(Ordering::Relaxed) {
                fs::create_dir(&dir).ok();
            }
        });
        let mut stolen = 0;
        for _ in 0..200 {
            if make_ours(&dir).is_ok() && fs::metadata(&dir).unwrap().uid() != 0 {
                stolen += 1;
            }
            fs::remove_dir(&dir).ok();
        }
        is_over.store(true, Ordering::Relaxed);
        assert_eq!(stolen, 0);
    });
}

#[test]
fn root_writes_no_report_where_others_can_replace_it() {
    if !nix::unistd::geteuid().is_root() {
        return;
    }
    let results = Results::new();
    let report = results.dir.join("report.html");
    let set = |path: &Path, mode| fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    set(&results.dir, 0o755);
    crate::write_report(&report, b"page").unwrap();
    // As in /tmp, where nobody else can replace our entries.
    set(&results.dir, 0o1777);
    crate::write_report(&report, b"page").unwrap();
    fs::remove_file(&report).unwrap();
    set(&results.dir, 0o777);
    assert!(crate::write_report(&report, b"page").is_err());
    set(&results.dir, 0o755);
    chown(&results.dir, Some(65_534), None).unwrap();
    let words = format!("{:#}", crate::write_report(&report, b"page").unwrap_err());
    assert!(words.contains("root does not write results to") && words.contains("user `nobody`"), "{words}");
    assert!(!report.exists());
}

#[test]
fn numbers_that_no_run_can_have_are_damage_and_add_up_to_nothing() {
    let results = Results::new();
    let path = results.dir.join("runs/0001").join(names::INTERVALS);
    let text = fs::read_to_string(&path).unwrap();
    let whole = load_experiment(&results.dir).unwrap().runs[0].intervals.clone();
    let first = text.lines().next().unwrap();
    let interval: serde_json::Value = serde_json::from_str(first).unwrap();
    let numbers = ["/counts/due", "/counts/late", "/length_ns", "/start_unix_ns", "/latency/n"];
    for pointer in numbers {
        for number in [u64::MAX, 1 << 63] {
            let mut changed = interval.clone();
            *changed.pointer_mut(pointer).unwrap() = number.into();
            fs::write(&path, text.replacen(first, &changed.to_string(), 1)).unwrap();
            let found = read_all(&results.dir);
            assert!(says(&found, "is more than"), "{pointer} {number}: {found:?}");
            assert_eq!(found.unwrap().runs[0].intervals, whole[1..], "{pointer}");
        }
    }
    let more = [("/errors", "40001"), ("/facts", "rolled_back")];
    for (pointer, name) in more {
        let mut changed = interval.clone();
        changed[&pointer[1..]] = serde_json::json!({ name: u64::MAX });
        fs::write(&path, text.replacen(first, &changed.to_string(), 1)).unwrap();
        assert!(says(&read_all(&results.dir), "is more than"), "{pointer}");
    }
}

#[test]
fn probes_and_slices_that_no_load_has_are_damage() {
    let results = Results::new();
    let path = results.dir.join("runs/0001").join(names::RUN);
    let text = fs::read_to_string(&path).unwrap();
    let write = |from_t: u32, to_t: u32, rate_per_s: f64| {
        let mut record: serde_json::Value = serde_json::from_str(&text).unwrap();
        let probe = serde_json::json!({ "rate_per_s": rate_per_s, "from_t": from_t, "to_t": to_t });
        record["search"] = serde_json::json!({
            "target": "p99 <= 10ms", "ceiling_per_s": 100.0, "probe_s": 2, "probes": [probe]
        });
        fs::write(&path, record.to_string()).unwrap();
        read_all(&results.dir)
    };
    // The load of the sample ends with its third second.
    assert!(write(1, 3, 50.0).unwrap().runs[0].damage.is_empty());
    for (from_t, to_t, rate_per_s) in [(0, u32::MAX, 50.0), (3, 1, 50.0), (2, 2, 50.0), (1, 3, -1.0)] {
        let found = write(from_t, to_t, rate_per_s);
        assert!(says(&found, "impossible in a load of 3 s"), "{from_t} {to_t} {rate_per_s}: {found:?}");
    }
    let slicing = serde_json::json!({ "slice_ms": 100, "guard_ms": 100 });
    let duet = serde_json::json!({ "format": model::FORMAT, "slicing": slicing, "pairs": [] });
    fs::write(results.dir.join(names::DUET), duet.to_string()).unwrap();
    let found = read_all(&results.dir);
    assert!(found.as_ref().is_err_and(|error| error.contains("not longer than its guard")), "{found:?}");
}
