//! `pgdyno server`: the clusters of embedded servers and the disk space they take.

use std::time::SystemTime;

use anyhow::Result;
use model::text::prose::{bytes, plural};
use model::text::visible::on_one_line;
use server::cluster::budget::{CacheBudget, Holdings};
use server::cluster::workspace::WorkspaceCluster;
use server::{Cache, Workspace};

use crate::front::cli::ServerCommand;
use crate::{Exit, print, print_exact, say};

/// Lists or removes clusters.
pub(crate) fn server(command: &ServerCommand) -> Result<Exit> {
    let cache = Cache::default_location()?;
    let workspace = Workspace::look_in_cache(&cache)?;
    match command {
        ServerCommand::List { json } => list(&cache, &workspace, *json)?,
        ServerCommand::Remove { all: true, .. } => {
            for entry in workspace.list()?.into_iter().filter(|entry| entry.facts.is_some()) {
                if entry.used_by_pid.or(entry.server_pid).is_some() {
                    say(&format!("left cluster `{}`, which is in use", entry.name));
                    continue;
                }
                if let Some(why) = &entry.used_by_others {
                    say(&format!(
                        "left cluster `{0}`, which may hold data of somebody else: {why}; save what is needed of it, and \
                         `pgdyno server remove --force {0}` removes it",
                        entry.name
                    ));
                    continue;
                }
                workspace.remove(&entry.name)?;
                say(&format!("removed cluster `{}`", entry.name));
            }
        }
        ServerCommand::Remove { names, force, .. } => {
            for name in names {
                let left = if *force {
                    workspace.remove_by_force(name)?
                } else {
                    workspace.remove(name).map(|()| Vec::new())?
                };
                say(&format!("removed cluster `{name}`"));
                for (dir, why) in left {
                    let dir = dir.display();
                    say(&format!(
                        "left `{dir}`, which that cluster had in a tablespace: it {why}; if no server needs it, remove it yourself"
                    ));
                }
            }
        }
    }
    Ok(Exit::Done)
}

fn list(cache: &Cache, workspace: &Workspace, json: bool) -> Result<()> {
    let entries = workspace.list()?;
    for entry in &entries {
        if json {
            print_exact(&format!("{}\n", json_of(entry)))?
        } else {
            print(&format!("{}\n", text(entry)))?
        }
    }
    say(&format!("{} in `{}`", sum(&entries), workspace.dir.display()));
    say(&of_budget(Holdings::read(cache)?.bytes, &CacheBudget::read(cache)?));
    Ok(())
}

/// The clusters that are kept for later runs, and how to remove them; `None` if there are none.
pub(crate) fn kept(cache: &Cache) -> Result<Option<String>> {
    let entries = Workspace::look_in_cache(cache)?.list()?;
    let words =
        || format!("kept for the next runs: {}; `pgdyno server remove --all` removes them", sum(&entries));
    Ok((!entries.is_empty()).then(words))
}

/// `3 clusters, 434 MiB`.
fn sum(entries: &[WorkspaceCluster]) -> String {
    let all_bytes = entries.iter().map(bytes_of).fold(0, u64::saturating_add);
    format!("{}, {}", plural(entries.len(), "cluster"), bytes(all_bytes as f64))
}

/// Bytes of a cluster over all its directories.
fn bytes_of(entry: &WorkspaceCluster) -> u64 {
    entry.elsewhere.iter().map(|(_, bytes)| *bytes).fold(entry.bytes, u64::saturating_add)
}

/// How much of its budget the cache uses.
fn of_budget(held_bytes: u64, budget: &CacheBudget) -> String {
    let held = bytes(held_bytes as f64);
    let origin = &budget.origin;
    match budget.bytes {
        None => format!("with binaries {held}, without a limit ({origin})"),
        Some(limit) => {
            let rule = "creating a cluster removes the least recently used";
            format!("with binaries {held} of {} ({origin}); {rule}", bytes(limit as f64))
        }
    }
}

/// Name, size, what it is, and what prevents its removal.
fn text(entry: &WorkspaceCluster) -> String {
    let what = match &entry.facts {
        None => entry.problem.clone().unwrap_or_default(),
        Some(facts) if !facts.is_complete => "incomplete".to_string(),
        Some(facts) => {
            let scale = facts.labels.get("scale").map_or(String::new(), |scale| format!(", scale {scale}"));
            let parts = facts.labels.get("partitions").map_or(String::new(), |n| format!(", {n} partitions"));
            let unlogged = if facts.labels.contains_key("unlogged") { ", UNLOGGED" } else { "" };
            format!("PostgreSQL {}{scale}{parts}{unlogged}", facts.version)
        }
    };
    let used = match (entry.used_by_pid, entry.server_pid) {
        (Some(pid), _) => format!(", in use by pgdyno process {pid}"),
        (None, Some(pid)) => format!(", its server runs as process {pid}"),
        (None, None) => match &entry.used_by_others {
            Some(why) => format!(", which may hold data of somebody else: {why}"),
            None => format!(", last used {}", when(entry.last_used)),
        },
    };
    let line = format!("{}  {}  {what}{used}", entry.name, bytes(bytes_of(entry) as f64));
    on_one_line(&line).into_owned()
}

/// `2026-03-01 12:00`, in local time.
fn when(time: SystemTime) -> String {
    let time = jiff::Timestamp::try_from(time).unwrap_or_default();
    time.to_zoned(jiff::tz::TimeZone::system()).strftime("%Y-%m-%d %H:%M").to_string()
}

fn json_of(entry: &WorkspaceCluster) -> serde_json::Value {
    serde_json::json!({
        "name": entry.name, "path": entry.root, "bytes": bytes_of(entry),
        "last_used_unix_s": entry.last_used.duration_since(SystemTime::UNIX_EPOCH).map_or(0, |d| d.as_secs()),
        "version": entry.facts.as_ref().map(|facts| &facts.version),
        "problem": entry.problem,
        "complete": entry.facts.as_ref().is_some_and(|facts| facts.is_complete),
        "labels": entry.facts.as_ref().map(|facts| &facts.labels),
        "used_by_pid": entry.used_by_pid, "server_pid": entry.server_pid,
        "used_by_others": entry.used_by_others,
    })
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;

    #[test]
    fn a_line_says_what_a_cluster_is_and_who_uses_it() {
        let entry = WorkspaceCluster {
            name: "x".to_string(),
            root: PathBuf::from("/x"),
            facts: None,
            problem: Some("`/x` is not a cluster created by pgdyno".to_string()),
            bytes: 1 << 30,
            elsewhere: vec![(PathBuf::from("/wal"), 1 << 29)],
            last_used: SystemTime::UNIX_EPOCH,
            snapshots: Vec::new(),
            used_by_pid: None,
            server_pid: Some(7),
            used_by_others: None,
        };
        let line = "x  1.50 GiB  `/x` is not a cluster created by pgdyno, its server runs as process 7";
        assert_eq!(text(&entry), line);
        assert!(
            text(&WorkspaceCluster { used_by_pid: Some(8), ..entry.clone() })
                .ends_with("in use by pgdyno process 8")
        );
        let idle = text(&WorkspaceCluster { server_pid: None, ..entry });
        assert!(idle.contains(", last used 19"), "{idle}");
    }

    #[test]
    fn the_budget_is_reported_with_its_origin() {
        let budget = |bytes| CacheBudget { bytes, origin: "PGDYNO_CACHE_SIZE=x".to_string() };
        let text = of_budget(1 << 30, &budget(Some(2 << 30)));
        assert!(
            text.starts_with("with binaries 1.00 GiB of 2.00 GiB (PGDYNO_CACHE_SIZE=x); creating a cluster"),
            "{text}"
        );
        assert_eq!(
            of_budget(1 << 30, &budget(None)),
            "with binaries 1.00 GiB, without a limit (PGDYNO_CACHE_SIZE=x)"
        );
    }
}
