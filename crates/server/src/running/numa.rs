//! What a server's processes are bound to: processors and memory nodes, set in the child before its exec.

use std::fs;
use std::io;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use model::experiment::os::Numa;
use nix::libc;
use nix::sched::{CpuSet, sched_getaffinity, sched_setaffinity};
use nix::unistd::Pid;

const NODES: &str = "sys/devices/system/node";
/// Modes of set_mempolicy(2), linux/mempolicy.h.
const MPOL_BIND: libc::c_long = 2;
const MPOL_INTERLEAVE: libc::c_long = 3;
/// Bits of the node mask: more than any kernel supports.
const MASK_BITS: usize = 1024;

/// The processors that a process runs on and the nodes of its memory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Binding {
    /// Processors; empty means all.
    pub cpus: Vec<usize>,
    memory: Option<Memory>,
}

/// Nodes of the memory, and a mode of set_mempolicy(2).
#[derive(Debug, Clone, PartialEq, Eq)]
struct Memory {
    nodes: Vec<usize>,
    mode: libc::c_long,
}

/// The bindings that a placement means on this machine.
///
/// # Errors
/// When it has only one node, or does not report them.
pub fn binding(numa: Numa) -> Result<Binding> {
    binding_at(numa, Path::new("/"))
}

fn binding_at(numa: Numa, root: &Path) -> Result<Binding> {
    let nodes = list(&read(&root.join(NODES).join("online")).unwrap_or_else(|_| "0".to_string()));
    ensure!(nodes.len() > 1, "this machine has one NUMA node");
    let (first, second) = (nodes[0], nodes[1]);
    let cpus = list(&read(&root.join(NODES).join(format!("node{first}/cpulist")))?);
    ensure!(numa == Numa::Interleave || !cpus.is_empty(), "NUMA node {first} has no processors");
    let (cpus, nodes, mode) = match numa {
        Numa::Local => (cpus, vec![first], MPOL_BIND),
        Numa::Remote => (cpus, vec![second], MPOL_BIND),
        Numa::Interleave => (Vec::new(), nodes, MPOL_INTERLEAVE),
    };
    Ok(Binding { cpus, memory: Some(Memory { nodes, mode }) })
}

fn read(path: &Path) -> Result<String> {
    fs::read_to_string(path).with_context(|| format!("read `{}`", path.display()))
}

/// Members of a list such as `0-3,8`.
fn list(text: &str) -> Vec<usize> {
    let ranges = text.trim().split(',').filter_map(|range| {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        Some(first.parse::<usize>().ok()?..=last.parse().ok()?)
    });
    ranges.flatten().collect()
}

impl Binding {
    /// The first `n` of the processors that this process may use, and any memory.
    ///
    /// # Errors
    /// When it may use fewer.
    pub fn of_processors(n: usize) -> Result<Binding> {
        let allowed = sched_getaffinity(Pid::from_raw(0)).context("read the processors of this process")?;
        let all = (0..CpuSet::count()).filter(|cpu| allowed.is_set(*cpu).unwrap_or(false));
        let all: Vec<usize> = all.collect();
        ensure!(n > 0, "a server needs at least one processor");
        ensure!(n <= all.len(), "{n} processors are asked for, but pgdyno may use only {}", all.len());
        Ok(Binding { cpus: all[..n].to_vec(), memory: None })
    }

    /// The placement as text, for records.
    pub fn words(&self) -> String {
        let numbers = |of: &[usize]| of.iter().map(usize::to_string).collect::<Vec<_>>().join(",");
        let cpus = if self.cpus.is_empty() { "all".to_string() } else { numbers(&self.cpus) };
        let Some(memory) = &self.memory else { return format!("processors {cpus}") };
        let mode = if memory.mode == MPOL_INTERLEAVE { "in turns on" } else { "on" };
        format!("processors {cpus}, memory {mode} node {}", numbers(&memory.nodes))
    }

    /// Makes `command` run with this placement, which its children inherit.
    pub(crate) fn apply(&self, command: &mut Command) -> Result<()> {
        let mut cpus = CpuSet::new();
        for cpu in &self.cpus {
            cpus.set(*cpu).with_context(|| format!("processor {cpu} is beyond the limit for binding"))?;
        }
        let mut mask = [0u64; MASK_BITS / 64];
        for node in self.memory.iter().flat_map(|memory| &memory.nodes) {
            ensure!(*node < MASK_BITS, "NUMA node {node} is beyond the limit for binding");
            mask[node / 64] |= 1 << (node % 64);
        }
        let (mode, bind_cpus) = (self.memory.as_ref().map(|memory| memory.mode), !self.cpus.is_empty());
        let in_child = move || {
            if bind_cpus {
                sched_setaffinity(Pid::from_raw(0), &cpus)?;
            }
            let Some(mode) = mode else { return Ok(()) };
            // SAFETY: set_mempolicy(2) reads `MASK_BITS` bits of the mask, which lives on this closure's stack, and
            // writes to none of our memory.
            let done = unsafe { libc::syscall(libc::SYS_set_mempolicy, mode, mask.as_ptr(), MASK_BITS + 1) };
            if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
        };
        // SAFETY: between fork and exec only async-signal-safe functions may be called; these are two system calls on
        // values that were made before the fork.
        unsafe { command.pre_exec(in_child) };
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn placements_are_those_of_two_nodes_and_one_node_has_none() {
        let root = tempfile::tempdir().unwrap();
        let nodes = root.path().join(NODES);
        for (path, text) in [("online", "0-1\n"), ("node0/cpulist", "0-1,4\n"), ("node1/cpulist", "2-3\n")] {
            fs::create_dir_all(nodes.join(path).parent().unwrap()).unwrap();
            fs::write(nodes.join(path), text).unwrap();
        }
        for (numa, expected) in [
            (Numa::Local, "processors 0,1,4, memory on node 0"),
            (Numa::Remote, "processors 0,1,4, memory on node 1"),
            (Numa::Interleave, "processors all, memory in turns on node 0,1"),
        ] {
            assert_eq!(binding_at(numa, root.path()).unwrap().words(), expected);
        }
        fs::write(nodes.join("online"), "0\n").unwrap();
        let error = binding_at(Numa::Remote, root.path()).unwrap_err().to_string();
        assert_eq!(error, "this machine has one NUMA node");
    }

    #[test]
    fn a_bound_process_is_where_it_was_bound_to() {
        let mut command = Command::new("cat");
        command.arg("/proc/self/status");
        Binding::of_processors(1).unwrap().apply(&mut command).unwrap();
        let said = String::from_utf8(command.output().unwrap().stdout).unwrap();
        assert!(said.contains("Cpus_allowed_list:\t0\n"), "{said}");
        let mut command = Command::new("cat");
        command.arg("/proc/self/numa_maps");
        let memory = Some(Memory { nodes: vec![0], mode: MPOL_BIND });
        Binding { cpus: vec![], memory }.apply(&mut command).unwrap();
        let said = String::from_utf8(command.output().unwrap().stdout).unwrap();
        // Kernels without this file do not show the placement.
        assert!(said.is_empty() || said.contains("bind:0"), "{said}");
    }
}
