//! Values of the operating system: refused, set, verified, and restored, even after a kill. These tests change the
//! machine for some seconds, so they need root and run one after the other.
//!
//! Every pgdyno restores at its start what a killed one has left in the machine's journal. So that the pgdynos of other
//! tests leave the values of these alone, each of these has a journal of its own, mounted over the machine's.

use std::collections::BTreeMap;
use std::fs;
use std::io::Write;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use model::run::phase::Phase;
use nix::sys::signal::{Signal, kill};
use nix::unistd::{Pid, geteuid};

use crate::tool::{Ended, PACE, Place, tell, wait_until};

pub(crate) const SWAPPINESS: &str = "/proc/sys/vm/swappiness";
const HUGE_PAGES: &str = "/proc/sys/vm/nr_hugepages";
/// How many huge pages the kernel lends beyond those that are reserved.
const OVERCOMMIT: &str = "/proc/sys/vm/nr_overcommit_hugepages";
const MACHINES_JOURNAL: &str = "/run/pgdyno";
const UNSHARE: &str = "/usr/bin/unshare";

const RUN: &str = "run --bin-dir /usr/lib/postgresql/15/bin -c 2 --ramp-up 0s --scale 1 --repeats 1 \
                   --set server.settings.shared_buffers=64MB --set prepare.settle=false";

pub(crate) fn value(path: &str) -> String {
    fs::read_to_string(path).unwrap().trim().to_string()
}

fn args<'a>(more: &[&'a str]) -> Vec<&'a str> {
    let mut args: Vec<&str> = RUN.split_whitespace().chain([PACE]).collect();
    args.extend(more);
    args
}

/// The right to set values, one test at a time. Also a test that fails leaves them as they were.
pub(crate) struct Values {
    before: [(&'static str, String); 3],
    _one_test: MutexGuard<'static, ()>,
}

impl Drop for Values {
    fn drop(&mut self) {
        for (path, value) in &self.before {
            fs::write(path, value).ok();
        }
    }
}

/// `None` where values cannot be set at all, as in a container that has its kernel's files closed.
pub(crate) fn may_set() -> Option<Values> {
    static ONE_TEST: Mutex<()> = Mutex::new(());
    let has_mounts =
        || Command::new(UNSHARE).args(["--mount", "true"]).output().is_ok_and(|o| o.status.success());
    if !geteuid().is_root() || fs::OpenOptions::new().write(true).open(HUGE_PAGES).is_err() || !has_mounts() {
        tell("skipped: values of the kernel can be written by root alone, and not in every container");
        return None;
    }
    let one_test = ONE_TEST.lock().unwrap_or_else(PoisonError::into_inner);
    Some(Values {
        before: [SWAPPINESS, HUGE_PAGES, OVERCOMMIT].map(|path| (path, value(path))),
        _one_test: one_test,
    })
}

/// pgdyno with its journal in `place`, after the shell's command `before` in its mount namespace.
fn command_after(before: &str, place: &Place, args: &[&str]) -> Command {
    let journal = journal(place);
    for dir in [&journal, Path::new(MACHINES_JOURNAL)] {
        fs::create_dir_all(dir).unwrap();
    }
    let journal = journal.display();
    let script = format!("mount --bind {journal} {MACHINES_JOURNAL} && {before} && exec \"$0\" \"$@\"");
    let pgdyno = place.command(args);
    let mut command = place.command_of(Path::new(UNSHARE), &["--mount", "sh", "-c", &script]);
    command.arg(pgdyno.get_program()).args(pgdyno.get_args());
    command
}

fn journal(place: &Place) -> PathBuf {
    place.path("journal")
}

fn command(place: &Place, args: &[&str]) -> Command {
    command_after("true", place, args)
}

#[test]
fn the_plan_refuses_what_this_machine_does_not_have() {
    let place = Place::new();
    let mut plan = args(&["--set", "os.io_scheduler=[\"none\",\"cfq9\"]", "--set", "os.swappiness=[10,300]"]);
    plan[0] = "plan";
    let refused = place.run(&plan).expect(1);
    assert!(refused.stderr.contains("os.swappiness = 300: 300 is not in 0..200"), "{}", refused.stderr);
    assert!(refused.stderr.contains("os.io_scheduler = cfq9: "), "{}", refused.stderr);
    let size = ["--set", "os.huge_pages=on", "--set", "server.settings.huge_page_size=3MB"];
    let mut plan = args(&size);
    plan[0] = "plan";
    let refused = place.run(&plan).expect(1);
    let said = "server.settings.huge_page_size = 3MB: this kernel has ";
    assert!(refused.stderr.contains(said), "{}", refused.stderr);
    let nodes = fs::read_to_string("/sys/devices/system/node/online").unwrap_or_else(|_| "0".to_string());
    if nodes.trim() == "0" {
        let mut plan = args(&["--set", "os.numa=[\"local\",\"remote\"]"]);
        plan[0] = "plan";
        let refused = place.run(&plan).expect(1);
        assert!(
            refused.stderr.contains("os.numa = remote: this machine has one NUMA node"),
            "{}",
            refused.stderr
        );
    }
    let away = ["plan", "--server", "host=db.invalid dbname=x", "--scale", "1", "--set", "os.swappiness=10"];
    place.run(&away).expect(1);
    place.expect_clean();
}

/// A kill of the first process of a process namespace would end what restores the values, too.
#[test]
fn in_a_container_no_value_of_the_machine_is_set() {
    let Some(_values) = may_set() else { return };
    let (place, before) = (Place::new(), value(SWAPPINESS));
    let inside = |args: &[&str]| {
        let pgdyno = place.command(args);
        let mut command = place.command_of(Path::new(UNSHARE), &["--pid", "--fork", "--mount-proc"]);
        command.arg(pgdyno.get_program()).args(pgdyno.get_args());
        place.start(command).wait()
    };
    let refused = inside(&args(&["--set", "os.swappiness=13", "--measure", "2s"])).expect(1).stderr;
    let said = "os.swappiness = 13: pgdyno runs in a container (a process namespace of its own)";
    assert!(refused.contains(said) && refused.contains("run it outside of the container"), "{refused}");
    assert_eq!(value(SWAPPINESS), before);
    // What concerns nobody but its own server is set.
    let mut plan = args(&["--set", "os.processors=1"]);
    plan[0] = "plan";
    inside(&plan).expect(0);
    place.expect_clean();
}

/// One node is enough to see who is bound to it.
#[test]
fn data_that_is_loaded_for_want_of_a_snapshot_is_loaded_on_the_node_of_its_run() {
    let place = Place::new();
    // The policy of each mapping of the process that loads: `bind:0`, or `default`.
    let maps = "drop table if exists policies;\ncreate table policies as select \
                pg_catalog.pg_read_file(\'/proc/self/numa_maps\', 0, 4000000) as of_the_loader;\n";
    place.write("load.sql", maps);
    let expect = "select 1 / (of_the_loader like \'% bind:0 %\')::int from policies;\n";
    let script = place.write("expect.sql", expect);
    let (script, bin_dir) = (script.display().to_string(), testbed::bin_dir().display().to_string());
    let run = |options: &[&str]| {
        let args = ["run", "--bin-dir", &bin_dir, "-f", &script, "-c", "1", "--measure", "2s", PACE];
        // It reads a file of the server's machine.
        let set = [
            "--allow-archive-as-superuser",
            "--set",
            "workload.data={files=[\"load.sql\"]}",
            "--set",
            "prepare.snapshot=false",
        ];
        let placed = ["--set", "os.numa=[\"node0\"]", "--set", "prepare.settle=false", "--ramp-up", "0s"];
        place.run(&[&args[..], &set, &placed, options].concat()).expect(0)
    };
    let cached = |out: &str, n: usize| -> String {
        let run = &place.results(out).runs[n];
        assert_eq!(run.record.done.as_ref().unwrap().counts.failed, 0, "it was loaded elsewhere");
        run.record.phase(Phase::Restore).unwrap().detail["cached"].clone()
    };
    run(&["--repeats", "2", "-o", "out"]);
    for n in 0..2 {
        assert!(cached("out", n).ends_with("memory on node 0"), "{}", cached("out", n));
    }
    run(&["--no-restore", "--repeats", "1", "-o", "kept"]);
    assert_eq!(cached("kept", 0), "where it was before: not placed");
    place.expect_clean();
}

/// A server whose huge pages are none of the reserved ones: the kernel lends them.
fn with_lent_pages() -> testbed::TestServer {
    let lends = value(OVERCOMMIT);
    fs::write(OVERCOMMIT, (lends.parse::<u64>().unwrap() + 64).to_string()).unwrap();
    let settings = &["huge_pages=try", "shared_buffers=32MB"];
    let server = testbed::TestServer::start(&testbed::ClusterOptions {
        settings,
        ..testbed::ClusterOptions::default()
    });
    // The servers of other tests are to take none.
    fs::write(OVERCOMMIT, lends).unwrap();
    server
}

/// A number of /proc/meminfo.
fn of_memory(name: &str) -> u64 {
    let text = fs::read_to_string("/proc/meminfo").unwrap();
    let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':')).unwrap();
    line.split_whitespace().next().unwrap().parse().unwrap()
}

#[test]
fn huge_pages_are_reserved_for_the_run_that_asks_for_them_and_released() {
    let Some(_values) = may_set() else { return };
    let other = with_lent_pages();
    if of_memory("HugePages_Surp") == 0 {
        tell("no other server has pages that the kernel lends: they are not tested");
    }
    let before = (value(SWAPPINESS), value(HUGE_PAGES));
    let place = Place::new();
    let set = ["--set", "os.huge_pages=[\"off\",\"on\"]", "--set", "os.swappiness=[7]"];
    let run = args(&[&set[..], &["--measure", "2s", "-o", "out"]].concat());
    let ran = place.start(command(&place, &run)).wait().expect(0);
    assert!(!ran.stderr.contains("not put back"), "{}", ran.stderr);
    assert_eq!((value(SWAPPINESS), value(HUGE_PAGES)), before);
    let data = store::load_experiment(&place.path("out")).unwrap();
    assert_eq!(data.plan.factors, ["os.huge_pages"]);
    for run in &data.runs {
        let (record, wanted) = (&run.record, &run.record.case.os["huge_pages"]);
        let host: &BTreeMap<String, String> = &record.host.as_ref().unwrap().facts;
        assert_eq!(host["swappiness"], "7");
        let pages: u64 = host["huge_pages_total"].parse().unwrap();
        let setting = record.server.as_ref().unwrap().setting("huge_pages").unwrap();
        assert_eq!(setting, wanted);
        assert!(wanted == "off" || pages > before.1.parse().unwrap(), "{pages}");
        let restore = &record.phase(Phase::Restore).unwrap().detail;
        assert!(restore["huge_pages"].starts_with(wanted), "{restore:?}");
        assert_eq!(restore[SWAPPINESS], format!("7 (was {})", before.0));
    }
    if of_memory("HugePages_Surp") > 0 {
        let said = "more huge pages, which the kernel frees when these end: postgres (process ";
        assert!(ran.stderr.contains(said), "{}", ran.stderr);
    }
    drop(other);
    place.expect_clean();
}

#[test]
fn a_killed_pgdyno_leaves_neither_values_nor_processes() {
    let Some(_values) = may_set() else { return };
    let before = value(SWAPPINESS);
    let place = Place::new();
    let run = args(&["--set", "os.swappiness=7", "--measure", "30s", "-o", "killed"]);
    let killed = place.start(command(&place, &run));
    place.wait_for_load("killed", 1);
    // What a terminal or a service manager sends leaves the watchdog there.
    let watchdogs = place.pids_of("undo");
    assert_eq!(watchdogs.len(), 1);
    for signal in [Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP] {
        kill(Pid::from_raw(watchdogs[0]), signal).unwrap();
    }
    assert_eq!(value(SWAPPINESS), "7");
    killed.signal(Signal::SIGKILL);
    let begun = Instant::now();
    wait_until("the end of all processes", || place.processes().is_empty());
    assert_eq!(value(SWAPPINESS), before);
    assert!(begun.elapsed() < Duration::from_secs(10), "{:?}", begun.elapsed());
    assert!(!journal(&place).join("os-undo.jsonl").exists());
    killed.wait();
    clean(&place).expect(0);
    let again = clean(&place).expect(0).stderr;
    assert!(again.starts_with("nothing was left behind"), "{again}");
    place.expect_clean();
}

#[test]
fn what_roots_pgdyno_has_set_and_puts_back_is_no_failure_of_another_users_clean() {
    let Some(_values) = may_set() else { return };
    let place = Place::new();
    let run = args(&["--set", "os.swappiness=7", "--measure", "30s", "-o", "out"]);
    let running = place.start(command(&place, &run));
    place.wait_for_load("out", 1);
    // A user who can reach no directory of root's.
    let (program, home) = (place.path("lib/pgdyno"), place.path("stranger"));
    fs::create_dir(place.path("lib")).unwrap();
    fs::copy(place.command(&[]).get_program(), &program).unwrap();
    fs::create_dir(&home).unwrap();
    std::os::unix::fs::chown(&home, Some(54321), Some(54321)).unwrap();
    let clean = || {
        let script = format!(
            "mount --bind {} {MACHINES_JOURNAL} && cd {home} && exec setpriv --reuid 54321 --regid 54321 --clear-groups {} clean",
            journal(&place).display(),
            program.display(),
            home = home.display()
        );
        let mut command = place.command_of(Path::new(UNSHARE), &["--mount", "sh", "-c", &script]);
        for name in ["PGDYNO_CACHE", "HOME", "TMPDIR"] {
            command.env(name, &home);
        }
        place.start(command).wait()
    };
    let said = clean().expect(0).stderr;
    let expected =
        format!("root's pgdyno (process {}) runs, and puts back what it has set when it ends", running.pid());
    assert!(said.contains(&expected) && !said.contains("not put back"), "{said}");
    // Nobody is there who will.
    place.pids_of("undo").iter().for_each(|pid| kill(Pid::from_raw(*pid), Signal::SIGKILL).unwrap());
    running.signal(Signal::SIGKILL);
    running.wait();
    let said = clean().expect(1).stderr;
    assert!(said.contains("`pgdyno clean` run by root restores them"), "{said}");
    self::clean(&place).expect(0);
    place.expect_clean();
}

/// Directories of control groups that pgdyno made. Tests next to this one make their own.
fn groups() -> Vec<PathBuf> {
    let of_tests = ["!", "-name", "pgdyno-test-*"];
    let found =
        Command::new("find").args(["/sys/fs/cgroup", "-name", "pgdyno-*"]).args(of_tests).output().unwrap();
    String::from_utf8(found.stdout).unwrap().lines().map(PathBuf::from).collect()
}

#[test]
fn a_killed_pgdyno_leaves_no_control_group() {
    let Some(_values) = may_set() else { return };
    let place = Place::new();
    let run = args(&["--set", "os.cpu_quota=0.5", "--measure", "30s", "-o", "killed"]);
    let mut plan = run.clone();
    plan[0] = "plan";
    if place.run(&plan).stderr.contains("os.cpu_quota = 0.5: no control group") {
        tell("skipped: no control group of this machine limits processors");
        return;
    }
    let others = groups();
    let killed = place.start(command(&place, &run));
    place.wait_for_load("killed", 1);
    let ours: Vec<PathBuf> = groups().into_iter().filter(|group| !others.contains(group)).collect();
    assert_eq!(ours.len(), 1, "{ours:?}");
    let inside = fs::read_to_string(ours[0].join("cgroup.procs")).unwrap();
    let inside: Vec<&str> = inside.lines().collect();
    // Postmaster, its helpers and a backend for each client; neither pgdyno nor its driver.
    assert!(inside.len() >= 5, "{inside:?}");
    for pid in inside {
        let name = fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
        assert!(name.is_empty() || name.starts_with("postgres"), "{name}");
    }
    killed.signal(Signal::SIGKILL);
    wait_until("the end of all processes", || place.processes().is_empty());
    assert!(!ours[0].exists());
    assert!(!journal(&place).join("os-undo.jsonl").exists());
    killed.wait();
    clean(&place).expect(0);
    place.expect_clean();
}

fn clean(place: &Place) -> Ended {
    place.start(command(place, &["clean"])).wait()
}

/// `pgdyno clean` where the kernel refuses a value: its file is mounted read-only, for this process only.
fn clean_where_swappiness_is_read_only(place: &Place) -> Ended {
    let mounts = format!("mount --bind {SWAPPINESS} {SWAPPINESS} && mount -o remount,bind,ro {SWAPPINESS}");
    place.start(command_after(&mounts, place, &["clean"])).wait()
}

#[test]
fn a_value_that_cannot_be_restored_is_kept_and_reported_until_it_is() {
    let Some(_values) = may_set() else { return };
    let before = value(SWAPPINESS);
    let place = Place::new();
    let run = args(&["--set", "os.swappiness=7", "--measure", "30s", "-o", "killed"]);
    let killed = place.start(command(&place, &run));
    place.wait_for_load("killed", 1);
    // With its watchdog, so that nobody restores the value.
    place.pids_of("undo").iter().for_each(|pid| kill(Pid::from_raw(*pid), Signal::SIGKILL).unwrap());
    killed.signal(Signal::SIGKILL);
    let pid = killed.pid();
    killed.wait();
    // A watchdog whose pgdyno has ended in order has nothing to do.
    let mut watchdog = command(&place, &["undo"]);
    let mut watchdog = watchdog.stdin(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
    watchdog.stdin.take().unwrap().write_all(b"done\n").unwrap();
    assert!(watchdog.wait().unwrap().success());
    for _ in 0..2 {
        let refused = clean_where_swappiness_is_read_only(&place).expect(1);
        assert!(refused.stderr.contains("Read-only file system"), "{}", refused.stderr);
        assert!(refused.stderr.contains(&format!("it was {before}; ")), "{}", refused.stderr);
        assert_eq!(value(SWAPPINESS), "7");
    }
    let cleaned = clean(&place).expect(0);
    let expected = format!("put back `{SWAPPINESS}` to {before}, left by pgdyno run (process {pid}, user ");
    assert!(cleaned.stderr.contains(&expected), "{}", cleaned.stderr);
    assert_eq!(value(SWAPPINESS), before);
    assert!(!journal(&place).join("os-undo.jsonl").exists());
    clean(&place).expect(0);
    place.expect_clean();
}

#[test]
fn a_panic_restores_values_and_ends_every_process() {
    let Some(_values) = may_set() else { return };
    let before = value(SWAPPINESS);
    let place = Place::new();
    let run = args(&["--set", "os.swappiness=7", "--measure", "4s", "-o", "out"]);
    let mut panics = command(&place, &run);
    panics.env("PGDYNO_TEST_PANIC", "ramp_up");
    let ended = place.start(panics).wait();
    assert_eq!(ended.status.signal(), Some(Signal::SIGABRT as i32), "{}", ended.stderr);
    assert!(!ended.status.core_dumped());
    assert!(ended.stderr.contains("PGDYNO_TEST_PANIC asks for it"), "{}", ended.stderr);
    assert!(ended.stderr.contains(&format!("put back `{SWAPPINESS}` to {before}")), "{}", ended.stderr);
    assert_eq!(value(SWAPPINESS), before);
    assert!(!journal(&place).join("os-undo.jsonl").exists());
    wait_until("the end of its server", || {
        clean(&place);
        fs::read_dir(place.path("tmp")).unwrap().next().is_none()
    });
    place.expect_clean();
    // What was measured until then is kept, and the experiment can be resumed.
    place.start(command(&place, &["run", "--resume", "out"])).wait().expect(0);
}

/// Something that cleans up may have removed the file of the lock: then the lock is free.
#[test]
fn values_of_a_pgdyno_that_lives_are_left_alone_though_its_lock_is_gone() {
    let Some(_values) = may_set() else { return };
    let before = value(SWAPPINESS);
    let place = Place::new();
    let more = ["--set", "os.swappiness=7", "--measure", "30s", "-o", "out"];
    let running = place.start(command(&place, &args(&more)));
    place.wait_for_load("out", 1);
    fs::remove_file(journal(&place).join("os.lock")).unwrap();
    let said = clean(&place).stderr;
    let whose = format!("left `/proc/sys/vm/swappiness` at 7: pgdyno run (process {}, user ", running.pid());
    assert!(value(SWAPPINESS) == "7" && said.contains(&whose) && !said.contains("put back"), "{said}");
    let run = args(&["--set", "os.swappiness=9", "--measure", "2s", "-o", "other"]);
    let refused = place.start(command(&place, &run)).wait().expect(1).stderr;
    assert!(refused.contains("is using the [os] settings; wait until it ends"), "{refused}");
    assert!(refused.contains(&format!("pgdyno run (process {}, user ", running.pid())), "{refused}");
    assert_eq!(value(SWAPPINESS), "7");
    running.signal(Signal::SIGINT);
    running.wait().expect(2);
    assert_eq!(value(SWAPPINESS), before);
    place.expect_clean();
}
