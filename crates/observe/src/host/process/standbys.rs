//! Processor time of the standbys' processes on this machine by what they do, and of the primary's that send them WAL.

use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::sync::{Arc, Mutex, PoisonError};

use model::text::process_title;

use super::{Process, ProcessTree, of_pid};
use crate::gather::Gather;

/// A kind of process, as `standby.cpu` names it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Kind {
    Startup,
    Receiver,
    Sender,
    Other,
}

/// A standby by its postmaster on this machine.
#[derive(Debug, Clone)]
pub(crate) struct LocalStandby {
    pub(crate) name: String,
    pub(crate) pid: i32,
}

/// Processes of the primary that send WAL, by the name of the standby; whoever asks the primary sets them.
#[derive(Debug, Clone, Default)]
pub(crate) struct Senders(Arc<Mutex<BTreeMap<String, i32>>>);

impl Senders {
    pub(crate) fn set(&self, senders: BTreeMap<String, i32>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = senders;
    }

    fn of(&self, name: &str) -> Option<i32> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).get(name).copied()
    }
}

/// The standbys that are observed on this machine.
#[derive(Debug, Default)]
pub(crate) struct StandbyProcesses {
    nodes: Vec<Node>,
    senders: Senders,
}

#[derive(Debug)]
struct Node {
    name: String,
    /// `None` after the end of its postmaster.
    tree: Option<ProcessTree>,
    /// Kinds of processes that have a title.
    kinds: HashMap<(i32, u64), Kind>,
    times: KindTimes,
}

/// Processor time by kind since the first reading.
#[derive(Debug, Default)]
struct KindTimes {
    is_begun: bool,
    seen: HashMap<(i32, u64), f64>,
    sums: HashMap<Kind, f64>,
}

impl KindTimes {
    /// Adds what these processes have used since the last reading. One that has appeared since then began with nothing.
    fn add(&mut self, processes: &[(Kind, Process)]) {
        let mut seen = HashMap::new();
        for (kind, process) in processes {
            let key = (process.pid, process.starttime);
            let new_s = if self.is_begun { 0.0 } else { process.cpu_s };
            let before_s = self.seen.get(&key).copied().unwrap_or(new_s);
            *self.sums.entry(*kind).or_default() += (process.cpu_s - before_s).max(0.0);
            seen.insert(key, process.cpu_s);
        }
        self.seen = seen;
        self.is_begun = true;
    }

    fn of(&self, kind: Kind) -> Option<f64> {
        self.sums.get(&kind).copied()
    }
}

impl StandbyProcesses {
    pub(crate) fn new(standbys: impl Iterator<Item = LocalStandby>, senders: Senders) -> StandbyProcesses {
        let node = |standby: LocalStandby| Node {
            name: standby.name,
            tree: ProcessTree::new(standby.pid).ok(),
            kinds: HashMap::new(),
            times: KindTimes::default(),
        };
        StandbyProcesses { nodes: standbys.map(node).collect(), senders }
    }

    /// Puts the processor time of each kind, and returns the processes of the standbys, which are ours.
    pub(crate) fn read(&mut self, gather: &mut Gather) -> Vec<Process> {
        let mut all = Vec::new();
        for node in &mut self.nodes {
            let sender = self.senders.of(&node.name).and_then(of_pid);
            all.extend(node.read(sender, gather));
        }
        all
    }
}

impl Node {
    fn read(&mut self, sender: Option<Process>, gather: &mut Gather) -> Vec<Process> {
        let Some(Ok((used, processes))) = self.tree.as_mut().map(ProcessTree::used) else {
            self.tree = None;
            return Vec::new();
        };
        let mut kinds = HashMap::new();
        let mut of_kinds: Vec<(Kind, Process)> =
            sender.into_iter().map(|process| (Kind::Sender, process)).collect();
        for process in &processes {
            let key = (process.pid, process.starttime);
            let kind = self.kinds.get(&key).copied().or_else(|| kind(process.pid));
            kinds.extend(kind.map(|kind| (key, kind)));
            of_kinds.push((kind.unwrap_or(Kind::Other), *process));
        }
        self.kinds = kinds;
        self.times.add(&of_kinds);

        let named =
            [(Kind::Startup, "startup"), (Kind::Receiver, "walreceiver"), (Kind::Sender, "walsender")];
        let instance = |kind: &str| format!("{}/{kind}", self.name);
        for (kind, word) in named {
            if let Some(s) = self.times.of(kind) {
                gather.put("standby.cpu", &instance(word), s);
            }
        }
        // Also that of processes which have ended.
        let of = |kind| self.times.of(kind).unwrap_or(0.0);
        let other_s = used.user_s + used.system_s - of(Kind::Startup) - of(Kind::Receiver);
        gather.put("standby.cpu", &instance("other"), other_s);
        processes
    }
}

/// The kind of a process by its title; `None` before it has one.
fn kind(pid: i32) -> Option<Kind> {
    let bytes = fs::read(format!("/proc/{pid}/cmdline")).ok()?;
    kind_of_title(&String::from_utf8_lossy(&bytes))
}

fn kind_of_title(title: &str) -> Option<Kind> {
    process_title::purpose(title)?;
    Some(match title {
        _ if process_title::is_kind(title, "startup") => Kind::Startup,
        _ if process_title::is_kind(title, "walreceiver") => Kind::Receiver,
        _ => Kind::Other,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_title_says_what_a_process_does() {
        for (title, kind) in [
            ("postgres: startup recovering 000000010000000000000003\0\0", Some(Kind::Startup)),
            ("postgres: startup process", Some(Kind::Startup)),
            ("postgres: s1: walreceiver streaming 0/3000148", Some(Kind::Receiver)),
            ("postgres: wal receiver process", Some(Kind::Receiver)),
            ("postgres: checkpointer ", Some(Kind::Other)),
            ("/usr/lib/postgresql/15/bin/postgres\0-D\0/x/startup", None),
            ("", None),
        ] {
            assert_eq!(kind_of_title(title), kind, "{title}");
        }
    }

    #[test]
    fn time_counts_from_the_first_reading_and_a_process_that_ends_keeps_its_time() {
        let process = |pid, cpu_s| Process { pid, starttime: 1, cpu_s, state: 'S' };
        let mut times = KindTimes::default();
        times.add(&[(Kind::Startup, process(1, 5.0)), (Kind::Receiver, process(2, 3.0))]);
        assert_eq!((times.of(Kind::Startup), times.of(Kind::Sender)), (Some(0.0), None));
        times.add(&[(Kind::Startup, process(1, 5.5)), (Kind::Receiver, process(3, 0.25))]);
        times.add(&[(Kind::Startup, process(1, 6.0))]);
        assert_eq!((times.of(Kind::Startup), times.of(Kind::Receiver)), (Some(1.0), Some(0.25)));
    }
}
