//! Calls the user's command that restarts a server, and waits until the server is there again.

use std::fs::{self, File};
use std::io::{Read, Seek, SeekFrom};
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use model::text::visible::visible;
use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;
use wire::Conninfo;

use super::{identity, state};
use crate::process::command::{ending, wait_until};
use crate::process::spawn::spawn_to_outlive;

/// How long the command may take: a shutdown writes all of a large buffer pool.
pub(super) const COMMAND_MAX: Duration = Duration::from_secs(300);
/// How long the server may take after that to accept connections.
pub(super) const START_MAX: Duration = Duration::from_secs(120);
const PAUSE: Duration = Duration::from_millis(100);
/// How much of the end of what the command said is shown.
const SAID_BYTES_MAX: u64 = 4 << 10;

/// Restarts the server, whose clock is at `called_at` (seconds since 1970); returns how long it took. A server that was started
/// earlier was not restarted, even if it is not the one from before: another one may answer. What the command says is in `log_path`: the
/// command outlives this process, which would otherwise leave a server stopped, and a pipe would end with this process.
///
/// # Errors
/// When the command fails, or no server that was started later accepts connections in time.
pub(super) fn restart(
    words: &[String],
    conninfo: &Conninfo,
    log_path: &Path,
    called_at: f64,
) -> Result<Duration> {
    let begun = Instant::now();
    let name = words.join(" ");
    let called = call(words, log_path);
    let failure = called.with_context(|| format!("the restart command `{name}`"));
    let ended = Instant::now();
    // A command that has failed may have restarted the server all the same.
    let patience = if failure.is_ok() { START_MAX } else { Duration::from_secs(2) };
    loop {
        let started = state::open(conninfo).and_then(|mut session| identity::postmaster_start(&mut session));
        let last = match started {
            Ok(start) if start > called_at => {
                failure?;
                fs::remove_file(log_path).ok();
                return Ok(begun.elapsed());
            }
            Ok(_) => "it was not restarted: the server that answers was started before that".to_string(),
            Err(error) => format!("{error:#}"),
        };
        if ended.elapsed() >= patience {
            failure?;
            bail!(
                "`{name}` has ended, but the server is not back after {} s: {last}{}",
                patience.as_secs(),
                said(log_path)
            );
        }
        thread::sleep(PAUSE);
    }
}

fn call(words: &[String], log_path: &Path) -> Result<()> {
    let (program, args) = words.split_first().context("there is none")?;
    fs::remove_file(log_path).ok();
    let log = files::create_new(log_path, files::PRIVATE)
        .with_context(|| format!("create `{}`", log_path.display()))?;
    let mut command = Command::new(program);
    command.args(args).stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log);
    let mut child = spawn_to_outlive(command).context("cannot be started")?;
    let Some(status) = wait_until(&mut child, Instant::now() + COMMAND_MAX)? else {
        let leader = Pid::from_raw(i32::try_from(child.id()).context("a process id is a positive i32")?);
        // It leads its own session, and is not reaped yet: no other group has its number.
        killpg(leader, Signal::SIGTERM).ok();
        bail!("has not ended after {} s, and was asked to end{}", COMMAND_MAX.as_secs(), said(log_path));
    };
    if !status.success() {
        bail!("failed: {}{}", ending(status), said(log_path));
    }
    Ok(())
}

/// The end of what the command said, in words.
fn said(log_path: &Path) -> String {
    let read = || -> std::io::Result<Vec<u8>> {
        let mut file: File = files::open(log_path)?;
        let length = file.metadata()?.len();
        file.seek(SeekFrom::Start(length.saturating_sub(SAID_BYTES_MAX)))?;
        let mut bytes = Vec::new();
        file.take(SAID_BYTES_MAX).read_to_end(&mut bytes)?;
        Ok(bytes)
    };
    let text = String::from_utf8_lossy(&read().unwrap_or_default()).trim().to_string();
    if text.is_empty() { String::new() } else { format!("; it said: {}", visible(&text)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_that_fails_is_reported_with_what_it_said() {
        let place = tempfile::tempdir().unwrap();
        let log = place.path().join("log");
        let words = |text: &str| ["sh", "-c", text].map(str::to_string).to_vec();
        let failed = format!("{:#}", call(&words("echo no such unit; exit 5"), &log).unwrap_err());
        assert_eq!(failed, "failed: it ended with exit code 5; it said: no such unit");
        call(&words("true"), &log).unwrap();
        let absent = format!("{:#}", call(&["/nonexistent/ctl".to_string()], &log).unwrap_err());
        assert!(absent.starts_with("cannot be started"), "{absent}");
    }

    #[test]
    fn a_command_has_its_own_session_so_that_ctrl_c_does_not_reach_it() {
        let place = tempfile::tempdir().unwrap();
        let (log, out) = (place.path().join("log"), place.path().join("out"));
        let text = format!("cut -d' ' -f6 /proc/$$/stat > {0}; echo $$ >> {0}", out.display());
        call(&["sh", "-c", &text].map(str::to_string), &log).unwrap();
        let said = fs::read_to_string(out).unwrap();
        let words: Vec<&str> = said.split_whitespace().collect();
        assert!(matches!(words[..], [session, process] if session == process), "{said}");
    }
}
