//! Hands on the host of a server by URL: values of the operating system are set there, and go back whatever ends.
//!
//! The machine elsewhere is this one, with a journal of its own in the hands' mount namespace.

use std::fs::{self, Permissions};
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::{PermissionsExt, chown, symlink};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Output, Stdio};
use std::time::{Duration, Instant};

use model::experiment::plan::RunState;
use model::load::drive::DriverLine;
use model::load::hands::{AgentAnswer, AgentCommand, AgentOrder, RefusedValue};
use model::load::hello::Greeting;
use model::run::phase::Phase;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use testbed::{Pg, Sshd};

use crate::os::{SWAPPINESS, may_set, value};
use crate::tool::{PACE, Place, Running, tell, wait_until};

const PROGRAM: &str = env!("CARGO_BIN_EXE_pgdyno");
const RUN: &str = "-c 2 --scale 1 --ramp-up 0s --repeats 1 --set prepare.settle=false";
/// A user who is neither root nor the owner of anything.
const STRANGER: u32 = 54_321;

/// Starts what the shell's words `exec` say, with the journal of `place`.
pub(crate) fn with_journal(place: &Place, exec: &str) -> Vec<String> {
    let journal = place.path("journal");
    for dir in [&journal, Path::new("/run/pgdyno")] {
        fs::create_dir_all(dir).unwrap();
    }
    let script = format!("mount --bind {} /run/pgdyno; shift; {exec}\n", journal.display());
    let script = place.write("login.sh", &script).display().to_string();
    ["unshare", "--mount", "sh", &script, "-c"].map(str::to_string).into()
}

/// A pgdyno on a server by URL whose host is reached by `via`.
fn start(place: &Place, pg: &Pg, host: &str, os: &str) -> Running {
    let text = format!(
        "[experiment]\nname = \"hands\"\norder = \"sequential\"\n[server]\nhost = {host}\n[os]\n{os}\n"
    );
    start_file(place, pg, &place.write("hands.toml", &text), "out")
}

/// A pgdyno with this experiment file and directory for results.
fn start_file(place: &Place, pg: &Pg, file: &Path, output: &str) -> Running {
    let (file, server) = (file.display().to_string(), pg.admin_target(&pg.database()));
    let fixed = ["run", file.as_str(), "--server", &server, "--measure", "3s", PACE, "-o", output];
    place.start(place.command(&fixed.into_iter().chain(RUN.split_whitespace()).collect::<Vec<_>>()))
}

fn wait_for_load(place: &Place, run: u32) {
    let intervals = place.path(&format!("out/runs/{run:04}/intervals.jsonl"));
    wait_until("the load", || intervals.metadata().is_ok_and(|file| file.len() > 0));
}

#[test]
fn values_are_set_on_the_host_of_a_server_by_url_and_go_back_whatever_ends() {
    let Some(_values) = may_set() else { return };
    let before = value(SWAPPINESS);
    let (pg, place) = (Pg::shared(), Place::new());
    let via = with_journal(&place, "eval \"$1\"");
    let host = format!("{{name = \"db1\", via = {via:?}, program = \"{PROGRAM}\"}}");
    let running = start(&place, &pg, &host, "swappiness = [7, 9]");

    wait_for_load(&place, 1);
    assert_eq!(value(SWAPPINESS), "7");
    // Nobody restores the values of hands that are killed but the next hands.
    let killed = place.pids_of("host");
    killed.iter().for_each(|pid| kill(Pid::from_raw(*pid), Signal::SIGKILL).unwrap());
    wait_for_load(&place, 2);
    assert_eq!(value(SWAPPINESS), "9");
    // Hands that hear nothing restore by themselves.
    running.signal(Signal::SIGSTOP);
    let begun = Instant::now();
    wait_until("the end of the lease", || value(SWAPPINESS) == before);
    assert!(begun.elapsed() < Duration::from_secs(9), "{:?}", begun.elapsed());
    running.signal(Signal::SIGKILL);
    running.wait();
    // Not even a pgdyno whose child they are takes them with it when it is killed.
    let text = fs::read_to_string(place.path("hands.toml")).unwrap().replace("[7, 9]", "8");
    let running = start_file(&place, &pg, &place.write("again.toml", &text), "again");
    wait_until("the values", || value(SWAPPINESS) == "8");
    running.signal(Signal::SIGKILL);
    let begun = Instant::now();
    wait_until("the end of the pipe", || value(SWAPPINESS) == before);
    assert!(begun.elapsed() < Duration::from_secs(9), "{:?}", begun.elapsed());
    running.wait();

    let data = place.results("out");
    let (first, second) = (&data.runs[0].record, &data.runs[1].record);
    assert_eq!(first.state, RunState::Failed);
    assert!(first.reason.contains("of `db1` went back during the load"), "{}", first.reason);
    for (record, expected) in [(first, "7"), (second, "9")] {
        let restore = &record.phase(Phase::Restore).unwrap().detail;
        assert_eq!(restore[SWAPPINESS], format!("{expected} (was {before})"));
        assert_eq!(restore["os"], "set on db1");
        assert_eq!(record.host.as_ref().unwrap().facts["swappiness"], expected);
    }
    assert!(!place.path("journal/os-undo.jsonl").exists());
    place.expect_clean();
}

#[test]
fn values_that_cannot_be_restored_are_reported_next_to_another_error_and_tried_again() {
    let Some(_values) = may_set() else { return };
    let before = value(SWAPPINESS);
    let (pg, place) = (Pg::shared(), Place::new());
    let pid = place.path("hands.pid").display().to_string();
    let via = with_journal(&place, &format!("case $1 in *host) echo $$ > {pid};; esac; eval \"$1\""));
    let there = |script: &str| format!("nsenter --mount --target $(cat {pid}) sh -c '{script}'");
    // The driver ends where it should connect, when the values are set, and the kernel takes no others there.
    let close =
        there(&format!("mount --bind {SWAPPINESS} {SWAPPINESS} && mount -o remount,bind,ro {SWAPPINESS}"));
    let driver = place.write("driver.sh", &format!("[ -e armed ] || exec \"$@\"\n{close}; exit 1\n"));
    let open = there(&format!("umount {SWAPPINESS}"));
    let text = format!(
        "[experiment]\nname = \"hands\"\n[server]\nhost = {{name = \"db1\", via = {via:?}, program = \"{PROGRAM}\"}}\n\
         [[driver]]\nname = \"load1\"\nvia = [\"sh\", {driver:?}]\nprogram = \"{PROGRAM}\"\n[os]\nswappiness = 7\n\
         [hooks]\nbefore_run = [\"touch\", {:?}]\nafter_case = [\"sh\", \"-c\", {open:?}]\n",
        place.path("armed")
    );
    let ended = start_file(&place, &pg, &place.write("hands.toml", &text), "out").wait().expect(1);
    let error = ended.stderr.lines().find(|line| line.starts_with("pgdyno: error:")).unwrap_or_default();
    for expected in
        ["`load1`", "not put back on `db1`", "Read-only file system", "`pgdyno clean`, run there as root"]
    {
        assert!(error.contains(expected), "{expected}: {}", ended.stderr);
    }
    assert_eq!(value(SWAPPINESS), before, "it was not tried again: {}", ended.stderr);
    assert!(!place.path("journal/os-undo.jsonl").exists());
    place.expect_clean();
}

#[test]
fn a_user_without_roots_rights_is_shown_how_to_give_them() {
    let Some(sshd) = Sshd::start("") else { return tell("skipped: no sshd (Debian: openssh-server)") };
    if Path::new(model::load::hands::HELPER).exists() {
        return tell("skipped: pgdyno's helper is installed on this machine");
    }
    let (pg, place) = (Pg::shared(), Place::new());
    let host = format!(
        "{{name = \"db1\", via = {:?}, program = \"/nonexistent/pgdyno\", upload = true}}",
        sshd.via()
    );
    let refused = start(&place, &pg, &host, "swappiness = 7").wait().expect(1);
    assert!(
        refused.stderr.contains("cannot set values of the operating system on `db1`")
            && refused.stderr.contains("there is no `/usr/lib/pgdyno/pgdyno-host`; see docs/hosts.md"),
        "{}",
        refused.stderr
    );
    place.expect_clean();
}

/// The helper of a test, with pipes to it.
struct Helper {
    child: Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
}

impl Helper {
    fn call(way: &[String]) -> Helper {
        let mut child = Command::new(&way[0])
            .args(&way[1..])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let output = BufReader::new(child.stdout.take().unwrap());
        Helper { input: child.stdin.take(), child, output }
    }

    fn start(way: &[String]) -> Helper {
        let mut helper = Helper::call(way);
        let answer = helper.order();
        assert!(
            matches!(answer, Some(DriverLine::Hands(AgentAnswer::Ready { no_disks: Some(_) }))),
            "{answer:?}"
        );
        helper
    }

    /// Greets it, sends the order, and returns the answer.
    fn order(&mut self) -> Option<DriverLine> {
        self.say(&Greeting { nonce: "n".into(), silence_s: 5, server: None });
        assert!(matches!(self.hear(), Some(DriverLine::Hello(hello)) if hello.nonce == "n"));
        self.say(&AgentOrder { format: model::FORMAT, backend: None });
        self.hear()
    }

    fn say(&mut self, line: &impl serde::Serialize) {
        let text = serde_json::to_string(line).unwrap() + "\n";
        self.input.as_mut().unwrap().write_all(text.as_bytes()).unwrap();
    }

    fn hear(&mut self) -> Option<DriverLine> {
        let mut line = String::new();
        self.output.read_line(&mut line).unwrap();
        serde_json::from_str(&line).ok()
    }

    #[track_caller]
    fn ask(&mut self, command: AgentCommand) -> AgentAnswer {
        self.say(&command);
        match self.hear() {
            Some(DriverLine::Hands(answer)) => answer,
            other => panic!("{other:?}"),
        }
    }

    /// Sets swappiness, and expects that.
    #[track_caller]
    fn set(&mut self, swappiness: &str) -> AgentAnswer {
        let os = [("swappiness".to_string(), swappiness.to_string())].into();
        let answer = self.ask(AgentCommand::Set(os));
        assert!(matches!(answer, AgentAnswer::Set(_)), "{answer:?}");
        assert_eq!(value(SWAPPINESS), swappiness);
        answer
    }

    fn signal(&self, signal: Signal) {
        kill(Pid::from_raw(self.child.id() as i32), signal).unwrap();
    }
}

impl Drop for Helper {
    fn drop(&mut self) {
        self.input = None;
        self.child.wait().unwrap();
    }
}

#[test]
fn the_helper_works_only_as_it_was_installed() {
    if !nix::unistd::geteuid().is_root() {
        return tell("skipped: only root can install the helper");
    }
    let place = Place::new();
    let (dir, program) = install(&place);
    let call = |program: &Path, args: &[&str]| -> Output {
        Command::new(program).args(args).stdin(Stdio::null()).output().unwrap()
    };
    let refused = |output: Output, expected: &str| {
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(
            output.status.code() == Some(1) && output.stdout.is_empty() && text.contains(expected),
            "{text}"
        );
    };
    for args in [&["--help"][..], &["run"], &["pgbench", "-i"], &["host"]] {
        refused(call(&program, args), "takes no arguments");
    }
    let link = place.path("link/pgdyno-host");
    fs::create_dir(place.path("link")).unwrap();
    symlink(PROGRAM, &link).unwrap();
    refused(call(&link, &["--version"]), "takes no arguments");
    let as_stranger = ["--reuid", "54321", "--regid", "54321", "--clear-groups"];
    let stranger = Command::new("setpriv").args(as_stranger).arg(&program).stdin(Stdio::null()).output();
    refused(stranger.unwrap(), "needs root's rights");
    for path in [&program, &dir] {
        fs::set_permissions(path, Permissions::from_mode(0o777)).unwrap();
        refused(call(&program, &[]), "every user");
        fs::set_permissions(path, Permissions::from_mode(0o755)).unwrap();
        chown(path, Some(STRANGER), Some(STRANGER)).unwrap();
        refused(call(&program, &[]), "user id 54321");
        chown(path, Some(0), Some(0)).unwrap();
    }
}

/// The helper in a directory of its own, as root installs it.
pub(crate) fn install(place: &Place) -> (PathBuf, PathBuf) {
    let (dir, program) = (place.path("lib"), place.path("lib/pgdyno-host"));
    fs::create_dir(&dir).unwrap();
    fs::copy(PROGRAM, &program).unwrap();
    (dir, program)
}

#[test]
fn the_helper_sets_what_is_on_its_list_and_restores_it_whatever_ends() {
    let Some(_values) = may_set() else { return };
    let before = value(SWAPPINESS);
    let place = Place::new();
    let (_, program) = install(&place);
    let via = with_journal(&place, &format!("exec {}", program.display()));
    let mut helper = Helper::start(&via);
    let levels = [
        ("swappiness", "201", "not in 0..200"),
        ("swappiness", "7\n", "not in 0..200"),
        ("max_map_count", "1", "not in 65530.."),
        ("transparent_huge_pages", "sometimes", "offers"),
        ("io_scheduler", "none", "not on a block device"),
        ("huge_pages", "on", "needs a server that pgdyno runs itself"),
        ("../../../etc/passwd", "x", "needs a server that pgdyno runs itself"),
    ];
    let asked = levels.map(|(key, value, _)| (key.to_string(), value.to_string())).to_vec();
    let AgentAnswer::Checked(answers) = helper.ask(AgentCommand::Check(asked.clone())) else { panic!() };
    let is_expected = |answer: &RefusedValue, expected: &str| answer.reason.contains(expected);
    assert_eq!(answers.len(), levels.len());
    for (answer, (key, _, expected)) in answers.iter().zip(levels) {
        assert!(answer.key == key && is_expected(answer, expected), "{answer:?}");
    }
    for pair in asked {
        let answer = helper.ask(AgentCommand::Set([pair].into()));
        assert!(matches!(answer, AgentAnswer::Refused(_)), "{answer:?}");
    }
    assert_eq!(value(SWAPPINESS), before);

    // The end of the pipe, a signal, and a line without end.
    helper.set("7");
    drop(helper);
    assert_eq!(value(SWAPPINESS), before);
    let mut helper = Helper::start(&via);
    helper.set("7");
    helper.signal(Signal::SIGTERM);
    helper.child.wait().unwrap();
    assert_eq!(value(SWAPPINESS), before);
    let mut helper = Helper::start(&via);
    helper.set("7");
    let _it_may_be_gone = helper.input.as_mut().unwrap().write_all(&[b'x'; 200_000]);
    wait_until("its end", || value(SWAPPINESS) == before);
    drop(helper);
    // A kill: the next one restores, and says so.
    let mut helper = Helper::start(&via);
    helper.set("7");
    helper.signal(Signal::SIGKILL);
    helper.child.wait().unwrap();
    assert_eq!(value(SWAPPINESS), "7");
    let mut helper = Helper::start(&via);
    let AgentAnswer::Back(undone) = helper.ask(AgentCommand::PutBack) else { panic!() };
    assert_eq!((undone[0].path.as_str(), undone[0].now.as_str()), (SWAPPINESS, before.as_str()));
    assert_eq!(value(SWAPPINESS), before);
    assert_eq!(helper.ask(AgentCommand::Stop), AgentAnswer::Back(Vec::new()));
    drop(helper);
    place.expect_clean();
}

#[test]
fn a_caller_of_the_helper_neither_fills_its_memory_nor_keeps_it_from_restoring() {
    let Some(_values) = may_set() else { return };
    let before = value(SWAPPINESS);
    let place = Place::new();
    let (_, program) = install(&place);
    let limited = |limits: &str| with_journal(&place, &format!("{limits}; exec {}", program.display()));
    // More lines than may wait.
    let mut helper = Helper::start(&limited("true"));
    helper.set("7");
    let line = |swappiness: &str| {
        let os = [("swappiness".to_string(), swappiness.to_string())].into();
        serde_json::to_string(&AgentCommand::Set(os)).unwrap() + "\n"
    };
    let flood = (line("8") + &line("7")).repeat(1000);
    let _it_may_be_gone = helper.input.as_mut().unwrap().write_all(flood.as_bytes());
    let said = std::iter::from_fn(|| helper.hear()).last();
    let Some(DriverLine::Failed { message }) = said else { panic!("{said:?}") };
    assert!(message.contains("more than 16 lines waited"), "{message}");
    wait_until("its end", || value(SWAPPINESS) == before);
    drop(helper);
    // Limits of the shell that called it.
    let mut helper = Helper::start(&limited("ulimit -S -f 0; ulimit -S -n 8; ulimit -S -t 1"));
    helper.set("7");
    drop(helper);
    assert_eq!(value(SWAPPINESS), before);
    // A hard limit can be lifted with CAP_SYS_RESOURCE only, which root in a container may lack.
    let mut helper = Helper::call(&limited("ulimit -f 0"));
    match helper.order() {
        Some(DriverLine::Hands(AgentAnswer::Ready { .. })) => drop(helper.set("7")),
        Some(DriverLine::Failed { message }) => assert!(message.contains("RLIMIT_FSIZE"), "{message}"),
        other => panic!("{other:?}"),
    }
    drop(helper);
    assert_eq!(value(SWAPPINESS), before);
    place.expect_clean();
}
