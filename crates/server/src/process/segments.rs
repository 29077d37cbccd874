//! System V shared memory of a server that was killed. No process is left to remove it, and it stays until a server
//! starts on the same directory, which may be never.

use std::fs;
use std::thread;
use std::time::{Duration, Instant};

/// How long the children of a killed postmaster may take to end.
const CHILDREN_END_MAX: Duration = Duration::from_secs(5);
const PAUSE: Duration = Duration::from_millis(20);

/// Removes segments that process `pid` of user `uid` created, once nobody uses them. `pid` must have been reaped only a
/// moment ago, so that no other process has its id yet.
pub(crate) fn remove_of(pid: u32, uid: u32) {
    let end = Instant::now() + CHILDREN_END_MAX;
    loop {
        let left = segments_of(pid, uid, &fs::read_to_string("/proc/sysvipc/shm").unwrap_or_default());
        for segment in left.iter().filter(|segment| segment.n_attached == 0) {
            // SAFETY: with IPC_RMID the last argument is not used.
            unsafe { nix::libc::shmctl(segment.id, nix::libc::IPC_RMID, std::ptr::null_mut()) };
        }
        if left.iter().all(|segment| segment.n_attached == 0) || Instant::now() >= end {
            return;
        }
        thread::sleep(PAUSE);
    }
}

#[derive(Debug, PartialEq)]
struct Segment {
    id: i32,
    n_attached: u32,
}

/// The segments in a table such as `/proc/sysvipc/shm` (proc_sysvipc(5)): key, id, mode, size, creator, last process,
/// number of attachments, owner.
fn segments_of(pid: u32, uid: u32, table: &str) -> Vec<Segment> {
    let of = |line: &str| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let number = |n: usize| fields.get(n)?.parse::<u32>().ok();
        let is_its = number(4) == Some(pid) && number(7) == Some(uid);
        is_its.then_some(Segment { id: fields.get(1)?.parse().ok()?, n_attached: number(6)? })
    };
    table.lines().skip(1).filter_map(of).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_segments_of_that_process_and_user_are_found() {
        let table = "       key      shmid perms                  size  cpid  lpid nattch   uid   gid  cuid\n \
                     14030   7   600    56  4711  4711   0   101   102   101\n \
                     14031   8   600    56  4711  4711   3   101   102   101\n \
                     14032   9   600    56  4711  4711   0     0     0     0\n \
                     14033  10   600    56  4712  4711   0   101   102   101\n";
        let expected = [Segment { id: 7, n_attached: 0 }, Segment { id: 8, n_attached: 3 }];
        assert_eq!(segments_of(4711, 101, table), expected);
        assert_eq!(segments_of(4711, 101, ""), []);
    }
}
