//! Counters of processor and kernel over a real server's processes, and profiles of it.

use std::fs;

use crate::tool::{Place, expect_sound};

#[test]
fn what_the_kernel_counts_agrees_with_proc_and_what_is_missing_has_a_reason() {
    let place = Place::with_binaries(&["18"]);
    // Only the kernel's counter includes what the hypervisor took: a disturbed run says nothing, a wrong one is wrong each time.
    for attempt in 1..=3 {
        if compare_with_proc(&place, attempt) == Agreement::Found {
            break;
        }
    }
    place.expect_clean();
}

/// Whether the time that the kernel counts is that of /proc.
#[derive(PartialEq)]
enum Agreement {
    Found,
    /// There is another attempt.
    NotYet,
}

fn compare_with_proc(place: &Place, attempt: u32) -> Agreement {
    let out = format!("out{attempt}");
    let args = format!(
        "run --scale 1 -c 2 --workload tpcb-select --measure 3s --ramp-up 1s --repeats 1 -o {out} --json \
         --set run.counters=true --set run.repeat_disturbed=0"
    );
    let ended = place.run(&args.split_whitespace().collect::<Vec<_>>()).expect(0);
    let run = place.first_run(&out);
    expect_sound(&run);
    let study: serde_json::Value = serde_json::from_str(&ended.stdout).unwrap();
    let counters = &study["runs"][0]["counters"];
    let missing = &run.record.telemetry_unavailable;
    if let Some((_, reason)) = missing.iter().find(|(what, _)| what.contains("counters.task_clock")) {
        eprintln!("skipped: the kernel refuses to count: {reason}");
        return Agreement::Found;
    }
    let event = |name: &str| {
        let events = counters["events"].as_array().unwrap();
        let event = events.iter().find(|event| event["name"] == name);
        event.unwrap_or_else(|| panic!("{name}: {counters}"))["total"].as_f64().unwrap()
    };
    // Another clock counts the same processes, in steps of 10 ms, and with interrupts that hit them.
    let used = &study["runs"][0]["resources"]["server_cpu"].as_f64().unwrap();
    let measured_s = study["runs"][0]["measured_s"].as_f64().unwrap();
    let ratio = event("task_clock") / (used * measured_s);
    if attempt < 3 && !(0.7..1.3).contains(&ratio) {
        return Agreement::NotYet;
    }
    assert!((0.7..1.3).contains(&ratio), "{ratio}: {counters}");
    let committed = study["runs"][0]["counts"]["committed"].as_f64().unwrap();
    assert!(event("context_switches") > 0.5 * committed, "each transaction waits for its client: {counters}");
    let has_pmu = counters["ipc"].as_f64();
    if let Some(ipc) = has_pmu {
        assert!((0.01..20.0).contains(&ipc), "{ipc}");
    } else {
        let (_, reason) = missing.iter().find(|(what, _)| what.contains("counters.cycles")).unwrap();
        assert!(reason.contains("PMU") || reason.contains("perf_event_paranoid"), "{reason}");
    }
    let csv = fs::read_to_string(place.path(&format!("{out}/runs.csv"))).unwrap();
    assert!(csv.lines().next().unwrap().contains("task_clock_s_per_transaction"), "{csv}");
    let page = fs::read_to_string(place.path(&format!("{out}/report.html"))).unwrap();
    assert_eq!(page.matches("Not counted (instructions").count(), usize::from(has_pmu.is_none()));
    Agreement::Found
}

#[test]
fn a_profile_of_a_real_server_is_drawn_and_does_not_count() {
    let place = Place::with_binaries(&["18"]);
    let args = "run --scale 1 -c 2 --workload tpcb-select --measure 3s --ramp-up 1s --repeats 1 -o out --perf \
                --set run.repeat_disturbed=0 --set prepare.settle=false";
    let ended = place.run(&args.split_whitespace().collect::<Vec<_>>()).expect(0);
    let data = place.results("out");
    assert_eq!((data.plan.runs.len(), data.runs.len()), (1, 1), "the extra run is none of the results");
    expect_sound(&data.runs[0]);
    let [profile] = &data.profiles[..] else { panic!("{:?}", data.profiles.len()) };
    let page = fs::read_to_string(place.path("out/report.html")).unwrap();
    let record = &profile.record;
    if !record.reason.is_empty() {
        assert!(page.contains("No profile of"), "the reason is said");
        assert!(ended.stderr.contains("no profile of"), "{}", ended.stderr);
        eprintln!("skipped: {}", record.reason);
        return;
    }
    assert!(record.n_samples > 50, "{record:?}");
    assert_eq!(record.n_samples, profile.stacks.iter().map(|stack| stack.n).sum::<u64>());
    let has = |name: &str| profile.stacks.iter().any(|stack| stack.frames.iter().any(|frame| frame == name));
    assert!(has("PostgresMain") && has("PortalRun"), "callers are known: {:?}", &profile.stacks[..3]);
    assert!(record.n_without_symbol * 2 < record.n_samples, "{record:?}");
    assert!(record.tps.is_some_and(|tps| tps > 0.0), "{record:?}");
    let written = fs::read_to_string(place.path("out/profiles/0001/stacks.folded")).unwrap();
    assert_eq!(written.lines().count(), profile.stacks.len());
    assert!(!place.path("out/profiles/0001/perf.data").exists(), "the recording is removed");
    assert!(page.contains("<svg class=\"flame\"") && page.contains("<title>PostgresMain: "), "no graph");
    // A resumed experiment with everything there makes no further run.
    let resumed = place.run(&["run", "--resume", "out"]).expect(0);
    assert!(!resumed.stderr.contains("an extra run"), "{}", resumed.stderr);
    place.expect_clean();
}

#[test]
fn both_sides_of_a_duet_are_profiled_alone_after_its_rounds() {
    let place = Place::with_binaries(&["18"]);
    let args = "compare --duet --perf --scale 1 -c 2 --workload tpcb-select --a workload.protocol=simple \
                --b workload.protocol=prepared --rounds 1 --measure 4s --ramp-up 1s --slice 250 --guard 20 -o out";
    let ended = place.run(&args.split_whitespace().collect::<Vec<_>>()).expect(0);
    let data = place.results("out");
    assert_eq!(data.runs.len(), 2, "the extra runs are none of the results");
    assert_eq!(data.profiles.iter().map(|profile| profile.record.case).collect::<Vec<_>>(), [1, 2]);
    let page = fs::read_to_string(place.path("out/report.html")).unwrap();
    let record = &data.profiles[0].record;
    if !record.reason.is_empty() {
        assert_eq!(page.matches("No profile of").count(), 1, "one reason for both");
        eprintln!("skipped: {}", record.reason);
        return;
    }
    for profile in &data.profiles {
        assert!(profile.record.n_samples > 50, "{:?}", profile.record);
        assert!(profile.record.tps.is_some_and(|tps| tps > 0.0), "{:?}", profile.record);
    }
    assert!(ended.stderr.contains("which does not count, for a profile"), "{}", ended.stderr);
    // The prepared side parses nothing: the difference has both graphs.
    assert!(page.contains("aria-label=\"Difference from "), "no difference graph");
    assert_eq!(page.matches("<svg class=\"flame\"").count(), 4);
    // Nothing else of the comparison knows of the extra runs.
    let duet = store::read_duet(&place.path("out")).unwrap().unwrap();
    assert_eq!(duet.rounds.len(), 1);
    place.expect_clean();
}
