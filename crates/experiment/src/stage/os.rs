//! Operating system settings of a case: refused before anything starts, set before its server starts, restored after
//! its server has stopped.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use anyhow::{Context, Result, bail};
use host::pages::HugePagePool;
use host::{Disk, Keeper, KernelFiles, RestoredValue};
use model::experiment::case::Case;
use model::experiment::keys;
use model::experiment::os::HugePages;
use model::text::units::size_bytes;
use server::Cluster;
use server::running::huge_pages;
use server::running::numa::{self, Binding};

use crate::site::progress::{ProgressEvent, Watch};

type Detail = BTreeMap<String, String>;

/// A level of an `[os]` key that is impossible here.
#[allow(missing_docs, reason = "the names say it")]
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OsRefusal {
    /// The key: `os.numa`.
    pub key: String,
    pub level: String,
    pub reason: String,
}

/// Why a value is refused that takes effect when a server starts.
pub const NEEDS_OURS: &str = "it needs a server that pgdyno runs itself";

/// The server's setting of the size of its huge pages, in kB (from 14 on). Zero is the kernel's default size.
const HUGE_PAGE_SIZE: &str = "huge_page_size";

/// Keys of what a server's processes are bound to, which changes nothing of the machine.
const BINDS: [&str; 2] = ["numa", "processors"];

/// Whether the case asks for values that are set in the operating system itself.
pub fn sets_values(case: &Case) -> bool {
    case.os.keys().any(|key| !BINDS.contains(&key.as_str()))
}

/// Location of the cases' server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ServerPlace {
    /// pgdyno runs it.
    Own,
    /// Somebody else runs it on this machine.
    Here,
    /// It is on another machine, or its location is unknown.
    Away,
    /// Its host lets our hands in, wherever it is.
    There,
}

/// Every impossible level, once. `clusters` is where clusters are stored.
pub fn refusals(cases: &[Case], place: ServerPlace, clusters: &Path) -> Vec<OsRefusal> {
    let mut refused: Vec<OsRefusal> = Vec::new();
    for case in cases.iter().filter(|case| !case.os.is_empty()) {
        let place = if case.server.host.is_some() { ServerPlace::There } else { place };
        let disks = disks(&[("data", Some(clusters)), ("wal", case.server.wal_directory.as_deref())]);
        for (key, level) in &case.os {
            let (name, level) = (format!("os.{key}"), level.clone());
            if refused.iter().any(|known| known.key == name && known.level == level) {
                continue;
            }
            let is_twice = key == "processors" && case.os.contains_key("numa");
            let twice =
                || "os.numa says on which processors the server runs; leave out one of them".to_string();
            let shared = || {
                let rival = host::group::rival(&KernelFiles::this(), &case.os, key, &disks)?;
                Some(format!(
                    "os.{rival} limits the same device, which has one limit for both; leave out one of them"
                ))
            };
            let reason = is_twice.then(twice).or_else(|| refusal(place, key, &level, &disks)).or_else(shared);
            if let Some(reason) = reason {
                refused.push(OsRefusal { key: name, level, reason });
            }
        }
        let of_size = (place == ServerPlace::Own).then(|| refused_size(case, &KernelFiles::this())).flatten();
        refused.extend(of_size.filter(|refusal| !refused.contains(refusal)));
    }
    refused
}

/// The server's setting of a size of huge pages that are to be reserved, if this machine has none of that size.
fn refused_size(case: &Case, machine: &KernelFiles) -> Option<OsRefusal> {
    let is_on = case.os.get("huge_pages").is_some_and(|level| *level == HugePages::On.to_string());
    if !is_on {
        return None;
    }
    let level = case.server.settings.get(HUGE_PAGE_SIZE)?;
    let found = page_bytes(&case.server.settings).and_then(|size| HugePagePool::find(machine, size, None));
    let reason = format!("{:#}", found.err()?);
    Some(OsRefusal { key: format!("server.settings.{HUGE_PAGE_SIZE}"), level: level.clone(), reason })
}

fn refusal(place: ServerPlace, key: &str, level: &str, disks: &[Disk]) -> Option<String> {
    let needs_start = key == "huge_pages" || BINDS.contains(&key) || host::group::limited_by(key).is_some();
    match (place, key) {
        (ServerPlace::Away, _) => Some(
            "the server is on another machine; pgdyno sets values there if `host` names the way (--host ssh:HOST, \
             server.host, or host of its target)"
                .to_string(),
        ),
        (ServerPlace::Here | ServerPlace::There, _) if needs_start => Some(NEEDS_OURS.to_string()),
        (ServerPlace::Here, _) if host::is_of_disks(key) => Some(NEEDS_OURS.to_string()),
        // Whether that machine can have it is asked there.
        (ServerPlace::There, _) => None,
        (_, "numa") => placement(level).err().map(|error| format!("{error:#}")),
        (_, "processors") => processors(level).err().map(|error| format!("{error:#}")),
        _ => host::refusal(&KernelFiles::this(), key, level, disks),
    }
}

fn processors(level: &str) -> Result<Binding> {
    Binding::of_processors(level.parse().context("not a number of processors")?)
}

/// Block devices below directories; a directory that does not exist yet will be where its parent is.
fn disks(dirs: &[(&str, Option<&Path>)]) -> Vec<Disk> {
    let existing = |dir: &Path| dir.ancestors().find(|dir| dir.exists()).map(Path::to_path_buf);
    let dirs = dirs.iter().filter_map(|(role, dir)| Some((role.to_string(), existing((*dir)?)?)));
    disks_below(&dirs.collect())
}

/// Block devices below existing directories, by role.
pub fn disks_below(dirs: &BTreeMap<String, PathBuf>) -> Vec<Disk> {
    disks_of(observe::host::facts::record(dirs).mounts)
}

/// Block devices below file systems, by role.
pub fn disks_of(mounts: BTreeMap<String, model::run::host::MountRecord>) -> Vec<Disk> {
    let disk = |(role, mount): (String, model::run::host::MountRecord)| Disk {
        role,
        device: mount.device,
        below: mount
            .facts
            .get("made_of")
            .map(|all| all.split(' ').map(str::to_string).collect())
            .unwrap_or_default(),
    };
    mounts.into_iter().map(disk).collect()
}

/// Settings for a run that take effect when its server starts.
#[derive(Debug, Default)]
pub(crate) struct AppliedOsValues {
    /// Each value with the previous one, for the record.
    pub(crate) detail: Detail,
    pub(crate) binding: Option<Binding>,
    /// Control groups that the server is to be in: the files that take the ids of processes.
    pub(crate) groups: Vec<PathBuf>,
    /// By how much the page cache shrank while huge pages were reserved.
    pub(crate) page_cache_lost_bytes: u64,
    pub(crate) pages: Option<ReservedPages>,
}

/// Huge pages that are reserved for a server until it starts.
#[derive(Debug)]
pub(crate) struct ReservedPages {
    pool: HugePagePool,
    n_pages: u64,
}

impl ReservedPages {
    /// Reserves them again if others, such as servers with `huge_pages = try`, have taken some. Returns by how many bytes the page
    /// cache shrank; `None` if there are enough.
    pub(crate) fn reserve_again(&self, keeper: Option<&Mutex<Keeper>>) -> Result<Option<u64>> {
        let (machine, Some(keeper)) = (KernelFiles::this(), keeper) else { return Ok(None) };
        if !self.pool.lacks(&machine, self.n_pages)? {
            return Ok(None);
        }
        let mut keeper = keeper.lock().unwrap_or_else(PoisonError::into_inner);
        self.pool.reserve(&machine, &mut keeper, self.n_pages).context(keys::os::HUGE_PAGES.name).map(Some)
    }
}

/// Sets a case's values for the server of `cluster`, which is stopped; changes its `settings` if a value requires it.
/// There is no cluster for a server that somebody else runs.
pub(crate) fn apply(
    case: &Case,
    keeper: Option<&Mutex<Keeper>>,
    own: Option<(&Cluster, &mut BTreeMap<String, String>)>,
) -> Result<AppliedOsValues> {
    let mut applied = AppliedOsValues::default();
    let bindings = [
        ("numa", placement_of(case).transpose()),
        ("processors", case.os.get("processors").map(|level| processors(level))),
    ];
    for (key, binding) in bindings {
        let Some(binding) = binding.transpose().with_context(|| format!("os.{key}"))? else { continue };
        applied.detail.insert(key.to_string(), binding.words());
        applied.binding = Some(binding);
    }
    if sets_values(case) {
        set(case, keeper, own, &mut applied)?;
    }
    Ok(applied)
}

fn set(
    case: &Case,
    keeper: Option<&Mutex<Keeper>>,
    own: Option<(&Cluster, &mut BTreeMap<String, String>)>,
    applied: &mut AppliedOsValues,
) -> Result<()> {
    let keeper = keeper.context("changing operating system settings needs root")?;
    let mut keeper = keeper.lock().unwrap_or_else(PoisonError::into_inner);
    let machine = KernelFiles::this();
    let (cluster, mut settings) = match own {
        Some((cluster, settings)) => (Some(cluster), Some(settings)),
        None => (None, None),
    };
    let (data, wal) = (cluster.map(Cluster::data_dir), cluster.map(Cluster::wal_dir));
    let disks = disks(&[("data", data.as_deref()), ("wal", wal.as_deref())]);
    for (key, value) in &case.os {
        for (path, value) in host::settings(&machine, key, value, &disks) {
            let before = keeper.set(&path, &value).with_context(|| format!("os.{key}"))?;
            applied.detail.insert(path, format!("{value} (was {before})"));
        }
    }
    let groups = host::group::make(&machine, &mut keeper, &case.os, &disks)?;
    applied.groups = groups.procs;
    applied.detail.extend(groups.detail);
    // After all others, which affect where memory is found.
    if let (Some(wanted), Some(cluster), Some(settings)) =
        (case.os.get("huge_pages"), cluster, settings.as_mut())
    {
        let wanted = wanted.parse().map_err(anyhow::Error::msg)?;
        use_huge_pages(wanted, &machine, &mut keeper, cluster, settings, applied)?;
    }
    Ok(())
}

/// Where the case's server and its data are placed, if the case says so.
pub(crate) fn placement_of(case: &Case) -> Result<Option<Binding>> {
    case.os.get("numa").map(|level| placement(level)).transpose()
}

fn placement(level: &str) -> Result<Binding> {
    numa::binding(level.parse().map_err(anyhow::Error::msg)?)
}

/// Reserves the huge pages that the server needs, of the size that it uses, on the node of its memory if it is bound to one, and
/// makes it require them; or keeps it from using any.
fn use_huge_pages(
    wanted: HugePages,
    machine: &KernelFiles,
    keeper: &mut Keeper,
    cluster: &Cluster,
    settings: &mut BTreeMap<String, String>,
    applied: &mut AppliedOsValues,
) -> Result<()> {
    settings.insert("huge_pages".to_string(), wanted.to_string());
    let mut words = wanted.to_string();
    if wanted == HugePages::On {
        let node = applied.binding.as_ref().and_then(Binding::memory_node);
        let pool =
            HugePagePool::find(machine, page_bytes(settings)?, node).context(keys::os::HUGE_PAGES.name)?;
        let n_pages = huge_pages::needed(cluster, settings, pool.page_bytes())?;
        applied.page_cache_lost_bytes =
            pool.reserve(machine, keeper, n_pages).context(keys::os::HUGE_PAGES.name)?;
        let place = node.map(|node| format!(" on node {node}")).unwrap_or_default();
        words = format!("on: {n_pages} of {} kB{place}", pool.page_bytes() / 1024);
        applied.pages = Some(ReservedPages { pool, n_pages });
    }
    applied.detail.insert("huge_pages".to_string(), words);
    Ok(())
}

/// Size of the huge pages that a server with these settings uses; `None` for the kernel's default size.
fn page_bytes(settings: &BTreeMap<String, String>) -> Result<Option<u64>> {
    let Some(text) = settings.get(HUGE_PAGE_SIZE) else { return Ok(None) };
    let bytes = size_bytes(text, 1024).with_context(|| format!("`{text}` is not a size, such as 2MB"))?;
    Ok((bytes > 0).then_some(bytes))
}

/// Restores all values; reports those that could not be restored, and says what the kernel still keeps.
pub(crate) fn put_back(keeper: Option<&Mutex<Keeper>>, watch: &mut Watch) -> Result<()> {
    let Some(keeper) = keeper else { return Ok(()) };
    let undone = keeper.lock().unwrap_or_else(PoisonError::into_inner).undo()?;
    for RestoredValue { path, now, remains, .. } in &undone {
        if let Some(remains) = remains {
            watch(ProgressEvent::Note(format!("`{path}` is back at {now}; {remains}")));
        }
    }
    let problems: Vec<String> = undone.iter().filter_map(problem).collect();
    if !problems.is_empty() {
        bail!("operating system settings were not restored: {}", problems.join("; "));
    }
    Ok(())
}

/// Description of a value that was not restored.
pub fn problem(undone: &RestoredValue) -> Option<String> {
    let again = if undone.is_kept { ", and pgdyno clean tries again" } else { "" };
    undone.problem.as_ref().map(|problem| format!("`{}` is {}: {problem}{again}", undone.path, undone.now))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processors_are_bound_by_one_key() {
        let mut case = crate::plan::sample::case("");
        case.os = BTreeMap::from(
            [("numa", "local"), ("processors", "1")].map(|(k, v)| (k.to_string(), v.to_string())),
        );
        let refused = refusals(&[case], ServerPlace::Own, Path::new("/"));
        assert!(refused.iter().any(|refusal| refusal.key == "os.processors"), "{refused:?}");
    }

    #[test]
    fn values_that_need_our_own_server_or_several_nodes_are_refused_with_the_reason() {
        let check = |place: ServerPlace, key: &str, level: &str, expected: &str| {
            let reason = refusal(place, key, level, &[]).unwrap_or_default();
            assert!(reason.contains(expected), "{key} = {level}: {reason}");
        };
        check(ServerPlace::Away, "swappiness", "1", "another machine");
        check(ServerPlace::Here, "huge_pages", "on", "needs a server that pgdyno runs itself");
        check(ServerPlace::There, "huge_pages", "on", "needs a server that pgdyno runs itself");
        assert_eq!(refusal(ServerPlace::There, "io_scheduler", "none", &[]), None);
        check(ServerPlace::Here, "io_scheduler", "none", "needs a server that pgdyno runs itself");
        check(ServerPlace::Here, "processors", "1", "needs a server that pgdyno runs itself");
        check(ServerPlace::Own, "processors", "0", "at least one processor");
        check(ServerPlace::Own, "processors", "60000", "pgdyno may use only");
        assert_eq!(refusal(ServerPlace::Own, "processors", "1", &[]), None);
        check(
            ServerPlace::Own,
            "numa",
            "node900",
            "this machine has no NUMA node 900; nodes with processors",
        );
        check(ServerPlace::Own, "numa", "first", "is not a NUMA placement");
        check(ServerPlace::Own, "swappiness", "300", "not in 0..200");
        check(ServerPlace::Own, "io_scheduler", "none", "not on a block device");
        assert_eq!(refusal(ServerPlace::Own, "huge_pages", "off", &[]), None);
    }

    #[test]
    fn huge_pages_are_of_the_size_that_the_server_uses() {
        let root = tempfile::tempdir().unwrap();
        for (path, text) in [
            ("proc/meminfo", "Hugepagesize:    2048 kB\n"),
            ("sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages", "0\n"),
            ("sys/kernel/mm/hugepages/hugepages-1048576kB/nr_hugepages", "0\n"),
        ] {
            let path = root.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        let machine = KernelFiles::at(root.path());
        let check = |huge_pages: &str, size: &str, found: Result<Option<u64>, &str>| {
            let mut case = crate::plan::sample::case("");
            case.os = BTreeMap::from([("huge_pages".to_string(), huge_pages.to_string())]);
            case.server.settings = BTreeMap::from([(HUGE_PAGE_SIZE.to_string(), size.to_string())]);
            let refused =
                refused_size(&case, &machine).map(|refusal| (refusal.key, refusal.level, refusal.reason));
            let key = "server.settings.huge_page_size".to_string();
            let expected = found.err().map(|reason| (key, size.to_string(), reason.to_string()));
            assert_eq!(refused, expected, "{huge_pages}, {size}");
            if let Ok(bytes) = found {
                assert_eq!(page_bytes(&case.server.settings).unwrap(), bytes);
            }
        };
        check("on", "0", Ok(None));
        check("on", "1GB", Ok(Some(1 << 30)));
        check("on", "2048", Ok(Some(2 << 20)));
        check("on", "16MB", Err("this kernel has huge pages of 2048 kB, 1048576 kB, not of 16384 kB"));
        check("off", "16MB", Ok(Some(16 << 20)));
        check("on", "large", Err("`large` is not a size, such as 2MB"));
    }
}
