//! Measures an experiment again in a process of its own, one at a time, and hears why it does not begin.

use std::io::{self, Write};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use serve::{Again, Consent};

use super::expect_ours_alone;

/// How long an experiment that cannot begin is waited for: its reason is shown.
const BEGIN_MAX: Duration = Duration::from_secs(20);
const PAUSE: Duration = Duration::from_millis(50);
/// How long the last words of a process may take to be read. One that it started may keep the pipe open.
const LAST_WORDS_MAX: Duration = Duration::from_secs(2);
/// Most bytes of a reason.
const REASON_BYTES_MAX: usize = 64 << 10;

/// Whether an experiment that a page has started is prepared or measured.
static IS_AGAIN: AtomicBool = AtomicBool::new(false);

/// Measures the experiment of a directory again, as `pgdyno repeat` does, with results in a new directory below `root`.
///
/// The experiment may be somebody else's: what it would execute needs the same consent as there.
///
/// # Errors
/// When it ends at once for a reason that no consent removes, or another one that was started here has not ended.
pub(in crate::commands::serve) fn again(dir: &Path, root: &Path, consents: &[Consent]) -> Result<Again> {
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
    match begin(command, turn, || store::is_experiment_dir(&output))? {
        Beginning::Refused(reason) => asked(&reason, consents),
        Beginning::UnderWay => {
            let name = output.file_name().filter(|_| store::is_experiment_dir(&output));
            Ok(Again::Begun(name.map(|name| name.to_string_lossy().into_owned())))
        }
    }
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

/// What became of a process that is to measure.
#[derive(Debug)]
enum Beginning {
    /// It has ended, for this reason.
    Refused(Reason),
    /// It measures, or still prepares to.
    UnderWay,
}

/// Why a process ended, in its own words.
#[derive(Debug, Clone, Default)]
struct Reason {
    bytes: Vec<u8>,
    /// Whether it said more.
    is_cut: bool,
}

impl Reason {
    fn words(&self) -> String {
        String::from_utf8_lossy(&self.bytes).trim().trim_start_matches("pgdyno: error: ").to_string()
    }
}

/// Starts a process, and waits until it `has_begun` or has ended, for a bounded time. It keeps its turn until it ends.
fn begin(mut command: Command, turn: Turn, has_begun: impl Fn() -> bool) -> Result<Beginning> {
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped()).process_group(0);
    let mut child = command.spawn().context("cannot start pgdyno repeat")?;
    let heard = Heard::from(&mut child);
    let started = Instant::now();
    while started.elapsed() < BEGIN_MAX && !has_begun() {
        if child.try_wait().context("cannot wait for pgdyno repeat")?.is_some() {
            return Ok(Beginning::Refused(heard.until_end()));
        }
        std::thread::sleep(PAUSE);
    }
    std::thread::spawn(move || {
        let _ = child.wait();
        drop(turn);
    });
    Ok(Beginning::UnderWay)
}

/// What a process says: it is read at once, because a process whose pipe is full would neither begin nor end.
struct Heard {
    so_far: Arc<Mutex<Reason>>,
    reader: JoinHandle<()>,
}

/// Keeps the beginning of what is written; what a process that measures says later is in its results.
struct Keeper(Arc<Mutex<Reason>>);

impl Heard {
    fn from(child: &mut Child) -> Heard {
        let so_far = Arc::<Mutex<Reason>>::default();
        let (said, mut keeper) = (child.stderr.take(), Keeper(so_far.clone()));
        let reader = std::thread::spawn(move || {
            let _ = said.map(|mut said| io::copy(&mut said, &mut keeper));
        });
        Heard { so_far, reader }
    }

    fn until_end(self) -> Reason {
        let ended = Instant::now();
        while !self.reader.is_finished() && ended.elapsed() < LAST_WORDS_MAX {
            std::thread::sleep(PAUSE);
        }
        lock(&self.so_far).clone()
    }
}

impl Write for Keeper {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut reason = lock(&self.0);
        let room = REASON_BYTES_MAX - reason.bytes.len();
        reason.bytes.extend(bytes.iter().take(room));
        reason.is_cut |= bytes.len() > room;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn lock(reason: &Mutex<Reason>) -> MutexGuard<'_, Reason> {
    reason.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The consent that a reason asks for, if it asks for one that was not given.
fn asked(reason: &Reason, given: &[Consent]) -> Result<Again> {
    let words = reason.words();
    if reason.is_cut {
        bail!(
            "{words} …\n\nThere is more, which does not fit here: only `pgdyno repeat` in a terminal can go on"
        );
    }
    let is_asked = |consent: &Consent| !given.contains(consent) && words.contains(option(*consent));
    match Consent::ALL.into_iter().find(is_asked) {
        Some(consent) => Ok(Again::Asks(consent, words)),
        None => bail!("{words}"),
    }
}

/// The option by which the command line gives a consent.
fn option(consent: Consent) -> &'static str {
    match consent {
        Consent::Commands => "--allow-commands",
        Consent::Size => "--yes",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_consent_is_asked_for_only_if_all_reasons_were_heard() {
        let check = |script: &str, expected: Result<Consent, &str>| {
            let mut command = Command::new("sh");
            command.args(["-c", script]);
            let begun = begin(command, Turn, || false).unwrap();
            let Beginning::Refused(reason) = begun else { panic!("{script}: {begun:?}") };
            match (asked(&reason, &[]), expected) {
                (Ok(Again::Asks(consent, _)), Ok(expected)) => assert_eq!(consent, expected),
                (Err(error), Err(expected)) => assert!(error.to_string().contains(expected), "{error}"),
                (other, _) => panic!("{script}: {other:?}"),
            }
        };
        check("echo 'hooks; pass --allow-commands' >&2; exit 1", Ok(Consent::Commands));
        check("echo 'nothing helps' >&2; exit 1", Err("nothing helps"));
        // More than a pipe holds.
        let long = "echo 'pass --allow-commands' >&2; head -c 200000 /dev/zero | tr '\\0' x >&2; exit 1";
        check(long, Err("There is more"));
    }
}
