//! Touches files with the rights of the server's user.
//!
//! The data directory and the WAL belong to that user, who can put a link, a pipe or another directory anywhere in
//! them, at any moment. With that user's rights, nothing is reached that the user could not reach without us.

use std::io;
use std::marker::PhantomData;
use std::sync::atomic::{AtomicBool, Ordering};

use nix::sys::prctl;
use nix::unistd::{Gid, Uid, getgroups, setfsgid, setfsuid};
use rustix::thread::set_thread_groups;

use crate::user::account::Account;

/// The user whose rights to files are used.
#[derive(Debug, Clone, Copy)]
pub(crate) enum FileRights<'a> {
    /// The user that pgdyno runs as: for files that only we can replace.
    Ours,
    /// The server's user.
    Of(&'a Account),
}

impl FileRights<'_> {
    /// Does `work` with these rights.
    pub(crate) fn act<T, E: From<io::Error>>(self, work: impl FnOnce() -> Result<T, E>) -> Result<T, E> {
        match self {
            FileRights::Ours => work(),
            FileRights::Of(account) => account.act(work),
        }
    }

    /// The owner of files that are created with these rights.
    pub(crate) fn uid(self) -> u32 {
        match self {
            FileRights::Of(account) => account.uid,
            FileRights::Ours => nix::unistd::geteuid().as_raw(),
        }
    }
}

impl Account {
    /// Does `work` with this user's rights to files. Nothing else changes: what `work` starts or
    /// signals, it starts or signals with our identity, so it should do neither.
    ///
    /// # Errors
    /// Those of `work`, and when we cannot take another user's rights.
    pub fn act<T, E: From<io::Error>>(&self, work: impl FnOnce() -> Result<T, E>) -> Result<T, E> {
        let _borrowed = if self.is_switched { Some(Borrowed::new(self)?) } else { None };
        work()
    }
}

/// While this lives, the thread has another user's rights to files.
///
/// Only to files: with the user's complete identity, that user could signal and trace the thread. The kernel takes
/// root's capabilities over files away with the user id (capabilities(7), "Effect of user ID changes").
struct Borrowed {
    user: Uid,
    group: Gid,
    groups: Vec<rustix::process::Gid>,
    /// Not `Send`: rights belong to a thread, which must give them back itself.
    _stays_here: PhantomData<*const ()>,
}

impl Borrowed {
    fn new(account: &Account) -> io::Result<Borrowed> {
        let groups =
            getgroups()?.into_iter().map(|group| rustix::process::Gid::from_raw(group.as_raw())).collect();
        note_closed_memory();
        // Before the ids change. By system call, because each thread has its own list and the C library would set all
        // of them.
        set_thread_groups(&[])?;
        let group = setfsgid(Gid::from_raw(account.gid));
        let user = setfsuid(Uid::from_raw(account.uid));
        close_memory_again();
        let borrowed = Borrowed { user, group, groups, _stays_here: PhantomData };
        // Both calls return the previous id, even when they fail; an invalid id changes nothing.
        let none = u32::MAX;
        let is_taken = setfsuid(Uid::from_raw(none)).as_raw() == account.uid
            && setfsgid(Gid::from_raw(none)).as_raw() == account.gid;
        if is_taken {
            Ok(borrowed)
        } else {
            Err(io::Error::new(
                io::ErrorKind::PermissionDenied,
                format!("cannot take the rights of user `{}`", account.name),
            ))
        }
    }
}

impl Drop for Borrowed {
    fn drop(&mut self) {
        setfsuid(self.user);
        setfsgid(self.group);
        close_memory_again();
        // If this fails, the thread has fewer rights, not more.
        set_thread_groups(&self.groups).ok();
    }
}

/// Whether this process was ever seen closed to core dumps (PR_SET_DUMPABLE). Each change of a thread's ids gives the whole
/// process the value of `fs.suid_dumpable` (prctl(2)), which is 2 where systemd-coredump or apport collects core dumps:
/// passwords in memory would be piped to them. One flag for all threads, because what one of them sees may be what the
/// change of another has just opened.
static IS_CLOSED: AtomicBool = AtomicBool::new(false);

/// Before a change of ids.
fn note_closed_memory() {
    if prctl::get_dumpable() == Ok(false) {
        IS_CLOSED.store(true, Ordering::SeqCst);
    }
}

/// After a change of ids.
fn close_memory_again() {
    if IS_CLOSED.load(Ordering::SeqCst) {
        prctl::set_dumpable(false).ok();
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::{MetadataExt, PermissionsExt};

    use nix::unistd::geteuid;

    use super::*;

    #[test]
    fn files_are_touched_with_the_rights_of_the_servers_user_and_with_ours_afterwards() {
        let account = Account::choose().unwrap();
        let dir = tempfile::tempdir().unwrap();
        fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o777)).unwrap();
        let path = |name: &str| dir.path().join(name);
        fs::write(path("ours"), "for pgdyno").unwrap();
        fs::set_permissions(path("ours"), fs::Permissions::from_mode(0o600)).unwrap();
        let read = account.act(|| fs::read(path("ours")));
        assert_eq!(read.is_err(), geteuid().is_root(), "{read:?}");
        account.act(|| fs::write(path("theirs"), "")).unwrap();
        let facts = fs::metadata(path("theirs")).unwrap();
        assert_eq!((facts.uid(), facts.gid()), (account.uid, account.gid));
        // Also after a failure, and after a panic.
        let failed = std::panic::catch_unwind(|| {
            account.act(|| -> io::Result<()> { panic!("while the rights are taken") })
        });
        assert!(failed.is_err());
        assert_eq!(fs::read(path("ours")).unwrap(), b"for pgdyno");
        fs::write(path("again"), "").unwrap();
        assert_eq!(fs::metadata(path("again")).unwrap().uid(), geteuid().as_raw());
    }

    #[test]
    fn roots_groups_are_not_kept() {
        if !geteuid().is_root() {
            return;
        }
        let account = Account::choose().unwrap();
        let groups = || fs::read_to_string("/proc/thread-self/status").map(|text| line(&text, "Groups:"));
        let before = groups().unwrap();
        let within = account.act(groups).unwrap();
        assert_eq!(within, "");
        assert_eq!(groups().unwrap(), before);
    }

    /// The setting that a change of ids gives to the process, until this is dropped.
    struct SuidDumpable(String);

    impl SuidDumpable {
        const PATH: &str = "/proc/sys/fs/suid_dumpable";

        fn set(value: &str) -> Option<SuidDumpable> {
            let before = fs::read_to_string(Self::PATH).ok()?;
            fs::write(Self::PATH, value).ok()?;
            Some(SuidDumpable(before))
        }
    }

    impl Drop for SuidDumpable {
        fn drop(&mut self) {
            fs::write(Self::PATH, &self.0).ok();
        }
    }

    #[test]
    fn memory_that_no_core_dump_may_contain_stays_closed_where_programs_collect_core_dumps() {
        // Only root can change the setting, and not in every container.
        let Some(_set) = SuidDumpable::set("2") else { return };
        let account = Account::choose().unwrap();
        prctl::set_dumpable(false).unwrap();
        // Each sees what the changes of the others have just opened.
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| (0..500).for_each(|_| account.act(|| Ok::<_, io::Error>(())).unwrap()));
            }
        });
        let within = account.act(|| Ok::<_, io::Error>(becomes_closed()));
        let afterwards = becomes_closed();
        prctl::set_dumpable(true).unwrap();
        assert_eq!((within.unwrap(), afterwards), (true, true));
    }

    /// Waits a moment, because other tests of this process may be changing ids just now.
    fn becomes_closed() -> bool {
        (0..100).any(|_| {
            std::thread::sleep(std::time::Duration::from_millis(1));
            prctl::get_dumpable() == Ok(false)
        })
    }

    fn line(text: &str, name: &str) -> String {
        text.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_default().trim().to_string()
    }
}
