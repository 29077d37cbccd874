//! Restores an archive of `pg_dump` over several sessions: into our own running server, with the programs of its own
//! binaries, or into a database of a server by URL, with those that this machine has for the server's version.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use model::release::{Feature, Release, programs};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::process::command::{ending, wait_unless};
use crate::process::spawn::spawn;
use crate::running::restorer::Restorer;
use crate::user::account::Account;
use crate::user::untrusted;

/// How long listing the contents of an archive may take: those of custom archives are read up to their end.
const LIST_DEADLINE: Duration = Duration::from_secs(300);
/// How long a program may take to end when it is asked to: it cancels its statements.
const END_PATIENCE: Duration = Duration::from_secs(5);
/// Lines of a failed program's output in a message.
const LINES_MAX: usize = 12;
/// What a cluster of our own has no use or no place for.
const LEFT_OUT: [&str; 4] = ["--no-owner", "--no-privileges", "--no-tablespaces", "--no-security-labels"];

/// An archive, and who restores it.
#[derive(Debug)]
pub struct Restore<'a> {
    /// The programs, and the database that they restore into.
    pub restorer: &'a Restorer,
    /// File or directory, by its absolute path.
    pub archive: &'a Path,
    /// Sessions.
    pub n_jobs: usize,
    /// The end of the time that each program has.
    pub deadline: Instant,
    /// Set to end early.
    pub stop: &'a AtomicBool,
}

impl Restore<'_> {
    /// The output of `pg_restore --list`.
    ///
    /// # Errors
    /// When the user who runs `pg_restore` cannot read the archive, or it is missing or too old for it.
    pub fn list(&self) -> Result<String> {
        expect_readable(&self.restorer.account, self.archive)?;
        let mut command = self.restorer.program("pg_restore")?;
        command.arg("--list").arg(self.archive);
        let deadline = self.deadline.min(Instant::now() + LIST_DEADLINE);
        self.run(command, deadline)
    }

    /// The statements that create the archive's objects, without its rows; of a very long one the end.
    ///
    /// # Errors
    /// As [`Restore::list`].
    pub fn schema(&self) -> Result<String> {
        let mut command = self.restorer.program("pg_restore")?;
        command.args(LEFT_OUT).arg("--schema-only");
        if self.has(programs::RESTORE_NAMES_OUTPUT) {
            command.arg("--file=-");
        }
        command.arg(self.archive);
        self.run(command, self.deadline.min(Instant::now() + LIST_DEADLINE))
    }

    /// Creates all objects and rows of the archive in the database. All belong to the user of the session.
    ///
    /// # Errors
    /// With the last lines of `pg_restore`; what it did before stays.
    pub fn restore(&self) -> Result<()> {
        let mut command = self.restorer.connected("pg_restore")?;
        command.args(LEFT_OUT);
        if self.has(programs::RESTORE_WITHOUT_REPLICATION) {
            command.args(["--no-publications", "--no-subscriptions"]);
        }
        command.args(["--exit-on-error", &self.jobs()]).arg(self.archive);
        self.run(command, self.deadline).map(drop)
    }

    /// Vacuums, freezes and analyzes the database, so that no run does it first.
    ///
    /// # Errors
    /// With the last lines of `vacuumdb`.
    pub fn vacuum(&self) -> Result<()> {
        let mut command = self.restorer.connected("vacuumdb")?;
        command.args(["--freeze", "--analyze", "--quiet"]);
        if self.has(programs::VACUUMDB_JOBS) {
            command.arg(self.jobs());
        }
        self.run(command, self.deadline).map(drop)
    }

    fn has(&self, feature: Feature) -> bool {
        Release::new(self.restorer.version_num).has(feature)
    }

    fn jobs(&self) -> String {
        format!("--jobs={}", self.n_jobs)
    }

    fn run(&self, mut command: Command, deadline: Instant) -> Result<String> {
        let program = Path::new(command.get_program()).file_name().unwrap_or_default();
        let name = program.to_string_lossy().into_owned();
        let log_path: &PathBuf = &self.restorer.log;
        let log = untrusted::create(log_path).with_context(|| format!("create `{}`", log_path.display()))?;
        let reader = untrusted::open(log_path)?;
        // Without a name it does not outlive us, however we end.
        std::fs::remove_file(log_path)?;
        command.stdout(log.try_clone()?).stderr(log);
        let ended = self.wait(command, &name, deadline);
        let said = untrusted::read_end(reader)?;
        let Some(status) = ended? else {
            let last = last_lines(&said);
            let what = if last.is_empty() { String::new() } else { format!("; it said: {last}") };
            bail!("`{name}` did not end in time (run.phase_timeout){what}");
        };
        ensure!(status.success(), "`{name}` failed ({}): {}", ending(status), last_lines(&said));
        Ok(said)
    }

    /// Waits for a program's end; `None` if its time is over, and it was ended.
    fn wait(&self, command: Command, name: &str, deadline: Instant) -> Result<Option<ExitStatus>> {
        let mut child = spawn(command, Signal::SIGTERM).with_context(|| format!("cannot start `{name}`"))?;
        let is_stopped = || self.stop.load(Ordering::Relaxed);
        let ended = wait_unless(&mut child, deadline, &is_stopped)?;
        if ended.is_none() {
            end(&mut child);
            ensure!(!is_stopped(), "stopped while `{name}` ran");
        }
        Ok(ended)
    }
}

/// Ends a program and all processes that it started. They are in a session of their own.
fn end(child: &mut Child) {
    let pid = Pid::from_raw(child.id().cast_signed());
    kill(pid, Signal::SIGTERM).ok();
    let deadline = Instant::now() + END_PATIENCE;
    let ended = wait_unless(child, deadline, &|| false).ok().flatten();
    // Not after its end: the number could be another's.
    if ended.is_none() {
        nix::sys::signal::killpg(pid, Signal::SIGKILL).ok();
        child.wait().ok();
    }
}

/// The errors of a program that says a line for each object that it restores.
fn last_lines(said: &str) -> String {
    let lines: Vec<&str> = said.lines().filter(|line| !line.trim().is_empty()).collect();
    lines[lines.len().saturating_sub(LINES_MAX)..].join("; ")
}

/// Fails if the user who runs `pg_restore` cannot read the archive.
///
/// # Errors
/// Names the user and the file.
fn expect_readable(account: &Account, archive: &Path) -> Result<()> {
    let look = || -> std::io::Result<()> {
        let real = archive.canonicalize()?;
        if !real.is_dir() {
            return files::open(&real).map(drop);
        }
        for entry in std::fs::read_dir(&real)? {
            let entry = entry?;
            if entry.file_type()?.is_file() {
                files::open(&entry.path()).map_err(|error| {
                    std::io::Error::new(error.kind(), format!("{}: {error}", entry.file_name().display()))
                })?;
            }
        }
        Ok(())
    };
    account.act(look).with_context(|| {
        format!(
            "user `{}`, who runs pg_restore, cannot read `{}`; let that user read it and enter the directories above it, or \
             move it",
            account.name,
            archive.display()
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_has_the_last_lines_of_a_long_output() {
        let said: String = (0..100).map(|n| format!("line {n}\n\n")).collect();
        let brief = last_lines(&said);
        assert!(brief.starts_with("line 88; ") && brief.ends_with("line 99"), "{brief}");
        assert_eq!(last_lines(""), "");
    }
}
