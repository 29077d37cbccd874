//! A run is repeated if something else used the processors during it.

use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};

use model::experiment::plan::RunState;
use nix::sys::signal::Signal;
use testbed::bin_dir;

use crate::tool::{PACE, Place, wait_until};

/// Calls `act` while all processors, on any machine, are busy: what runs on an idle one costs the load less than a single run may be off by.
fn while_processors_are_busy<T>(act: impl FnOnce() -> T) -> T {
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let n = std::thread::available_parallelism().map_or(1, |n| n.get());
        for _ in 0..n {
            scope.spawn(|| {
                while !is_over.load(Ordering::Relaxed) {
                    std::hint::spin_loop();
                }
            });
        }
        let acted = std::panic::catch_unwind(std::panic::AssertUnwindSafe(act));
        is_over.store(true, Ordering::Relaxed);
        acted.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

/// A run of three seconds that is repeated at most once.
fn repeated_once(place: &Place) -> Command {
    let bin_dir = bin_dir().display().to_string();
    let set = ["run.repeat_disturbed=1", "prepare.prewarm=false", "prepare.settle=false"];
    let args = ["run", "--bin-dir", &bin_dir, "--scale", "1", "-c", "2", "--repeats", "1", "-o", "out"];
    let lengths = ["--ramp-up", "0s", "--measure", "3s"];
    place.command(&[&args[..], &lengths, &set.map(|set| ["--set", set]).concat()].concat())
}

#[test]
fn a_disturbed_run_is_repeated_once_and_both_are_shown() {
    let place = Place::new();
    let ended = while_processors_are_busy(|| place.start(repeated_once(&place)).wait());
    let ended = ended.expect(0);
    assert!(
        ended.stderr.contains("repeating run 1 as run 2: ")
            && ended.stderr.contains(" (other processes used"),
        "{}",
        ended.stderr
    );
    assert!(ended.stderr.contains("; most by `"), "{}", ended.stderr);
    let data = place.results("out");
    let repeats: Vec<_> =
        data.runs.iter().map(|run| run.record.repeat.map(|repeat| (repeat.of, repeat.attempt))).collect();
    assert_eq!(repeats, [None, Some((1, 1))]);
    assert_eq!(data.runs[1].record.spec.seed, data.runs[0].record.spec.seed);
    let study = analysis::study(&data);
    // The threads are of this process; others may work on the machine, too.
    let own = std::fs::read_to_string(format!("/proc/{}/comm", std::process::id())).unwrap();
    let json = serde_json::to_value(&study.runs[0].resources).unwrap();
    let named = json["foreign_processes"].as_array().unwrap();
    assert!(named.iter().any(|process| process["name"] == own.trim()), "{json}");
    let page = std::fs::read_to_string(place.path("out/report.html")).unwrap();
    assert!(page.contains("; most by <code>"), "the page names them");
    assert_eq!((study.runs.len(), study.cases[0].n_runs), (2, 1));
    assert_eq!(study.runs.iter().filter(|run| run.replaced_by.is_some()).count(), 1);
    let csv = std::fs::read_to_string(place.path("out/runs.csv")).unwrap();
    assert!(csv.lines().next().unwrap().contains(",repeats,replaced_by,disturbance,"), "{csv}");
}

/// Number and attempt of the planned run that each run repeats, and how it ended.
fn attempts(place: &Place, name: &str) -> Vec<(Option<(u32, u32)>, RunState)> {
    let runs = place.results(name).runs;
    runs.iter()
        .map(|run| (run.record.repeat.map(|repeat| (repeat.of, repeat.attempt)), run.record.state))
        .collect()
}

#[test]
fn a_repeat_that_was_killed_is_made_again_on_resume() {
    let place = Place::new();
    while_processors_are_busy(|| {
        let running = place.start(repeated_once(&place));
        wait_until("the load of the repeat", || {
            let intervals = std::fs::metadata(place.path("out/runs/0002/intervals.jsonl"));
            intervals.is_ok_and(|file| file.len() > 0)
        });
        running.signal(Signal::SIGKILL);
        running.wait();
        copy(&place, "out", "early");
        let ended = place.run(&["run", "--resume", "out"]).expect(0);
        let expected = [
            "all 1 runs are done, 1 repeat that was interrupted will be made again",
            "repeating run 1 as run 2: its repeat was interrupted",
        ];
        assert!(expected.iter().all(|line| ended.stderr.contains(line)), "{}", ended.stderr);
        let again = place.run(&["run", "--resume", "out"]).expect(0);
        assert!(!again.stderr.contains("repeating run"), "a finished experiment: {}", again.stderr);

        // As if the kill had come before the repeat had begun: why to repeat is judged again.
        std::fs::remove_dir_all(place.path("early/runs/0002")).unwrap();
        let state = std::fs::read_to_string(place.path("early/state.jsonl")).unwrap();
        let kept: Vec<&str> = state.lines().filter(|line| !line.contains("\"run\":2,")).collect();
        assert_eq!(kept.len() + 1, state.lines().count(), "{state}");
        place.write("early/state.jsonl", &format!("{}\n", kept.join("\n")));
        let ended = place.run(&["run", "--resume", "early", "--allow-commands"]).expect(0);
        assert!(
            ended.stderr.contains("repeating run 1 as run 2: ")
                && ended.stderr.contains(" (other processes used"),
            "{}",
            ended.stderr
        );
    });
    let both = [(None, RunState::Completed), (Some((1, 1)), RunState::Completed)];
    assert_eq!((attempts(&place, "out"), attempts(&place, "early")), (both.to_vec(), both.to_vec()));
    assert!(place.path("out/runs/0002.cut-1/run.json").exists(), "the repeat that was killed is kept");
    place.expect_clean();
}

fn copy(place: &Place, from: &str, to: &str) {
    let copied = Command::new("cp").arg("-a").args([place.path(from), place.path(to)]).status();
    assert!(copied.unwrap().success());
}

/// What a result says about how much its runs differ, after a run of two seconds with `args`.
fn said_of_spread(place: &Place, out: &str, args: &[&str]) -> String {
    let bin_dir = bin_dir().display().to_string();
    let fixed = ["run", "--bin-dir", &bin_dir, "--scale", "1", "-c", "1", "-o", out];
    let more = ["--ramp-up", "0s", "--measure", "2s", "--set", "prepare.settle=false"];
    let set = ["--set", "run.repeat_disturbed=0", "--set", "prepare.prewarm=false"];
    place.run(&[&fixed[..], args, &more, &set].concat()).expect(0);
    let study = place.run(&["report", out, "--json"]).expect(0);
    let study: serde_json::Value = serde_json::from_str(&study.stdout).unwrap();
    let budget = study["cases"][0]["uncertainty"]["throughput"]["budget"].as_array().unwrap().clone();
    let row = budget.into_iter().find(|row| row["id"] == "runs-differ").unwrap();
    row["evidence"].as_str().unwrap().to_string()
}

#[test]
fn of_a_single_run_earlier_results_say_how_much_runs_differ() {
    let place = Place::new();
    let run = |out: &str, repeats: &str| said_of_spread(&place, out, &[PACE, "--repeats", repeats]);
    assert!(run("first", "1").contains("are assumed to be off by"));
    assert!(run("second", "3").starts_with("3 runs vary by "));
    let third = run("third", "1");
    assert!(third.contains(" in 2 earlier experiments of this workload on this machine (3 runs)"), "{third}");
}

#[test]
fn other_scripts_of_the_user_say_nothing_of_how_much_runs_differ() {
    let place = Place::new();
    place.write("a.sql", "select pg_sleep(0.001);\n");
    place.write("b.sql", "select pg_sleep(0.002);\n");
    let run = |out: &str, script: &str, repeats: &str| {
        said_of_spread(&place, out, &["-f", script, "--repeats", repeats])
    };
    run("first", "a.sql", "3");
    let other = run("second", "b.sql", "1");
    assert!(other.contains("are assumed to be off by"), "{other}");
    let same = run("third", "a.sql", "1");
    assert!(same.contains(" in 1 earlier experiment of this workload"), "{same}");
}
