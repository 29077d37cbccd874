//! Where runs take place: an embedded cluster with its snapshot, or a server that was there before.
//!
//! A stage is made once per (server, data) and gives each run the same first state.

pub mod adopted;
pub(crate) mod connections;
pub mod copies;
pub mod disk;
mod embedded;
pub mod kept_clusters;
pub mod os;
pub(crate) mod own_data;

use std::collections::BTreeMap;
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::Result;
use model::experiment::case::{Case, ServerSource};
use server::cluster::workspace::{ClusterKey, Workspace};
use server::{Binaries, Cluster, CopyReport, Server, StopMode};
use wire::Conninfo;

pub use self::embedded::Embedded;
use crate::site::Site;
use crate::site::keys::{cluster_key, clusters_dir, data_words};
use crate::site::progress::{Progress, Watch};
use crate::stage::adopted::Adopted;
use dataset::layout;
use dataset::session::limit;

/// The workspace that the case's cluster is kept in.
pub(crate) fn workspace_of(case: &Case, site: &Site) -> Result<Workspace> {
    Workspace::open(&clusters_dir(case, site.cache))
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
                let source = server::binaries::build::Source { tree, revision: revision.as_deref() };
                server::binaries::build::build(site.cache, &source, site.stop, &mut |text| {
                    watch(Progress::Step(text))
                })?
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
        limit::within("set-up", crate::site::phase_limit::of(case), || {
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
    labels.extend([kept_clusters::data_label(&case.workload.data)]);
    labels.extend(layout::layout_facts(case.workload.layout));
    labels.extend(
        case.workload.schema.iter().map(|schema| (kept_clusters::SCHEMA.to_string(), schema.clone())),
    );
    labels
}
