//! Faults of a real machine: processes that are killed or stop for a while, disks that are full, file descriptors that
//! run out, a clock that is set. docs/faults.md has the table. No measurement is lost, and nothing is left behind.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use model::experiment::plan::RunState;
use model::telemetry::reading::{Tick, TickSource};
use nix::sys::signal::{Signal, kill};
use nix::unistd::{Pid, geteuid};
use testbed::run;

use crate::tool::{Ended, PACE, Place, Running, SMALL, expect_identity, expect_sound, tell, wait_until};

/// Short runs on our own server.
const RUNS: &str = "run --version 18 --scale 1 -c 2 --ramp-up 0s --set prepare.settle=false \
                    --set prepare.prewarm=false --set run.grace=1s";

fn start(place: &Place, options: &str) -> Running {
    let args: Vec<&str> =
        RUNS.split_whitespace().chain(["--set", SMALL, PACE]).chain(options.split_whitespace()).collect();
    place.start(place.command(&args))
}

/// Processes below `running` of this name, the oldest first.
pub(crate) fn named(running: &Running, name: &str) -> Vec<i32> {
    let is_named =
        |pid: &i32| fs::read_to_string(format!("/proc/{pid}/comm")).is_ok_and(|comm| comm.trim() == name);
    running.descendants().into_iter().filter(is_named).collect()
}

/// pgdyno, the first process of its server, a session of the load, the driver.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Victim {
    Pgdyno,
    Postmaster,
    Backend,
    Driver,
}

impl Victim {
    /// `None` while there is none.
    pub(crate) fn find(self, running: &Running) -> Option<Pid> {
        let pid = match self {
            Victim::Pgdyno => Some(running.pid()),
            Victim::Postmaster => named(running, "postgres").first().copied(),
            Victim::Backend => named(running, "postgres").last().copied(),
            Victim::Driver => named(running, "pgdyno").first().copied(),
        };
        pid.map(Pid::from_raw)
    }
}

/// Segments that one of `pids` created.
fn segments_of(pids: &BTreeSet<i32>) -> Vec<String> {
    let table = fs::read_to_string("/proc/sysvipc/shm").unwrap();
    let creator = |line: &str| line.split_whitespace().nth(4)?.parse::<i32>().ok();
    let is_theirs = |line: &&str| creator(line).is_some_and(|pid| pids.contains(&pid));
    table.lines().skip(1).filter(is_theirs).map(str::to_string).collect()
}

#[test]
fn processes_that_are_killed_leave_nothing_and_the_experiment_goes_on() {
    let place = Place::with_binaries(&["18"]);
    place.run(&["init", "--version", "18", "--scale", "1"]).expect(0);
    let cases = [
        // While the server is started and its data is tended: no driver is there yet. Tests of `stops` and `resume`
        // kill pgdyno itself.
        (Victim::Postmaster, false),
        (Victim::Postmaster, true),
        (Victim::Backend, true),
        (Victim::Driver, true),
    ];
    for (n, (victim, in_load)) in cases.into_iter().enumerate() {
        let output = format!("out{n}");
        let running = start(&place, &format!("--measure 3s --repeats 2 -o {output}"));
        let second = place.path(&output).join("runs/0002/intervals.jsonl");
        let has_load = || fs::read_to_string(&second).is_ok_and(|text| text.lines().count() >= 1);
        let is_tended =
            || place.path(&output).join("runs/0002").exists() && !named(&running, "postgres").is_empty();
        wait_until("the second run", || if in_load { has_load() } else { is_tended() });
        let pids: BTreeSet<i32> = running.descendants().into_iter().collect();
        kill(victim.find(&running).unwrap(), Signal::SIGKILL).unwrap();
        let ended = running.wait_for_end(Duration::from_secs(60));
        tell(&format!("{victim:?} killed, in load {in_load}: {:?}", ended.status));
        assert!(matches!(ended.code(), Some(1 | 2)), "{victim:?}: {ended:?}");
        place.expect_clean();
        wait_until("the end of all processes", || {
            pids.iter().all(|pid| fs::metadata(format!("/proc/{pid}")).is_err())
        });
        let runs = place.results(&output).runs;
        assert_eq!(runs[0].record.state, RunState::Completed, "{victim:?}: what was measured is kept");
        assert_ne!(runs.last().unwrap().record.state, RunState::Completed, "{victim:?}");
        assert_eq!(segments_of(&pids), Vec::<String>::new(), "{victim:?}");
        let resumed = expect_made(place.run(&["run", "--resume", &output]));
        assert!(resumed.stderr.contains("1 of 2 runs are done"), "{}", resumed.stderr);
        place.results(&output).runs.iter().for_each(expect_sound);
        place.expect_clean();
    }
}

/// On a machine that is busy, a short run may have too few transactions for a number.
#[track_caller]
pub(crate) fn expect_made(ended: Ended) -> Ended {
    let has_none = ended.stderr.contains("no case has a number that counts");
    assert!(ended.code() == Some(0) || has_none && ended.code() == Some(1), "{ended:?}");
    ended
}

/// Stops one process in the load for a while.
fn stand_still(victim: Victim, length: Duration) {
    let place = Place::with_binaries(&["18"]);
    place.run(&["init", "--version", "18", "--scale", "1"]).expect(0);
    let running = start(&place, &format!("-o out --repeats 1 --measure {}s", length.as_secs() + 6));
    place.wait_for_load("out", 2);
    let pid = victim.find(&running).unwrap();
    kill(pid, Signal::SIGSTOP).unwrap();
    std::thread::sleep(length);
    // A process that pgdyno has given up is gone.
    let is_gone = kill(pid, Signal::SIGCONT).is_err();
    let ended = running.wait_for_end(Duration::from_secs(90));
    let data = place.results("out");
    let record = &data.runs[0].record;
    tell(&format!(
        "{victim:?} stood still for {length:?}: {:?}, {:?} {}",
        ended.code(),
        record.state,
        record.reason
    ));
    match victim {
        // A driver that says nothing for 5 s cannot keep its schedule, and is ended.
        Victim::Driver if length > Duration::from_secs(5) => {
            assert!(is_gone && ended.code() == Some(1), "{ended:?}");
            assert!(record.reason.contains("no word from the driver"), "{}", record.reason);
        }
        _ => {
            assert_eq!((ended.code(), record.state), (Some(0), RunState::Completed), "{ended:?}");
            expect_identity(&data.runs[0]);
        }
    }
    place.expect_clean();
}

#[test]
fn pgdyno_and_a_server_process_may_stand_still_for_a_while() {
    std::thread::scope(|scope| {
        for victim in [Victim::Pgdyno, Victim::Postmaster] {
            scope.spawn(move || stand_still(victim, Duration::from_secs(7)));
        }
    });
}

/// Takes some 80 s: `cargo test -p pgdyno --test it -- --ignored stands_still_for_a_minute --nocapture`.
#[test]
#[ignore = "takes minutes"]
fn each_process_stands_still_for_a_minute() {
    std::thread::scope(|scope| {
        for victim in [Victim::Pgdyno, Victim::Postmaster, Victim::Backend, Victim::Driver] {
            scope.spawn(move || stand_still(victim, Duration::from_secs(60)));
        }
    });
}

/// A wall clock that is an hour behind while a file is there, for programs that ask the C library.
const CLOCK: &str = r#"
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>
int clock_gettime(clockid_t id, struct timespec *t) {
    static int (*real)(clockid_t, struct timespec *);
    if (!real) real = (int (*)(clockid_t, struct timespec *))dlsym(RTLD_NEXT, "clock_gettime");
    int result = real(id, t);
    const char *file = getenv("CLOCK_SET_BACK");
    if (id == CLOCK_REALTIME && file && access(file, F_OK) == 0) t->tv_sec -= 3600;
    return result;
}
"#;

#[test]
fn a_clock_that_is_set_back_and_forth_bends_no_run() {
    let place = Place::with_binaries(&["18"]);
    place.run(&["init", "--version", "18", "--scale", "1"]).expect(0);
    let (source, library, back) = (place.write("clock.c", CLOCK), place.path("clock.so"), place.path("back"));
    run(Command::new("cc").args(["-shared", "-fPIC", "-o"]).arg(&library).arg(&source).arg("-ldl"));
    let args: Vec<&str> = RUNS
        .split_whitespace()
        .chain(["--set", SMALL, PACE, "--measure", "5s", "--repeats", "2", "-o", "out"])
        .collect();
    let mut command = place.command(&args);
    command.env("LD_PRELOAD", &library).env("CLOCK_SET_BACK", &back);
    let began = Instant::now();
    let running = place.start(command);
    // Some seconds before and after it show the change in each run.
    place.wait_for_load("out", 2);
    fs::write(&back, "").unwrap();
    let second = place.path("out/runs/0002/intervals.jsonl");
    wait_until("the second run", || fs::read_to_string(&second).is_ok_and(|text| text.lines().count() >= 2));
    fs::remove_file(&back).unwrap();
    expect_made(running.wait_for_end(Duration::from_secs(80)));
    tell(&format!("two runs took {:?}", began.elapsed()));
    let study = analysis::study(&place.results("out"));
    for run in &study.runs {
        let found = run.findings.iter().find(|finding| finding.id == "clock-changed");
        assert!(found.is_some_and(|found| found.evidence.contains("3600.0")), "{:#?}", run.findings);
    }
    for run in place.results("out").runs {
        expect_sound(&run);
        assert!(run.intervals.len() >= 5, "{}", run.intervals.len());
        let go = run.record.go_unix_ns.unwrap();
        let load = (go as i64, go as i64 + 6_000_000_000);
        for source in [TickSource::Host, TickSource::Server] {
            // Every second is observed, late on a busy machine, and lies where the driver's does, not an hour away.
            let in_load = |tick: &Tick| {
                let end = tick.end_unix_ns as i64;
                end.min(load.1) - (end - tick.length_ns as i64).max(load.0)
            };
            let ticks = run.ticks.iter().filter(|tick| tick.source == source);
            let observed_ns: i64 = ticks.map(|tick| in_load(tick).max(0)).sum();
            let is_all = (4_000_000_000..=6_500_000_000).contains(&observed_ns);
            assert!(is_all, "run {}: {observed_ns} ns of {source:?}", run.record.spec.run);
        }
    }
    place.expect_clean();
}

#[test]
fn clients_that_need_more_files_than_there_are_are_refused_before_anything_begins() {
    let place = Place::new();
    let limited = |soft: u32, hard: u32, args: &str| {
        let line =
            format!("ulimit -Sn {soft}; ulimit -Hn {hard}; exec {} {args}", env!("CARGO_BIN_EXE_pgdyno"));
        place.start(place.command_of(Path::new("sh"), &["-c", &line])).wait()
    };
    let refused = limited(256, 256, "run -c 300 --bin-dir /nonexistent -o out").expect(1);
    let expected = "300 clients need 372 open files, but the system limit is 256; raise it (ulimit -Hn)";
    assert!(refused.stderr.contains(expected), "{}", refused.stderr);
    assert!(!place.path("out").exists());
    // A soft limit is raised, so that the only error is that there are no binaries.
    let raised = limited(256, 1024, "run -c 300 --bin-dir /nonexistent -o out").expect(1);
    assert!(!raised.stderr.contains("open files"), "{}", raised.stderr);
    assert!(raised.stderr.contains("/nonexistent"), "{}", raised.stderr);
    place.expect_clean();
}

/// A mounted file system; gone when dropped.
struct Mount {
    dir: PathBuf,
}

impl Mount {
    /// In memory. `None` where this user, or this machine, cannot mount one.
    fn tmpfs(dir: PathBuf, options: &str) -> Option<Mount> {
        Mount::of(dir, Command::new("mount").args(["-t", "tmpfs", "-o", options, "none"]))
    }

    /// In a file, which takes only what is written to it.
    fn ext4(image: &Path, gigabytes: u64, dir: PathBuf) -> Option<Mount> {
        fs::File::create(image).unwrap().set_len(gigabytes << 30).unwrap();
        run(Command::new("mkfs.ext4").args(["-q", "-F", "-m", "0"]).arg(image));
        Mount::of(dir, Command::new("mount").args(["-o", "loop"]).arg(image))
    }

    fn of(dir: PathBuf, mount: &mut Command) -> Option<Mount> {
        if !geteuid().is_root() {
            tell("skipped: only root may mount a file system");
            return None;
        }
        fs::create_dir(&dir).unwrap();
        let mounted = mount.arg(&dir).output().unwrap();
        if !mounted.status.success() {
            tell(&format!("skipped: {}", String::from_utf8_lossy(&mounted.stderr)));
            return None;
        }
        Some(Mount { dir })
    }

    /// Fills it up.
    fn fill(&self) {
        let path = self.dir.join("filler");
        let free = run(Command::new("df").args(["--output=avail", "-B1"]).arg(&self.dir));
        let free: u64 = free.lines().nth(1).unwrap().trim().parse().unwrap();
        // Most of it at once, and the rest byte by byte: the server writes meanwhile.
        let most = free.saturating_sub(64 << 20).max(1).to_string();
        run(Command::new("fallocate").args(["-l", &most]).arg(&path));
        let mut filler = fs::OpenOptions::new().append(true).open(&path).unwrap();
        let error = std::io::copy(&mut std::io::repeat(1), &mut filler).unwrap_err();
        assert_eq!(error.kind(), std::io::ErrorKind::StorageFull, "{error}");
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        // A process that dies may hold it for a moment: it is gone with the last one.
        Command::new("umount").arg("-l").arg(&self.dir).output().unwrap();
    }
}

#[test]
fn results_on_a_disk_that_becomes_full_keep_what_was_measured() {
    let place = Place::with_binaries(&["18"]);
    let Some(mount) = Mount::tmpfs(place.path("small"), "size=8m") else { return };
    let running = start(&place, "--measure 3s --repeats 2 -o small/out");
    let second = place.path("small/out/runs/0002/intervals.jsonl");
    wait_until("the second run", || second.exists());
    mount.fill();
    let ended = running.wait_for_end(Duration::from_secs(60)).expect(1);
    assert!(ended.stderr.contains("No space left on device"), "{}", ended.stderr);
    let first = &store::load_experiment(&place.path("small/out")).unwrap().runs[0];
    expect_sound(first);
    fs::remove_file(place.path("small/filler")).unwrap();
    expect_made(place.run(&["run", "--resume", "small/out"]));
    store::load_experiment(&place.path("small/out")).unwrap().runs.iter().for_each(expect_sound);
    place.expect_clean();
}

#[test]
fn a_server_whose_disk_becomes_full_ends_the_run_and_the_next_one_is_well() {
    let place = Place::with_binaries(&["18"]);
    let Some(mount) = Mount::ext4(&place.path("image"), 4, place.path("disk")) else { return };
    // The server's user must be able to pass.
    fs::set_permissions(place.path("disk"), fs::Permissions::from_mode(0o755)).unwrap();
    let with_cache = |args: &[&str]| {
        let mut command = place.command(args);
        command.env("PGDYNO_CACHE", place.path("disk/cache"));
        place.start(command)
    };
    let runs =
        |args: &str| with_cache(&RUNS.split_whitespace().chain(args.split_whitespace()).collect::<Vec<_>>());
    fs::create_dir(place.path("disk/cache")).unwrap();
    let binaries = fs::read_link(place.path("cache/postgres")).unwrap();
    std::os::unix::fs::symlink(binaries, place.path("disk/cache/postgres")).unwrap();
    with_cache(&["init", "--version", "18", "--scale", "1"]).wait().expect(0);
    // Much WAL, and a table that grows.
    place.write(
        "grow.sql",
        "insert into pgbench_history select 1, 1, 1, 1, now(), repeat('x', 22) from generate_series(1, 10000);\n",
    );
    let running = runs("-o out --repeats 1 --measure 20s -f grow.sql --set workload.data=tpcb");
    place.wait_for_load("out", 1);
    mount.fill();
    let ended = running.wait_for_end(Duration::from_secs(60));
    assert!(matches!(ended.code(), Some(1 | 2)), "{ended:?}");
    let record = &place.first_run("out").record;
    tell(&format!("{:?}: {}", record.state, record.reason));
    assert_ne!(record.state, RunState::Completed, "{ended:?}");
    assert!(
        ["is full", "No space left on device"].iter().any(|words| record.reason.contains(words)),
        "{}",
        record.reason
    );
    fs::remove_file(place.path("disk/filler")).unwrap();
    expect_made(runs("-o again --repeats 1 --measure 3s").wait());
    expect_sound(&place.first_run("again"));
    place.expect_clean();
}

#[test]
fn a_wal_device_that_is_full_before_the_load_is_reported_in_the_servers_words() {
    let place = Place::new();
    let Some(mount) = Mount::tmpfs(place.path("wal"), "size=800m,mode=755") else { return };
    // Its file waits, and then commits what the WAL writer, not the session, finds no room for.
    let writes =
        "insert into t select repeat('x', 500) from generate_series(1, 2000);\nselect pg_sleep(0.25);\n";
    let begin = "create table t (x text);\nset synchronous_commit = off;\nselect pg_sleep(3);\n";
    place.write("data.sql", &format!("{begin}{}", writes.repeat(60)));
    place.write("script.sql", "select count(*) from t;\n");
    let experiment = format!(
        "[experiment]\nname = \"full\"\n[server]\nbin_dir = \"/usr/lib/postgresql/15/bin\"\nwal_directory = \"{}\"\n\
         settings.max_wal_size = \"256MB\"\n[workload]\nkind = \"scripts\"\nscripts = [\"script.sql\"]\n\
         data = {{files = [\"data.sql\"]}}\n[run]\nmeasure = \"2s\"\n",
        place.path("wal").display()
    );
    place.write("full.toml", &experiment);
    let running = place.start(place.command(&["run", "full.toml", "-o", "out"]));
    // initdb has two processes of this name at most, and a server six before the first session.
    wait_until("a session that loads", || named(&running, "postgres").len() > 6);
    mount.fill();
    let ended = running.wait_for_end(Duration::from_secs(60)).expect(1);
    assert!(ended.stderr.contains("; the server said: PANIC:"), "{}", ended.stderr);
    assert!(ended.stderr.contains("No space left on device"), "{}", ended.stderr);
    place.expect_clean();
}
