//! Drivers that are killed before, during and after the load, that do other things than the rest, and clocks that are set
//! meanwhile.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::Result;
use model::experiment::driver::DriverSpec;
use model::load::Window;
use model::load::drive::{Done, DriverLine, LoadEnding};
use model::run::driver::DriverRecord;

use super::stand_in::{error, greeted, speaker, spec, write};
use super::{HASTY, READY, TICK, WINDOW, done, is_alive, wait_ready};
use crate::Fleet;
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
    assert_eq!(result.unwrap().ending, LoadEnding::Completed);
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
fn a_driver_that_confirms_another_window_than_the_others_ends_the_run() {
    let dir = testbed::place();
    let window = |ramp_up_s: u32| {
        let window = Window { ramp_up_s, ..WINDOW };
        format!("echo '{}'; ", serde_json::to_string(&DriverLine::Window(window)).unwrap())
    };
    // Each is reached by two orders, of which one may have come too late.
    for (name, of_one, of_other, is_one) in [
        ("both", window(15) + &window(16), window(15) + &window(16), true),
        ("last", window(15) + &window(16), window(16), true),
        ("different", window(15), window(16), false),
        ("none", window(15), String::new(), false),
    ] {
        let place = dir.path().join(name);
        std::fs::create_dir(&place).unwrap();
        let then = format!(
            "read -r order; echo '{READY}'; read -r go; \
             if mkdir \"${{0%/*}}/one\" 2>/dev/null; then :; {of_one} else :; {of_other} fi; \
             echo '{}'; cat >/dev/null",
            done("completed")
        );
        let own = speaker(&place, "own", &then);
        let mut fleet = greeted(&two(&own), &own).unwrap();
        wait_ready(&mut fleet).unwrap();
        let mut last = None;
        let mut on_line = |line: &DriverLine| {
            if let DriverLine::Window(window) = line {
                last = Some(window.ramp_up_s);
            }
            Ok(())
        };
        let result = conduct_with(&mut fleet, 7, WINDOW, &mut on_line, &AtomicBool::new(false), HASTY);
        let error = result.map_or_else(|error| format!("{error:#}"), |_| String::new());
        assert_eq!((last, error.is_empty()), (is_one.then_some(16), is_one), "{name}: {error}");
        assert!(error.is_empty() || error.contains("have measured different windows"), "{name}: {error}");
    }
}

#[test]
fn a_driver_ends_with_its_load_although_others_could_still_send_it_orders() {
    let dir = testbed::place();
    let own = speaker(dir.path(), "own", &well_or(":;"));
    let mut fleet = greeted(&two(&own), &own).unwrap();
    wait_ready(&mut fleet).unwrap();
    let orders = fleet.orders();
    conduct_with(&mut fleet, 7, WINDOW, &mut |_| Ok(()), &AtomicBool::new(false), HASTY).unwrap();
    let statuses = fleet.drivers.iter_mut().map(|driver| driver.process.exit_status().unwrap().code());
    assert_eq!(statuses.collect::<Vec<_>>(), [Some(0), Some(0)], "they were killed");
    orders.rate(1.0).unwrap();
}

#[test]
fn drivers_that_are_not_needed_hear_the_end_of_their_input_before_they_are_killed() {
    let dir = testbed::place();
    let own = speaker(dir.path(), "own", "cat >/dev/null; : >\"${0%/*}/heard\"");
    let stubborn = write(dir.path(), "stubborn", "#!/bin/sh\nexec sleep 100\n");
    let heard = dir.path().join("heard");
    drop(greeted(&two(&own)[..1], &own).unwrap());
    assert!(heard.exists());
    std::fs::remove_file(&heard).unwrap();
    // One that nobody answers for does not keep the others.
    let specs = [two(&own)[0].clone(), spec("b", &["sh", "-c"].map(str::to_string), &stubborn)];
    let begun = Instant::now();
    let stop = AtomicBool::new(false);
    let error = std::thread::scope(|scope| {
        scope.spawn(|| {
            std::thread::sleep(Duration::from_secs(1));
            stop.store(true, Ordering::Relaxed);
        });
        let accept = |_: &[&DriverRecord]| Ok(());
        Fleet::try_to_greet(&specs, None, &own, &accept, &stop).unwrap_err().to_string()
    });
    assert_eq!(error, "stopped before the load began");
    assert!(heard.exists() && begun.elapsed() < Duration::from_secs(10), "{:?}", begun.elapsed());
}

/// A driver with another boot id. It takes the time of our pings for its own, `$ahead` nanoseconds earlier than its wall clock,
/// and does `at_go` and, at each ping, `at_ping` besides.
fn far(dir: &Path, name: &str, at_go: &str, at_ping: &str) -> PathBuf {
    let then = format!(
        "here=${{0%/*}}; ahead=0; done=; while read -r line; do case $line in \
           *'\"load\"'*) echo '{READY}' ;; \
           *'\"go\"'*) {at_go} ;; \
           *'\"ping\"'*) id=${{line##*:}}; id=${{id%%\\}}*}}; \
             echo \"{{\\\"pong\\\":{{\\\"id\\\":$id,\\\"unix_ns\\\":$id,\\\"wall_unix_ns\\\":$((id + ahead))}}}}\"; \
             {at_ping} ;; \
         esac; done"
    );
    let own = speaker(dir, name, &then);
    let text = std::fs::read_to_string(&own).unwrap();
    write(dir, name, &text.replace("$(cat /proc/sys/kernel/random/boot_id)", "another"))
}

#[test]
fn a_clock_that_nobody_keeps_is_recorded_and_one_that_is_set_during_the_load_is_found() {
    let dir = testbed::place();
    // It ends after it has answered a ping during the load.
    let at_go = format!("ahead=3000000000; done='{}'", done("completed"));
    let own = far(dir.path(), "own", &at_go, "[ -z \"$done\" ] || echo \"$done\"; done=");
    let spec = spec("far", &["sh", "-c"].map(str::to_string), &own);
    let mut fleet = greeted(std::slice::from_ref(&spec), &own).unwrap();
    wait_ready(&mut fleet).unwrap();
    conduct_with(&mut fleet, 7, WINDOW, &mut |_| Ok(()), &AtomicBool::new(false), HASTY).unwrap();
    let [record] = &fleet.records()[..] else { panic!("{:?}", fleet.records()) };
    assert!(!record.is_here && !record.hello.clock.is_synchronised, "{record:?}");
    assert_eq!(record.clock_set_ns, 3_000_000_000);
    let clock = record.clock_before.unwrap();
    assert!(clock.offset_ns.unsigned_abs() <= clock.bound_ns && clock.n_pings > 10, "{clock:?}");
}

#[test]
fn drivers_that_have_ended_are_pinged_until_all_have_and_then_compared_each_for_itself() {
    let dir = testbed::place();
    // One ends at once, and the other one when the first has been pinged after its end; a third one breaks.
    let done = done("completed");
    let at_go = format!(
        "mkdir \"$here/broken\" 2>/dev/null && {{ echo '{done}'; echo nonsense; exec cat >/dev/null; }}; \
         mkdir \"$here/first\" 2>/dev/null && {{ echo '{done}'; done=1; continue; }}; \
         while [ ! -e \"$here/pinged\" ]; do echo '{TICK}'; sleep 0.1; done; echo '{done}'"
    );
    let own = far(dir.path(), "own", &at_go, "[ -z \"$done\" ] || : >\"$here/pinged\"");
    let via = ["sh", "-c"].map(str::to_string);
    let specs = ["a", "b", "c"].map(|name| spec(name, &via, &own));
    let mut fleet = greeted(&specs, &own).unwrap();
    wait_ready(&mut fleet).unwrap();
    fleet.drivers.iter_mut().for_each(|driver| driver.record.as_mut().unwrap().clock_after = None);
    conduct_with(&mut fleet, 7, WINDOW, &mut |_| Ok(()), &AtomicBool::new(false), HASTY).unwrap();
    let records = fleet.records();
    assert!(records.iter().all(|record| record.clock_before.is_some()), "{records:?}");
    let compared = records.iter().filter(|record| record.clock_after.is_some_and(|clock| clock.n_pings > 10));
    assert_eq!(compared.count(), 2, "{records:?}");
    assert_eq!(records.iter().filter(|record| record.clock_after.is_none()).count(), 1, "{records:?}");
}

#[test]
fn drivers_that_wait_for_their_beginning_are_pinged_and_one_that_dies_is_noticed() {
    let dir = testbed::place();
    let own = far(dir.path(), "own", "", "[ ! -e \"$here/armed\" ] || exit 3");
    let spec = spec("far", &["sh", "-c"].map(str::to_string), &own);
    let mut fleet = greeted(std::slice::from_ref(&spec), &own).unwrap();
    wait_ready(&mut fleet).unwrap();
    std::fs::write(dir.path().join("armed"), "").unwrap();
    let begun = Instant::now();
    let error = loop {
        if let Err(error) = fleet.keep_waiting() {
            break error.to_string();
        }
        assert!(begun.elapsed() < Duration::from_secs(10), "nobody pings it");
        std::thread::sleep(Duration::from_millis(100));
    };
    assert!(error.contains("driver `far` ended before the load did (exit status: 3)"), "{error}");
}

#[test]
fn a_process_id_of_a_container_is_not_taken_for_one_of_this_machine() {
    let dir = testbed::place();
    let own = speaker(dir.path(), "own", "cat >/dev/null");
    let in_container =
        std::fs::read_to_string(&own).unwrap().replace("$(readlink /proc/self/ns/pid)", "pid:[1]");
    let specs = two(&own);
    let fleet = greeted(&specs, &own).unwrap();
    assert_eq!(fleet.pids_here().len(), 2);
    write(dir.path(), "own", &in_container);
    let fleet = greeted(&specs, &own).unwrap();
    assert!(fleet.records().iter().all(|record| record.is_here) && fleet.pids_here().is_empty());
}
