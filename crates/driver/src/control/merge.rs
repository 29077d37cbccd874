//! Adds up the threads' parts of each interval into the lines that the driver writes.

use std::collections::BTreeMap;

use model::load::ScriptSpec;
use model::load::drive::DriverLine;
use model::load::histogram::Encoder;
use model::load::interval::{Connects, Counts, FACT_MAX, HistogramLine, Interval, StatementErrors};
use model::telemetry::reading::{Tick, TickSource, key};

use crate::clock::{Nanos, WallClock};
use crate::control::usage::{self, CpuUsage};
use crate::tally::{IntervalTally, ScriptTally, Times, sqlstate_text};
use crate::thread::report::ThreadInterval;

/// Collects parts until all threads have delivered theirs, and keeps the totals.
pub(crate) struct Merger {
    scripts: Vec<ScriptSpec>,
    /// Names of the counts other than transactions, by script.
    facts: Vec<Vec<String>>,
    wall: WallClock,
    /// Threads that still deliver parts.
    running: Vec<bool>,
    pending: BTreeMap<u32, Pending>,
    cpu_before: CpuUsage,
    encoder: Encoder,
    pub(crate) totals: Counts,
    pub(crate) errors: BTreeMap<String, u64>,
    pub(crate) connects: Connects,
}

/// An interval that some threads have delivered.
struct Pending {
    delivered: Vec<bool>,
    tally: Option<IntervalTally>,
    start: Nanos,
    end: Nanos,
    gauges: BTreeMap<String, f64>,
    in_flight: u64,
    connected: u64,
    backlog: u64,
    server_transactions: u64,
}

impl Merger {
    pub(crate) fn new(
        scripts: Vec<ScriptSpec>,
        facts: Vec<Vec<String>>,
        wall: WallClock,
        n_threads: usize,
    ) -> Merger {
        Merger {
            scripts,
            facts,
            wall,
            running: vec![true; n_threads],
            pending: BTreeMap::new(),
            cpu_before: usage::cpu(),
            encoder: Encoder::default(),
            totals: Counts::default(),
            errors: BTreeMap::new(),
            connects: Connects::default(),
        }
    }

    /// Takes in a part, and returns a tally that the thread can use again.
    pub(crate) fn add(&mut self, part: ThreadInterval) -> Option<IntervalTally> {
        let n_threads = self.running.len();
        let pending = self.pending.entry(part.t).or_insert_with(|| Pending {
            delivered: vec![false; n_threads],
            tally: None,
            start: part.start,
            end: part.end,
            gauges: BTreeMap::new(),
            in_flight: 0,
            connected: 0,
            backlog: 0,
            server_transactions: 0,
        });
        pending.delivered[part.thread] = true;
        pending.start = pending.start.min(part.start);
        pending.end = pending.end.max(part.end);
        pending.in_flight += part.in_flight;
        pending.connected += part.connected;
        pending.backlog += part.backlog;
        pending.server_transactions += part.server_transactions;
        let thread = part.thread.to_string();
        pending.gauges.insert(key("driver.thread_cpu", &thread), part.thread_cpu_ns as f64 / 1e9);
        if part.polled_ns > 0 {
            pending.gauges.insert(key("driver.thread_polling", &thread), part.polled_ns as f64 / 1e9);
        }
        pending.gauges.insert(key("driver.loop_max", &thread), part.loop_max_ns as f64 / 1e9);
        match &mut pending.tally {
            None => {
                pending.tally = Some(part.tally);
                None
            }
            Some(tally) => {
                tally.add(&part.tally);
                Some(part.tally)
            }
        }
    }

    /// A thread delivers no more parts.
    pub(crate) fn finished(&mut self, thread: usize) {
        self.running[thread] = false;
    }

    /// The lines of the intervals that are complete, and their tallies for use again.
    pub(crate) fn complete(&mut self) -> (Vec<DriverLine>, Vec<IntervalTally>) {
        let (mut lines, mut spare) = (Vec::new(), Vec::new());
        while let Some(entry) = self.pending.first_entry() {
            let all = entry
                .get()
                .delivered
                .iter()
                .zip(&self.running)
                .all(|(&delivered, &running)| delivered || !running);
            if !all {
                break;
            }
            let (t, mut pending) = entry.remove_entry();
            if let Some(mut tally) = pending.tally.take() {
                tally.complete();
                lines.extend(self.interval_lines(t, &pending, &tally));
                spare.push(tally);
            }
            lines.push(DriverLine::Tick(self.tick(pending)));
        }
        (lines, spare)
    }

    fn interval_lines(&mut self, t: u32, pending: &Pending, tally: &IntervalTally) -> Vec<DriverLine> {
        let mut lines = Vec::with_capacity(tally.scripts.len());
        for (index, script) in tally.scripts.iter().enumerate() {
            let errors: BTreeMap<String, u64> =
                script.errors.iter().map(|(state, n)| (sqlstate_text(state), *n)).collect();
            self.totals += script.counts;
            self.connects += script.connects;
            for (sqlstate, n) in &errors {
                *self.errors.entry(sqlstate.clone()).or_default() += n;
            }
            let interval = Interval {
                t,
                script: index as u32,
                start_unix_ns: self.wall.unix(pending.start),
                length_ns: pending.end.saturating_sub(pending.start),
                counts: script.counts,
                errors,
                statements: script.statements.iter().map(|times| times.histogram.len()).collect(),
                statement_rows: script.n_rows.iter().map(|n| (*n).min(FACT_MAX)).collect(),
                statement_errors: statement_errors(script),
                latency: script.latency_moments,
                lag: script.lag_moments,
                connects: script.connects,
                commands: script.commands.clone(),
                facts: self.facts[index]
                    .iter()
                    .cloned()
                    .zip(script.facts.iter().map(|sum| (*sum).min(FACT_MAX)))
                    .collect(),
            };
            let tag = self.scripts[index].tag.clone();
            let histograms = self.histogram_lines(&tag, script);
            lines.push(DriverLine::Interval { interval, histograms });
        }
        lines
    }

    fn histogram_lines(&mut self, tag: &str, script: &ScriptTally) -> Vec<HistogramLine> {
        let mut lines = Vec::new();
        lines.extend(self.histogram_line(tag.to_string(), &script.latency));
        lines.extend(self.histogram_line(format!("{tag}.service"), &script.service));
        if let Some(lag) = &script.lag {
            lines.extend(self.histogram_line(format!("{tag}.lag"), lag));
        }
        for (index, times) in script.statements.iter().enumerate() {
            lines.extend(self.histogram_line(format!("{tag}.{index}"), times));
        }
        lines
    }

    fn histogram_line(&mut self, tag: String, times: &Times) -> Option<HistogramLine> {
        if times.histogram.is_empty() {
            return None;
        }
        Some(self.encoder.line(tag, times.max_ns, &times.histogram))
    }

    fn tick(&mut self, pending: Pending) -> Tick {
        let cpu = usage::cpu();
        let mut values = pending.gauges;
        values.insert("driver.cpu.user".into(), cpu.user_s - self.cpu_before.user_s);
        values.insert("driver.cpu.system".into(), cpu.system_s - self.cpu_before.system_s);
        self.cpu_before = cpu;
        values.insert("driver.server_transactions".into(), pending.server_transactions as f64);
        values.insert("driver.in_flight".into(), pending.in_flight as f64);
        values.insert("driver.connected".into(), pending.connected as f64);
        values.insert("driver.backlog".into(), pending.backlog as f64);
        if let Some(bytes) = usage::resident_bytes() {
            values.insert("driver.memory".into(), bytes as f64);
        }
        Tick {
            source: TickSource::Driver,
            end_unix_ns: self.wall.unix(pending.end),
            length_ns: pending.end.saturating_sub(pending.start),
            values: values.into(),
        }
    }
}

fn statement_errors(script: &ScriptTally) -> Vec<StatementErrors> {
    let errors = script.statement_errors.iter();
    errors
        .map(|(statement, sqlstate, n)| StatementErrors {
            statement: *statement,
            sqlstate: sqlstate_text(sqlstate),
            n: *n,
        })
        .collect()
}
