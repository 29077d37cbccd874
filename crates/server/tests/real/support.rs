//! A temporary directory for clusters, binaries fetched once, and a check of what is left over.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use server::fetch;
use server::{Binaries, Cache, Cluster, InitOptions};
use wire::{Conninfo, Session};

use testbed::Apart;

/// A temporary directory, in memory if there is room.
pub(crate) fn place() -> Apart {
    Apart::in_memory("pgdyno-test-").unwrap_or_else(testbed::place)
}

/// A release series from a cache in the build directory, fetched over the network if it is not there yet.
pub(crate) fn fetched(series: &str) -> Binaries {
    let cache = Cache::at(concat!(env!("CARGO_TARGET_TMPDIR"), "/cache"));
    fetch(&cache, &series.parse().unwrap(), &mut |_| {})
        .unwrap_or_else(|error| panic!("this test needs the network: {error}"))
}

/// PostgreSQL as installed by the system.
pub(crate) fn installed() -> Binaries {
    Binaries::from_bin_dir(Path::new("/usr/lib/postgresql/15/bin"))
        .unwrap_or_else(|error| panic!("this test needs PostgreSQL 15 of Debian: {error:#}"))
}

/// A small cluster in `place`.
pub(crate) fn cluster(binaries: &Binaries, place: &Apart) -> Cluster {
    Cluster::create(binaries, &place.path().join("cluster"), &InitOptions::default()).unwrap()
}

pub(crate) fn settings(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    let small = [("shared_buffers", "32MB"), ("max_connections", "20")];
    small.iter().chain(pairs).map(|(name, value)| (name.to_string(), value.to_string())).collect()
}

pub(crate) fn session(conninfo: &Conninfo) -> Session {
    Session::connect(conninfo).unwrap_or_else(|error| panic!("{error}"))
}

/// The one value that `sql` returns.
pub(crate) fn ask(session: &mut Session, sql: &str) -> String {
    let rows = session.query(sql).unwrap_or_else(|error| panic!("{sql}: {error}"));
    rows.scalar().unwrap_or_default().to_string()
}

/// Whether any process works in or below `dir`.
pub(crate) fn processes_in(dir: &Path) -> Vec<u32> {
    let pids = fs::read_dir("/proc").unwrap().flatten();
    let pids = pids.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    pids.filter(|pid| fs::read_link(format!("/proc/{pid}/cwd")).is_ok_and(|cwd| cwd.starts_with(dir)))
        .collect()
}
