//! What pages may do if the server was started with `--control`: stop what is measured, and measure an experiment again.

mod again;

use std::os::unix::fs::MetadataExt;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use nix::sys::signal::kill;
use nix::unistd::Pid;

use crate::signals::REQUEST;

pub(super) use again::again;

/// Asks the process that writes to a directory to stop, as the first Ctrl-C does. To ask again changes nothing: several servers may
/// show the same directory.
///
/// # Errors
/// When nobody writes there, it is not a pgdyno of this user, or others can change the directory.
pub(super) fn stop(dir: &Path) -> Result<()> {
    expect_ours_alone(dir)?;
    let writer = store::writer_of(dir).context("nobody measures there now")?;
    let pid = writer.pid.context("the process that measures is not known")?;
    let program = std::fs::read_link(format!("/proc/{pid}/exe")).unwrap_or_default();
    let name = program.file_name().map_or(String::new(), |name| name.to_string_lossy().into_owned());
    ensure!(
        name.starts_with("pgdyno"),
        "process {pid}, which measures there, is not a pgdyno of this machine and user"
    );
    // Whoever wrote the number into the file may have meant another process.
    let lock =
        std::fs::symlink_metadata(dir.join(store::names::LOCK)).context("nobody measures there now")?;
    ensure!(has_open(pid, &lock), "process {pid} does not measure there");
    ensure!(
        takes_requests(pid),
        "process {pid} takes no requests, as one of another version; Ctrl-C where it was started stops it"
    );
    let number = i32::try_from(pid).context("a process id is smaller")?;
    kill(Pid::from_raw(number), REQUEST).with_context(|| format!("cannot ask process {pid} to stop"))
}

/// Whether a process has this file open.
fn has_open(pid: u32, wanted: &std::fs::Metadata) -> bool {
    let entries = std::fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
    let mut facts = entries.filter_map(|entry| std::fs::metadata(entry.path()).ok());
    facts.any(|facts| (facts.dev(), facts.ino()) == (wanted.dev(), wanted.ino()))
}

/// Whether a process handles the signal of a request.
fn takes_requests(pid: u32) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let handled = status.lines().find_map(|line| line.strip_prefix("SigCgt:"));
    // Bit 0 is signal 1, proc_pid_status(5).
    handled
        .and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok())
        .is_some_and(|mask| mask >> (REQUEST as i32 - 1) & 1 == 1)
}

/// Checks that nobody but this user and root can change the results in a directory: they name a process to be signalled, and commands to be
/// executed.
fn expect_ours_alone(dir: &Path) -> Result<()> {
    let refused =
        || format!("pages control no results that others can change, as those in `{}`", dir.display());
    files::trust::check_output(dir).with_context(refused)?;
    let entries =
        std::fs::read_dir(dir).with_context(|| format!("cannot read directory `{}`", dir.display()))?;
    for entry in entries {
        let path = entry.with_context(refused)?.path();
        // A run that is written makes and removes files meanwhile.
        let Ok(facts) = path.symlink_metadata() else { continue };
        if let Some(fault) = files::trust::fault(&path, &facts) {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            return Err(anyhow::anyhow!("`{name}`: {fault}")).with_context(refused);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::fs::{Permissions, set_permissions};
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn results_that_others_can_change_are_neither_stopped_nor_measured_again() {
        let root = tempfile::tempdir().unwrap();
        let dir = root.path().join("out");
        let path = |name: &str| if name.is_empty() { dir.clone() } else { dir.join(name) };
        std::fs::create_dir_all(path("runs")).unwrap();
        std::fs::write(path("plan.json"), "{}").unwrap();
        for (name, mode) in [("", 0o755), ("runs", 0o755), ("plan.json", 0o644)] {
            set_permissions(path(name), Permissions::from_mode(mode)).unwrap();
        }
        expect_ours_alone(&dir).unwrap();
        for (name, mode, others) in [("", 0o755, 0o777), ("runs", 0o755, 0o777), ("plan.json", 0o644, 0o666)]
        {
            set_permissions(path(name), Permissions::from_mode(others)).unwrap();
            for error in [stop(&dir).unwrap_err(), again(&dir, root.path(), &[]).unwrap_err()] {
                let error = format!("{error:#}");
                assert!(
                    error.contains("others can change") && error.contains("every user"),
                    "{name}: {error}"
                );
            }
            set_permissions(path(name), Permissions::from_mode(mode)).unwrap();
        }
    }
}
