//! The budget of the cache: how many bytes it may keep, and what is removed first when they are used up.
//!
//! Everything in the cache counts. Clusters and builds are removed, the least recently used first, never one in use;
//! fetched binaries stay, because they could not be fetched again without the network. When a cluster or a build was
//! used last is the modification time of a file next to it, in a directory that only the owner of the cache writes to.

use std::collections::BTreeSet;
use std::env;
use std::fs::{self};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use anyhow::{Context, Result, ensure};
use model::text::prose::bytes;
use model::text::units::size_bytes;

use crate::binaries::build::in_use::release_builds;
use crate::binaries::fetch::Cache;
use crate::cluster::copy::tree_bytes;
use crate::cluster::space::FileSystem;
use crate::cluster::workspace::Workspace;
use crate::user::held_dir::{added_up, remove_tree};
use crate::user::rights::FileRights;

/// The environment variable that sets the budget.
pub const VARIABLE: &str = "PGDYNO_CACHE_SIZE";
/// Share of the disk if the variable is not set.
const DEFAULT_PERCENT: u64 = 10;

/// How much the cache may keep.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CacheBudget {
    /// Bytes; `None` means no limit, and nothing is removed.
    pub bytes: Option<u64>,
    /// Where the limit comes from, for messages.
    pub origin: String,
}

impl CacheBudget {
    /// The budget of `cache`: the value of [`VARIABLE`], else a tenth of its disk.
    ///
    /// # Errors
    /// When the variable is not a size, or the disk cannot be inspected.
    pub fn read(cache: &Cache) -> Result<CacheBudget> {
        let disk_bytes = FileSystem::find(&cache.dir)?.total_bytes;
        match env::var_os(VARIABLE).filter(|text| !text.is_empty()) {
            Some(text) => CacheBudget::parse(&text.to_string_lossy(), disk_bytes),
            None => Ok(CacheBudget {
                bytes: Some(disk_bytes / 100 * DEFAULT_PERCENT),
                origin: format!("a tenth of the disk; {VARIABLE} sets another"),
            }),
        }
    }

    /// A budget that keeps only what is in use.
    pub fn keeps_nothing(&self) -> bool {
        self.bytes == Some(0)
    }

    fn parse(text: &str, disk_bytes: u64) -> Result<CacheBudget> {
        let text = text.trim();
        let percent = text.strip_suffix('%').and_then(|n| n.trim().parse::<u64>().ok());
        let bytes = match (text, percent) {
            ("unlimited", _) => Some(None),
            ("0", _) => Some(Some(0)),
            (_, Some(percent)) if percent <= 100 => Some(Some(disk_bytes / 100 * percent)),
            (_, Some(_)) => None,
            // Nobody would know which unit a bare number means.
            _ if text.ends_with(|c: char| c.is_ascii_digit()) => None,
            _ => size_bytes(text, 0).map(Some),
        };
        let origin = format!("{VARIABLE}={text}");
        let bytes = bytes.with_context(|| {
            format!("{origin} is not a size; give one such as `50GB` (kB, MB, GB or TB), `20%` of the disk, `0` or `unlimited`")
        })?;
        Ok(CacheBudget { bytes, origin })
    }
}

/// The contents of the cache.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Holdings {
    /// Clusters and builds, the least recently used first, including those in use.
    pub items: Vec<CachedItem>,
    /// Bytes of everything, including fetched binaries, which stay.
    pub bytes: u64,
}

/// A cluster or a build that the cache keeps.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CachedItem {
    /// Cluster or build.
    pub kind: ItemKind,
    /// Name of its directory.
    pub name: String,
    /// All directories with their bytes: WAL and snapshots may be on other devices.
    pub places: Vec<(PathBuf, u64)>,
    /// When it was used last.
    pub last_used: SystemTime,
    /// Whether a pgdyno or a server uses it now, it cannot be shown to be pgdyno's, or somebody else has used it.
    pub is_held: bool,
    /// How somebody else has used it, in words.
    pub used_by_others: Option<String>,
}

/// Kinds of things that may be removed. Of two with the same last use, a cluster goes before the build that runs it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum ItemKind {
    /// A cluster with its WAL and its snapshots.
    Cluster,
    /// Binaries that were built from source.
    Build,
}

impl CachedItem {
    /// Bytes of all its directories.
    pub fn bytes(&self) -> u64 {
        added_up(self.places.iter().map(|(_, bytes)| *bytes))
    }

    /// `cluster NAME, 1.50 GiB`.
    pub fn words(&self) -> String {
        let kind = match self.kind {
            ItemKind::Cluster => "cluster",
            ItemKind::Build => "build",
        };
        format!("{kind} `{}`, {}", self.name, bytes(self.bytes() as f64))
    }
}

impl Holdings {
    /// Looks at what `cache` keeps now.
    ///
    /// # Errors
    /// When its clusters cannot be listed.
    pub fn read(cache: &Cache) -> Result<Holdings> {
        let mut items = Vec::new();
        let mut outside_bytes = 0;
        // What pgdyno cannot show to be its own takes no room from what is: removing that would not help.
        let mut foreign_bytes = 0;
        // A cluster that runs a build keeps it.
        let mut build_used: Vec<(PathBuf, SystemTime)> = Vec::new();
        for entry in Workspace::look_in_cache(cache)?.list()? {
            outside_bytes = added_up(entry.elsewhere.iter().map(|(_, bytes)| *bytes).chain([outside_bytes]));
            let facts = entry.facts.as_ref();
            if facts.is_none() {
                foreign_bytes = added_up([foreign_bytes, entry.bytes].into_iter());
            }
            if let Some(bin_dir) = facts.and_then(|facts| facts.labels.get("bin_dir")) {
                build_used.push((PathBuf::from(bin_dir), entry.last_used));
            }
            items.push(CachedItem {
                kind: ItemKind::Cluster,
                is_held: facts.is_none()
                    || entry.used_by_pid.or(entry.server_pid).is_some()
                    || entry.used_by_others.is_some(),
                used_by_others: entry.used_by_others,
                last_used: entry.last_used,
                places: std::iter::once((entry.root, entry.bytes)).chain(entry.elsewhere).collect(),
                name: entry.name,
            });
        }
        for mut build in builds(cache) {
            let dir = build.places[0].0.clone();
            let of_clusters = build_used.iter().filter(|(bin_dir, _)| bin_dir.starts_with(&dir));
            build.last_used = of_clusters.map(|(_, used)| *used).fold(build.last_used, SystemTime::max);
            items.push(build);
        }
        items.sort_by_key(|item| (item.last_used, item.kind));
        Ok(Holdings {
            items,
            bytes: added_up([tree_bytes(&cache.dir, FileRights::Ours), outside_bytes].into_iter())
                .saturating_sub(foreign_bytes),
        })
    }

    /// Clusters and builds that may be removed now.
    pub fn idle(&self) -> impl Iterator<Item = &CachedItem> {
        self.items.iter().filter(|item| !item.is_held)
    }
}

/// Removes what was used least recently until `incoming_bytes` more fit into the budget and `has_room` says that disks
/// have room; `has_room` is asked again after each. Returns what was removed. Where the budget cannot be kept, because
/// what is in use, needed or comes in is larger, everything else is removed, and what is needed is created all the same.
/// Clusters whose name is `needed` would have to be loaded again: they are removed last, and only for room on disks.
///
/// # Errors
/// When the cache cannot be read. What cannot be removed is left.
pub fn make_room(
    cache: &Cache,
    budget: &CacheBudget,
    incoming_bytes: u64,
    needed: &BTreeSet<String>,
    has_room: &dyn Fn() -> Result<bool>,
) -> Result<Vec<CachedItem>> {
    let Some(budget_bytes) = budget.bytes else { return Ok(Vec::new()) };
    let holdings = Holdings::read(cache)?;
    let mut left_bytes = holdings.bytes.saturating_add(incoming_bytes);
    let mut removed = Vec::new();
    let is_needed = |item: &CachedItem| item.kind == ItemKind::Cluster && needed.contains(&item.name);
    let mut items: Vec<&CachedItem> = holdings.idle().collect();
    items.sort_by_key(|item| is_needed(item));
    for item in items {
        if (left_bytes <= budget_bytes || is_needed(item)) && has_room()? {
            break;
        }
        if remove(cache, item).is_ok() {
            left_bytes = left_bytes.saturating_sub(item.bytes());
            removed.push(item.clone());
        }
    }
    Ok(removed)
}

/// The result of [`trim`].
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Trimmed {
    /// Items that were removed.
    pub removed: Vec<CachedItem>,
    /// By how many bytes the budget is still exceeded.
    pub over_bytes: u64,
    /// Items that stay although they are beyond the budget, because somebody else has used them.
    pub left: Vec<CachedItem>,
}

/// Removes what was used least recently until the cache is within its budget. The cluster that was used last stays,
/// however large it is, unless the budget is 0.
///
/// # Errors
/// As [`make_room`].
pub fn trim(cache: &Cache, budget: &CacheBudget) -> Result<Trimmed> {
    let Some(budget_bytes) = budget.bytes else { return Ok(Trimmed::default()) };
    release_builds();
    let holdings = Holdings::read(cache)?;
    let newest = holdings.items.iter().rfind(|item| item.kind == ItemKind::Cluster);
    let mut left_bytes = holdings.bytes;
    let mut removed = Vec::new();
    for item in holdings.idle().filter(|item| budget.keeps_nothing() || Some(*item) != newest) {
        if left_bytes <= budget_bytes {
            break;
        }
        if remove(cache, item).is_ok() {
            left_bytes = left_bytes.saturating_sub(item.bytes());
            removed.push(item.clone());
        }
    }
    let over_bytes = if budget.keeps_nothing() { 0 } else { left_bytes.saturating_sub(budget_bytes) };
    let left = if left_bytes > budget_bytes {
        holdings.items.into_iter().filter(|item| item.used_by_others.is_some()).collect()
    } else {
        Vec::new()
    };
    Ok(Trimmed { removed, over_bytes, left })
}

/// Removes one; fails if somebody has begun to use it.
fn remove(cache: &Cache, item: &CachedItem) -> Result<()> {
    match item.kind {
        ItemKind::Cluster => Workspace::look_in_cache(cache)?.remove(&item.name),
        ItemKind::Build => remove_build(&builds_dir(cache).join(&item.name)),
    }
}

fn builds_dir(cache: &Cache) -> PathBuf {
    cache.dir.join("builds")
}

/// The builds that are complete.
fn builds(cache: &Cache) -> Vec<CachedItem> {
    let Ok(entries) = fs::read_dir(builds_dir(cache)) else { return Vec::new() };
    let is_build =
        |path: &PathBuf| !path.is_symlink() && path.join(crate::binaries::build::FACTS_FILE).is_file();
    let found = entries.flatten().map(|entry| entry.path()).filter(is_build);
    found
        .map(|dir| {
            let lock = with_ending(&dir, "lock");
            let changed = |path: &Path| fs::symlink_metadata(path).and_then(|facts| facts.modified());
            CachedItem {
                kind: ItemKind::Build,
                name: dir.file_name().unwrap_or_default().to_string_lossy().into_owned(),
                last_used: changed(&lock).or_else(|_| changed(&dir)).unwrap_or(SystemTime::UNIX_EPOCH),
                is_held: files::lock_file(&lock).is_ok_and(|file| file.try_lock().is_err()),
                used_by_others: None,
                places: vec![(dir.clone(), tree_bytes(&dir, FileRights::Ours))],
            }
        })
        .collect()
}

fn remove_build(dir: &Path) -> Result<()> {
    let lock = files::lock_file(&with_ending(dir, "lock"))?;
    ensure!(lock.try_lock().is_ok(), "`{}` is in use", dir.display());
    remove_tree(dir).with_context(|| format!("remove `{}`", dir.display()))
}

fn with_ending(dir: &Path, ending: &str) -> PathBuf {
    let mut name = dir.as_os_str().to_os_string();
    name.push(format!(".{ending}"));
    PathBuf::from(name)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::cluster::ClusterFacts;

    #[test]
    fn budgets_are_sizes_and_shares() {
        const GB: u64 = 1 << 30;
        let of = |text: &str| CacheBudget::parse(text, 200 * GB).map(|budget| budget.bytes);
        assert_eq!(of("50GB").unwrap(), Some(50 * GB));
        assert_eq!(of(" 20% ").unwrap(), Some(40 * GB));
        assert_eq!(of("1.5GB").unwrap(), Some(GB + GB / 2));
        assert_eq!(of("0").unwrap(), Some(0));
        assert_eq!(of("0GB").unwrap(), Some(0));
        assert_eq!(of("unlimited").unwrap(), None);
        for text in ["50", "-1GB", "101%", "50 gigs", "GB", "%", "none"] {
            let error = of(text).unwrap_err().to_string();
            assert!(error.contains(&format!("{VARIABLE}={text} is not a size")), "{error}");
        }
    }

    /// Builds of a kilobyte, used one after the other.
    fn cache_with(names: &[&str]) -> (tempfile::TempDir, Cache) {
        let place = tempfile::tempdir().unwrap();
        let cache = Cache::at(place.path());
        for (n, name) in names.iter().enumerate() {
            let dir = builds_dir(&cache).join(name);
            fs::create_dir_all(&dir).unwrap();
            fs::write(dir.join(crate::binaries::build::FACTS_FILE), [b'x'; 1024]).unwrap();
            let used = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000 + n as u64);
            files::lock_file(&with_ending(&dir, "lock")).unwrap().set_modified(used).unwrap();
        }
        (place, cache)
    }

    fn names(items: &[CachedItem]) -> Vec<&str> {
        items.iter().map(|item| item.name.as_str()).collect()
    }

    fn budget(bytes: u64) -> CacheBudget {
        CacheBudget { bytes: Some(bytes), origin: String::new() }
    }

    #[test]
    fn the_least_recently_used_is_removed_first_and_nothing_in_use() {
        let (_place, cache) = cache_with(&["third", "second", "first"]);
        let dir = |name: &str| builds_dir(&cache).join(name);
        let other = files::lock_file(&with_ending(&dir("second"), "lock")).unwrap();
        other.lock_shared().unwrap();
        assert_eq!(names(&Holdings::read(&cache).unwrap().items), ["third", "second", "first"]);
        let (none, always) = (BTreeSet::new(), || Ok(true));
        assert_eq!(names(&make_room(&cache, &budget(3072), 0, &none, &always).unwrap()), Vec::<&str>::new());
        assert_eq!(names(&make_room(&cache, &budget(3072), 1, &none, &always).unwrap()), ["third"]);
        assert_eq!(names(&make_room(&cache, &budget(0), 0, &none, &always).unwrap()), ["first"]);
        assert!(dir("second").exists() && !dir("third").exists() && !dir("first").exists());
    }

    #[test]
    fn a_full_disk_makes_room_where_the_budget_would_not() {
        let (_place, cache) = cache_with(&["a", "b", "c"]);
        let n_left =
            || fs::read_dir(builds_dir(&cache)).unwrap().flatten().filter(|e| e.path().is_dir()).count();
        let has_room = || Ok(n_left() <= 1);
        let none = BTreeSet::new();
        let unlimited = CacheBudget { bytes: None, origin: String::new() };
        assert!(
            make_room(&cache, &unlimited, 0, &none, &has_room).unwrap().is_empty(),
            "nothing may be removed"
        );
        assert_eq!(names(&make_room(&cache, &budget(1 << 40), 0, &none, &has_room).unwrap()), ["a", "b"]);
    }

    #[test]
    fn what_the_plan_needs_is_removed_only_for_room_on_disks() {
        let (_place, cache) = cache_with(&[]);
        let names_of = ["aged-000000000001", "needed-000000000002", "other-000000000003"];
        for (n, name) in names_of.iter().enumerate() {
            let root = cache.clusters_dir().join(name);
            fs::create_dir_all(root.join("data")).unwrap();
            fs::write(root.join("data/rows"), [b'x'; 4096]).unwrap();
            let facts = ClusterFacts::unknown(None);
            fs::write(root.join("pgdyno-cluster.json"), serde_json::to_vec(&facts).unwrap()).unwrap();
            let used = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000 + n as u64);
            files::lock_file(&with_ending(&root, "lock")).unwrap().set_modified(used).unwrap();
        }
        let needed = BTreeSet::from([names_of[0].to_string(), names_of[1].to_string()]);
        let is_there = |name: &str| cache.clusters_dir().join(name).exists();
        let removed = make_room(&cache, &budget(0), 1 << 30, &needed, &|| Ok(true)).unwrap();
        assert_eq!(names(&removed), [names_of[2]]);
        let has_room = || Ok(!is_there(names_of[0]));
        let removed = make_room(&cache, &budget(0), 1 << 30, &needed, &has_room).unwrap();
        assert_eq!(names(&removed), [names_of[0]]);
        assert!(is_there(names_of[1]));
    }
}
