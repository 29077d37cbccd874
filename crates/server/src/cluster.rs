//! A cluster: a data directory that pgdyno made, with its WAL, its snapshots and its log.
//!
//! ```text
//! ROOT/pgdyno-cluster.json   what it is; a directory without it is not touched
//! ROOT/data/                 the data directory
//! ROOT/snapshots/NAME/       copies of data and WAL
//! ROOT/server.log            log of the last start
//! ```

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions, Permissions};
use std::io::Write;
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt, fchown};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, bail, ensure};
use serde::{Deserialize, Serialize};

use crate::account::Account;
use crate::binaries::Binaries;
use crate::command::{run_logged, server_command};
use crate::control::ControlFile;
use crate::names::random_hex;
use crate::planted;
use crate::process::postmaster_of;
use crate::settings::configuration_text;

/// The superuser of our clusters.
pub const SUPERUSER: &str = "postgres";
/// The database of our clusters.
pub const DATABASE: &str = "pgdyno";
/// File in `data/` that is included by `postgresql.conf` and written at each start.
pub(crate) const CONFIGURATION: &str = "pgdyno.conf";

const MARKER: &str = "pgdyno-cluster.json";
const WAL_MARKER: &str = "pgdyno-wal.json";
const FORMAT: u32 = 1;
/// On its parent's death a server is told to end at once, and its postmaster kills children that do not within 5 s; a
/// busy machine is slower.
const PREDECESSOR_PATIENCE: Duration = Duration::from_secs(20);
/// Far more than `initdb` needs on a slow disk.
const INIT_DEADLINE: Duration = Duration::from_secs(300);

/// How a cluster is made. Its encoding is UTF8 and its locale C, so that sorting is the same everywhere.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct InitOptions {
    /// Existing directory, on a device of its own, in which a directory for the WAL is made.
    pub wal_directory: Option<PathBuf>,
    /// Page checksums; `None` is the server's own default (on since 18).
    pub checksums: Option<bool>,
}

/// A data directory of ours.
#[derive(Debug, Clone)]
pub struct Cluster {
    /// Directory that holds everything of the cluster but a separate WAL.
    pub root: PathBuf,
    /// Binaries that run it.
    pub binaries: Binaries,
    /// User that owns it and runs its server.
    pub account: Account,
    /// What is recorded of it.
    pub facts: ClusterFacts,
}

/// What the marker file of a cluster says.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClusterFacts {
    /// Version of this file's format.
    pub format: u32,
    /// Version of the binaries that made it, as `postgres --version` names it.
    pub version: String,
    /// The same as a number: 180006.
    pub version_num: u32,
    /// When it was made, seconds since the Unix epoch.
    pub created_unix_s: u64,
    /// Directory made for the WAL outside the data directory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wal_holder: Option<PathBuf>,
    /// Whether the extension `pg_prewarm` is in database `pgdyno`.
    pub has_prewarm: bool,
    /// Whether it was made to the end.
    pub is_complete: bool,
    /// Snapshot that was being restored; set while the data directory is neither this nor that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub restoring: Option<String>,
    /// The user's remarks: what is loaded in it.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
}

impl Cluster {
    /// Makes a cluster in `root`, which must not exist yet. What was made is removed on an error.
    pub fn create(binaries: &Binaries, root: &Path, options: &InitOptions) -> Result<Cluster> {
        let account = Account::choose()?;
        account.check_reach(&binaries.program("postgres"))?;
        let root = make_root(root, &account)?;
        let facts = ClusterFacts {
            format: FORMAT,
            version: binaries.version.clone(),
            version_num: binaries.version_num,
            created_unix_s: SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_secs()),
            wal_holder: None,
            has_prewarm: false,
            is_complete: false,
            restoring: None,
            labels: BTreeMap::new(),
        };
        let mut cluster = Cluster { root, binaries: binaries.clone(), account, facts };
        let made = cluster.initialize(options);
        if made.is_err() {
            // The first error is the one to tell.
            cluster.remove_files().ok();
        }
        made.map(|()| cluster)
    }

    /// Opens a cluster that pgdyno made before, to be run with `binaries` of the same major version.
    pub fn open(binaries: &Binaries, root: &Path) -> Result<Cluster> {
        let facts = ClusterFacts::read(root)?;
        ensure!(
            facts.is_complete,
            "cluster `{}` was not made to the end; remove it and make it anew",
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
        let root = root.canonicalize().with_context(|| format!("cannot enter `{}`", root.display()))?;
        account.check_reach(&binaries.program("postgres"))?;
        account.check_reach(&root)?;
        Ok(Cluster { root, binaries: binaries.clone(), account, facts })
    }

    /// The data directory.
    pub fn data_dir(&self) -> PathBuf {
        self.root.join("data")
    }

    /// The directory of the WAL: in the data directory, or on a device of its own.
    pub fn wal_dir(&self) -> PathBuf {
        match &self.facts.wal_holder {
            Some(holder) => holder.join("wal"),
            None => self.data_dir().join(wal_name(self.binaries.version_num)),
        }
    }

    /// The log of the last start.
    pub fn log_path(&self) -> PathBuf {
        self.root.join("server.log")
    }

    /// Process id of the server that runs on it, if one does.
    pub fn running_pid(&self) -> Option<u32> {
        postmaster_of(&self.data_dir())
    }

    /// What the server's control file says.
    pub fn control_file(&self) -> Result<ControlFile> {
        ControlFile::read(&self.data_dir())
    }

    /// Remembers remarks such as what is loaded in the cluster.
    pub fn set_labels(&mut self, labels: BTreeMap<String, String>) -> Result<()> {
        self.facts.labels = labels;
        self.facts.write(&self.root)
    }

    /// Removes the cluster, its WAL and its snapshots. Its server must be stopped.
    pub fn remove(self) -> Result<()> {
        self.wait_until_stopped("remove it")?;
        self.remove_files()
    }

    /// Waits a little for the server's end: that of a pgdyno that was killed gets its own a moment later.
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
        close_dir(&self.root)?;
        self.account.own(&self.root)?;
        self.facts.write(&self.root)?;
        if let Some(directory) = &options.wal_directory {
            self.facts.wal_holder = Some(self.make_wal_holder(directory)?);
            self.facts.write(&self.root)?;
        }
        self.run_initdb(options)?;
        self.write_access()?;
        let data = self.data_dir();
        self.write_owned(&data.join(CONFIGURATION), &configuration_text(&BTreeMap::new()))?;
        let mut main = OpenOptions::new().append(true).open(data.join("postgresql.conf"))?;
        writeln!(main, "\ninclude = '{CONFIGURATION}'")?;
        let said = self.single_user("postgres", &format!("CREATE DATABASE {DATABASE}"))?;
        ensure!(!has_error(&said), "cannot create database `{DATABASE}`:\n{}", said.trim_end());
        // Not every build has the contrib extensions; prewarming has another way without this one.
        self.facts.has_prewarm = !has_error(&self.single_user(DATABASE, "CREATE EXTENSION pg_prewarm")?);
        nix::unistd::syncfs(File::open(&data)?).context("write the cluster to disk")?;
        self.facts.is_complete = true;
        self.facts.write(&self.root)
    }

    fn make_wal_holder(&self, directory: &Path) -> Result<PathBuf> {
        let directory = directory.canonicalize().with_context(|| {
            format!("cannot enter the WAL directory `{}`; create it first", directory.display())
        })?;
        self.account.check_reach(&directory)?;
        let holder = directory.join(format!("pgdyno-wal-{}", random_hex(6)?));
        fs::create_dir(&holder).with_context(|| format!("create `{}`", holder.display()))?;
        close_dir(&holder)?;
        fs::write(holder.join(WAL_MARKER), serde_json::to_vec(&self.root)?)?;
        self.account.own(&holder)?;
        Ok(holder)
    }

    fn run_initdb(&self, options: &InitOptions) -> Result<()> {
        let mut command = server_command(&self.binaries.program("initdb"), &self.account, &self.root);
        command.arg("-D").arg(self.data_dir());
        command.args(["-U", SUPERUSER, "-E", "UTF8", "--locale=C", "-A", "trust"]);
        // `-N`: the whole is written to disk once, by us, when it is complete.
        command.arg("-N");
        match options.checksums {
            Some(true) => command.arg("-k"),
            Some(false) if self.binaries.major() >= 18 => command.arg("--no-data-checksums"),
            _ => &mut command,
        };
        if self.facts.wal_holder.is_some() {
            command.arg("-X").arg(self.wal_dir());
        }
        run_logged(command, &self.root.join("initdb.log"), INIT_DEADLINE)?;
        Ok(())
    }

    /// Who may connect. The socket's directory is closed to all but the server's user and root, so that whoever
    /// gets there is trusted; over TCP every local user would get there, so a password is asked for.
    fn write_access(&self) -> Result<()> {
        let method = if self.binaries.version_num >= 100_000 { "scram-sha-256" } else { "md5" };
        let text = format!(
            "local all all trust\nhost all all 127.0.0.1/32 {method}\nhost all all ::1/128 {method}\n"
        );
        self.write_owned(&self.data_dir().join("pg_hba.conf"), &text)
    }

    /// Writes a file into a directory of the server's user. That user could have put a link there, which root must
    /// not follow.
    pub(crate) fn write_owned(&self, path: &Path, text: &str) -> Result<()> {
        let write = || -> std::io::Result<()> {
            let mut file = OpenOptions::new()
                .write(true)
                .create(true)
                .truncate(true)
                .mode(0o600)
                .custom_flags(nix::fcntl::OFlag::O_NOFOLLOW.bits())
                .open(path)?;
            file.write_all(text.as_bytes())?;
            file.set_permissions(Permissions::from_mode(0o600))?;
            if self.account.is_switched {
                fchown(&file, Some(self.account.uid), Some(self.account.gid))
            } else {
                Ok(())
            }
        };
        write().with_context(|| format!("write `{}`", path.display()))
    }

    /// Runs one statement on one line in single-user mode; returns what was said.
    fn single_user(&self, database: &str, statement: &str) -> Result<String> {
        let input = self.root.join("single-user.sql");
        self.write_owned(&input, &format!("{statement};\n"))?;
        let mut command = server_command(&self.binaries.program("postgres"), &self.account, &self.root);
        command.arg("--single").arg("-D").arg(self.data_dir()).arg(database);
        command.stdin(Stdio::from(planted::open(&input)?));
        let said = run_logged(command, &self.root.join("single-user.log"), INIT_DEADLINE);
        fs::remove_file(&input)?;
        said
    }

    fn remove_files(&self) -> Result<()> {
        remove_cluster_files(&self.root, &self.facts)
    }
}

impl ClusterFacts {
    /// What the cluster in `root` is; an error if `root` is not a cluster of pgdyno.
    pub fn read(root: &Path) -> Result<ClusterFacts> {
        let path = root.join(MARKER);
        let text = planted::read(&path).with_context(|| {
            format!("`{}` is not a cluster made by pgdyno (no `{MARKER}`); it is left alone", root.display())
        })?;
        let facts: ClusterFacts =
            serde_json::from_slice(&text).with_context(|| format!("`{}` is damaged", path.display()))?;
        ensure!(
            facts.format <= FORMAT,
            "cluster `{}` was made by a newer pgdyno; use that one or remove it",
            root.display()
        );
        Ok(facts)
    }

    fn write(&self, root: &Path) -> Result<()> {
        let path = root.join(MARKER);
        let new = root.join(format!("{MARKER}.new"));
        let text = serde_json::to_vec_pretty(self)?;
        planted::create(&new)
            .and_then(|mut file| file.write_all(&text))
            .and_then(|()| fs::rename(&new, &path))
            .with_context(|| format!("write `{}`", path.display()))
    }
}

/// Removes a cluster's directories; only those that carry pgdyno's markers.
pub(crate) fn remove_cluster_files(root: &Path, facts: &ClusterFacts) -> Result<()> {
    if let Some(holder) = facts.wal_holder.as_deref().filter(|holder| holder.join(WAL_MARKER).exists()) {
        fs::remove_dir_all(holder).with_context(|| format!("remove `{}`", holder.display()))?;
    }
    fs::remove_dir_all(root).with_context(|| format!("remove `{}`", root.display()))
}

/// Name of the WAL directory within a data directory.
pub(crate) fn wal_name(version_num: u32) -> &'static str {
    if version_num >= 100_000 { "pg_wal" } else { "pg_xlog" }
}

/// Makes the directory; one that exists already is somebody's and is not touched.
fn make_root(root: &Path, account: &Account) -> Result<PathBuf> {
    if let Some(parent) = root.parent() {
        fs::create_dir_all(parent).with_context(|| format!("create `{}`", parent.display()))?;
    }
    match fs::create_dir(root) {
        Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {
            bail!("`{}` exists already; name a new directory for the cluster", root.display())
        }
        made => made.with_context(|| format!("create `{}`", root.display()))?,
    }
    let root = root.canonicalize().with_context(|| format!("cannot enter `{}`", root.display()))?;
    if let Err(error) = account.check_reach(&root) {
        fs::remove_dir(&root).ok();
        return Err(error);
    }
    Ok(root)
}

fn close_dir(path: &Path) -> Result<()> {
    fs::set_permissions(path, Permissions::from_mode(0o700))
        .with_context(|| format!("close `{}` to others", path.display()))
}

fn has_error(said: &str) -> bool {
    ["ERROR:", "FATAL:", "PANIC:"].iter().any(|severity| said.contains(severity))
}
