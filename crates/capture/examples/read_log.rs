//! Reads log files as `pgdyno capture log` does, and prints what they contain and how fast it was.
//!
//!     cargo run --release -p capture --example read_log -- [--prefix PREFIX] [--show] FILE...
//!
//! `bench/capture_log.py` runs it over logs of pgbench.

use std::collections::HashMap;
use std::io::Write;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use capture::log::{ExecutedStatement, LogFile, LoggedSession, ReadOptions, SessionId, StatementSink};

/// Counts statements by their first word.
#[derive(Default)]
struct Tally {
    words: HashMap<String, u64>,
    is_shown: bool,
}

impl StatementSink for Tally {
    fn session_began(&mut self, id: SessionId, session: &LoggedSession) {
        if self.is_shown {
            say(&format!("session {id} {session:?}"));
        }
    }

    fn session_ended(&mut self, _: SessionId, _: &LoggedSession) {}

    fn executed(&mut self, statement: ExecutedStatement) {
        if self.is_shown {
            say(&format!("{statement:?}"));
        }
        let word = statement.text.split_whitespace().next().unwrap_or_default();
        match self.words.get_mut(word) {
            Some(n) => *n += 1,
            None => {
                self.words.insert(word.to_string(), 1);
            }
        }
    }
}

fn say(text: &str) {
    writeln!(std::io::stdout().lock(), "{text}").expect("standard output is open");
}

fn main() -> anyhow::Result<()> {
    let mut args = std::env::args().skip(1).peekable();
    let mut options = ReadOptions::default();
    let mut tally = Tally::default();
    while let Some(option) = args.next_if(|arg| arg.starts_with("--")) {
        match option.as_str() {
            "--prefix" => options.prefix = args.next(),
            "--format" => options.format = args.next().and_then(|name| name.parse().ok()),
            "--show" => tally.is_shown = true,
            other => anyhow::bail!("unknown option {other}"),
        }
    }
    let now = SystemTime::now().duration_since(UNIX_EPOCH)?;
    options.newest_us = now.as_micros() as i64;
    let files = args.map(|name| {
        let bytes = Box::new(std::fs::File::open(&name).unwrap_or_else(|error| panic!("{name}: {error}")));
        LogFile { name, bytes }
    });
    let begun = Instant::now();
    let reading = capture::log::read(files, &options, &mut tally)?;
    let seconds = begun.elapsed().as_secs_f64();
    for file in &reading.files {
        say(&format!("{}: {}, {} lines, {} bytes", file.name, file.format, file.lines, file.bytes));
    }
    say(&format!(
        "{} records, {} statements, {} failed, {} timed, {} sessions; {:.3} s, {:.0} MB/s",
        reading.records,
        reading.statements,
        reading.failed,
        reading.timed,
        reading.sessions,
        seconds,
        reading.bytes() as f64 / seconds / 1e6
    ));
    say(&format!("{:?}", reading.counts));
    for (reason, n) in reading.all_skipped() {
        say(&format!("  left out: {n} {}", reason.words()));
    }
    for lack in reading.lacks() {
        say(&format!("  lacks {lack}"));
    }
    for note in reading.notes() {
        say(&format!("  note: {note}"));
    }
    let mut words: Vec<(String, u64)> = tally.words.into_iter().collect();
    words.sort_by_key(|(_, n)| std::cmp::Reverse(*n));
    let words = words.iter().take(8).map(|(word, n)| format!("{n} {word}"));
    say(&words.collect::<Vec<String>>().join(", "));
    Ok(())
}
