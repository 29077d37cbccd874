//! `pgdyno server`: the clusters that embedded servers run on, and the space that they take.

use anyhow::Result;
use model::prose::plural;
use server::workspace::Entry;
use server::{Cache, Workspace};

use crate::cli::ServerCommand;
use crate::{Exit, print, say};

/// Lists or removes clusters.
pub(crate) fn server(command: &ServerCommand) -> Result<Exit> {
    let workspace = Workspace::in_cache(&Cache::default_location()?)?;
    match command {
        ServerCommand::List { json } => list(&workspace, *json)?,
        ServerCommand::Remove { names, force } => {
            for name in names {
                if *force { workspace.remove_by_force(name) } else { workspace.remove(name) }?;
                say(&format!("removed cluster `{name}`"));
            }
        }
    }
    Ok(Exit::Done)
}

fn list(workspace: &Workspace, json: bool) -> Result<()> {
    let entries = workspace.list()?;
    if json {
        return entries.iter().try_for_each(|entry| print(&format!("{}\n", json_of(entry))));
    }
    for entry in &entries {
        print(&format!("{}\n", text(entry)))?;
    }
    let bytes: u64 = entries.iter().map(|entry| entry.bytes).sum();
    let clusters = plural(entries.len(), "cluster");
    say(&format!("{clusters}, {:.1} GB in `{}`", bytes as f64 / 1e9, workspace.dir.display()));
    Ok(())
}

/// Name, size, what it is, and what keeps it from being removed.
fn text(entry: &Entry) -> String {
    let what = match &entry.facts {
        None => entry.problem.clone().unwrap_or_default(),
        Some(facts) if !facts.is_complete => "not made to the end".to_string(),
        Some(facts) => {
            let scale = facts.labels.get("scale").map_or(String::new(), |scale| format!(", scale {scale}"));
            let parts = facts.labels.get("partitions").map_or(String::new(), |n| format!(", {n} partitions"));
            format!("PostgreSQL {}{scale}{parts}", facts.version)
        }
    };
    let used = match (entry.used_by_pid, entry.server_pid) {
        (Some(pid), _) => format!(", in use by pgdyno process {pid}"),
        (None, Some(pid)) => format!(", its server runs as process {pid}"),
        (None, None) => String::new(),
    };
    format!("{}  {:.1} GB  {what}{used}", entry.name, entry.bytes as f64 / 1e9)
}

fn json_of(entry: &Entry) -> serde_json::Value {
    serde_json::json!({
        "name": entry.name, "path": entry.root, "bytes": entry.bytes,
        "version": entry.facts.as_ref().map(|facts| &facts.version),
        "problem": entry.problem,
        "complete": entry.facts.as_ref().is_some_and(|facts| facts.is_complete),
        "labels": entry.facts.as_ref().map(|facts| &facts.labels),
        "used_by_pid": entry.used_by_pid, "server_pid": entry.server_pid,
    })
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;

    #[test]
    fn a_line_says_what_a_cluster_is_and_who_uses_it() {
        let entry = Entry {
            name: "x".to_string(),
            root: PathBuf::from("/x"),
            facts: None,
            problem: Some("`/x` is not a cluster made by pgdyno".to_string()),
            bytes: 1_500_000_000,
            snapshots: Vec::new(),
            used_by_pid: None,
            server_pid: Some(7),
        };
        let line = "x  1.5 GB  `/x` is not a cluster made by pgdyno, its server runs as process 7";
        assert_eq!(text(&entry), line);
        assert!(text(&Entry { used_by_pid: Some(8), ..entry }).ends_with("in use by pgdyno process 8"));
    }
}
