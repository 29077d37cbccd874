//! Calls the user's commands before and after cases and runs. They are bounded in time and output, and get the levels of
//! their case in their environment.

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use fleet::OutputTail;
use model::experiment::case::Case;
use model::experiment::hooks::Hook;
use model::run::hooks::HookRecord;
use model::secret;
use model::text::visible::visible;
use nix::sys::signal::{Signal, killpg};
use nix::sys::wait::{Id, WaitPidFlag, WaitStatus, waitid};
use nix::unistd::Pid;
use server::process::command::wait_unless;
use server::process::spawn::spawn;

use crate::site::clock::unix_now;
use crate::site::pending_undo::{Owed, PendingUndo};
use crate::site::progress::{ProgressEvent, Watch};

/// Shortest level that is looked for in what hooks say: a shorter one is part of other words.
const SECRET_LEVEL_BYTES_MIN: usize = 4;
/// How much of the end of a command's output is kept, bytes.
const OUTPUT_BYTES_MAX: usize = 8 << 10;
/// How long a command that is asked to end may take.
const PATIENCE: Duration = Duration::from_secs(5);
/// How long the output is waited for after the end: what a command has started may hold it open.
const LAST_OUTPUT: Duration = Duration::from_millis(500);
/// How long a command may take that is no hook, where the file says nothing about hooks.
const ORDER_MAX: Duration = Duration::from_secs(60);
/// How often the end of a command is looked for.
const LOOK: Duration = Duration::from_millis(20);

/// The circumstances of a hook.
#[derive(Clone, Copy)]
pub(crate) struct Occasion<'a> {
    pub(crate) case: &'a Case,
    pub(crate) run: u32,
    pub(crate) results_dir: &'a Path,
    pub(crate) stop: &'a AtomicBool,
    pub(crate) pending_undo: &'a PendingUndo,
}

impl Occasion<'_> {
    /// Calls the command of this hook, if the case has one. From here on, what comes after it is due.
    pub(crate) fn call(&self, hook: Hook) -> Option<HookRecord> {
        if let Some(after) = after(hook).filter(|after| !self.case.hooks.words(*after).is_empty()) {
            self.pending_undo.add(after, self.timeout() + PATIENCE * 2);
        }
        let called = self.carry_out(hook);
        self.pending_undo.remove(hook);
        called
    }

    fn timeout(&self) -> Duration {
        match self.case.hooks.timeout_s {
            // A case without hooks has none.
            0 => ORDER_MAX,
            timeout_s => Duration::from_secs(timeout_s.into()),
        }
    }

    fn carry_out(&self, hook: Hook) -> Option<HookRecord> {
        let words = self.case.hooks.words(hook);
        let (program, args) = words.split_first()?;
        let mut record =
            HookRecord { hook, command: words.to_vec(), start_unix_ns: unix_now(), ..HookRecord::default() };
        let command = self.command(hook.as_str(), program, args);
        // What comes after puts back what came before, also when the user wants to stop.
        let may_be_stopped = matches!(hook, Hook::BeforeCase | Hook::BeforeRun);
        let called = self.run(command, program, may_be_stopped);
        let called =
            called.unwrap_or_else(|error| Called { failure: format!("{error:#}"), ..Called::default() });
        (record.exit_code, record.output, record.failure) = (called.exit_code, called.output, called.failure);
        record.end_unix_ns = unix_now();
        Some(record)
    }

    /// Notes that the command of an outage is to be undone before the process may end.
    pub(crate) fn owes_undo(&self) {
        self.pending_undo.add(Owed::Outage, self.timeout() + PATIENCE * 2);
    }

    /// Notes that it is undone, as far as it could be.
    pub(crate) fn has_undone(&self) {
        self.pending_undo.remove(Owed::Outage);
    }

    /// Calls a command of the user's that is no hook, for what `name` says.
    ///
    /// # Errors
    /// When it cannot be started, fails, or takes too long; with what it said.
    pub(crate) fn order(&self, name: &str, words: &[String]) -> Result<()> {
        let (program, args) = words.split_first().context("the command has no words")?;
        let called = self.run(self.command(name, program, args), program, false)?;
        ensure!(
            called.failure.is_empty(),
            "{name} {}",
            failure_words(words, &called.failure, &called.output)
        );
        Ok(())
    }

    fn command(&self, name: &str, program: &str, args: &[String]) -> Command {
        let mut command = Command::new(program);
        command.args(args).envs(self.environment(name)).stdin(Stdio::null());
        command
    }

    /// Calls a command that puts back what its counterpart has set. Its failure is noted, but takes nothing away from what
    /// was measured.
    pub(crate) fn put_back(&self, hook: Hook, watch: &mut Watch) -> Option<HookRecord> {
        let called = self.call(hook)?;
        if let Some(reason) = failure(std::slice::from_ref(&called)) {
            watch(ProgressEvent::Note(reason));
        }
        Some(called)
    }

    /// What a command may want to know. Only levels that vary, and all of `[factors]`.
    fn environment(&self, name: &str) -> Vec<(String, String)> {
        let mut all = vec![
            ("PGDYNO_HOOK".to_string(), name.to_string()),
            ("PGDYNO_CASE".to_string(), self.case.id.to_string()),
            ("PGDYNO_RUN".to_string(), self.run.to_string()),
            ("PGDYNO_LABEL".to_string(), self.case.label()),
            ("PGDYNO_RESULTS".to_string(), self.results_dir.display().to_string()),
        ];
        all.extend(levels_for_hooks(self.case));
        all
    }

    fn run(&self, mut command: Command, program: &str, may_be_stopped: bool) -> Result<Called> {
        let (output, input) = std::io::pipe().context("cannot make a pipe")?;
        command.stdout(input.try_clone()?).stderr(input);
        let mut child =
            spawn(command, Signal::SIGTERM).with_context(|| format!("cannot start `{program}`"))?;
        let kept = OutputTail::keep(output, OUTPUT_BYTES_MAX).context("cannot start a thread")?;
        let timeout = self.timeout();
        let is_stopped = || may_be_stopped && self.stop.load(Ordering::Relaxed);
        let ended = wait_unless(&mut child, Instant::now() + timeout, &is_stopped)?;
        if ended.is_none() {
            end(&mut child, &kept)?;
        }
        kept.wait(LAST_OUTPUT);
        let failure = match ended {
            Some(status) if status.success() => String::new(),
            Some(status) => format!("it failed ({status})"),
            None if is_stopped() => "it was ended because the user wanted to stop".to_string(),
            None => format!("it was ended after {} s (hooks.timeout)", timeout.as_secs()),
        };
        Ok(Called {
            exit_code: ended.and_then(|status| status.code()),
            output: without_levels(&visible(kept.text().trim_end()), self.case),
            failure,
        })
    }
}

/// A command that was called.
#[derive(Debug, Default)]
struct Called {
    exit_code: Option<i32>,
    output: String,
    /// Empty if it succeeded.
    failure: String,
}

/// The variables in which hooks of a case find its levels: those that vary, and all of `[factors]`.
pub fn levels_for_hooks(case: &Case) -> Vec<(String, String)> {
    let of_keys = case.levels.iter().filter(|(key, _)| !key.starts_with("factors."));
    of_keys.chain(&case.factors).map(|(key, level)| (variable(key), level.clone())).collect()
}

/// What a hook said, without the levels of factors that have a secret's name: pgdyno itself hands them to hooks.
fn without_levels(output: &str, case: &Case) -> String {
    let levels = levels_for_hooks(case);
    let is_secret = |(name, level): &&(String, String)| {
        level.len() >= SECRET_LEVEL_BYTES_MIN && secret::hide_value(name, level) != *level
    };
    levels
        .iter()
        .filter(is_secret)
        .fold(output.to_string(), |text, (name, level)| text.replace(level, &secret::hide_value(name, level)))
}

/// The hook that puts back what this one sets.
fn after(hook: Hook) -> Option<Hook> {
    match hook {
        Hook::BeforeCase => Some(Hook::AfterCase),
        Hook::BeforeRun => Some(Hook::AfterRun),
        Hook::AfterCase | Hook::AfterRun => None,
    }
}

/// The name of the variable for a key: `workload.clients` is PGDYNO_FACTOR_WORKLOAD_CLIENTS.
fn variable(key: &str) -> String {
    let plain = |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_uppercase() } else { '_' };
    format!("PGDYNO_FACTOR_{}", key.chars().map(plain).collect::<String>())
}

/// The first failure among hooks, in words.
pub(crate) fn failure(records: &[HookRecord]) -> Option<String> {
    let failed = records.iter().find(|record| !record.failure.is_empty())?;
    let words = failure_words(&failed.command, &failed.failure, &failed.output);
    Some(format!("hook {} {words}", failed.hook))
}

/// Why a command failed, and what it said.
fn failure_words(command: &[String], failure: &str, output: &str) -> String {
    let said = match output.trim() {
        "" => String::new(),
        output => format!("; it said: {output}"),
    };
    format!("(`{}`): {failure}{said}", secret::hide_command(command))
}

/// Asks a command and all that it has started in its session to end, and ends what has not.
fn end(child: &mut Child, output: &OutputTail) -> Result<()> {
    let leader = Pid::from_raw(i32::try_from(child.id()).context("a process id is a positive i32")?);
    let _already_gone = killpg(leader, Signal::SIGTERM);
    let deadline = Instant::now() + PATIENCE;
    while !has_ended(leader)? && Instant::now() < deadline {
        std::thread::sleep(LOOK);
    }
    // What it has started may outlive it, and ends its output when it ends.
    output.wait(deadline.saturating_duration_since(Instant::now()));
    // The command is not reaped yet: no other process group can have its number.
    let _already_gone = killpg(leader, Signal::SIGKILL);
    wait_unless(child, Instant::now() + PATIENCE, &|| false)?;
    Ok(())
}

/// Whether a child has ended; it is not reaped.
fn has_ended(child: Pid) -> Result<bool> {
    let flags = WaitPidFlag::WEXITED | WaitPidFlag::WNOHANG | WaitPidFlag::WNOWAIT;
    let status = waitid(Id::Pid(child), flags).context("cannot wait for a child process")?;
    Ok(status != WaitStatus::StillAlive)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::sample::case;

    static GO_ON: AtomicBool = AtomicBool::new(false);

    fn call(case: &Case, hook: Hook, stop: &AtomicBool) -> HookRecord {
        occasion(case, stop, &PendingUndo::new()).call(hook).unwrap()
    }

    fn occasion<'a>(case: &'a Case, stop: &'a AtomicBool, pending_undo: &'a PendingUndo) -> Occasion<'a> {
        Occasion { case, run: 7, results_dir: Path::new("/r"), stop, pending_undo }
    }

    fn hooks(command: &str, more: &str) -> Case {
        case(&format!(
            "[workload]\nclients = [2, 4]\n[factors]\nkernel = [\"6.1\", \"6.6\"]\n[hooks]\nbefore_run = [\"sh\", \"-c\", \
             {command:?}]\n{more}"
        ))
    }

    #[test]
    fn a_command_learns_the_levels_of_its_case_and_is_recorded() {
        let shown =
            "env | grep -E '^PGDYNO_(CASE|FACTOR|HOOK|LABEL|RESULTS|RUN)' | sort; printf 'bell\\007\\n' >&2";
        let record = call(&hooks(shown, ""), Hook::BeforeRun, &GO_ON);
        let expected = [
            "PGDYNO_CASE=1",
            "PGDYNO_FACTOR_KERNEL=6.1",
            "PGDYNO_FACTOR_WORKLOAD_CLIENTS=2",
            "PGDYNO_HOOK=before_run",
            "PGDYNO_LABEL=kernel 6.1, 2 clients",
            "PGDYNO_RESULTS=/r",
            "PGDYNO_RUN=7",
            "bell\\u{7}",
        ];
        assert_eq!(record.output.lines().collect::<Vec<_>>(), expected);
        assert_eq!((record.exit_code, record.failure.as_str()), (Some(0), ""));
        assert_eq!(failure(&[record]), None);
    }

    #[test]
    fn a_command_that_fails_or_hangs_is_named_with_what_it_said() {
        let failed = call(&hooks("echo no such kernel; exit 3", ""), Hook::BeforeRun, &GO_ON);
        assert_eq!(failed.exit_code, Some(3));
        let words = failure(&[failed]).unwrap();
        assert!(
            words.starts_with("hook before_run (`sh -c echo no such kernel; exit 3`): it failed"),
            "{words}"
        );
        assert!(words.ends_with("it said: no such kernel"), "{words}");
        let begun = Instant::now();
        let hung =
            call(&hooks("yes | head -c 100000; sleep 60", "timeout = \"1s\"\n"), Hook::BeforeRun, &GO_ON);
        assert!(hung.failure.contains("after 1 s (hooks.timeout)"), "{hung:?}");
        assert!(hung.output.len() <= OUTPUT_BYTES_MAX && begun.elapsed() < Duration::from_secs(5));
        let stopped = call(&hooks("sleep 60", ""), Hook::BeforeRun, &AtomicBool::new(true));
        assert!(stopped.failure.contains("the user wanted to stop"), "{stopped:?}");
        let mut absent = hooks("true", "");
        absent.hooks.before_run = vec!["/nonexistent/hook".to_string()];
        let absent = call(&absent, Hook::BeforeRun, &GO_ON);
        assert!(absent.failure.starts_with("cannot start `/nonexistent/hook`"), "{absent:?}");
    }

    #[test]
    fn what_a_command_has_started_ends_with_it_when_it_takes_too_long() {
        let survivor = "trap '' TERM; echo $$; exec >/dev/null 2>&1; while :; do sleep 1; done";
        let command = format!("sh -c \"{}\" & wait", survivor.replace('$', "\\$"));
        let hung = call(&hooks(&command, "timeout = \"1s\"\n"), Hook::BeforeRun, &GO_ON);
        let pid: u32 = hung.output.trim().parse().unwrap_or_else(|_| panic!("{hung:?}"));
        let is_running = || {
            let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
            stat.rsplit_once(')').is_some_and(|(_, rest)| !rest.trim_start().starts_with('Z'))
        };
        let begun = Instant::now();
        while is_running() && begun.elapsed() < Duration::from_secs(2) {
            std::thread::sleep(LOOK);
        }
        assert!(!is_running(), "process {pid} is left");
    }

    #[test]
    fn what_puts_back_is_due_until_it_was_called() {
        let (case, pending_undo) =
            (hooks("exit 1", "after_run = [\"true\"]\ntimeout = \"9s\"\n"), PendingUndo::new());
        let occasion = occasion(&case, &GO_ON, &pending_undo);
        assert!(
            occasion.call(Hook::BeforeCase).is_none() && pending_undo.all().is_empty(),
            "no after_case is given"
        );
        occasion.call(Hook::BeforeRun).unwrap();
        assert_eq!(pending_undo.all(), [Owed::Hook(Hook::AfterRun)], "also after one that failed");
        assert_eq!(pending_undo.longest(), Duration::from_secs(9) + PATIENCE * 2);
        occasion.put_back(Hook::AfterRun, &mut |_| {}).unwrap();
        assert!(pending_undo.all().is_empty() && pending_undo.longest().is_zero());
    }

    #[test]
    fn what_no_hook_can_set_or_name_is_refused() {
        let refused = |text: &str, expected: &str| {
            let text = format!("[experiment]\nname = \"x\"\n{text}");
            let message = match crate::plan::file::parse("x.toml", &text, &[]) {
                Ok(experiment) => crate::plan::expand::check(&experiment).unwrap_err(),
                Err(error) => error.to_string(),
            };
            assert!(message.contains(expected), "{message}");
        };
        refused("[factors]\nkernel = [\"a\", \"b\"]\n", "factors.kernel varies, but no hook sets it");
        refused("[factors]\nKernel = \"a\"\n", "factors.Kernel: a name has lower-case letters");
        refused(
            "[hooks]\ntimeout = \"0s\"\n",
            "x.toml:4:11: hooks.timeout: 0s is too short; give at least 1s",
        );
        refused("[hooks]\nafter_run = [\"\"]\n", "hooks.after_run: not a command");
    }
}
