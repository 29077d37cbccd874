//! NUMA placement of a server: the processors and the memory nodes, set in the child before its exec.

use std::fs;
use std::io;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use model::experiment::os::Numa;
use nix::libc;
use nix::sched::{CpuSet, sched_setaffinity};
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
    /// Nodes of the memory.
    pub nodes: Vec<usize>,
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
    Ok(match numa {
        Numa::Local => Binding { cpus, nodes: vec![first], mode: MPOL_BIND },
        Numa::Remote => Binding { cpus, nodes: vec![second], mode: MPOL_BIND },
        Numa::Interleave => Binding { cpus: Vec::new(), nodes, mode: MPOL_INTERLEAVE },
    })
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
    /// The placement as text, for records.
    pub fn words(&self) -> String {
        let numbers = |of: &[usize]| of.iter().map(usize::to_string).collect::<Vec<_>>().join(",");
        let cpus = if self.cpus.is_empty() { "all".to_string() } else { numbers(&self.cpus) };
        let mode = if self.mode == MPOL_INTERLEAVE { "in turns on" } else { "on" };
        format!("processors {cpus}, memory {mode} node {}", numbers(&self.nodes))
    }

    /// Makes `command` run with this placement, which its children inherit.
    pub(crate) fn apply(&self, command: &mut Command) -> Result<()> {
        let mut cpus = CpuSet::new();
        for cpu in &self.cpus {
            cpus.set(*cpu).with_context(|| format!("processor {cpu} is beyond the limit for binding"))?;
        }
        let mut mask = [0u64; MASK_BITS / 64];
        for node in &self.nodes {
            ensure!(*node < MASK_BITS, "NUMA node {node} is beyond the limit for binding");
            mask[node / 64] |= 1 << (node % 64);
        }
        let (mode, bind_cpus) = (self.mode, !self.cpus.is_empty());
        let in_child = move || {
            if bind_cpus {
                sched_setaffinity(Pid::from_raw(0), &cpus)?;
            }
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
        Binding { cpus: vec![0], nodes: vec![0], mode: MPOL_BIND }.apply(&mut command).unwrap();
        let said = String::from_utf8(command.output().unwrap().stdout).unwrap();
        assert!(said.contains("Cpus_allowed_list:\t0\n"), "{said}");
        let mut command = Command::new("cat");
        command.arg("/proc/self/numa_maps");
        Binding { cpus: vec![], nodes: vec![0], mode: MPOL_BIND }.apply(&mut command).unwrap();
        let said = String::from_utf8(command.output().unwrap().stdout).unwrap();
        // Kernels without this file do not show the placement.
        assert!(said.is_empty() || said.contains("bind:0"), "{said}");
    }
}
