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
pub(crate) enum ProcessPlace {
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
    /// Writing to a pipe: to the server's log, whose reader has not taken what is in it.
    LogWrite,
    Timer,
    Other,
}

impl ProcessPlace {
    /// The name in keys of readings.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            ProcessPlace::Running => "running",
            ProcessPlace::DataRead => "data-read",
            ProcessPlace::DataWrite => "data-write",
            ProcessPlace::WalFlush => "wal-flush",
            ProcessPlace::WalInit => "wal-init",
            ProcessPlace::TemporaryFile => "temporary-file",
            ProcessPlace::Slru => "slru",
            ProcessPlace::PageFault => "page-fault",
            ProcessPlace::Journal => "journal",
            ProcessPlace::Io => "io",
            ProcessPlace::Socket => "socket",
            ProcessPlace::Semaphore => "semaphore",
            ProcessPlace::Pipe => "pipe",
            ProcessPlace::LogWrite => "log-write",
            ProcessPlace::Timer => "timer",
            ProcessPlace::Other => "other",
        }
    }

    /// The wait that stands for it. Whoever sleeps for neither I/O nor a time has gone on since the server answered. So has, on a
    /// server that has wait events for I/O (from 10 on), whoever is in I/O of a kind that has one.
    pub(crate) fn wait(self, has_io_events: bool) -> Option<&'static str> {
        match self {
            ProcessPlace::PageFault => Some("Kernel:PageFault"),
            ProcessPlace::Io => Some("Kernel:Io"),
            // No version has an event for it.
            ProcessPlace::LogWrite => Some(wait::KERNEL_LOG_WRITE),
            // Pauses that have an event are not the kernel's timers.
            ProcessPlace::Timer => Some(wait::KERNEL_SLEEP),
            _ if has_io_events => None,
            ProcessPlace::DataRead => Some("Kernel:DataRead"),
            ProcessPlace::DataWrite => Some("Kernel:DataWrite"),
            ProcessPlace::WalFlush => Some("Kernel:WalFlush"),
            ProcessPlace::WalInit => Some("Kernel:WalInit"),
            ProcessPlace::TemporaryFile => Some("Kernel:TemporaryFile"),
            ProcessPlace::Slru => Some("Kernel:Slru"),
            // Sessions of 9.6 sync little else than WAL.
            ProcessPlace::Journal => Some("Kernel:WalFlush"),
            ProcessPlace::Running
            | ProcessPlace::Socket
            | ProcessPlace::Semaphore
            | ProcessPlace::Pipe
            | ProcessPlace::Other => None,
        }
    }

    /// Where a child of the process `parent` is. `None` if it has ended, or is no child: then its id is of another namespace.
    pub(crate) fn find(pid: i32, parent: i32) -> Option<ProcessPlace> {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        let (state, its_parent) = state(&stat)?;
        if its_parent != parent {
            return None;
        }
        if state == 'R' {
            return Some(ProcessPlace::Running);
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
) -> ProcessPlace {
    let mut words = syscall.split_ascii_whitespace();
    let number = words.next().and_then(|word| word.parse::<i64>().ok());
    let first = words.next().and_then(|word| u64::from_str_radix(word.strip_prefix("0x")?, 16).ok());
    match number {
        Some(-1) if state == 'D' => ProcessPlace::PageFault,
        // A select of no descriptor is a pause.
        Some(number) if is_select(number) && first == Some(0) => ProcessPlace::Timer,
        Some(number) => match call(number) {
            Some(call) => first.and_then(file).map_or(ProcessPlace::Io, |path| of_file(call, &path)),
            None => of_function(state, &wchan()),
        },
        None if syscall.starts_with("running") => ProcessPlace::Running,
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
fn of_file(call: Call, path: &str) -> ProcessPlace {
    let (dir, name) = path.rsplit_once('/').unwrap_or(("", path));
    let is_in = |part: &str| dir.split('/').any(|one| one == part);
    let is_segment = name.len() == 24 && name.bytes().all(|byte| byte.is_ascii_hexdigit());
    let is_slru =
        ["pg_clog", "pg_xact", "pg_subtrans", "pg_multixact", "pg_commit_ts"].into_iter().any(is_in);
    match call {
        _ if path.starts_with("socket:") => ProcessPlace::Socket,
        Call::Write if path.starts_with("pipe:") => ProcessPlace::LogWrite,
        _ if path.starts_with("pipe:") => ProcessPlace::Pipe,
        _ if name.starts_with("xlogtemp.") => ProcessPlace::WalInit,
        Call::Read if is_segment => ProcessPlace::Io,
        _ if is_segment => ProcessPlace::WalFlush,
        _ if is_in("pgsql_tmp") => ProcessPlace::TemporaryFile,
        _ if is_slru => ProcessPlace::Slru,
        _ if !name.starts_with(|first: char| first.is_ascii_digit()) => ProcessPlace::Io,
        Call::Read => ProcessPlace::DataRead,
        Call::Write | Call::Sync => ProcessPlace::DataWrite,
    }
}

/// By the kernel's function, whose names vary with its version.
fn of_function(state: char, function: &str) -> ProcessPlace {
    let has = |parts: &[&str]| parts.iter().any(|part| function.contains(part));
    match () {
        () if has(&["jbd2", "journal", "log_wait_commit", "xfs_log", "xlog_", "ext4_sync"]) => {
            ProcessPlace::Journal
        }
        () if has(&["filemap_fault", "swap", "handle_mm_fault"]) => ProcessPlace::PageFault,
        () if has(&["futex", "sem_timedop", "semtimedop", "do_semop"]) => ProcessPlace::Semaphore,
        () if has(&["pipe_write"]) => ProcessPlace::LogWrite,
        () if has(&["pipe"]) => ProcessPlace::Pipe,
        () if has(&["poll", "sock", "unix_stream", "sk_", "tcp_", "inet_"]) => ProcessPlace::Socket,
        () if has(&["nanosleep", "hrtimer"]) => ProcessPlace::Timer,
        () if state == 'D' || has(&["io_schedule", "folio_wait", "wait_on_page", "blk_", "bio_"]) => {
            ProcessPlace::Io
        }
        () => ProcessPlace::Other,
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
        check('D', SYS_read, Some("/d/base/12407/16391.1"), "folio_wait_bit_common", ProcessPlace::DataRead);
        check(
            'D',
            SYS_pread64,
            Some("/d/pg_tblspc/9/PG_9.6_201608131/1/16391_vm"),
            "",
            ProcessPlace::DataRead,
        );
        check('D', SYS_write, Some("/d/base/12407/16391"), "rq_qos_wait", ProcessPlace::DataWrite);
        check('D', SYS_fsync, Some("/d/base/12407/16391"), "jbd2_log_wait_commit", ProcessPlace::DataWrite);
        check('D', SYS_fdatasync, segment, "folio_wait_bit_common", ProcessPlace::WalFlush);
        check('D', SYS_write, segment, "blkdev_issue_flush", ProcessPlace::WalFlush);
        check('D', SYS_read, segment, "", ProcessPlace::Io);
        check('D', SYS_write, Some("/d/pg_xlog/xlogtemp.4711"), "", ProcessPlace::WalInit);
        check('D', SYS_read, Some("/d/base/pgsql_tmp/pgsql_tmp4711.0"), "", ProcessPlace::TemporaryFile);
        check('D', SYS_read, Some("/d/pg_clog/0003"), "", ProcessPlace::Slru);
        check('D', SYS_read, Some("/d/global/pg_filenode.map"), "", ProcessPlace::Io);
        check('D', SYS_read, None, "", ProcessPlace::Io);
        check('S', SYS_read, Some("pipe:[77]"), "pipe_read", ProcessPlace::Pipe);
        check('S', SYS_write, Some("pipe:[77]"), "pipe_write", ProcessPlace::LogWrite);
        check('S', SYS_epoll_pwait, None, "do_epoll_wait", ProcessPlace::Socket);
        check('S', SYS_semop, None, "__do_semtimedop", ProcessPlace::Semaphore);
        let pause = format!("{} 0x0 0x0 0x0", libc::SYS_pselect6);
        assert_eq!(asleep('S', &pause, |_| None, || "do_select".to_string()), ProcessPlace::Timer);
        check('D', -1, None, "folio_wait_bit_common", ProcessPlace::PageFault);
    }

    #[test]
    fn without_the_call_the_function_says_it_and_without_that_the_state() {
        let check = |state, wchan: &str, expected| {
            assert_eq!(asleep(state, "", |_| None, || wchan.to_string()), expected, "{state} {wchan}");
        };
        check('D', "jbd2_log_wait_commit", ProcessPlace::Journal);
        check('D', "folio_wait_bit_common", ProcessPlace::Io);
        check('D', "filemap_fault", ProcessPlace::PageFault);
        check('S', "futex_wait_queue", ProcessPlace::Semaphore);
        check('S', "do_epoll_wait", ProcessPlace::Socket);
        check('S', "pipe_write", ProcessPlace::LogWrite);
        check('S', "hrtimer_nanosleep", ProcessPlace::Timer);
        check('D', "0", ProcessPlace::Io);
        check('S', "0", ProcessPlace::Other);
        assert_eq!(asleep('S', "running\n", |_| None, String::new), ProcessPlace::Running);
    }

    #[test]
    fn io_is_charged_where_the_server_has_no_event_for_it() {
        assert_eq!(ProcessPlace::WalFlush.wait(false), Some("Kernel:WalFlush"));
        assert_eq!(ProcessPlace::WalFlush.wait(true), None);
        assert_eq!(ProcessPlace::PageFault.wait(true), Some("Kernel:PageFault"));
        assert_eq!(ProcessPlace::Socket.wait(false), None);
        assert_eq!(ProcessPlace::LogWrite.wait(true), Some("Kernel:LogWrite"));
    }

    #[test]
    fn a_real_child_sleeps_in_its_pipe_and_a_stranger_is_left_out() {
        let mut child = Command::new("cat").stdin(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
        let pid = i32::try_from(child.id()).unwrap();
        let us = i32::try_from(std::process::id()).unwrap();
        let mut found = None;
        for _ in 0..200 {
            found = ProcessPlace::find(pid, us);
            if found == Some(ProcessPlace::Pipe) {
                break;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        assert_eq!(ProcessPlace::find(pid, us + 1), None);
        child.kill().unwrap();
        child.wait().unwrap();
        assert_eq!(found, Some(ProcessPlace::Pipe));
        assert_eq!(ProcessPlace::find(pid, us), None);
    }
}
