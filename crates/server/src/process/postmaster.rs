//! The server that runs in a data directory, as seen from outside.

use std::fs;
use std::path::Path;

use crate::process_id::start_ticks;
use crate::user::account::Account;

/// A `postmaster.pid` has eight short lines.
const PID_FILE_BYTES_MAX: u64 = 16 << 10;

/// The postmaster that runs on `data_dir` as `account`, if one does. A `postmaster.pid` that a killed server left
/// behind names a process that is gone, or another one that works elsewhere; one that the server's user wrote may name
/// any. It is therefore only a reason to leave the cluster alone, never to signal the process.
pub(crate) fn postmaster_of(data_dir: &Path, account: &Account) -> Option<u32> {
    let text = account.act(|| files::read(&data_dir.join("postmaster.pid"), PID_FILE_BYTES_MAX)).ok()?;
    let pid: u32 = String::from_utf8_lossy(&text).lines().next()?.trim().parse().ok()?;
    start_ticks(pid)?;
    // A postmaster works in its data directory.
    let works_in = fs::read_link(format!("/proc/{pid}/cwd")).ok()?;
    (works_in == data_dir.canonicalize().ok()? && user_of(pid)? == account.uid).then_some(pid)
}

/// Effective user id of a process (proc_pid_status(5)).
fn user_of(pid: u32) -> Option<u32> {
    let text = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let ids = text.lines().find_map(|line| line.strip_prefix("Uid:"))?;
    ids.split_ascii_whitespace().nth(1)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_left_over_pid_file_is_not_a_running_server() {
        let dir = tempfile::tempdir().unwrap();
        let me = Account::of_owner(dir.path()).unwrap();
        assert_eq!(postmaster_of(dir.path(), &me), None);
        for text in ["", "1\n", "999999999\n", "rubbish"] {
            fs::write(dir.path().join("postmaster.pid"), text).unwrap();
            assert_eq!(postmaster_of(dir.path(), &me), None, "{text}");
        }
    }

    #[test]
    fn a_process_in_the_directory_that_is_another_users_is_not_its_server() {
        let dir = tempfile::tempdir().unwrap();
        let me = Account::of_owner(dir.path()).unwrap();
        let mut child =
            std::process::Command::new("sleep").arg("60").current_dir(dir.path()).spawn().unwrap();
        fs::write(dir.path().join("postmaster.pid"), format!("{}\n", child.id())).unwrap();
        let stranger = Account { uid: 54_321, ..me.clone() };
        let found = (postmaster_of(dir.path(), &me), postmaster_of(dir.path(), &stranger));
        child.kill().unwrap();
        child.wait().unwrap();
        assert_eq!(found, (Some(child.id()), None));
    }
}
