//! Puts a server's processes into control groups: the postmaster first, whose children inherit them.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use nix::unistd::Pid;

/// Rounds in which processes that began outside are moved: one that begins later is inside.
const ROUNDS: u32 = 10;

/// Puts a process into the groups, by the files that take the ids of processes.
pub(super) fn enter(groups: &[PathBuf], pid: u32) -> Result<()> {
    groups.iter().try_for_each(|group| put(group, pid))
}

/// Moves the processes that are not in the groups yet, until there is none.
pub(super) fn expect_inside(groups: &[PathBuf], processes: impl Fn() -> Result<Vec<Pid>>) -> Result<()> {
    for group in groups {
        let mut left: Vec<u32> = Vec::new();
        for _ in 0..ROUNDS {
            let inside = members(group)?;
            left = processes()?.into_iter().map(|pid| pid.as_raw() as u32).collect();
            left.retain(|pid| !inside.contains(pid) && is_there(*pid));
            if left.is_empty() {
                break;
            }
            for pid in &left {
                match put(group, *pid) {
                    // It has ended meanwhile.
                    Err(_) if !is_there(*pid) => {}
                    moved => moved?,
                }
            }
        }
        ensure!(
            left.is_empty(),
            "processes of the server do not stay in the control group `{}`",
            group.display()
        );
    }
    Ok(())
}

fn put(group: &Path, pid: u32) -> Result<()> {
    fs::write(group, pid.to_string())
        .with_context(|| format!("put process {pid} into the control group `{}`", group.display()))
}

fn members(group: &Path) -> Result<BTreeSet<u32>> {
    let text = fs::read_to_string(group).with_context(|| format!("read `{}`", group.display()))?;
    Ok(text.lines().filter_map(|line| line.trim().parse().ok()).collect())
}

/// Whether a process is there and has not ended: one that waits to be reaped is in no group.
fn is_there(pid: u32) -> bool {
    let state = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    state.rsplit_once(')').is_some_and(|(_, rest)| !rest.trim_start().starts_with(['Z', 'X']))
}
