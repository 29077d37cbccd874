//! Sets kernel values for one pgdyno at a time and restores them when it is done.
//!
//! ```text
//! /run/pgdyno/os.lock        locked by the pgdyno that sets values; the kernel releases it when that process ends
//! /run/pgdyno/os-undo.jsonl  previous values
//! /run/pgdyno/os-kept.jsonl  previous values of those that were set to stay
//! ```

use std::fs::{self, File, TryLockError};
use std::io::{ErrorKind, Seek, Write};
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail, ensure};
use model::load::hands::RestoredValue;

use crate::journal::{GROUP, HostJournal};
use crate::kernel_files::KernelFiles;
use crate::lock::{HostLock, holder_by_kernel, lock_within};
use crate::queue;

const DIR: &str = "/run/pgdyno";
const LOCK: &str = "/run/pgdyno/os.lock";
const JOURNAL: &str = "/run/pgdyno/os-undo.jsonl";
/// Its values are restored on request alone: no other pgdyno does that at its start.
const KEPT: &str = "/run/pgdyno/os-kept.jsonl";
const HOLDER_BYTES_MAX: u64 = 4096;

/// The right to set values, and the duty to restore them. Values that cannot be restored stay in the journal.
#[derive(Debug)]
pub struct Keeper {
    machine: KernelFiles,
    journal: HostJournal,
    _lock: HostLock,
}

/// A value that another pgdyno has set, which lives and restores it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HeldValue {
    /// The kernel's file, or the control group; the journal, if it is another user's.
    pub path: String,
    /// Its value now; empty for a control group and a journal.
    pub now: String,
    /// Which pgdyno, in words.
    pub by: String,
}

impl Keeper {
    /// Acquires the right. Values that a dead pgdyno left behind are restored first, and returned.
    ///
    /// # Errors
    /// When another pgdyno has it, or the directory is not writable.
    pub fn take(machine: &KernelFiles) -> Result<(Keeper, Vec<RestoredValue>)> {
        Keeper::take_within(machine, Duration::ZERO)
    }

    /// As [`Keeper::take`], but waits so long for another pgdyno that has the right: one that has lost its own pgdyno is
    /// about to restore its values.
    ///
    /// # Errors
    /// As [`Keeper::take`].
    pub fn take_within(machine: &KernelFiles, patience: Duration) -> Result<(Keeper, Vec<RestoredValue>)> {
        // The contents of this directory decide what root writes into the kernel's files.
        files::trust::make_directory(&machine.path(DIR))?;
        let file = files::lock_file(&machine.path(LOCK)).with_context(|| format!("open `{LOCK}`"))?;
        let mut lock = match lock_within(file, patience) {
            Ok(lock) => lock,
            Err(TryLockError::WouldBlock) => {
                bail!(
                    "another pgdyno (process {}) is using the [os] settings; wait until it ends",
                    holder(machine)
                );
            }
            Err(TryLockError::Error(error)) => return Err(error).with_context(|| format!("lock `{LOCK}`")),
        };
        let journal = HostJournal::at(machine.path(JOURNAL));
        if let Some(owner) = journal.living_owner(machine)? {
            bail!("{} is using the [os] settings; wait until it ends", owner.words());
        }
        lock.0.set_len(0)?;
        lock.0.rewind()?;
        write!(lock.0, "{}", std::process::id())?;
        let undone = journal.undo(machine)?;
        Ok((Keeper { machine: machine.clone(), journal, _lock: lock }, undone))
    }

    /// Sets one value and checks that it is in force. Returns the previous value.
    ///
    /// # Errors
    /// When the kernel does not accept it.
    pub fn set(&mut self, path: &str, value: &str) -> Result<String> {
        let before = self.machine.read(path)?;
        if before == value {
            return Ok(before);
        }
        let is = self.try_set(path, value)?;
        ensure!(
            is == value,
            "`{path}` is {is} after {value} was written to it: the kernel does not accept {value}"
        );
        Ok(before)
    }

    /// Sets one value as far as the kernel accepts it; returns the resulting value.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn try_set(&mut self, path: &str, value: &str) -> Result<String> {
        set_in(&self.journal, &self.machine, path, value)
    }

    /// Sets one value that stays after the keeper is gone, until [`undo_kept`]. Returns the previous value.
    ///
    /// # Errors
    /// When the kernel does not accept it; the previous value is then in force again.
    pub fn set_to_stay(&mut self, path: &str, value: &str) -> Result<String> {
        let before = self.machine.read(path)?;
        if before == value {
            return Ok(before);
        }
        let journal = HostJournal::to_stay_at(self.machine.path(KEPT));
        let lines = journal.forget_changed(&self.machine, path, &before)?;
        let reset = queue::reset_with(&self.machine, path);
        let refused = match set_in(&journal, &self.machine, path, value) {
            Ok(is) if is == value => return Ok(before),
            Ok(is) => {
                anyhow!(
                    "`{path}` was {is} after {value} was written to it: the kernel does not accept {value}"
                )
            }
            Err(error) => error,
        };
        let is_back = || self.machine.read(path).is_ok_and(|now| now == before);
        if !is_back() {
            self.machine.write(path, &before).with_context(|| format!("{refused:#}"))?;
            queue::put_back(&self.machine, &reset).with_context(|| format!("{refused:#}"))?;
        }
        if is_back() {
            journal.keep(&lines)?;
        }
        Err(refused)
    }

    /// Makes a control group below `parent`, whose processes go to the group `home` when it is removed. Returns its path.
    ///
    /// # Errors
    /// When it cannot be made.
    pub(crate) fn make_group(&mut self, parent: &str, home: &str) -> Result<String> {
        // A name that nobody else has: what the journal names is ours.
        let path = format!("{parent}/{GROUP}{}", files::random_hex(8)?);
        self.journal.making(&self.machine, &path, home)?;
        fs::create_dir(self.machine.path(&path))
            .with_context(|| format!("make the control group `{path}`"))?;
        Ok(path)
    }

    /// Restores all values, and removes all groups.
    ///
    /// # Errors
    /// When the journal cannot be read or removed. The result lists single values that could not be restored.
    pub fn undo(&mut self) -> Result<Vec<RestoredValue>> {
        self.journal.undo(&self.machine)
    }
}

fn set_in(journal: &HostJournal, machine: &KernelFiles, path: &str, value: &str) -> Result<String> {
    journal.setting(machine, path, value)?;
    machine.write(path, value)?;
    let is = machine.read(path)?;
    journal.set(path, &is)?;
    Ok(is)
}

impl Drop for Keeper {
    fn drop(&mut self) {
        // Nobody can receive the error here; the journal is still there for the next start.
        self.undo().ok();
    }
}

/// The process that has, or had, the lock, by its id.
fn holder(machine: &KernelFiles) -> String {
    let holder = files::read(&machine.path(LOCK), HOLDER_BYTES_MAX).unwrap_or_default();
    String::from_utf8_lossy(&holder).trim().to_string()
}

/// Restores what a dead pgdyno left behind, and what could not be restored before. Does nothing while a live pgdyno
/// sets values, of whatever user. Without the privileges to restore them, reports them.
///
/// # Errors
/// When there are values to restore and the journal cannot be read.
pub fn undo_left(machine: &KernelFiles) -> Result<Vec<RestoredValue>> {
    undo_left_within(machine, Duration::ZERO)
}

/// As [`undo_left`], but waits so long for a pgdyno that is about to end.
///
/// # Errors
/// As [`undo_left`].
pub fn undo_left_within(machine: &KernelFiles, patience: Duration) -> Result<Vec<RestoredValue>> {
    let journal = HostJournal::at(machine.path(JOURNAL));
    if !journal.exists() {
        return Ok(Vec::new());
    }
    let Some(lock) = open_lock(machine)? else {
        let lives = holder_by_kernel(machine, LOCK).is_some();
        return Ok(if lives { Vec::new() } else { vec![not_ours()] });
    };
    match lock_within(lock, patience) {
        Ok(_lock) if journal.living_owner(machine)?.is_none() => journal.undo(machine),
        Ok(_) => Ok(Vec::new()),
        // The pgdyno that holds the lock restores them: [`held`] says so.
        Err(_) => Ok(Vec::new()),
    }
}

/// What [`undo_left`] leaves alone, because whoever has set it lives.
///
/// # Errors
/// When the journal cannot be read.
pub fn held(machine: &KernelFiles) -> Result<Vec<HeldValue>> {
    let journal = HostJournal::at(machine.path(JOURNAL));
    if !journal.exists() {
        return Ok(Vec::new());
    }
    let Some(lock) = open_lock(machine)? else {
        // Another user's journal cannot be read. If nobody holds the lock, `undo_left` has said what there is to say.
        let by = holder_by_kernel(machine, LOCK).map(|pid| format!("root's pgdyno (process {pid})"));
        return Ok(by
            .map(|by| HeldValue { path: JOURNAL.to_string(), now: String::new(), by })
            .into_iter()
            .collect());
    };
    let is_locked = matches!(lock_within(lock, Duration::ZERO), Err(TryLockError::WouldBlock));
    let by_lock = is_locked.then(|| format!("another pgdyno (process {})", holder(machine)));
    let held = journal.held(machine)?.into_iter().filter_map(|(path, owner)| {
        let by = owner.or_else(|| by_lock.clone())?;
        let now = machine.read(&path).unwrap_or_default();
        Some(HeldValue { path, now, by })
    });
    Ok(held.collect())
}

/// Restores the values that were set to stay, after whatever a dead pgdyno left behind on top of them. Without the
/// privileges to restore them, reports them.
///
/// # Errors
/// When the journal cannot be read, or a live pgdyno sets values.
pub fn undo_kept(machine: &KernelFiles) -> Result<Vec<RestoredValue>> {
    let kept = HostJournal::to_stay_at(machine.path(KEPT));
    if !kept.exists() {
        return Ok(Vec::new());
    }
    if open_lock(machine)?.is_none() {
        return Ok(vec![not_ours()]);
    }
    let (_keeper, mut undone) = Keeper::take(machine)?;
    undone.extend(kept.undo(machine)?);
    Ok(undone)
}

/// The file of the lock; `None` if it belongs to root, and we are not.
fn open_lock(machine: &KernelFiles) -> Result<Option<File>> {
    files::trust::check_directory(&machine.path(DIR))?;
    match files::lock_file(&machine.path(LOCK)) {
        Err(error) if error.kind() == ErrorKind::PermissionDenied => Ok(None),
        lock => lock.map(Some).with_context(|| format!("open `{LOCK}`")),
    }
}

fn not_ours() -> RestoredValue {
    let problem = "a pgdyno run by root has changed settings of the operating system; if it has ended, `pgdyno clean` run by \
                   root restores them";
    RestoredValue {
        path: JOURNAL.to_string(),
        now: "there".to_string(),
        problem: Some(problem.to_string()),
        is_kept: false,
        left: None,
        remains: None,
    }
}

/// Restores what this process has set, just before it exits.
///
/// # Errors
/// As [`Keeper::undo`].
pub fn undo_own(machine: &KernelFiles) -> Result<Vec<RestoredValue>> {
    if holder(machine) != std::process::id().to_string() {
        return Ok(Vec::new());
    }
    HostJournal::at(machine.path(JOURNAL)).undo(machine)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    const SWAPPINESS: &str = "/proc/sys/vm/swappiness";
    const THP: &str = "/sys/kernel/mm/transparent_hugepage/enabled";

    fn machine(root: &Path) -> KernelFiles {
        for (path, text) in [(SWAPPINESS, "60\n"), (THP, "madvise\n")] {
            let path = root.join(&path[1..]);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        KernelFiles::at(root)
    }

    fn values(machine: &KernelFiles) -> (String, String) {
        (machine.read(SWAPPINESS).unwrap(), machine.read(THP).unwrap())
    }

    #[test]
    fn values_are_set_by_one_process_at_a_time_and_restored() {
        let root = tempfile::tempdir().unwrap();
        let machine = machine(root.path());
        let (mut keeper, undone) = Keeper::take(&machine).unwrap();
        assert_eq!(undone, []);
        assert_eq!(keeper.set(SWAPPINESS, "10").unwrap(), "60");
        assert_eq!(keeper.set(SWAPPINESS, "1").unwrap(), "10");
        keeper.set(THP, "never").unwrap();
        assert_eq!(values(&machine), ("1".to_string(), "never".to_string()));
        assert!(Keeper::take(&machine).unwrap_err().to_string().contains("another pgdyno (process "));
        assert_eq!(undo_left(&machine).unwrap(), [], "it is in use");
        assert_eq!(undo_own(&machine).unwrap().len(), 2);
        assert_eq!(values(&machine), ("60".to_string(), "madvise".to_string()));
        assert_eq!(undo_own(&machine).unwrap(), []);
        keeper.set(SWAPPINESS, "1").unwrap();
        keeper.set(THP, "never").unwrap();
        let undone = keeper.undo().unwrap();
        assert!(undone.iter().all(|value| value.problem.is_none()) && undone.len() == 2, "{undone:?}");
        assert_eq!(values(&machine), ("60".to_string(), "madvise".to_string()));
        keeper.set(THP, "always").unwrap();
        drop(keeper);
        assert_eq!(values(&machine).1, "madvise");
        assert!(!machine.path(JOURNAL).exists());
    }

    #[test]
    fn values_of_a_killed_process_are_restored_unless_somebody_changed_them() {
        let root = tempfile::tempdir().unwrap();
        let machine = machine(root.path());
        let (mut keeper, _) = Keeper::take(&machine).unwrap();
        keeper.set(SWAPPINESS, "10").unwrap();
        keeper.set(THP, "never").unwrap();
        let journal = fs::read(machine.path(JOURNAL)).unwrap();
        drop(keeper);
        // As if pgdyno had been killed, and a user had set one of the two values since.
        machine.write(SWAPPINESS, "10").unwrap();
        machine.write(THP, "always").unwrap();
        fs::write(machine.path(JOURNAL), &journal).unwrap();
        let undone = undo_left(&machine).unwrap();
        assert_eq!(values(&machine), ("60".to_string(), "always".to_string()));
        let problems: Vec<_> = undone.iter().filter_map(|value| value.problem.as_deref()).collect();
        assert!(problems.len() == 1 && problems[0].contains("it was madvise"), "{undone:?}");
        assert!(undone.iter().all(|value| !value.is_kept), "{undone:?}");
        // Killed between journal line and kernel write, or after both: only the intention is known.
        let first = journal.split(|&byte| byte == b'\n').next().unwrap();
        fs::write(machine.path(JOURNAL), [first, b"\n{\"set\":{\"pa"].concat()).unwrap();
        machine.write(SWAPPINESS, "11").unwrap();
        let (keeper, undone) = Keeper::take(&machine).unwrap();
        assert_eq!((undone.len(), values(&machine).0.as_str()), (1, "60"));
        drop(keeper);
        assert_eq!(undo_left(&machine).unwrap(), []);
    }

    #[test]
    fn a_copy_of_the_locks_descriptor_does_not_keep_it() {
        let root = tempfile::tempdir().unwrap();
        let machine = machine(root.path());
        let (keeper, _) = Keeper::take(&machine).unwrap();
        // As a process has it that another thread is about to start.
        let inherited = keeper._lock.0.try_clone().unwrap();
        drop(keeper);
        let (mut keeper, _) = Keeper::take(&machine).unwrap();
        keeper.set(SWAPPINESS, "10").unwrap();
        drop(keeper);
        drop(inherited);
        assert_eq!(values(&machine).0, "60");
    }

    #[test]
    fn values_of_a_process_that_lives_are_named_and_left() {
        let root = tempfile::tempdir().unwrap();
        let machine = machine(root.path());
        assert_eq!(held(&machine).unwrap(), []);
        let (mut keeper, _) = Keeper::take(&machine).unwrap();
        keeper.set(SWAPPINESS, "10").unwrap();
        keeper.set(THP, "never").unwrap();
        let named: Vec<(String, String)> =
            held(&machine).unwrap().into_iter().map(|held| (held.path, held.now)).collect();
        let expected = [(THP, "never"), (SWAPPINESS, "10")].map(|(path, now)| (path.into(), now.into()));
        assert_eq!(named, expected);
        let by = &held(&machine).unwrap()[0].by;
        assert!(by.contains(&format!("process {}", std::process::id())), "{by}");
        drop(keeper);
        assert_eq!(held(&machine).unwrap(), []);
    }

    const BOOT_ID: &str = "/proc/sys/kernel/random/boot_id";

    /// State left by a pgdyno that is killed after it has set swappiness to 10.
    fn left(machine: &KernelFiles) -> Vec<u8> {
        let (mut keeper, _) = Keeper::take(machine).unwrap();
        keeper.set(SWAPPINESS, "10").unwrap();
        let journal = fs::read(machine.path(JOURNAL)).unwrap();
        drop(keeper);
        machine.write(SWAPPINESS, "10").unwrap();
        fs::write(machine.path(JOURNAL), &journal).unwrap();
        journal
    }

    #[test]
    fn lines_of_another_boot_restore_nothing() {
        let root = tempfile::tempdir().unwrap();
        let machine = machine(root.path());
        let boot_id = machine.path(BOOT_ID);
        fs::create_dir_all(boot_id.parent().unwrap()).unwrap();
        fs::write(&boot_id, "one\n").unwrap();
        let journal = left(&machine);
        assert_eq!(undo_left(&machine).unwrap().len(), 1);
        assert_eq!(values(&machine).0, "60");
        machine.write(SWAPPINESS, "10").unwrap();
        fs::write(machine.path(JOURNAL), &journal).unwrap();
        fs::write(&boot_id, "two\n").unwrap();
        assert_eq!(undo_left(&machine).unwrap(), []);
        assert_eq!(values(&machine).0, "10", "it is what the machine started with, or what somebody set");
        assert!(!machine.path(JOURNAL).exists());
    }

    #[test]
    fn values_that_are_set_to_stay_are_restored_on_request_alone() {
        let root = tempfile::tempdir().unwrap();
        let machine = machine(root.path());
        let (mut keeper, _) = Keeper::take(&machine).unwrap();
        assert_eq!(keeper.set_to_stay(SWAPPINESS, "1").unwrap(), "60");
        assert_eq!(keeper.set_to_stay(SWAPPINESS, "1").unwrap(), "1");
        assert!(undo_kept(&machine).unwrap_err().to_string().contains("another pgdyno"));
        drop(keeper);
        assert_eq!(undo_left(&machine).unwrap(), []);
        assert_eq!(values(&machine).0, "1", "it stays");
        // An experiment sets the same value on top, and dies.
        let (mut keeper, undone) = Keeper::take(&machine).unwrap();
        assert_eq!(undone, []);
        keeper.set(SWAPPINESS, "10").unwrap();
        let journal = fs::read(machine.path(JOURNAL)).unwrap();
        drop(keeper);
        assert_eq!(values(&machine).0, "1");
        machine.write(SWAPPINESS, "10").unwrap();
        fs::write(machine.path(JOURNAL), journal).unwrap();
        let undone: Vec<String> = undo_kept(&machine).unwrap().into_iter().map(|value| value.now).collect();
        assert_eq!((undone.as_slice(), values(&machine).0.as_str()), (&["1".into(), "60".into()][..], "60"));
        assert_eq!(undo_kept(&machine).unwrap(), []);
        assert!(!machine.path(KEPT).exists());
    }

    #[test]
    fn a_value_that_the_administrator_sets_between_is_the_one_that_is_restored() {
        let root = tempfile::tempdir().unwrap();
        let machine = machine(root.path());
        let (mut keeper, _) = Keeper::take(&machine).unwrap();
        keeper.set_to_stay(SWAPPINESS, "1").unwrap();
        keeper.set_to_stay(THP, "never").unwrap();
        machine.write(SWAPPINESS, "30").unwrap();
        assert_eq!(keeper.set_to_stay(SWAPPINESS, "1").unwrap(), "30");
        // On top of a value of our own, the first previous value counts.
        assert_eq!(keeper.set_to_stay(THP, "always").unwrap(), "never");
        drop(keeper);
        let undone = undo_kept(&machine).unwrap();
        assert!(undone.iter().all(|value| value.problem.is_none()) && undone.len() == 2, "{undone:?}");
        assert_eq!(values(&machine), ("30".to_string(), "madvise".to_string()));
    }

    #[test]
    fn a_value_that_was_never_set_to_stay_is_not_restored() {
        let root = tempfile::tempdir().unwrap();
        let machine = machine(root.path());
        let (mut keeper, _) = Keeper::take(&machine).unwrap();
        // The kernel makes something else of it.
        let refused = keeper.set_to_stay(SWAPPINESS, "[2] 1").unwrap_err().to_string();
        assert!(refused.contains("was 2 after"), "{refused}");
        assert_eq!(values(&machine).0, "60");
        assert!(!machine.path(KEPT).exists());
        // The kernel refuses to be written to, and the lines of other values stay.
        keeper.set_to_stay(SWAPPINESS, "1").unwrap();
        let lines = fs::read(machine.path(KEPT)).unwrap();
        fs::remove_file(machine.path(THP)).unwrap();
        std::os::unix::fs::symlink("/proc/version", machine.path(THP)).unwrap();
        let refused = keeper.set_to_stay(THP, "never").unwrap_err().to_string();
        assert!(refused.contains("write `never`"), "{refused}");
        assert_eq!(fs::read(machine.path(KEPT)).unwrap(), lines);
        drop(keeper);
        // Killed before the value was written; the administrator has set another since.
        let first = lines.split(|&byte| byte == b'\n').next().unwrap();
        for (now, then) in [("30", "30"), ("60", "60"), ("1", "60")] {
            fs::write(machine.path(KEPT), [first, b"\n"].concat()).unwrap();
            machine.write(SWAPPINESS, now).unwrap();
            let undone = undo_kept(&machine).unwrap();
            assert_eq!((undone.len(), values(&machine).0.as_str()), (1, then));
            assert_eq!(undone[0].problem.is_some(), now == "30", "{undone:?}");
            assert!(!machine.path(KEPT).exists());
        }
    }

    #[test]
    fn values_that_cannot_be_restored_stay_in_the_journal() {
        let root = tempfile::tempdir().unwrap();
        let machine = machine(root.path());
        left(&machine);
        // A kernel file that cannot be read: a directory in its place.
        let path = machine.path(SWAPPINESS);
        fs::remove_file(&path).unwrap();
        fs::create_dir(&path).unwrap();
        for _ in 0..2 {
            let undone = undo_left(&machine).unwrap();
            let problem = undone[0].problem.as_deref().unwrap();
            assert!(problem.contains("it was 60; ") && undone[0].is_kept, "{problem}");
        }
        let (keeper, undone) = Keeper::take(&machine).unwrap();
        assert_eq!(undone.len(), 1);
        drop(keeper);
        fs::remove_dir(&path).unwrap();
        fs::write(&path, "10\n").unwrap();
        assert_eq!(undo_left(&machine).unwrap()[0].problem, None);
        assert_eq!(values(&machine).0, "60");
        assert!(!machine.path(JOURNAL).exists());
    }

    #[test]
    fn a_journal_that_others_could_have_planted_is_refused() {
        let root = tempfile::tempdir().unwrap();
        let machine = machine(root.path());
        let journal = left(&machine);
        let (path, elsewhere) = (machine.path(JOURNAL), root.path().join("planted"));
        fs::rename(&path, &elsewhere).unwrap();
        std::os::unix::fs::symlink(&elsewhere, &path).unwrap();
        assert!(undo_left(&machine).is_err());
        assert!(Keeper::take(&machine).is_err());
        fs::remove_file(&path).unwrap();
        let text = String::from_utf8(journal).unwrap();
        for planted in
            [text.replace(SWAPPINESS, "/etc/passwd"), text.replace(SWAPPINESS, "/proc/sys/../../etc/x")]
        {
            fs::write(&path, planted).unwrap();
            assert!(undo_left(&machine).unwrap_err().to_string().contains("is not a kernel setting"));
        }
        for (path, home) in [
            ("/sys/fs/cgroup/system.slice", "/sys/fs/cgroup"),
            ("/sys/fs/cgroup/pgdyno-1/../x", "/sys/fs/cgroup"),
            ("/sys/fs/cgroup/pgdyno-1", "/tmp"),
        ] {
            fs::write(
                machine.path(JOURNAL),
                format!("{{\"group\":{{\"path\":\"{path}\",\"home\":\"{home}\"}}}}\n"),
            )
            .unwrap();
            assert!(undo_left(&machine).unwrap_err().to_string().contains("no control group of pgdyno"));
        }
        fs::write(&path, format!("{{}}\n{text}")).unwrap();
        assert!(undo_left(&machine).unwrap_err().to_string().contains("is damaged"));
        fs::write(&path, &text).unwrap();
        let dir = machine.path(DIR);
        fs::set_permissions(&dir, std::os::unix::fs::PermissionsExt::from_mode(0o777)).unwrap();
        assert!(undo_left(&machine).unwrap_err().to_string().contains("can be written by every user"));
    }

    #[test]
    fn a_journal_that_is_half_full_takes_no_more() {
        let root = tempfile::tempdir().unwrap();
        let machine = machine(root.path());
        let (mut keeper, _) = Keeper::take(&machine).unwrap();
        keeper.set(SWAPPINESS, "10").unwrap();
        let line = format!("{{\"set\":{{\"path\":\"{SWAPPINESS}\",\"is\":\"10\"}}}}\n");
        let full =
            fs::read_to_string(machine.path(JOURNAL)).unwrap() + &line.repeat((512 << 10) / line.len() + 1);
        fs::write(machine.path(JOURNAL), full).unwrap();
        let refused = format!("{:#}", keeper.set(SWAPPINESS, "20").unwrap_err());
        assert!(refused.contains("is full: restore values before more are set"), "{refused}");
        assert_eq!(keeper.undo().unwrap()[0].problem, None);
        assert_eq!(values(&machine).0, "60");
        keeper.set(SWAPPINESS, "10").unwrap();
    }

    #[test]
    fn a_lock_that_another_user_has_prepared_is_refused() {
        let root = tempfile::tempdir().unwrap();
        let machine = machine(root.path());
        drop(Keeper::take(&machine).unwrap());
        let (lock, victim) = (machine.path(LOCK), root.path().join("victim"));
        fs::remove_file(&lock).unwrap();
        fs::write(&victim, "mine").unwrap();
        std::os::unix::fs::symlink(&victim, &lock).unwrap();
        let refused = format!("{:#}", Keeper::take(&machine).unwrap_err());
        assert!(refused.contains("symbolic link"), "{refused}");
        assert_eq!(fs::read(&victim).unwrap(), b"mine");
    }
}
