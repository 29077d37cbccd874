//! Snapshots of a cluster: copies of its files, taken and put back while its server is stopped.
//!
//! Only pgdyno's user can change them, so that what is restored is what was taken; data and WAL are read and written
//! with the rights of the server's user.

use std::fs::{self, DirBuilder};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, bail, ensure};
use files::trust;
use serde::{Deserialize, Serialize};

use crate::cluster::copy::{Cached, CopyReport, CopySide, CopyTrees, can_clone, mirror, tree_bytes};
use crate::cluster::space::require_space;
use crate::cluster::tablespaces::Belonging;
use crate::cluster::{Cluster, ClusterFacts, others};
use crate::user::account::Account;
use crate::user::held_dir::{added_up, remove_tree};
use crate::user::rights::FileRights;

const FACTS_FILE: &str = "snapshot.json";
const FACTS_BYTES_MAX: u64 = 1 << 20;
/// The WAL in a snapshot, where it is outside the data directory.
const WAL: &str = "wal";
/// Files of a running or crashed postmaster, not of the data.
const SKIPPED: [&str; 2] = ["postmaster.pid", "postmaster.opts"];

/// A snapshot's record.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SnapshotFacts {
    /// Name of the snapshot, and of its directory.
    pub name: String,
    /// When it was taken, seconds since the Unix epoch.
    pub created_unix_s: u64,
    /// Bytes of its files.
    pub bytes: u64,
    /// Number of its files.
    pub n_files: u64,
    /// Directories outside the data directory that it includes: name in the snapshot, and original path.
    pub outside: Vec<(String, PathBuf)>,
}

impl ClusterFacts {
    /// Whether the cluster in `root` has this snapshot.
    pub fn has_snapshot(&self, root: &Path, name: &str) -> bool {
        read_facts(&snapshots_dir(root, self).join(name)).is_ok()
    }
}

impl Cluster {
    /// Copies the cluster's files to a snapshot of this name. The server must have been stopped with a fast shutdown.
    pub fn snapshot(&self, name: &str) -> Result<CopyReport> {
        check_name(name)?;
        self.wait_until_stopped("take a snapshot")?;
        let dir = self.snapshot_dir(name);
        ensure!(!dir.exists(), "snapshot `{name}` already exists; remove it or choose another name");
        ensure!(
            self.control_file()?.is_shut_down,
            "cluster `{}` was not shut down cleanly, so each start from its snapshot would recover first; \
             start it and stop it with a fast shutdown",
            self.root.display()
        );
        if let Some(cut_off) = &self.facts.restoring {
            bail!("restoring snapshot `{cut_off}` was interrupted; restore it again first");
        }
        let partial = self.snapshots_dir().join(format!(".{name}.partial"));
        let copied = self.copy_to(&partial, name);
        let kept = copied.and_then(|report| {
            fs::rename(&partial, &dir)
                .and_then(|()| files::sync_parent(&dir))
                .with_context(|| format!("rename to `{}`", dir.display()))?;
            Ok(report)
        });
        if kept.is_err() {
            // The first error is the one to report; the next attempt overwrites a partial copy.
            remove_tree(&partial).ok();
        }
        kept
    }

    /// Restores the cluster's files to a snapshot. The server must be stopped, no matter how.
    pub fn restore(&mut self, name: &str) -> Result<CopyReport> {
        self.restore_with(name, Cached::Stays)
    }

    /// As [`Cluster::restore`], and reads again what the page cache holds of the files: it is then on the NUMA node of the
    /// calling thread.
    pub fn restore_here(&mut self, name: &str) -> Result<CopyReport> {
        self.restore_with(name, Cached::ReadAgain)
    }

    fn restore_with(&mut self, name: &str, cached: Cached) -> Result<CopyReport> {
        check_name(name)?;
        self.wait_until_stopped("restore a snapshot")?;
        let facts = self.snapshot_facts(name)?;
        let dir = self.snapshot_dir(name);
        let account = self.account.clone();
        let theirs = |path| CopySide { path, rights: FileRights::Of(&account) };
        let mut trees = vec![CopyTrees { from: ours(dir.join("data")), to: theirs(self.data_dir()) }];
        for (held_as, place) in &facts.outside {
            // The marker, not the snapshot, says where the WAL is.
            let place = if held_as == WAL { self.wal_dir() } else { place.clone() };
            trees.push(CopyTrees { from: ours(dir.join(held_as)), to: theirs(place) });
        }
        self.expect_own_tablespaces(name, &facts)?;
        expect_undamaged(&facts, &trees, &self.root)?;
        self.take_over(name, &trees, cached)
    }

    /// Makes the files those of a snapshot of `primary`, from which a standby of its server starts. The server must be stopped,
    /// no matter how.
    ///
    /// # Errors
    /// When there is no such snapshot, it is damaged, or it has files outside of its data directory, which two servers cannot share.
    pub fn seed(&mut self, primary: &Cluster, name: &str) -> Result<CopyReport> {
        self.wait_until_stopped("seed it")?;
        let facts = primary.snapshot_facts(name)?;
        if let Some((held_as, place)) = facts.outside.first() {
            bail!(
                "no standby can be made of cluster `{}`: `{}` ({held_as}) lies outside of its data directory, and two servers cannot \
                 share it",
                primary.root.display(),
                place.display()
            );
        }
        let account = self.account.clone();
        let from = ours(primary.snapshot_dir(name).join("data"));
        let trees =
            [CopyTrees { from, to: CopySide { path: self.data_dir(), rights: FileRights::Of(&account) } }];
        expect_undamaged(&facts, &trees, &primary.root)?;
        self.take_over(name, &trees, Cached::Stays)
    }

    /// Replaces the files, so that an interruption is known later.
    fn take_over(&mut self, name: &str, trees: &[CopyTrees], cached: Cached) -> Result<CopyReport> {
        others::expect_none(&self.root)?;
        others::forget(&self.root)?;
        self.set_restoring(Some(name.to_string()))?;
        let report = mirror(trees, &SKIPPED, cached)?;
        self.set_restoring(None)?;
        others::note(&self.root, &self.account);
        Ok(report)
    }

    /// What a snapshot keeps of tablespaces may replace only what is still this cluster's: other servers may share their
    /// locations.
    fn expect_own_tablespaces(&self, name: &str, facts: &SnapshotFacts) -> Result<()> {
        let mut tablespaces = facts.outside.iter().filter(|(held_as, _)| held_as != WAL).peekable();
        if tablespaces.peek().is_none() {
            return Ok(());
        }
        // An interrupted restore may have left half a control file in the data directory.
        let kept = self.snapshot_dir(name).join("data");
        let belonging = Belonging::new(&self.data_dir(), &self.account, (&kept, &Account::ourselves()))?;
        tablespaces.try_for_each(|(held_as, place)| belonging.expect_own(held_as, place)).with_context(|| {
            format!(
                "snapshot `{name}` of cluster `{}` is not restored, and nothing was changed; remove the cluster with pgdyno \
                 server remove, and by hand what no server needs of its tablespaces, and load it again",
                self.root.display()
            )
        })
    }

    /// Whether a snapshot of this name was taken.
    pub fn has_snapshot(&self, name: &str) -> bool {
        self.snapshot_facts(name).is_ok()
    }

    /// All snapshots, oldest first.
    pub fn snapshots(&self) -> Vec<SnapshotFacts> {
        snapshots_in(&self.snapshots_dir())
    }

    /// Removes a snapshot.
    pub fn remove_snapshot(&self, name: &str) -> Result<()> {
        self.snapshot_facts(name)?;
        let dir = self.snapshot_dir(name);
        remove_tree(&dir).with_context(|| format!("remove `{}`", dir.display()))
    }

    fn snapshots_dir(&self) -> PathBuf {
        snapshots_dir(&self.root, &self.facts)
    }

    fn snapshot_dir(&self, name: &str) -> PathBuf {
        self.snapshots_dir().join(name)
    }

    fn snapshot_facts(&self, name: &str) -> Result<SnapshotFacts> {
        check_name(name)?;
        let known: Vec<String> = self.snapshots().into_iter().map(|snapshot| snapshot.name).collect();
        read_facts(&self.snapshot_dir(name)).with_context(|| {
            format!(
                "cluster `{}` has no snapshot `{name}` (there are: {})",
                self.root.display(),
                known.join(", ")
            )
        })
    }

    fn copy_to(&self, dir: &Path, name: &str) -> Result<CopyReport> {
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(dir)
            .with_context(|| format!("create `{}`", dir.display()))?;
        let outside = self.outside()?;
        let theirs = |path| CopySide { path, rights: FileRights::Of(&self.account) };
        let mut trees = vec![CopyTrees { from: theirs(self.data_dir()), to: ours(dir.join("data")) }];
        for (held_as, place) in &outside {
            trees.push(CopyTrees { from: theirs(place.clone()), to: ours(dir.join(held_as)) });
        }
        if !can_clone(dir) {
            let bytes = added_up(trees.iter().map(|tree| tree_bytes(&tree.from.path, tree.from.rights)));
            require_space(dir, bytes, &format!("snapshot `{name}`"))?;
        }
        let report = mirror(&trees, &SKIPPED, Cached::Stays)?;
        let facts = SnapshotFacts {
            name: name.to_string(),
            created_unix_s: SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_secs()),
            bytes: report.bytes,
            n_files: report.n_files,
            outside,
        };
        let path = dir.join(FACTS_FILE);
        files::replace(&path, files::PRIVATE, &serde_json::to_vec_pretty(&facts)?)
            .with_context(|| format!("write `{}`", path.display()))?;
        Ok(report)
    }

    /// Directories that belong to the cluster but lie outside its data directory: a separate WAL, and its directories in
    /// tablespaces, which are marked.
    fn outside(&self) -> Result<Vec<(String, PathBuf)>> {
        let mut outside = Vec::new();
        if self.facts.wal_holder.is_some() {
            outside.push((WAL.to_string(), self.wal_dir()));
        }
        outside.extend(self.belonging()?.mark()?);
        Ok(outside)
    }
}

fn expect_undamaged(facts: &SnapshotFacts, trees: &[CopyTrees], root: &Path) -> Result<()> {
    let found_bytes = added_up(trees.iter().map(|tree| tree_bytes(&tree.from.path, tree.from.rights)));
    ensure!(
        found_bytes == facts.bytes,
        "snapshot `{}` of cluster `{}` is damaged: its files have {found_bytes} bytes instead of {}; remove the cluster with \
         pgdyno server remove and load it again",
        facts.name,
        root.display(),
        facts.bytes
    );
    Ok(())
}

fn ours(path: PathBuf) -> CopySide<'static> {
    CopySide { path, rights: FileRights::Ours }
}

/// Where the snapshots of the cluster in `root` are.
pub(crate) fn snapshots_dir(root: &Path, facts: &ClusterFacts) -> PathBuf {
    facts.snapshot_holder.clone().unwrap_or_else(|| root.join("snapshots"))
}

/// Snapshots in `dir`, oldest first.
pub(crate) fn snapshots_in(dir: &Path) -> Vec<SnapshotFacts> {
    let Ok(entries) = fs::read_dir(dir) else { return Vec::new() };
    let is_partial =
        |path: &Path| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with('.'));
    let paths = entries.flatten().map(|entry| entry.path()).filter(|path| !is_partial(path));
    let mut found: Vec<SnapshotFacts> = paths.filter_map(|path| read_facts(&path).ok()).collect();
    found.sort_by(|a, b| (a.created_unix_s, &a.name).cmp(&(b.created_unix_s, &b.name)));
    found
}

fn read_facts(dir: &Path) -> Result<SnapshotFacts> {
    let path = dir.join(FACTS_FILE);
    let text = trust::read(&path, FACTS_BYTES_MAX).with_context(|| format!("read `{}`", path.display()))?;
    serde_json::from_slice(&text).with_context(|| format!("`{}` is damaged", path.display()))
}

fn check_name(name: &str) -> Result<()> {
    let is_fine = !name.is_empty()
        && name.len() <= 100
        && !name.starts_with('.')
        && name.chars().all(|c| c.is_ascii_alphanumeric() || "-_.".contains(c));
    ensure!(is_fine, "`{name}` cannot be the name of a snapshot; use letters, digits, `-`, `_` and `.`");
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_snapshots_are_file_names() {
        for name in ["loaded", "tpcb-100", "a.b_c"] {
            check_name(name).unwrap();
        }
        for name in ["", ".", "..", ".x", "a/b", "a b", "ü", &"x".repeat(101)] {
            assert!(check_name(name).is_err(), "{name}");
        }
    }
}
