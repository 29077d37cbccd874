//! Measures an experiment again in a process of its own, one at a time, and hears why it does not begin.

use std::io::{self, Read, Write};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use serde::Deserialize;
use serve::{Again, ConsentQuestion, MeasureConsent};

use super::expect_ours_alone;
use crate::front::ask::{AllowedCommands, Ask, MissingConsent};

/// How long an experiment that cannot begin is waited for: its reason is shown.
const BEGIN_MAX: Duration = Duration::from_secs(20);
const PAUSE: Duration = Duration::from_millis(50);
/// How long the last words of a process may take to be read. One that it started may keep the pipe open.
const LAST_WORDS_MAX: Duration = Duration::from_secs(2);
/// Most bytes that are kept of what a process says.
const SAID_BYTES_MAX: usize = 256 << 10;

/// Whether an experiment that a page has started is prepared or measured.
static IS_AGAIN: AtomicBool = AtomicBool::new(false);

/// Measures the experiment of a directory again, as `pgdyno repeat` does, with results in a new directory below `root`.
///
/// The experiment may be somebody else's: what it would execute needs the same consent as there.
///
/// # Errors
/// When it ends at once for a reason that no consent removes, or another one that was started here has not ended.
pub(in crate::commands::serve) fn again(
    dir: &Path,
    root: &Path,
    consents: &[MeasureConsent],
) -> Result<Again> {
    expect_ours_alone(dir)?;
    let plan = store::read_plan(dir)?;
    let Some(turn) = Turn::take() else { bail!("another experiment was started here, and has not ended") };
    let today = jiff::Zoned::now().date().to_string();
    let random = u16::from_str_radix(&files::random_hex(2)?, 16)?;
    let output = store::default_path(root, &plan.name, &today, random);
    let whole = dir.canonicalize().with_context(|| format!("cannot find `{}`", dir.display()))?;
    let mut command = Command::new("/proc/self/exe");
    command.arg0("pgdyno").arg("repeat").arg(whole).arg("--output").arg(&output).args(["--quiet", "--json"]);
    command.args(consents.iter().map(option));
    match begin(command, turn, || store::is_experiment_dir(&output))? {
        Beginning::Refused(refusal) => asked(&refusal),
        Beginning::UnderWay => {
            let name = if store::is_experiment_dir(&output) { output.file_name() } else { None };
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
    /// It has ended.
    Refused(Refusal),
    /// It measures, or still prepares to.
    UnderWay,
}

/// What a process that has ended said.
#[derive(Debug)]
struct Refusal {
    /// Why it ended, in its own words.
    reason: Said,
    /// The consent that it asks for, as it printed it, if it does.
    asks: Said,
}

/// The beginning of what was said.
#[derive(Debug, Clone, Default)]
struct Said {
    bytes: Vec<u8>,
    /// Whether there was more.
    is_cut: bool,
}

impl Refusal {
    fn words(&self) -> String {
        let words = String::from_utf8_lossy(&self.reason.bytes);
        words.trim().trim_start_matches("pgdyno: error: ").to_string()
    }
}

/// What `pgdyno repeat --json` prints if a consent is missing.
#[derive(Debug, Deserialize)]
struct Asking {
    asks: Ask,
}

/// Starts a process, and waits until it `has_begun` or has ended, for a bounded time. It keeps its turn until it ends.
fn begin(mut command: Command, turn: Turn, has_begun: impl Fn() -> bool) -> Result<Beginning> {
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).process_group(0);
    let mut child = command.spawn().context("cannot start pgdyno repeat")?;
    let (reason, asks) = (Heard::from(child.stderr.take()), Heard::from(child.stdout.take()));
    let started = Instant::now();
    while started.elapsed() < BEGIN_MAX && !has_begun() {
        if child.try_wait().context("cannot wait for pgdyno repeat")?.is_some() {
            return Ok(Beginning::Refused(Refusal { reason: reason.until_end(), asks: asks.until_end() }));
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
    so_far: Arc<Mutex<Said>>,
    reader: JoinHandle<()>,
}

/// Keeps the beginning of what is written; what a process that measures says later is in its results.
struct Keeper(Arc<Mutex<Said>>);

impl Heard {
    fn from(pipe: Option<impl Read + Send + 'static>) -> Heard {
        let so_far = Arc::<Mutex<Said>>::default();
        let mut keeper = Keeper(so_far.clone());
        let reader = std::thread::spawn(move || {
            let _ = pipe.map(|mut pipe| io::copy(&mut pipe, &mut keeper));
        });
        Heard { so_far, reader }
    }

    fn until_end(self) -> Said {
        let ended = Instant::now();
        while !self.reader.is_finished() && ended.elapsed() < LAST_WORDS_MAX {
            std::thread::sleep(PAUSE);
        }
        lock(&self.so_far).clone()
    }
}

impl Write for Keeper {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut said = lock(&self.0);
        let room = SAID_BYTES_MAX - said.bytes.len();
        said.bytes.extend(bytes.iter().take(room));
        said.is_cut |= bytes.len() > room;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn lock(said: &Mutex<Said>) -> MutexGuard<'_, Said> {
    said.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The consent that a process asks for, if it asks for one: only a whole list is shown.
fn asked(refusal: &Refusal) -> Result<Again> {
    let words = refusal.words();
    if refusal.asks.is_cut {
        bail!(
            "there is more to consent to than fits here: only `pgdyno repeat` in a terminal shows all of it, and can go on"
        );
    }
    let Ok(Asking { asks }) = serde_json::from_slice(&refusal.asks.bytes) else { bail!("{words}") };
    let text = asks.page_text();
    let consent = match asks.wanted {
        MissingConsent::Commands => MeasureConsent::Commands(asks.number),
        MissingConsent::Size => MeasureConsent::Size,
    };
    Ok(Again::Asks(ConsentQuestion { consent, text }))
}

/// The option by which the command line gives a consent.
fn option(consent: &MeasureConsent) -> String {
    match consent {
        MeasureConsent::Commands(list) => AllowedCommands::List(list.clone()).option(),
        MeasureConsent::Size => "--yes".to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::front::ask::ConsentLine;

    #[test]
    fn a_consent_is_asked_for_only_if_all_of_it_was_heard() {
        let check = |script: &str, expected: Result<MeasureConsent, &str>| {
            let mut command = Command::new("sh");
            command.args(["-c", script]);
            let begun = begin(command, Turn, || false).unwrap();
            let Beginning::Refused(refusal) = begun else { panic!("{script}: {begun:?}") };
            match (asked(&refusal), expected) {
                (Ok(Again::Asks(question)), Ok(expected)) => assert_eq!(question.consent, expected),
                (Err(error), Err(expected)) => assert!(error.to_string().contains(expected), "{error}"),
                (other, _) => panic!("{script}: {other:?}"),
            }
        };
        let line = ConsentLine { text: "hooks: x".to_string(), instead: String::new() };
        let ask = Ask::commands("it would".to_string(), vec![line]);
        let printed = serde_json::json!({ "asks": ask }).to_string();
        check(&format!("echo '{printed}'; exit 1"), Ok(MeasureConsent::Commands(ask.number)));
        // Words are no consent, whatever options they name.
        check("echo 'hooks; pass --allow-commands or --yes' >&2; exit 1", Err("hooks; pass"));
        check("echo '{\"asks\": 1}'; echo 'nothing helps' >&2; exit 1", Err("nothing helps"));
        // More than is kept, and than a pipe holds.
        let long = format!("echo '{printed}'; head -c 400000 /dev/zero | tr '\\0' ' '; exit 1");
        check(&long, Err("there is more to consent to"));
    }
}
