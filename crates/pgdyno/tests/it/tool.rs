//! pgdyno as a child process in its own place: a temporary directory that is its home, its working directory,
//! its cache and its directory of temporary files, so that whatever it leaves behind is found there.

use std::fs;
use std::io::Read;
use std::io::Write;
use std::os::unix::fs::symlink;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use model::experiment::plan::RunState;
use model::run::{ExperimentData, RunData};
use nix::sys::signal::{Signal, kill, killpg};
use nix::unistd::Pid;
use server::{Account, Cache};
use testbed::{Apart, children_of};

/// No pgdyno of a test takes longer.
const DEADLINE: Duration = Duration::from_secs(90);

/// For tests to which any load will do. It leaves the processors to the other tests, and two seconds of it have twice the
/// transactions without which a number does not count.
pub(crate) const PACE: &str = "--pace=100/s";

/// For servers that pgdyno starts. Shared buffers of a quarter of the memory, the default, take a tenth of a second of each start,
/// and before and after each load the server lists every page of them.
pub(crate) const SMALL: &str = "server.settings.shared_buffers=64MB";

/// The directory of a test's pgdyno.
pub(crate) struct Place {
    dir: Apart,
}

/// A pgdyno that has ended.
#[derive(Debug)]
pub(crate) struct Ended {
    pub(crate) status: ExitStatus,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Ended {
    /// The exit code, if no signal ended the process.
    pub(crate) fn code(&self) -> Option<i32> {
        self.status.code()
    }

    /// Fails the test unless it ended with `code`.
    #[track_caller]
    pub(crate) fn expect(self, code: i32) -> Ended {
        let Ended { status, stdout, stderr } = &self;
        assert_eq!(self.code(), Some(code), "{status}\nstdout: {stdout}\nstderr: {stderr}");
        self
    }
}

impl Place {
    /// A place with nothing in it, in memory if there is room.
    pub(crate) fn new() -> Place {
        Place::of(Apart::in_memory("pgdyno-it-").unwrap_or_else(on_disk))
    }

    /// A place with nothing in it, on a disk. What is in memory is not durable, which hides what else is not.
    pub(crate) fn on_disk() -> Place {
        Place::of(on_disk())
    }

    fn of(dir: Apart) -> Place {
        for name in ["cache", "tmp", "home"] {
            fs::create_dir(dir.path().join(name)).unwrap();
        }
        Place { dir }
    }

    /// A place where the binaries of these releases need not be fetched any more.
    pub(crate) fn with_binaries(series: &[&str]) -> Place {
        let place = Place::new();
        let cache = shared_binaries(series);
        symlink(cache.dir.join("postgres"), place.path("cache/postgres")).unwrap();
        place
    }

    /// A path in the place.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// Writes a file.
    pub(crate) fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.path(name);
        fs::write(&path, text).unwrap();
        path
    }

    /// pgdyno with `args`, without the PG* environment of the test.
    pub(crate) fn command(&self, args: &[&str]) -> Command {
        self.command_of(Path::new(env!("CARGO_BIN_EXE_pgdyno")), args)
    }

    /// The same for another program instead of pgdyno.
    pub(crate) fn command_of(&self, program: &Path, args: &[&str]) -> Command {
        let mut command = Command::new(program);
        for (name, _) in std::env::vars_os() {
            let text = name.to_string_lossy();
            if text.starts_with("PG") || text.starts_with("XDG") || text.starts_with("COLUMNS") {
                command.env_remove(&name);
            }
        }
        command.args(args).current_dir(self.dir.path());
        // Tests count runs: other load on the machine must not cause repeats.
        if measures_alone(args) {
            command.args(["--set", "run.repeat_disturbed=0"]);
        }
        if measures_own_server(args) {
            command.args(["--set", SMALL]);
        }
        command.env("HOME", self.path("home")).env("TMPDIR", self.path("tmp"));
        command.env("PGDYNO_CACHE", self.path("cache"));
        // The same servers on every machine that runs the tests.
        command.env("PGDYNO_SERVER_BUILD", "fetched");
        command
    }

    /// The path of a pgdyno whose build is not the one of the test.
    pub(crate) fn another_build(&self) -> String {
        let path = self.path("other-build");
        fs::copy(env!("CARGO_BIN_EXE_pgdyno"), &path).unwrap();
        fs::OpenOptions::new().append(true).open(&path).unwrap().write_all(b"another build").unwrap();
        path.display().to_string()
    }

    /// Process ids of the pgdynos of this place that execute this hidden command.
    pub(crate) fn pids_of(&self, command: &str) -> Vec<i32> {
        let is_meant = |pid: &i32| {
            let command_line = fs::read_to_string(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            command_line.split('\0').nth(1) == Some(command)
                && fs::read_link(format!("/proc/{pid}/exe"))
                    .is_ok_and(|exe| exe == Path::new(env!("CARGO_BIN_EXE_pgdyno")))
        };
        self.processes().into_iter().filter(is_meant).collect()
    }

    /// Runs pgdyno to its end.
    pub(crate) fn run(&self, args: &[&str]) -> Ended {
        self.start(self.command(args)).wait()
    }

    /// Starts a pgdyno.
    pub(crate) fn start(&self, mut command: Command) -> Running {
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).process_group(0);
        let mut child = command.spawn().unwrap();
        let stdout = Collected::of(child.stdout.take().unwrap());
        let stderr = Collected::of(child.stderr.take().unwrap());
        Running { child, stdout, stderr, is_reaped: false }
    }

    /// The contents of a results directory.
    #[track_caller]
    pub(crate) fn results(&self, name: &str) -> ExperimentData {
        let data = store::load_experiment(&self.path(name)).unwrap();
        for run in &data.runs {
            assert_eq!(run.damage, Vec::<String>::new());
        }
        data
    }

    /// The first run of a results directory.
    #[track_caller]
    pub(crate) fn first_run(&self, name: &str) -> RunData {
        self.results(name).runs.swap_remove(0)
    }

    /// Waits until a run of a results directory has this many seconds of load on disk.
    pub(crate) fn wait_for_load(&self, name: &str, seconds: usize) {
        let path = self.path(name).join("runs/0001/intervals.jsonl");
        wait_until("seconds of load", || {
            fs::read_to_string(&path).is_ok_and(|text| text.lines().count() >= seconds)
        });
    }

    /// Processes that work in the place, or were given it as home.
    pub(crate) fn processes(&self) -> Vec<i32> {
        processes_of(self.dir.path())
    }

    /// Fails the test if a process or a file is left that a finished pgdyno should have removed.
    #[track_caller]
    pub(crate) fn expect_clean(&self) {
        wait_until("the end of all processes", || self.processes().is_empty());
        let left: Vec<_> = fs::read_dir(self.path("tmp")).unwrap().flatten().map(|e| e.path()).collect();
        assert_eq!(left, Vec::<PathBuf>::new());
    }
}

fn on_disk() -> Apart {
    Apart::make(&std::env::temp_dir(), "pgdyno-it-")
}

impl Drop for Place {
    fn drop(&mut self) {
        // Nothing should be there, but a test that fails leaves nothing behind either. Servers get the time to remove their
        // shared memory.
        let (servers, others): (Vec<i32>, Vec<i32>) = self.processes().into_iter().partition(is_server);
        signal_all(&others, Signal::SIGKILL);
        signal_all(&servers, Signal::SIGQUIT);
        signal_all(&servers, Signal::SIGCONT);
        let began = Instant::now();
        while !self.processes().is_empty() && began.elapsed() < SERVERS_END_MAX {
            std::thread::sleep(Duration::from_millis(20));
        }
        signal_all(&self.processes(), Signal::SIGKILL);
        if std::thread::panicking() {
            keep(self.dir.path());
        }
    }
}

/// Keeps what helps to understand a failure in the build directory until the test fails again, and says where: results, whose plan has
/// the seed, logs, and what the test wrote. Clusters and binaries are not kept.
fn keep(dir: &Path) {
    let thread = std::thread::current();
    let name = thread.name().unwrap_or("of-a-thread").replace("::", ".");
    let kept = Path::new(env!("CARGO_TARGET_TMPDIR")).join("failed").join(name);
    let _ = fs::remove_dir_all(&kept);
    keep_files(dir, &kept);
    eprintln!("what helps is kept in {}", kept.display());
}

/// Names of directories with nothing but files of PostgreSQL.
const OF_POSTGRESQL: [&str; 3] = ["data", "snapshots", "postgres"];
/// Larger files say no more.
const KEPT_BYTES_MAX: u64 = 4 << 20;

/// Copies small files, as far as that is possible; a symbolic link leads elsewhere.
fn keep_files(from: &Path, to: &Path) {
    for entry in fs::read_dir(from).into_iter().flatten().flatten() {
        let Ok(facts) = entry.path().symlink_metadata() else { continue };
        let (path, name) = (entry.path(), entry.file_name());
        if facts.is_dir() && !OF_POSTGRESQL.iter().any(|left_out| name == *left_out) {
            keep_files(&path, &to.join(name));
        } else if facts.is_file() && facts.len() <= KEPT_BYTES_MAX {
            let _ = fs::create_dir_all(to).and_then(|()| fs::copy(&path, to.join(name)));
        }
    }
}

/// How long the servers of a test that has failed may take to end.
const SERVERS_END_MAX: Duration = Duration::from_secs(6);

fn is_server(pid: &i32) -> bool {
    fs::read_to_string(format!("/proc/{pid}/comm")).is_ok_and(|name| name.trim() == "postgres")
}

fn signal_all(pids: &[i32], signal: Signal) {
    for pid in pids {
        // One that has just ended needs no signal.
        let _ = kill(Pid::from_raw(*pid), signal);
    }
}

/// Processes that work in `dir`, or were given it as home.
fn processes_of(dir: &Path) -> Vec<i32> {
    let home = format!("HOME={}/home", dir.display());
    let of = |pid: &i32| {
        let in_dir = fs::read_link(format!("/proc/{pid}/cwd")).is_ok_and(|cwd| cwd.starts_with(dir));
        let environ = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        in_dir || environ.split(|&b| b == 0).any(|variable| variable == home.as_bytes())
    };
    all_pids().into_iter().filter(of).collect()
}

/// Every process of this machine.
pub(crate) fn all_pids() -> Vec<i32> {
    let entries = fs::read_dir("/proc").unwrap().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect()
}

/// Waits for `what`, which may take 60 s at most.
#[track_caller]
pub(crate) fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    let began = Instant::now();
    while !is_so() {
        assert!(began.elapsed() < Duration::from_secs(60), "waited in vain for {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// A running pgdyno; killed when dropped.
pub(crate) struct Running {
    child: Child,
    stdout: Collected,
    stderr: Collected,
    is_reaped: bool,
}

impl Running {
    /// Whether it has not ended.
    pub(crate) fn is_alive(&self) -> bool {
        fs::read_link(format!("/proc/{}/exe", self.pid())).is_ok()
    }

    /// The process id.
    pub(crate) fn pid(&self) -> i32 {
        self.child.id() as i32
    }

    /// Signals only this process.
    pub(crate) fn signal(&self, signal: Signal) {
        kill(Pid::from_raw(self.pid()), signal).unwrap();
    }

    /// Whether signals to it wait to be taken by one of its threads.
    pub(crate) fn has_pending_signals(&self) -> bool {
        self.signal_set("ShdPnd:") != 0
    }

    /// Whether it has a handler for `signal`.
    pub(crate) fn handles(&self, signal: Signal) -> bool {
        self.signal_set("SigCgt:") >> (signal as i32 - 1) & 1 == 1
    }

    /// A set of signals as proc_pid_status(5) has it.
    fn signal_set(&self, name: &str) -> u64 {
        let status = fs::read_to_string(format!("/proc/{}/status", self.pid())).unwrap();
        let set = status.lines().find_map(|line| line.strip_prefix(name)).unwrap().trim();
        u64::from_str_radix(set, 16).unwrap()
    }

    /// The processes below it.
    pub(crate) fn descendants(&self) -> Vec<i32> {
        let mut found = children_of(self.pid());
        let mut i = 0;
        while i < found.len() {
            found.extend(children_of(found[i]));
            i += 1;
        }
        found
    }

    /// Whether it has printed `text` on standard error.
    pub(crate) fn has_said(&self, text: &str) -> bool {
        self.stderr.text().contains(text)
    }

    /// All that it has printed on standard error.
    pub(crate) fn said(&self) -> String {
        self.stderr.text()
    }

    /// Waits until it has printed `text` on standard error.
    #[track_caller]
    pub(crate) fn wait_for(&self, text: &str) {
        wait_until(text, || self.has_said(text));
    }

    /// Waits for its end, which must come in time.
    #[track_caller]
    pub(crate) fn wait(self) -> Ended {
        self.wait_for_end(DEADLINE)
    }

    /// Waits for its end, which must come within `limit`.
    #[track_caller]
    pub(crate) fn wait_for_end(mut self, limit: Duration) -> Ended {
        let began = Instant::now();
        let status = loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                break status;
            }
            if began.elapsed() > limit {
                panic!("pgdyno has not ended after {limit:?}\nstderr: {}", self.stderr.text());
            }
            std::thread::sleep(Duration::from_millis(10));
        };
        self.is_reaped = true;
        Ended { status, stdout: self.stdout.all(), stderr: self.stderr.all() }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if !self.is_reaped {
            // Its children end when it does.
            let _ = killpg(Pid::from_raw(self.pid()), Signal::SIGKILL);
            let _ = self.child.wait();
        }
    }
}

/// The output from a pipe so far.
struct Collected {
    bytes: Arc<Mutex<Vec<u8>>>,
    reader: Option<JoinHandle<()>>,
}

impl Collected {
    fn of(mut pipe: impl Read + Send + 'static) -> Collected {
        let bytes = Arc::new(Mutex::new(Vec::new()));
        let sink = Arc::clone(&bytes);
        let reader = std::thread::spawn(move || {
            let mut buffer = [0; 4096];
            while let Ok(n @ 1..) = pipe.read(&mut buffer) {
                sink.lock().unwrap().extend_from_slice(&buffer[..n]);
            }
        });
        Collected { bytes, reader: Some(reader) }
    }

    fn text(&self) -> String {
        let bytes = self.bytes.lock().unwrap_or_else(PoisonError::into_inner);
        String::from_utf8_lossy(&bytes).into_owned()
    }

    /// The complete output, once the other end is closed.
    fn all(&mut self) -> String {
        if let Some(reader) = self.reader.take() {
            reader.join().unwrap();
        }
        self.text()
    }
}

/// The cache of the build directory, with these releases in it, fetched over the network when they are not.
fn shared_binaries(series: &[&str]) -> Cache {
    static FETCHING: Mutex<()> = Mutex::new(());
    let _one_at_a_time = FETCHING.lock().unwrap_or_else(PoisonError::into_inner);
    let cache = shared_cache();
    for series in series {
        server::fetch(&cache, &series.parse().unwrap(), &mut |_| {})
            .unwrap_or_else(|error| panic!("this test needs the network: {error}"));
    }
    cache
}

/// The directory with the programs of a release, fetched over the network when they are not in the build directory yet.
pub(crate) fn bin_dir_of(series: &str) -> PathBuf {
    let cache = shared_binaries(&[series]);
    server::fetch(&cache, &series.parse().unwrap(), &mut |_| {}).unwrap().bin_dir
}

/// In the build directory; if the server's user cannot reach that, where root's pgdyno has its cache.
fn shared_cache() -> Cache {
    let dir = Path::new(env!("CARGO_TARGET_TMPDIR")).join("cache");
    fs::create_dir_all(&dir).unwrap();
    match Account::choose().unwrap().check_reach(&dir.join(".")) {
        Ok(()) => Cache::at(dir),
        Err(_) => Cache::at("/var/cache/pgdyno"),
    }
}

/// Fails the test unless the run completed and its books balance.
#[track_caller]
pub(crate) fn expect_sound(run: &RunData) {
    let record = &run.record;
    assert_eq!((record.state, record.reason.as_str()), (RunState::Completed, ""));
    expect_identity(run);
    let counts = run.record.done.as_ref().unwrap().counts;
    assert!(counts.committed > 0, "{counts:?}");
    assert_eq!(counts.failed + counts.unknown, 0, "{counts:?}");
}

/// Fails the test unless the judge has found each of these in a run, a case or the experiment of a results directory.
#[track_caller]
pub(crate) fn expect_found(place: &Place, name: &str, ids: &[&str]) {
    let study = analysis::study(&place.results(name));
    let of_runs = study.runs.iter().flat_map(|run| &run.findings);
    let of_cases = study.cases.iter().flat_map(|case| &case.findings);
    let found: Vec<&str> =
        study.findings.iter().chain(of_cases).chain(of_runs).map(|finding| finding.id).collect();
    assert!(ids.iter().all(|id| found.contains(id)), "not all of {ids:?} are in {found:?}");
}

/// Fails the test unless totals obey the identity and are the sum of the intervals.
#[track_caller]
pub(crate) fn expect_identity(run: &RunData) {
    let done = run.record.done.as_ref().unwrap();
    assert!(done.counts.identity_holds(0), "{:?}", done.counts);
    let mut sum = model::load::interval::Counts::default();
    let mut errors = std::collections::BTreeMap::<String, u64>::new();
    for interval in &run.intervals {
        sum += interval.counts;
        interval.errors.iter().for_each(|(state, n)| *errors.entry(state.clone()).or_default() += n);
    }
    assert_eq!(sum, done.counts);
    assert_eq!(errors, done.errors);
}

/// How much the history grew during a run.
#[track_caller]
pub(crate) fn history_growth(run: &RunData) -> u64 {
    let rows = |rows: &std::collections::BTreeMap<String, u64>| rows["pgbench_history"];
    rows(&run.record.rows_after) - rows(&run.record.rows_before)
}

/// Transactions that were committed in this second of a run.
pub(crate) fn committed_in(run: &RunData, t: u32) -> u64 {
    run.intervals.iter().filter(|of| of.t == t).map(|of| of.counts.committed).sum()
}

/// A line for those who run a test with `--nocapture`.
pub(crate) fn tell(line: &str) {
    std::io::stderr().write_all(format!("{line}\n").as_bytes()).unwrap();
}

/// Whether these arguments plan runs, and do not mention repeats.
fn measures_alone(args: &[&str]) -> bool {
    plans_runs(args) && !has_any(args, &["repeat_disturbed"])
}

/// Whether these arguments measure a server that pgdyno starts, and leave its shared buffers open.
fn measures_own_server(args: &[&str]) -> bool {
    let is_of_options = args.get(1).is_some_and(|arg| arg.starts_with('-'));
    let is_own = is_of_options || has_any(args, &["--bin-dir"]);
    let is_measured = args.first() != Some(&"plan");
    plans_runs(args) && is_measured && is_own && !has_any(args, &["--server", "server.url", "shared_buffers"])
}

fn plans_runs(args: &[&str]) -> bool {
    match args.first() {
        Some(&("run" | "plan")) => !has_any(args, &["--resume", "--list"]),
        Some(&"compare") => args.iter().any(|arg| ["--a", "--b", "--aa"].contains(arg)),
        _ => false,
    }
}

/// Whether one of these is part of an argument.
fn has_any(args: &[&str], words: &[&str]) -> bool {
    args.iter().any(|arg| words.iter().any(|word| arg.contains(word)))
}
