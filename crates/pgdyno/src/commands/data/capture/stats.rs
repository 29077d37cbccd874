//! `pgdyno capture stats`: reads what a server counts, for some time, into a file. Reads only, a few queries per reading, each with a limit.

mod asked;

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{File, OpenOptions};
use std::os::unix::fs::OpenOptionsExt;
use std::sync::atomic::Ordering;
use std::thread::sleep;
use std::time::{Duration, Instant};

use ::capture::statistics::{Ended, StatementsLine, StatsLine, StatsWriter};
use anyhow::{Context, Result, bail, ensure};
use model::run::fidelity::StatementFigures;
use model::text::prose::plural;
use observe::counted::{OWN_COMMENT, StatementCounter, StatementReading};
use wire::Conninfo;

use self::asked::Asking;
use crate::front::cli::data::capture::stats::CaptureStatsArgs;
use crate::front::setup;
use crate::{Exit, say, signals};

/// Pause between two looks at sessions.
const SAMPLE_PAUSE: Duration = Duration::from_secs(1);
/// Shortest pause between two readings.
const EVERY_MIN: Duration = Duration::from_secs(1);
/// Readings between two that ask for the texts of new statements, for which the server reads a file of all texts.
const READINGS_PER_TEXTS: u64 = 10;

/// Reads, and writes the file.
pub(crate) fn stats(args: &CaptureStatsArgs) -> Result<Exit> {
    let pause = args.pause();
    let (length, every) = (Duration::from_millis(args.length.ms), Duration::from_millis(pause.ms));
    ensure!(every >= EVERY_MIN, "--every {pause} is too short; at least 1s");
    ensure!(
        length >= every,
        "--for {} is shorter than the {pause} between two readings; give a shorter --every",
        args.length
    );
    let conninfo = setup::resolve_to_look(&args.server)?;
    let mut asking = Asking::open(&conninfo)?;
    if let Some(why) = asking.without_statements() {
        bail!("statements cannot be read, and a file without them is of no use: {why}");
    }
    let begun = asking.begun(every)?;
    begun.unknown.iter().for_each(|(what, why)| say(&format!("note: {what} unknown: {why}")));
    let mut options = OpenOptions::new();
    options.write(true).create_new(true).mode(files::PRIVATE);
    let file = files::open_with(&args.output, &mut options)
        .with_context(|| format!("cannot create `{}`; name a new file with -o", args.output.display()))?;
    let mut record = Recording {
        writer: StatsWriter::new(file)?,
        statements: Statements::default(),
        n_readings: 0,
        cost: Duration::ZERO,
        path: args.output.display().to_string(),
    };
    record.write(&StatsLine::Begun(begun))?;
    record.write(&StatsLine::Settings { values: asking.settings()? })?;
    if args.with_values {
        record.write(&StatsLine::Columns { columns: asking.columns()? })?;
    }
    let is_complete = follow(&mut record, asking, &conninfo, ReadingTimes { length, every })?;
    let Recording { writer, n_readings, cost, .. } = record;
    let file: File = writer.finish()?;
    file.sync_all()?;
    say(&format!(
        "`{}`: {} took the server {:.2} s in all",
        args.output.display(),
        plural(n_readings as usize, "reading"),
        cost.as_secs_f64()
    ));
    Ok(if is_complete { Exit::Done } else { Exit::Partial })
}

/// The file and what was read so far.
struct Recording {
    writer: StatsWriter<File>,
    statements: Statements,
    n_readings: u64,
    /// Time in which the server answered.
    cost: Duration,
    path: String,
}

/// Times of the readings.
#[derive(Clone, Copy)]
struct ReadingTimes {
    length: Duration,
    every: Duration,
}

/// Reads until the time is over or somebody stops it, and then once more. Returns whether the time was over.
fn follow(
    record: &mut Recording,
    asking: Asking,
    conninfo: &Conninfo,
    schedule: ReadingTimes,
) -> Result<bool> {
    let ReadingTimes { length, every } = schedule;
    let mut asking = Some(asking);
    let stop = signals::stop_flag();
    let began = Instant::now();
    let (mut due, mut sample_due) = (began, began + SAMPLE_PAUSE);
    loop {
        let is_over = began.elapsed() >= length;
        let is_last = is_over || stop.load(Ordering::Relaxed);
        if is_last || Instant::now() >= due {
            // A server that is gone is asked for again.
            if asking.is_none() {
                asking = Asking::open(conninfo).ok();
            }
            let read = asking.as_mut().map_or(Ok(()), |asking| record.read(asking, is_last));
            if let Err(error) = read {
                record.notice(&format!("{error:#}"))?;
                asking = None;
            }
            due += every;
        }
        if is_last {
            let at_us = asking.as_mut().and_then(|asking| asking.clock_us().ok()).unwrap_or_default();
            let (n_readings, cost_ms) = (record.n_readings, record.cost.as_secs_f64() * 1e3);
            record.write(&StatsLine::Ended(Ended { at_us, is_complete: is_over, n_readings, cost_ms }))?;
            return Ok(is_over);
        }
        if Instant::now() >= sample_due {
            let taken = asking.as_mut().map_or(Ok(()), Asking::sample);
            if let Err(error) = taken {
                record.notice(&format!("{error:#}"))?;
                asking = None;
            }
            sample_due += SAMPLE_PAUSE;
        }
        let next = due.min(sample_due).min(began + length);
        sleep(next.saturating_duration_since(Instant::now()).min(Duration::from_millis(100)));
    }
}

impl Recording {
    fn write(&mut self, line: &StatsLine) -> Result<()> {
        self.writer.write(line).with_context(|| format!("cannot write `{}`", self.path))
    }

    fn notice(&mut self, what: &str) -> Result<()> {
        say(&format!("note: {what}"));
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
        let at_us = i64::try_from(now.as_micros()).unwrap_or(i64::MAX);
        self.write(&StatsLine::Noticed { at_us, what: what.to_string() })
    }

    /// Reads all that changes; tables, which cost more, at both ends alone.
    fn read(&mut self, asking: &mut Asking, is_last: bool) -> Result<()> {
        let began = Instant::now();
        let is_first = self.n_readings == 0;
        let mut lines = vec![asking.database()?];
        if is_first || is_last {
            lines.push(asking.tables()?);
        }
        lines.extend(asking.take_activity());
        if let Some(counter) = asking.counter().cloned() {
            let reading = counter.read(asking.session(), false)?;
            let (line, notices) = self.statements.line(&reading);
            lines.push(StatsLine::Statements(line));
            let is_due = is_last || self.n_readings.is_multiple_of(READINGS_PER_TEXTS);
            if is_due && self.statements.has_new() {
                lines.extend(self.statements.texts(&counter, asking)?);
            }
            for what in notices {
                self.notice(&what)?;
            }
        }
        self.cost += began.elapsed();
        self.n_readings += 1;
        lines.iter().try_for_each(|line| self.write(line))
    }
}

/// The readings of statements so far.
#[derive(Default)]
struct Statements {
    before: BTreeMap<String, StatementFigures>,
    named: BTreeSet<String>,
    reset: Option<Option<String>>,
    n_evictions: Option<u64>,
}

impl Statements {
    /// What has changed since the last reading, and what a reader should know.
    fn line(&mut self, reading: &StatementReading) -> (StatementsLine, Vec<String>) {
        let mut notices = Vec::new();
        if self.reset.as_ref().is_some_and(|reset| *reset != reading.reset) {
            notices.push("pg_stat_statements was reset; calls before that are missing".to_string());
        }
        if let (Some(now), Some(before)) = (reading.n_evictions, self.n_evictions)
            && now > before
        {
            notices.push(format!(
                "pg_stat_statements has dropped statements {} for want of space; raise pg_stat_statements.max",
                plural((now - before) as usize, "time")
            ));
        }
        let now: BTreeMap<String, StatementFigures> =
            reading.statements.iter().map(|one| (one.id.clone(), one.figures)).collect();
        let is_changed =
            |(id, figures): &(&String, &StatementFigures)| self.before.get(*id) != Some(*figures);
        let line = StatementsLine {
            at_us: reading.at_us,
            statements: now.iter().filter(is_changed).map(|(id, one)| (id.clone(), *one)).collect(),
            hidden_calls: reading.hidden_calls,
            reset: reading.reset.clone(),
            n_evictions: reading.n_evictions,
            gone: self.before.keys().filter(|id| !now.contains_key(*id)).cloned().collect(),
        };
        self.before = now;
        self.reset = Some(reading.reset.clone());
        self.n_evictions = reading.n_evictions;
        (line, notices)
    }

    fn has_new(&self) -> bool {
        self.before.keys().any(|id| !self.named.contains(id))
    }

    /// The texts that are not in the file yet. Of pgdyno's own, the beginning is enough.
    fn texts(&mut self, counter: &StatementCounter, asking: &mut Asking) -> Result<Option<StatsLine>> {
        let reading = counter.read(asking.session(), true)?;
        let mut texts = BTreeMap::new();
        for one in reading.statements {
            let Some(text) = one.text else { continue };
            if self.named.insert(one.id.clone()) {
                let is_own = text.starts_with(OWN_COMMENT);
                texts.insert(one.id, if is_own { OWN_COMMENT.to_string() } else { text });
            }
        }
        Ok((!texts.is_empty()).then_some(StatsLine::Texts { texts }))
    }
}
