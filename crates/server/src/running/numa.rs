//! What a server's processes are bound to: processors and memory nodes, set in the child before its exec.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;
use std::thread;

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
    let nodes = Nodes::at(root)?;
    if let Numa::Node(number) = numa {
        let node = number as usize;
        let cpus = nodes.with_all().find(|(known, _)| *known == node).map(|(_, cpus)| cpus.clone());
        let cpus = cpus.with_context(|| nodes.lack(node))?;
        return Ok(Binding { cpus, memory: Some(Memory { nodes: vec![node], mode: MPOL_BIND }) });
    }
    ensure!(nodes.cpus.len() > 1, "this machine has one NUMA node");
    let (first, cpus) = nodes.with_all().next().context("no NUMA node has both processors and memory")?;
    let cpus = cpus.clone();
    let (cpus, nodes, mode) = match numa {
        Numa::Remote => {
            let other = nodes.memory.iter().find(|node| **node != first);
            let other = other.context("this machine has memory on one NUMA node only")?;
            (cpus, vec![*other], MPOL_BIND)
        }
        Numa::Interleave => (Vec::new(), nodes.memory, MPOL_INTERLEAVE),
        _ => (cpus, vec![first], MPOL_BIND),
    };
    Ok(Binding { cpus, memory: Some(Memory { nodes, mode }) })
}

/// The NUMA nodes of a machine.
struct Nodes {
    /// Processors by node.
    cpus: BTreeMap<usize, Vec<usize>>,
    /// Those with memory, in order.
    memory: Vec<usize>,
}

impl Nodes {
    fn at(root: &Path) -> Result<Nodes> {
        let dir = root.join(NODES);
        let online = list(&read(&dir.join("online")).unwrap_or_else(|_| "0".to_string()));
        let cpus = |node: &usize| Ok((*node, list(&read(&dir.join(format!("node{node}/cpulist")))?)));
        // One node without files is a kernel without nodes.
        let cpus = match online.len() {
            1 => online.iter().map(|node| cpus(node).unwrap_or((*node, Vec::new()))).collect(),
            _ => online.iter().map(cpus).collect::<Result<_>>()?,
        };
        let memory = read(&dir.join("has_memory")).map_or(online, |text| list(&text));
        Ok(Nodes { cpus, memory })
    }

    /// Nodes that have both processors and memory.
    fn with_all(&self) -> impl Iterator<Item = (usize, &Vec<usize>)> {
        let all = self.cpus.iter().map(|(node, cpus)| (*node, cpus));
        all.filter(|(node, cpus)| !cpus.is_empty() && self.memory.contains(node))
    }

    /// What keeps a server from this node, and where else it may be.
    fn lack(&self, node: usize) -> String {
        let lack = match self.cpus.get(&node) {
            None => format!("this machine has no NUMA node {node}"),
            Some(cpus) if cpus.is_empty() => format!("NUMA node {node} has no processors"),
            Some(_) => format!("NUMA node {node} has no memory"),
        };
        let names: Vec<String> = self.with_all().map(|(node, _)| format!("node{node}")).collect();
        let names = if names.is_empty() { "none".to_string() } else { names.join(", ") };
        format!("{lack}; nodes with processors and memory: {names}")
    }
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

    /// The one node that all memory is bound to.
    pub fn memory_node(&self) -> Option<usize> {
        let memory = self.memory.as_ref().filter(|memory| memory.mode == MPOL_BIND)?;
        if memory.nodes.len() == 1 { memory.nodes.first().copied() } else { None }
    }

    /// Does `work` in a thread with this placement, which threads that it starts inherit. The placement ends with the
    /// thread; this one keeps its own.
    ///
    /// # Errors
    /// When the kernel does not allow the placement.
    pub fn run<T: Send>(&self, work: impl FnOnce() -> T + Send) -> Result<T> {
        let calls = self.calls()?;
        let bound = || {
            calls.make().with_context(|| format!("bind a thread to {}", self.words()))?;
            Ok(work())
        };
        let done = thread::scope(|scope| scope.spawn(bound).join());
        done.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    }

    /// Makes `command` run with this placement, which its children inherit.
    pub(crate) fn apply(&self, command: &mut Command) -> Result<()> {
        let calls = self.calls()?;
        // SAFETY: between fork and exec only async-signal-safe functions may be called; these are two system calls on
        // values that were made before the fork.
        unsafe { command.pre_exec(move || calls.make()) };
        Ok(())
    }

    fn calls(&self) -> Result<Calls> {
        let mut cpus = CpuSet::new();
        for cpu in &self.cpus {
            cpus.set(*cpu).with_context(|| format!("processor {cpu} is beyond the limit for binding"))?;
        }
        let mut mask = [0u64; MASK_BITS / 64];
        for node in self.memory.iter().flat_map(|memory| &memory.nodes) {
            ensure!(*node < MASK_BITS, "NUMA node {node} is beyond the limit for binding");
            mask[node / 64] |= 1 << (node % 64);
        }
        let mode = self.memory.as_ref().map(|memory| memory.mode);
        Ok(Calls { cpus: (!self.cpus.is_empty()).then_some(cpus), mode, mask })
    }
}

/// The arguments of the system calls that place the calling thread.
struct Calls {
    cpus: Option<CpuSet>,
    mode: Option<libc::c_long>,
    mask: [u64; MASK_BITS / 64],
}

impl Calls {
    fn make(&self) -> io::Result<()> {
        if let Some(cpus) = &self.cpus {
            sched_setaffinity(Pid::from_raw(0), cpus)?;
        }
        let Some(mode) = self.mode else { return Ok(()) };
        // SAFETY: set_mempolicy(2) reads `MASK_BITS` bits of the mask, which lives as long as `self`, and writes to none
        // of our memory.
        let done = unsafe { libc::syscall(libc::SYS_set_mempolicy, mode, self.mask.as_ptr(), MASK_BITS + 1) };
        if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A tree with these files below the directory of the nodes.
    fn machine(files: &[(&str, &str)]) -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        for (path, text) in files {
            let path = root.path().join(NODES).join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        root
    }

    #[test]
    fn placements_are_those_of_two_nodes_and_one_node_has_none() {
        let two = [("online", "0-1\n"), ("node0/cpulist", "0-1,4\n"), ("node1/cpulist", "2-3\n")];
        let root = machine(&two);
        for (numa, expected, node) in [
            (Numa::Local, "processors 0,1,4, memory on node 0", Some(0)),
            (Numa::Remote, "processors 0,1,4, memory on node 1", Some(1)),
            (Numa::Interleave, "processors all, memory in turns on node 0,1", None),
            (Numa::Node(0), "processors 0,1,4, memory on node 0", Some(0)),
            (Numa::Node(1), "processors 2,3, memory on node 1", Some(1)),
        ] {
            let binding = binding_at(numa, root.path()).unwrap();
            assert_eq!((binding.words().as_str(), binding.memory_node()), (expected, node));
        }
        fs::write(root.path().join(NODES).join("online"), "0\n").unwrap();
        let error = binding_at(Numa::Remote, root.path()).unwrap_err().to_string();
        assert_eq!(error, "this machine has one NUMA node");
        let words = binding_at(Numa::Node(0), root.path()).unwrap().words();
        assert_eq!(words, "processors 0,1,4, memory on node 0");
    }

    #[test]
    fn a_node_that_cannot_hold_a_server_is_refused_with_the_list_of_those_that_can() {
        let nodes = [
            ("online", "0-3\n"),
            ("has_memory", "1-3\n"),
            ("node0/cpulist", "0\n"),
            ("node1/cpulist", "1\n"),
            ("node2/cpulist", "\n"),
            ("node3/cpulist", "2\n"),
        ];
        let root = machine(&nodes);
        let check = |numa: Numa, expected: &str| {
            let said = binding_at(numa, root.path());
            assert_eq!(said.map_or_else(|error| error.to_string(), |binding| binding.words()), expected);
        };
        let may_be = "nodes with processors and memory: node1, node3";
        check(Numa::Node(0), &format!("NUMA node 0 has no memory; {may_be}"));
        check(Numa::Node(2), &format!("NUMA node 2 has no processors; {may_be}"));
        check(Numa::Node(4), &format!("this machine has no NUMA node 4; {may_be}"));
        check(Numa::Local, "processors 1, memory on node 1");
        check(Numa::Remote, "processors 1, memory on node 2");
        check(Numa::Interleave, "processors all, memory in turns on node 1,2,3");
        let error = binding_at(Numa::Node(1), machine(&[]).path()).unwrap_err().to_string();
        assert_eq!(error, "this machine has no NUMA node 1; nodes with processors and memory: none");
    }

    #[test]
    fn work_is_done_where_it_is_bound_to_and_the_caller_stays_where_it_is() {
        let allowed = || {
            let text = fs::read_to_string("/proc/thread-self/status").unwrap();
            let line = text.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:")).unwrap();
            list(line)
        };
        let before = allowed();
        let binding = Binding::of_processors(1).unwrap();
        let inherited = || thread::scope(|scope| scope.spawn(allowed).join().unwrap());
        assert_eq!(
            binding.run(|| (allowed(), inherited())).unwrap(),
            (binding.cpus.clone(), binding.cpus.clone())
        );
        assert_eq!(allowed(), before);
        let nowhere = Binding { cpus: vec![1000], memory: None };
        let error = nowhere.run(|| ()).unwrap_err();
        assert_eq!(error.to_string(), "bind a thread to processors 1000");
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
