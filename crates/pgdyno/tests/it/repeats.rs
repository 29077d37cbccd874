//! A run is repeated if something else used the processors during it.

use std::sync::atomic::{AtomicBool, Ordering};

use testbed::bin_dir;

use crate::tool::{PACE, Place};

#[test]
fn a_disturbed_run_is_repeated_once_and_both_are_shown() {
    let place = Place::new();
    let bin_dir = bin_dir().display().to_string();
    let set = ["run.repeat_disturbed=1", "prepare.prewarm=false", "prepare.settle=false"];
    let args = ["run", "--bin-dir", &bin_dir, "--scale", "1", "-c", "2", "--repeats", "1", PACE, "-o", "out"];
    let lengths = ["--ramp-up", "0s", "--measure", "3s"];
    let is_over = AtomicBool::new(false);
    let ended = std::thread::scope(|scope| {
        // More than the allowed 2 % of all processors, on any machine.
        let n = std::thread::available_parallelism().map_or(1, |n| n.get().div_ceil(4));
        for _ in 0..n {
            scope.spawn(|| {
                while !is_over.load(Ordering::Relaxed) {
                    std::hint::spin_loop();
                }
            });
        }
        let running = place
            .start(place.command(&[&args[..], &lengths, &set.map(|set| ["--set", set]).concat()].concat()));
        let ended = running.wait();
        is_over.store(true, Ordering::Relaxed);
        ended
    });
    let ended = ended.expect(0);
    assert!(
        ended.stderr.contains("run 1 was disturbed and is repeated as run 2: other processes used"),
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
    assert!(page.contains("; most by `"), "the page names them");
    assert_eq!((study.runs.len(), study.cases[0].n_runs), (2, 1));
    assert_eq!(study.runs.iter().filter(|run| run.replaced_by.is_some()).count(), 1);
    let csv = std::fs::read_to_string(place.path("out/runs.csv")).unwrap();
    assert!(csv.lines().next().unwrap().contains(",repeats,replaced_by,disturbance,"), "{csv}");
}
