//! The trace of a directory: its transactions one by one, with sessions, instants and values, and what each write waits for.

mod gates;
mod lanes;
#[cfg(test)]
mod tests;
mod texts;

use anyhow::{Context, Result, anyhow, bail, ensure};
use model::directory::trace::{
    TRACE_CLIENTS_MAX, TRACE_FORMAT, TRACE_FORMS_MAX, TRACE_PACKED_BYTES_MAX, TRACE_STATEMENTS_MAX,
    TRACE_TRANSACTIONS_MAX, Trace, TraceHead, TraceStatement, TraceTransaction,
};

use crate::directory::lines;
use crate::directory::made::Making;
use crate::directory::trace::lanes::lanes;
use crate::directory::trace::texts::Texts;
use crate::forms::Forms;
use crate::privacy::{Mask, Privacy};
use crate::reader::ReadLog;
use crate::statement::{SlotValue, StatementRole};
use crate::transaction::traced::TracedTransactions;
use crate::transaction::{CutStep, CutTransaction};

/// Level of zstd: most of a trace is repeated.
const LEVEL: i32 = 9;
/// Statements of a frame that the log lacks.
const BEGIN: &str = "begin";
const END: &str = "end";
const ROLLBACK: &str = "rollback";
/// The advice for a trace that is too large.
const SHORTER: &str = "take a shorter --window, or one --database, --user or --application";

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
    let texts = Texts::new(&transactions, &read.forms, making.facts, is_simple);
    let maker = Maker { forms: &read.forms, making, texts };
    let trace = maker.trace(&transactions, mask)?;
    let n_gates: usize =
        trace.transactions.iter().flat_map(|one| &one.statements).map(|one| one.gates.len()).sum();
    let text = trace.text();
    let head = trace.head.clone();
    drop(trace);
    let bytes = packed(text)?;
    let mut note = format!(
        "`{}` has {} transactions of {} sessions, and {n_gates} writes that wait for the writer before them",
        model::directory::trace::TRACE_FILE,
        head.n_transactions,
        head.n_sessions
    );
    if n_left > 0 {
        note.push_str(&format!(
            "; {n_left} with values that are cut off, or that must be masked in their texts, are not in it"
        ));
    }
    Ok(TraceFile { bytes, note })
}

/// The text of a trace as a file that a run takes: it is read back before anybody has it.
///
/// # Errors
/// When it is beyond the bounds of a reader.
fn packed(text: Result<String, String>) -> Result<Vec<u8>> {
    let read = text.and_then(|text| Trace::parsed(&text).map(|_| text));
    let text = read.map_err(|why| anyhow!("no run takes the trace: {why}; {SHORTER}"))?;
    zstd::encode_all(text.as_bytes(), LEVEL).context("the trace cannot be packed")
}

/// Fails if drivers do not take a trace of so many bytes with these captured rows.
///
/// # Errors
/// With what to do.
pub(super) fn expect_sendable(draws: u64, trace: u64) -> Result<()> {
    ensure!(
        draws.saturating_add(trace) <= TRACE_PACKED_BYTES_MAX,
        "no run takes the trace: it has {trace} bytes and the captured rows have {draws}, and a driver takes {TRACE_PACKED_BYTES_MAX}; {SHORTER}"
    );
    Ok(())
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
    texts: Texts<'a>,
}

impl Maker<'_> {
    fn trace(mut self, transactions: &[CutTransaction], mask: &mut Mask) -> Result<Trace> {
        let began_us = transactions.iter().map(CutTransaction::began_us).min().unwrap_or(0);
        let ended_us = transactions.iter().map(CutTransaction::ended_us).max().unwrap_or(0);
        let lanes = lanes(transactions);
        let gates = gates::gates(transactions, self.forms, self.making.facts);
        let mut made = Vec::with_capacity(transactions.len());
        for (number, one) in transactions.iter().enumerate() {
            let statements = self.statements(one, &gates[number], mask);
            let at_us = one.began_us().abs_diff(began_us);
            made.push(TraceTransaction { client: lanes.of[number], at_us, statements });
        }
        let n_statements: usize = made.iter().map(|one| one.statements.len()).sum();
        let bounds = [
            (made.len(), TRACE_TRANSACTIONS_MAX, "transactions"),
            (n_statements, TRACE_STATEMENTS_MAX, "statements"),
            (self.texts.len(), TRACE_FORMS_MAX, "different statements"),
            (lanes.n as usize, TRACE_CLIENTS_MAX as usize, "sessions at a time"),
        ];
        if let Some((n, most, what)) = bounds.iter().find(|(n, most, _)| n > most) {
            bail!("the trace has {n} {what}, and at most {most} fit: {SHORTER}");
        }
        let head = TraceHead {
            format: TRACE_FORMAT,
            n_clients: lanes.n,
            n_sessions: lanes.n_sessions,
            n_forms: self.texts.len() as u32,
            n_transactions: made.len() as u32,
            n_statements: n_statements as u64,
            length_us: ended_us.abs_diff(began_us),
            n_each_max: lanes.n_each_max,
        };
        Ok(Trace { head, forms: self.texts.into_all(), transactions: made })
    }

    fn statements(
        &mut self,
        one: &CutTransaction,
        gates: &[Vec<u32>],
        mask: &mut Mask,
    ) -> Box<[TraceStatement]> {
        let mut made = Vec::with_capacity(one.steps.len() + 2);
        let is_framed = !one.is_block && one.steps.len() > 1;
        if is_framed {
            made.push(self.fixed(BEGIN, 0));
        }
        let mut end_us = one.began_us();
        for (step, gates) in one.steps.iter().zip(gates) {
            let (form, values) = self.texts.statement(step, mask);
            let error = step.error.map(|state| String::from_utf8_lossy(&state).into());
            made.push(TraceStatement {
                form,
                after_us: u64::try_from(step.start_us.saturating_sub(one.began_us())).unwrap_or(0),
                pause_us: u64::try_from(step.start_us.saturating_sub(end_us)).unwrap_or(0),
                values,
                error,
                gates: gates.as_slice().into(),
            });
            end_us = step.start_us.saturating_add_unsigned(step.time_us);
        }
        let after_us = u64::try_from(one.ended_us().saturating_sub(one.began_us())).unwrap_or(0);
        let ends = |step: &CutStep| matches!(self.forms.form(step.form).role, StatementRole::End { .. });
        if is_framed {
            made.push(self.fixed(END, after_us));
        } else if one.is_block && !one.steps.last().is_some_and(ends) {
            // The session ended within its block.
            made.push(self.fixed(ROLLBACK, after_us));
        }
        made.into()
    }

    fn fixed(&mut self, text: &str, after_us: u64) -> TraceStatement {
        TraceStatement { form: self.texts.fixed(text), after_us, ..TraceStatement::default() }
    }
}
