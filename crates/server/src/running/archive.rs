//! Restores an archive of `pg_dump` over several sessions: into our own running server, with the programs of its own
//! binaries, or into a database of a server by URL, with those that this machine has for the server's version.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use model::experiment::script::archive::SET_BY_DUMPS;
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
    /// The server's version as `server_version_num`.
    pub server_num: u32,
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

    /// Creates all objects and rows of the archive in the database, or those that `selected` lists, as [`Restore::list`] does. All belong
    /// to the user of the session. Returns the settings of a newer `pg_restore` that the server does not have.
    ///
    /// # Errors
    /// With the last lines of `pg_restore`; what it did before stays.
    pub fn restore(&self, selected: Option<&str>) -> Result<Vec<&'static str>> {
        let Some(selected) = selected else { return self.restore_by(None) };
        ensure!(
            (selected.len() as u64) < untrusted::OUTPUT_BYTES_MAX / 2,
            "its list of contents is too long to leave the schema public out of it, which the database has; dump again without --schema=public"
        );
        let path = &self.restorer.list;
        let restored = self.write_list(path, selected).and_then(|()| self.restore_by(Some(path)));
        std::fs::remove_file(path).ok();
        restored
    }

    /// Writes a list for the user who runs `pg_restore`.
    fn write_list(&self, path: &Path, selected: &str) -> Result<()> {
        let written = untrusted::create(path).and_then(|mut list| list.write_all(selected.as_bytes()));
        written.with_context(|| format!("write `{}`", path.display()))?;
        self.restorer.account.own(path)
    }

    fn restore_by(&self, list: Option<&Path>) -> Result<Vec<&'static str>> {
        let mut command = self.restorer.connected("pg_restore")?;
        command.args(LEFT_OUT);
        if self.has(programs::RESTORE_WITHOUT_REPLICATION) {
            command.args(["--no-publications", "--no-subscriptions"]);
        }
        command.arg(self.jobs());
        if let Some(list) = list {
            command.arg("--use-list").arg(list);
        }
        // A newer one sets what the server does not know, and would end at that.
        let ours = Release::new(self.restorer.version_num);
        if !ours.is_of_newer_series(Release::new(self.server_num)) {
            command.arg("--exit-on-error").arg(self.archive);
            return self.run(command, self.deadline).map(|_| Vec::new());
        }
        command.arg(self.archive);
        let (status, said) = self.run_to_end(command, self.deadline)?;
        let unknown = if status.success() { Some(Vec::new()) } else { only_unknown(&said) };
        unknown.with_context(|| format!("`pg_restore` failed ({}): {}", ending(status), first_error(&said)))
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

    fn run(&self, command: Command, deadline: Instant) -> Result<String> {
        let name = name_of(&command);
        let (status, said) = self.run_to_end(command, deadline)?;
        ensure!(status.success(), "`{name}` failed ({}): {}", ending(status), last_lines(&said));
        Ok(said)
    }

    /// Runs a program that may fail. Returns how it ended and the end of what it said.
    fn run_to_end(&self, mut command: Command, deadline: Instant) -> Result<(ExitStatus, String)> {
        let name = name_of(&command);
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
        Ok((status, said))
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

fn name_of(command: &Command) -> String {
    Path::new(command.get_program()).file_name().unwrap_or_default().to_string_lossy().into_owned()
}

/// The settings of dumps that the server does not have, if `pg_restore` came to its end and complained of nothing else.
fn only_unknown(said: &str) -> Option<Vec<&'static str>> {
    let mut errors = errors(said).peekable();
    errors.peek()?;
    let mut unknown = errors.map(|(_, setting)| setting).collect::<Option<Vec<&'static str>>>()?;
    unknown.sort_unstable();
    unknown.dedup();
    let is_whole = (said.len() as u64) < untrusted::OUTPUT_BYTES_MAX;
    (is_whole && said.contains("errors ignored on restore")).then_some(unknown)
}

/// Errors of `pg_restore` by their line, with the setting of dumps that they are about.
fn errors(said: &str) -> impl Iterator<Item = (usize, Option<&'static str>)> {
    let all = said.lines().enumerate().filter(|(_, line)| line.starts_with("pg_restore: error:"));
    all.map(|(at, line)| {
        let is_of =
            |name: &&str| line.contains("unrecognized configuration parameter") && line.contains(*name);
        (at, SET_BY_DUMPS.into_iter().find(is_of))
    })
}

/// The lines from the first error on that is about anything else.
fn first_error(said: &str) -> String {
    let Some((first, _)) = errors(said).find(|(_, setting)| setting.is_none()) else {
        return last_lines(said);
    };
    let lines = said.lines().skip(first).filter(|line| !line.trim().is_empty());
    lines.take(LINES_MAX).collect::<Vec<&str>>().join("; ")
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
pub fn expect_readable(account: &Account, archive: &Path) -> Result<()> {
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

    #[test]
    fn what_an_older_server_does_not_know_is_no_failure_and_anything_else_is() {
        let unknown = "pg_restore: error: could not execute query: ERROR:  unrecognized configuration parameter \
                       \"transaction_timeout\"\nCommand was: SET transaction_timeout = 0;\n";
        let method = "pg_restore: error: could not set \"default_table_access_method\": ERROR:  unrecognized configuration parameter \
                      \"default_table_access_method\"\n";
        let other = "pg_restore: from TOC entry 5; 1259 1 TABLE t app\npg_restore: error: could not execute query: ERROR:  type \
                     \"vector\" does not exist\nCommand was: CREATE TABLE t (v vector);\n";
        let end = "pg_restore: warning: errors ignored on restore: 2\n";
        let check = |said: &str, expected: Option<&[&str]>| {
            assert_eq!(only_unknown(said).as_deref(), expected, "{said}");
        };
        check(&[unknown, unknown, end].concat(), Some(&["transaction_timeout"]));
        check(
            &[unknown, method, end].concat(),
            Some(&["default_table_access_method", "transaction_timeout"]),
        );
        check(&[unknown, other, end].concat(), None);
        check(unknown, None);
        check(end, None);
        check("pg_restore: error: could not open input file", None);
        let said = first_error(&[unknown, other, end].concat());
        assert!(said.starts_with("pg_restore: error: could not execute query: ERROR:  type"), "{said}");
        assert_eq!(first_error("killed\n"), "killed");
    }
}
