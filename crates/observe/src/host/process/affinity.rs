//! The processors that a party's tasks may run on: their affinity, which cpusets of control groups narrow. What a quota leaves of
//! them is of `cgroup`.

use std::collections::BTreeSet;
use std::path::PathBuf;

use nix::sched::{CpuSet, sched_getaffinity};
use nix::unistd::{Pid, SysconfVar, sysconf};

use crate::gather::Gather;
use crate::host::process::pids_in;

/// Most tasks of one party that are looked at in a tick.
const TASKS_MAX: usize = 1024;

/// The threads of a process.
pub(crate) fn threads(pid: i32) -> impl Iterator<Item = i32> {
    let directory = PathBuf::from(format!("/proc/{pid}/task"));
    pids_in(&directory.display().to_string()).collect::<Vec<i32>>().into_iter()
}

/// Reads what these tasks may use, of whom together no more than `n_at_once` can run.
pub(crate) fn read(
    gather: &mut Gather,
    party: &str,
    tasks: impl Iterator<Item = i32>,
    n_at_once: Option<usize>,
) {
    let allowed = allowed(tasks);
    if allowed.is_empty() {
        return;
    }
    let n = n_at_once.map_or(allowed.len(), |n| n.min(allowed.len()));
    gather.put("affinity.processors", party, n as f64);
    let n_online = sysconf(SysconfVar::_NPROCESSORS_ONLN).ok().flatten();
    if n_online.is_some_and(|online| usize::try_from(online).is_ok_and(|online| allowed.len() < online)) {
        for cpu in allowed {
            gather.put("affinity.cpu", &format!("{party}:cpu{cpu}"), 1.0);
        }
    }
}

/// The processors that any of these may use. Nothing of those that have ended, and where the kernel has more processors than the set.
fn allowed(tasks: impl Iterator<Item = i32>) -> BTreeSet<usize> {
    // Nearly always, all are the same.
    let mut sets: Vec<CpuSet> = Vec::new();
    for task in tasks.take(TASKS_MAX) {
        if let Ok(set) = sched_getaffinity(Pid::from_raw(task))
            && !sets.contains(&set)
        {
            sets.push(set);
        }
    }
    let is_allowed = |cpu: &usize| sets.iter().any(|set| set.is_set(*cpu).unwrap_or(false));
    (0..CpuSet::count()).filter(is_allowed).collect()
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;
    use crate::gather::Backwards;

    #[test]
    fn what_a_process_is_bound_to_is_read_and_what_all_may_use_is_not_listed() {
        let us = i32::try_from(std::process::id()).unwrap();
        let all = allowed(threads(us));
        assert!(!all.is_empty());
        let last = *all.last().unwrap();
        let mut child =
            Command::new("taskset").args(["-c", &last.to_string(), "sleep", "60"]).spawn().unwrap();
        let pid = i32::try_from(child.id()).unwrap();
        let mut bound = BTreeSet::new();
        for _ in 0..200 {
            bound = allowed([pid].into_iter());
            if bound.len() == 1 {
                break;
            }
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
        assert_eq!(bound, [last].into());
        assert_eq!(allowed([pid, us].into_iter()), all, "what any of them may use counts");
        let mut gather = Gather::new(Backwards::Jitter);
        read(&mut gather, "server", [pid].into_iter(), None);
        read(&mut gather, "pooler", threads(us), Some(1));
        let values = gather.take().0;
        assert_eq!(values["affinity.processors[server]"], 1.0);
        assert_eq!(values["affinity.processors[pooler]"], 1.0, "no more than can run at once");
        if all.len() > 1 {
            assert_eq!(values[&format!("affinity.cpu[server:cpu{last}]")], 1.0);
        }
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(allowed([pid].into_iter()).is_empty(), "what has ended may use nothing");
    }
}
