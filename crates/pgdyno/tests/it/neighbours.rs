//! Files that root has open or writes, and other users of the machine: the server's user, and owners of directories of
//! results.

use std::fs;
use std::os::unix::fs::chown;
use std::path::Path;
use std::time::Duration;

use nix::fcntl::{FcntlArg, FdFlag, fcntl};
use nix::sys::signal::Signal;
use nix::sys::stat::Mode;
use nix::unistd::{geteuid, mkfifo};
use testbed::{Pg, bin_dir};

use crate::tool::{PACE, Place, Running};

/// A user that is neither root nor the server's.
const STRANGER: u32 = 54_321;

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
fn files_that_the_caller_has_open_are_not_inherited_by_the_server() {
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

#[test]
fn root_reads_results_of_another_user_and_writes_nothing_there() {
    if !geteuid().is_root() {
        return;
    }
    let place = Place::new();
    let server = Pg::shared();
    let target = server.admin_target(&server.database());
    place.write("own.sql", "SELECT 1;\n");
    let run = "run -f own.sql -c 1 --measure 2s --ramp-up 0s --repeats 1 --set prepare.settle=false -o out --server";
    place.run(&run.split_whitespace().chain([target.as_str(), PACE]).collect::<Vec<_>>()).expect(0);
    fs::remove_file(place.path("out/report.html")).unwrap();
    chown(place.path("out"), Some(STRANGER), None).unwrap();

    let report = place.run(&["report", "out"]).expect(1);
    assert!(report.stdout.contains("median tps"), "{report:?}");
    assert!(report.stderr.contains("root does not write results to"), "{report:?}");
    let compared = place.run(&["compare", "out", "out", "--report", "out/compared.html"]).expect(1);
    assert!(compared.stderr.contains("root does not write results to"), "{compared:?}");
    let files = ["report.html", "compared.html"].map(|name| place.path("out").join(name).exists());
    assert_eq!(files, [false, false]);

    // No file of an experiment is read before its owner is known.
    let experiment = place.path("out/experiment.toml");
    fs::remove_file(&experiment).unwrap();
    mkfifo(&experiment, Mode::S_IRWXU).unwrap();
    let resumed = place.start(place.command(&["run", "--resume", "out"]));
    let resumed = resumed.wait_for_end(Duration::from_secs(60)).expect(1);
    assert!(resumed.stderr.contains("root does not write results to"), "{resumed:?}");
}
