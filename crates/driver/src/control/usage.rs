//! The driver process's own use of resources.

use nix::sys::resource::{Resource, UsageWho, getrlimit, getrusage, setrlimit};
use nix::unistd::{SysconfVar, sysconf};

/// CPU time of the whole process in seconds.
#[derive(Debug, Clone, Copy)]
pub(crate) struct CpuUsage {
    pub(crate) user_s: f64,
    pub(crate) system_s: f64,
}

/// CPU time used so far by all threads, ended ones included.
pub(crate) fn cpu() -> CpuUsage {
    let usage = getrusage(UsageWho::RUSAGE_SELF).expect("getrusage of oneself cannot fail");
    let seconds = |t: nix::sys::time::TimeVal| t.tv_sec() as f64 + t.tv_usec() as f64 / 1e6;
    CpuUsage { user_s: seconds(usage.user_time()), system_s: seconds(usage.system_time()) }
}

/// Resident memory in bytes; `None` when /proc cannot be read.
pub(crate) fn resident_bytes() -> Option<u64> {
    let statm = std::fs::read_to_string("/proc/self/statm").ok()?;
    // 4 KiB on most machines, 16 or 64 KiB on some of ARM and POWER.
    let page_bytes = u64::try_from(sysconf(SysconfVar::PAGE_SIZE).ok()??).ok()?;
    resident_of(&statm, page_bytes)
}

/// Resident memory according to the text of `statm`, which counts pages.
fn resident_of(statm: &str, page_bytes: u64) -> Option<u64> {
    let pages: u64 = statm.split_whitespace().nth(1)?.parse().ok()?;
    Some(pages * page_bytes)
}

/// Most files that a thread opens for itself: its poller, its log, and the same again for rehearsals with a pair of sockets.
const FILES_PER_THREAD: u64 = 8;
/// Files of a pipe to another process: its standard input, output and error.
const FILES_PER_PIPE: u64 = 3;
/// Files for everything else.
const FILES_BESIDES: u64 = 64;

/// Raises the soft limit of open files to the hard one: the soft limit is low for the sake of
/// programs that call select(2), and we start none of those. Child processes inherit it.
///
/// # Errors
/// When the limits cannot be read or set.
pub fn raise_open_files() -> Result<(), String> {
    let (soft, hard) = limits()?;
    if soft >= hard {
        return Ok(());
    }
    setrlimit(Resource::RLIMIT_NOFILE, hard, hard)
        .map_err(|errno| format!("cannot raise the limit of open files from {soft} to {hard}: {errno}"))
}

/// Fails when a load of `n_clients` connections on `n_threads` threads can never have the files that it needs.
///
/// # Errors
/// Names the numbers, and what to do.
pub fn expect_open_files(n_clients: u32, n_threads: u32) -> Result<(), String> {
    let needed = u64::from(n_clients) + FILES_PER_THREAD * u64::from(n_threads) + FILES_BESIDES;
    expect_files(needed, &format!("{n_clients} clients"), "clients")
}

/// Fails when the pipes to `n_drivers` other processes can never have the files that they need.
///
/// # Errors
/// Names the numbers, and what to do.
pub fn expect_pipes(n_drivers: u32) -> Result<(), String> {
    let needed = FILES_PER_PIPE * u64::from(n_drivers) + FILES_BESIDES;
    expect_files(needed, &format!("the pipes to {n_drivers} drivers"), "drivers")
}

fn expect_files(needed: u64, what: &str, fewer: &str) -> Result<(), String> {
    let (_, hard) = limits()?;
    if hard < needed {
        return Err(format!(
            "{what} need {needed} open files, but the system limit is {hard}; raise it (ulimit -Hn) or use fewer {fewer}"
        ));
    }
    Ok(())
}

fn limits() -> Result<(u64, u64), String> {
    getrlimit(Resource::RLIMIT_NOFILE).map_err(|e| format!("cannot read the limit of open files: {e}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_counted_in_pages_of_the_kernel() {
        let check = |statm: &str, page_bytes, expected| assert_eq!(resident_of(statm, page_bytes), expected);
        check("900 100 30 5 0 60 0\n", 4096, Some(409_600));
        check("900 100 30 5 0 60 0\n", 65_536, Some(6_553_600));
        check("", 4096, None);
        assert!(resident_bytes().is_some_and(|bytes| bytes > 1 << 20));
    }
}
