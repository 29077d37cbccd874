//! A workload of what a server counted alone, without a log: each statement is a transaction of its own, as often as it was called, with
//! values as pg_stats describes the columns that they meet.
//!
//! Which statements belonged together, and which values, nobody has counted: this is an approximation at best.

mod texts;
mod values;

pub use self::values::ColumnValues;

use std::collections::BTreeMap;

use anyhow::{Result, bail, ensure};
use model::run::fidelity::{
    CountedStatement, OWN_COMMENT, StatementFigures, UNKNOWN_TRANSACTIONS, WorkloadFigures, may_be_cut_off,
};

use self::texts::{with_casts, with_parameters};
use self::values::{SlotDraw, draw_row};
use crate::balance::{OmissionReason, TimeShare};
use crate::directory::{MadeDirectory, Making, make};
use crate::forms::Forms;
use crate::log::Protocol;
use crate::reader::{CaptureWindow, ReadLog};
use crate::role::FormFacts;
use crate::statement::form::{VALUES_MAX, take};
use crate::statement::identity;
use crate::statement::kind::role;
use crate::statement::lexer::{Backslash, tokens};
use crate::statement::{SlotValue, StatementRole};
use crate::statistics::SourceStatistics;
use crate::template::reservoir::Mixer;
use crate::transaction::{CutStep, CutTransaction};

/// Rows of values that are drawn for a statement.
const ROWS_MAX: u64 = 1000;
/// Most sessions of a directory that statistics of sessions say.
const CLIENTS_MAX: f64 = 1000.0;

/// The answer of a copy of the source about a statement.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CountedAnswer {
    /// Types and columns of its values.
    pub facts: FormFacts,
    /// The types that the server could not infer, by the number of the value from 0: the script has to name them.
    pub guessed: BTreeMap<usize, String>,
    /// What pg_stats says of the columns that values meet, by the number of the value.
    pub columns: BTreeMap<usize, ColumnValues>,
}

/// Statements as they were counted, without values yet.
#[derive(Debug)]
pub struct CountedStatements {
    read: ReadLog,
    figures: BTreeMap<u32, StatementFigures>,
    /// Elements of the long lists of a statement, by the number of the value.
    lists: BTreeMap<(u32, usize), usize>,
    /// Figures of the source without its statements, but those that have no text.
    rest: WorkloadFigures,
    n_clients: usize,
}

impl CountedStatements {
    /// The statements of a file of statistics.
    ///
    /// # Errors
    /// When it has none.
    pub fn new(statistics: &SourceStatistics) -> Result<CountedStatements> {
        let Some((from_us, to_us)) = statistics.span_us.filter(|(from_us, to_us)| from_us < to_us) else {
            bail!("it has no two readings of pg_stat_statements: {}", statistics.why_uncounted());
        };
        let activity = &statistics.activity;
        let sessions = activity.sessions as f64 / activity.n_samples.max(1) as f64;
        let mut found = CountedStatements {
            read: ReadLog {
                span: Some(CaptureWindow { from_us, to_us }),
                has_durations: true,
                ..ReadLog::default()
            },
            figures: BTreeMap::new(),
            lists: BTreeMap::new(),
            rest: WorkloadFigures {
                statements: BTreeMap::new(),
                others: StatementFigures::default(),
                ..statistics.figures(identity)
            },
            n_clients: sessions.ceil().min(CLIENTS_MAX) as usize,
        };
        for (id, figures) in &statistics.statements {
            match statistics.texts.get(id) {
                None => found.rest.others.add(figures),
                Some(text) if text.starts_with(OWN_COMMENT) => {}
                Some(text) => found.count(text, figures),
            }
        }
        ensure!(!found.figures.is_empty(), "it has no statement with a text");
        Ok(found)
    }

    fn count(&mut self, text: &str, figures: &StatementFigures) {
        let text = with_parameters(text);
        let tokens = tokens(&text, Backslash::Plain);
        let role = match role(&text, &tokens) {
            StatementRole::Begin | StatementRole::End { .. } | StatementRole::Fixed => {
                StatementRole::Refused(OmissionReason::Frame)
            }
            _ if may_be_cut_off(&text) => StatementRole::Refused(OmissionReason::TooLong),
            role => role,
        };
        let taken = take(&text, &tokens, role, &[], Backslash::Plain);
        let share = TimeShare { calls: figures.calls, time_us: figures.time_us.round() as u64 };
        let number = self.read.forms.count(taken.form, &[], &Protocol::Extended, share);
        for (slot, value) in taken.values.iter().enumerate() {
            if let SlotValue::List(all) = value {
                self.lists.insert((number, slot), all.len());
            }
        }
        self.read.balance.total.add(share);
        self.figures.entry(number).or_default().add(figures);
    }

    /// The statements by their numbers, to ask about those that are work.
    pub fn forms(&self) -> &Forms {
        &self.read.forms
    }

    /// The directory, with the answers about the statements by their numbers; those without an answer are left out.
    ///
    /// # Errors
    /// When nothing is left.
    pub fn directory(
        mut self,
        answers: &BTreeMap<u32, CountedAnswer>,
        making: &Making<'_>,
    ) -> Result<MadeDirectory> {
        let mut mixer = Mixer::new(1);
        let numbers: Vec<u32> = self.figures.keys().copied().collect();
        for number in numbers {
            if let Err(reason) = self.transaction(number, answers.get(&number), &mut mixer) {
                let share = self.read.forms.all[number as usize].share;
                self.read.leave_out(reason, number, share);
            }
        }
        let statistics = self.source();
        let facts = answers.iter().map(|(number, answer)| (*number, answer.facts.clone())).collect();
        let making = Making {
            facts: &facts,
            statistics: Some(&statistics),
            n_clients: Some(self.n_clients),
            ..making.clone()
        };
        make(&mut self.read, &making)
    }

    /// Makes a transaction of a statement.
    fn transaction(
        &mut self,
        number: u32,
        answer: Option<&CountedAnswer>,
        mixer: &mut Mixer,
    ) -> Result<(), OmissionReason> {
        let known = &mut self.read.forms.all[number as usize];
        match known.form.role {
            StatementRole::Work(_) => {}
            StatementRole::Refused(reason) | StatementRole::Dropped(reason) => return Err(reason),
            _ => return Err(OmissionReason::SessionState),
        }
        if known.is_cursor {
            return Err(OmissionReason::Cursor);
        }
        if known.form.slots.len() > VALUES_MAX {
            return Err(OmissionReason::TooManyValues);
        }
        let answer = answer.ok_or(OmissionReason::Unexplained)?;
        with_casts(&mut known.form, &answer.guessed);
        let figures = &self.figures[&number];
        let rows_per_call = figures.rows.map_or(1.0, |rows| rows as f64 / figures.calls.max(1) as f64);
        let slots: Vec<SlotDraw<'_>> = known
            .form
            .slots
            .iter()
            .enumerate()
            .map(|(at, slot)| SlotDraw {
                slot,
                facts: answer.facts.slots.get(at),
                column: answer.columns.get(&at),
                n_elements: self.lists.get(&(number, at)).copied(),
                rows_per_call,
            })
            .collect();
        let span = self.read.span.unwrap_or(CaptureWindow { from_us: 0, to_us: 1 });
        let length_us = span.to_us.abs_diff(span.from_us).max(1);
        let n_rows = if slots.is_empty() { 1 } else { figures.calls.min(ROWS_MAX) };
        let mut made = Vec::new();
        for row in 0..n_rows {
            let values = draw_row(&slots, row, mixer).ok_or(OmissionReason::Unexplained)?;
            let start_us = span.from_us.saturating_add_unsigned(mixer.below(length_us));
            made.push(CutStep {
                form: number,
                values: values.into(),
                start_us,
                time_us: 0,
                share: TimeShare::default(),
                is_inside: true,
                error: None,
                lacks_values: false,
                number: 0,
            });
        }
        let share = known.share;
        for step in made {
            self.read.templates.add(CutTransaction { session: 0, steps: vec![step], is_block: false });
        }
        let last = self.read.templates.all.last_mut().filter(|template| template.core == [number]);
        let Some(template) = last else { return Err(OmissionReason::Rare) };
        // The rows are drawn; the executions were counted.
        template.n = share.calls;
        template.shares = [(number, share)].into();
        template.by_session.clear();
        Ok(())
    }

    /// What the statements did at the source, each once. Frames of transactions are no part of it: in the replay, each statement has its
    /// own. A text that was perhaps cut off has no identity, and what took least time is a sum where there are too many.
    fn source(&self) -> WorkloadFigures {
        let mut source = self.rest.clone();
        let mut by_time: Vec<(&u32, &StatementFigures)> = self.figures.iter().collect();
        by_time.sort_by(|a, b| b.1.time_us.total_cmp(&a.1.time_us));
        for (number, figures) in by_time {
            let form = self.read.forms.form(*number);
            match form.role {
                StatementRole::Refused(OmissionReason::Frame) => {}
                StatementRole::Refused(OmissionReason::TooLong) => source.others.add(figures),
                _ => {
                    let statement = CountedStatement { figures: *figures, ..CountedStatement::default() };
                    source.add(format!("{:016x}", form.identity), statement);
                }
            }
        }
        let why = "which statements belonged together was not counted: each is a transaction of its own, with drawn values";
        source.unknown.insert(UNKNOWN_TRANSACTIONS.to_string(), why.to_string());
        source
    }
}

#[cfg(test)]
mod tests;
