//! Where runs take place: an embedded cluster with its snapshot, or a server that was there before.
//!
//! A stage is made once per (server, data) and gives each run the same first state.

mod embedded;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::{Result, bail};
use host::Keeper;
use model::experiment::case::{Case, ServerSource, WorkloadSpec};
use model::experiment::script::CaseData;
use model::run::RunRecord;
use server::workspace::{ClusterKey, Workspace};
use server::{Binaries, Cache, Cluster, CopyReport, Server, StopMode};
use wire::Conninfo;
use wire::session::Session;

pub use self::embedded::Embedded;
use crate::adopted::Adopted;
use crate::agenda::Referee;
use crate::kept;
use crate::progress::{Progress, Watch};
use crate::wal;
use dataset::kind::Dataset;
use dataset::load::{LoadReport, LoadRequest};
use dataset::session::STOPPED;
use dataset::{layout, limit, schema, session};
use dataset::{tpcb, tpcc};

/// What every stage needs.
pub struct Site<'a> {
    /// Binaries and clusters.
    pub cache: &'a Cache,
    /// Memory of this machine, for settings given as a share.
    pub memory_bytes: u64,
    /// Most clients of any case, so that all cases of a server have the same `max_connections`.
    pub most_clients: u32,
    /// The servers given by URL, with their passwords.
    pub servers: &'a [Conninfo],
    /// Tables that pgdyno did not make may be dropped.
    pub replace: bool,
    /// Databases of servers by URL that may be replaced by copies of themselves though pgdyno did not make them.
    pub replace_databases: &'a [String],
    /// How many runs begin with the same data, by [`crate::copies::data_name`].
    pub runs_by_data: BTreeMap<String, u32>,
    /// Sets values of the operating system, where a case asks for them.
    pub os: Option<Mutex<Keeper>>,
    /// Raised when the user wants to stop.
    pub stop: &'static AtomicBool,
    /// Now as text, for the load marker.
    pub now: &'a (dyn Fn() -> String + Sync),
    /// Asked after each run: whether the runs so far suffice, so that the experiment is complete before its last one.
    pub is_enough: Option<&'a (dyn Fn(&RunRecord) -> bool + Sync)>,
    /// Tells what a run that has ended was like; without it none is repeated.
    pub referee: Option<&'a (dyn Referee + Sync)>,
}

impl Site<'_> {
    /// Fails if the user wants to stop.
    pub fn go_on(&self) -> Result<()> {
        if self.stop.load(Ordering::Relaxed) {
            bail!(STOPPED);
        }
        Ok(())
    }

    /// A server by URL with its password: the same host, port, user and database.
    pub(crate) fn conninfo(&self, keywords: &BTreeMap<String, String>) -> Result<Conninfo> {
        conninfo(self.servers, keywords)
    }

    /// Loads a case's data over `session` and as many more as are asked for.
    pub(crate) fn load(
        &self,
        session: &mut Session,
        conninfo: &Conninfo,
        workload: &WorkloadSpec,
        watch: &mut Watch,
    ) -> Result<LoadReport> {
        let schema = schema::find(session, workload.schema.as_deref())?;
        let request = LoadRequest {
            schema: &schema,
            scale: workload.scale,
            layout: workload.layout,
            n_streams: workload.load_streams,
            connect: &|| session::open(conninfo, self.stop),
            replace: self.replace,
            now: self.now,
            stop: self.stop,
        };
        watch(Progress::Step(format!("loading {}", layout::describe(workload))));
        let mut tell = |progress| watch(Progress::Load(progress));
        let report = match Dataset::of(&workload.data) {
            Some(dataset @ (Dataset::Tpcc | Dataset::TprocC)) => {
                tpcc::load::load(session, dataset, &request, &mut tell)?
            }
            Some(Dataset::Tpcb) | None => tpcb::load::load(session, &request, &mut tell)?,
        };
        let megabytes = report.data_bytes as f64 / 1e6;
        let streams =
            if report.n_streams > 1 { format!(" over {} streams", report.n_streams) } else { String::new() };
        watch(Progress::Step(format!(
            "loaded {} rows, {megabytes:.0} MB in {:.1} s{streams}",
            report.n_rows, report.seconds
        )));
        Ok(report)
    }
}

/// The server with these keywords, with its password from `servers`: the same host, port, user and database.
pub(crate) fn conninfo(servers: &[Conninfo], keywords: &BTreeMap<String, String>) -> Result<Conninfo> {
    let place = |of: &BTreeMap<String, String>| {
        ["host", "port", "user", "dbname"].map(|key| of.get(key).cloned().unwrap_or_default())
    };
    let known = servers.iter().find(|server| place(&server.keywords()) == place(keywords));
    let mut conninfo = Conninfo::from_keywords(keywords, known.and_then(|server| server.password.clone()))?;
    if let Some(known) = known {
        conninfo.password_source = known.password_source.clone();
    }
    Ok(conninfo)
}

/// The part of a case that decides which stage it needs, as it was asked for.
#[derive(Debug, Clone, PartialEq)]
pub struct StageKey {
    source: ServerSource,
    wal_directory: Option<PathBuf>,
    data_checksums: Option<bool>,
    directory: Option<PathBuf>,
    data: BTreeMap<String, String>,
}

impl StageKey {
    /// The stage that a case needs.
    pub fn of(case: &Case) -> StageKey {
        StageKey {
            source: case.server.source.clone(),
            wal_directory: case.server.wal_directory.clone(),
            data_checksums: case.server.data_checksums,
            directory: directory(case).map(Path::to_path_buf),
            data: data_key(&case.workload),
        }
    }
}

/// Whether a server of our own must be started anew for `next` after `case`: for files that are put back, and for
/// another server.
pub fn needs_restart(case: &Case, next: &Case) -> bool {
    next.server.source.is_embedded() && (next.prepare.restore || !is_same_server(case, next))
}

/// Whether both cases can have one server without a restart: one data, and one set of settings.
pub(crate) fn is_same_server(case: &Case, next: &Case) -> bool {
    // Values of the operating system are set before the server starts; a policy for the WAL changes its settings.
    let wal = |case: &Case| (case.wal, wal::settings(case.wal, case.window));
    StageKey::of(case) == StageKey::of(next)
        && case.server.settings == next.server.settings
        && case.os == next.os
        && wal(case) == wal(next)
}

/// The workspace that the case's cluster is kept in.
pub(crate) fn workspace_of(case: &Case, site: &Site) -> Result<Workspace> {
    Workspace::open(&clusters_dir(case, site.cache))
}

/// The directory of that workspace, which need not exist yet.
pub(crate) fn clusters_dir(case: &Case, cache: &Cache) -> PathBuf {
    directory(case).map_or_else(|| cache.clusters_dir(), |directory| directory.join("clusters"))
}

/// Where the case's cluster is kept, if not in the cache.
pub(crate) fn directory(case: &Case) -> Option<&Path> {
    case.server.target.as_ref()?.directory.as_deref()
}

/// The server of a case, found: `18` and `18.6` may be the same.
pub enum Found {
    /// Binaries of ours, and the cluster that they need.
    Embedded(Binaries, ClusterKey),
    /// A server that was there before.
    Adopted(Conninfo),
}

impl Found {
    /// Finds it, fetching binaries if there are none.
    ///
    /// # Errors
    /// When binaries cannot be had.
    pub fn of(case: &Case, site: &Site, watch: &mut Watch) -> Result<Found> {
        let binaries = match &case.server.source {
            ServerSource::Version(version) => {
                server::fetch(site.cache, version, &mut |p| watch(Progress::Fetch(p)))?
            }
            ServerSource::BinDir(dir) => Binaries::from_bin_dir(dir)?,
            ServerSource::Source { tree, revision } => {
                let source = server::build::Source { tree, revision: revision.as_deref() };
                server::build::build(site.cache, &source, site.stop, &mut |text| watch(Progress::Step(text)))?
            }
            ServerSource::Url(keywords) => {
                return Ok(Found::Adopted(site.conninfo(keywords)?));
            }
        };
        let key = cluster_key(&binaries, case)?;
        Ok(Found::Embedded(binaries, key))
    }
}

/// Where runs take place.
pub enum Stage {
    /// A cluster of our own.
    Embedded(Box<Embedded>),
    /// A server that was there before.
    Adopted(Box<Adopted>),
}

/// The name of the snapshot of freshly loaded data.
const LOADED: &str = "loaded";

impl Stage {
    /// Has the server and the data ready to be restored.
    ///
    /// # Errors
    /// When binaries, cluster or data cannot be had.
    pub fn set_up(found: Found, case: &Case, site: &Site, watch: &mut Watch) -> Result<Stage> {
        limit::within("set-up", crate::phase_limit::of(case), || {
            Ok(match found {
                Found::Embedded(binaries, key) => {
                    Stage::Embedded(Box::new(Embedded::set_up(binaries, key, case, site, watch)?))
                }
                // What is wrong with the target is reported before anything begins.
                Found::Adopted(conninfo) => {
                    Stage::Adopted(Box::new(Adopted::set_up(conninfo, case, site, watch)?))
                }
            })
        })
    }

    /// Whether this is the stage of what was found.
    pub fn is_of(&self, found: &Found) -> bool {
        match (self, found) {
            (Stage::Embedded(stage), Found::Embedded(_, key)) => stage.key == *key,
            // Its data is loaded again at any scale.
            (Stage::Adopted(stage), Found::Adopted(conninfo)) => {
                stage.conninfo.keywords() == conninfo.keywords()
            }
            _ => false,
        }
    }

    /// Puts the data to its first state and has the server running with the case's settings. Returns how.
    ///
    /// # Errors
    /// When that fails, or the data must not be touched.
    pub fn restore(
        &mut self,
        case: &Case,
        site: &Site,
        watch: &mut Watch,
    ) -> Result<BTreeMap<String, String>> {
        match self {
            Stage::Embedded(stage) => stage.restore(case, site, watch),
            Stage::Adopted(stage) => stage.restore(case, site, watch),
        }
    }

    /// Puts data that was loaded before to its first state, by copying its snapshot; `None` if it was loaded just
    /// now. The server must not run.
    ///
    /// # Errors
    /// When the snapshot is damaged, or files cannot be written.
    pub fn put_back(&mut self) -> Result<Option<CopyReport>> {
        match self {
            Stage::Embedded(stage) if stage.was_loaded_before => stage.cluster.restore(LOADED).map(Some),
            Stage::Embedded(_) | Stage::Adopted(_) => Ok(None),
        }
    }

    /// Lets the WAL of a server of our own grow to another size between checkpoints; what was changed, in words.
    /// A server of others keeps its settings.
    ///
    /// # Errors
    /// When the WAL's device has no room for it.
    pub(crate) fn resize_wal(&mut self, max_wal_bytes: u64) -> Result<Option<String>> {
        match self {
            Stage::Embedded(stage) => stage.resize_wal(max_wal_bytes).map(Some),
            Stage::Adopted(_) => Ok(None),
        }
    }

    /// Where the load goes.
    ///
    /// # Errors
    /// When no server runs.
    pub fn conninfo(&self) -> Result<Conninfo> {
        match self {
            Stage::Embedded(stage) => Ok(stage.conninfo()?),
            Stage::Adopted(stage) => Ok(stage.conninfo.clone()),
        }
    }

    /// The running server of our own.
    pub fn server(&self) -> Option<&Server> {
        match self {
            Stage::Embedded(stage) => stage.server.as_ref(),
            Stage::Adopted(_) => None,
        }
    }

    /// The cluster of our own.
    pub fn cluster(&self) -> Option<&Cluster> {
        match self {
            Stage::Embedded(stage) => Some(&stage.cluster),
            Stage::Adopted(_) => None,
        }
    }

    /// Ends the server of our own, so that the next run's start finds nothing running.
    ///
    /// # Errors
    /// When it does not stop.
    pub fn stand_down(&mut self) -> Result<()> {
        self.end(StopMode::Fast)
    }

    /// The same for a server that may hang: it is not asked to write anything.
    ///
    /// # Errors
    /// When it does not stop.
    pub fn abandon(&mut self) -> Result<()> {
        self.end(StopMode::Immediate)
    }

    /// Ends the server of our own for good, and removes its cluster if this experiment made it.
    ///
    /// # Errors
    /// When it does not stop, or its files cannot be removed.
    pub(crate) fn retire(self) -> Result<()> {
        match self {
            Stage::Embedded(stage) => stage.retire(),
            Stage::Adopted(_) => Ok(()),
        }
    }

    fn end(&mut self, mode: StopMode) -> Result<()> {
        match self {
            Stage::Embedded(stage) => stage.stop(mode),
            Stage::Adopted(_) => Ok(()),
        }
    }
}

/// The same question finds the same cluster again.
pub(crate) fn cluster_key(binaries: &Binaries, case: &Case) -> Result<ClusterKey> {
    let mut parts = data_key(&case.workload);
    if let Some(wal) = &case.server.wal_directory {
        parts.insert("wal_directory".to_string(), wal.display().to_string());
    }
    if let Some(snapshots) = &case.space.snapshot_directory {
        parts.insert("snapshot_directory".to_string(), snapshots.display().to_string());
    }
    if let Some(checksums) = case.server.data_checksums {
        parts.insert("data_checksums".to_string(), checksums.to_string());
    }
    if let Some(directory) = directory(case) {
        parts.insert("directory".to_string(), directory.display().to_string());
    }
    ClusterKey::new(binaries, parts)
}

/// What tells the data of one workload from that of another.
pub(crate) fn data_key(workload: &WorkloadSpec) -> BTreeMap<String, String> {
    let scale = ("scale", format!("s{}", workload.scale));
    let parts = match &workload.data {
        CaseData::Tpcb => vec![("workload", Dataset::Tpcb.name().to_string()), scale],
        CaseData::Tpcc => vec![("workload", Dataset::Tpcc.name().to_string()), scale],
        CaseData::TprocC => vec![("workload", Dataset::TprocC.name().to_string()), scale],
        CaseData::None => vec![("workload", "none".to_string())],
        CaseData::Files(files) => {
            let hashes: Vec<&str> = files.iter().map(|file| file.sha256.as_str()).collect();
            // The whole key is hashed for the directory's name; the first letters are for people.
            vec![("workload", format!("sql-{}", &hashes.concat())), scale]
        }
    };
    let mut key: BTreeMap<String, String> =
        parts.into_iter().map(|(name, value)| (name.to_string(), value)).collect();
    if workload.data == CaseData::Tpcb {
        // The plain layout has no part of its own: clusters made before there was another are found again.
        key.extend(layout::layout_facts(workload.layout));
    }
    if let (Some(schema), true) = (&workload.schema, Dataset::of(&workload.data).is_some()) {
        key.insert("schema".to_string(), schema.clone());
    }
    key
}

/// The data in words.
pub fn data_words(workload: &WorkloadSpec) -> String {
    match &workload.data {
        CaseData::Tpcb | CaseData::Tpcc | CaseData::TprocC => layout::describe(workload),
        CaseData::None => "the database as it is".to_string(),
        CaseData::Files(files) => files.iter().map(|file| file.name.as_str()).collect::<Vec<_>>().join(", "),
    }
}

/// What a cluster was used for last, so that `pgdyno check` finds it.
fn labels(case: &Case, binaries: &Binaries) -> BTreeMap<String, String> {
    let used = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_nanos());
    let source = match &case.server.source {
        ServerSource::Version(version) => ("version", version.to_string()),
        ServerSource::BinDir(dir) => ("bin_dir", dir.display().to_string()),
        ServerSource::Source { .. } => ("bin_dir", binaries.bin_dir.display().to_string()),
        ServerSource::Url(_) => ("url", String::new()),
    };
    let mut labels: BTreeMap<String, String> = [
        (source.0, source.1),
        ("scale", case.workload.scale.to_string()),
        ("workload", case.workload.kind.to_string()),
        ("used_unix_ns", used.to_string()),
    ]
    .map(|(name, value)| (name.to_string(), value))
    .into();
    labels.extend([kept::data_label(&case.workload.data)]);
    labels.extend(layout::layout_facts(case.workload.layout));
    labels.extend(case.workload.schema.iter().map(|schema| (kept::SCHEMA.to_string(), schema.clone())));
    labels
}
