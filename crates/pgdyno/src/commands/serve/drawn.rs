//! Pages that are drawn in a process of their own: what a stored result makes of it, an end, gigabytes or hours, ends nothing else.
//!
//! It is this program (`pgdyno draw`), which reads one order from standard input, writes one answer, and limits itself first.

use std::io::{Read, Write};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use analysis::history::{PastRun, packed};
use anyhow::{Context, Error, Result, bail, ensure};
use nix::sys::prctl;
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use nix::sys::signal::Signal;
use nix::unistd::alarm;
use report::site::{BarLink, Page};
use serde::{Deserialize, Serialize};
use serve::Makers;

use super::makers::DRAWN_HERE;
use super::{control, makers, past};
use crate::{Exit, guard};

/// The command that this program executes to draw a page.
const COMMAND: &str = "draw";
/// Longest time of a page.
const TIME_S_MAX: u32 = 600;
/// Most memory of it: a run of a day takes one of these, and as many are read at once as there are processors.
const ADDRESSES_BYTES_MAX: u64 = 8 << 30;
/// Longest order: the runs of a thousand results, for their history.
const ORDER_BYTES_MAX: u64 = 256 << 20;
/// Longest page.
const ANSWER_BYTES_MAX: u64 = 256 << 20;

/// Everything that takes long is drawn in a process of its own.
pub(super) const MAKERS: Makers =
    Makers { result, comparison, several, history, stop: control::stop, again: control::again };

#[derive(Debug, Serialize, Deserialize)]
struct Order {
    what: What,
    links: Vec<(String, String, bool)>,
}

#[derive(Debug, Serialize, Deserialize)]
enum What {
    Result(PathBuf),
    Comparison([PathBuf; 2]),
    Several(Vec<PathBuf>),
    /// The runs of a result, under this name.
    Past(PathBuf, String),
    /// The history of an experiment, from its runs and what could not be read.
    History(String, #[serde(with = "packed")] Vec<PastRun>, Vec<String>),
}

#[derive(Debug, Serialize, Deserialize)]
enum Answer {
    Page { html: String, policy: String },
    Runs(#[serde(with = "packed")] Vec<PastRun>),
    Refused(String),
}

fn result(dir: &Path, back: &[BarLink]) -> Result<Page> {
    page(What::Result(dir.to_path_buf()), back)
}

fn comparison(dirs: [&Path; 2], back: &[BarLink]) -> Result<Page> {
    page(What::Comparison(dirs.map(Path::to_path_buf)), back)
}

fn several(dirs: &[&Path], back: &[BarLink]) -> Result<Page> {
    page(What::Several(dirs.iter().map(|dir| dir.to_path_buf()).collect()), back)
}

fn history(experiment: &str, dirs: &[&Path], back: &[BarLink]) -> Result<Page> {
    let (runs, left_out) =
        past::of_all(dirs, |dir, name| match ask(What::Past(dir.to_path_buf(), name.to_string()), &[])? {
            Answer::Runs(runs) => Ok(runs),
            answer => Err(refused(answer)),
        });
    page(What::History(experiment.to_string(), runs, left_out), back)
}

fn page(what: What, back: &[BarLink]) -> Result<Page> {
    match ask(what, back)? {
        Answer::Page { html, policy } => Ok(Page { html, policy }),
        answer => Err(refused(answer)),
    }
}

fn refused(answer: Answer) -> Error {
    match answer {
        Answer::Refused(words) => Error::msg(words),
        Answer::Page { .. } | Answer::Runs(_) => Error::msg("this page cannot be drawn: another one came"),
    }
}

fn ask(what: What, back: &[BarLink]) -> Result<Answer> {
    let links = back.iter().map(|link| (link.to.to_string(), link.words.to_string(), link.is_here)).collect();
    let order = serde_json::to_vec(&Order { what, links })?;
    let mut command = Command::new("/proc/self/exe");
    command.arg0("pgdyno").arg(COMMAND).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = command.spawn().context("start the process that draws pages")?;
    // It reads everything before it answers; one that is gone answers nothing.
    if let Some(mut pipe) = child.stdin.take() {
        pipe.write_all(&order).ok();
    }
    let mut answer = Vec::new();
    let said = child.stdout.take().context("its output is a pipe")?;
    let n_read = said.take(ANSWER_BYTES_MAX).read_to_end(&mut answer);
    let status = child.wait().context("wait for the process that draws pages")?;
    if answer.len() as u64 == ANSWER_BYTES_MAX {
        bail!(
            "this page has more than {} MiB; `pgdyno report` of the result draws it",
            ANSWER_BYTES_MAX >> 20
        );
    }
    match (n_read, serde_json::from_slice(&answer)) {
        (Ok(_), Ok(answer)) => Ok(answer),
        _ => bail!(
            "this page cannot be drawn: the process that draws it has ended ({status}); it may have {TIME_S_MAX} s and {} GiB, and \
             `pgdyno report` of the result has more",
            ADDRESSES_BYTES_MAX >> 30
        ),
    }
}

/// `pgdyno draw`.
///
/// # Errors
/// When the order cannot be read, or the answer not be written.
pub(crate) fn draw() -> Result<Exit> {
    limit().context("limit the process that draws pages")?;
    let mut order = Vec::new();
    std::io::stdin().take(ORDER_BYTES_MAX).read_to_end(&mut order)?;
    ensure!(!order.is_empty(), "`pgdyno draw` is started by `pgdyno serve`");
    guard::panic_if_asked("draw");
    let Order { what, links } = serde_json::from_slice(&order).context("the order cannot be read")?;
    let links: Vec<BarLink> =
        links.iter().map(|(to, words, is_here)| BarLink { to, words, is_here: *is_here }).collect();
    let answer = answer(&what, &links).unwrap_or_else(|error| Answer::Refused(format!("{error:#}")));
    serde_json::to_writer(std::io::stdout().lock(), &answer)?;
    Ok(Exit::Done)
}

/// It ends with who asks, by itself after its time, and where it needs more memory than it may.
fn limit() -> Result<()> {
    prctl::set_pdeathsig(Signal::SIGKILL)?;
    alarm::set(TIME_S_MAX);
    let (_, hard) = getrlimit(Resource::RLIMIT_AS)?;
    let most = ADDRESSES_BYTES_MAX.min(hard);
    Ok(setrlimit(Resource::RLIMIT_AS, most, most)?)
}

fn answer(what: &What, links: &[BarLink]) -> Result<Answer> {
    let page = match what {
        What::Result(dir) => (DRAWN_HERE.result)(dir, links)?,
        What::Comparison([a, b]) => (DRAWN_HERE.comparison)([a, b], links)?,
        What::Several(dirs) => {
            let dirs: Vec<&Path> = dirs.iter().map(PathBuf::as_path).collect();
            (DRAWN_HERE.several)(&dirs, links)?
        }
        What::Past(dir, name) => return Ok(Answer::Runs(past::read(dir, name)?)),
        What::History(name, runs, left_out) => makers::history_of(name, runs.clone(), left_out, links),
    };
    Ok(Answer::Page { html: page.html, policy: page.policy })
}
