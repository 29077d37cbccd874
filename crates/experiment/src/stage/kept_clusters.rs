//! Our own clusters after their last run, for commands that examine what the run left.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use anyhow::{Result, bail};
use model::experiment::Experiment;
use model::experiment::case::{Case, ServerSource, WorkloadKind, setting};
use model::experiment::script::CaseData;
use server::cluster::space::WalRoom;
use server::cluster::workspace::{Claim, Workspace};
use server::{Binaries, Cache, Cluster, OwnServer};

use model::workload::Dataset;

use crate::plan::expand::{self, PlanResources};
use crate::site::keys::{cluster_key, clusters_dir};
use crate::stage::MADE_UNDER;
use crate::stage::disk::binaries_here;
use crate::stage::embedded::IS_LOADED;

/// Label with the name of a cluster's dataset. Clusters from before this label was introduced have none.
const DATA: &str = "data";
/// Label with the schema of a cluster's tables, if one was named.
pub(crate) const SCHEMA: &str = "schema";

/// A cluster in the state that its last run left.
#[allow(missing_docs, reason = "the names say it")]
pub struct KeptCluster {
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
pub struct ClusterCriteria<'a> {
    /// Source of its binaries.
    pub source: Option<&'a ServerSource>,
    pub dataset: Option<Dataset>,
    /// Scale of its data.
    pub scale: Option<u32>,
}

impl ClusterCriteria<'_> {
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

/// The label for [`ClusterCriteria::dataset`].
pub(crate) fn data_label(data: &CaseData) -> (String, String) {
    let name = Dataset::from_case_data(data).map_or("own", Dataset::name);
    (DATA.to_string(), name.to_string())
}

/// Dataset of a cluster, if it is one of pgdyno's.
fn data_of(labels: &BTreeMap<String, String>) -> Option<Dataset> {
    match labels.get(DATA) {
        Some(name) => Dataset::named(name),
        None => labels.get("workload")?.parse().ok().and_then(Dataset::of_kind),
    }
}

/// The scale of each dataset in the cluster that a case of `experiment` would measure as it is, for a target if one is named; of several,
/// that of the cluster used last. Data of another layout, under other settings or in another place is not what such a case finds.
///
/// # Errors
/// When the directories of clusters cannot be read.
pub fn scales(
    cache: &Cache,
    experiment: &Experiment,
    target: Option<&str>,
) -> Result<BTreeMap<Dataset, u32>> {
    let dirs: BTreeSet<PathBuf> = cases_at(experiment, target, &BTreeMap::new())
        .iter()
        .map(|case| clusters_dir(case, cache))
        .filter(|dir| dir.is_dir())
        .collect();
    let mut kept: Vec<Loaded> = Vec::new();
    for dir in dirs {
        let entries = Workspace::look(&dir)?.list()?;
        kept.extend(entries.into_iter().filter_map(|entry| Loaded::new(entry.root, entry.facts?.labels)));
    }
    Ok(scales_in(kept, &|found| {
        let at = BTreeMap::from([(found.dataset, found.scale)]);
        cases_at(experiment, target, &at).iter().any(|case| found.is_of(case, cache))
    }))
}

/// The scales of those that are used, the one used last for each dataset.
fn scales_in(mut kept: Vec<Loaded>, is_used: &dyn Fn(&Loaded) -> bool) -> BTreeMap<Dataset, u32> {
    kept.sort_by_key(|found| Reverse(used(&found.labels)));
    let mut scales = BTreeMap::new();
    for found in &kept {
        if !scales.contains_key(&found.dataset) && is_used(found) {
            scales.insert(found.dataset, found.scale);
        }
    }
    scales
}

/// The cases of an experiment, or of one of its targets, if our own servers have kept data of these scales.
fn cases_at(experiment: &Experiment, target: Option<&str>, kept: &BTreeMap<Dataset, u32>) -> Vec<Case> {
    let mut site = PlanResources::unseen(experiment);
    for place in site.targets.values_mut() {
        place.kept_scale.clone_from(kept);
    }
    site.kept_scale.clone_from(kept);
    // An experiment that contradicts itself is reported when it is planned.
    let Ok(plan) = expand::plan(experiment, &site) else { return Vec::new() };
    let of_target = |case: &Case| {
        let own = case.server.target.as_ref().map(|own| own.name.as_str());
        target.is_none() || own == target
    };
    plan.cases.into_iter().filter(of_target).collect()
}

/// A cluster whose data is complete.
#[derive(Debug, Clone)]
struct Loaded {
    root: PathBuf,
    dataset: Dataset,
    scale: u32,
    labels: BTreeMap<String, String>,
}

impl Loaded {
    /// The cluster in `root`; `None` if its data is not complete or not one of pgdyno's.
    fn new(root: PathBuf, labels: BTreeMap<String, String>) -> Option<Loaded> {
        if !labels.contains_key(IS_LOADED) {
            return None;
        }
        let dataset = data_of(&labels)?;
        let scale = labels.get("scale")?.parse().ok()?;
        Some(Loaded { root, dataset, scale, labels })
    }

    /// Whether the case would find this data, and leave it is.
    fn is_of(&self, case: &Case, cache: &Cache) -> bool {
        let is_made_alike = self.labels.get(MADE_UNDER) == Some(&setting::made_under_words(case));
        let name = || cluster_key(&binaries_here(case, cache)?, case).ok().map(|key| key.directory_name());
        !case.prepare.restore
            && is_made_alike
            && self.root.parent() == Some(&*clusters_dir(case, cache))
            && self.root.file_name().is_some_and(|own| name().is_some_and(|name| own == &*name))
    }
}

/// When a cluster was used last.
fn used(labels: &BTreeMap<String, String>) -> Option<u128> {
    labels.get("used_unix_ns")?.parse().ok()
}

impl KeptCluster {
    /// The cluster used last that matches.
    ///
    /// # Errors
    /// When there is none, or another process uses it.
    pub fn latest(cache: &Cache, wanted: ClusterCriteria) -> Result<KeptCluster> {
        let workspace = Workspace::look_in_cache(cache)?;
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
        Ok(KeptCluster {
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
    pub fn start(&self, changes: &BTreeMap<String, String>) -> Result<OwnServer> {
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
        Ok(OwnServer::start(&self.cluster, &settings)?)
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
            let wanted = ClusterCriteria { source: None, dataset, scale: Some(2) };
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
    fn the_scale_that_is_kept_is_that_of_the_used_cluster_used_last() {
        let labels = |data: &str, scale: &str, used: &str| -> BTreeMap<String, String> {
            [("data", data), ("scale", scale), ("used_unix_ns", used), (IS_LOADED, "yes")]
                .map(|(name, value)| (name.to_string(), value.to_string()))
                .into()
        };
        let mut unfinished = labels("tpcb", "9", "90");
        unfinished.remove(IS_LOADED);
        let all = [
            ("a", labels("tpcb", "7", "20")),
            ("b", labels("tpcb", "3", "100")),
            ("c", labels("tpcb", "4", "200")),
            ("d", labels("own", "5", "300")),
            ("e", labels("tpcc", "2", "1")),
            ("f", unfinished),
        ];
        let kept: Vec<Loaded> =
            all.into_iter().filter_map(|(root, labels)| Loaded::new(root.into(), labels)).collect();
        let check = |roots: &str, expected: &[(Dataset, u32)]| {
            let is_used = |found: &Loaded| roots.contains(found.root.to_str().unwrap());
            assert_eq!(scales_in(kept.clone(), &is_used), expected.iter().copied().collect(), "{roots}");
        };
        check("abe", &[(Dataset::Tpcb, 3), (Dataset::Tpcc, 2)]);
        check("c", &[(Dataset::Tpcb, 4)]);
        check("abcdef", &[(Dataset::Tpcb, 4), (Dataset::Tpcc, 2)]);
        check("df", &[]);
    }

    #[test]
    fn a_missing_cluster_is_named() {
        let words = |dataset, scale| ClusterCriteria { source: None, dataset, scale }.words();
        assert_eq!(words(None, None), "");
        assert_eq!(words(Some(Dataset::Tpcc), Some(2)), " (tpcc, scale 2)");
    }
}
