//! Which signals end a run, and how soon.

use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::time::Duration;

use nix::sys::signal::Signal;
use testbed::Pg;

use crate::tool::{PACE, Place, wait_until};

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

/// After the first Ctrl-C a command of the user is due, which takes its time.
#[test]
fn a_second_ctrl_c_ends_at_once_if_it_comes_a_second_later() {
    let (place, pg) = (Place::new(), Pg::shared());
    let script = place.write("one.sql", "select 1;\n").display().to_string();
    let text = "[experiment]\nname = \"due\"\n[hooks]\nafter_case = [\"sleep\", \"40\"]\n";
    let file = place.write("due.toml", text).display().to_string();
    let server = pg.admin_target(&pg.database());
    let fixed =
        ["run", file.as_str(), "--server", &server, "-f", &script, "--set", "workload.data=none", PACE];
    let more = "-c 1 --ramp-up 0s --measure 30s --repeats 1 --set prepare.settle=false -o out";
    let args: Vec<&str> = fixed.into_iter().chain(more.split_whitespace()).collect();
    let running = place.start(place.command(&args));
    place.wait_for_load("out", 1);
    running.signal(Signal::SIGINT);
    // Neither a key that is held down nor any other signal is a second decision.
    for signal in [Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP, Signal::SIGQUIT] {
        wait_until("the signal to be taken", || !running.has_pending_signals());
        running.signal(signal);
    }
    std::thread::sleep(Duration::from_millis(1500));
    assert!(running.is_alive());
    running.signal(Signal::SIGTERM);
    wait_until("the signal to be taken", || !running.has_pending_signals());
    assert!(running.is_alive());
    running.signal(Signal::SIGINT);
    let ended = running.wait();
    assert_eq!(ended.status.signal(), Some(Signal::SIGINT as i32), "{ended:?}");
    let words = "\npgdyno: ended at once; `pgdyno clean` says what is left behind\n";
    assert!(ended.stderr.contains(words), "{}", ended.stderr);
    place.expect_clean();
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
