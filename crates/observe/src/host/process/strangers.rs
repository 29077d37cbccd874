//! Which processes of the machine use the processors besides the server, pgdyno and its driver. How much they use together is what
//! remains of the machine's time; here only names are found, as far as /proc shows them.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::time::{Duration, Instant};

use procfs::process::Stat;

use super::{pids_in, stat, thread_cpu_time};

/// Most processes that are looked at. A machine with more has other problems.
const LOOKED_AT_MAX: usize = 10_000;
/// Names of a tick.
const NAMED_MAX: usize = 5;
/// Least use that is worth a name, in processors. The kernel counts in steps of 10 ms.
const WORTH_NAMING: f64 = 0.01;
/// A look that took much processor time is followed by a pause of so many times that, so that looks take 2 % of a processor at most, but of
/// no more than a stretch in which something may disturb.
const PAUSE_PER_LOOK: u32 = 50;
const PAUSE_MAX: Duration = Duration::from_secs(5);
/// So many ancestors of a process are looked for: a compiler has a few below its `make`.
const ANCESTORS_MAX: usize = 32;
/// The kernel's threads are children of this process.
const KTHREADD: i32 = 2;

/// What was seen of a process in the look before.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Seen {
    starttime: u64,
    parent: i32,
    /// Ticks that it used itself, and those of children that it has waited for.
    own: u64,
    waited_for: u64,
}

/// The processes of others, from one look to the next.
#[derive(Debug, Default)]
pub(crate) struct Strangers {
    before: HashMap<i32, Seen>,
    /// When the newest of all processes of the look before was started, ours too.
    newest: Option<u64>,
    last: Option<Instant>,
    not_before: Option<Instant>,
}

impl Strangers {
    /// Seconds of CPU time since the look before, by name, of the processes that used most. Empty at first, and while it would cost too
    /// much to look.
    pub(crate) fn read(&mut self, ours: &HashSet<i32>) -> Vec<(String, f64)> {
        let (begun, used_before) = (Instant::now(), thread_cpu_time());
        if self.not_before.is_some_and(|moment| begun < moment) {
            return Vec::new();
        }
        let pids: Vec<i32> = pids_in("/proc").take(LOOKED_AT_MAX).collect();
        let is_whole = pids.len() < LOOKED_AT_MAX;
        let used = self.used(pids.into_iter().filter_map(stat), ours);
        if !is_whole {
            // Of those that were left out nobody knows which are new.
            self.newest = Some(u64::MAX);
        }
        let since = self.last.replace(begun).map(|last| begun - last);
        let cost = thread_cpu_time().saturating_sub(used_before);
        self.not_before = Some(begun + (cost * PAUSE_PER_LOOK).min(PAUSE_MAX));
        since.map_or_else(Vec::new, |since| most(used, since))
    }

    /// Ticks by name since the look before.
    fn used(&mut self, stats: impl Iterator<Item = Stat>, ours: &HashSet<i32>) -> BTreeMap<String, u64> {
        let mut names = HashMap::new();
        let mut now = HashMap::new();
        let mut newest = 0;
        for stat in stats {
            newest = newest.max(stat.starttime);
            if is_ours(&stat, ours) {
                continue;
            }
            let seen = Seen {
                starttime: stat.starttime,
                parent: stat.ppid,
                own: stat.utime + stat.stime,
                waited_for: u64::try_from(stat.cutime + stat.cstime).unwrap_or_default(),
            };
            names.insert(stat.pid, name_of(&stat));
            now.insert(stat.pid, seen);
        }
        let before = std::mem::replace(&mut self.before, now);
        let newest_before = self.newest.replace(newest);

        // The time of a child that has ended moves to its parent, and was counted while the child was seen. Where the parent has ended
        // too, as a shell between `make` and a compiler, it moves on.
        let ended = |pid: i32| {
            let seen = before.get(&pid)?;
            let is_there = self.before.get(&pid).is_some_and(|now| now.starttime == seen.starttime);
            (!is_there).then_some(*seen)
        };
        let mut moved: HashMap<i32, u64> = HashMap::new();
        for seen in before.keys().filter_map(|pid| ended(*pid)) {
            let mut heir = seen.parent;
            for _ in 0..ANCESTORS_MAX {
                let Some(above) = ended(heir) else { break };
                heir = above.parent;
            }
            *moved.entry(heir).or_default() += seen.own + seen.waited_for;
        }
        let mut by_name: BTreeMap<String, u64> = BTreeMap::new();
        for (pid, now) in &self.before {
            let old = before.get(pid).filter(|old| old.starttime == now.starttime);
            // One that is older than the newest before was there already: as one of a server of which nothing is known any more.
            let is_new = newest_before.is_some_and(|newest| now.starttime > newest);
            let known = old.map(|old| (old.own, old.waited_for)).or(is_new.then_some((0, 0)));
            let (Some((own, waited_for)), Some(name)) = (known, names.remove(pid)) else { continue };
            let of_children = now.waited_for.saturating_sub(waited_for);
            let of_children = of_children.saturating_sub(moved.get(pid).copied().unwrap_or_default());
            *by_name.entry(name).or_default() += now.own.saturating_sub(own) + of_children;
        }
        by_name
    }
}

/// A child of one of our processes that has just started is ours, too.
fn is_ours(stat: &Stat, ours: &HashSet<i32>) -> bool {
    ours.contains(&stat.pid) || ours.contains(&stat.ppid)
}

/// The name as the kernel has it, of at most 15 bytes, which whoever started the process chose: without control characters. Of a thread of
/// the kernel without its number.
fn name_of(stat: &Stat) -> String {
    let name: String = stat.comm.chars().map(|c| if c.is_control() { '?' } else { c }).collect();
    if stat.ppid == KTHREADD {
        let word = name.split(['/', ':']).next().unwrap_or_default();
        return format!("{word} (kernel)");
    }
    name
}

/// The names with the most time, in seconds, the most first.
fn most(used: BTreeMap<String, u64>, since: Duration) -> Vec<(String, f64)> {
    let ticks_per_s = procfs::ticks_per_second() as f64;
    let mut used: Vec<(String, f64)> =
        used.into_iter().map(|(name, ticks)| (name, ticks as f64 / ticks_per_s)).collect();
    used.retain(|(_, s)| *s >= WORTH_NAMING * since.as_secs_f64() && *s > 0.0);
    used.sort_by(|a, b| b.1.total_cmp(&a.1));
    used.truncate(NAMED_MAX);
    used
}

#[cfg(test)]
mod tests {
    use procfs::FromRead;

    use super::*;

    /// A process with its own ticks and those of children that it waited for.
    fn process(pid: i32, name: &str, ppid: i32, [own, waited_for]: [u64; 2]) -> Stat {
        let line = format!(
            "{pid} ({name}) S {ppid} 1 1 0 -1 4194560 100 200 1 2 {own} 0 {waited_for} 0 20 0 1 0 {} 230000000 5000 \
             18446744073709551615 1 1 0 0 0 0 0 0 0 0 0 0 17 1 0 0 0 0 0 0 0 0 0 0 0 0 0\n",
            1000 + pid
        );
        Stat::from_read(line.as_bytes()).unwrap()
    }

    fn look(strangers: &mut Strangers, stats: Vec<Stat>) -> Vec<(String, u64)> {
        let used = strangers.used(stats.into_iter(), &HashSet::from([7]));
        used.into_iter().filter(|(_, ticks)| *ticks > 0).collect()
    }

    #[test]
    fn time_counts_once_whether_a_child_is_seen_or_has_ended_between_two_looks() {
        let mut strangers = Strangers::default();
        let words = |pairs: &[(&str, u64)]| -> Vec<(String, u64)> {
            pairs.iter().map(|(name, ticks)| (name.to_string(), *ticks)).collect()
        };
        let first = vec![process(10, "make", 1, [50, 500]), process(11, "cc1", 10, [30, 0])];
        assert_eq!(look(&mut strangers, first), [], "what was used before is not known to be of this time");
        // One compiler goes on, and one has come.
        let second = vec![
            process(10, "make", 1, [51, 500]),
            process(11, "cc1", 10, [70, 0]),
            process(12, "cc1", 10, [20, 0]),
        ];
        assert_eq!(look(&mut strangers, second), words(&[("cc1", 60), ("make", 1)]));
        // Both have ended, the second after 5 more, and a third that was never seen: 70 + 25 + 40.
        let third = vec![process(10, "make", 1, [51, 635])];
        assert_eq!(look(&mut strangers, third), words(&[("make", 45)]));
    }

    #[test]
    fn time_counts_once_when_those_in_between_end_too() {
        let mut strangers = Strangers::default();
        look(&mut strangers, vec![process(10, "make", 1, [50, 500])]);
        let second = vec![
            process(10, "make", 1, [50, 500]),
            process(11, "sh", 10, [1, 0]),
            process(12, "gcc", 11, [2, 0]),
            process(13, "cc1", 12, [80, 0]),
        ];
        let seen = [("cc1", 80_u64), ("gcc", 2), ("sh", 1)].map(|(name, ticks)| (name.to_string(), ticks));
        assert_eq!(look(&mut strangers, second), seen);
        // The compiler used 10 more.
        let third = vec![process(10, "make", 1, [50, 593])];
        assert_eq!(look(&mut strangers, third), [("make".to_string(), 10_u64)]);
    }

    #[test]
    fn what_was_ours_or_was_not_seen_before_does_not_count_from_its_start() {
        let mut strangers = Strangers::default();
        look(&mut strangers, vec![process(7, "postgres", 1, [900, 0]), process(20, "postgres", 7, [900, 0])]);
        // Its tree is lost: it is a child of another process now.
        let second = vec![process(20, "postgres", 1, [910, 0]), process(21, "new", 1, [3, 0])];
        assert_eq!(look(&mut strangers, second), [("new".to_string(), 3_u64)]);
        let third = vec![process(20, "postgres", 1, [915, 0]), process(21, "new", 1, [3, 0])];
        assert_eq!(look(&mut strangers, third), [("postgres".to_string(), 5_u64)]);
    }

    #[test]
    fn names_are_of_others_and_harmless() {
        let ours = HashSet::from([7]);
        assert!(is_ours(&process(7, "postgres", 1, [1, 0]), &ours));
        assert!(is_ours(&process(8, "postgres", 7, [1, 0]), &ours));
        assert!(!is_ours(&process(9, "postgres", 1, [1, 0]), &ours));
        assert_eq!(name_of(&process(9, "a b\u{1b}[31m", 1, [0, 0])), "a b?[31m");
        assert_eq!(name_of(&process(9, "kworker/u8:2", 2, [0, 0])), "kworker (kernel)");
    }

    #[test]
    fn the_most_are_named_and_the_others_left_out() {
        let per_s = procfs::ticks_per_second();
        let used = (0..9).map(|n| (format!("p{n}"), n * per_s)).chain([("tiny".to_string(), 0)]);
        let named = most(used.collect(), Duration::from_secs(10));
        let names: Vec<&str> = named.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, ["p8", "p7", "p6", "p5", "p4"]);
        assert_eq!(named[0].1, 8.0);
    }
}
