//! What a tree of processes used: the server's, from its postmaster downwards; and the delays of the driver's threads.
//!
//! A process's own time plus that of the children it has waited for, plus the same of each living child. A child that
//! ends moves its time from its own line to its parent's, so the sum never falls, except in the moment between two
//! reads; [`crate::gather::Backwards::Jitter`] absorbs that. Times come in clock ticks (10 ms) of each process: a tick
//! may be wrong by 10 ms for each living process, sums over ticks are not.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, bail, ensure};
use procfs::FromRead;
use procfs::process::Stat;

/// Depth of the tree that is followed: postmaster, backend, and what a backend or the archiver may start.
const DEPTH_MAX: u32 = 4;
/// Processes that are followed. A server has one per connection.
const PROCESSES_MAX: usize = 20_000;

/// A process and its descendants.
#[derive(Debug, Clone)]
pub(crate) struct Tree {
    pid: i32,
    /// Start of the process in ticks since boot: tells it from a later one of the same number.
    starttime: u64,
}

/// What a tree has used since its root began.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct Used {
    pub(crate) user_s: f64,
    pub(crate) system_s: f64,
    pub(crate) n_processes: u32,
}

impl Tree {
    /// The tree below a process that runs now.
    pub(crate) fn of(pid: i32) -> Result<Tree> {
        let stat = stat(pid).with_context(|| format!("process {pid} does not run"))?;
        Ok(Tree { pid, starttime: stat.starttime })
    }

    /// The number of the root process.
    pub(crate) fn pid(&self) -> i32 {
        self.pid
    }

    /// What the tree has used, and its processes.
    ///
    /// # Errors
    /// The root process has ended.
    pub(crate) fn used(&self) -> Result<(Used, Vec<i32>)> {
        // The root first: a child that ends meanwhile is then missing for one tick instead of being counted twice.
        let root = stat(self.pid).with_context(|| format!("process {} has ended", self.pid))?;
        ensure!(
            root.starttime == self.starttime,
            "process {} has ended, its number was given away",
            self.pid
        );
        if root.state == 'Z' {
            bail!("process {} has ended", self.pid);
        }
        let mut used = Used::default();
        add(&mut used, &root);
        let mut pids = vec![self.pid];
        let mut level = children(self.pid);
        for _ in 0..DEPTH_MAX {
            let mut next = Vec::new();
            for pid in level {
                let Some(stat) = stat(pid) else { continue };
                add(&mut used, &stat);
                pids.push(pid);
                next.extend(children(pid));
            }
            if next.is_empty() || pids.len() > PROCESSES_MAX {
                break;
            }
            level = next;
        }
        Ok((used, pids))
    }
}

fn add(used: &mut Used, stat: &Stat) {
    let ticks_per_s = procfs::ticks_per_second() as f64;
    used.user_s += (stat.utime as f64 + stat.cutime as f64) / ticks_per_s;
    used.system_s += (stat.stime as f64 + stat.cstime as f64) / ticks_per_s;
    used.n_processes += 1;
}

fn stat(pid: i32) -> Option<Stat> {
    let text = fs::read(format!("/proc/{pid}/stat")).ok()?;
    Stat::from_read(text.as_slice()).ok()
}

/// Children of a process's main thread: PostgreSQL has only that one. Where the kernel keeps no such list
/// (`CONFIG_PROC_CHILDREN`), all processes are asked for their parent.
fn children(pid: i32) -> Vec<i32> {
    match fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")) {
        Ok(text) => text.split_ascii_whitespace().filter_map(|word| word.parse().ok()).collect(),
        Err(_) if Path::new("/proc/1/task/1/children").exists() => Vec::new(),
        Err(_) => {
            pids_in("/proc").filter(|&child| stat(child).is_some_and(|stat| stat.ppid == pid)).collect()
        }
    }
}

fn pids_in(directory: &str) -> impl Iterator<Item = i32> {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok())
}

/// Bytes read from and sent to storage by these processes and the children they waited for (the kernel adds a
/// child's to its parent's when it is waited for).
///
/// # Errors
/// The first process is not ours to look into: its user differs, and we are not root.
pub(crate) fn io_bytes(pids: &[i32]) -> Result<(f64, f64)> {
    let mut sum = (0.0, 0.0);
    for (i, pid) in pids.iter().enumerate() {
        let path = format!("/proc/{pid}/io");
        match fs::read_to_string(&path) {
            Ok(text) => {
                let (read, write) = parse_io(&text);
                sum = (sum.0 + read, sum.1 + write);
            }
            Err(error) if i == 0 => return Err(error).with_context(|| format!("`{path}` cannot be read")),
            // Ended meanwhile.
            Err(_) => {}
        }
    }
    Ok(sum)
}

fn parse_io(text: &str) -> (f64, f64) {
    let field = |name: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(name))?;
        line.trim().parse::<f64>().ok()
    };
    // `cancelled_write_bytes` is not taken off: it is booked to whoever drops a dirty page, not to who wrote it.
    (field("read_bytes:").unwrap_or_default(), field("write_bytes:").unwrap_or_default())
}

/// Seconds that the threads of a process were ready to run but not running, summed over the threads it has now.
pub(crate) fn run_delay_s(pid: i32) -> Option<f64> {
    let directory = format!("/proc/{pid}/task");
    let mut sum_ns: Option<f64> = None;
    for thread in pids_in(&directory) {
        let Ok(text) = fs::read_to_string(format!("{directory}/{thread}/schedstat")) else { continue };
        // Time on a processor, time waiting for one (ns), turns.
        let delay_ns = text.split_ascii_whitespace().nth(1).and_then(|word| word.parse::<f64>().ok());
        sum_ns = delay_ns.map_or(sum_ns, |delay_ns| Some(sum_ns.unwrap_or_default() + delay_ns));
    }
    sum_ns.map(|ns| ns / 1e9)
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
        let mut used = Used::default();
        add(&mut used, &stat);
        let ticks = procfs::ticks_per_second() as f64;
        assert_eq!(used, Used { user_s: 530.0 / ticks, system_s: 80.0 / ticks, n_processes: 1 });
        assert_eq!(stat.starttime, 123_456);
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
        // The second command keeps the outer shell from replacing itself.
        let script = format!("sh -c '{busy}'; sleep 60; true");
        let mut shell = Command::new("sh").args(["-c", &script]).spawn().unwrap();
        let tree = Tree::of(i32::try_from(shell.id()).unwrap()).unwrap();
        let mut seen = Vec::new();
        for _ in 0..100 {
            seen.push(tree.used().unwrap().0);
            let children_waited_for = stat(tree.pid()).is_some_and(|stat| stat.cutime > 0);
            if children_waited_for {
                break;
            }
            std::thread::sleep(std::time::Duration::from_millis(50));
        }
        let (last, pids) = tree.used().unwrap();
        assert!(last.user_s > 0.0 && pids[0] == tree.pid(), "{seen:?} {last:?}");
        assert!(run_delay_s(tree.pid()).is_none_or(|delay_s| delay_s >= 0.0));
        for pid in pids.into_iter().skip(1) {
            let _ = Command::new("kill").arg(pid.to_string()).status();
        }
        shell.kill().unwrap();
        shell.wait().unwrap();
        assert!(tree.used().unwrap_err().to_string().contains("has ended"));
        assert!(Tree::of(i32::MAX).is_err());
    }
}
