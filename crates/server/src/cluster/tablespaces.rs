//! Tablespaces of a cluster: the directory that its server made in each location, and the mark that shows whose it is.
//!
//! ```text
//! data/pg_tblspc/OID -> LOCATION                        the server's link
//! LOCATION/PG_15_202209061/                             what the server has there; other releases have their own
//! LOCATION/PG_15_202209061/pgdyno-7380000000000000000/  the mark: an empty directory, named by the system identifier
//! ```
//!
//! A link proves nothing later: what it leads to may be gone, and another server may have made its own there. The mark goes
//! with the directory that it is in. PostgreSQL passes over names there that are not numbers, and DROP TABLESPACE removes
//! empty directories, but would fail at a file. Everything here is done with the rights of the server's user.

use std::ffi::{OsStr, OsString};
use std::io::{self, ErrorKind};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use rustix::fs::FileType;

use crate::cluster::control::ControlFile;
use crate::user::account::Account;
use crate::user::beneath::Held;

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
    pub(crate) fn of(data: &Path, account: &'a Account, described_by: (&Path, &Account)) -> Result<Self> {
        let (dir, reader) = described_by;
        let control = ControlFile::read(dir, reader)?;
        let path = dir.join("PG_VERSION");
        let text = reader.act(|| files::read(&path, VERSION_BYTES_MAX));
        let text = text.with_context(|| format!("read `{}`", path.display()))?;
        let series = String::from_utf8_lossy(&text).trim().to_string();
        let is_series = !series.is_empty() && series.chars().all(|c| c.is_ascii_digit() || c == '.');
        ensure!(is_series, "`{}` says `{series}`, which is no release of PostgreSQL", path.display());
        Ok(Belonging {
            data: data.to_path_buf(),
            account,
            name: format!("PG_{series}_{}", control.catalog_version),
            mark: format!("{MARK}{}", control.system_identifier).into(),
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
                let held = Held::open(&dir)?;
                let is_foreign =
                    |name: &OsStr| name.as_bytes().starts_with(MARK.as_bytes()) && name != self.mark;
                match held.entries()?.iter().find(|(name, _)| is_foreign(name)) {
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
        match self.account.act(|| Held::open(dir)?.child(&self.mark)) {
            Ok(_) => Ok(()),
            // Nothing can be overwritten if there is nothing.
            Err(_) if self.account.act(|| is_absent(dir))? => Ok(()),
            Err(error) => Err(error).with_context(|| {
                format!(
                    "`{}` does not carry the mark `{}` of this cluster: another server may have made it",
                    dir.display(),
                    self.mark.display()
                )
            }),
        }
    }

    /// Removes the cluster's directories in its tablespaces, which would be in the way of a new one. Directories
    /// without its mark are left alone.
    ///
    /// # Errors
    /// When one cannot be removed.
    pub(crate) fn remove(&self) -> Result<()> {
        for link in self.links()?.iter().filter(|link| link.is_there) {
            let words = || format!("remove `{}`", link.location.join(&self.name).display());
            self.account.act(|| self.remove_in(&link.location)).with_context(words)?;
        }
        Ok(())
    }

    fn remove_in(&self, location: &Path) -> io::Result<()> {
        let above = Held::open(location)?;
        let Ok(dir) = above.child(OsStr::new(&self.name)) else { return Ok(()) };
        if dir.child(&self.mark).is_err() {
            return Ok(());
        }
        // The mark goes last, so that an interrupted removal can be continued.
        for (name, _) in dir.entries()?.iter().filter(|(name, _)| *name != self.mark) {
            dir.remove(name)?;
        }
        above.remove(OsStr::new(&self.name))
    }

    fn kept_as(&self, oid: &OsStr) -> String {
        format!("tablespace-{}-{}", oid.display(), self.name)
    }

    /// A tablespace that is a directory in the data directory itself has no link: it is part of the data.
    fn links(&self) -> Result<Vec<Link>> {
        let dir = self.data.join(LINKS);
        let read = || -> io::Result<Vec<Link>> {
            let held = match Held::open(&self.data)?.child(OsStr::new(LINKS)) {
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
/// nothing shows which they are, and they stay.
///
/// # Errors
/// As [`Belonging::remove`].
pub(crate) fn remove_of(data: &Path) -> Result<()> {
    let Ok(account) = Account::of_owner(data) else { return Ok(()) };
    Belonging::of(data, &account, (data, &account)).map_or(Ok(()), |belonging| belonging.remove())
}
