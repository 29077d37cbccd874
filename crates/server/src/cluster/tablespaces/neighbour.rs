//! Servers that run on this machine and have a directory in one of their tablespaces, as far as we can look into their processes.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// The kernel's names of processes of PostgreSQL.
const NAMES: [&str; 3] = ["postgres", "postmaster", "edb-postgres"];

/// A process of a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Neighbour {
    pub(super) pid: u32,
    /// The server's data directory.
    pub(super) data: PathBuf,
}

/// A process of a server other than the one of `data` that has `dir` in a tablespace. It works in its data directory, perhaps in
/// a container, where the same directory has another name.
pub(super) fn find(dir: &Path, data: &Path) -> Option<Neighbour> {
    let wanted = number(dir)?;
    let ours = number(data);
    let name = dir.file_name()?;
    let pids = fs::read_dir("/proc").ok()?.flatten();
    let pids = pids.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let has_it = |pid: &u32| {
        let process = PathBuf::from(format!("/proc/{pid}"));
        // Others may work in a file system that does not answer.
        if !fs::read_to_string(process.join("comm")).is_ok_and(|name| NAMES.contains(&name.trim_end())) {
            return false;
        }
        let works_in = process.join("cwd");
        let Ok(links) = fs::read_dir(works_in.join(super::LINKS)) else { return false };
        let leads_there = |link: PathBuf| {
            let target = fs::read_link(link).ok()?;
            let location = process.join("root").join(target.strip_prefix("/").ok()?);
            Some(number(&location.join(name))? == wanted)
        };
        number(&works_in) != ours && links.flatten().any(|link| leads_there(link.path()) == Some(true))
    };
    let pid = pids.into_iter().find(has_it)?;
    let data = fs::read_link(format!("/proc/{pid}/cwd")).unwrap_or_default();
    Some(Neighbour { pid, data })
}

/// What tells one directory from another.
fn number(dir: &Path) -> Option<(u64, u64)> {
    let facts = fs::metadata(dir).ok()?;
    Some((facts.dev(), facts.ino()))
}
