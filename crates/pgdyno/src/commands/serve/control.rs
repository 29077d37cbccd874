//! What pages may do if the server was started with `--control`: stop what is measured, and measure an experiment again.

use std::io::Read;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

/// How long an experiment that cannot begin is waited for: its reason is shown.
const BEGIN_MAX: Duration = Duration::from_secs(4);
const PAUSE: Duration = Duration::from_millis(50);
/// Most bytes of a reason.
const REASON_BYTES_MAX: u64 = 4096;

/// Asks the process that writes to a directory to stop, as Ctrl-C does.
///
/// # Errors
/// When nobody writes there, or it is not a pgdyno of this user.
pub(super) fn stop(dir: &Path) -> Result<()> {
    store::expect_ours(dir)?;
    let writer = store::writer_of(dir).context("nobody measures there now")?;
    let pid = writer.pid.context("the process that measures is not known")?;
    let program = std::fs::read_link(format!("/proc/{pid}/exe")).unwrap_or_default();
    let name = program.file_name().map_or(String::new(), |name| name.to_string_lossy().into_owned());
    ensure!(
        name.starts_with("pgdyno"),
        "process {pid}, which measures there, is not a pgdyno of this machine and user"
    );
    let pid = i32::try_from(pid).context("a process id is smaller")?;
    kill(Pid::from_raw(pid), Signal::SIGINT).with_context(|| format!("cannot ask process {pid} to stop"))
}

/// Measures the experiment of a directory again, with results in a new directory below `root`.
///
/// # Errors
/// When it ends at once: the reason that it gave.
pub(super) fn again(dir: &Path, root: &Path) -> Result<()> {
    // This executes what the stored experiment says.
    store::expect_ours(dir)?;
    let plan = store::read_plan(dir)?;
    ensure!(!plan.is_comparison, "a comparison is measured again by the command in its report");
    let today = jiff::Zoned::now().date().to_string();
    let random = u16::from_str_radix(&files::random_hex(2)?, 16)?;
    let output = store::default_path(root, &plan.name, &today, random);
    let mut command = Command::new("/proc/self/exe");
    command.arg0("pgdyno").arg("run").arg(dir.join(store::names::EXPERIMENT)).arg("--output").arg(&output);
    command.arg("--quiet").stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped()).process_group(0);
    let mut child = command.spawn().context("cannot start pgdyno run")?;
    let begun = Instant::now();
    while begun.elapsed() < BEGIN_MAX && !store::is_experiment_dir(&output) {
        if let Some(status) = child.try_wait().context("cannot wait for pgdyno run")? {
            bail!("pgdyno run ended with {status}: {}", reason(&mut child));
        }
        std::thread::sleep(PAUSE);
    }
    std::thread::spawn(move || {
        // What it says later is in the results; a full pipe would stop it.
        if let Some(mut said) = child.stderr.take() {
            let _ = std::io::copy(&mut said, &mut std::io::sink());
        }
        child.wait()
    });
    Ok(())
}

fn reason(child: &mut Child) -> String {
    let mut text = String::new();
    if let Some(said) = child.stderr.take() {
        let _ = said.take(REASON_BYTES_MAX).read_to_string(&mut text);
    }
    text
}
