//! Counters of processor and kernel for the server's processes: instructions, cycles, cache misses, page faults, ….
//!
//! A counter on a process is inherited by the children that it starts later, and reading it adds theirs, those that have
//! ended included (perf_event_open(2), `inherit`). So the postmaster is attached to before the clients connect, and each
//! of the processes that it has started by then. Does not say what the counts mean.

use std::fs::{self, File};
use std::io::{Error, Read};
use std::os::fd::{FromRawFd, RawFd};

use nix::libc;

use crate::gather::Gather;
use crate::host::process::ProcessTree;

/// Processes that are attached to one by one, as each needs an open file for each event.
const PROCESSES_MAX: usize = 500;
/// Attempts to attach to the server while it starts no process in between.
const ATTEMPTS: u32 = 5;
/// Share of the time above which an event counts as having been counted all the time.
const ALWAYS: f64 = 0.999;
const PARANOID: &str = "/proc/sys/kernel/perf_event_paranoid";

const HARDWARE: u32 = 0;
const SOFTWARE: u32 = 1;
const CACHE: u32 = 3;

/// An event of the kernel's interface (linux/perf_event.h).
struct Countable {
    /// Name of the metric, and in `counters.share`.
    metric: &'static str,
    kind: u32,
    config: u64,
    /// Whether it happens in the kernel only, so that a count of user mode alone is always zero.
    is_of_kernel: bool,
    scale: f64,
}

const fn event(metric: &'static str, kind: u32, config: u64) -> Countable {
    Countable { metric, kind, config, is_of_kernel: false, scale: 1.0 }
}

/// Hardware first. The misses of the data TLB are those of loads: cache 3, operation 0, result 1.
const EVENTS: [Countable; 9] = [
    event("counters.instructions", HARDWARE, 1),
    event("counters.cycles", HARDWARE, 0),
    event("counters.cache_references", HARDWARE, 2),
    event("counters.cache_misses", HARDWARE, 3),
    event("counters.dtlb_misses", CACHE, 3 | (1 << 16)),
    event("counters.page_faults", SOFTWARE, 2),
    Countable { is_of_kernel: true, ..event("counters.context_switches", SOFTWARE, 3) },
    Countable { is_of_kernel: true, ..event("counters.cpu_migrations", SOFTWARE, 4) },
    Countable { scale: 1e-9, ..event("counters.task_clock", SOFTWARE, 1) },
];

/// Counters on the processes of one server.
#[derive(Debug)]
pub struct ProcessCounters {
    postmaster_pid: i32,
    counted: Vec<Counted>,
    /// What cannot be counted, with the reason.
    missing: Vec<(String, String)>,
}

/// One event on all processes.
#[derive(Debug)]
struct Counted {
    metric: &'static str,
    scale: f64,
    on: Vec<Attached>,
    /// The count so far, made up for the time without a counter.
    sum: f64,
}

/// One event on one process and its later children.
#[derive(Debug)]
struct Attached {
    file: File,
    last: Count,
}

/// An answer of the kernel.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
struct Count {
    value: u64,
    /// Time that the event could have been counted, and that it was.
    enabled_ns: u64,
    running_ns: u64,
}

impl ProcessCounters {
    /// Attaches to a running server. What cannot be counted is missing from the readings, and reported by the observer.
    pub fn attach(postmaster_pid: i32) -> ProcessCounters {
        let mut counters = ProcessCounters { postmaster_pid, counted: Vec::new(), missing: Vec::new() };
        for _ in 0..ATTEMPTS {
            let before = processes(postmaster_pid);
            counters.open(&before);
            // A process that appeared meanwhile may or may not be counted.
            if processes(postmaster_pid).iter().all(|pid| before.contains(pid)) {
                break;
            }
        }
        counters
    }

    fn open(&mut self, pids: &[i32]) {
        (self.counted, self.missing) = (Vec::new(), Vec::new());
        let mut refused: Vec<(&Countable, Error)> = Vec::new();
        let mut is_user_only = false;
        for event in &EVENTS {
            let mut opened = open_all(event, pids, is_user_only);
            if !is_user_only && opened.as_ref().is_err_and(lacks_rights) {
                opened = open_all(event, pids, true);
                is_user_only = opened.is_ok();
            }
            match opened {
                _ if is_user_only && event.is_of_kernel => {}
                Ok(on) => {
                    self.counted.push(Counted { metric: event.metric, scale: event.scale, on, sum: 0.0 });
                }
                Err(error) => refused.push((event, error)),
            }
        }
        if is_user_only {
            let reason = format!(
                "{PARANOID} is {}: only user mode is counted, without context switches and migrations; the kernel too \
                 needs 1 or less, root, or CAP_PERFMON",
                paranoid()
            );
            self.missing.push(("counters.kernel".to_string(), reason));
        }
        if pids.len() > PROCESSES_MAX {
            let reason = format!(
                "the server has {} processes already: only the first {PROCESSES_MAX} and new ones are counted",
                pids.len()
            );
            self.missing.push(("counters.processes".to_string(), reason));
        }
        self.missing.extend(reasons(&refused));
    }

    /// The server that is counted.
    pub(crate) fn postmaster_pid(&self) -> i32 {
        self.postmaster_pid
    }

    /// What cannot be counted, with the reason.
    pub(crate) fn missing(&self) -> impl Iterator<Item = &(String, String)> {
        self.missing.iter()
    }

    /// Adds the counts so far.
    pub(crate) fn read(&mut self, gather: &mut Gather) {
        for counted in &mut self.counted {
            let (mut enabled_ns, mut running_ns) = (0, 0);
            for attached in &mut counted.on {
                // A process that cannot be read any more keeps what it had.
                let Some(now) = attached.read() else { continue };
                let increase = now.since(attached.last);
                // Of an event that waits for a counter nothing is known yet: its time counts with the next reading.
                if let Some(value) = increase.scaled() {
                    counted.sum += value * counted.scale;
                    attached.last = now;
                }
                enabled_ns += increase.enabled_ns;
                running_ns += increase.running_ns;
            }
            gather.put(counted.metric, "", counted.sum);
            let share = running_ns as f64 / enabled_ns.max(1) as f64;
            if enabled_ns > 0 && share < ALWAYS {
                gather.put("counters.share", short(counted.metric), share);
            }
        }
    }
}

impl Attached {
    fn read(&mut self) -> Option<Count> {
        let mut answer = [0; 24];
        let n = self.file.read(&mut answer).ok()?;
        (n == answer.len()).then(|| Count::from_bytes(&answer))
    }
}

impl Count {
    /// The layout of PERF_FORMAT_TOTAL_TIME_ENABLED and PERF_FORMAT_TOTAL_TIME_RUNNING.
    fn from_bytes(answer: &[u8; 24]) -> Count {
        let word = |n: usize| {
            u64::from_ne_bytes(answer[8 * n..8 * n + 8].try_into().expect("a word has eight bytes"))
        };
        Count { value: word(0), enabled_ns: word(1), running_ns: word(2) }
    }

    fn since(self, earlier: Count) -> Count {
        Count {
            value: self.value.saturating_sub(earlier.value),
            enabled_ns: self.enabled_ns.saturating_sub(earlier.enabled_ns),
            running_ns: self.running_ns.saturating_sub(earlier.running_ns),
        }
    }

    /// The count, extended to the time in which other events had the processor's counters (perf_event_open(2)); `None`
    /// if it never had one.
    fn scaled(self) -> Option<f64> {
        match (self.enabled_ns, self.running_ns) {
            (0, _) => Some(self.value as f64),
            (_, 0) => None,
            (enabled, running) => Some(self.value as f64 * (enabled as f64 / running as f64).max(1.0)),
        }
    }
}

/// Why this machine would not count a metric of this module for one of our servers, in the same words as when it is to be counted; `None`
/// if it does, and for other metrics.
pub(crate) fn lacking(metric: &str) -> Option<String> {
    let event = EVENTS.iter().find(|event| event.metric == metric)?;
    let this_process = 0;
    let opened = open(event, this_process, false);
    let refused = match opened {
        Err(error) if lacks_rights(&error) && !event.is_of_kernel => open(event, this_process, true).err(),
        opened => opened.err(),
    };
    refused.map(|error| reason(&error, &paranoid()))
}

/// The processes of a server, itself first.
fn processes(postmaster_pid: i32) -> Vec<i32> {
    let below = ProcessTree::new(postmaster_pid)
        .and_then(|mut tree| tree.used())
        .map(|(_, all)| all)
        .unwrap_or_default();
    below.iter().map(|process| process.pid).collect()
}

/// Opens an event on each of the processes. One that ends meanwhile is left out.
fn open_all(event: &Countable, pids: &[i32], is_user_only: bool) -> Result<Vec<Attached>, Error> {
    let mut all = Vec::new();
    for &pid in pids.iter().take(PROCESSES_MAX) {
        match open(event, pid, is_user_only) {
            Ok(file) => all.push(Attached { file, last: Count::default() }),
            Err(error) if error.raw_os_error() == Some(libc::ESRCH) && !all.is_empty() => {}
            Err(error) => return Err(error),
        }
    }
    Ok(all)
}

/// `struct perf_event_attr` in its first published size (PERF_ATTR_SIZE_VER0), which every kernel takes.
#[repr(C)]
#[derive(Default)]
struct Attributes {
    kind: u32,
    size: u32,
    config: u64,
    sample_period: u64,
    sample_type: u64,
    read_format: u64,
    flags: u64,
    wakeup_events: u32,
    breakpoint_type: u32,
    breakpoint_address: u64,
}

const INHERIT: u64 = 1 << 1;
const EXCLUDE_KERNEL: u64 = 1 << 5;
const EXCLUDE_HYPERVISOR: u64 = 1 << 6;
const BOTH_TIMES: u64 = 3;
const CLOSE_ON_EXEC: u64 = 1 << 3;

/// Starts to count an event of a process, on whichever processor it runs.
fn open(event: &Countable, pid: i32, is_user_only: bool) -> Result<File, Error> {
    let mode = if is_user_only { EXCLUDE_KERNEL | EXCLUDE_HYPERVISOR } else { 0 };
    let attributes = Attributes {
        kind: event.kind,
        size: size_of::<Attributes>() as u32,
        config: event.config,
        read_format: BOTH_TIMES,
        flags: INHERIT | mode,
        ..Attributes::default()
    };
    let (any_cpu, no_group): (libc::c_int, libc::c_int) = (-1, -1);
    // SAFETY: the kernel reads `size` bytes of a structure that outlives the call, and keeps no reference to it.
    let fd = unsafe {
        libc::syscall(libc::SYS_perf_event_open, &raw const attributes, pid, any_cpu, no_group, CLOSE_ON_EXEC)
    };
    let fd = RawFd::try_from(fd).ok().filter(|fd| *fd >= 0).ok_or_else(Error::last_os_error)?;
    // SAFETY: the call has just returned this descriptor, and nobody else owns it.
    Ok(unsafe { File::from_raw_fd(fd) })
}

/// Whether the kernel refuses for lack of rights.
fn lacks_rights(error: &Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EACCES | libc::EPERM))
}

/// The kernel's limit for users without rights, as text.
pub(crate) fn paranoid() -> String {
    fs::read_to_string(PARANOID).map_or("unknown".to_string(), |text| text.trim().to_string())
}

/// What is refused and why: each reason once, with all events that it concerns.
fn reasons(refused: &[(&Countable, Error)]) -> Vec<(String, String)> {
    let mut all: Vec<(String, Vec<&str>)> = Vec::new();
    for (event, error) in refused {
        let reason = reason(error, &paranoid());
        match all.iter_mut().find(|(known, _)| *known == reason) {
            Some((_, events)) => events.push(event.metric),
            None => all.push((reason, vec![event.metric])),
        }
    }
    all.into_iter().map(|(reason, events)| (events.join(", "), reason)).collect()
}

fn reason(error: &Error, paranoid: &str) -> String {
    match error.raw_os_error() {
        Some(libc::ENOENT | libc::EOPNOTSUPP | libc::ENODEV | libc::ENXIO) => {
            "the processors of this machine have no counter for it; a virtual machine has them only if its host \
             passes on a PMU"
                .to_string()
        }
        Some(libc::EACCES | libc::EPERM) => format!(
            "the kernel does not allow it: {PARANOID} is {paranoid}; it needs 2 or less for processes of your own \
             user, and root or CAP_PERFMON for others (a container's seccomp profile may forbid the call, too)"
        ),
        Some(libc::ENOSYS) => "the kernel has no performance events (CONFIG_PERF_EVENTS)".to_string(),
        Some(libc::EMFILE | libc::ENFILE) => {
            format!("{error}: each process of the server needs an open file for each event (ulimit -n)")
        }
        _ => format!("perf_event_open: {error}"),
    }
}

fn short(metric: &str) -> &str {
    metric.strip_prefix("counters.").unwrap_or(metric)
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use super::*;
    use crate::gather::Backwards;

    #[test]
    fn an_answer_of_the_kernel_is_scaled_to_the_time_without_a_counter() {
        // Recorded: task-clock of a shell's loop of 13 ms.
        let mut answer = [0; 24];
        for (n, word) in [13_206_121_u64, 13_206_121, 13_206_121].into_iter().enumerate() {
            answer[8 * n..8 * n + 8].copy_from_slice(&word.to_ne_bytes());
        }
        let count = Count::from_bytes(&answer);
        assert_eq!(count, Count { value: 13_206_121, enabled_ns: 13_206_121, running_ns: 13_206_121 });
        for (value, enabled_ns, running_ns, expected) in [
            (1000, 10, 10, Some(1000.0)),
            (1000, 40, 10, Some(4000.0)),
            (0, 40, 0, None),
            (7, 0, 0, Some(7.0)),
            // Rounding of the kernel may let an event run longer than it could.
            (1000, 10, 11, Some(1000.0)),
        ] {
            assert_eq!(Count { value, enabled_ns, running_ns }.scaled(), expected);
        }
    }

    #[test]
    fn each_reason_is_named_once_with_all_that_it_concerns() {
        let error = Error::from_raw_os_error;
        let refused = [
            (&EVENTS[0], error(libc::ENOENT)),
            (&EVENTS[1], error(libc::EOPNOTSUPP)),
            (&EVENTS[5], error(libc::EACCES)),
        ];
        let named = reasons(&refused);
        assert_eq!(named.len(), 2, "{named:?}");
        assert_eq!(named[0].0, "counters.instructions, counters.cycles");
        assert!(named[0].1.contains("PMU"), "{named:?}");
        assert!(named[1].1.contains("perf_event_paranoid is "), "{named:?}");
        assert!(reason(&error(libc::EACCES), "4").contains("is 4; it needs 2 or less"));
    }

    #[test]
    fn what_would_be_missing_is_known_before_there_is_a_server() {
        let attached = ProcessCounters::attach(i32::try_from(std::process::id()).unwrap());
        for event in &EVENTS {
            let missing =
                attached.missing().find(|(names, _)| names.split(", ").any(|name| name == event.metric));
            let is_user_only = attached.missing().any(|(names, _)| names == "counters.kernel");
            if !(is_user_only && event.is_of_kernel) {
                assert_eq!(lacking(event.metric), missing.map(|(_, why)| why.clone()), "{}", event.metric);
            }
        }
        assert_eq!(lacking("host.cpu_busy"), None);
    }

    #[test]
    #[allow(clippy::print_stderr, reason = "a test that is skipped says why")]
    fn children_are_counted_whether_they_came_before_or_after() {
        // A child from before burns and ends; so does one from after. Both wait for the word.
        let script = "(read go; i=0; while [ $i -lt 100000 ]; do i=$((i+1)); done) <&0 & read again; \
                      (i=0; while [ $i -lt 100000 ]; do i=$((i+1)); done); wait; echo done; read end";
        let mut shell = Command::new("sh")
            .args(["-c", script])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let pid = i32::try_from(shell.id()).unwrap();
        while processes(pid).len() < 2 {
            std::thread::yield_now();
        }
        let mut counters = ProcessCounters::attach(pid);
        let mut gather = Gather::new(Backwards::Jitter);
        counters.read(&mut gather);
        gather.take();
        use std::io::Write;
        shell.stdin.as_mut().unwrap().write_all(b"go\nagain\n").unwrap();
        let mut said = [0; 5];
        shell.stdout.as_mut().unwrap().read_exact(&mut said).unwrap();
        counters.read(&mut gather);
        let (values, _) = gather.take();
        let names: Vec<&str> = counters.missing().map(|(what, _)| what.as_str()).collect();
        drop(shell.stdin.take());
        shell.wait().unwrap();
        if names.iter().any(|names| names.contains("counters.task_clock")) {
            eprintln!("skipped: the kernel refuses: {:?}", counters.missing);
            return;
        }
        let spent_s = values["counters.task_clock"];
        let alone = &counters.counted.iter().find(|one| one.metric == "counters.task_clock").unwrap().on;
        assert_eq!(alone.len(), 2, "shell and the child from before");
        let each: Vec<u64> = alone.iter().map(|attached| attached.last.value).collect();
        assert!(each.iter().all(|ns| *ns > 5_000_000), "both loops are counted: {each:?}");
        assert!((0.01..60.0).contains(&spent_s), "{spent_s}");
        assert!(values["counters.page_faults"] > 0.0, "{values:?}");
    }
}
