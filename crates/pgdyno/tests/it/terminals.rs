//! What a terminal, a logout or a service manager sends while something is to be put back: it is put back.

use std::ffi::CStr;
use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use model::load::hands::{AgentCommand, AgentOrder};
use model::load::hello::Greeting;
use nix::libc;
use nix::sys::signal::{SaFlags, SigAction, SigHandler, SigSet, Signal, kill, sigaction};
use nix::unistd::Pid;
use testbed::{ClusterOptions, TestServer};

use crate::hands::{install, with_journal};
use crate::os::{SWAPPINESS, may_set, value};
use crate::settings::{ONE, args};
use crate::tool::{Place, Running, wait_until};

const WORK_MEM: &str = "select setting from pg_settings where name = 'work_mem'";

/// A run that changes `work_mem` of `server`.
fn changing(place: &Place, server: &TestServer) -> Command {
    place.write("one.sql", "select 1;\n");
    let more = ["--set", "server.settings.work_mem=64MB", "--measure", "30s", "--allow-changes", "-o", "out"];
    place.command(&args(("run", ONE), &server.admin_target("postgres"), &more))
}

/// The same, which has changed it, in its load.
fn begun(place: &Place, server: &TestServer, command: impl FnOnce(Command) -> Running) -> Running {
    let running = command(changing(place, server));
    place.wait_for_load("out", 1);
    assert_eq!(server.ask("postgres", WORK_MEM), "65536");
    running
}

#[test]
fn no_signal_but_a_second_ctrl_c_cuts_off_what_is_to_be_put_back() {
    let server = TestServer::start(&ClusterOptions::default());
    for signals in [
        [Signal::SIGTERM, Signal::SIGHUP],
        [Signal::SIGHUP, Signal::SIGTERM],
        [Signal::SIGTERM, Signal::SIGTERM],
        [Signal::SIGINT, Signal::SIGTERM],
        [Signal::SIGTERM, Signal::SIGINT],
        // Two within a second are one Ctrl-C that was held down.
        [Signal::SIGINT, Signal::SIGINT],
        [Signal::SIGQUIT, Signal::SIGQUIT],
        [Signal::SIGUSR1, Signal::SIGALRM],
    ] {
        let place = Place::new();
        let running = begun(&place, &server, |command| place.start(command));
        for signal in signals {
            running.signal(signal);
            wait_until("the signal to be taken", || !running.has_pending_signals());
        }
        let ended = running.wait();
        assert_eq!(server.ask("postgres", WORK_MEM), "4096", "{signals:?}");
        let ended = ended.expect(2);
        assert!(ended.stderr.contains("put back setting `work_mem` to 4MB"), "{}", ended.stderr);
        place.expect_clean();
    }
}

/// The end of a terminal that is the test's; who works at the other end has it as controlling terminal.
struct Terminal(File);

impl Terminal {
    /// Starts `command` as the leader of a session at a new terminal, which has the streams that are true in `streams`.
    fn start(mut command: Command, streams: [bool; 3]) -> (Terminal, Child) {
        // Unlike those of openpty, these are closed in what other tests start: else it would not hang up.
        let ours = File::options().read(true).write(true).open("/dev/ptmx").unwrap();
        let mut name = [0; 64];
        // SAFETY: the descriptor is open, and the name has room for its length.
        let is_made = unsafe {
            libc::unlockpt(ours.as_raw_fd()) == 0
                && libc::ptsname_r(ours.as_raw_fd(), name.as_mut_ptr(), name.len()) == 0
        };
        assert!(is_made);
        // SAFETY: it ends with a zero.
        let name = unsafe { CStr::from_ptr(name.as_ptr()) }.to_str().unwrap();
        let mut options = File::options();
        let theirs = options.read(true).write(true).custom_flags(libc::O_NOCTTY).open(name).unwrap();
        let stream =
            |is_it: bool| if is_it { Stdio::from(theirs.try_clone().unwrap()) } else { Stdio::piped() };
        command.stdin(stream(streams[0])).stdout(stream(streams[1])).stderr(stream(streams[2]));
        let number = theirs.as_raw_fd();
        let take = move || {
            nix::unistd::setsid()?;
            // Tests that nohup has started would hand on that the signal is ignored.
            let default = SigAction::new(SigHandler::SigDfl, SaFlags::empty(), SigSet::empty());
            // SAFETY: no handler is installed.
            unsafe { sigaction(Signal::SIGHUP, &default) }?;
            // SAFETY: the descriptor is open until exec.
            let taken = unsafe { libc::ioctl(number, libc::TIOCSCTTY, 0) };
            if taken == 0 { Ok(()) } else { Err(std::io::Error::last_os_error()) }
        };
        // SAFETY: the closure makes three system calls.
        unsafe { command.pre_exec(take) };
        let child = command.spawn().unwrap();
        (Terminal(ours), child)
    }

    fn press(&mut self, key: u8) {
        self.0.write_all(&[key]).unwrap();
    }

    /// All that is written to the terminal until its end.
    fn text(&self) -> thread::JoinHandle<String> {
        let mut from = self.0.try_clone().unwrap();
        thread::spawn(move || {
            let mut bytes = Vec::new();
            // A terminal that nobody has open any more ends with an error.
            let _end = from.read_to_end(&mut bytes);
            String::from_utf8_lossy(&bytes).into_owned()
        })
    }
}

/// The same as the job of a shell with job control: only such a group can be stopped. The shell writes its exit code to `code`.
fn as_job(of: &Command, code: &Path) -> Command {
    let mut shell = Command::new("sh");
    shell
        .args(["-c", "set -m; \"$@\"; code=$?; echo $code > \"$0\"; test $code -lt 129 || sleep 30"])
        .arg(code);
    led_by(shell, of)
}

/// `shell`, which calls its arguments, with a command as these, its environment and its directory.
fn led_by(mut shell: Command, of: &Command) -> Command {
    shell.arg(of.get_program()).args(of.get_args());
    for (name, value) in of.get_envs() {
        match value {
            Some(value) => shell.env(name, value),
            None => shell.env_remove(name),
        };
    }
    if let Some(dir) = of.get_current_dir() {
        shell.current_dir(dir);
    }
    shell
}

const CTRL_C: u8 = 3;
const CTRL_Z: u8 = 26;
const CTRL_BACKSLASH: u8 = 28;

fn wait(child: &mut Child, longest: Duration) -> std::process::ExitStatus {
    let begun = Instant::now();
    loop {
        if let Some(status) = child.try_wait().unwrap() {
            return status;
        }
        if begun.elapsed() > longest {
            child.kill().unwrap();
            child.wait().unwrap();
            panic!("it has not ended after {longest:?}");
        }
        thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn keys_of_a_terminal_neither_pause_nor_kill_a_run_that_has_changed_settings() {
    let server = TestServer::start(&ClusterOptions::default());
    for keys in [&[CTRL_Z, CTRL_BACKSLASH][..], &[CTRL_Z, CTRL_C], &[CTRL_C, CTRL_BACKSLASH, CTRL_Z]] {
        let place = Place::new();
        let command = changing(&place, &server);
        let code = place.path("code");
        let (mut terminal, mut shell) = Terminal::start(as_job(&command, &code), [true; 3]);
        let said = terminal.text();
        place.wait_for_load("out", 1);
        for key in keys {
            terminal.press(*key);
            thread::sleep(Duration::from_millis(300));
        }
        wait(&mut shell, Duration::from_secs(40));
        let work_mem = server.ask("postgres", WORK_MEM);
        drop(terminal);
        let (code, said) = (std::fs::read_to_string(code).unwrap(), said.join().unwrap());
        assert_eq!((code.trim(), work_mem.as_str()), ("2", "4096"), "{keys:?}: {said}");
        if keys[0] == CTRL_Z {
            assert!(said.contains("pgdyno: goes on"), "{said}");
        }
        place.expect_clean();
    }
}

#[test]
fn a_terminal_that_hangs_up_ends_a_run_in_order() {
    let (place, server) = (Place::new(), TestServer::start(&ClusterOptions::default()));
    let (terminal, mut child) = Terminal::start(changing(&place, &server), [true; 3]);
    place.wait_for_load("out", 1);
    // From now on all that it writes fails.
    drop(terminal);
    let status = wait(&mut child, Duration::from_secs(40));
    assert_eq!(status.code(), Some(2), "{status}");
    assert_eq!(server.ask("postgres", WORK_MEM), "4096");
    place.expect_clean();
}

/// As `su` and `runuser` do, which lead the session and block the signal.
#[test]
fn a_terminal_that_hangs_up_ends_a_run_in_order_though_the_leader_of_its_session_keeps_the_signal() {
    let (place, server) = (Place::new(), TestServer::start(&ClusterOptions::default()));
    let (code, mut leader) = (place.path("code"), Command::new("sh"));
    leader.args(["-c", "trap : HUP; \"$@\"; echo $? > \"$0\""]).arg(&code);
    let (terminal, mut shell) = Terminal::start(led_by(leader, &changing(&place, &server)), [true; 3]);
    place.wait_for_load("out", 1);
    drop(terminal);
    wait(&mut shell, Duration::from_secs(40));
    assert_eq!(std::fs::read_to_string(code).unwrap().trim(), "2");
    assert_eq!(server.ask("postgres", WORK_MEM), "4096");
    place.expect_clean();
}

#[test]
fn keys_at_the_terminal_of_the_helper_leave_no_value_set() {
    let Some(_values) = may_set() else { return };
    let before = value(SWAPPINESS);
    for key in [CTRL_Z, CTRL_BACKSLASH, CTRL_C] {
        for is_leader in [true, false] {
            let place = Place::new();
            let (_, program) = install(&place);
            let way = with_journal(&place, &format!("exec {}", program.display()));
            let mut command = Command::new(&way[0]);
            command.args(&way[1..]);
            if !is_leader {
                command = as_job(&command, &place.path("code"));
            }
            let (mut terminal, mut child) = Terminal::start(command, [false, false, true]);
            let mut input = child.stdin.take().unwrap();
            let greeting = Greeting { nonce: "n".into(), silence_s: 5, server: None };
            let os = [("swappiness".to_string(), "7".to_string())].into();
            let lines = [
                serde_json::to_string(&greeting).unwrap(),
                serde_json::to_string(&AgentOrder { format: model::FORMAT, backend: None }).unwrap(),
                serde_json::to_string(&AgentCommand::Set(os)).unwrap(),
            ];
            input.write_all((lines.join("\n") + "\n").as_bytes()).unwrap();
            wait_until("the value", || value(SWAPPINESS) == "7");
            terminal.press(key);
            // Its silence ends the lease if the key does not.
            let begun = Instant::now();
            wait_until("the former value", || value(SWAPPINESS) == before || begun.elapsed().as_secs() > 12);
            let now = value(SWAPPINESS);
            drop(input);
            // One that is stopped holds the lock, and the value.
            for pid in place.processes() {
                let _gone = kill(Pid::from_raw(pid), Signal::SIGCONT);
            }
            assert_eq!(now, before, "key {key}, leader of its session: {is_leader}");
            // The shell waits for whoever would continue its job.
            child.kill().unwrap();
            child.wait().unwrap();
            place.expect_clean();
        }
    }
}
