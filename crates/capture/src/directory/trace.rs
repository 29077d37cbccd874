//! The trace of a directory: its transactions one by one, with sessions, instants and values, and what each write waits for.

mod gates;
mod lanes;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, HashMap};

use anyhow::{Context, Result, bail, ensure};
use model::directory::trace::{
    TRACE_CLIENTS_MAX, TRACE_FORMAT, TRACE_FORMS_MAX, TRACE_STATEMENTS_MAX, TRACE_TRANSACTIONS_MAX, Trace,
    TraceForm, TraceHead, TraceStatement, TraceTransaction,
};

use crate::directory::lines;
use crate::directory::made::Making;
use crate::directory::trace::lanes::lanes;
use crate::forms::Forms;
use crate::privacy::{Mask, Place, Privacy};
use crate::reader::ReadLog;
use crate::role::rules::{KEPT_BYTES_MAX, is_programs};
use crate::statement::literal::array_text;
use crate::statement::{Form, FormPiece, Origin, SlotValue, StatementRole};
use crate::transaction::traced::TracedTransactions;
use crate::transaction::{CutStep, CutTransaction};

/// Level of zstd: most of a trace is repeated.
const LEVEL: i32 = 9;
/// Statements of a frame that the log lacks.
const BEGIN: &str = "begin";
const END: &str = "end";
const ROLLBACK: &str = "rollback";

/// A trace as a file.
pub(super) struct TraceFile {
    pub(super) bytes: Vec<u8>,
    /// What people should know about it.
    pub(super) note: String,
}

/// Makes the file.
///
/// # Errors
/// A log that tells too little for a trace, or too much; the words say what to do.
pub(super) fn file(
    read: &ReadLog,
    traced: TracedTransactions,
    making: &Making<'_>,
    is_simple: bool,
    mask: &mut Mask,
) -> Result<TraceFile> {
    ensure!(
        read.has_durations,
        "a trace needs durations, which this log lacks: set log_min_duration_statement = 0, or leave --trace out"
    );
    ensure!(
        read.has_fractions,
        "the times of this log are whole seconds, of which no pace can be read: use %m in log_line_prefix, or csvlog, or leave --trace out"
    );
    ensure!(
        !traced.is_too_long,
        "the transactions do not fit into the memory for a trace: take a shorter --window"
    );
    let n_all = traced.all.len();
    let mut transactions: Vec<CutTransaction> =
        traced.all.into_iter().filter(|one| is_kept(one, &read.forms, making.privacy)).collect();
    ensure!(!transactions.is_empty(), "no transaction of the log can be in a trace; leave --trace out");
    transactions.sort_by_key(|one| (one.began_us(), one.session, one.steps[0].number));
    let n_left = n_all - transactions.len();
    let maker = Maker {
        forms: &read.forms,
        making,
        is_simple,
        casts: BTreeMap::new(),
        literals: literals(&transactions, &read.forms),
        numbers: HashMap::new(),
    };
    let trace = maker.trace(&transactions, mask)?;
    let text = trace.text().map_err(anyhow::Error::msg).context("the trace")?;
    let bytes = zstd::encode_all(text.as_bytes(), LEVEL).context("the trace cannot be packed")?;
    let n_gates: usize =
        trace.transactions.iter().flat_map(|one| &one.statements).map(|one| one.gates.len()).sum();
    let mut note = format!(
        "`{}` has {} transactions of {} sessions, and {n_gates} writes that wait for the writer before them",
        model::directory::trace::TRACE_FILE,
        trace.head.n_transactions,
        trace.head.n_sessions
    );
    if n_left > 0 {
        note.push_str(&format!(
            "; {n_left} with values that are cut off, or that must be masked in their texts, are not in it"
        ));
    }
    Ok(TraceFile { bytes, note })
}

/// Whether a transaction can be replayed as it was.
fn is_kept(transaction: &CutTransaction, forms: &Forms, privacy: Privacy) -> bool {
    let is_whole = |step: &CutStep| {
        let form = forms.form(step.form);
        let is_cut = step.values.iter().any(|value| matches!(value, SlotValue::Truncated(_)));
        let tells = privacy != Privacy::Values && lines::has_literals(form);
        !(is_cut || tells || form.role == StatementRole::End { chains: true })
    };
    transaction.steps.iter().all(is_whole)
}

/// Makes a trace of transactions.
struct Maker<'a> {
    forms: &'a Forms,
    making: &'a Making<'a>,
    is_simple: bool,
    /// Casts of numbers that become parameters, and whether all values of a number are plain, by form and slot.
    casts: BTreeMap<(u32, usize), NumberKind>,
    /// What is known about literals, by form and slot.
    literals: BTreeMap<(u32, usize), Literal>,
    /// Statements of the trace by their texts.
    numbers: HashMap<String, u32>,
}

/// What all executions of a statement have in the place of a literal.
struct Literal {
    /// Executions.
    n: usize,
    /// The text if it is one and the same.
    only: Option<Box<str>>,
}

fn literals(transactions: &[CutTransaction], forms: &Forms) -> BTreeMap<(u32, usize), Literal> {
    let mut found: BTreeMap<(u32, usize), Literal> = BTreeMap::new();
    for step in transactions.iter().flat_map(|one| &one.steps) {
        for (at, (slot, value)) in forms.form(step.form).slots.iter().zip(&step.values).enumerate() {
            if !matches!(slot.origin, Origin::Text | Origin::Number) {
                continue;
            }
            let kept = || value.text().filter(|text| text.len() <= KEPT_BYTES_MAX);
            let known = found
                .entry((step.form, at))
                .or_insert_with(|| Literal { n: 0, only: kept().map(Into::into) });
            known.n += 1;
            if known.only.as_deref() != kept() {
                known.only = None;
            }
        }
    }
    found
}

/// The narrowest kind of all numbers of a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum NumberKind {
    Integer,
    Bigint,
    Numeric,
    /// Such as `0x1f`, which is written with quotes.
    Odd,
}

impl NumberKind {
    fn from_text(text: &str) -> NumberKind {
        match text.parse::<i64>() {
            Ok(n) if i32::try_from(n).is_ok() => NumberKind::Integer,
            Ok(_) => NumberKind::Bigint,
            Err(_) if text.parse::<f64>().is_ok_and(f64::is_finite) => NumberKind::Numeric,
            Err(_) => NumberKind::Odd,
        }
    }

    fn cast(self) -> &'static str {
        match self {
            NumberKind::Integer => "::integer",
            NumberKind::Bigint => "::bigint",
            NumberKind::Numeric | NumberKind::Odd => "::numeric",
        }
    }
}

impl Maker<'_> {
    fn trace(mut self, transactions: &[CutTransaction], mask: &mut Mask) -> Result<Trace> {
        self.note_numbers(transactions);
        let began_us = transactions.iter().map(CutTransaction::began_us).min().unwrap_or(0);
        let ended_us = transactions.iter().map(CutTransaction::ended_us).max().unwrap_or(0);
        let lanes = lanes(transactions);
        let gates = gates::gates(transactions, self.forms, self.making.facts);
        let mut forms = Vec::new();
        let mut made = Vec::with_capacity(transactions.len());
        for (number, one) in transactions.iter().enumerate() {
            let statements = self.statements(one, &gates[number], &mut forms, mask);
            let at_us = one.began_us().abs_diff(began_us);
            made.push(TraceTransaction { client: lanes.of[number], at_us, statements });
        }
        let n_statements: usize = made.iter().map(|one| one.statements.len()).sum();
        let bounds = [
            (made.len(), TRACE_TRANSACTIONS_MAX, "transactions"),
            (n_statements, TRACE_STATEMENTS_MAX, "statements"),
            (forms.len(), TRACE_FORMS_MAX, "different statements"),
            (lanes.n as usize, TRACE_CLIENTS_MAX as usize, "sessions at a time"),
        ];
        if let Some((n, most, what)) = bounds.iter().find(|(n, most, _)| n > most) {
            bail!(
                "the trace has {n} {what}, and at most {most} fit: take a shorter --window, or one --database, --user or --application"
            );
        }
        let head = TraceHead {
            format: TRACE_FORMAT,
            n_clients: lanes.n,
            n_sessions: lanes.n_sessions,
            n_forms: forms.len() as u32,
            n_transactions: made.len() as u32,
            n_statements: n_statements as u64,
            length_us: ended_us.abs_diff(began_us),
            n_each_max: lanes.n_each_max,
        };
        Ok(Trace { head, forms, transactions: made })
    }

    /// Finds out what numbers in texts are.
    fn note_numbers(&mut self, transactions: &[CutTransaction]) {
        for step in transactions.iter().flat_map(|one| &one.steps) {
            let slots = &self.forms.form(step.form).slots;
            for (at, (slot, value)) in slots.iter().zip(&step.values).enumerate() {
                if let (Origin::Number, Some(text)) = (slot.origin, value.text()) {
                    let kind = NumberKind::from_text(text);
                    let known = self.casts.entry((step.form, at)).or_insert(kind);
                    *known = kind.max(*known);
                }
            }
        }
    }

    fn statements(
        &mut self,
        one: &CutTransaction,
        gates: &[Vec<u32>],
        forms: &mut Vec<TraceForm>,
        mask: &mut Mask,
    ) -> Box<[TraceStatement]> {
        let mut made = Vec::with_capacity(one.steps.len() + 2);
        let is_framed = !one.is_block && one.steps.len() > 1;
        if is_framed {
            made.push(self.fixed(BEGIN, 0, forms));
        }
        let mut end_us = one.began_us();
        for (step, gates) in one.steps.iter().zip(gates) {
            let form = self.number(step.form, forms);
            let error = step.error.map(|state| String::from_utf8_lossy(&state).into());
            made.push(TraceStatement {
                form,
                after_us: u64::try_from(step.start_us.saturating_sub(one.began_us())).unwrap_or(0),
                pause_us: u64::try_from(step.start_us.saturating_sub(end_us)).unwrap_or(0),
                values: self.values(step, mask),
                error,
                gates: gates.as_slice().into(),
            });
            end_us = step.start_us.saturating_add_unsigned(step.time_us);
        }
        let after_us = u64::try_from(one.ended_us().saturating_sub(one.began_us())).unwrap_or(0);
        let ends = |step: &CutStep| matches!(self.forms.form(step.form).role, StatementRole::End { .. });
        if is_framed {
            made.push(self.fixed(END, after_us, forms));
        } else if one.is_block && !one.steps.last().is_some_and(ends) {
            // The session ended within its block.
            made.push(self.fixed(ROLLBACK, after_us, forms));
        }
        made.into()
    }

    fn fixed(&mut self, text: &str, after_us: u64, forms: &mut Vec<TraceForm>) -> TraceStatement {
        let form = self.placed(TraceForm { text: text.to_string(), values: String::new() }, forms);
        TraceStatement { form, after_us, ..TraceStatement::default() }
    }

    /// The number of a statement in the trace.
    fn number(&mut self, number: u32, forms: &mut Vec<TraceForm>) -> u32 {
        let form = self.forms.form(number);
        let mut text = String::new();
        for piece in &form.pieces {
            match piece {
                FormPiece::Text(plain) => text.push_str(plain),
                FormPiece::Slot(slot) => {
                    let place = (number, usize::from(*slot));
                    let kind = if self.is_simple { None } else { self.casts.get(&place) };
                    text.push_str(&format!(":v{}{}", slot + 1, kind.map_or("", |kind| kind.cast())));
                }
            }
        }
        let kind = |at: usize| {
            let is_plain = self.casts.get(&(number, at)).is_some_and(|kind| *kind != NumberKind::Odd);
            if is_plain && self.is_simple { 'n' } else { 'q' }
        };
        let values = (0..form.slots.len()).map(kind).collect();
        self.placed(TraceForm { text: text.trim().to_string(), values }, forms)
    }

    fn placed(&mut self, form: TraceForm, forms: &mut Vec<TraceForm>) -> u32 {
        let key = format!("{}\0{}", form.text, form.values);
        *self.numbers.entry(key).or_insert_with(|| {
            forms.push(form);
            forms.len() as u32 - 1
        })
    }

    fn values(&self, step: &CutStep, mask: &mut Mask) -> Box<[Option<Box<str>>]> {
        let form = self.forms.form(step.form);
        let value = |(at, value): (usize, &SlotValue)| {
            let mut masked = |text: &str| self.masked(step.form, form, at, text, mask);
            match value {
                SlotValue::Null => None,
                SlotValue::Text(text) | SlotValue::Truncated(text) => Some(masked(text).into()),
                SlotValue::List(all) => {
                    let all: Vec<Option<String>> =
                        all.iter().map(|one| one.as_deref().map(&mut masked)).collect();
                    Some(array_text(all.iter().map(Option::as_deref)).into())
                }
            }
        };
        step.values.iter().enumerate().map(value).collect()
    }

    /// A value as the directory has it: literals that all executions have, by the rule of those in its transactions, others as in its
    /// captured rows.
    fn masked(&self, number: u32, form: &Form, at: usize, text: &str, mask: &mut Mask) -> String {
        let facts = self.making.facts.get(&number).and_then(|facts| facts.slots.get(at));
        let known = facts.and_then(|facts| facts.column.as_ref());
        let hint = &form.slots[at].hint;
        let is_text = facts.filter(|facts| !facts.type_name.is_empty()).map(|facts| facts.is_text());
        let column = known.map(|known| known.column.as_str()).or(hint.column.as_deref());
        let place = Place { column, is_text };
        match self.literals.get(&(number, at)) {
            Some(Literal { n, only: Some(_) }) => {
                let usage = known.map_or(hint.usage, |known| known.usage);
                mask.literal(text, place, is_programs(usage, form.has_parameters(), *n))
            }
            _ => mask.value(text, place),
        }
    }
}
