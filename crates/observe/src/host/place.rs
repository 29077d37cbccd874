//! Where the kernel has a process that waits for nothing that PostgreSQL knows of: on or behind a processor, or asleep,
//! in what and for which file.
//!
//! The system call and the file of its descriptor say most; who cannot read them sees the kernel's function (`wchan`); who may
//! not read that either, the state. The answer is of a moment after the server's own one.

use std::fs;

use model::telemetry::wait;
use nix::libc;

/// Where a process is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Place {
    /// It runs or could run.
    Running,
    DataRead,
    /// Also extending and flushing.
    DataWrite,
    /// Writing and flushing WAL.
    WalFlush,
    /// Creating a segment of WAL.
    WalInit,
    TemporaryFile,
    /// The status of transactions.
    Slru,
    /// A page of its memory, or of a mapped file, is not there.
    PageFault,
    /// The journal of a file system, for an unknown file.
    Journal,
    /// Other I/O, or I/O of which no more is known.
    Io,
    Socket,
    /// A semaphore or a futex: a lock of PostgreSQL.
    Semaphore,
    Pipe,
    Timer,
    Other,
}

impl Place {
    /// The name in keys of readings.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Place::Running => "running",
            Place::DataRead => "data-read",
            Place::DataWrite => "data-write",
            Place::WalFlush => "wal-flush",
            Place::WalInit => "wal-init",
            Place::TemporaryFile => "temporary-file",
            Place::Slru => "slru",
            Place::PageFault => "page-fault",
            Place::Journal => "journal",
            Place::Io => "io",
            Place::Socket => "socket",
            Place::Semaphore => "semaphore",
            Place::Pipe => "pipe",
            Place::Timer => "timer",
            Place::Other => "other",
        }
    }

    /// The wait that stands for it. Whoever sleeps for neither I/O nor a time has gone on since the server answered. So has, on a
    /// server that has wait events for I/O (from 10 on), whoever is in I/O of a kind that has one.
    pub(crate) fn wait(self, has_io_events: bool) -> Option<&'static str> {
        match self {
            Place::PageFault => Some("Kernel:PageFault"),
            Place::Io => Some("Kernel:Io"),
            // Pauses that have an event are not the kernel's timers.
            Place::Timer => Some(wait::KERNEL_SLEEP),
            _ if has_io_events => None,
            Place::DataRead => Some("Kernel:DataRead"),
            Place::DataWrite => Some("Kernel:DataWrite"),
            Place::WalFlush => Some("Kernel:WalFlush"),
            Place::WalInit => Some("Kernel:WalInit"),
            Place::TemporaryFile => Some("Kernel:TemporaryFile"),
            Place::Slru => Some("Kernel:Slru"),
            // Sessions of 9.6 sync little else than WAL.
            Place::Journal => Some("Kernel:WalFlush"),
            Place::Running | Place::Socket | Place::Semaphore | Place::Pipe | Place::Other => None,
        }
    }

    /// Where a child of the process `parent` is. `None` if it has ended, or is no child: then its id is of another namespace.
    pub(crate) fn of(pid: i32, parent: i32) -> Option<Place> {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        let (state, its_parent) = state(&stat)?;
        if its_parent != parent {
            return None;
        }
        if state == 'R' {
            return Some(Place::Running);
        }
        let read = |name: &str| fs::read_to_string(format!("/proc/{pid}/{name}")).unwrap_or_default();
        let file = |fd: u64| fs::read_link(format!("/proc/{pid}/fd/{fd}")).ok()?.to_str().map(str::to_string);
        Some(asleep(state, &read("syscall"), file, || read("wchan")))
    }
}

/// State and parent of a process, from its `stat`.
fn state(stat: &str) -> Option<(char, i32)> {
    let mut words = stat.get(stat.rfind(')')? + 1..)?.split_ascii_whitespace();
    Some((words.next()?.chars().next()?, words.next()?.parse().ok()?))
}

/// The place of a process that does not run.
fn asleep(
    state: char,
    syscall: &str,
    file: impl Fn(u64) -> Option<String>,
    wchan: impl Fn() -> String,
) -> Place {
    let mut words = syscall.split_ascii_whitespace();
    let number = words.next().and_then(|word| word.parse::<i64>().ok());
    let first = words.next().and_then(|word| u64::from_str_radix(word.strip_prefix("0x")?, 16).ok());
    match number {
        Some(-1) if state == 'D' => Place::PageFault,
        // A select of no descriptor is a pause.
        Some(number) if is_select(number) && first == Some(0) => Place::Timer,
        Some(number) => match call(number) {
            Some(call) => first.and_then(file).map_or(Place::Io, |path| of_file(call, &path)),
            None => of_function(state, &wchan()),
        },
        None if syscall.starts_with("running") => Place::Running,
        None => of_function(state, &wchan()),
    }
}

#[cfg(target_arch = "x86_64")]
fn is_select(number: i64) -> bool {
    matches!(number, libc::SYS_select | libc::SYS_pselect6)
}

#[cfg(not(target_arch = "x86_64"))]
fn is_select(number: i64) -> bool {
    number == libc::SYS_pselect6
}

/// What a system call does with the file of its first argument.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Call {
    Read,
    Write,
    Sync,
}

fn call(number: i64) -> Option<Call> {
    Some(match number {
        libc::SYS_read | libc::SYS_pread64 | libc::SYS_readv | libc::SYS_preadv | libc::SYS_preadv2 => {
            Call::Read
        }
        libc::SYS_write
        | libc::SYS_pwrite64
        | libc::SYS_writev
        | libc::SYS_pwritev
        | libc::SYS_pwritev2
        | libc::SYS_ftruncate
        | libc::SYS_fallocate => Call::Write,
        libc::SYS_fsync | libc::SYS_fdatasync | libc::SYS_sync_file_range => Call::Sync,
        _ => return None,
    })
}

/// By the names that PostgreSQL gives its files. WAL may be in a directory of any name.
fn of_file(call: Call, path: &str) -> Place {
    let (dir, name) = path.rsplit_once('/').unwrap_or(("", path));
    let is_in = |part: &str| dir.split('/').any(|one| one == part);
    let is_segment = name.len() == 24 && name.bytes().all(|byte| byte.is_ascii_hexdigit());
    let is_slru =
        ["pg_clog", "pg_xact", "pg_subtrans", "pg_multixact", "pg_commit_ts"].into_iter().any(is_in);
    match call {
        _ if path.starts_with("socket:") => Place::Socket,
        _ if path.starts_with("pipe:") => Place::Pipe,
        _ if name.starts_with("xlogtemp.") => Place::WalInit,
        Call::Read if is_segment => Place::Io,
        _ if is_segment => Place::WalFlush,
        _ if is_in("pgsql_tmp") => Place::TemporaryFile,
        _ if is_slru => Place::Slru,
        _ if !name.starts_with(|first: char| first.is_ascii_digit()) => Place::Io,
        Call::Read => Place::DataRead,
        Call::Write | Call::Sync => Place::DataWrite,
    }
}

/// By the kernel's function, whose names vary with its version.
fn of_function(state: char, function: &str) -> Place {
    let has = |parts: &[&str]| parts.iter().any(|part| function.contains(part));
    match () {
        () if has(&["jbd2", "journal", "log_wait_commit", "xfs_log", "xlog_", "ext4_sync"]) => Place::Journal,
        () if has(&["filemap_fault", "swap", "handle_mm_fault"]) => Place::PageFault,
        () if has(&["futex", "sem_timedop", "semtimedop", "do_semop"]) => Place::Semaphore,
        () if has(&["pipe"]) => Place::Pipe,
        () if has(&["poll", "sock", "unix_stream", "sk_", "tcp_", "inet_"]) => Place::Socket,
        () if has(&["nanosleep", "hrtimer"]) => Place::Timer,
        () if state == 'D' || has(&["io_schedule", "folio_wait", "wait_on_page", "blk_", "bio_"]) => {
            Place::Io
        }
        () => Place::Other,
    }
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};
    use std::time::Duration;

    use super::*;

    #[test]
    fn the_call_and_the_file_say_what_a_process_sleeps_in() {
        let check = |state, number: i64, path: Option<&str>, wchan: &str, expected| {
            let syscall = match number {
                -1 => "-1 0x7ffd6aa3a998 0x7f3b3e2ba503".to_string(),
                number => {
                    format!("{number} 0x5 0x7ffd6aa3a9b0 0x2000 0x0 0x0 0x0 0x7ffd6aa3a998 0x7f3b3e2ba503")
                }
            };
            let file = |fd| path.filter(|_| fd == 5).map(str::to_string);
            let found = asleep(state, &syscall, file, || wchan.to_string());
            assert_eq!(found, expected, "{number} {path:?} {wchan}");
        };
        use libc::{SYS_epoll_pwait, SYS_fdatasync, SYS_fsync, SYS_pread64, SYS_read, SYS_semop, SYS_write};
        let segment = Some("/mnt/wal/0000000100000000000000A3");
        check('D', SYS_read, Some("/d/base/12407/16391.1"), "folio_wait_bit_common", Place::DataRead);
        check('D', SYS_pread64, Some("/d/pg_tblspc/9/PG_9.6_201608131/1/16391_vm"), "", Place::DataRead);
        check('D', SYS_write, Some("/d/base/12407/16391"), "rq_qos_wait", Place::DataWrite);
        check('D', SYS_fsync, Some("/d/base/12407/16391"), "jbd2_log_wait_commit", Place::DataWrite);
        check('D', SYS_fdatasync, segment, "folio_wait_bit_common", Place::WalFlush);
        check('D', SYS_write, segment, "blkdev_issue_flush", Place::WalFlush);
        check('D', SYS_read, segment, "", Place::Io);
        check('D', SYS_write, Some("/d/pg_xlog/xlogtemp.4711"), "", Place::WalInit);
        check('D', SYS_read, Some("/d/base/pgsql_tmp/pgsql_tmp4711.0"), "", Place::TemporaryFile);
        check('D', SYS_read, Some("/d/pg_clog/0003"), "", Place::Slru);
        check('D', SYS_read, Some("/d/global/pg_filenode.map"), "", Place::Io);
        check('D', SYS_read, None, "", Place::Io);
        check('S', SYS_read, Some("pipe:[77]"), "pipe_read", Place::Pipe);
        check('S', SYS_epoll_pwait, None, "do_epoll_wait", Place::Socket);
        check('S', SYS_semop, None, "__do_semtimedop", Place::Semaphore);
        let pause = format!("{} 0x0 0x0 0x0", libc::SYS_pselect6);
        assert_eq!(asleep('S', &pause, |_| None, || "do_select".to_string()), Place::Timer);
        check('D', -1, None, "folio_wait_bit_common", Place::PageFault);
    }

    #[test]
    fn without_the_call_the_function_says_it_and_without_that_the_state() {
        let check = |state, wchan: &str, expected| {
            assert_eq!(asleep(state, "", |_| None, || wchan.to_string()), expected, "{state} {wchan}");
        };
        check('D', "jbd2_log_wait_commit", Place::Journal);
        check('D', "folio_wait_bit_common", Place::Io);
        check('D', "filemap_fault", Place::PageFault);
        check('S', "futex_wait_queue", Place::Semaphore);
        check('S', "do_epoll_wait", Place::Socket);
        check('S', "hrtimer_nanosleep", Place::Timer);
        check('D', "0", Place::Io);
        check('S', "0", Place::Other);
        assert_eq!(asleep('S', "running\n", |_| None, String::new), Place::Running);
    }

    #[test]
    fn io_is_charged_where_the_server_has_no_event_for_it() {
        assert_eq!(Place::WalFlush.wait(false), Some("Kernel:WalFlush"));
        assert_eq!(Place::WalFlush.wait(true), None);
        assert_eq!(Place::PageFault.wait(true), Some("Kernel:PageFault"));
        assert_eq!(Place::Socket.wait(false), None);
    }

    #[test]
    fn a_real_child_sleeps_in_its_pipe_and_a_stranger_is_left_out() {
        let mut child = Command::new("cat").stdin(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
        let pid = i32::try_from(child.id()).unwrap();
        let us = i32::try_from(std::process::id()).unwrap();
        let mut found = None;
        for _ in 0..200 {
            found = Place::of(pid, us);
            if found == Some(Place::Pipe) {
                break;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        assert_eq!(Place::of(pid, us + 1), None);
        child.kill().unwrap();
        child.wait().unwrap();
        assert_eq!(found, Some(Place::Pipe));
        assert_eq!(Place::of(pid, us), None);
    }
}
