//! Tablespaces of a cluster: the directory that its server made in each location, and the mark that shows whose it is.
//!
//! ```text
//! data/pg_tblspc/OID -> LOCATION                        the server's link
//! LOCATION/PG_15_202209061/                             what the server has there; other releases have their own
//! LOCATION/PG_15_202209061/pgdyno-7380000000000000000-1234567/  the mark: an empty directory, named by the system identifier and
//!                                                       the number of the data directory in its file system
//! ```
//!
//! A link proves nothing later: what it leads to may be gone, and another server may have made its own there. The mark goes
//! with the directory that it is in. PostgreSQL passes over names there that are not numbers, and DROP TABLESPACE removes
//! empty directories, but would fail at a file. Everything here is done with the rights of the server's user.
//!
//! Whoever copies the data directory has a cluster with the same links. Before anything is destroyed, pgdyno therefore looks for
//! another server that uses the directory (`neighbour`), and for files that changed since pgdyno left them.

mod neighbour;

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::io::{self, ErrorKind};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use rustix::fs::FileType;
use sha2::{Digest, Sha256};

use crate::cluster::control::ControlFile;
use crate::cluster::others::ClusterDigest;
use crate::user::account::Account;
use crate::user::held_dir::HeldDir;

/// Directory of the links in a data directory.
const LINKS: &str = "pg_tblspc";
/// Begin of the name of a mark.
const MARK: &str = "pgdyno-";
/// Far more than the name of a release series.
const VERSION_BYTES_MAX: u64 = 64;

/// How the directories of one cluster in its tablespaces are known.
#[derive(Debug)]
pub(crate) struct Belonging<'a> {
    data: PathBuf,
    account: &'a Account,
    /// Name of the server's directory in each location (PostgreSQL's `TABLESPACE_VERSION_DIRECTORY`).
    name: String,
    /// Name of the mark in it.
    mark: OsString,
    /// Name of a mark of an earlier version, which says less.
    old_mark: OsString,
}

/// A link of the server.
struct Link {
    oid: OsString,
    /// Where it leads, without links as far as it exists.
    location: PathBuf,
    is_there: bool,
}

impl<'a> Belonging<'a> {
    /// Those of the cluster with this data directory. Its control file and version are read in `described_by`, which is
    /// that directory or a copy of it.
    ///
    /// # Errors
    /// When they cannot be read.
    pub(crate) fn new(data: &Path, account: &'a Account, described_by: (&Path, &Account)) -> Result<Self> {
        let (dir, reader) = described_by;
        let control = ControlFile::read(dir, reader)?;
        let path = dir.join("PG_VERSION");
        let text = reader.act(|| files::read(&path, VERSION_BYTES_MAX));
        let text = text.with_context(|| format!("read `{}`", path.display()))?;
        let series = String::from_utf8_lossy(&text).trim().to_string();
        let is_series = !series.is_empty() && series.chars().all(|c| c.is_ascii_digit() || c == '.');
        ensure!(is_series, "`{}` says `{series}`, which is no release of PostgreSQL", path.display());
        let inode =
            std::fs::symlink_metadata(data).with_context(|| format!("look at `{}`", data.display()))?.ino();
        let old_mark = format!("{MARK}{}", control.system_identifier);
        Ok(Belonging {
            data: data.to_path_buf(),
            account,
            name: format!("PG_{series}_{}", control.catalog_version),
            mark: format!("{old_mark}-{inode}").into(),
            old_mark: old_mark.into(),
        })
    }

    /// Marks the cluster's directory in each tablespace. Returns them, with the names that they have in a snapshot.
    ///
    /// # Errors
    /// When a location cannot be read, or its directory carries the mark of another cluster.
    pub(crate) fn mark(&self) -> Result<Vec<(String, PathBuf)>> {
        let mut marked = Vec::new();
        for link in self.links()? {
            let dir = link.location.join(&self.name);
            let words = || format!("mark `{}` as a tablespace of this cluster", dir.display());
            let set_mark = || -> io::Result<()> {
                let held = HeldDir::open(&dir)?;
                if self.is_marked(&held) {
                    return Ok(());
                }
                let is_mark = |name: &OsStr| name.as_bytes().starts_with(MARK.as_bytes());
                match held.entries()?.iter().find(|(name, _)| is_mark(name)) {
                    Some((other, _)) => {
                        Err(io::Error::other(format!("it has the mark `{}`", other.display())))
                    }
                    None => held.child_or_make(&self.mark).map(drop),
                }
            };
            self.account.act(set_mark).with_context(words)?;
            marked.push((self.kept_as(&link.oid), dir));
        }
        Ok(marked)
    }

    /// Checks that what a snapshot keeps as `kept_as` may be put to `dir`.
    ///
    /// # Errors
    /// When `dir` is not, or no longer, the directory of this cluster in a tablespace that it has.
    pub(crate) fn expect_own(&self, kept_as: &str, dir: &Path) -> Result<()> {
        let is_link =
            |link: &Link| self.kept_as(&link.oid) == kept_as && link.location.join(&self.name) == dir;
        ensure!(
            self.links()?.iter().any(is_link),
            "`{}` is in the snapshot, but no tablespace of `{}` leads there",
            dir.display(),
            self.data.display()
        );
        // Nothing can be overwritten if there is nothing.
        if self.account.act(|| is_absent(dir))? {
            return Ok(());
        }
        let is_marked = self.account.act(|| io::Result::Ok(self.is_marked(&HeldDir::open(dir)?)));
        ensure!(
            is_marked.with_context(|| format!("open `{}`", dir.display()))?,
            "`{}` does not carry the mark `{}` of this cluster: another server may have made it",
            dir.display(),
            self.mark.display()
        );
        Ok(())
    }

    /// The directories that carry the mark and that somebody else uses, or has changed since pgdyno left them, and what shows that.
    ///
    /// # Errors
    /// When the links or a directory cannot be read.
    pub(crate) fn used_by_others(&self, left: Option<&ClusterDigest>) -> Result<Vec<(PathBuf, String)>> {
        let mut used = Vec::new();
        for link in self.links()? {
            let dir = link.location.join(&self.name);
            let is_marked = || io::Result::Ok(self.is_marked(&HeldDir::open(&dir)?));
            if link.is_there && self.account.act(is_marked).unwrap_or(false) {
                used.extend(self.use_of(&link.oid, &dir, left)?.map(|why| (dir, why)));
            }
        }
        Ok(used)
    }

    fn use_of(&self, oid: &OsStr, dir: &Path, left: Option<&ClusterDigest>) -> Result<Option<String>> {
        if let Some(neighbour) = neighbour::find(dir, &self.data) {
            let (pid, data) = (neighbour.pid, neighbour.data.display());
            return Ok(Some(format!(
                "is in use by process {pid}, a server with the data directory `{data}`"
            )));
        }
        let was = left.and_then(|left| left.tablespaces.get(&*oid.to_string_lossy()));
        let Some(was) = was else { return Ok(None) };
        let has_changed = self.version(dir)? != *was;
        Ok(has_changed
            .then(|| "has changed since pgdyno left it, as by a server on a copy of the data".into()))
    }

    /// A digest of the files in each tablespace, by the name of its link: others if anybody has changed one.
    ///
    /// # Errors
    /// When one cannot be read.
    pub(crate) fn versions(&self) -> Result<BTreeMap<String, String>> {
        let mut versions = BTreeMap::new();
        for link in self.links()?.iter().filter(|link| link.is_there) {
            let dir = link.location.join(&self.name);
            if !self.account.act(|| is_absent(&dir))? {
                versions.insert(link.oid.to_string_lossy().into_owned(), self.version(&dir)?);
            }
        }
        Ok(versions)
    }

    fn version(&self, dir: &Path) -> Result<String> {
        let text = self.account.act(|| HeldDir::open(dir)?.versions());
        let text = text.with_context(|| format!("look at the files in `{}`", dir.display()))?;
        Ok(format!("{:x}", Sha256::digest(text)))
    }

    /// Removes the cluster's directories in its tablespaces, which would be in the way of a new one. Directories
    /// without its mark are left alone, and so are those that somebody else uses, which are returned, with the reason.
    ///
    /// # Errors
    /// When one cannot be removed.
    pub(crate) fn remove(&self, left: Option<&ClusterDigest>) -> Result<Vec<(PathBuf, String)>> {
        let used = self.used_by_others(left)?;
        let is_free = |link: &&Link| {
            let dir = link.location.join(&self.name);
            link.is_there && !used.iter().any(|(used, _)| *used == dir)
        };
        for link in self.links()?.iter().filter(is_free) {
            let words = || format!("remove `{}`", link.location.join(&self.name).display());
            self.account.act(|| self.remove_in(&link.location)).with_context(words)?;
        }
        Ok(used)
    }

    fn remove_in(&self, location: &Path) -> io::Result<()> {
        let above = HeldDir::open(location)?;
        let Ok(dir) = above.child(OsStr::new(&self.name)) else { return Ok(()) };
        if !self.is_marked(&dir) {
            return Ok(());
        }
        // The mark goes last, so that an interrupted removal can be continued.
        let is_mark = |name: &OsStr| name == self.mark || name == self.old_mark;
        for (name, _) in dir.entries()?.iter().filter(|(name, _)| !is_mark(name)) {
            dir.remove(name)?;
        }
        above.remove(OsStr::new(&self.name))
    }

    fn is_marked(&self, dir: &HeldDir) -> bool {
        [&self.mark, &self.old_mark].into_iter().any(|mark| dir.child(mark).is_ok())
    }

    fn kept_as(&self, oid: &OsStr) -> String {
        format!("tablespace-{}-{}", oid.display(), self.name)
    }

    /// A tablespace that is a directory in the data directory itself has no link: it is part of the data.
    fn links(&self) -> Result<Vec<Link>> {
        let dir = self.data.join(LINKS);
        let read = || -> io::Result<Vec<Link>> {
            let held = match HeldDir::open(&self.data)?.child(OsStr::new(LINKS)) {
                // The data were removed in part.
                Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
                held => held?,
            };
            let mut links = Vec::new();
            for (oid, _) in held.entries()?.into_iter().filter(|(_, facts)| facts.kind == FileType::Symlink) {
                let target = dir.join(held.link(&oid)?);
                links.push(match target.canonicalize() {
                    Ok(location) => Link { oid, location, is_there: true },
                    // What cannot be reached keeps no cluster from being removed; nothing is marked or restored there.
                    Err(_) => Link { oid, location: target, is_there: false },
                });
            }
            Ok(links)
        };
        self.account.act(read).with_context(|| format!("read `{}`", dir.display()))
    }
}

fn is_absent(dir: &Path) -> io::Result<bool> {
    match std::fs::symlink_metadata(dir) {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(true),
        found => found.map(|_| false),
    }
}

/// Removes the directories in tablespaces of a cluster that is about to be removed. Where its control file cannot be read,
/// nothing shows which they are, and they stay. Returns those that somebody else uses, which stay, too.
///
/// # Errors
/// As [`Belonging::remove`].
pub(crate) fn remove_of(data: &Path, left: Option<&ClusterDigest>) -> Result<Vec<(PathBuf, String)>> {
    let Ok(account) = Account::of_owner(data) else { return Ok(Vec::new()) };
    Belonging::new(data, &account, (data, &account))
        .map_or(Ok(Vec::new()), |belonging| belonging.remove(left))
}
