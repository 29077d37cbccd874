//! Which signals end a run, and how soon.

use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::time::Duration;

use nix::sys::signal::Signal;

use crate::tool::{Place, wait_until};

const LOAD: [&str; 5] = ["init", "--scale", "200", "--workload", "tpcb"];

#[test]
fn with_nohup_a_hang_up_changes_nothing() {
    let place = Place::with_binaries(&["18"]);
    let program = [env!("CARGO_BIN_EXE_pgdyno")];
    let running = place.start(place.command_of(Path::new("nohup"), &[program.as_slice(), &LOAD].concat()));
    running.wait_for("loading scale 200");
    running.signal(Signal::SIGHUP);
    std::thread::sleep(Duration::from_secs(2));
    assert!(!running.descendants().is_empty(), "its server runs on");
    running.signal(Signal::SIGTERM);
    let ended = running.wait();
    assert!(ended.stderr.contains("stopped while loading"), "{}", ended.stderr);
    place.expect_clean();
}

#[test]
fn a_second_signal_of_another_kind_ends_at_once() {
    let place = Place::with_binaries(&["18"]);
    let running = place.start(place.command(&LOAD));
    running.wait_for("loading scale 200");
    running.signal(Signal::SIGINT);
    // The kernel may deliver either of two pending signals first.
    wait_until("the first signal to be taken", || !running.has_pending_signals());
    running.signal(Signal::SIGTERM);
    let ended = running.wait();
    assert_eq!(ended.status.signal(), Some(Signal::SIGTERM as i32), "{ended:?}");
    let words = "\npgdyno: ended at once; `pgdyno clean` says what is left behind\n";
    assert!(ended.stderr.contains(words), "{}", ended.stderr);
}

#[test]
fn what_waits_in_a_container_reaps_and_ends_at_a_signal() {
    let place = Place::new();
    let program = env!("CARGO_BIN_EXE_pgdyno");
    // The shell's child outlives the shell's program: it becomes the child of what waits.
    let script = format!("sleep 0.3 & exec {program} wait");
    let running = place.start(place.command_of(Path::new("/bin/sh"), &["-c", &script]));
    let is_program = || {
        std::fs::read_link(format!("/proc/{}/exe", running.pid())).is_ok_and(|exe| exe.ends_with("pgdyno"))
    };
    wait_until("the shell to become it", is_program);
    wait_until("its child to be reaped", || running.descendants().is_empty());
    // Signals are blocked before anything is reaped.
    assert!(running.is_alive());
    running.signal(Signal::SIGTERM);
    running.wait().expect(0);
}
