//! Runs PostgreSQL's programs: as the server's user, in English, in a clean environment.

use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use nix::sys::signal::Signal;

use crate::process::environment;
use crate::process::spawn::spawn;
use crate::user::account::Account;
use crate::user::untrusted;

/// `program`, to be run as `account` in `work_dir`. The caller's variables would change the server, and may hold
/// passwords; a service manager's would make the server report its readiness in our name.
pub(crate) fn server_command(program: &Path, account: &Account, work_dir: &Path) -> Command {
    let mut command = Command::new(program);
    environment::clean(&mut command);
    command.current_dir(work_dir).stdin(Stdio::null());
    account.apply(&mut command);
    command
}

/// Runs `command` to its end with its output in `log_path`, which is replaced; returns the output.
pub(crate) fn run_logged(mut command: Command, log_path: &Path, deadline: Duration) -> Result<String> {
    let name =
        Path::new(command.get_program()).file_name().unwrap_or_default().to_string_lossy().into_owned();
    let log = untrusted::create(log_path).with_context(|| format!("create `{}`", log_path.display()))?;
    command.stdout(log.try_clone()?).stderr(log);
    let mut child = spawn(command, Signal::SIGTERM).with_context(|| format!("cannot start `{name}`"))?;
    let status = match wait_until(&mut child, Instant::now() + deadline)? {
        Some(status) => status,
        None => {
            child.kill().ok();
            child.wait().ok();
            bail!("`{name}` did not end within {} s; see `{}`", deadline.as_secs(), log_path.display());
        }
    };
    let text = untrusted::read_output(log_path)?;
    if !status.success() {
        bail!("`{name}` failed ({}):\n{}", ending(status), text.trim_end());
    }
    Ok(text)
}

/// Waits for the end of `child`; `None` if the deadline passes first.
pub(crate) fn wait_until(child: &mut Child, deadline: Instant) -> Result<Option<ExitStatus>> {
    wait_unless(child, deadline, &|| false)
}

/// As [`wait_until`]; `None` also when `is_stopped`.
///
/// # Errors
/// When the kernel does not let us wait.
pub fn wait_unless(
    child: &mut Child,
    deadline: Instant,
    is_stopped: &dyn Fn() -> bool,
) -> Result<Option<ExitStatus>> {
    let mut pause = Duration::from_millis(1);
    loop {
        if let Some(status) = child.try_wait().context("cannot wait for a child process")? {
            return Ok(Some(status));
        }
        if Instant::now() >= deadline || is_stopped() {
            return Ok(None);
        }
        thread::sleep(pause);
        pause = (pause * 2).min(Duration::from_millis(20));
    }
}

/// How a process ended, in words.
pub(crate) fn ending(status: ExitStatus) -> String {
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("it ended with exit code {code}"),
        (_, Some(signal)) => {
            let name = Signal::try_from(signal).map_or("unknown", Signal::as_str);
            format!("it was ended by signal {signal} ({name})")
        }
        _ => "it ended".to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_that_hangs_is_ended() {
        let dir = tempfile::tempdir().unwrap();
        let log = dir.path().join("log");
        let mut command = Command::new("sh");
        command.args(["-c", "echo $$; exec sleep 60"]);
        let error = run_logged(command, &log, Duration::from_millis(500)).unwrap_err().to_string();
        assert!(error.starts_with("`sh` did not end within 0 s; see `"), "{error}");
        let pid = std::fs::read_to_string(&log).unwrap();
        assert!(!Path::new(&format!("/proc/{}", pid.trim())).exists(), "it is still running");
    }
}
