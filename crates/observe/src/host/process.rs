//! Resource usage of a process tree, the server's from its postmaster downwards, and scheduling delays of the driver's
//! threads.
//!
//! The sum covers each living process's own time and that of the children it has waited for. A child that ends moves
//! its time from its own line to its parent's, so the sum never falls, except between two reads;
//! [`crate::gather::Backwards::Jitter`] absorbs that. Times come in clock ticks (10 ms) per process: a tick may be
//! wrong by 10 ms for each living process, but sums over ticks are right.

pub(crate) mod affinity;
pub(crate) mod standbys;
pub(crate) mod strangers;

use std::collections::HashMap;
use std::fs;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use nix::time::{ClockId, clock_gettime};
use procfs::FromRead;
use procfs::process::Stat;

/// Depth of the tree: postmaster, backend, and processes that a backend or the archiver may start.
const DEPTH_MAX: u32 = 4;
/// Limit for the processes of a tree. A server has one per connection.
const PROCESSES_MAX: usize = 20_000;

/// Processes of which everything is read in each tick. Of more, CPU time and state are; the rest is read of about so many, by
/// turns: four files of each of 512 sessions took 2 % of a processor.
const READ_WHOLE: usize = 128;

/// A counter of ticks, which says of which processes everything is read.
#[derive(Debug, Clone, Default)]
struct Turns(usize);

impl Turns {
    /// Whether everything is read of a process in this tick, where there are `n_processes`.
    fn next(&mut self, n_processes: usize) -> impl Fn(i32) -> bool {
        self.0 += 1;
        let (turn, n_turns) = (self.0, n_processes.div_ceil(READ_WHOLE).max(1));
        move |pid| pid as usize % n_turns == turn % n_turns
    }
}

/// A value of each process, some of them from when it was the process's turn.
#[derive(Debug)]
struct ByTurns<T> {
    turns: Turns,
    of: HashMap<(i32, u64), T>,
}

impl<T> Default for ByTurns<T> {
    fn default() -> ByTurns<T> {
        ByTurns { turns: Turns::default(), of: HashMap::new() }
    }
}

impl<T: Copy> ByTurns<T> {
    /// Reads those of the first process, which has what its ended children had, of new ones, and of those whose turn it is.
    /// Returns the values before.
    fn read(
        &mut self,
        processes: &[Process],
        mut value: impl FnMut(&Process) -> Option<T>,
    ) -> HashMap<(i32, u64), T> {
        let is_looked_at = self.turns.next(processes.len());
        let mut now = HashMap::new();
        for (i, process) in processes.iter().enumerate() {
            let key = (process.pid, process.starttime);
            let known = if i > 0 && !is_looked_at(process.pid) { self.of.get(&key).copied() } else { None };
            now.extend(known.or_else(|| value(process)).map(|value| (key, value)));
        }
        std::mem::replace(&mut self.of, now)
    }
}

/// A process and its descendants.
#[derive(Debug, Clone)]
pub(crate) struct ProcessTree {
    pid: i32,
    /// Start time of the process in ticks since boot; distinguishes it from a later one with the same pid.
    starttime: u64,
    turns: Turns,
    /// Children of descendants, as they were when last looked at.
    children: HashMap<i32, Vec<i32>>,
}

/// Resource usage of a tree since its root process started.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct TreeUsage {
    pub(crate) user_s: f64,
    pub(crate) system_s: f64,
    pub(crate) n_processes: u32,
}

/// A process of a tree, and the CPU time that it used itself.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Process {
    pub(crate) pid: i32,
    /// As in [`ProcessTree`].
    pub(crate) starttime: u64,
    pub(crate) cpu_s: f64,
    /// The kernel's letter for its state.
    pub(crate) state: char,
}

impl Process {
    fn from_stat(stat: &Stat) -> Process {
        let ticks = stat.utime + stat.stime;
        let cpu_s = ticks as f64 / procfs::ticks_per_second() as f64;
        Process { pid: stat.pid, starttime: stat.starttime, cpu_s, state: stat.state }
    }
}

impl ProcessTree {
    /// The tree below a running process.
    pub(crate) fn new(pid: i32) -> Result<ProcessTree> {
        let stat = stat(pid).with_context(|| format!("process {pid} is not running"))?;
        Ok(ProcessTree { pid, starttime: stat.starttime, turns: Turns::default(), children: HashMap::new() })
    }

    /// Process id of the root.
    pub(crate) fn pid(&self) -> i32 {
        self.pid
    }

    /// Resource usage of the tree, and its processes.
    ///
    /// # Errors
    /// When the root process has ended.
    pub(crate) fn used(&mut self) -> Result<(TreeUsage, Vec<Process>)> {
        // The root first: a child that ends in the meantime is then missing in one tick instead of being counted twice.
        let root = stat(self.pid).with_context(|| format!("process {} has ended", self.pid))?;
        ensure!(root.starttime == self.starttime, "process {} has ended, and its pid was reused", self.pid);
        if root.state == 'Z' {
            bail!("process {} has ended", self.pid);
        }
        let mut used = TreeUsage::default();
        add(&mut used, &root);
        let mut processes = vec![Process::from_stat(&root)];
        let mut kernel = Children::new(listed_children, parents);
        let mut level = kernel.of(self.pid);
        let is_looked_at = self.turns.next(level.len());
        let mut known = HashMap::new();
        for _ in 0..DEPTH_MAX {
            let mut next = Vec::new();
            for pid in level {
                let Some(stat) = stat(pid) else { continue };
                add(&mut used, &stat);
                processes.push(Process::from_stat(&stat));
                let before = self.children.remove(&pid).filter(|_| !is_looked_at(pid));
                let below = before.unwrap_or_else(|| kernel.of(pid));
                next.extend(&below);
                known.insert(pid, below);
            }
            if next.is_empty() || processes.len() > PROCESSES_MAX {
                break;
            }
            level = next;
        }
        self.children = known;
        Ok((used, processes))
    }
}

fn add(used: &mut TreeUsage, stat: &Stat) {
    let ticks_per_s = procfs::ticks_per_second() as f64;
    used.user_s += (stat.utime as f64 + stat.cutime as f64) / ticks_per_s;
    used.system_s += (stat.stime as f64 + stat.cstime as f64) / ticks_per_s;
    used.n_processes += 1;
}

/// A process by its id.
fn of_pid(pid: i32) -> Option<Process> {
    stat(pid).as_ref().map(Process::from_stat)
}

fn stat(pid: i32) -> Option<Stat> {
    let text = fs::read(format!("/proc/{pid}/stat")).ok()?;
    Stat::from_read(text.as_slice()).ok()
}

/// The children of processes in one reading: the kernel's list of each, or, where it keeps none (`CONFIG_PROC_CHILDREN`), the
/// parents of all processes of the machine, which are read once.
struct Children<L, P> {
    list: L,
    parents: P,
    by_parent: Option<HashMap<i32, Vec<i32>>>,
}

impl<L, P> Children<L, P>
where
    L: Fn(i32) -> Option<Vec<i32>>,
    P: Fn() -> Vec<(i32, i32)>,
{
    /// `list` returns the children of a process, or nothing where there are no lists; `parents` all processes, each with its parent.
    fn new(list: L, parents: P) -> Children<L, P> {
        Children { list, parents, by_parent: None }
    }

    fn of(&mut self, pid: i32) -> Vec<i32> {
        (self.list)(pid).unwrap_or_else(|| {
            let by_parent = self.by_parent.get_or_insert_with(|| {
                let mut by_parent: HashMap<i32, Vec<i32>> = HashMap::new();
                (self.parents)().into_iter().for_each(|(pid, of)| by_parent.entry(of).or_default().push(pid));
                by_parent
            });
            by_parent.get(&pid).cloned().unwrap_or_default()
        })
    }
}

/// Children of a process's main thread: PostgreSQL has only that one. None of a process that has ended.
fn listed_children(pid: i32) -> Option<Vec<i32>> {
    match fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")) {
        Ok(text) => Some(text.split_ascii_whitespace().filter_map(|word| word.parse().ok()).collect()),
        Err(_) => Path::new("/proc/thread-self/children").exists().then(Vec::new),
    }
}

fn parents() -> Vec<(i32, i32)> {
    pids_in("/proc").filter_map(|pid| Some((pid, stat(pid)?.ppid))).collect()
}

/// CPU time of this thread so far. Time on the clock would also count waits for a processor.
pub(crate) fn thread_cpu_time() -> Duration {
    clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID).map_or(Duration::ZERO, Duration::from)
}

fn pids_in(directory: &str) -> impl Iterator<Item = i32> {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok())
}

/// Bytes read from and written to storage.
#[derive(Debug, Default)]
pub(crate) struct IoBytes(ByTurns<(f64, f64)>);

impl IoBytes {
    /// Bytes that these processes and the children they waited for read and wrote (the kernel adds a child's bytes to its
    /// parent's when the parent waits for it).
    ///
    /// # Errors
    /// When we cannot read the first process's counters: it runs as another user, and we are not root.
    pub(crate) fn read(&mut self, processes: &[Process]) -> Result<(f64, f64)> {
        let mut refused = None;
        self.0.read(processes, |process| {
            let path = format!("/proc/{}/io", process.pid);
            match fs::read_to_string(&path) {
                Ok(text) => return Some(parse_io(&text)),
                Err(error) if process.pid == processes[0].pid => refused = Some((path, error)),
                // Ended in the meantime.
                Err(_) => {}
            }
            None
        });
        match refused {
            Some((path, error)) => Err(error).with_context(|| format!("cannot read `{path}`")),
            None => Ok(self.0.of.values().fold((0.0, 0.0), |sum, one| (sum.0 + one.0, sum.1 + one.1))),
        }
    }
}

fn parse_io(text: &str) -> (f64, f64) {
    let field = |name: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(name))?;
        line.trim().parse::<f64>().ok()
    };
    // `cancelled_write_bytes` is not subtracted: it is charged to whoever drops a dirty page, not to the writer.
    (field("read_bytes:").unwrap_or_default(), field("write_bytes:").unwrap_or_default())
}

/// Time that processes could have run and did not, summed since the first reading. A process that ends takes along what it
/// waited since it was last looked at.
#[derive(Debug, Default)]
pub(crate) struct RunDelays {
    of: ByTurns<f64>,
    is_begun: bool,
    sum_s: f64,
}

impl RunDelays {
    /// The sum so far; `None` if the kernel does not say.
    pub(crate) fn read(&mut self, processes: &[Process]) -> Option<f64> {
        let before = self.of.read(processes, |process| delay_s(&format!("/proc/{}/schedstat", process.pid)));
        if self.of.of.is_empty() {
            return None;
        }
        for (key, delay_s) in &self.of.of {
            // A process that has appeared since began with nothing.
            let new_s = if self.is_begun { 0.0 } else { *delay_s };
            self.sum_s += (delay_s - before.get(key).copied().unwrap_or(new_s)).max(0.0);
        }
        self.is_begun = true;
        Some(self.sum_s)
    }
}

/// Fields of a `schedstat`: time on a processor, time waiting for one (ns), number of time slices.
fn delay_s(path: &str) -> Option<f64> {
    let text = fs::read_to_string(path).ok()?;
    text.split_ascii_whitespace().nth(1).and_then(|word| word.parse::<f64>().ok()).map(|ns| ns / 1e9)
}

/// Seconds that the current threads of a process were runnable but not running, summed.
pub(crate) fn run_delay_s(pid: i32) -> Option<f64> {
    let directory = format!("/proc/{pid}/task");
    let delays = pids_in(&directory).filter_map(|thread| delay_s(&format!("{directory}/{thread}/schedstat")));
    delays.reduce(|a, b| a + b)
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    #[test]
    fn the_line_of_a_process_is_read_whatever_its_name() {
        let line = "4711 (post) gres: x) S 1 4711 4711 0 -1 4194560 100 200 1 2 30 10 500 70 20 0 1 0 123456 \
            230000000 5000 18446744073709551615 1 1 0 0 0 0 0 0 0 0 0 0 17 1 0 0 0 0 0 0 0 0 0 0 0 0 0\n";
        let stat = Stat::from_read(line.as_bytes()).unwrap();
        let mut used = TreeUsage::default();
        add(&mut used, &stat);
        let ticks = procfs::ticks_per_second() as f64;
        assert_eq!(used, TreeUsage { user_s: 530.0 / ticks, system_s: 80.0 / ticks, n_processes: 1 });
        assert_eq!(stat.starttime, 123_456);
    }

    #[test]
    fn of_many_processes_each_has_its_turn() {
        let mut turns = Turns::default();
        let pids = 1000..1512;
        let mut seen: Vec<i32> = Vec::new();
        for _ in 0..4 {
            let is_looked_at = turns.next(512);
            seen.extend(pids.clone().filter(|pid| is_looked_at(*pid)));
        }
        assert_eq!(seen.len(), 512);
        assert_eq!(seen.iter().copied().collect::<std::collections::BTreeSet<i32>>().len(), 512);
        let is_looked_at = turns.next(READ_WHOLE);
        assert!(pids.into_iter().all(is_looked_at), "few are read in each tick");
    }

    #[test]
    fn without_lists_of_children_all_parents_are_read_once() {
        let n_read = std::cell::Cell::new(0);
        let all = || {
            n_read.set(n_read.get() + 1);
            vec![(2, 1), (3, 1), (4, 3)]
        };
        let mut hidden = Children::new(|_| None, all);
        assert_eq!([1, 2, 3, 9].map(|pid| hidden.of(pid)), [vec![2, 3], vec![], vec![4], vec![]]);
        assert_eq!(n_read.get(), 1);
        let own = i32::try_from(std::process::id()).unwrap();
        assert!(parents().iter().any(|(pid, _)| *pid == own));
        assert_eq!(Children::new(|_| Some(vec![7]), all).of(1), [7]);
        assert_eq!(n_read.get(), 1, "where there are lists, nothing else is read");
    }

    #[test]
    fn of_a_process_whose_turn_it_is_not_the_value_before_counts() {
        let process = |pid| Process { pid, starttime: 1, cpu_s: 0.0, state: 'S' };
        let all: Vec<Process> = (0..300).map(process).collect();
        let mut values = ByTurns::default();
        values.read(&all, |_| Some(1));
        let before = values.read(&all[..299], |_| Some(2));
        assert!(before.len() == 300 && before.values().all(|value| *value == 1));
        let n_read = values.of.values().filter(|value| **value == 2).count();
        assert!((100..=101).contains(&n_read) && values.of.len() == 299, "{n_read}");
        assert_eq!(values.of[&(0, 1)], 2, "the first is always read");
        values.read(&all, |process| (process.pid == 299).then_some(3));
        assert_eq!(values.of[&(299, 1)], 3, "a new one is read at once");
        assert!(!values.of.contains_key(&(0, 1)), "what cannot be read is not known");
    }

    #[test]
    fn io_is_what_went_to_and_came_from_storage() {
        let text = "rchar: 1\nwchar: 2\nsyscr: 3\nsyscw: 4\nread_bytes: 4096\nwrite_bytes: 12288\ncancelled_write_bytes: 4096\n";
        assert_eq!(parse_io(text), (4096.0, 12288.0));
        assert_eq!(parse_io(""), (0.0, 0.0));
    }

    #[test]
    fn time_of_children_counts_while_they_live_and_after() {
        let busy = "i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done";
        // The second command keeps the outer shell from replacing itself with the first.
        let script = format!("sh -c '{busy}'; sleep 60; true");
        let mut shell = Command::new("sh").args(["-c", &script]).spawn().unwrap();
        let mut tree = ProcessTree::new(i32::try_from(shell.id()).unwrap()).unwrap();
        let mut seen = Vec::new();
        for _ in 0..100 {
            seen.push(tree.used().unwrap().0);
            let children_waited_for = stat(tree.pid()).is_some_and(|stat| stat.cutime > 0);
            if children_waited_for {
                break;
            }
            std::thread::sleep(std::time::Duration::from_millis(50));
        }
        let (last, processes) = tree.used().unwrap();
        assert!(last.user_s > 0.0 && processes[0].pid == tree.pid(), "{seen:?} {last:?}");
        assert!(run_delay_s(tree.pid()).is_none_or(|delay_s| delay_s >= 0.0));
        for process in processes.into_iter().skip(1) {
            let _ = Command::new("kill").arg(process.pid.to_string()).status();
        }
        shell.kill().unwrap();
        shell.wait().unwrap();
        assert!(tree.used().unwrap_err().to_string().contains("has ended"));
        assert!(ProcessTree::new(i32::MAX).is_err());
    }
}
