//! A cluster of ours after its last run, for those who look at what the run left.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Result, bail};
use model::case::{ServerSource, WorkloadKind};
use server::workspace::{Claim, Workspace};
use server::{Binaries, Cache, Cluster, Server};

/// A cluster that earlier runs left as it was after the last one.
pub struct Kept {
    /// The cluster.
    pub cluster: Cluster,
    /// The workload that ran on it last.
    pub workload: Option<WorkloadKind>,
    _claim: Claim,
}

impl Kept {
    /// The cluster used last, among those of `source` and with data of `scale` where these are given.
    ///
    /// # Errors
    /// When there is none, or another process uses it.
    pub fn latest(cache: &Cache, source: Option<&ServerSource>, scale: Option<u32>) -> Result<Kept> {
        let workspace = Workspace::in_cache(cache)?;
        let wanted = |labels: &BTreeMap<String, String>| {
            let source_fits = match source {
                None => true,
                Some(ServerSource::Version(version)) => labels.get("version") == Some(&version.to_string()),
                Some(ServerSource::BinDir(dir)) => labels.get("bin_dir") == Some(&dir.display().to_string()),
                Some(ServerSource::Source { .. } | ServerSource::Url(_)) => false,
            };
            source_fits && scale.is_none_or(|scale| labels.get("scale") == Some(&scale.to_string()))
        };
        let used = |labels: &BTreeMap<String, String>| labels.get("used_unix_ns")?.parse::<u128>().ok();
        let entry = workspace
            .list()?
            .into_iter()
            .filter_map(|entry| Some((entry.facts.as_ref()?.labels.clone(), entry)))
            .filter(|(labels, _)| wanted(labels))
            .max_by_key(|(labels, _)| used(labels));
        let Some((labels, entry)) = entry else {
            bail!(
                "there is no embedded server with such data; run `pgdyno run` or `pgdyno init` first, or give --server"
            );
        };
        let claim = workspace.claim_name(&entry.name)?;
        let binaries = match (labels.get("bin_dir"), labels.get("version")) {
            (Some(dir), _) => Binaries::from_bin_dir(Path::new(dir))?,
            (None, Some(version)) => {
                server::fetch(cache, &version.parse().map_err(anyhow::Error::msg)?, &mut |_| {})?
            }
            (None, None) => bail!("cluster `{}` does not say which binaries run it", entry.root.display()),
        };
        Ok(Kept {
            cluster: Cluster::open(&binaries, &entry.root)?,
            workload: labels.get("workload").and_then(|kind| kind.parse().ok()),
            _claim: claim,
        })
    }

    /// Starts its server with default settings, changed by `changes`.
    ///
    /// # Errors
    /// When it does not start.
    pub fn start(&self, changes: &BTreeMap<String, String>) -> Result<Server> {
        let version_num = self.cluster.binaries.version_num;
        let mut settings =
            server::defaults::embedded_defaults(version_num, server::defaults::memory_bytes(), 1);
        settings.extend(changes.clone());
        server::space::fit_wal(&self.cluster, changes, &mut settings)?;
        Ok(Server::start(&self.cluster, &settings)?)
    }
}
