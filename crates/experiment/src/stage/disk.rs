//! Peak disk usage of clusters by file system: one rule for `plan`, for `run` before it begins, and for creating each
//! cluster, which also frees space in the cache.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use anyhow::{Result, bail};
use dataset::kind::data_bytes;
use model::experiment::case::{Case, ServerSource};
use model::experiment::plan::Plan;
use model::experiment::topology::n_standbys;
use model::text::prose::{bytes, plural};
use model::text::units::PgVersion;
use server::binaries::{installed, pins};
use server::cluster::budget::{self, CacheBudget, CachedItem, Holdings, Trimmed};
use server::cluster::space::{
    Demand, FileSystem, RESERVE_BYTES, SpaceNeed, Use, WalRoom, demands, wal_needed_bytes,
};
use server::cluster::workspace::{Claim, Workspace};
use server::{Binaries, Cache, Cluster};

use crate::site::Environment;
use crate::site::estimates::{load_s, version_num};
use crate::site::keys::{StageKey, cluster_key, clusters_dir, key_of_twin};
use crate::site::progress::{ProgressEvent, Watch};

/// A cluster before data is loaded, without its WAL: 40 MB by initdb of PostgreSQL 18, and our database.
const EMPTY_BYTES: u64 = 64 << 20;
/// Growth beyond the loaded rows and indexes, as a fraction of them: sorts during index builds (a tenth of TPC-B's
/// data), rows and dead versions that a run adds. Our convention.
const GROWTH_PART: u64 = 4;
/// WAL that remains after any checkpoint: `min_wal_size` of 80 MB, and the segment in use.
const IDLE_WAL_BYTES: u64 = 96 << 20;
/// Records per second of load (observed: 5 to 20 kB), and of the run as a whole.
const RESULTS_BYTES_PER_S: f64 = 32e3;
const RESULTS_BYTES_PER_RUN: u64 = 1 << 20;
/// Binaries of a version with their archive (observed: 60 MB).
const RELEASE_BYTES: u64 = 100 << 20;
/// A build from source in progress: repository, tree, objects and installation (observed: 900 MB).
const BUILD_BYTES: u64 = 1 << 30;

/// Whether the case's data has a snapshot.
pub(crate) fn has_snapshot(case: &Case) -> bool {
    case.prepare.restore && case.space.snapshot
}

/// Peak disk usage of a cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Sizes {
    loaded_bytes: u64,
    has_snapshot: bool,
    wal_bytes: u64,
    n_standbys: u32,
}

impl Sizes {
    /// Sizes of a cluster on which these cases run.
    fn from_cases(cases: &[&Case]) -> Sizes {
        Sizes {
            loaded_bytes: cases.iter().map(|case| data_bytes(&case.workload)).max().unwrap_or(0),
            has_snapshot: cases.iter().any(|case| has_snapshot(case)),
            wal_bytes: cases.iter().map(|case| wal_bytes(case)).max().unwrap_or(0),
            n_standbys: cases.iter().map(|case| n_standbys(case)).max().unwrap_or(0),
        }
    }

    fn growth_bytes(self) -> u64 {
        self.loaded_bytes / GROWTH_PART
    }

    fn data_bytes(self) -> u64 {
        EMPTY_BYTES.saturating_add(self.loaded_bytes).saturating_add(self.growth_bytes())
    }

    /// Each standby has the data and WAL of its own.
    fn standbys_bytes(self) -> u64 {
        self.data_bytes().saturating_add(self.wal_bytes).saturating_mul(self.n_standbys.into())
    }

    /// A snapshot includes the segments that a checkpoint after loading recycles: up to the WAL of the last two spans
    /// between checkpoints (PostgreSQL's xlog.c, `XLOGfileslop`), and loading writes about as much WAL as data. It
    /// counts in full even if the file system shares blocks, because runs write to shared blocks.
    fn snapshot_bytes(self, wal_bytes: u64) -> u64 {
        if !self.has_snapshot {
            return 0;
        }
        let kept_wal = self.loaded_bytes.saturating_mul(2).saturating_add(IDLE_WAL_BYTES).min(wal_bytes);
        EMPTY_BYTES.saturating_add(self.loaded_bytes).saturating_add(kept_wal)
    }
}

/// Space for the WAL of our own server: the user's guarantee, or else what its settings require.
fn wal_bytes(case: &Case) -> u64 {
    let of_settings = || wal_needed_bytes(version_num(&case.server.source), &case.server.settings);
    case.space.wal_headroom_bytes.unwrap_or_else(of_settings)
}

/// Parts of a cluster on which these cases run.
fn parts_of(cases: &[&Case], cache: &Cache) -> Vec<SpaceNeed> {
    let Some(first) = cases.first() else { return Vec::new() };
    let sizes = Sizes::from_cases(cases);
    let with_data = clusters_dir(first, cache);
    let place = |elsewhere: &Option<PathBuf>| elsewhere.clone().unwrap_or_else(|| with_data.clone());
    let mut parts = vec![
        SpaceNeed { what: Use::Data, place: with_data.clone(), bytes: sizes.data_bytes() },
        SpaceNeed {
            what: Use::Snapshot,
            place: place(&first.space.snapshot_directory),
            bytes: sizes.snapshot_bytes(sizes.wal_bytes),
        },
        SpaceNeed { what: Use::Wal, place: place(&first.server.wal_directory), bytes: sizes.wal_bytes },
        SpaceNeed { what: Use::Reserve, place: place(&first.server.wal_directory), bytes: RESERVE_BYTES },
    ];
    if sizes.n_standbys > 0 {
        parts.push(SpaceNeed { what: Use::Standbys, place: with_data, bytes: sizes.standbys_bytes() });
    }
    parts
}

/// What will still be written to a cluster while its server runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Adding {
    /// All of its data, and its snapshot.
    Everything,
    /// The growth during a run.
    Growth,
}

/// What shares the device with the WAL of a cluster.
#[derive(Debug, Default)]
pub(crate) struct WalNeeds {
    headroom_bytes: Option<u64>,
    /// Bytes of data that will be written to the same device.
    data_bytes: u64,
    /// The snapshot that will be written to the same device.
    snapshot: Option<Sizes>,
}

impl WalNeeds {
    pub(crate) fn new(case: &Case, cluster: &Cluster, adding: Adding) -> Result<WalNeeds> {
        let sizes = Sizes::from_cases(&[case]);
        let device = FileSystem::find(&cluster.wal_dir())?.device;
        let has_wal = |place: &Path| FileSystem::find(place).map(|found| found.device == device);
        let (data_bytes, snapshot) = match adding {
            Adding::Growth => (sizes.growth_bytes(), None),
            Adding::Everything => (sizes.loaded_bytes + sizes.growth_bytes(), Some(sizes)),
        };
        let snapshot_place = case.space.snapshot_directory.as_deref().unwrap_or(&cluster.root);
        Ok(WalNeeds {
            headroom_bytes: case.space.wal_headroom_bytes,
            data_bytes: if has_wal(&cluster.root)? { data_bytes } else { 0 },
            snapshot: if has_wal(snapshot_place)? { snapshot } else { None },
        })
    }

    /// Calls `with` with the space left for the WAL.
    pub(crate) fn within<T>(&self, with: impl FnOnce(&WalRoom) -> T) -> T {
        let reserved_bytes = |wal_bytes: u64| {
            let snapshot = self.snapshot.map_or(0, |sizes| sizes.snapshot_bytes(wal_bytes));
            self.data_bytes.saturating_add(snapshot).saturating_add(RESERVE_BYTES)
        };
        with(&WalRoom { headroom_bytes: self.headroom_bytes, reserved_bytes: &reserved_bytes })
    }
}

/// Peak disk usage of a plan by file system.
#[allow(missing_docs, reason = "the names say it")]
#[derive(Debug, Clone, PartialEq)]
pub struct Peak {
    /// Demands on each file system.
    pub demands: Vec<Demand>,
    /// Demands with only one server's data on disk at a time, if there are several servers.
    pub one_at_a_time: Option<Vec<Demand>>,
    pub n_clusters: usize,
    cache_dir: PathBuf,
}

impl Peak {
    /// Peak usage of `plan`, whose results go to `results`.
    ///
    /// # Errors
    /// When a file system or the cache cannot be examined.
    pub fn from_plan(plan: &Plan, environment: &Environment, results: &Path) -> Result<Peak> {
        let clusters = clusters(plan, environment.n_servers);
        let common = common_parts(plan, environment, results);
        let reusable = reusable(&clusters, environment)?;
        let together: Vec<SpaceNeed> =
            clusters.iter().flat_map(|cases| parts_of(cases, environment.cache)).collect();
        let side_by_side = add_up(&[together, common.clone()].concat(), &reusable)?;
        let mut alone: Vec<Demand> = Vec::new();
        for cases in &clusters {
            for demand in add_up(&[parts_of(cases, environment.cache), common.clone()].concat(), &reusable)? {
                match alone.iter_mut().find(|known| known.device == demand.device) {
                    Some(known) if known.needed_bytes() < demand.needed_bytes() => *known = demand,
                    Some(_) => {}
                    None => alone.push(demand),
                }
            }
        }
        let n_clusters = clusters.len();
        let (demands, one_at_a_time) = match plan.servers_at_a_time {
            Some(_) => (alone, None),
            None => (side_by_side, (n_clusters > 1 && !plan.is_comparison).then_some(alone)),
        };
        Ok(Peak { demands, one_at_a_time, n_clusters, cache_dir: environment.cache.dir.clone() })
    }

    /// Why the plan does not fit on disk, one reason per file system.
    pub fn refusals(&self) -> Vec<String> {
        let refusal = |demand: &Demand| demand.refusal(&self.cache_dir);
        let mut refusals: Vec<String> = self.demands.iter().filter_map(refusal).collect();
        let would_fit = |alone: &&Vec<Demand>| alone.iter().all(|demand| demand.lacking_bytes() == 0);
        if let Some(alone) = self.one_at_a_time.as_ref().filter(would_fit) {
            let most = alone.iter().map(Demand::needed_bytes).max().unwrap_or(0);
            for refusal in &mut refusals {
                refusal.push_str(&format!(
                    "; or set run.servers_at_a_time = 1: one at a time of {} needs {}, but the runs of each server are then \
                     made in a row, and a drift in the meantime looks like a difference between servers",
                    plural(self.n_clusters, "cluster"),
                    bytes(most as f64)
                ));
            }
        }
        refusals
    }
}

fn add_up(parts: &[SpaceNeed], reusable: &[(PathBuf, u64)]) -> Result<Vec<Demand>> {
    demands(parts, reusable, &FileSystem::find)
}

/// Clusters that a plan needs, each as the cases that run on it; each case of a duet has its own.
fn clusters(plan: &Plan, n_servers: u64) -> Vec<Vec<&Case>> {
    let embedded = plan.cases.iter().filter(|case| case.server.source.is_embedded());
    if n_servers > 1 {
        return embedded.map(|case| vec![case]).collect();
    }
    let mut found: Vec<(StageKey, Vec<&Case>)> = Vec::new();
    for case in embedded {
        let key = StageKey::new(case);
        match found.iter_mut().find(|(known, _)| *known == key) {
            Some((_, cases)) => cases.push(case),
            None => found.push((key, vec![case])),
        }
    }
    found.into_iter().map(|(_, cases)| cases).collect()
}

/// Demands besides clusters: missing binaries, and the results.
fn common_parts(plan: &Plan, environment: &Environment, results: &Path) -> Vec<SpaceNeed> {
    let runs = plan.runs.iter().filter_map(|run| plan.case(run.case));
    let results_bytes =
        runs.map(|case| (load_s(case) * RESULTS_BYTES_PER_S) as u64 + RESULTS_BYTES_PER_RUN).sum();
    let mut missing: Vec<&ServerSource> = Vec::new();
    for case in plan.cases.iter().filter(|case| binaries_here(case, environment.cache).is_none()) {
        if case.server.source.is_embedded() && !missing.contains(&&case.server.source) {
            missing.push(&case.server.source);
        }
    }
    let is_built = |source: &&&ServerSource| matches!(source, ServerSource::Source { .. });
    let n_built = missing.iter().filter(is_built).count() as u64;
    // Builds are made one at a time.
    let binaries_bytes = RELEASE_BYTES * missing.len() as u64 + BUILD_BYTES * n_built.min(1);
    vec![
        SpaceNeed { what: Use::Results, place: results.to_path_buf(), bytes: results_bytes },
        SpaceNeed { what: Use::Binaries, place: environment.cache.dir.clone(), bytes: binaries_bytes },
    ]
}

/// Binaries of a case, if they are available without network and build.
pub(crate) fn binaries_here(case: &Case, cache: &Cache) -> Option<Binaries> {
    let version = match &case.server.source {
        ServerSource::BinDir(dir) => return Binaries::from_bin_dir(dir).ok(),
        ServerSource::Installed(version) => return installed::server(version).ok().cloned(),
        ServerSource::Source { .. } | ServerSource::Url(_) => return None,
        ServerSource::Version(version) => version,
    };
    let pinned = pins::pin_of_series(std::env::consts::ARCH, version.as_str()).map(|pin| pin.release);
    let is_wanted = |release: &String| {
        release == version.as_str()
            || pinned.map_or(series_of(release) == version.as_str(), |pin| release == pin)
    };
    let is_here = cache.fetched().iter().any(is_wanted);
    is_here.then(|| server::fetch(cache, version, &mut |_| {}).ok()).flatten()
}

fn series_of(release: &str) -> String {
    release.parse().map_or_else(|_| release.to_string(), |release: PgVersion| release.series())
}

/// Names of the clusters, as far as they are known without the binaries.
fn names(clusters: &[Vec<&Case>], environment: &Environment) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    for case in clusters.iter().filter_map(|cases| cases.first()) {
        let Some(binaries) = binaries_here(case, environment.cache) else { continue };
        let Ok(key) = cluster_key(&binaries, case) else { continue };
        let name = key.directory_name();
        if !names.insert(name) {
            names.insert(key_of_twin(key).directory_name());
        }
    }
    names
}

/// Existing clusters that these reuse, or that may be removed for them.
fn reusable(clusters: &[Vec<&Case>], environment: &Environment) -> Result<Vec<(PathBuf, u64)>> {
    let names = names(clusters, environment);
    let in_cache = environment.cache.clusters_dir();
    let dirs: BTreeSet<PathBuf> =
        clusters.iter().filter_map(|cases| Some(clusters_dir(cases.first()?, environment.cache))).collect();
    let mut found = Vec::new();
    for dir in dirs.iter().filter(|dir| dir.is_dir()) {
        // Nothing is removed from a directory that the user named for a target.
        let may_remove = *dir == in_cache && CacheBudget::read(environment.cache)?.bytes.is_some();
        for entry in Workspace::look(dir)?.list()? {
            let is_idle = entry.used_by_pid.or(entry.server_pid).is_none() && entry.used_by_others.is_none();
            if is_idle && entry.facts.is_some() && (may_remove || names.contains(&entry.name)) {
                found.push((entry.root, entry.bytes));
                found.extend(entry.elsewhere);
            }
        }
    }
    Ok(found)
}

/// Frees space for the case's cluster, whose place is claimed: removes the least recently used items from the cache,
/// within the budget and as long as disks are too full. Clusters that other cases of the plan need are removed only where a disk
/// is too full.
///
/// # Errors
/// When there is not enough space; then nothing was removed.
pub(crate) fn make_room(
    case: &Case,
    claim: &Claim,
    environment: &Environment,
    watch: &mut Watch,
) -> Result<()> {
    let parts = parts_of(&[case], environment.cache);
    // Its existing part is reused, or was removed before.
    let present = claim.places();
    let lacks = |reusable: &[(PathBuf, u64)]| -> Result<Vec<String>> {
        let refusal = |demand: &Demand| demand.refusal(&environment.cache.dir);
        Ok(add_up(&parts, reusable)?.iter().filter_map(refusal).collect())
    };
    if case.server.target.as_ref().is_some_and(|target| target.directory.is_some()) {
        return refuse(lacks(&present)?);
    }
    let budget = CacheBudget::read(environment.cache)?;
    let mut reusable = present.clone();
    if budget.bytes.is_some() {
        let holdings = Holdings::read(environment.cache)?;
        reusable.extend(holdings.idle().flat_map(|item| item.places.clone()));
    }
    refuse(lacks(&reusable)?)?;
    let is_kept = |part: &&SpaceNeed| matches!(part.what, Use::Data | Use::Snapshot);
    let kept_bytes: u64 = parts.iter().filter(is_kept).map(|part| part.bytes).sum();
    let present_bytes: u64 = present.iter().map(|(_, bytes)| bytes).sum();
    let incoming_bytes = kept_bytes.saturating_sub(present_bytes);
    let has_room = || Ok(lacks(&present)?.is_empty());
    let needed = environment
        .plan
        .map(|plan| names(&clusters(plan, environment.n_servers), environment))
        .unwrap_or_default();
    let removed = budget::make_room(environment.cache, &budget, incoming_bytes, &needed, &has_room)?;
    tell(&removed, &budget, watch);
    refuse(lacks(&present)?)
}

fn refuse(refusals: Vec<String>) -> Result<()> {
    if refusals.is_empty() { Ok(()) } else { bail!(refusals.join("; ")) }
}

/// Reports what was removed from the cache.
fn tell(removed: &[CachedItem], budget: &CacheBudget, watch: &mut Watch) {
    for item in removed {
        let limit = budget.bytes.unwrap_or(0) as f64;
        watch(ProgressEvent::Note(format!(
            "removed {} from the cache, used least recently (budget {}: {})",
            item.words(),
            bytes(limit),
            budget.origin
        )));
    }
}

/// Marks the existing clusters of `plan` as used now, so that others are removed first.
pub fn touch(plan: &Plan, environment: &Environment) {
    let clusters = clusters(plan, environment.n_servers);
    let names = names(&clusters, environment);
    let Ok(workspace) = Workspace::look_in_cache(environment.cache) else { return };
    for name in names.iter().filter(|name| workspace.dir.join(name).is_dir()) {
        // Releasing a claim records the time; a cluster in use by others is not removed anyway.
        workspace.claim_name(name).ok();
    }
}

/// Removes items beyond the budget from the cache after an experiment; the cluster used last stays.
pub fn keep_to_budget(cache: &Cache, watch: &mut Watch) {
    let trimmed = CacheBudget::read(cache).and_then(|budget| Ok((budget::trim(cache, &budget)?, budget)));
    let (Trimmed { removed, over_bytes, left }, budget) = match trimmed {
        Ok(trimmed) => trimmed,
        Err(error) => return watch(ProgressEvent::Note(format!("cannot examine the cache: {error:#}"))),
    };
    tell(&removed, &budget, watch);
    for item in left {
        watch(ProgressEvent::Note(format!(
            "left {} in the cache, though beyond its budget, as it may hold data of somebody else: {}; save what is needed of it, and \
             `pgdyno server remove --force {}` removes it",
            item.words(),
            item.used_by_others.as_deref().unwrap_or_default(),
            item.name
        )));
    }
    if over_bytes > 0 {
        watch(ProgressEvent::Note(format!(
            "the cache has {} more than its budget of {} ({}): what is in use and the cluster used last stay; \
             `pgdyno server remove NAME` removes those too",
            bytes(over_bytes as f64),
            bytes(budget.bytes.unwrap_or(0) as f64),
            budget.origin
        )));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::sample;

    const MB: u64 = 1 << 20;

    fn bytes_of(text: &str) -> Vec<(Use, u64)> {
        let plan = sample::plan(text);
        let cases: Vec<&Case> = plan.cases.iter().collect();
        let parts = parts_of(&cases, &Cache::at("/nowhere"));
        parts.iter().map(|part| (part.what, part.bytes)).filter(|(_, bytes)| *bytes > 0).collect()
    }

    #[test]
    fn a_snapshot_takes_space_only_if_runs_are_restored_to_one() {
        let loaded = model::workload::Dataset::Tpcb.estimated_bytes(1);
        let data = (Use::Data, 64 * MB + loaded + loaded / 4);
        let wal = (Use::Wal, 1280 * MB);
        let reserve = (Use::Reserve, RESERVE_BYTES);
        let load = "[workload]\nscale = 1\n";
        // Two spans of WAL, and what always stays.
        let snapshot = (Use::Snapshot, 64 * MB + loaded + 2 * loaded + 96 * MB);
        assert_eq!(bytes_of(load), [data, snapshot, wal, reserve]);
        for without in ["restore = false", "snapshot = false"] {
            assert_eq!(bytes_of(&format!("{load}[prepare]\n{without}\n")), [data, wal, reserve], "{without}");
        }
        let one_of_both = format!("{load}[prepare]\nrestore = [false, true]\n");
        assert_eq!(bytes_of(&one_of_both), [data, snapshot, wal, reserve], "one case needs it");
        let vouched = format!("{load}[prepare]\nwal_headroom = \"100MB\"\n");
        let snapshot = (Use::Snapshot, 64 * MB + loaded + 100 * MB);
        assert_eq!(bytes_of(&vouched), [data, snapshot, (Use::Wal, 100 * MB), reserve]);
    }

    #[test]
    fn each_part_is_counted_on_its_own_file_system() {
        let plan = sample::plan(
            "[server]\nwal_directory = \"/fast\"\n[workload]\nscale = 1\n[prepare]\nsnapshot_directory = \"/large\"\n",
        );
        let parts = parts_of(&[&plan.cases[0]], &Cache::at("/cache"));
        let places: Vec<&str> = parts.iter().map(|part| part.place.to_str().unwrap()).collect();
        assert_eq!(places, ["/cache/clusters", "/large", "/fast", "/fast"]);
    }

    #[test]
    fn each_version_and_each_data_has_its_own_cluster() {
        let n_clusters = |text: &str| clusters(&sample::plan(text), 1).len();
        assert_eq!(
            n_clusters("[server]\nversion = [\"12\", \"15\", \"18\"]\n[workload]\nclients = [1, 2]\n"),
            3
        );
        assert_eq!(n_clusters("[workload]\nscale = [1, 2]\n"), 2);
        let alike = "[server]\nsettings.jit = [\"on\", \"off\"]\n[workload]\nscale = 1\n";
        assert_eq!(n_clusters(alike), 1);
        assert_eq!(clusters(&sample::plan(alike), 2).len(), 2, "each side of a duet has its own");
    }
}
