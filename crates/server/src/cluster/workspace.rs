//! Where clusters live between invocations: one directory, one cluster per key, one user of a cluster at a time.
//!
//! ```text
//! WORKSPACE/NAME/        a cluster
//! WORKSPACE/NAME.lock    locked by the process that uses it; the kernel releases the lock when that process ends
//! ```

use std::collections::BTreeMap;
use std::fs::{self, File, TryLockError};
use std::io::{Read, Seek, Write};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use anyhow::{Context, Result, anyhow, bail, ensure};
use files::trust;
use sha2::{Digest, Sha256};

use crate::binaries::fetch::Cache;
use crate::binaries::{Binaries, BinariesOrigin};
use crate::cluster::copy::tree_bytes;
use crate::cluster::damaged;
use crate::cluster::snapshot::{SnapshotFacts, snapshots_dir, snapshots_in};
use crate::cluster::{
    Cluster, ClusterFacts, InitOptions, has_marker, is_owned_by_server, others, remove_cluster_files,
    remove_old_cluster,
};
use crate::process::postmaster::postmaster_of;
use crate::process_id::ProcessId;
use crate::swept::Swept;
use crate::user::account::Account;
use crate::user::rights::FileRights;

/// Longest name of a cluster's directory.
const NAME_BYTES_MAX: usize = 80;
/// Digits of the hash at the end of that name.
const N_HASH: usize = 12;
/// Far more than a lock file has, which names one process.
const LOCK_BYTES_MAX: u64 = 4 << 10;

/// What distinguishes one cluster from another. Two runs with the same key can start from the same snapshot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClusterKey {
    /// The binaries: release and hash, or version and hash of the executable.
    pub source: String,
    /// Everything else that makes a difference, by name: workload, scale, layout, WAL directory.
    pub parts: BTreeMap<String, String>,
}

impl ClusterKey {
    /// The key of a cluster of these binaries.
    pub fn new(binaries: &Binaries, parts: BTreeMap<String, String>) -> Result<ClusterKey> {
        let source = match &binaries.origin {
            BinariesOrigin::Fetched { release, sha256 } => format!("{release} {sha256}"),
            BinariesOrigin::Given => format!("{} {}", binaries.version, binaries.executable_sha256()?),
        };
        Ok(ClusterKey { source, parts })
    }

    /// Name of the cluster's directory: readable, and made unique by a hash of the whole key.
    pub fn directory_name(&self) -> String {
        let mut text = format!("source={}\n", self.source);
        for (name, value) in &self.parts {
            text.push_str(&format!("{name}={value}\n"));
        }
        let release = self.source.split_whitespace().next().unwrap_or_default();
        let words: Vec<&str> =
            std::iter::once(release).chain(self.parts.values().map(String::as_str)).collect();
        let is_plain = |c: char| c.is_ascii_alphanumeric() || c == '.';
        let mut name: String =
            words.join("-").chars().map(|c| if is_plain(c) { c } else { '-' }).take(NAME_BYTES_MAX).collect();
        let hash = format!("{:x}", Sha256::digest(&text));
        name.push('-');
        name.push_str(&hash[..N_HASH]);
        name
    }
}

/// A directory of clusters.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Workspace {
    /// The directory.
    pub dir: PathBuf,
}

/// The exclusive use of a cluster's directory, until this is dropped.
#[derive(Debug)]
pub struct Claim {
    /// Directory of the cluster; absent until one is made.
    pub root: PathBuf,
    /// Locked as long as it is open.
    lock: File,
}

impl Drop for Claim {
    fn drop(&mut self) {
        // A cluster that looks older than it is would be removed a little early: no reason to fail.
        self.lock.set_modified(SystemTime::now()).ok();
        // A child that another thread has just forked holds the same lock until it executes its program.
        self.lock.unlock().ok();
    }
}

/// The owner of what may be removed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Whose {
    /// A cluster that nothing shows somebody else to have used.
    OursAlone,
    /// Any, as its user has said by name.
    Anybodys,
}

/// One cluster of a workspace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WorkspaceCluster {
    /// Name of its directory.
    pub name: String,
    /// The directory.
    pub root: PathBuf,
    /// The record in its marker, if that is readable.
    pub facts: Option<ClusterFacts>,
    /// Why there is no record.
    pub problem: Option<String>,
    /// Bytes of the directory, snapshots included.
    pub bytes: u64,
    /// Snapshots, oldest first.
    pub snapshots: Vec<SnapshotFacts>,
    /// Other directories of the cluster, with their bytes.
    pub elsewhere: Vec<(PathBuf, u64)>,
    /// When a pgdyno used it last.
    pub last_used: SystemTime,
    /// Process id of the pgdyno that uses it.
    pub used_by_pid: Option<u32>,
    /// Process id of the server that runs on it.
    pub server_pid: Option<u32>,
    /// How somebody else has used it, in words: then it is left alone.
    pub used_by_others: Option<String>,
}

/// Whether it is a directory itself, and no link to one.
fn is_directory(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok_and(|facts| facts.is_dir())
}

impl Workspace {
    /// The workspace in `dir`, which is created if it does not exist. No other user may be able to replace what is in
    /// it.
    pub fn open(dir: &Path) -> Result<Workspace> {
        Ok(Workspace { dir: trust::make_directory(dir)? })
    }

    /// The workspace in `dir` to read or to remove from: it is checked if it exists, and not created; one that does not exist has
    /// no clusters.
    ///
    /// # Errors
    /// Says who could replace what is in it.
    pub fn look(dir: &Path) -> Result<Workspace> {
        let checked = if dir.is_dir() { trust::check_directory(dir)? } else { dir.to_path_buf() };
        Ok(Workspace { dir: checked })
    }

    /// As [`Workspace::look`], in a cache directory.
    ///
    /// # Errors
    /// As [`Workspace::look`].
    pub fn look_in_cache(cache: &Cache) -> Result<Workspace> {
        Workspace::look(&cache.clusters_dir())
    }

    /// Checks, without creating anything, that we can put clusters into the workspace in `dir`.
    ///
    /// # Errors
    /// Says whose it is, and what to do.
    pub fn expect_writable(dir: &Path) -> Result<()> {
        let advice = "use another directory (PGDYNO_CACHE sets the one of the cache)";
        trust::expect_writable(dir).map_err(|why| anyhow!("{why}; {advice}"))
    }

    /// The workspace of a cache directory.
    pub fn in_cache(cache: &Cache) -> Result<Workspace> {
        Workspace::open(&cache.clusters_dir())
    }

    /// Claims the cluster of a key for this process; fails at once if another process has it.
    pub fn claim(&self, key: &ClusterKey) -> Result<Claim> {
        self.claim_name(&key.directory_name())
    }

    /// All clusters, by name.
    pub fn list(&self) -> Result<Vec<WorkspaceCluster>> {
        let mut found = Vec::new();
        let entries = match fs::read_dir(&self.dir) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(found),
            entries => entries.with_context(|| format!("read `{}`", self.dir.display()))?,
        };
        for entry in entries {
            let entry = entry.with_context(|| format!("read `{}`", self.dir.display()))?;
            let (root, name) = (entry.path(), entry.file_name().to_string_lossy().into_owned());
            // What a link leads to is somebody else's.
            if !is_directory(&root) || !is_name(&name) {
                continue;
            }
            found.push(self.entry(name, root));
        }
        found.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(found)
    }

    fn entry(&self, name: String, root: PathBuf) -> WorkspaceCluster {
        let (facts, problem) = match ClusterFacts::read(&root) {
            Ok(facts) => (Some(facts), None),
            Err(error) => (None, Some(format!("{error:#}"))),
        };
        let data = root.join("data");
        let owner = Account::of_owner(&data).ok();
        // Our files with our rights, those of the server's user with that user's.
        let of_owner = owner.as_ref().filter(|owner| owner.is_switched);
        let rights =
            if is_owned_by_server(&root) { of_owner.map(FileRights::Of) } else { Some(FileRights::Ours) };
        WorkspaceCluster {
            elsewhere: facts.iter().flat_map(ClusterFacts::holders).map(sized).collect(),
            last_used: self.last_used(&name, &root),
            used_by_others: facts.as_ref().and_then(|_| others::use_of(&root)),
            snapshots: facts.iter().flat_map(|facts| snapshots_in(&snapshots_dir(&root, facts))).collect(),
            facts,
            problem,
            bytes: rights.map_or(0, |rights| tree_bytes(&root, rights)),
            used_by_pid: holder_of(&self.lock_path(&name)),
            server_pid: owner.and_then(|owner| postmaster_of(&data, &owner)),
            name,
            root,
        }
    }

    /// Removes a cluster of this workspace that nobody uses and whose server is stopped.
    pub fn remove(&self, name: &str) -> Result<()> {
        let claim = self.claim_existing(name)?;
        claim.clear()
    }

    /// As [`Workspace::remove`], also if somebody else has used it, or the marker is damaged or gone; [`crate::cluster::damaged`]
    /// says what must be shown. Returns what stays of its tablespaces, because somebody else uses it, and what shows that.
    pub fn remove_by_force(&self, name: &str) -> Result<Vec<(PathBuf, String)>> {
        let claim = self.claim_existing(name)?;
        match ClusterFacts::read(&claim.root) {
            Err(_) if !is_owned_by_server(&claim.root) => claim.clear_unmarked(Whose::Anybodys),
            _ => claim.clear_whose(Whose::Anybodys),
        }
    }

    /// Removes clusters that nobody uses and whose creation was never completed; returns them.
    pub fn sweep(&self) -> Result<Vec<Swept>> {
        let is_broken = |entry: &WorkspaceCluster| match &entry.facts {
            Some(facts) => !facts.is_complete,
            None => damaged::is_damaged(&entry.root),
        };
        let broken = self.list()?.into_iter().filter(|entry| is_broken(entry) && entry.used_by_pid.is_none());
        // One that somebody has begun to use is left without a word.
        let claimed = broken.filter_map(|entry| Some((entry.root, self.claim_existing(&entry.name).ok()?)));
        Ok(claimed.map(|(root, claim)| Swept::from_result(root, claim.clear())).collect())
    }

    /// As [`Workspace::claim_name`] for an existing cluster; for any other, no lock file is left behind.
    fn claim_existing(&self, name: &str) -> Result<Claim> {
        let expect = || {
            // A text that cannot be a name is refused as such below.
            let is_there = is_directory(&self.dir.join(name)) || !is_name(name);
            ensure!(is_there, "there is no cluster `{name}` in `{}`", self.dir.display());
            Ok(())
        };
        expect()?;
        let claim = self.claim_name(name)?;
        // Another process may have removed it before this one had the lock.
        expect().map(|()| claim)
    }

    /// Claims a cluster by the name of its directory; fails at once if another process has it.
    pub fn claim_name(&self, name: &str) -> Result<Claim> {
        ensure!(is_name(name), "`{name}` is not the name of a cluster");
        let path = self.lock_path(name);
        let mut lock = files::lock_file(&path).or_else(|error| {
            Workspace::expect_writable(&self.dir)?;
            Err(error).with_context(|| format!("open `{}`", path.display()))
        })?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                let holder = read_holder(&mut lock)
                    .map_or("another process".to_string(), |holder| format!("pgdyno process {}", holder.pid));
                bail!("cluster `{}` is in use by {holder}; wait for its end", self.dir.join(name).display());
            }
            Err(TryLockError::Error(error)) => {
                return Err(error).with_context(|| format!("lock `{}`", path.display()));
            }
        }
        // Only for messages: the lock decides, also where a full disk has no room for this.
        let note = serde_json::to_vec(&ProcessId::current())?;
        lock.set_len(0).and_then(|()| lock.rewind()).and_then(|()| lock.write_all(&note)).ok();
        Ok(Claim { root: self.dir.join(name), lock })
    }

    /// When a cluster was used last: its lock file is written when a process claims and when it releases the cluster.
    fn last_used(&self, name: &str, root: &Path) -> SystemTime {
        let changed = |path: &Path| fs::symlink_metadata(path).and_then(|facts| facts.modified());
        changed(&self.lock_path(name)).or_else(|_| changed(root)).unwrap_or(SystemTime::UNIX_EPOCH)
    }

    fn lock_path(&self, name: &str) -> PathBuf {
        self.dir.join(format!("{name}.lock"))
    }
}

impl Claim {
    /// A new cluster for a standby of `primary`, to be seeded.
    ///
    /// # Errors
    /// When it cannot be made.
    pub fn standby(&self, primary: &Cluster) -> Result<Cluster> {
        self.clear()?;
        Cluster::create_standby(primary, &self.root)
    }

    /// The claimed cluster: opened if it exists and is complete, else created. The caller checks that there is room for
    /// it.
    pub fn cluster(&self, binaries: &Binaries, options: &InitOptions) -> Result<Cluster> {
        let present = self.root.exists().then(|| Cluster::open(binaries, &self.root));
        if let Some(Ok(cluster)) = present {
            return Ok(cluster);
        }
        if self.root.exists() {
            // An interrupted creation leaves a marker; a directory without one is not ours, and this fails.
            let is_complete = !damaged::is_damaged(&self.root) && ClusterFacts::read(&self.root)?.is_complete;
            match present {
                Some(Err(error)) if is_complete => return Err(error),
                _ => self.clear()?,
            }
        }
        Cluster::create(binaries, &self.root, options)
    }

    /// The existing directories of the claimed cluster, with their bytes.
    pub fn places(&self) -> Vec<(PathBuf, u64)> {
        if !self.root.is_dir() {
            return Vec::new();
        }
        let facts = ClusterFacts::read(&self.root).ok();
        let holders = facts.iter().flat_map(ClusterFacts::holders).map(sized);
        std::iter::once(sized(&self.root)).chain(holders).collect()
    }

    /// Removes the claimed cluster, if there is one; its server must be stopped, and nobody else may have used it.
    pub fn clear(&self) -> Result<()> {
        self.clear_whose(Whose::OursAlone).map(drop)
    }

    fn clear_whose(&self, whose: Whose) -> Result<Vec<(PathBuf, String)>> {
        if !self.root.exists() {
            return Ok(Vec::new());
        }
        if damaged::is_damaged(&self.root) {
            return self.clear_unmarked(whose);
        }
        let is_old = is_owned_by_server(&self.root) && has_marker(&self.root);
        let facts = if is_old { None } else { Some(ClusterFacts::read(&self.root)?) };
        self.expect_removable(whose)?;
        match facts {
            Some(facts) => remove_cluster_files(&self.root, &facts),
            None => remove_old_cluster(&self.root).map(|()| Vec::new()),
        }
    }

    /// Removes the claimed directory if it can be shown to be a cluster of pgdyno although it has no readable marker.
    fn clear_unmarked(&self, whose: Whose) -> Result<Vec<(PathBuf, String)>> {
        self.expect_removable(whose)?;
        damaged::remove(&self.root)
    }

    fn expect_removable(&self, whose: Whose) -> Result<()> {
        let data = self.root.join("data");
        let pid = Account::of_owner(&data).ok().and_then(|owner| postmaster_of(&data, &owner));
        if let Some(pid) = pid {
            bail!("the server of cluster `{}` runs as process {pid}; stop it first", self.root.display());
        }
        match whose {
            Whose::OursAlone => others::expect_none(&self.root),
            Whose::Anybodys => Ok(()),
        }
    }
}

fn sized(dir: &Path) -> (PathBuf, u64) {
    (dir.to_path_buf(), tree_bytes(dir, FileRights::Ours))
}

fn is_name(name: &str) -> bool {
    !name.is_empty() && !name.starts_with('.') && !name.contains('/') && !name.ends_with(".lock")
}

/// Whether the directory has a name as [`ClusterKey::directory_name`] makes it.
pub(crate) fn is_directory_name(root: &Path) -> bool {
    let name = root.file_name().and_then(|name| name.to_str());
    let hash = name.and_then(|name| name.rsplit_once('-')).map_or("", |(_, hash)| hash);
    hash.len() == N_HASH && hash.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'))
}

/// The process that holds a lock file now.
fn holder_of(path: &Path) -> Option<u32> {
    let mut lock = files::open(path).ok()?;
    match lock.try_lock_shared() {
        Err(TryLockError::WouldBlock) => read_holder(&mut lock).map(|holder| holder.pid),
        _ => None,
    }
}

fn read_holder(lock: &mut File) -> Option<ProcessId> {
    let mut text = Vec::new();
    lock.take(LOCK_BYTES_MAX).read_to_end(&mut text).ok()?;
    serde_json::from_slice(&text).ok()
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use super::*;

    fn key(scale: &str) -> ClusterKey {
        let parts = [("workload", "tpcb"), ("scale", scale)].map(|(k, v)| (k.to_string(), v.to_string()));
        ClusterKey { source: "18.6 abc".to_string(), parts: parts.into() }
    }

    #[test]
    fn names_are_readable_and_differ_with_every_part_of_the_key() {
        let name = key("100").directory_name();
        assert!(name.starts_with("18.6-100-tpcb-") && name.len() < 60, "{name}");
        assert_eq!(name, key("100").directory_name());
        assert_ne!(name, key("10").directory_name());
        assert_ne!(key("a b").directory_name(), key("a-b").directory_name());
        let other = ClusterKey { source: "18.6 def".to_string(), ..key("100") };
        assert_ne!(name, other.directory_name());
        let hostile = key("../../etc\n").directory_name();
        assert!(is_name(&hostile) && !hostile.contains('/'), "{hostile}");
    }

    #[test]
    fn a_cluster_has_one_user_at_a_time() {
        let dir = tempfile::tempdir().unwrap();
        let workspace = Workspace::open(&dir.path().join("deep/down")).unwrap();
        let claim = workspace.claim(&key("1")).unwrap();
        let error = workspace.claim(&key("1")).unwrap_err().to_string();
        assert!(error.contains(&format!("in use by pgdyno process {}", std::process::id())), "{error}");
        workspace.claim(&key("2")).unwrap();
        assert_eq!(holder_of(&workspace.lock_path(&key("1").directory_name())), Some(std::process::id()));
        drop(claim);
        // A child that another test starts has our descriptors, and so the lock, until its exec.
        let is_free = || holder_of(&workspace.lock_path(&key("1").directory_name())).is_none();
        assert!((0..500).any(|_| is_free() || {
            std::thread::sleep(std::time::Duration::from_millis(10));
            false
        }));
        workspace.claim(&key("1")).unwrap();
    }

    /// A file system of 64 KiB in a directory, until this is dropped.
    struct SmallDisk<'a>(&'a Path);

    impl SmallDisk<'_> {
        /// `None` where this user cannot mount.
        fn mount(dir: &Path) -> Option<SmallDisk<'_>> {
            let mut mount = Command::new("mount");
            mount.args(["-t", "tmpfs", "-o", "size=64k,mode=755", "none"]).arg(dir).stderr(Stdio::null());
            mount.status().is_ok_and(|status| status.success()).then_some(SmallDisk(dir))
        }

        fn fill(&self) {
            let mut filler = File::create(self.0.join("filler")).unwrap();
            while filler.write_all(&[1; 512]).is_ok() {}
        }
    }

    impl Drop for SmallDisk<'_> {
        fn drop(&mut self) {
            Command::new("umount").arg("--lazy").arg(self.0).status().ok();
        }
    }

    #[test]
    fn a_cluster_is_removed_from_a_full_disk() {
        let dir = tempfile::tempdir().unwrap();
        let Some(disk) = SmallDisk::mount(dir.path()) else { return };
        let workspace = Workspace::open(dir.path()).unwrap();
        let root = dir.path().join(key("1").directory_name());
        let name = key("1").directory_name();
        let make = |wal_holder| {
            fs::create_dir_all(root.join("data/base")).unwrap();
            fs::write(root.join("data/base/1"), "rows").unwrap();
            let facts = ClusterFacts { is_complete: true, ..ClusterFacts::unknown(wal_holder) };
            fs::write(root.join("pgdyno-cluster.json"), serde_json::to_vec_pretty(&facts).unwrap()).unwrap();
            drop(workspace.claim(&key("1")).unwrap());
            disk.fill();
        };
        // What prevents a removal leaves a cluster that does not look complete.
        make(Some(dir.path().join("filler")));
        let refused = workspace.remove(&name).unwrap_err().to_string();
        assert!(refused.contains("might not belong to cluster"), "{refused}");
        let left = ClusterFacts::read(&root).unwrap();
        assert!(!left.is_complete && root.join("data/base/1").exists(), "{left:?}");
        fs::remove_file(dir.path().join("filler")).unwrap();
        make(None);
        workspace.remove(&name).unwrap();
        assert!(!root.exists());
    }

    #[test]
    fn what_was_copied_renamed_or_linked_by_somebody_is_left_alone() {
        let place = tempfile::tempdir().unwrap();
        let dir = place.path().join("clusters");
        fs::create_dir(&dir).unwrap();
        let workspace = Workspace::open(&dir).unwrap();
        let name = key("1").directory_name();
        let root = dir.join(&name);
        fs::create_dir_all(root.join("data")).unwrap();
        ClusterFacts { is_complete: true, ..ClusterFacts::unknown(None) }.write(&root).unwrap();
        let copied = |to: &Path| {
            fs::create_dir_all(to.join("data")).unwrap();
            fs::write(to.join("data/precious"), "rows").unwrap();
            fs::copy(root.join("pgdyno-cluster.json"), to.join("pgdyno-cluster.json")).unwrap();
        };
        let (copy, elsewhere) = (dir.join("mine-000000000001"), place.path().join("elsewhere"));
        copied(&copy);
        copied(&elsewhere);
        std::os::unix::fs::symlink(&elsewhere, dir.join("link-000000000001")).unwrap();

        let listed = workspace.list().unwrap();
        let of_names: Vec<_> =
            listed.iter().map(|entry| (entry.name.as_str(), entry.facts.is_some())).collect();
        assert_eq!(of_names, [(name.as_str(), true), ("mine-000000000001", false)]);
        assert!(
            listed[1]
                .problem
                .as_ref()
                .is_some_and(|problem| problem.contains(&format!("a copy of `{name}`")))
        );
        assert_eq!(workspace.sweep().unwrap(), []);
        let refused = workspace.remove("mine-000000000001").unwrap_err().to_string();
        assert!(refused.contains("remove it yourself"), "{refused}");
        assert!(
            workspace.remove("link-000000000001").unwrap_err().to_string().contains("there is no cluster")
        );

        let renamed = dir.join("kept-000000000001");
        fs::rename(&root, &renamed).unwrap();
        assert!(workspace.remove("kept-000000000001").is_err());
        assert!(
            renamed.join("data").exists()
                && copy.join("data/precious").exists()
                && elsewhere.join("data/precious").exists()
        );
        fs::rename(&renamed, &root).unwrap();
        workspace.remove(&name).unwrap();
        assert!(!root.exists());
    }

    #[test]
    fn a_directory_that_is_not_ours_is_left_alone() {
        let dir = tempfile::tempdir().unwrap();
        let workspace = Workspace::open(dir.path()).unwrap();
        fs::create_dir(dir.path().join("photos")).unwrap();
        let error = workspace.remove("photos").unwrap_err().to_string();
        assert!(error.contains("is not a cluster created by pgdyno"), "{error}");
        assert!(dir.path().join("photos").exists());
        for name in ["", "..", "a/b", "x.lock"] {
            assert!(workspace.remove(name).unwrap_err().to_string().contains("not the name"), "{name}");
        }
        assert!(workspace.remove("none").unwrap_err().to_string().contains("no cluster `none`"));
        assert_eq!(workspace.sweep().unwrap(), Vec::<Swept>::new());
        // Also if it has the name of one of pgdyno's clusters, unless it is empty.
        let like_ours = dir.path().join(key("1").directory_name());
        fs::create_dir(&like_ours).unwrap();
        fs::write(like_ours.join("photo.jpg"), "precious").unwrap();
        assert_eq!(workspace.sweep().unwrap(), Vec::<Swept>::new());
        // Nothing shows whose log it is.
        fs::rename(like_ours.join("photo.jpg"), like_ours.join("restore.log")).unwrap();
        assert_eq!(workspace.sweep().unwrap(), Vec::<Swept>::new());
        fs::remove_file(like_ours.join("restore.log")).unwrap();
        assert_eq!(
            Swept::removed(workspace.sweep().unwrap()),
            [workspace.dir.join(key("1").directory_name())]
        );
    }
}
