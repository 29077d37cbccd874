//! Journal of the kernel values that we set and of their previous values, and of the control groups that we made: one line
//! of JSON each, on disk before the kernel's file is written, and kept until the value is restored.
//!
//! A reboot restores everything by itself, so lines of another boot are ignored.

use std::fs::{self, OpenOptions};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use files::Owner;
use model::load::hands::RestoredValue;
use nix::unistd::geteuid;
use serde::{Deserialize, Serialize};

use crate::holders;
use crate::kernel_files::KernelFiles;
use crate::queue;

/// Begin of the names of our control groups: no other is ever removed.
pub(crate) const GROUP: &str = "pgdyno-";
/// Current value of a group that was removed.
pub const REMOVED: &str = "removed";
/// How long the processes of a group may take to leave it.
const DISBAND_MAX: Duration = Duration::from_secs(3);
/// Pause before it is tried again.
const PAUSE: Duration = Duration::from_millis(5);
/// Far more than the values of one case need. Half of it is left for lines that say what was set.
const BYTES_MAX: u64 = 1 << 20;

/// First the value that is about to be set, then the value that the kernel made of it; or a group.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum JournalLine {
    Setting {
        path: String,
        before: String,
        wanted: String,
        /// Kernel's `boot_id` when the line was written.
        #[serde(default)]
        boot_id: String,
        /// Files that the kernel resets with this one, and their values before.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        reset: Vec<(String, String)>,
        /// Who sets it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        by: Option<Owner>,
    },
    Set {
        path: String,
        is: String,
    },
    /// A control group that is about to be made.
    Group {
        path: String,
        /// The group to which its processes go when it is removed.
        home: String,
        #[serde(default)]
        boot_id: String,
        /// Who makes it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        by: Option<Owner>,
    },
}

#[derive(Debug)]
pub(crate) struct HostJournal {
    path: PathBuf,
    /// Its values stay for weeks, in which the administrator may set others.
    stays: bool,
}

/// Result of restoring a value, and whether the journal still needs its lines.
enum Fate {
    Back,
    /// There is no value that we could restore.
    GivenUp(String),
    /// The value can be restored later, if it is then still `now`.
    Kept {
        now: String,
        problem: String,
    },
}

impl HostJournal {
    pub(crate) fn at(path: PathBuf) -> HostJournal {
        HostJournal { path, stays: false }
    }

    /// Journal of values that stay after the pgdyno that set them.
    pub(crate) fn to_stay_at(path: PathBuf) -> HostJournal {
        HostJournal { path, stays: true }
    }

    pub(crate) fn exists(&self) -> bool {
        fs::symlink_metadata(&self.path).is_ok()
    }

    pub(crate) fn setting(&self, machine: &KernelFiles, path: &str, wanted: &str) -> Result<()> {
        let (before, boot_id) = (machine.read(path)?, machine.boot_id());
        let length = fs::symlink_metadata(&self.path).map_or(0, |facts| facts.len());
        ensure!(
            length <= BYTES_MAX / 2,
            "`{}` is full: restore values before more are set",
            self.path.display()
        );
        let reset = queue::reset_with(machine, path);
        let (path, wanted) = (path.to_string(), wanted.to_string());
        self.append(&JournalLine::Setting { path, before, wanted, boot_id, reset, by: Some(Owner::this()) })
    }

    pub(crate) fn set(&self, path: &str, is: &str) -> Result<()> {
        self.append(&JournalLine::Set { path: path.to_string(), is: is.to_string() })
    }

    pub(crate) fn making(&self, machine: &KernelFiles, path: &str, home: &str) -> Result<()> {
        let (path, home) = (path.to_string(), home.to_string());
        self.append(&JournalLine::Group { path, home, boot_id: machine.boot_id(), by: Some(Owner::this()) })
    }

    fn append(&self, line: &JournalLine) -> Result<()> {
        let write = || -> io::Result<()> {
            let mut options = OpenOptions::new();
            let mut file =
                files::open_with(&self.path, options.append(true).create(true).mode(files::PRIVATE))?;
            let facts = file.metadata()?;
            if facts.uid() != geteuid().as_raw() || facts.nlink() > 1 {
                return Err(io::Error::other("it was not written by pgdyno; remove it"));
            }
            file.write_all(format!("{}\n", serde_json::to_string(line)?).as_bytes())?;
            file.sync_all()?;
            files::sync_parent(&self.path)
        };
        write().with_context(|| format!("write `{}`", self.path.display()))
    }

    /// Removes the lines of `path` if its value `now` is not the one that we set: it is somebody else's, and what was there
    /// before ours no longer counts. Returns the remaining lines.
    pub(crate) fn forget_changed(
        &self,
        machine: &KernelFiles,
        path: &str,
        now: &str,
    ) -> Result<Vec<JournalLine>> {
        if !self.exists() {
            return Ok(Vec::new());
        }
        let mut lines = self.read()?;
        if !are_of_this_boot(machine, &lines) {
            lines.clear();
        } else if last_set(path, &lines, self.stays).is_some_and(|is| is != now) {
            lines.retain(|line| line.path() != path);
        }
        self.keep(&lines)?;
        Ok(lines)
    }

    /// Restores all values, the last one first. Values that could not be restored stay in the journal; an empty journal
    /// is removed.
    pub(crate) fn undo(&self, machine: &KernelFiles) -> Result<Vec<RestoredValue>> {
        if !self.exists() {
            return Ok(Vec::new());
        }
        let lines = self.read()?;
        let mut undone: Vec<RestoredValue> = Vec::new();
        let mut kept: Vec<JournalLine> = Vec::new();
        let paths = if are_of_this_boot(machine, &lines) { paths(&lines) } else { Vec::new() };
        for path in paths {
            let of_group =
                lines.iter().find(|line| matches!(line, JournalLine::Group { path: of, .. } if of == path));
            if let Some(line @ JournalLine::Group { home, .. }) = of_group {
                let gone =
                    RestoredValue { left: self.left(path, &lines), ..self.disbanded(machine, path, home) };
                kept.extend(gone.is_kept.then(|| line.clone()));
                undone.push(gone);
                continue;
            }
            let fate = self.put_back(machine, path, &lines);
            let now = machine.read(path).unwrap_or_default();
            let is_kept = matches!(fate, Fate::Kept { .. });
            let problem = match fate {
                Fate::Back => None,
                Fate::GivenUp(problem) => Some(problem),
                Fate::Kept { now, problem } => {
                    let of_path = lines.iter().find(|line| line.is_setting_of(path)).cloned();
                    kept.splice(
                        0..0,
                        of_path.into_iter().chain([JournalLine::Set { path: path.to_string(), is: now }]),
                    );
                    Some(format!("{problem}; `{}` keeps it", self.path.display()))
                }
            };
            undone.push(RestoredValue {
                path: path.to_string(),
                now,
                problem,
                is_kept,
                left: self.left(path, &lines),
                remains: holders::lent(machine, path),
            });
        }
        self.keep(&kept)?;
        Ok(undone)
    }

    /// Whose a value was that another process restores. One that was to stay was not left.
    fn left(&self, path: &str, lines: &[JournalLine]) -> Option<String> {
        let by = lines.iter().filter(|line| line.path() == path).find_map(JournalLine::by);
        by.filter(|_| !self.stays)?.left()
    }

    /// Another process that has set values of this journal and lives: it restores them, whoever has the lock. Somebody may have
    /// removed the lock's file.
    ///
    /// # Errors
    /// When the journal cannot be read.
    pub(crate) fn living_owner(&self, machine: &KernelFiles) -> Result<Option<Owner>> {
        if self.stays || !self.exists() {
            return Ok(None);
        }
        let lines = self.read()?;
        let mut owners = lines.iter().filter_map(JournalLine::by);
        let of_this_boot = are_of_this_boot(machine, &lines);
        Ok(owners.find(|owner| of_this_boot && owner.is_another_that_lives()).cloned())
    }

    /// What the journal names, the last one first, each with the process that has set it and lives, if it is another one.
    ///
    /// # Errors
    /// When the journal cannot be read.
    pub(crate) fn held(&self, machine: &KernelFiles) -> Result<Vec<(String, Option<String>)>> {
        let lines = self.read()?;
        if !are_of_this_boot(machine, &lines) {
            return Ok(Vec::new());
        }
        let owner = |path: &str| {
            let mut owners = lines.iter().filter(|line| line.path() == path).filter_map(JournalLine::by);
            owners.find(|owner| owner.is_another_that_lives()).map(Owner::words)
        };
        Ok(paths(&lines).into_iter().map(|path| (path.to_string(), owner(path))).collect())
    }

    fn read(&self) -> Result<Vec<JournalLine>> {
        let context = || format!("read `{}`", self.path.display());
        let bytes = files::trust::read(&self.path, BYTES_MAX).with_context(context)?;
        let text = String::from_utf8(bytes).with_context(context)?;
        // The last line may be torn; nothing was set after it then.
        let whole = text.rfind('\n').map_or("", |end| &text[..end]);
        let lines: serde_json::Result<Vec<JournalLine>> = whole.lines().map(serde_json::from_str).collect();
        let lines = lines.with_context(|| {
            format!(
                "`{}` is damaged; restore by hand the values that it names, then remove it",
                self.path.display()
            )
        })?;
        for line in &lines {
            ensure!(
                line.may_be_disbanded(),
                "`{}` names `{}`, which is no control group of pgdyno",
                self.path.display(),
                line.path()
            );
            for path in line.paths() {
                ensure!(
                    is_of_kernel(path),
                    "`{}` names `{path}`, which is not a kernel setting",
                    self.path.display()
                );
            }
        }
        Ok(lines)
    }

    /// Replaces the lines of the journal; without any, it is removed.
    pub(crate) fn keep(&self, lines: &[JournalLine]) -> Result<()> {
        if lines.is_empty() && !self.exists() {
            return Ok(());
        }
        let write = || -> io::Result<()> {
            if lines.is_empty() {
                fs::remove_file(&self.path)?;
                return files::sync_parent(&self.path);
            }
            let text: serde_json::Result<String> =
                lines.iter().map(|line| Ok(format!("{}\n", serde_json::to_string(line)?))).collect();
            files::replace(&self.path, files::PRIVATE, text?.as_bytes())
        };
        write().with_context(|| format!("write `{}`", self.path.display()))
    }

    /// Moves the processes of one of our groups to where they would be without it, and removes it.
    fn disbanded(&self, machine: &KernelFiles, path: &str, home: &str) -> RestoredValue {
        let removed = disband(machine, path, home);
        let problem = removed.err().map(|error| format!("{error}; `{}` keeps it", self.path.display()));
        let (is_kept, now) = (problem.is_some(), if problem.is_some() { "there" } else { REMOVED });
        RestoredValue {
            path: path.to_string(),
            now: now.to_string(),
            problem,
            is_kept,
            left: None,
            remains: None,
        }
    }

    fn put_back(&self, machine: &KernelFiles, path: &str, lines: &[JournalLine]) -> Fate {
        let first = lines.iter().find_map(|line| match line {
            JournalLine::Setting { path: of, before, reset, .. } if of == path => {
                Some((before.as_str(), reset))
            }
            _ => None,
        });
        let last = last_set(path, lines, self.stays);
        let Some((before, reset)) = first else {
            return Fate::GivenUp("its previous value is unknown".to_string());
        };
        if !machine.exists(path) {
            return Fate::GivenUp(format!("it no longer exists (device removed?); it was {before}"));
        }
        let kept = |now: String, why: &str| Fate::Kept { now, problem: format!("{why}; it was {before}") };
        let now = match machine.read(path) {
            Ok(now) => now,
            Err(error) => return kept(last.unwrap_or_default().to_string(), &format!("{error:#}")),
        };
        let with_reset = |now: String| match queue::put_back(machine, reset) {
            Ok(()) => Fate::Back,
            Err(error) => kept(now, &format!("{error:#}")),
        };
        if now == before {
            // A process that was killed may have restored this one alone. What was to stay, somebody else has restored, and has had
            // time to set the others.
            return if self.stays { Fate::Back } else { with_reset(now) };
        }
        if let Some(is) = last
            && is != now
        {
            return Fate::GivenUp(format!(
                "it was changed from {is} in the meantime and is left alone; it was {before}"
            ));
        }
        let written = machine.write(path, before);
        match (written, machine.read(path)) {
            (Ok(()), Ok(now)) if now == before => with_reset(now),
            (Err(error), is) => kept(is.unwrap_or(now), &format!("{error:#}")),
            (_, is) => kept(is.unwrap_or(now), "the kernel does not accept its previous value"),
        }
    }
}

impl JournalLine {
    fn path(&self) -> &str {
        match self {
            JournalLine::Setting { path, .. }
            | JournalLine::Set { path, .. }
            | JournalLine::Group { path, .. } => path,
        }
    }

    fn by(&self) -> Option<&Owner> {
        match self {
            JournalLine::Setting { by, .. } | JournalLine::Group { by, .. } => by.as_ref(),
            JournalLine::Set { .. } => None,
        }
    }

    /// Every file that it names.
    fn paths(&self) -> impl Iterator<Item = &str> {
        let reset = match self {
            JournalLine::Setting { reset, .. } => reset.as_slice(),
            _ => &[],
        };
        std::iter::once(self.path()).chain(reset.iter().map(|(path, _)| path.as_str()))
    }

    /// False for a group that pgdyno would not have made.
    fn may_be_disbanded(&self) -> bool {
        let JournalLine::Group { path, home, .. } = self else { return true };
        is_of_kernel(home) && path.rsplit('/').next().is_some_and(|name| name.starts_with(GROUP))
    }

    fn is_setting_of(&self, path: &str) -> bool {
        matches!(self, JournalLine::Setting { path: of, .. } if of == path)
    }
}

/// Removes a group once it has no process. Those that end or begin meanwhile are waited for.
fn disband(machine: &KernelFiles, group: &str, home: &str) -> io::Result<()> {
    let begun = Instant::now();
    loop {
        for pid in machine.words(&format!("{group}/cgroup.procs")) {
            // One that has ended needs no group.
            machine.write(&format!("{home}/cgroup.procs"), &pid).ok();
        }
        match fs::remove_dir(machine.path(group)) {
            Ok(()) => return Ok(()),
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
            Err(error) if begun.elapsed() >= DISBAND_MAX => return Err(error),
            Err(_) => std::thread::sleep(PAUSE),
        }
    }
}

/// Each path once, the one set last first.
fn paths(lines: &[JournalLine]) -> Vec<&str> {
    let mut paths: Vec<&str> = Vec::new();
    for line in lines {
        if !paths.contains(&line.path()) {
            paths.insert(0, line.path());
        }
    }
    paths
}

fn is_of_kernel(path: &str) -> bool {
    (path.starts_with("/proc/sys/") || path.starts_with("/sys/")) && !path.split('/').any(|part| part == "..")
}

fn are_of_this_boot(machine: &KernelFiles, lines: &[JournalLine]) -> bool {
    let now = machine.boot_id();
    lines.iter().all(|line| match line {
        JournalLine::Setting { boot_id: of, .. } | JournalLine::Group { boot_id: of, .. } => {
            of.is_empty() || now.is_empty() || *of == now
        }
        JournalLine::Set { .. } => true,
    })
}

/// Value that we set last, so far as it is known: a process that is killed may have set what it wanted or not. Of a value
/// that stays, any other than the wanted one is then somebody else's.
fn last_set<'a>(path: &str, lines: &'a [JournalLine], stays: bool) -> Option<&'a str> {
    match lines.iter().rev().find(|line| line.path() == path)? {
        JournalLine::Set { is, .. } => Some(is),
        JournalLine::Setting { wanted, .. } => stays.then_some(wanted),
        JournalLine::Group { .. } => None,
    }
}
