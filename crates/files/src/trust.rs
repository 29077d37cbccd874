//! Which files and directories can be trusted: those of root and the caller that nobody else can replace.
//!
//! Root runs and removes what our records name. A record that another user can write, or replace because the user can
//! write to a parent directory, would make root act for that user. Files of the server's user are not trusted; they are
//! accessed with that user's privileges.

use std::fs::{self, DirBuilder, File, Metadata};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Component, Path, PathBuf};

use anyhow::{Context, Result, ensure};
use nix::unistd::{Gid, Group, Uid, User, geteuid};
use rustix::fs::{Access, fgetxattr, lgetxattr};
use rustix::io::Errno;

use crate::regular;

const WRITABLE_BY_GROUP: u32 = 0o020;
const WRITABLE_BY_OTHERS: u32 = 0o002;
/// In a directory with this bit, only the owner of an entry or of the directory can rename or remove the entry.
const STICKY: u32 = 0o1000;
/// Where file systems keep an access control list; a file without one has no such attribute (acl(5), xattr(7)).
const ACL: &str = "system.posix_acl_access";
/// A longer list, of some 500 entries, is taken for one that lets others write.
const LIST_BYTES_MAX: usize = 4096;
/// Its version; entries of 8 bytes follow, with kind, rights and number of a user or group (linux/posix_acl_xattr.h).
const LIST_HEAD_BYTES: usize = 4;
/// Entries of users and of groups by name, `ACL_USER` and `ACL_GROUP`.
const NAMED: [u16; 2] = [0x02, 0x08];
/// `ACL_WRITE`.
const WRITE: u16 = 2;
/// The system follows as many links in one path.
const LINKS_MAX: u32 = 40;
/// The machine's own accounts, passwd(5).
const ACCOUNTS: &str = "/etc/passwd";

/// Checks that nobody but root and the caller can change or replace the directory or one of its parents. Returns its
/// path without links, which is the one to use from then on.
///
/// # Errors
/// Names the directory, who could replace it, and what to do.
pub fn check_directory(path: &Path) -> Result<PathBuf> {
    check(path, Content::Trusted, None)
}

/// Checks a directory in which we are to create our own: other users may create theirs there too, as in `/tmp`, but
/// cannot replace ours. Existing entries are not trusted. Returns its path without links.
///
/// # Errors
/// As [`check_directory`].
pub fn check_place(path: &Path) -> Result<PathBuf> {
    check(path, Content::Shared, None)
}

/// Checks a directory that we are to create or fill: as [`check_directory`], but its parents may belong to the user who
/// called us by sudo, because that user may decide where root writes. The contents of those parents are not trusted.
///
/// # Errors
/// As [`check_directory`].
pub fn check_output(path: &Path) -> Result<()> {
    let path = std::path::absolute(path).with_context(|| format!("`{}` is not a path", path.display()))?;
    let place = path.ancestors().find(|dir| dir.exists()).unwrap_or(Path::new("/"));
    let content = if place == path { Content::Trusted } else { Content::Shared };
    check(place, content, sudo_uid()).map(drop)
}

/// Checks the directory of a file that we are to create or replace, as [`check_output`] checks the parents of a
/// directory.
///
/// # Errors
/// As [`check_directory`].
pub fn check_output_file(path: &Path) -> Result<()> {
    let path = std::path::absolute(path).with_context(|| format!("`{}` is not a path", path.display()))?;
    check(path.parent().unwrap_or(&path), Content::Shared, sudo_uid()).map(drop)
}

/// Checks that we can create files in `dir`, or in the first of its parents that exists. Directories of root can be trusted, but
/// ordinary users cannot use them.
///
/// # Errors
/// Names the directory and its owner.
pub fn expect_writable(dir: &Path) -> Result<()> {
    let place = dir.ancestors().find(|dir| dir.exists()).unwrap_or(Path::new("/"));
    if rustix::fs::access(place, Access::WRITE_OK | Access::EXEC_OK) != Err(Errno::ACCESS) {
        return Ok(());
    }
    let owner = fs::metadata(place).map_or("another user".to_string(), |facts| user_name(facts.uid()));
    anyhow::bail!("`{}` belongs to {owner}, and you cannot write to it", place.display())
}

/// The user who called this one by sudo, as the environment says: whoever can set that is this user already.
pub fn caller_uid() -> Option<u32> {
    std::env::var("SUDO_UID").ok()?.parse().ok()
}

/// The user who called root by sudo, as whom root may write where that user says.
pub fn sudo_uid() -> Option<u32> {
    if geteuid().is_root() { caller_uid() } else { None }
}

/// Checks a program that will run with the privileges of user `uid`: only root, the caller and that user can change it,
/// so that nobody else gains that user's privileges through it.
///
/// # Errors
/// As [`check_directory`].
pub fn check_program(path: &Path, uid: u32) -> Result<()> {
    check_way(path, Some(uid), LINKS_MAX)?;
    let path = path.canonicalize().with_context(|| format!("cannot find `{}`", path.display()))?;
    let facts = fs::symlink_metadata(&path).with_context(|| format!("cannot read `{}`", path.display()))?;
    let is_written = || writer(&facts, &|| list_lets_others_write(&path)).is_some();
    let fault = if facts.uid() != uid || is_written() { fault(&path, &facts) } else { None };
    ensure!(fault.is_none(), "`{}` would be executed, but {}", path.display(), fault.unwrap_or_default());
    check(path.parent().unwrap_or(&path), Content::Programs, Some(uid)).map(drop)
}

/// Creates a trusted directory and its missing parents; an existing one is checked. Returns its path without links.
///
/// # Errors
/// As [`check_directory`], and when a directory cannot be created.
pub fn make_directory(path: &Path) -> Result<PathBuf> {
    make(path, Content::Trusted)
}

/// Creates a directory in which we are to create our own, and its missing parents; an existing one is checked by
/// [`check_place`]. Returns its path without links.
///
/// # Errors
/// As [`check_place`], and when a directory cannot be created.
pub fn make_place(path: &Path) -> Result<PathBuf> {
    make(path, Content::Shared)
}

/// Opens a regular file that belongs to root or the caller and that nobody else can write. Does not follow links, and
/// refuses a pipe instead of waiting for its writer.
///
/// # Errors
/// I/O errors, and when the file is not of that kind.
pub fn open(path: &Path) -> io::Result<File> {
    let file = regular::open(path)?;
    let facts = file.metadata()?;
    let lets_others = || lets_others_write(|list| fgetxattr(&file, ACL, list));
    match fault_of(&facts, &lets_others) {
        Some(why) => Err(io::Error::new(io::ErrorKind::InvalidInput, why)),
        None => Ok(file),
    }
}

/// Why the file or directory at `path`, with this metadata, cannot be trusted; `None` if it can, as far as its directory can.
pub fn fault(path: &Path, facts: &Metadata) -> Option<String> {
    fault_of(facts, &|| list_lets_others_write(path))
}

fn fault_of(facts: &Metadata, lets_others: &dyn Fn() -> bool) -> Option<String> {
    if !is_trusted(facts.uid()) {
        return Some(format!("it belongs to {}, who may have changed it", user_name(facts.uid())));
    }
    // The mode of a link lets everybody write, but nobody can.
    let writer = if facts.is_symlink() { None } else { writer(facts, lets_others) };
    writer.map(|who| format!("{who} can write it"))
}

/// Reads a whole file of at most `bytes_max` bytes; see [`open`].
///
/// # Errors
/// As [`open`], and when it is longer.
pub fn read(path: &Path, bytes_max: u64) -> io::Result<Vec<u8>> {
    regular::read_bounded(open(path)?, bytes_max)
}

/// Purpose of the last directory of a path.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Content {
    /// Everything in it is trusted.
    Trusted,
    /// We create a directory in it.
    Shared,
    /// Programs in it run with another user's privileges.
    Programs,
}

fn make(path: &Path, content: Content) -> Result<PathBuf> {
    // A bare name has an empty parent.
    let path = std::path::absolute(Path::new(".").join(path))
        .with_context(|| format!("`{}` is not a path", path.display()))?;
    // Checked before anything is created: through another user's link we would create it where that user wants.
    if let Some(place) = path.ancestors().skip(1).find(|dir| dir.exists())
        && !path.exists()
    {
        check_place(place)?;
    }
    DirBuilder::new()
        .recursive(true)
        .mode(0o755)
        .create(&path)
        .with_context(|| format!("create directory `{}`", path.display()))?;
    check(&path, content, None)
}

/// Parent directories, and those with programs, may also belong to user `other`.
fn check(path: &Path, content: Content, other: Option<u32>) -> Result<PathBuf> {
    check_way(path, other, LINKS_MAX)?;
    check_real(path, content, other)
}

/// Checks that nobody else can redirect the path after it was checked, by a link on the way or by a directory that the
/// path leaves again through `..`.
fn check_way(path: &Path, other: Option<u32>, links_left: u32) -> Result<()> {
    let path = std::path::absolute(path).with_context(|| format!("`{}` is not a path", path.display()))?;
    let mut way = PathBuf::new();
    let mut steps = path.components().peekable();
    while let Some(step) = steps.next() {
        way.push(step);
        let Ok(facts) = fs::symlink_metadata(&way) else { return Ok(()) };
        let is_left = steps.peek() == Some(&Component::ParentDir);
        let Some(dir) = way.parent().filter(|_| facts.is_symlink() || is_left) else { continue };
        check_real(dir, Content::Shared, other)?;
        ensure!(
            is_trusted(facts.uid()) || other == Some(facts.uid()),
            "`{}` is on the way to `{}` and belongs to {}, who could redirect it; use another path",
            way.display(),
            path.display(),
            user_name(facts.uid())
        );
        if facts.is_symlink() {
            let left = links_left.checked_sub(1).context("it has too many links")?;
            let target = fs::read_link(&way).with_context(|| format!("cannot read `{}`", way.display()))?;
            check_way(&dir.join(target), other, left)?;
        }
    }
    Ok(())
}

fn check_real(path: &Path, content: Content, other: Option<u32>) -> Result<PathBuf> {
    let path = path.canonicalize().with_context(|| format!("cannot enter `{}`", path.display()))?;
    for dir in path.ancestors() {
        let facts = fs::symlink_metadata(dir).with_context(|| format!("cannot read `{}`", dir.display()))?;
        ensure!(facts.is_dir(), "`{}` is not a directory", dir.display());
        let advice = "make it yours or root's, forbid others to write to it, or use another directory";
        // Where we create something new, `path` is itself one of the parents.
        let is_above = dir != path || content == Content::Shared;
        ensure!(
            is_trusted(facts.uid())
                || (is_above || content == Content::Programs) && other == Some(facts.uid()),
            "directory `{}` belongs to {}, who could replace what is in it; {advice}",
            dir.display(),
            user_name(facts.uid())
        );
        // Everything below it was found to be ours or root's.
        let is_guarded = facts.mode() & STICKY != 0 && is_above;
        if let Some(who) = writer(&facts, &|| list_lets_others_write(dir))
            && !is_guarded
        {
            anyhow::bail!("directory `{}` can be written by {who}; {advice}", dir.display());
        }
    }
    Ok(path)
}

/// Whether files of this user are as trustworthy as our own. The owner of `/` could replace everything; that is not
/// root in a user namespace to which the machine's root does not belong.
fn is_trusted(uid: u32) -> bool {
    uid == 0 || uid == geteuid().as_raw() || fs::metadata("/").is_ok_and(|root| root.uid() == uid)
}

/// Who can write to a file or directory besides its owner. With an access control list, the bits of the group are the most
/// that anybody named in it may do (acl(5)): these need not be the group's members. `lets_others` reads that list.
fn writer(facts: &Metadata, lets_others: &dyn Fn() -> bool) -> Option<String> {
    if facts.mode() & WRITABLE_BY_OTHERS != 0 {
        return Some("every user".to_string());
    }
    let mut users = [facts.uid(), geteuid().as_raw()].into_iter();
    if facts.mode() & WRITABLE_BY_GROUP == 0 {
        return None;
    }
    if users.any(|uid| is_private_group(facts.gid(), uid)) {
        return lets_others().then(|| "whoever its access control list names".to_string());
    }
    let group = Group::from_gid(Gid::from_raw(facts.gid())).ok().flatten();
    Some(format!("group `{}`", group.map_or(facts.gid().to_string(), |group| group.name)))
}

fn list_lets_others_write(path: &Path) -> bool {
    lets_others_write(|list| lgetxattr(path, ACL, list))
}

/// Whether the access control list that `read` reads has a user or group by name who can write. If it cannot be read, it may
/// have one.
fn lets_others_write(read: impl FnOnce(&mut [u8]) -> rustix::io::Result<usize>) -> bool {
    let mut list = [0; LIST_BYTES_MAX];
    match read(&mut list) {
        Ok(n) => entries(&list[..n]).any(|(tag, rights)| NAMED.contains(&tag) && rights & WRITE != 0),
        Err(error) => !matches!(error, Errno::NODATA | Errno::OPNOTSUPP),
    }
}

/// Kind and rights of each entry of an access control list.
fn entries(list: &[u8]) -> impl Iterator<Item = (u16, u16)> {
    let number = |bytes: &[u8], at: usize| u16::from_le_bytes([bytes[at], bytes[at + 1]]);
    let (bytes, _) = list.get(LIST_HEAD_BYTES..).unwrap_or_default().as_chunks::<8>();
    bytes.iter().map(move |entry| (number(entry, 0), number(entry, 2)))
}

/// Whether the user is the group's only member: distributions that make files group-writable give every user a group of
/// the same name. Root's is not: accounts and containers without a group of their own are in it.
fn is_private_group(gid: u32, uid: u32) -> bool {
    let user = User::from_uid(Uid::from_raw(uid)).ok().flatten();
    let group = Group::from_gid(Gid::from_raw(gid)).ok().flatten();
    let is_named = user.zip(group).is_some_and(|(user, group)| {
        user.gid == group.gid && user.name == group.name && group.mem.iter().all(|name| *name == user.name)
    });
    gid != 0 && is_named && fs::read_to_string(ACCOUNTS).is_ok_and(|text| !others_begin_in(&text, gid, uid))
}

/// Whether an account other than the user's has this group from the start, which no list of members says. The text is that of passwd(5).
fn others_begin_in(accounts: &str, gid: u32, uid: u32) -> bool {
    let mut numbers = accounts.lines().filter_map(|line| {
        let mut fields = line.split(':').skip(2).map(str::parse::<u32>);
        fields.next()?.ok().zip(fields.next()?.ok())
    });
    numbers.any(|(other, group)| group == gid && other != uid)
}

fn user_name(uid: u32) -> String {
    let user = User::from_uid(Uid::from_raw(uid)).ok().flatten();
    user.map_or(format!("user id {uid}"), |user| format!("user `{}`", user.name))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt, chown, symlink};

    use super::*;

    /// A user that is neither root nor, presumably, the caller.
    const STRANGER: u32 = 54_321;

    fn set(path: &Path, mode: u32) {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    }

    #[test]
    fn a_directory_that_others_can_write_is_refused_wherever_it_is_in_the_path() {
        let outer = tempfile::tempdir().unwrap();
        let (middle, inner) = (outer.path().join("middle"), outer.path().join("middle/inner"));
        fs::create_dir_all(&inner).unwrap();
        set(&inner, 0o755);
        let refused = |path: &Path| format!("{:#}", check_directory(path).unwrap_err());
        for (mode, is_fine) in [(0o755, true), (0o777, false), (0o1777, true)] {
            set(&middle, mode);
            assert_eq!(check_directory(&inner).is_ok(), is_fine, "{mode:o}");
            assert_eq!(check_place(&inner).is_ok(), is_fine, "{mode:o}");
        }
        assert!(refused(&middle).contains("middle` can be written by every user"), "{}", refused(&middle));
        check_place(&middle).unwrap();
        set(&middle, 0o777);
        assert!(check_place(&middle).is_err(), "without the sticky bit ours could be replaced");
        set(&middle, 0o755);
        symlink(&inner, outer.path().join("link")).unwrap();
        let found = check_directory(&outer.path().join("link")).unwrap();
        assert_eq!(found, inner.canonicalize().unwrap(), "links are resolved once");
        fs::write(inner.join("file"), "").unwrap();
        assert!(refused(&inner.join("file")).contains("is not a directory"));
    }

    #[test]
    fn a_directory_that_we_cannot_write_to_is_named_with_its_owner() {
        let dir = tempfile::tempdir().unwrap();
        expect_writable(&dir.path().join("a/b")).unwrap();
        set(dir.path(), 0o555);
        let refused = expect_writable(&dir.path().join("a/b")).map_err(|error| error.to_string());
        if geteuid().is_root() {
            assert_eq!(refused, Ok(()), "root can write anywhere")
        } else {
            let words = refused.unwrap_err();
            assert!(words.starts_with(&format!("`{}` belongs to user `", dir.path().display())), "{words}");
            let words = expect_writable(Path::new("/nowhere/clusters")).unwrap_err().to_string();
            assert!(words.starts_with("`/` belongs to user `"), "{words}");
        }
    }

    /// An access control list with these rights for the stranger, as file systems keep it: tag, permissions and id of the owner, a
    /// user, the group, the mask and others.
    fn list_for_the_stranger(rights: u16) -> Vec<u8> {
        let entries = [
            (1, 7, u32::MAX),
            (2, rights, STRANGER),
            (4, 5, u32::MAX),
            (0x10, 7, u32::MAX),
            (0x20, 5, u32::MAX),
        ];
        let bytes = entries.into_iter().flat_map(|(tag, permissions, id): (u16, u16, u32)| {
            [&tag.to_le_bytes()[..], &permissions.to_le_bytes(), &id.to_le_bytes()].concat()
        });
        2u32.to_le_bytes().into_iter().chain(bytes).collect()
    }

    #[test]
    fn a_group_in_which_another_account_begins_is_not_private() {
        let accounts = "root:x:0:0:root:/root:/bin/sh\nann:x:1000:1000::/home/ann:/bin/sh\nbob:x:1001:1000::/home/bob:/bin/sh\n\
                        eve:x:1002:1002::/home/eve:/bin/sh\ntorn:x:1003\n";
        assert!(others_begin_in(accounts, 1000, 1000));
        assert!(!others_begin_in(accounts, 1002, 1002));
        assert!(!is_private_group(0, 0));
    }

    #[test]
    fn a_private_group_excuses_no_access_control_list() {
        let dir = tempfile::tempdir().unwrap();
        set(dir.path(), 0o775);
        let list = list_for_the_stranger(7);
        let is_private = check_directory(dir.path()).is_ok();
        let flags = rustix::fs::XattrFlags::empty();
        // Where users share a group, or the file system has no lists, nothing is excused.
        if !is_private || rustix::fs::setxattr(dir.path(), ACL, &list, flags).is_err() {
            return;
        }
        let mode = fs::metadata(dir.path()).unwrap().mode() & 0o777;
        let refused = format!("{:#}", check_directory(dir.path()).unwrap_err());
        assert!(
            mode == 0o775 && refused.contains("whoever its access control list names"),
            "{mode:o} {refused}"
        );
        let file = dir.path().join("file");
        fs::write(&file, "text").unwrap();
        rustix::fs::setxattr(&file, ACL, &list, flags).unwrap();
        assert!(read(&file, 100).unwrap_err().to_string().contains("access control list"));
        assert!(fault(&file, &fs::metadata(&file).unwrap()).is_some());
        set(&file, 0o755);
        assert_eq!(read(&file, 100).unwrap(), b"text", "the mask lets nobody write");
        rustix::fs::setxattr(dir.path(), ACL, &list_for_the_stranger(5), flags).unwrap();
        check_directory(dir.path()).expect("the stranger may read");
    }

    #[test]
    fn a_file_that_others_could_have_written_is_not_read() {
        let dir = tempfile::tempdir().unwrap();
        let path = |name: &str| dir.path().join(name);
        fs::write(path("plain"), "text").unwrap();
        set(&path("plain"), 0o644);
        symlink(path("plain"), path("link")).unwrap();
        nix::unistd::mkfifo(&path("pipe"), nix::sys::stat::Mode::S_IRWXU).unwrap();
        for name in ["link", "pipe", "."] {
            assert!(read(&path(name), 100).is_err(), "{name}");
        }
        assert_eq!(read(&path("plain"), 100).unwrap(), b"text");
        set(&path("plain"), 0o666);
        assert!(read(&path("plain"), 100).unwrap_err().to_string().contains("every user can write it"));
    }

    #[test]
    fn directories_are_created_only_where_nobody_else_can_replace_them() {
        let outer = tempfile::tempdir().unwrap();
        let path = |name: &str| outer.path().join(name);
        let made = make_directory(&path("a/b")).unwrap();
        assert_eq!(fs::metadata(&made).unwrap().permissions().mode() & 0o7777, 0o755);
        assert_eq!(make_directory(&path("a/b")).unwrap(), made);
        set(&path("a"), 0o1777);
        make_directory(&path("a/c/d")).unwrap();
        set(&path("a"), 0o777);
        for name in ["a/b", "a/e/f"] {
            let error = format!("{:#}", make_directory(&path(name)).unwrap_err());
            assert!(error.contains("a` can be written by every user"), "{error}");
        }
        assert!(!path("a/e").exists());
    }

    #[test]
    fn files_of_another_user_are_refused_with_that_users_name() {
        // Only root can change the owner of a file.
        if !geteuid().is_root() {
            return;
        }
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("theirs");
        fs::write(&path, "text").unwrap();
        chown(&path, Some(STRANGER), Some(STRANGER)).unwrap();
        assert!(read(&path, 100).unwrap_err().to_string().contains("belongs to user id 54321"));
        chown(dir.path(), Some(STRANGER), Some(STRANGER)).unwrap();
        let error = format!("{:#}", check_place(dir.path()).unwrap_err());
        assert!(error.contains("belongs to user id 54321, who could replace what is in it"), "{error}");
    }

    #[test]
    fn output_goes_where_the_user_of_sudo_says_and_into_no_directory_of_another_user() {
        let outer = tempfile::tempdir().unwrap();
        let path = |name: &str| outer.path().join(name);
        check_output(&path("a/new/one")).unwrap();
        fs::create_dir(path("home")).unwrap();
        set(&path("home"), 0o777);
        assert!(check_output(&path("home/new")).is_err() && check_output(&path("home")).is_err());
        set(&path("home"), 0o755);
        if !geteuid().is_root() {
            return;
        }
        chown(path("home"), Some(STRANGER), Some(STRANGER)).unwrap();
        assert!(check_output(&path("home/new")).is_err());
        let by_sudo = |name: &str, content| check(&path(name), content, Some(STRANGER));
        by_sudo("home", Content::Shared).unwrap();
        assert!(by_sudo("home", Content::Trusted).is_err(), "what is in it is not trusted");
        fs::create_dir(path("home/ours")).unwrap();
        set(&path("home/ours"), 0o755);
        by_sudo("home/ours", Content::Trusted).unwrap();
    }

    #[test]
    fn links_that_somebody_else_could_redirect_are_refused() {
        if !geteuid().is_root() {
            return;
        }
        let outer = tempfile::tempdir().unwrap();
        let path = |name: &str| outer.path().join(name);
        for name in ["ours", "theirs", "shared"] {
            fs::create_dir(path(name)).unwrap();
            set(&path(name), if name == "shared" { 0o1777 } else { 0o755 });
        }
        fs::write(path("ours/postgres"), "").unwrap();
        for name in ["link", "theirs/link", "shared/link", "shared/their_link"] {
            symlink(path("ours"), path(name)).unwrap();
        }
        // Through another link, which belongs to us.
        symlink("theirs/link", path("chain")).unwrap();
        for name in ["theirs", "theirs/link", "shared/their_link"] {
            std::os::unix::fs::lchown(path(name), Some(STRANGER), Some(STRANGER)).unwrap();
        }
        for (name, is_fine) in [
            ("link", true),
            ("shared/link", true),
            ("theirs/link", false),
            ("shared/their_link", false),
            ("chain", false),
        ] {
            let inner = path(name);
            assert_eq!(check_directory(&inner).is_ok(), is_fine, "{name}");
            assert_eq!(check_place(&inner).is_ok(), is_fine, "{name}");
            assert_eq!(check_output(&inner.join("new")).is_ok(), is_fine, "{name}");
            assert_eq!(check_output_file(&inner.join("file")).is_ok(), is_fine, "{name}");
            assert_eq!(check_program(&inner.join("postgres"), STRANGER + 1).is_ok(), is_fine, "{name}");
            assert_eq!(make_directory(&inner.join(format!("made/{name}"))).is_ok(), is_fine, "{name}");
        }
        check(&path("theirs/link"), Content::Shared, Some(STRANGER)).unwrap();
        assert!(check_directory(&path("theirs/../ours")).is_err(), "it could become a link");
        assert!(check_directory(&path("ours/../ours")).is_ok());
        symlink("circle", path("circle")).unwrap();
        assert!(check_directory(&path("circle")).is_err());
    }

    #[test]
    fn a_program_may_belong_to_the_user_it_runs_as_and_to_no_other() {
        if !geteuid().is_root() {
            return;
        }
        let outer = tempfile::tempdir().unwrap();
        let (dir, program) = (outer.path().join("bin"), outer.path().join("bin/postgres"));
        fs::create_dir(&dir).unwrap();
        set(&dir, 0o755);
        fs::write(&program, "").unwrap();
        set(&program, 0o755);
        check_program(&program, STRANGER).unwrap();
        for path in [&program, &dir] {
            chown(path, Some(STRANGER), Some(STRANGER)).unwrap();
            check_program(&program, STRANGER).unwrap();
            let error = format!("{:#}", check_program(&program, STRANGER + 1).unwrap_err());
            assert!(error.contains("belongs to user id 54321"), "{error}");
            set(path, 0o777);
            assert!(check_program(&program, STRANGER).is_err());
            set(path, 0o755);
        }
    }
}
