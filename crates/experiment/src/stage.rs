//! Where runs take place: an embedded cluster with its snapshot, or an existing server.
//!
//! A stage is set up once per (server, data) and gives each run the same initial state.

pub mod adopted;
pub(crate) mod archive;
pub(crate) mod connections;
pub mod copies;
pub mod directory_data;
pub mod disk;
pub(crate) mod embedded;
pub mod kept_clusters;
pub(crate) mod loaded_before;
pub mod nodes;
pub mod origin;
pub mod os;
pub(crate) mod own_data;
pub(crate) mod pooler;
pub(crate) mod reach;

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::{Result, anyhow, bail};
use model::experiment::case::encryption::are_alike_but_for_encryption;
use model::experiment::case::setting;
use model::experiment::case::{Case, ServerSource, WorkloadSpec};
use model::experiment::topology::outage::PRIMARY;
use model::run::RunRecord;
use model::run::server::LoadConnections;
use model::run::server::node::NodeRecord;
use server::binaries::installed;
use server::cluster::workspace::{ClusterKey, Workspace};
use server::database::facts;
use server::running::listen::LOAD_ROLE;
use server::{Binaries, Cluster, CopyReport, OwnPooler, OwnServer, StopMode};
use wire::{Conninfo, Session};

pub use self::embedded::Embedded;
pub use self::nodes::Standby;
use self::nodes::node::NodeAccess;
use crate::site::keys::{cluster_key, clusters_dir, data_words};
use crate::site::progress::{ProgressEvent, Watch};
use crate::site::{Environment, Site};
use crate::stage::adopted::Adopted;
use dataset::layout;
use dataset::session::lock::LoadLockTaken;
use dataset::session::{self, limit};

/// The workspace with the case's cluster.
pub(crate) fn workspace_of(case: &Case, environment: &Environment) -> Result<Workspace> {
    Workspace::open(&clusters_dir(case, environment.cache))
}

/// The resolved server of a case: `18` and `18.6` may be the same.
pub enum ResolvedServer {
    /// Our binaries, and the cluster that they need.
    Embedded(Binaries, ClusterKey),
    /// An existing server.
    Adopted(Conninfo),
}

impl ResolvedServer {
    /// Resolves the server, and fetches its binaries if necessary.
    ///
    /// # Errors
    /// When binaries are not available.
    pub fn resolve(case: &Case, environment: &Environment, watch: &mut Watch) -> Result<ResolvedServer> {
        let binaries = match &case.server.source {
            ServerSource::Version(version) => {
                server::fetch(environment.cache, version, &mut |p| watch(ProgressEvent::Fetch(p)))?
            }
            ServerSource::Installed(version) => installed::server(version)?.clone(),
            ServerSource::BinDir(dir) => Binaries::from_bin_dir(dir)?,
            ServerSource::Source { tree, revision } => {
                let source = server::binaries::build::SourceTree { tree, revision: revision.as_deref() };
                server::binaries::build::build(environment.cache, &source, environment.stop, &mut |text| {
                    watch(ProgressEvent::Step(text))
                })?
            }
            ServerSource::Url(keywords) => {
                return Ok(ResolvedServer::Adopted(environment.conninfo(keywords)?));
            }
        };
        let key = cluster_key(&binaries, case)?;
        Ok(ResolvedServer::Embedded(binaries, key))
    }

    /// How to connect to it, if it is an existing server.
    pub(crate) fn conninfo(&self) -> Option<&Conninfo> {
        match self {
            ResolvedServer::Embedded(..) => None,
            ResolvedServer::Adopted(conninfo) => Some(conninfo),
        }
    }
}

/// Where runs take place.
pub enum Stage {
    /// Our own cluster.
    Embedded(Box<Embedded>),
    /// An existing server.
    Adopted(Box<Adopted>),
}

/// Label of a cluster, and fact of a restore: the settings that its data was made under.
pub(crate) const MADE_UNDER: &str = "made_under";

/// Name of the snapshot of freshly loaded data.
pub(crate) const LOADED: &str = "loaded";

impl Stage {
    /// Prepares the server and the data, ready to be restored.
    ///
    /// # Errors
    /// When binaries, cluster or data are not available.
    pub fn set_up(found: ResolvedServer, case: &Case, site: &Site, watch: &mut Watch) -> Result<Stage> {
        limit::within("set-up", crate::site::phase_limit::for_case(case), || {
            Ok(match found {
                ResolvedServer::Embedded(binaries, key) => {
                    Stage::Embedded(Box::new(Embedded::set_up(binaries, key, case, site, watch)?))
                }
                // Problems with the target are reported before anything begins.
                ResolvedServer::Adopted(conninfo) => {
                    Stage::Adopted(Box::new(Adopted::set_up(conninfo, case, &site.environment, watch)?))
                }
            })
        })
    }

    /// [`Stage::set_up`] next to stages of the same experiment, with an error of its own if one of them has the database.
    ///
    /// # Errors
    /// As there.
    pub fn set_up_next_to(
        open: &[Stage],
        found: ResolvedServer,
        case: &Case,
        site: &Site,
        watch: &mut Watch,
    ) -> Result<Stage> {
        let set_up = Stage::set_up(found, case, site, watch);
        set_up.map_err(|error| {
            let holder = error.downcast_ref::<LoadLockTaken>().and_then(|taken| taken.pid);
            if !holder.is_some_and(|pid| open.iter().any(|stage| stage.holder_pid() == Some(pid))) {
                return error;
            }
            anyhow!(
                "the server of case {} ({}) is the same database as that of another case, under another name; give each a database of \
                 its own, or measure them one after the other and compare the results (pgdyno compare DIR DIR)",
                case.id,
                case.label()
            )
        })
    }

    /// The server process of the session that keeps others away from an existing server's database.
    fn holder_pid(&self) -> Option<i32> {
        match self {
            Stage::Adopted(stage) => stage.holder.as_ref().map(Session::backend_pid),
            Stage::Embedded(_) => None,
        }
    }

    /// Whether this is the stage of the resolved server.
    pub fn is_of(&self, found: &ResolvedServer) -> bool {
        match (self, found) {
            (Stage::Embedded(stage), ResolvedServer::Embedded(_, key)) => stage.key == *key,
            // Its data is loaded again at any scale.
            (Stage::Adopted(stage), ResolvedServer::Adopted(conninfo)) => {
                are_alike_but_for_encryption(&stage.conninfo.keywords(), &conninfo.keywords())
            }
            _ => false,
        }
    }

    /// From now on connects to an existing server as this case asks.
    pub(crate) fn connect_by(&mut self, conninfo: &Conninfo) {
        if let Stage::Adopted(stage) = self {
            stage.conninfo.clone_from(conninfo);
        }
    }

    /// Restores the data to its initial state, and starts the server with the case's settings if necessary. Returns
    /// how.
    ///
    /// # Errors
    /// When that fails, or the data must not be changed.
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

    /// Undoes what `workload.apply` has done by URL. Our own server's files are restored before the next run.
    ///
    /// # Errors
    /// When the server fails.
    pub(crate) fn undo_applied(&self) -> Result<()> {
        match self {
            Stage::Embedded(_) => Ok(()),
            Stage::Adopted(stage) => stage.undo_applied(),
        }
    }

    /// Restores data from its snapshot; `None` if it was loaded just now. The server must not be running.
    ///
    /// # Errors
    /// When the snapshot is damaged, or files cannot be written.
    pub fn put_back(&mut self) -> Result<Option<CopyReport>> {
        match self {
            Stage::Embedded(stage) if stage.was_loaded_before => stage.cluster.restore(LOADED).map(Some),
            Stage::Embedded(_) | Stage::Adopted(_) => Ok(None),
        }
    }

    /// Changes the `max_wal_size` of our own server; returns the change in words. An existing server keeps its
    /// settings.
    ///
    /// # Errors
    /// When the WAL's device has no room for it.
    pub(crate) fn resize_wal(&mut self, max_wal_bytes: u64) -> Result<Option<String>> {
        match self {
            Stage::Embedded(stage) => stage.resize_wal(max_wal_bytes).map(Some),
            Stage::Adopted(_) => Ok(None),
        }
    }

    /// Where the load of a case connects: over the network if our own server listens there.
    ///
    /// # Errors
    /// When no server is running.
    pub(crate) fn load_conninfo(&self, case: &Case) -> Result<Conninfo> {
        let workload = &case.workload;
        match self {
            Stage::Embedded(stage) => {
                let local = || -> Result<Conninfo> {
                    Ok(directory_data::conninfo_of_load(stage.conninfo_of_clients(case)?, workload))
                };
                stage.load_conninfo()?.map_or_else(local, Ok)
            }
            Stage::Adopted(stage) => Ok(stage.conninfo.clone()),
        }
    }

    /// Where each client of a case has a second connection, if some of its transactions read from elsewhere.
    ///
    /// # Errors
    /// When no server is running.
    pub(crate) fn reads_conninfo(&self, case: &Case) -> Result<Conninfo> {
        match self {
            Stage::Embedded(stage) => {
                Ok(directory_data::conninfo_of_load(stage.conninfo_of_reads(case)?, &case.workload))
            }
            Stage::Adopted(stage) => Ok(stage.conninfo.clone()),
        }
    }

    /// Where the load of a case would connect without a pooler: where pgdyno itself does what the load does.
    ///
    /// # Errors
    /// When no server is running.
    pub(crate) fn direct_conninfo(&self, case: &Case) -> Result<Conninfo> {
        match self {
            Stage::Embedded(stage) if stage.pooler.is_some() => {
                Ok(directory_data::conninfo_of_load(stage.conninfo()?, &case.workload))
            }
            Stage::Embedded(_) | Stage::Adopted(_) => self.load_conninfo(case),
        }
    }

    /// The pooler in front of our own server, if the case has one.
    pub(crate) fn pooler(&self) -> Option<&OwnPooler> {
        match self {
            Stage::Embedded(stage) => stage.pooler.as_ref(),
            Stage::Adopted(_) => None,
        }
    }

    /// Where pgdyno itself runs or parses SQL that comes with a case: with the rights and the search path of its load.
    ///
    /// # Errors
    /// When no server is running.
    pub(crate) fn conninfo_of_sql(&self, workload: &WorkloadSpec) -> Result<Conninfo> {
        let conninfo = match self {
            Stage::Embedded(stage) => directory_data::conninfo_of_load(stage.conninfo()?, workload),
            Stage::Adopted(stage) => stage.conninfo.clone(),
        };
        Ok(directory_data::with_settings(conninfo, workload))
    }

    /// Lets a load into our own server that listens, from these addresses alone.
    ///
    /// # Errors
    /// When the server does not read its configuration again.
    pub(crate) fn admit(&self, addresses: &[IpAddr]) -> Result<()> {
        match self {
            Stage::Embedded(stage) => stage.running()?.admit(&stage.cluster, addresses),
            Stage::Adopted(_) => Ok(()),
        }
    }

    /// The load's connections to our own server that listens, by the way they came.
    ///
    /// # Errors
    /// When the server does not answer.
    pub(crate) fn load_connections(&self, stop: &'static AtomicBool) -> Result<Vec<LoadConnections>> {
        let mut session = session::open(&self.conninfo()?, stop)?;
        facts::connections_of(&mut session, LOAD_ROLE)
    }

    /// Where pgdyno's own sessions connect.
    ///
    /// # Errors
    /// When no server is running.
    pub fn conninfo(&self) -> Result<Conninfo> {
        match self {
            Stage::Embedded(stage) => Ok(stage.conninfo()?),
            Stage::Adopted(stage) => Ok(stage.conninfo.clone()),
        }
    }

    /// The server process of the session that keeps another pgdyno away while the load runs.
    pub(crate) fn backend_pid(&self) -> Option<i32> {
        match self {
            Stage::Embedded(_) => None,
            Stage::Adopted(stage) => stage.holder.as_ref().map(Session::backend_pid),
        }
    }

    /// Whether a pooler in front of the server assigns connections for each transaction.
    pub(crate) fn pools_transactions(&self) -> bool {
        match self {
            Stage::Embedded(_) => false,
            Stage::Adopted(stage) => stage.pools_transactions(),
        }
    }

    /// A node of our own servers, for an outage.
    ///
    /// # Errors
    /// When there is none of this name, or the server is not ours.
    pub(crate) fn node(&mut self, name: &str) -> Result<NodeAccess<'_>> {
        match self {
            Stage::Embedded(stage) => stage.node(name),
            Stage::Adopted(_) => bail!("`{name}` is not a server that pgdyno runs"),
        }
    }

    /// Notes that this node takes the writes now: what follows asks it.
    pub(crate) fn survived_by(&mut self, name: &str) {
        if let Stage::Embedded(stage) = self {
            stage.survivor = (name != PRIMARY).then(|| name.to_string());
        }
    }

    /// Words about the WAL that slots of our own primary keep for its standbys; `None` if they keep none.
    pub(crate) fn wal_kept_by_slots(&self, environment: &Environment) -> Option<String> {
        match self {
            Stage::Embedded(stage) => stage.standbys.kept_by_slots(stage.running().ok()?, environment),
            Stage::Adopted(_) => None,
        }
    }

    /// The standbys of our own server; none of an existing one.
    pub fn standbys(&self) -> &[Standby] {
        match self {
            Stage::Embedded(stage) => stage.standbys.all(),
            Stage::Adopted(_) => &[],
        }
    }

    /// Waits until the standbys of our own server are where their primary is, and proves that they are of this run.
    ///
    /// # Errors
    /// When one is not, or commits wait for fewer than the case asks for.
    pub(crate) fn prove_standbys(&self, case: &Case, site: &Site) -> Result<Vec<NodeRecord>> {
        match self {
            Stage::Embedded(stage) if !stage.standbys.all().is_empty() => {
                stage.standbys.prove(case, stage.running()?, &stage.cluster, &site.environment)
            }
            Stage::Embedded(_) | Stage::Adopted(_) => Ok(Vec::new()),
        }
    }

    /// Records what the standbys of our own server are like after the load.
    ///
    /// # Errors
    /// When their primary cannot be asked.
    pub(crate) fn standbys_after(&self, record: &mut RunRecord, site: &Site) -> Result<()> {
        match self {
            Stage::Embedded(stage) if !record.nodes.is_empty() => {
                let longest = Duration::from_secs(u64::from(record.window().load_s()));
                let (server, cluster) = (stage.running()?, &stage.cluster);
                stage.standbys.after(&mut record.nodes, server, cluster, longest, &site.environment)
            }
            Stage::Embedded(_) | Stage::Adopted(_) => Ok(()),
        }
    }

    /// Our own running server.
    pub fn server(&self) -> Option<&OwnServer> {
        match self {
            Stage::Embedded(stage) => stage.server.as_ref(),
            Stage::Adopted(_) => None,
        }
    }

    /// The text of an error followed by what our own server said when it crashed, if it did and the text does not say so.
    pub(crate) fn crash(&self, error: &str) -> Option<String> {
        match self {
            Stage::Embedded(stage) => stage.crash(error),
            Stage::Adopted(_) => None,
        }
    }

    /// Our own cluster.
    pub fn cluster(&self) -> Option<&Cluster> {
        match self {
            Stage::Embedded(stage) => Some(&stage.cluster),
            Stage::Adopted(_) => None,
        }
    }

    /// Stops our own server, so that the next run's start finds nothing running.
    ///
    /// # Errors
    /// When it does not stop.
    pub fn stand_down(&mut self) -> Result<()> {
        self.end(StopMode::Fast)
    }

    /// Stops our own server, which may hang: it is not asked to write anything.
    ///
    /// # Errors
    /// When it does not stop.
    pub fn abandon(&mut self) -> Result<()> {
        self.end(StopMode::Immediate)
    }

    /// Stops our own server for good, and removes its cluster if this experiment created it.
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

/// The fact of a restore that says which settings of the case its data was made under, if there are any.
fn made_under(case: &Case) -> Option<(String, String)> {
    let words = setting::made_under_words(case);
    (!words.is_empty()).then(|| (MADE_UNDER.to_string(), words))
}

/// What a cluster was last used for, so that `pgdyno check` finds it.
fn labels(case: &Case, binaries: &Binaries) -> BTreeMap<String, String> {
    let used = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_nanos());
    let source = match &case.server.source {
        ServerSource::Version(version) | ServerSource::Installed(version) => ("version", version.to_string()),
        ServerSource::BinDir(dir) => ("bin_dir", dir.display().to_string()),
        ServerSource::Source { .. } => ("bin_dir", binaries.bin_dir.display().to_string()),
        ServerSource::Url(_) => ("url", String::new()),
    };
    let mut labels: BTreeMap<String, String> = [
        (source.0, source.1),
        ("scale", case.workload.scale.to_string()),
        ("workload", case.workload.kind.to_string()),
        ("used_unix_ns", used.to_string()),
        (MADE_UNDER, setting::made_under_words(case)),
    ]
    .map(|(name, value)| (name.to_string(), value))
    .into();
    if matches!(case.server.source, ServerSource::Installed(_)) {
        labels.insert("bin_dir".to_string(), binaries.bin_dir.display().to_string());
    }
    labels.extend([kept_clusters::data_label(&case.workload.data)]);
    labels.extend(layout::layout_facts(case.workload.layout));
    labels.extend(
        case.workload.schema.iter().map(|schema| (kept_clusters::SCHEMA.to_string(), schema.clone())),
    );
    labels
}
