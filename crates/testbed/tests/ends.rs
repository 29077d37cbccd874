//! A test's server leaves nothing behind, however the test ends.

#![allow(clippy::unwrap_used, reason = "helpers of tests may panic as tests do")]

use std::os::unix::process::CommandExt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;
use testbed::{ClusterOptions, TestServer, place};

/// Tells the test below, in a process of its own, where to write its server's process id.
const PID_FILE: &str = "TESTBED_PID_FILE";

#[test]
fn a_server_starts_answers_and_is_gone_afterwards() {
    let server = TestServer::start(&ClusterOptions::default());
    let (dir, pid) = (server.dir().to_path_buf(), server.pid());
    assert_eq!(server.ask("postgres", "select current_user"), "postgres");
    server.stop(Signal::SIGINT);
    server.start_again();
    assert_ne!(server.pid(), pid);
    assert!(server.log().contains("database system is ready"), "{}", server.log());
    let pids = server.pids();
    drop(server);
    assert_eq!((dir.exists(), pids.into_iter().any(is_alive)), (false, false));
}

#[test]
fn a_server_of_a_test_that_panics_ends() {
    let mut pids = Vec::new();
    let failed = catch_unwind(AssertUnwindSafe(|| {
        let server = TestServer::start(&ClusterOptions::default());
        pids = server.pids();
        // A stopped process takes no other signal.
        server.signal_all(Signal::SIGSTOP);
        panic!("as a test that fails");
    }));
    assert!(failed.is_err() && pids.len() > 1, "{pids:?}");
    assert!(!pids.into_iter().any(is_alive));
}

#[test]
fn a_server_of_tests_that_are_killed_ends() {
    let dir = place();
    let file = dir.path().join("pid");
    let mut tests = Command::new(std::env::current_exe().unwrap())
        .args(["--ignored", "--exact", "waits_to_be_killed"])
        .env(PID_FILE, &file)
        .process_group(0)
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let words = || std::fs::read_to_string(&file).unwrap_or_default();
    wait_until("the server's start", || words().ends_with('\n'));
    let text = words();
    let (pid, server_dir) = text.trim().split_once(' ').unwrap();
    let pid = pid.parse().unwrap();
    assert!(is_alive(pid));
    // SIGKILL: no destructor runs.
    tests.kill().unwrap();
    tests.wait().unwrap();
    wait_until("the server's end", || !is_alive(pid));
    // The directory around it is that of this server alone.
    std::fs::remove_dir_all(PathBuf::from(server_dir).parent().unwrap()).unwrap();
    std::fs::remove_dir_all(template_of(tests.id())).unwrap();
}

/// What the killed program copied its cluster from.
fn template_of(pid: u32) -> PathBuf {
    let own = std::env::var("PGDYNO_TEST_MEMORY").ok();
    let places = own.into_iter().chain(["/dev/shm", "/tmp"].map(str::to_string));
    let places = places.filter_map(|place| std::fs::read_dir(place).ok());
    let mut dirs = places.flatten().flatten().map(|entry| entry.path());
    let marker = format!("template-of-{pid}");
    let is_meant = |dir: &PathBuf| {
        let within = std::fs::read_dir(dir).into_iter().flatten().flatten();
        within.map(|entry| entry.path()).any(|path| path.join(&marker).exists())
    };
    dirs.find(is_meant).unwrap()
}

#[test]
#[ignore = "the test above starts it in a process of its own, and kills that"]
fn waits_to_be_killed() {
    let Some(file) = std::env::var_os(PID_FILE) else { return };
    // The thread that starts the server ends before the server does.
    let server = std::thread::spawn(|| TestServer::start(&ClusterOptions::default())).join().unwrap();
    assert_eq!(server.ask("postgres", "select 1"), "1");
    std::fs::write(file, format!("{} {}\n", server.pid(), server.dir().display())).unwrap();
    std::thread::sleep(Duration::from_secs(60));
}

fn is_alive(pid: i32) -> bool {
    // A process that has ended may still be listed until its parent takes notice.
    let status = std::fs::read_to_string(Path::new("/proc").join(pid.to_string()).join("stat"));
    status.is_ok_and(|text| !text.contains(") Z "))
}

fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    let began = Instant::now();
    while !is_so() {
        assert!(began.elapsed() < Duration::from_secs(60), "waited in vain for {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}
