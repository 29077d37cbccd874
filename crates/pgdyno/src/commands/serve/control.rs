//! What pages may do if the server was started with `--control`: stop what is measured, and measure an experiment again.

use std::io::Read;
use std::os::unix::fs::MetadataExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use nix::sys::signal::kill;
use nix::unistd::Pid;
use serve::{Again, Consent};

use crate::signals::REQUEST;

/// How long an experiment that cannot begin is waited for: its reason is shown.
const BEGIN_MAX: Duration = Duration::from_secs(20);
const PAUSE: Duration = Duration::from_millis(50);
/// Most bytes of a reason.
const REASON_BYTES_MAX: u64 = 64 << 10;

/// Whether an experiment that a page has started is prepared or measured.
static IS_AGAIN: AtomicBool = AtomicBool::new(false);

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
        if let Some(fault) = files::trust::fault(&facts) {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            return Err(anyhow::anyhow!("`{name}`: {fault}")).with_context(refused);
        }
    }
    Ok(())
}

/// Measures the experiment of a directory again, as `pgdyno repeat` does, with results in a new directory below `root`.
///
/// The experiment may be somebody else's: what it would execute needs the same consent as there.
///
/// # Errors
/// When it ends at once for a reason that no consent removes, or another one that was started here has not ended.
pub(super) fn again(dir: &Path, root: &Path, consents: &[Consent]) -> Result<Again> {
    expect_ours_alone(dir)?;
    let plan = store::read_plan(dir)?;
    let Some(turn) = Turn::take() else { bail!("another experiment was started here, and has not ended") };
    let today = jiff::Zoned::now().date().to_string();
    let random = u16::from_str_radix(&files::random_hex(2)?, 16)?;
    let output = store::default_path(root, &plan.name, &today, random);
    let whole = dir.canonicalize().with_context(|| format!("cannot find `{}`", dir.display()))?;
    let mut command = Command::new("/proc/self/exe");
    command.arg0("pgdyno").arg("repeat").arg(whole).arg("--output").arg(&output).arg("--quiet");
    command.args(consents.iter().map(|consent| option(*consent)));
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped()).process_group(0);
    let mut child = command.spawn().context("cannot start pgdyno repeat")?;
    let begun = Instant::now();
    while begun.elapsed() < BEGIN_MAX && !store::is_experiment_dir(&output) {
        if child.try_wait().context("cannot wait for pgdyno repeat")?.is_some() {
            let words = reason(&mut child);
            let asked = Consent::ALL
                .into_iter()
                .find(|consent| !consents.contains(consent) && words.contains(option(*consent)));
            return asked.map_or_else(|| bail!("{words}"), |consent| Ok(Again::Asks(consent, words.clone())));
        }
        std::thread::sleep(PAUSE);
    }
    let name = output.file_name().filter(|_| store::is_experiment_dir(&output));
    let name = name.map(|name| name.to_string_lossy().into_owned());
    std::thread::spawn(move || {
        // What it says later is in the results; a full pipe would stop it.
        if let Some(mut said) = child.stderr.take() {
            let _ = std::io::copy(&mut said, &mut std::io::sink());
        }
        let _ = child.wait();
        drop(turn);
    });
    Ok(Again::Begun(name))
}

/// The right to start an experiment, until it has ended: two at once would disturb each other.
struct Turn;

impl Turn {
    fn take() -> Option<Turn> {
        (!IS_AGAIN.swap(true, Ordering::Relaxed)).then_some(Turn)
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        IS_AGAIN.store(false, Ordering::Relaxed);
    }
}

/// The option by which the command line gives a consent.
fn option(consent: Consent) -> &'static str {
    match consent {
        Consent::Commands => "--allow-commands",
        Consent::Size => "--yes",
    }
}

/// Why a process ended, in its own words.
fn reason(child: &mut Child) -> String {
    let mut text = String::new();
    if let Some(said) = child.stderr.take() {
        let _ = said.take(REASON_BYTES_MAX).read_to_string(&mut text);
    }
    text.trim().trim_start_matches("pgdyno: error: ").to_string()
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
