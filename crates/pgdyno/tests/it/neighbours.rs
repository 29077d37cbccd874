//! What the server's user, and whoever else is on the machine, gets of what root has open.

use std::fs;
use std::path::Path;

use nix::fcntl::{FcntlArg, FdFlag, fcntl};
use nix::sys::signal::Signal;

use crate::pg::bin_dir;
use crate::tool::{Place, Running};

/// The files that processes of PostgreSQL below `running` have open.
fn files_of_server(running: &Running) -> Vec<String> {
    let is_server = |pid: &i32| {
        fs::read_link(format!("/proc/{pid}/exe")).is_ok_and(|program| program.ends_with("postgres"))
    };
    let open = |pid: i32| fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
    let name = |path: &Path| Some(fs::read_link(path).ok()?.to_string_lossy().into_owned());
    let servers = running.descendants().into_iter().filter(is_server);
    servers.flat_map(open).filter_map(|entry| name(&entry.path())).collect()
}

#[test]
fn what_the_caller_has_open_is_not_the_servers() {
    let place = Place::new();
    let secret = fs::File::open(place.write("open-by-the-caller", "for the caller")).unwrap();
    // As a shell does with `exec 7<file`.
    fcntl(&secret, FcntlArg::F_SETFD(FdFlag::empty())).unwrap();
    let bin_dir = bin_dir().display().to_string();
    let args = ["run", "-s", "1", "-c", "1", "--measure", "60s", "--bin-dir", &bin_dir, "-o", "out"];
    let running = place.start(place.command(&args));
    drop(secret);
    place.wait_for_load("out", 1);
    let files = files_of_server(&running);
    running.signal(Signal::SIGINT);
    running.wait();
    assert!(files.iter().any(|name| name.ends_with("server.log")), "{files:?}");
    assert!(!files.iter().any(|name| name.ends_with("open-by-the-caller")), "{files:?}");
    place.expect_clean();
}
