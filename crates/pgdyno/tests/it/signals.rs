//! Which signals end a run, and how soon.

use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::time::Duration;

use nix::sys::signal::Signal;

use crate::tool::Place;

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
    running.signal(Signal::SIGTERM);
    let ended = running.wait();
    // The kernel may hand them to two threads at once; whichever is then the second ends the process.
    let ends = [Signal::SIGINT as i32, Signal::SIGTERM as i32];
    assert!(ended.status.signal().is_some_and(|signal| ends.contains(&signal)), "{ended:?}");
}
