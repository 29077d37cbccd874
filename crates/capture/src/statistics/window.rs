//! The readings of a file, added up: what each statement did between the first and the last one.

use std::collections::{BTreeMap, HashMap};
use std::io::{BufRead, BufReader, Read};

use anyhow::{Context, Result, bail, ensure};
use model::run::fidelity::{
    CountedStatement, OWN_COMMENT, StatementFigures, WorkloadFigures, may_be_cut_off,
};

use super::{
    ActivityLine, Begun, Ended, FILE_BYTES_MAX, LINE_BYTES_MAX, STATS_FORMAT, StatementsLine, StatsLine,
};

/// The lines of a file, one by one.
pub struct StatsReader<R: BufRead> {
    lines: R,
    number: u64,
}

impl<R: Read> StatsReader<BufReader<std::io::Take<zstd::Decoder<'static, BufReader<R>>>>> {
    /// Begins to read a compressed file.
    ///
    /// # Errors
    /// When it is not compressed by zstd.
    pub fn new(file: R) -> Result<Self> {
        let decoder = zstd::Decoder::new(file).context("it is not compressed by zstd")?;
        Ok(StatsReader { lines: BufReader::new(decoder.take(FILE_BYTES_MAX)), number: 0 })
    }
}

impl<R: BufRead> StatsReader<R> {
    /// The next line; `None` at the end, also if the last line or the compression was cut off.
    ///
    /// # Errors
    /// With the number of the line, when it is none of a file of statistics.
    pub fn next_line(&mut self) -> Result<Option<StatsLine>> {
        self.number += 1;
        let mut bytes = Vec::new();
        let n = match self.lines.by_ref().take(LINE_BYTES_MAX as u64 + 1).read_until(b'\n', &mut bytes) {
            Ok(n) => n,
            // What pgdyno was killed in the middle of.
            Err(error) if error.kind() == std::io::ErrorKind::UnexpectedEof => return Ok(None),
            Err(error) => return Err(error).with_context(|| format!("line {}", self.number)),
        };
        if n == 0 {
            return Ok(None);
        }
        ensure!(n <= LINE_BYTES_MAX, "line {} is longer than {LINE_BYTES_MAX} bytes", self.number);
        if bytes.last() != Some(&b'\n') {
            return Ok(None);
        }
        let line: StatsLine = serde_json::from_slice(&bytes)
            .with_context(|| format!("line {} is none of a file of `pgdyno capture stats`", self.number))?;
        match (&line, self.number) {
            (StatsLine::Begun(begun), 1) => ensure!(
                begun.format <= STATS_FORMAT,
                "it has format {}, and this pgdyno reads formats up to {STATS_FORMAT}; use a newer pgdyno",
                begun.format
            ),
            (_, 1) => bail!("the first line does not say that it is a file of `pgdyno capture stats`"),
            _ => {}
        }
        Ok(Some(line))
    }
}

/// What a server counted over a time.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct SourceStatistics {
    /// Where and how it was read.
    pub begun: Begun,
    /// How it ended; `None` if it was cut off.
    pub ended: Option<Ended>,
    /// First and last reading of statements, by the server's clock, microseconds.
    pub span_us: Option<(i64, i64)>,
    /// Each statement by the server's identifier.
    pub statements: BTreeMap<String, StatementFigures>,
    /// Texts by that identifier.
    pub texts: BTreeMap<String, String>,
    /// Calls of statements that the role could not see.
    pub hidden_calls: u64,
    /// Resets within the time.
    pub n_resets: u64,
    /// Evictions of statements within the time; `None` if the server does not say.
    pub n_evictions: Option<u64>,
    /// Samples of sessions, summed.
    pub activity: ActivityLine,
    /// Settings that are not at their defaults.
    pub settings: BTreeMap<String, String>,
    /// First and last figures of tables.
    pub tables: [BTreeMap<String, BTreeMap<String, f64>>; 2],
    /// Resets, evictions and failures, in words.
    pub notices: Vec<String>,
}

/// Readings so far.
#[derive(Default)]
struct Readings {
    before: HashMap<String, StatementFigures>,
    hidden_before: u64,
    reset: Option<Option<String>>,
    evictions: Option<u64>,
}

impl SourceStatistics {
    /// Reads a compressed file.
    ///
    /// # Errors
    /// When it is no such file, with the line.
    pub fn read(file: impl Read) -> Result<SourceStatistics> {
        let mut reader = StatsReader::new(file)?;
        let (mut found, mut readings) = (SourceStatistics::default(), Readings::default());
        let mut n_lines = 0_u64;
        while let Some(line) = reader.next_line()? {
            n_lines += 1;
            found.take(line, &mut readings);
        }
        ensure!(n_lines > 0, "it is empty");
        Ok(found)
    }

    fn take(&mut self, line: StatsLine, readings: &mut Readings) {
        match line {
            StatsLine::Begun(begun) => self.begun = begun,
            StatsLine::Settings { values } => self.settings.extend(values),
            StatsLine::Tables { tables, .. } => {
                if self.tables[0].is_empty() {
                    self.tables[0].clone_from(&tables);
                }
                self.tables[1] = tables;
            }
            StatsLine::Statements(line) => self.take_statements(line, readings),
            StatsLine::Texts { texts } => {
                for (id, text) in texts {
                    self.texts.entry(id).or_insert(text);
                }
            }
            StatsLine::Activity(line) => {
                let sum = &mut self.activity;
                sum.at_us = line.at_us;
                sum.n_samples += line.n_samples;
                sum.sessions += line.sessions;
                sum.active += line.active;
                sum.idle_in_transaction += line.idle_in_transaction;
                sum.active_max = sum.active_max.max(line.active_max);
                sum.hidden += line.hidden;
            }
            StatsLine::Noticed { what, .. } => self.notices.push(what),
            StatsLine::Ended(ended) => self.ended = Some(ended),
            StatsLine::Database { .. } | StatsLine::Columns { .. } => {}
        }
    }

    fn take_statements(&mut self, line: StatementsLine, readings: &mut Readings) {
        let is_first = self.span_us.is_none();
        let is_reset = readings.reset.as_ref().is_some_and(|reset| *reset != line.reset);
        if is_reset {
            self.n_resets += 1;
            readings.before.clear();
            readings.hidden_before = 0;
        }
        readings.reset = Some(line.reset);
        // What was dropped begins at zero when it is called again.
        for id in &line.gone {
            readings.before.remove(id);
        }
        for (id, figures) in line.statements {
            let before = readings.before.get(&id).copied();
            let more = before.and_then(|before| figures.since(&before)).unwrap_or(figures);
            if !is_first && more.calls > 0 {
                self.statements.entry(id.clone()).or_default().add(&more);
            }
            readings.before.insert(id, figures);
        }
        if !is_first {
            self.hidden_calls += line.hidden_calls.saturating_sub(readings.hidden_before);
            if let (Some(now), Some(before)) = (line.n_evictions, readings.evictions) {
                *self.n_evictions.get_or_insert(0) += now.saturating_sub(if is_reset { 0 } else { before });
            }
        }
        readings.hidden_before = line.hidden_calls;
        readings.evictions = line.n_evictions;
        let first_us = self.span_us.map_or(line.at_us, |(first_us, _)| first_us);
        self.span_us = Some((first_us, line.at_us));
    }

    /// Seconds between the first and the last reading of statements.
    pub fn length_s(&self) -> f64 {
        self.span_us.map_or(0.0, |(first_us, last_us)| (last_us - first_us).max(0) as f64 / 1e6)
    }

    /// Why there are no figures of statements, if there are none.
    pub fn why_uncounted(&self) -> &str {
        self.begun.unknown.get("statements").map_or("it was ended too early", String::as_str)
    }

    /// What statements did, each under its identity, which several identifiers of the server can share; without pgdyno's own.
    pub fn figures(&self, identity: fn(&str) -> u64) -> WorkloadFigures {
        let mut found = WorkloadFigures { length_s: self.length_s(), ..WorkloadFigures::default() };
        let mut nameless = StatementFigures::default();
        let mut by_time: Vec<(&String, &StatementFigures)> = self.statements.iter().collect();
        by_time.sort_by(|a, b| b.1.time_us.total_cmp(&a.1.time_us));
        for (id, figures) in by_time {
            match self.texts.get(id) {
                Some(text) if text.starts_with(OWN_COMMENT) => {}
                Some(text) if !may_be_cut_off(text) => {
                    let statement =
                        CountedStatement { text: one_line(text), is_reproduced: None, figures: *figures };
                    found.add(format!("{:016x}", identity(text)), statement);
                }
                _ => nameless.add(figures),
            }
        }
        if nameless.calls > 0 {
            let why = format!("{} calls of statements without a text, or a very long one", nameless.calls);
            found.unknown.insert("texts".to_string(), why);
        }
        found.others.add(&nameless);
        if self.activity.n_samples > 0 && self.activity.hidden == 0 {
            found.active_sessions = Some(self.activity.active as f64 / self.activity.n_samples as f64);
        }
        found.unknown.extend(self.begun.unknown.clone());
        if self.hidden_calls > 0 {
            let why = format!("{} calls of statements that the role could not see", self.hidden_calls);
            found.unknown.insert("hidden statements".to_string(), why);
        }
        if self.n_resets > 0 {
            let why = format!(
                "pg_stat_statements was reset {} times: calls before each reset are missing",
                self.n_resets
            );
            found.unknown.insert("reset".to_string(), why);
        }
        if let Some(n) = self.n_evictions.filter(|n| *n > 0) {
            let why = format!(
                "pg_stat_statements dropped statements {n} times (pg_stat_statements.max): their calls are missing"
            );
            found.unknown.insert("evictions".to_string(), why);
        }
        found
    }
}

fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::super::StatsWriter;
    use super::*;

    fn figures(calls: u64) -> StatementFigures {
        StatementFigures { calls, time_us: 10.0 * calls as f64, rows: Some(calls), ..Default::default() }
    }

    fn reading(at_s: i64, statements: &[(&str, u64)]) -> StatementsLine {
        StatementsLine {
            at_us: at_s * 1_000_000,
            statements: statements.iter().map(|(id, calls)| (id.to_string(), figures(*calls))).collect(),
            reset: Some("2026-11-01".to_string()),
            n_evictions: Some(3),
            ..StatementsLine::default()
        }
    }

    fn file(lines: &[StatsLine]) -> Vec<u8> {
        let mut writer = StatsWriter::new(Vec::new()).unwrap();
        lines.iter().for_each(|line| writer.write(line).unwrap());
        writer.finish().unwrap()
    }

    fn begun() -> StatsLine {
        StatsLine::Begun(Begun { format: STATS_FORMAT, server: "15.4".to_string(), ..Begun::default() })
    }

    fn texts() -> StatsLine {
        let texts = [("1", "select $1"), ("2", "SELECT  $1"), ("3", "/* pgdyno */ select now()")];
        StatsLine::Texts { texts: texts.map(|(id, text)| (id.to_string(), text.to_string())).into() }
    }

    /// A stand-in for the identity: the text in lower case without spaces.
    fn identity(text: &str) -> u64 {
        text.to_lowercase()
            .split_whitespace()
            .flat_map(str::bytes)
            .fold(0, |sum, byte| sum * 31 + u64::from(byte))
    }

    #[test]
    fn calls_count_from_the_first_reading_and_again_after_a_reset_or_an_eviction() {
        use StatsLine::Statements;
        let gone = StatementsLine {
            gone: vec!["2".to_string()],
            n_evictions: Some(4),
            ..reading(20, &[("1", 130)])
        };
        let reset = StatementsLine {
            reset: Some("2026-11-02".to_string()),
            n_evictions: Some(0),
            ..reading(40, &[("1", 7)])
        };
        let lines = [
            begun(),
            Statements(reading(0, &[("1", 100), ("2", 5), ("3", 50)])),
            texts(),
            Statements(reading(10, &[("1", 120), ("3", 51)])),
            Statements(gone),
            // Called again, and more often than before it was dropped.
            Statements(StatementsLine { n_evictions: Some(4), ..reading(30, &[("2", 8)]) }),
            Statements(reset),
        ];
        let found = SourceStatistics::read(&file(&lines)[..]).unwrap();
        let calls: Vec<_> = found.statements.iter().map(|(id, one)| (id.as_str(), one.calls)).collect();
        assert_eq!(calls, [("1", 37), ("2", 8), ("3", 1)]);
        assert_eq!((found.n_resets, found.n_evictions, found.length_s()), (1, Some(1), 40.0));
        let workload = found.figures(identity);
        assert_eq!(workload.statements.len(), 1, "one identity, and nothing of pgdyno");
        let only = workload.statements.values().next().unwrap();
        assert_eq!((only.figures.calls, only.figures.rows, only.text.as_str()), (45, Some(45), "select $1"));
        let keys: Vec<&String> = workload.unknown.keys().collect();
        assert_eq!(keys, ["evictions", "reset"]);
    }

    #[test]
    fn statements_without_a_text_are_others() {
        let lines = [
            begun(),
            StatsLine::Statements(reading(0, &[])),
            StatsLine::Statements(StatementsLine { hidden_calls: 4, ..reading(10, &[("9", 6)]) }),
        ];
        let workload = SourceStatistics::read(&file(&lines)[..]).unwrap().figures(identity);
        assert_eq!((workload.statements.len(), workload.others.calls), (0, 6));
        assert!(workload.unknown.contains_key("texts") && workload.unknown.contains_key("hidden statements"));
    }

    #[test]
    fn a_file_that_was_cut_off_is_read_up_to_there_and_another_one_is_refused() {
        let whole = file(&[begun(), StatsLine::Statements(reading(0, &[("1", 1)])), texts()]);
        for length in 1..whole.len() {
            // Whatever is there: no panic, and what is read is a beginning.
            if let Ok(found) = SourceStatistics::read(&whole[..length]) {
                assert_eq!(found.begun.server, "15.4");
            }
        }
        let refused = |bytes: &[u8]| format!("{:#}", SourceStatistics::read(bytes).unwrap_err());
        assert!(refused(b"csv,file\n").contains("zstd") || refused(b"csv,file\n").contains("line 1"));
        let packed = |text: &str| zstd::encode_all(text.as_bytes(), 1).unwrap();
        assert!(
            refused(&packed("{\"a\":1}\n")).contains("line 1 is none of a file of `pgdyno capture stats`")
        );
        assert!(refused(&file(&[texts()])).contains("the first line"));
        let newer = StatsLine::Begun(Begun { format: 9, ..Begun::default() });
        assert!(refused(&file(&[newer])).contains("use a newer pgdyno"));
        assert!(refused(&packed("")).contains("empty"));
    }

    #[test]
    fn secrets_do_not_reach_the_file() {
        let values = [("primary_conninfo".to_string(), "host=a password=geheim".to_string())].into();
        let bytes = file(&[begun(), StatsLine::Settings { values }]);
        let text = String::from_utf8(zstd::decode_all(&bytes[..]).unwrap()).unwrap();
        assert!(!text.contains("geheim") && text.contains("hidden"), "{text}");
    }
}
