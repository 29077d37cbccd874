//! A cluster: a data directory that pgdyno created, with its WAL, its snapshots and its log.
//!
//! ```text
//! ROOT/pgdyno-cluster.json   what it is; a directory without it is not touched
//! ROOT/data/                 the data directory, owned by the server's user
//! ROOT/snapshots/NAME/       copies of data and WAL
//! ROOT/server.log            log of the last start
//! ROOT/pgdyno-left.json      what pgdyno left when it last stopped the server (`others`)
//! ROOT/archive/              segments of WAL that the server archived in the last run, owned by the server's user
//! ROOT/restore.log           what the programs said that restored an archive
//! HOLDER/pgdyno-snapshots.json, HOLDER/NAME/   the snapshots, where they are kept on another device
//! HOLDER/pgdyno-wal.json     whose WAL it is, where the WAL is on another device
//! HOLDER/wal/                the WAL, owned by the server's user
//! LOCATION/PG_.../           what the server has in a tablespace (`tablespaces`)
//! ```
//!
//! All but `data` and `wal` belongs to the user that runs pgdyno, and nobody else can replace it, because the marker
//! and the snapshots are trusted. Files in `data` and `wal` are touched only with the rights of the server's user.

pub(crate) mod archived;
pub mod budget;
pub mod control;
pub mod copy;
pub(crate) mod damaged;
pub mod home;
pub(crate) mod others;
pub mod snapshot;
pub mod space;
mod standby;
pub(crate) mod tablespaces;
pub mod workspace;

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, bail, ensure};
use files::trust;
use model::release::{Release, functions, programs};
use serde::{Deserialize, Serialize};

use crate::binaries::Binaries;
use crate::cluster::control::ControlFile;
use crate::cluster::home::ClusterDir;
use crate::cluster::tablespaces::Belonging;
use crate::process::command::{run_logged, server_command};
use crate::process::postmaster::postmaster_of;
use crate::settings::{check_settings, configuration_text};
use crate::user::account::Account;
use crate::user::given;
use crate::user::held_dir::{HeldDir, remove_tree};
use crate::user::untrusted;

/// The superuser of our clusters.
pub const SUPERUSER: &str = "postgres";
/// The database of our clusters.
pub const DATABASE: &str = "pgdyno";
/// File in `data/` that is included by `postgresql.conf` and written at each start.
pub(crate) const CONFIGURATION: &str = "pgdyno.conf";
pub(crate) const MARKER: &str = "pgdyno-cluster.json";
/// What the programs say that restore an archive.
pub(crate) const RESTORE_LOG: &str = "restore.log";
pub(crate) const WAL_MARKER: &str = "pgdyno-wal.json";
const SNAPSHOT_MARKER: &str = "pgdyno-snapshots.json";
/// Name of the WAL's directory in its holder.
const WAL: &str = "wal";
const FORMAT: u32 = 1;
/// Far more than the size of a marker.
pub(crate) const MARKER_BYTES_MAX: u64 = 1 << 20;
/// When its parent dies, a server gets an immediate shutdown, and its postmaster kills children that do not end within
/// 5 s; a busy machine is slower.
const PREDECESSOR_PATIENCE: Duration = Duration::from_secs(20);
/// Far longer than `initdb` needs on a slow disk.
const INIT_DEADLINE: Duration = Duration::from_secs(300);

/// Options of a new cluster. Its encoding is UTF8 and its locale C, so that sorting is the same everywhere.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct InitOptions {
    /// Existing directory, usually on another device, in which a directory for the WAL is created.
    pub wal_directory: Option<PathBuf>,
    /// Existing directory, usually on another device, in which a directory for the snapshots is created.
    pub snapshot_directory: Option<PathBuf>,
    /// Page checksums; `None` is the server's own default (on since 18).
    pub checksums: Option<bool>,
}

/// A cluster that pgdyno created.
#[derive(Debug, Clone)]
pub struct Cluster {
    /// Directory of the cluster, which holds everything but a WAL or snapshots kept elsewhere.
    pub root: PathBuf,
    /// Binaries that run it.
    pub binaries: Binaries,
    /// User that owns it and runs its server.
    pub account: Account,
    /// The record in its marker file.
    pub facts: ClusterFacts,
}

/// The contents of a cluster's marker file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClusterFacts {
    /// Version of this file's format.
    pub format: u32,
    /// Version of the binaries that created it, as `postgres --version` prints it.
    pub version: String,
    /// The same as a number: 180006.
    pub version_num: u32,
    /// When it was created, seconds since the Unix epoch.
    pub created_unix_s: u64,
    /// Directory made for the WAL outside the data directory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wal_holder: Option<PathBuf>,
    /// Directory made for the snapshots outside the cluster's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub snapshot_holder: Option<PathBuf>,
    /// Whether the extension `pg_prewarm` is in database `pgdyno`.
    pub has_prewarm: bool,
    /// Whether its creation was completed.
    pub is_complete: bool,
    /// Snapshot that was being restored; set while the data directory is only partly restored.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub restoring: Option<String>,
    /// Remarks by the caller, such as which data is loaded.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    /// The directory that it was made in. Clusters of earlier versions do not say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub home: Option<ClusterDir>,
}

impl Cluster {
    /// Creates a cluster in `root`, which might not exist yet. On an error, what was created is removed.
    pub fn create(binaries: &Binaries, root: &Path, options: &InitOptions) -> Result<Cluster> {
        let account = Account::choose()?;
        account.check_reach(&binaries.program("postgres"))?;
        let root = make_root(root, &account)?;
        let facts = ClusterFacts {
            version: binaries.version.clone(),
            version_num: binaries.version_num,
            created_unix_s: SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_secs()),
            home: ClusterDir::open(&root).ok(),
            ..ClusterFacts::unknown(None)
        };
        let mut cluster = Cluster { root, binaries: binaries.clone(), account, facts };
        let made = cluster.initialize(options);
        if made.is_err() {
            // The first error is the one to report.
            cluster.remove_files().ok();
        }
        made.map(|()| cluster)
    }

    /// Opens a cluster that pgdyno created before, to be run with `binaries` of the same major version.
    pub fn open(binaries: &Binaries, root: &Path) -> Result<Cluster> {
        let facts = ClusterFacts::read(root)?;
        ensure!(
            facts.is_complete,
            "the creation of cluster `{}` was interrupted; remove it and create it again",
            root.display()
        );
        let made_by = Binaries { version_num: facts.version_num, ..binaries.clone() }.series();
        ensure!(
            made_by == binaries.series(),
            "cluster `{}` was made by PostgreSQL {}; binaries of {} cannot run it",
            root.display(),
            facts.version,
            binaries.version
        );
        let account = Account::choose()?;
        let root = trust::check_directory(root)?;
        let owner = Account::of_owner(&root.join("data"))?;
        ensure!(
            owner.uid == account.uid,
            "the data of cluster `{}` belong to user `{}` but the server would run as `{}`; set PGDYNO_SERVER_USER, or \
             remove the cluster and create it again",
            root.display(),
            owner.name,
            account.name
        );
        account.check_reach(&binaries.program("postgres"))?;
        account.check_reach(&root)?;
        others::expect_none(&root)?;
        if facts.home.as_ref().is_some_and(|home| ClusterDir::open(&root).is_ok_and(|here| here != *home)) {
            facts.write(&root)?;
        }
        Ok(Cluster { root, binaries: binaries.clone(), account, facts })
    }

    /// The data directory.
    pub fn data_dir(&self) -> PathBuf {
        self.root.join("data")
    }

    /// The directory of the WAL: in the data directory, or elsewhere.
    pub fn wal_dir(&self) -> PathBuf {
        match &self.facts.wal_holder {
            Some(holder) => holder.join(WAL),
            None => self.data_dir().join(wal_name(self.binaries.version_num)),
        }
    }

    /// The log of the last start.
    pub fn log_path(&self) -> PathBuf {
        self.root.join("server.log")
    }

    /// Process id of the server that runs on it, if one does.
    pub fn running_pid(&self) -> Option<u32> {
        postmaster_of(&self.data_dir(), &self.account)
    }

    /// The contents of the server's control file.
    pub fn control_file(&self) -> Result<ControlFile> {
        ControlFile::read(&self.data_dir(), &self.account)
    }

    /// Records remarks such as which data is loaded in the cluster.
    pub fn set_labels(&mut self, labels: BTreeMap<String, String>) -> Result<()> {
        self.facts.labels = labels;
        self.facts.write(&self.root)
    }

    /// Marks what the cluster has in tablespaces, so that it can be removed with the cluster. A snapshot does that too.
    ///
    /// # Errors
    /// When a tablespace cannot be read, or is marked as another cluster's.
    pub fn mark_tablespaces(&self) -> Result<()> {
        self.belonging()?.mark().map(drop)
    }

    pub(crate) fn belonging(&self) -> Result<Belonging<'_>> {
        let data = self.data_dir();
        Belonging::new(&data, &self.account, (&data, &self.account))
    }

    /// Removes the cluster, its WAL, its snapshots, and what it has in marked tablespaces. Its server must be stopped.
    pub fn remove(self) -> Result<()> {
        self.wait_until_stopped("remove it")?;
        self.remove_files()
    }

    /// Waits a little for the server's end: the server of a killed pgdyno receives its signal a moment later.
    pub(crate) fn wait_until_stopped(&self, purpose: &str) -> Result<()> {
        let end = Instant::now() + PREDECESSOR_PATIENCE;
        while self.running_pid().is_some() && Instant::now() < end {
            thread::sleep(Duration::from_millis(50));
        }
        match self.running_pid() {
            Some(pid) => bail!(
                "the server of cluster `{}` runs as process {pid}; stop it to {purpose}",
                self.root.display()
            ),
            None => Ok(()),
        }
    }

    pub(crate) fn set_restoring(&mut self, snapshot: Option<String>) -> Result<()> {
        self.facts.restoring = snapshot;
        self.facts.write(&self.root)
    }

    fn initialize(&mut self, options: &InitOptions) -> Result<()> {
        self.facts.write(&self.root)?;
        if let Some(directory) = &options.wal_directory {
            let holder = wal_holder_in(directory)?;
            self.facts.wal_holder = Some(holder.clone());
            // Before it is created: after a kill, nothing else would name it.
            self.facts.write(&self.root)?;
            self.make_wal_holder(&holder)?;
        }
        if let Some(directory) = &options.snapshot_directory {
            let holder = snapshot_holder_in(directory)?;
            self.facts.snapshot_holder = Some(holder.clone());
            damaged::note_snapshot_holder(&self.root, &holder)?;
            self.facts.write(&self.root)?;
            self.make_snapshot_holder(&holder).with_context(|| format!("create `{}`", holder.display()))?;
        }
        given::make(&self.data_dir(), &self.account)?;
        self.run_initdb(options)?;
        let data = self.data_dir();
        self.write_settings(&BTreeMap::new())?;
        let main = data.join("postgresql.conf");
        self.account
            .act(|| files::open_with(&main, OpenOptions::new().append(true)))
            .and_then(|mut file| writeln!(file, "\ninclude = '{CONFIGURATION}'"))
            .with_context(|| format!("write `{}`", main.display()))?;
        let said = self.single_user("postgres", &format!("CREATE DATABASE {DATABASE}"))?;
        ensure!(!has_error(&said), "cannot create database `{DATABASE}`:\n{}", said.trim_end());
        // Not every build has the contrib extensions; prewarming can do without this one.
        self.facts.has_prewarm = !has_error(&self.single_user(DATABASE, "CREATE EXTENSION pg_prewarm")?);
        nix::unistd::syncfs(File::open(&data)?).context("write the cluster to disk")?;
        self.facts.is_complete = true;
        self.facts.write(&self.root)
    }

    fn make_wal_holder(&self, holder: &Path) -> Result<()> {
        given::make_outer(holder, &self.account).with_context(|| format!("create `{}`", holder.display()))?;
        if let Err(error) = self.account.check_reach(holder) {
            fs::remove_dir(holder).ok();
            return Err(error);
        }
        files::replace(&holder.join(WAL_MARKER), files::PRIVATE, &serde_json::to_vec(&self.root)?)?;
        given::make(&holder.join(WAL), &self.account)?;
        Ok(())
    }

    /// A directory that others, including the server's user, can neither read nor change, so that what is restored is
    /// what was taken.
    fn make_snapshot_holder(&self, holder: &Path) -> Result<()> {
        fs::DirBuilder::new().mode(0o700).create(holder)?;
        let marker = serde_json::to_vec(&self.root)?;
        Ok(files::replace(&holder.join(SNAPSHOT_MARKER), files::PRIVATE, &marker)?)
    }

    fn run_initdb(&self, options: &InitOptions) -> Result<()> {
        let mut command = server_command(&self.binaries.program("initdb"), &self.account, &self.root);
        command.arg("-D").arg(self.data_dir());
        command.args(["-U", SUPERUSER, "-E", "UTF8", "--locale=C", "-A", "trust"]);
        // `-N`: we write everything to disk once, when it is complete.
        command.arg("-N");
        match options.checksums {
            Some(true) => command.arg("-k"),
            Some(false) if Release::new(self.binaries.version_num).has(programs::CHECKSUMS_BY_DEFAULT) => {
                command.arg("--no-data-checksums")
            }
            _ => &mut command,
        };
        if self.facts.wal_holder.is_some() {
            command.arg("-X").arg(self.wal_dir());
        }
        run_logged(command, &self.root.join("initdb.log"), INIT_DEADLINE)?;
        Ok(())
    }

    /// Writes `pg_hba.conf`. The socket's directory is closed to all but the server's user and root, so whoever gets
    /// there is trusted; `others` are the lines for the load's drivers.
    pub(crate) fn write_access(&self, others: &str) -> Result<()> {
        let text = format!(
            "# Written by pgdyno at each start; changes are lost.\nlocal all all trust\nlocal replication all trust\n{others}"
        );
        self.write_owned(&self.data_dir().join("pg_hba.conf"), &text)
    }

    /// Writes the configuration of the next start.
    ///
    /// # Errors
    /// When our own servers cannot have one of the settings, or the file cannot be written.
    pub(crate) fn write_settings(&self, settings: &BTreeMap<String, String>) -> Result<()> {
        check_settings(settings)?;
        self.write_owned(&self.data_dir().join(CONFIGURATION), &configuration_text(settings))
    }

    /// Writes a file into a directory of the server's user.
    pub(crate) fn write_owned(&self, path: &Path, text: &str) -> Result<()> {
        self.account
            .act(|| files::create(path, 0o600))
            .and_then(|mut file| file.write_all(text.as_bytes()))
            .with_context(|| format!("write `{}`", path.display()))
    }

    /// Runs one statement on one line in single-user mode; returns the output.
    fn single_user(&self, database: &str, statement: &str) -> Result<String> {
        let input = self.root.join("single-user.sql");
        untrusted::create(&input)
            .and_then(|mut file| writeln!(file, "{statement};"))
            .with_context(|| format!("write `{}`", input.display()))?;
        let mut command = server_command(&self.binaries.program("postgres"), &self.account, &self.root);
        command.arg("--single").arg("-D").arg(self.data_dir()).arg(database);
        command.stdin(Stdio::from(untrusted::open(&input)?));
        let said = run_logged(command, &self.root.join("single-user.log"), INIT_DEADLINE);
        fs::remove_file(&input)?;
        said
    }

    fn remove_files(&self) -> Result<()> {
        remove_cluster_files(&self.root, &self.facts).map(drop)
    }
}

impl ClusterFacts {
    /// The record of the cluster in `root`; an error if `root` is not a cluster of pgdyno, or others could have
    /// replaced it.
    pub fn read(root: &Path) -> Result<ClusterFacts> {
        let path = root.join(MARKER);
        ensure!(
            has_marker(root),
            "`{}` is not a cluster created by pgdyno (no `{MARKER}`); it is left alone",
            root.display()
        );
        trust::check_directory(root).with_context(|| if is_owned_by_server(root) {
format!(
                "cluster `{}` was created by an older pgdyno, which gave all of it to the server's user; remove it with \
                 pgdyno server remove and load it again",
                root.display()
            )
} else {
format!("cluster `{}` is not trusted", root.display())
})?;
        let text = trust::read(&path, MARKER_BYTES_MAX)
            .with_context(|| format!("`{}` cannot be used", path.display()))?;
        let facts: ClusterFacts =
            serde_json::from_slice(&text).with_context(|| format!("`{}` is damaged", path.display()))?;
        ensure!(
            facts.format <= FORMAT,
            "cluster `{}` was created by a newer pgdyno; use that one or remove the cluster",
            root.display()
        );
        if let Some(home) = &facts.home {
            home.expect(root, || facts.holders().next().is_none() && others::is_as_left(root))?;
        }
        Ok(facts)
    }

    /// Directories of the cluster outside its own: for the WAL and the snapshots.
    pub fn holders(&self) -> impl Iterator<Item = &Path> {
        self.wal_holder.iter().chain(&self.snapshot_holder).map(PathBuf::as_path)
    }

    fn write(&self, root: &Path) -> Result<()> {
        let path = root.join(MARKER);
        let home = Some(ClusterDir::open(root).with_context(|| format!("look at `{}`", root.display()))?);
        files::replace(
            &path,
            files::PRIVATE,
            &serde_json::to_vec_pretty(&ClusterFacts { home, ..self.clone() })?,
        )
        .with_context(|| format!("write `{}`", path.display()))
    }

    /// As `write`, also on a full disk: there, the record is written over the one that is there, which needs no space. A
    /// power cut may leave a damaged one then, which does not stop a removal.
    fn write_to_remove(&self, root: &Path) -> Result<()> {
        let written = self.write(root);
        let kind =
            written.as_ref().err().and_then(|error| error.downcast_ref::<io::Error>()).map(io::Error::kind);
        if !matches!(kind, Some(ErrorKind::StorageFull | ErrorKind::QuotaExceeded)) {
            return written;
        }
        match ClusterFacts::read(root) {
            Ok(present) if present.is_complete => self.overwrite(root).or(written),
            // It does not look complete anyway.
            _ => Ok(()),
        }
    }

    fn overwrite(&self, root: &Path) -> Result<()> {
        let mut text = serde_json::to_vec(self)?;
        let mut file = files::open_with(&root.join(MARKER), OpenOptions::new().write(true))?;
        let length = usize::try_from(file.metadata()?.len())?;
        // Without line breaks it is shorter.
        ensure!(text.len() <= length, "the record has grown");
        text.resize(length, b' ');
        file.write_all(&text)?;
        Ok(file.sync_all()?)
    }

    /// Stands for the record of a cluster whose marker cannot be read.
    pub(crate) fn unknown(wal_holder: Option<PathBuf>) -> ClusterFacts {
        ClusterFacts {
            format: FORMAT,
            version: String::new(),
            version_num: 0,
            created_unix_s: 0,
            wal_holder,
            snapshot_holder: None,
            has_prewarm: false,
            is_complete: false,
            restoring: None,
            labels: BTreeMap::new(),
            home: None,
        }
    }
}

/// Whether the directory has a marker, readable or not.
pub(crate) fn has_marker(root: &Path) -> bool {
    fs::symlink_metadata(root.join(MARKER)).is_ok_and(|facts| facts.is_file())
}

/// Removes those directories of a cluster that carry pgdyno's markers. Returns what stays of its tablespaces, because somebody else
/// uses it, and what shows that.
pub(crate) fn remove_cluster_files(root: &Path, facts: &ClusterFacts) -> Result<Vec<(PathBuf, String)>> {
    // A cluster that is only partly removed must not look complete.
    ClusterFacts { is_complete: false, ..facts.clone() }.write_to_remove(root)?;
    let holders = [(&facts.wal_holder, WAL_MARKER), (&facts.snapshot_holder, SNAPSHOT_MARKER)];
    for (holder, marker) in holders {
        let Some(holder) = holder.as_deref().filter(|holder| fs::symlink_metadata(holder).is_ok()) else {
            continue;
        };
        if fs::symlink_metadata(holder.join(marker)).is_err() && remove_begun_holder(holder, marker).is_ok() {
            continue;
        }
        check_holder(holder, marker, root).with_context(|| {
            format!(
                "`{}` might not belong to cluster `{}`; remove it by hand if it does, and the cluster again",
                holder.display(),
                root.display()
            )
        })?;
        given::remove(&holder.join(WAL))?;
        remove_tree(holder).with_context(|| format!("remove `{}`", holder.display()))?;
    }
    // Their links are in the data.
    let used = tablespaces::remove_of(&root.join("data"), others::ClusterDigest::read(root).as_ref())?;
    given::remove(&root.join("data"))?;
    archived::remove_of(root)?;
    // Without its marker nothing but an empty directory is ours.
    HeldDir::open(root)
        .and_then(|held| held.empty_marked(MARKER))
        .and_then(|()| fs::remove_dir(root))
        .with_context(|| format!("remove `{}`", root.display()))?;
    Ok(used)
}

/// Removes a cluster that an older pgdyno gave to the server's user as a whole. Nothing in it is trusted: its files are
/// removed with that user's rights.
pub(crate) fn remove_old_cluster(root: &Path) -> Result<()> {
    let owner = Account::of_owner(root)?;
    let marker = owner.act(|| files::read(&root.join(MARKER), MARKER_BYTES_MAX));
    let facts = marker.ok().and_then(|text| serde_json::from_slice::<ClusterFacts>(&text).ok());
    if let Some(holder) = facts.and_then(|facts| facts.wal_holder) {
        ensure!(
            !owner.act(|| fs::exists(&holder))?,
            "cluster `{}` says that its WAL is in `{}`, but user `{}` could have written that; remove that directory by hand \
             if it is, and the cluster again",
            root.display(),
            holder.display(),
            owner.name
        );
    }
    given::remove(root)
}

/// Whether the directory was given to the server's user as a whole, as an older pgdyno did when it was run as root.
pub(crate) fn is_owned_by_server(root: &Path) -> bool {
    Account::of_owner(root).is_ok_and(|owner| owner.is_switched)
}

fn wal_holder_in(directory: &Path) -> Result<PathBuf> {
    ensure!(directory.is_dir(), "cannot enter the WAL directory `{}`; create it first", directory.display());
    let directory = trust::check_place(directory)?;
    Ok(directory.join(format!("pgdyno-wal-{}", files::random_hex(6)?)))
}

fn snapshot_holder_in(directory: &Path) -> Result<PathBuf> {
    let directory = trust::check_place(directory)
        .with_context(|| format!("snapshots cannot be kept in `{}`", directory.display()))?;
    Ok(directory.join(format!("pgdyno-snapshots-{}", files::random_hex(6)?)))
}

/// Removes a directory that a kill left without the marker, which is the first file in it: it must be empty.
fn remove_begun_holder(holder: &Path, marker: &str) -> Result<()> {
    trust::check_directory(holder)?;
    fs::remove_file(files::temporary_name(&holder.join(marker))).ok();
    fs::remove_dir(holder).with_context(|| format!("remove `{}`", holder.display()))
}

fn check_holder(holder: &Path, marker: &str, root: &Path) -> Result<()> {
    trust::check_directory(holder)?;
    let marker = holder.join(marker);
    let text =
        trust::read(&marker, MARKER_BYTES_MAX).with_context(|| format!("read `{}`", marker.display()))?;
    let of: PathBuf =
        serde_json::from_slice(&text).with_context(|| format!("`{}` is damaged", marker.display()))?;
    ensure!(of == root, "`{}` says that it belongs to cluster `{}`", marker.display(), of.display());
    Ok(())
}

/// Name of the WAL directory within a data directory.
pub(crate) fn wal_name(version_num: u32) -> &'static str {
    Release::new(version_num).name(functions::WAL_DIRECTORY)
}

/// Creates the directory; one that exists already may be somebody else's and is not touched.
fn make_root(root: &Path, account: &Account) -> Result<PathBuf> {
    let name = root.file_name().with_context(|| format!("`{}` has no last part", root.display()))?;
    let parent = trust::make_place(root.parent().unwrap_or(Path::new("")))?;
    let root = parent.join(name);
    match given::make_outer(&root, account) {
        Err(error) if error.kind() == ErrorKind::AlreadyExists => {
            bail!("`{}` already exists; name a new directory for the cluster", root.display())
        }
        made => made.with_context(|| format!("create `{}`", root.display()))?,
    }
    if let Err(error) = account.check_reach(&root) {
        fs::remove_dir(&root).ok();
        return Err(error);
    }
    Ok(root)
}

fn has_error(said: &str) -> bool {
    ["ERROR:", "FATAL:", "PANIC:"].iter().any(|severity| said.contains(severity))
}
