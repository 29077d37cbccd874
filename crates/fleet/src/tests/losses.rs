//! Drivers that are killed before, during and after the load, and a clock that is set meanwhile.

use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use anyhow::Result;
use model::experiment::driver::DriverSpec;
use model::load::drive::{Done, Ending};

use super::stand_in::{error, greeted, speaker, spec, write};
use super::{HASTY, READY, WINDOW, done, is_alive, wait_ready};
use crate::conduct::conduct_with;

/// A driver that is well until `go`, and goes on as `then` says if its directory has a file `victim` with its name.
fn well_or(then: &str) -> String {
    format!(
        "read -r order; if mkdir \"${{0%/*}}/victim\" 2>/dev/null; then {then} fi; \
         echo '{READY}'; read -r go; echo '{}'; cat >/dev/null",
        done("completed")
    )
}

fn two(own: &Path) -> [DriverSpec; 2] {
    ["a", "b"].map(|name| spec(name, &["sh", "-c"].map(str::to_string), own))
}

/// The load of two drivers, one of which does something else, and their processes.
fn conducted(own: &Path) -> (Result<Done>, Vec<u32>) {
    let mut fleet = greeted(&two(own), own).unwrap();
    let pids = fleet.pids_here();
    let result = wait_ready(&mut fleet)
        .and_then(|_| conduct_with(&mut fleet, 7, WINDOW, &mut |_| Ok(()), &AtomicBool::new(false), HASTY));
    (result, pids)
}

#[test]
fn a_driver_that_is_killed_is_named_in_each_phase_and_the_other_one_ends() {
    let dir = testbed::place();
    let killed = write(dir.path(), "killed", "#!/bin/sh\nread -r greeting; kill -9 $$\n");
    let error = error(&[spec("a", &["sh", "-c"].map(str::to_string), &killed)], &killed);
    assert!(
        error.contains("driver `a`") && error.contains("signal: 9 (SIGKILL)) before pgdyno answered"),
        "{error}"
    );

    let done = done("completed");
    for (phase, then) in [
        ("connect", "kill -9 $$;".to_string()),
        ("before go", format!("echo '{READY}'; kill -9 $$;")),
        ("measure", format!("echo '{READY}'; read -r go; kill -9 $$;")),
    ] {
        let (result, pids) = conducted(&place_for(dir.path(), phase, &then));
        let error = format!("{:#}", result.unwrap_err());
        assert!(
            error.contains("was killed (signal: 9 (SIGKILL)); was memory exhausted?"),
            "{phase}: {error}"
        );
        assert!(error.starts_with("driver `a`") || error.starts_with("driver `b`"), "{phase}: {error}");
        expect_ended(phase, &pids);
    }
    // It has reported all that counts.
    let then = format!("echo '{READY}'; read -r go; echo '{done}'; kill -9 $$;");
    let (result, pids) = conducted(&place_for(dir.path(), "afterwards", &then));
    assert_eq!(result.unwrap().ending, Ending::Completed);
    expect_ended("afterwards", &pids);
}

#[test]
fn a_driver_that_left_out_lines_of_its_report_ends_the_run() {
    let dir = testbed::place();
    let lossy = done("completed").replace(r#""messages""#, r#""lines_dropped":3,"messages""#);
    let then = format!("echo '{READY}'; read -r go; echo '{lossy}'; cat >/dev/null;");
    let (result, _) = conducted(&place_for(dir.path(), "lossy", &then));
    let error = format!("{:#}", result.unwrap_err());
    assert!(error.contains("left out 3 lines of its report"), "{error}");
}

/// A program in a directory of its own.
fn place_for(dir: &Path, phase: &str, then: &str) -> PathBuf {
    let dir = dir.join(phase.replace(' ', "-"));
    std::fs::create_dir(&dir).unwrap();
    speaker(&dir, "own", &well_or(then))
}

fn expect_ended(phase: &str, pids: &[u32]) {
    assert_eq!(pids.len(), 2);
    let begun = Instant::now();
    while pids.iter().any(|pid| is_alive(*pid)) {
        assert!(begun.elapsed() < Duration::from_secs(5), "{phase}: one of {pids:?} is still running");
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn a_clock_that_nobody_keeps_is_recorded_and_one_that_is_set_during_the_load_is_found() {
    let dir = testbed::place();
    // It takes the time of our pings for its own, and ends after it has answered one during the load.
    let then = format!(
        "ahead=0; done=; while read -r line; do case $line in \
           *'\"load\"'*) echo '{READY}' ;; \
           *'\"go\"'*) ahead=3000000000; done='{}' ;; \
           *'\"ping\"'*) id=${{line##*:}}; id=${{id%%\\}}*}}; \
             echo \"{{\\\"pong\\\":{{\\\"id\\\":$id,\\\"unix_ns\\\":$id,\\\"wall_unix_ns\\\":$((id + ahead))}}}}\"; \
             [ -z \"$done\" ] || echo \"$done\"; done= ;; \
         esac; done",
        done("completed")
    );
    let own = speaker(dir.path(), "own", &then);
    let text = std::fs::read_to_string(&own).unwrap();
    let own = write(dir.path(), "own", &text.replace("$(cat /proc/sys/kernel/random/boot_id)", "another"));
    let far = spec("far", &["sh", "-c"].map(str::to_string), &own);
    let mut fleet = greeted(std::slice::from_ref(&far), &own).unwrap();
    wait_ready(&mut fleet).unwrap();
    conduct_with(&mut fleet, 7, WINDOW, &mut |_| Ok(()), &AtomicBool::new(false), HASTY).unwrap();
    let [record] = &fleet.records()[..] else { panic!("{:?}", fleet.records()) };
    assert!(!record.is_here && !record.hello.clock.is_synchronised, "{record:?}");
    assert_eq!(record.clock_set_ns, 3_000_000_000);
    let clock = record.clock_before.unwrap();
    assert!(clock.offset_ns.unsigned_abs() <= clock.bound_ns && clock.n_pings > 10, "{clock:?}");
}
