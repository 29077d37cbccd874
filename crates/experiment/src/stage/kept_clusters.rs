//! Our own clusters after their last run, for commands that examine what the run left.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Result, bail};
use model::experiment::case::{ServerSource, WorkloadKind};
use model::experiment::script::CaseData;
use server::cluster::space::WalRoom;
use server::cluster::workspace::{Claim, Workspace};
use server::{Binaries, Cache, Cluster, Server};

use dataset::kind::Dataset;

use crate::stage::embedded::IS_LOADED;

/// Label with the name of a cluster's dataset. Clusters from before this label was introduced have none.
const DATA: &str = "data";
/// Label with the schema of a cluster's tables, if one was named.
pub(crate) const SCHEMA: &str = "schema";

/// A cluster in the state that its last run left.
#[allow(missing_docs, reason = "the names say it")]
pub struct Kept {
    pub cluster: Cluster,
    /// The workload that ran on it last.
    pub workload: Option<WorkloadKind>,
    /// Schema of its tables, if one was named.
    pub schema: Option<String>,
    _claim: Claim,
}

/// Selects a cluster; omitted criteria match any.
#[allow(missing_docs, reason = "the names say it")]
#[derive(Debug, Clone, Copy, Default)]
pub struct Wanted<'a> {
    /// Source of its binaries.
    pub source: Option<&'a ServerSource>,
    pub dataset: Option<Dataset>,
    /// Scale of its data.
    pub scale: Option<u32>,
}

impl Wanted<'_> {
    fn fits(&self, labels: &BTreeMap<String, String>) -> bool {
        let has = |name: &str, value: String| labels.get(name) == Some(&value);
        let source_fits = match self.source {
            None => true,
            Some(ServerSource::Version(version) | ServerSource::Installed(version)) => {
                has("version", version.to_string())
            }
            Some(ServerSource::BinDir(dir)) => has("bin_dir", dir.display().to_string()),
            Some(ServerSource::Source { .. } | ServerSource::Url(_)) => false,
        };
        source_fits
            && self.dataset.is_none_or(|dataset| data_of(labels) == Some(dataset))
            && self.scale.is_none_or(|scale| has("scale", scale.to_string()))
    }

    /// The criteria in words: ` (tpcc, scale 2)`; empty if any cluster matches.
    fn words(&self) -> String {
        let dataset = self.dataset.map(|dataset| dataset.name().to_string());
        let scale = self.scale.map(|scale| format!("scale {scale}"));
        let parts: Vec<String> = dataset.into_iter().chain(scale).collect();
        if parts.is_empty() { String::new() } else { format!(" ({})", parts.join(", ")) }
    }
}

/// The label for [`Wanted::dataset`].
pub(crate) fn data_label(data: &CaseData) -> (String, String) {
    let name = Dataset::of(data).map_or("own", Dataset::name);
    (DATA.to_string(), name.to_string())
}

/// Dataset of a cluster, if it is one of pgdyno's.
fn data_of(labels: &BTreeMap<String, String>) -> Option<Dataset> {
    match labels.get(DATA) {
        Some(name) => Dataset::named(name),
        None => labels.get("workload")?.parse().ok().and_then(Dataset::of_kind),
    }
}

/// The scale of each dataset in the kept clusters of these servers, that of the cluster used last; without any source, of all clusters.
///
/// # Errors
/// When the cache cannot be read.
pub fn scales(cache: &Cache, sources: &[ServerSource]) -> Result<BTreeMap<Dataset, u32>> {
    if !cache.clusters_dir().is_dir() {
        return Ok(BTreeMap::new());
    }
    let entries = Workspace::in_cache(cache)?.list()?;
    let labels: Vec<BTreeMap<String, String>> =
        entries.into_iter().filter_map(|entry| Some(entry.facts?.labels)).collect();
    Ok(scales_in(labels, sources))
}

fn scales_in(mut all: Vec<BTreeMap<String, String>>, sources: &[ServerSource]) -> BTreeMap<Dataset, u32> {
    let fits = |labels: &BTreeMap<String, String>| {
        let of = |source| Wanted { source: Some(source), ..Wanted::default() };
        labels.contains_key(IS_LOADED)
            && (sources.is_empty() || sources.iter().any(|source| of(source).fits(labels)))
    };
    all.retain(fits);
    all.sort_by_key(used);
    let scale =
        |labels: &BTreeMap<String, String>| Some((data_of(labels)?, labels.get("scale")?.parse().ok()?));
    all.iter().filter_map(scale).collect()
}

/// When a cluster was used last.
fn used(labels: &BTreeMap<String, String>) -> Option<u128> {
    labels.get("used_unix_ns")?.parse().ok()
}

impl Kept {
    /// The cluster used last that matches.
    ///
    /// # Errors
    /// When there is none, or another process uses it.
    pub fn latest(cache: &Cache, wanted: Wanted) -> Result<Kept> {
        let workspace = Workspace::in_cache(cache)?;
        let entry = workspace
            .list()?
            .into_iter()
            .filter_map(|entry| Some((entry.facts.as_ref()?.labels.clone(), entry)))
            .filter(|(labels, _)| wanted.fits(labels))
            .max_by_key(|(labels, _)| used(labels));
        let Some((labels, entry)) = entry else {
            bail!(
                "there is no embedded server with such data{}; run `pgdyno run` or `pgdyno init` first, or give --server",
                wanted.words()
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
            schema: labels.get(SCHEMA).cloned(),
            _claim: claim,
        })
    }

    /// Starts its server with default settings and these changes.
    ///
    /// # Errors
    /// When it does not start.
    pub fn start(&self, changes: &BTreeMap<String, String>) -> Result<Server> {
        let version_num = self.cluster.binaries.version_num;
        let mut settings = server::settings::defaults::embedded_defaults(
            version_num,
            server::settings::defaults::memory_bytes(),
            1,
        );
        settings.extend(changes.clone());
        server::cluster::space::fit_wal(
            &self.cluster,
            changes,
            &WalRoom::OF_ONE_THAT_IS_THERE,
            &mut settings,
        )?;
        Ok(Server::start(&self.cluster, &settings)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cluster_that_is_wanted_has_the_data_of_the_workload() {
        let labels = |text: &str| -> BTreeMap<String, String> {
            text.split(' ')
                .filter_map(|pair| pair.split_once('='))
                .map(|(name, value)| (name.to_string(), value.to_string()))
                .collect()
        };
        let check = |dataset, text: &str, expected: bool| {
            let wanted = Wanted { source: None, dataset, scale: Some(2) };
            assert_eq!(wanted.fits(&labels(text)), expected, "{dataset:?}: {text}");
        };
        let (tpcb, tpcc, tproc_c) = (Some(Dataset::Tpcb), Some(Dataset::Tpcc), Some(Dataset::TprocC));
        check(None, "scale=2 workload=tpcb data=tpcb", true);
        check(tpcc, "scale=2 workload=tpcb data=tpcb", false);
        check(tpcc, "scale=2 workload=tpcc data=tpcc", true);
        check(tpcc, "scale=1 workload=tpcc data=tpcc", false);
        check(tproc_c, "scale=2 workload=tpcc data=tpcc", false);
        check(tpcb, "scale=2 workload=scripts data=tpcb", true);
        check(tpcb, "scale=2 workload=scripts data=own", false);
        // Last used before there was a data label.
        check(tpcb, "scale=2 workload=tpcb-select", true);
        check(tproc_c, "scale=2 workload=tproc-c", true);
        check(tpcb, "scale=2 workload=tpcc", false);
    }

    #[test]
    fn the_scale_that_is_kept_is_that_of_the_data_used_last() {
        let labels = |version: &str, data: &str, scale: &str, used: &str| -> BTreeMap<String, String> {
            [
                ("version", version),
                ("data", data),
                ("scale", scale),
                ("used_unix_ns", used),
                (IS_LOADED, "yes"),
            ]
            .map(|(name, value)| (name.to_string(), value.to_string()))
            .into()
        };
        let mut unfinished = labels("18", "tpcb", "9", "90");
        unfinished.remove(IS_LOADED);
        let all = vec![
            labels("18", "tpcb", "7", "20"),
            labels("18", "tpcb", "3", "100"),
            labels("15", "tpcb", "4", "200"),
            labels("18", "own", "5", "300"),
            labels("18", "tpcc", "2", "1"),
            unfinished,
        ];
        let of = |version: &str| vec![ServerSource::Version(version.parse().unwrap())];
        let check = |sources: &[ServerSource], expected: &[(Dataset, u32)]| {
            assert_eq!(scales_in(all.clone(), sources), expected.iter().copied().collect(), "{sources:?}");
        };
        check(&of("18"), &[(Dataset::Tpcb, 3), (Dataset::Tpcc, 2)]);
        check(&of("15"), &[(Dataset::Tpcb, 4)]);
        check(&[], &[(Dataset::Tpcb, 4), (Dataset::Tpcc, 2)]);
        check(&of("12"), &[]);
    }

    #[test]
    fn a_missing_cluster_is_named() {
        let words = |dataset, scale| Wanted { source: None, dataset, scale }.words();
        assert_eq!(words(None, None), "");
        assert_eq!(words(Some(Dataset::Tpcc), Some(2)), " (tpcc, scale 2)");
    }
}
