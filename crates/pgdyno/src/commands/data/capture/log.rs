//! `pgdyno capture log`: a workload directory from a server's logs.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Write;
use std::path::Path;

use ::capture::directory::{MadeDirectory, Making, make};
use ::capture::log::{LogFile, LogReading, ReadOptions, SkipReason, read};
use ::capture::privacy::Privacy;
use ::capture::reader::{LogReader, ReadLog, SessionChoice, WindowChoice};
use ::capture::statement::identity;
use ::capture::statistics::SourceStatistics;
use anyhow::{Context, Result, bail, ensure};
use model::run::fidelity::WorkloadFigures;
use model::secret;

use crate::commands::data::capture::{asked, show, window};
use crate::commands::data::workload::problems_of_written;
use crate::front::cli::data::capture::log::{CaptureLogArgs, PrivacyChoice};
use crate::front::{setup, shell};
use crate::{Exit, print, print_exact, say};

/// Only the user reads what may be personal.
const MODE: u32 = 0o600;
/// Name of a workload whose directory has none that could be one.
const DEFAULT_NAME: &str = "captured";

/// Reads the logs, and writes the directory.
pub(super) fn log(args: &CaptureLogArgs) -> Result<Exit> {
    expect_empty(&args.output)?;
    let choice = args.window.as_deref().map_or(Ok(WindowChoice::All), window::window)?;
    let source = args.stats.as_deref().map(exact_counts).transpose()?;
    let (mut read, reading) = read_files(args, choice)?;
    said(&reading);
    let mut facts = BTreeMap::new();
    if let Some(target) = &args.server {
        let asked = asked::asked(&setup::resolve_to_look(target)?, &read.forms, asked::Which::WithValues)?;
        facts = asked.facts;
    }
    let formats: Vec<&str> = reading.files.iter().map(|file| file.format.as_str()).collect();
    let making = Making {
        name: &name(&args.output),
        privacy: privacy(args.privacy),
        key: key()?,
        facts: &facts,
        statistics: source.as_ref().map(|source| &source.figures),
        server: source.as_ref().map(|source| source.server.as_str()),
        // That of `--server` is a copy's: what must not be loaded is the source.
        system_identifier: source.as_ref().and_then(|source| source.system_identifier.as_deref()),
        log: formats.first().copied().unwrap_or("log"),
        n_clients: None,
    };
    let made = make(&mut read, &making)?;
    keep(&args.output, &made, args.json)
}

/// How much of the values is written.
pub(super) fn privacy(choice: PrivacyChoice) -> Privacy {
    match choice {
        PrivacyChoice::Values => Privacy::Values,
        PrivacyChoice::Hashed => Privacy::Hashed,
        PrivacyChoice::Shape => Privacy::Shape,
    }
}

/// Writes a directory, checks it, and shows what it has.
pub(super) fn keep(output: &Path, made: &MadeDirectory, is_json: bool) -> Result<Exit> {
    written(output, made)?;
    expect_sound(output)?;
    let summary = made.summary.json();
    if is_json {
        print_exact(&format!("{}\n", secret::hide_json(&summary.to_string())))?;
        return Ok(Exit::Done);
    }
    print(&show::text(&summary, false))?;
    let dir = shell::quoted(&shown_path(output));
    print(&format!(
        "\nwrote {} files to {dir}\n  pgdyno capture show {dir} --verbose\n  pgdyno run -w {dir}\n",
        made.files.len()
    ))?;
    Ok(Exit::Done)
}

fn read_files(args: &CaptureLogArgs, choice: WindowChoice) -> Result<(ReadLog, LogReading)> {
    let sessions = SessionChoice {
        databases: args.database.clone(),
        users: args.user.clone(),
        applications: args.application.clone(),
    };
    let mut sink = LogReader::new(choice).with_sessions(sessions);
    if args.trace {
        sink = sink.with_trace();
    }
    // One file is open at a time; one that is missing is said before any is read.
    for path in &args.files {
        ensure!(path.exists(), "there is no file `{}`", path.display());
    }
    let files = args.files.iter().map(|path| LogFile {
        name: path.display().to_string(),
        bytes: Box::new(OpenedLater { path: path.clone(), file: None }),
    });
    let options = ReadOptions { prefix: args.prefix.clone(), ..ReadOptions::default() };
    let reading = read(files, &options, &mut sink)?;
    Ok((sink.finish(), reading))
}

/// A file that is opened when it is read.
struct OpenedLater {
    path: std::path::PathBuf,
    file: Option<File>,
}

impl std::io::Read for OpenedLater {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let file = match &mut self.file {
            Some(file) => file,
            None => self.file.insert(File::open(&self.path)?),
        };
        file.read(buffer)
    }
}

/// What was read, what was not, and what the log lacks.
fn said(reading: &LogReading) {
    for reason in SkipReason::ALL {
        let n = reading.skipped(reason);
        if n > 0 && !matches!(reason, SkipReason::OtherMessage | SkipReason::Empty) {
            say(&format!("note: not read: {n} {}", reason.words()));
        }
    }
    for lack in reading.lacks() {
        say(&format!("note: {lack}"));
    }
}

/// What a file of statistics says of the source.
struct CountedSource {
    figures: WorkloadFigures,
    server: String,
    system_identifier: Option<String>,
}

fn exact_counts(path: &Path) -> Result<CountedSource> {
    let file = File::open(path).with_context(|| format!("cannot read `{}`", path.display()))?;
    let statistics = SourceStatistics::read(file).with_context(|| format!("`{}`", path.display()))?;
    let figures = statistics.figures(identity);
    if figures.length_s <= 0.0 {
        bail!(
            "`{}` has no two readings of pg_stat_statements: {}",
            path.display(),
            statistics.why_uncounted()
        );
    }
    let begun = statistics.begun;
    Ok(CountedSource { figures, server: begun.server, system_identifier: begun.system_identifier })
}

/// The key of masks: that of this user, so that equal values are equal in all that they capture.
pub(super) fn key() -> Result<[u8; 32]> {
    let text = match secret::seal("masks of captured values", &[]) {
        Some(text) => text,
        // Without a key of the user, equal values are equal in one directory only.
        None => files::random_hex(32)?,
    };
    let mut key = [0; 32];
    for (at, byte) in key.iter_mut().enumerate() {
        *byte = u8::from_str_radix(text.get(2 * at..2 * at + 2).unwrap_or("00"), 16).unwrap_or(0);
    }
    Ok(key)
}

/// A name that a workload can have, from that of its directory.
pub(super) fn name(dir: &Path) -> String {
    let last = dir.file_name().map(|name| name.to_string_lossy().to_lowercase()).unwrap_or_default();
    let last = last.strip_suffix(".workload").unwrap_or(&last);
    let name: String =
        last.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).take(60).collect();
    let name = name.trim_matches('-');
    if name.is_empty() { DEFAULT_NAME.to_string() } else { name.to_string() }
}

/// Fails if the directory that was written is none that a run takes.
fn expect_sound(dir: &Path) -> Result<()> {
    let place = shown_path(dir);
    let problems = problems_of_written(&place).unwrap_or_else(|error| format!("{error:#}"));
    ensure!(
        problems.is_empty(),
        "the directory `{place}` was written, and no run takes it:\n{problems}\ncapture less: a shorter --window, or one --database, --user \
         or --application"
    );
    Ok(())
}

/// The path with a `/`, by which a workload is known as a directory.
fn shown_path(dir: &Path) -> String {
    let text = dir.display().to_string();
    if text.contains('/') { text } else { format!("./{text}") }
}

/// Fails if there is something that a new directory would mix with.
pub(super) fn expect_empty(dir: &Path) -> Result<()> {
    match std::fs::read_dir(dir).map(|mut entries| entries.next().is_none()) {
        Ok(false) => bail!("directory `{}` is not empty; choose another one, or remove it", dir.display()),
        Err(error) if error.kind() == std::io::ErrorKind::NotADirectory => {
            bail!("`{}` is no directory; choose another name", dir.display())
        }
        _ => Ok(()),
    }
}

fn written(dir: &Path, made: &MadeDirectory) -> Result<()> {
    if nix::unistd::geteuid().is_root() {
        files::trust::check_output(dir)?;
    }
    for (name, bytes) in &made.files {
        let path = dir.join(name);
        let parent = path.parent().unwrap_or(dir);
        std::fs::create_dir_all(parent)
            .with_context(|| format!("cannot create the directory `{}`", parent.display()))?;
        let written = files::create_new(&path, MODE).and_then(|mut file| file.write_all(bytes));
        written.with_context(|| format!("cannot write `{}`", path.display()))?;
    }
    Ok(())
}
