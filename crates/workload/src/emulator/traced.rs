//! A client of a trace: it runs its transactions once, in order, each not before its instant, and writes wait for the writers before them.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use generator::UnpackFault;
use model::directory::trace::{
    TRACE_BYTES_MAX, TRACE_FILE, Trace, TraceForm, TraceStatement, TraceTransaction,
};
use model::directory::{TraceReplay, WorkloadDirectory};
use model::load::replayed::ReplayedTrace;

use crate::action::{Action, NextTransaction};
use crate::emulator::bundle::Bundle;
use crate::script::declared::quote;
use crate::script::program::ScriptCommand;
use crate::script::statement::{Statement, TextPiece};
use crate::script::value::BoundParameter;
use crate::script::variables::{VariableId, VariableTable};

/// The name of the script that has all statements of a trace.
pub const TRACE_SCRIPT: &str = "trace";
/// Pauses of a client below this are the log's rounding: its times are milliseconds. As in captured transactions.
const PAUSE_US_MIN: u64 = 2_000;
/// How long a write waits for the writer before it. What takes longer has diverged.
const WAIT_NS_MAX: u64 = 1_000_000_000;
/// How often it looks.
const LOOK_NS: u64 = 200_000;

/// A trace that is replayed, shared by its clients.
#[derive(Debug)]
pub struct TracedLoad {
    trace: Trace,
    speed: f64,
    has_gates: bool,
    /// The transactions of each client.
    by_client: Vec<Vec<u32>>,
    /// Whether each transaction has ended.
    ended: Box<[AtomicBool]>,
    /// When the replay began, on the clock of the caller.
    began_ns: OnceLock<u64>,
    /// Which value each variable is.
    slots: Vec<Option<usize>>,
}

impl TracedLoad {
    fn new(trace: Trace, speed: f64, variables: &VariableTable) -> TracedLoad {
        let mut by_client = vec![Vec::new(); trace.head.n_clients as usize];
        for (number, transaction) in trace.transactions.iter().enumerate() {
            by_client[transaction.client as usize].push(number as u32);
        }
        TracedLoad {
            ended: trace.transactions.iter().map(|_| AtomicBool::new(false)).collect(),
            slots: variables.names().map(slot_of).collect(),
            trace,
            speed,
            has_gates: true,
            by_client,
            began_ns: OnceLock::new(),
        }
    }

    /// When something of the source happens here.
    fn due_ns(&self, at_us: u64) -> u64 {
        let began_ns = self.began_ns.get().copied().unwrap_or(0);
        began_ns.saturating_add(self.scaled_ns(at_us))
    }

    fn n_statements(&self, transaction: u32) -> u64 {
        self.trace.transactions[transaction as usize].statements.len() as u64
    }

    fn scaled_ns(&self, us: u64) -> u64 {
        (us as f64 * 1000.0 / self.speed) as u64
    }
}

/// Whether a statement ends its transaction: not only up to a savepoint.
fn ends_transaction(text: &str) -> bool {
    let first = text.split(|c: char| !c.is_ascii_alphabetic()).next().unwrap_or_default();
    let is_end = ["commit", "end", "rollback", "abort"].iter().any(|word| first.eq_ignore_ascii_case(word));
    is_end && !text.to_ascii_lowercase().contains("rollback to")
}

/// Which value the variable `v1` and the following ones are, from 0; `None` of any other name.
fn slot_of(variable: &str) -> Option<usize> {
    variable.strip_prefix('v')?.parse::<usize>().ok()?.checked_sub(1)
}

/// Heads and statements of traces that were read and are sound, by the SHA-256 of their files: a plan asks for them again for each of its
/// cases, and a trace has up to 256 MB.
static SOUND: Mutex<BTreeMap<String, Arc<Trace>>> = Mutex::new(BTreeMap::new());
/// Most of them that are kept: each has up to some megabytes.
const SOUND_MAX: usize = 64;

/// The file of a directory's trace, as messages name it.
fn place_of(directory: &WorkloadDirectory) -> String {
    format!("{}/{TRACE_FILE}", directory.place_words())
}

/// The packed trace of a directory, and its SHA-256.
fn packed_of(directory: &WorkloadDirectory) -> Result<(&str, &[u8]), String> {
    let place = place_of(directory);
    let reference = directory.texts.get(TRACE_FILE).ok_or_else(|| {
        format!("{place}: there is no trace; capture it with `pgdyno capture log --trace`, or leave --replay trace out")
    })?;
    let hash = generator::referenced_sha256(reference);
    let packed = hash.and_then(|hash| Some((hash, &**directory.draws.0.get(hash)?)));
    packed.ok_or_else(|| {
        format!("{place}: the trace of this plan is not at hand; put the file back where it was")
    })
}

/// The text of a packed trace.
fn unpacked(bytes: &[u8], most: u64) -> Result<String, String> {
    generator::draws_unpacked(bytes, most).map_err(|why| match why {
        UnpackFault::Broken(why) => format!("{why}; capture it again with `pgdyno capture log --trace`"),
        UnpackFault::Longer => {
            format!("the trace has more than {most} bytes unpacked; capture a shorter --window, or one --application")
        }
    })
}

/// The trace of a directory, read and checked.
///
/// # Errors
/// What is wrong, with file and line.
fn trace_of(directory: &WorkloadDirectory) -> Result<Trace, String> {
    let (_, bytes) = packed_of(directory)?;
    let trace = unpacked(bytes, TRACE_BYTES_MAX as u64).and_then(|text| Trace::read(&text));
    trace.map_err(|why| format!("{}: {why}", place_of(directory)))
}

/// The head and the statements of a directory's trace. All of it is read and checked the first time.
///
/// # Errors
/// When it is not at hand or no trace: what is wrong, with file and line.
pub fn outline_of(directory: &WorkloadDirectory) -> Result<Arc<Trace>, String> {
    let (hash, _) = packed_of(directory)?;
    let mut sound = SOUND.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(outline) = sound.get(hash) {
        return Ok(Arc::clone(outline));
    }
    let Trace { head, forms, transactions: _ } = trace_of(directory)?;
    let outline = Arc::new(Trace { head, forms, transactions: Vec::new() });
    if sound.len() >= SOUND_MAX {
        sound.clear();
    }
    sound.insert(hash.to_string(), Arc::clone(&outline));
    Ok(outline)
}

/// The statements of a trace as one script.
pub fn script_of(trace: &Trace) -> String {
    trace.forms.iter().map(|form| format!("{};\n", form.text.trim_end_matches([';', ' ', '\n']))).collect()
}

impl Bundle {
    /// The script of a trace, whose statements are all that it has.
    ///
    /// # Errors
    /// A script that has anything else.
    pub(crate) fn of_trace(scripts: &[(&str, &str, u32)]) -> Result<Bundle, String> {
        let bundle = Bundle::compile(scripts, &BTreeMap::new()).map_err(|error| error.to_string())?;
        let is_sql = |command: &ScriptCommand| matches!(command, ScriptCommand::Sql { .. });
        let has_others = bundle.programs[0].commands.iter().any(|step| !is_sql(&step.command));
        if bundle.programs.len() != 1 || has_others {
            return Err(format!("{TRACE_FILE}: its statements are more than SQL; capture it again"));
        }
        Ok(bundle)
    }

    /// The script of a trace with the trace itself.
    ///
    /// # Errors
    /// A trace that is none, or whose statements are others.
    pub fn replaying(
        scripts: &[(&str, &str, u32)],
        directory: &WorkloadDirectory,
        replay: &TraceReplay,
    ) -> Result<Bundle, String> {
        let mut bundle = Bundle::of_trace(scripts)?;
        let trace = trace_of(directory)?;
        let (n, wanted) = (bundle.programs[0].statements.len(), trace.forms.len());
        if n != wanted || bundle.programs[0].commands.len() != n || scripts[0].1 != script_of(&trace) {
            return Err(format!("{TRACE_FILE}: its {wanted} statements are read as {n}; capture it again"));
        }
        let has_values = |statement: &Statement, form: &TraceForm| {
            let mut slots = statement.parameters.iter().map(|id| slot_of(bundle.variables.name(*id)));
            slots.all(|slot| slot.is_some_and(|slot| slot < form.values.len()))
        };
        let mut all = bundle.programs[0].statements.iter().zip(&trace.forms);
        if !all.all(|(statement, form)| has_values(statement, form)) {
            return Err(format!(
                "{TRACE_FILE}: a statement names a value that it does not have; capture it again"
            ));
        }
        bundle.traced = Some(Arc::new(TracedLoad::new(trace, replay.speed, &bundle.variables)));
        Ok(bundle)
    }

    /// Whether a statement is sent as a simple query, whatever the protocol of the load: at the source it had no parameters.
    pub fn is_simple_query(&self, statement: usize) -> bool {
        let form = self.traced.as_ref().and_then(|load| load.trace.forms.get(statement));
        form.is_some_and(|form| form.is_text)
    }
}

/// Counts and times of a client of a trace.
#[derive(Clone, Debug, Default)]
pub struct TracedFigures {
    /// How late each statement was sent, microseconds.
    pub lags_us: Vec<u32>,
    /// Time of waits for earlier writers, nanoseconds.
    pub waits_ns: u64,
    /// What was counted; lags, and times of waits, are not in it.
    pub counted: ReplayedTrace,
}

/// A client of a trace.
#[derive(Debug)]
pub struct TracedClient {
    load: Arc<TracedLoad>,
    client: usize,
    /// The place of its transaction among its own, and of its next statement.
    transaction: usize,
    next: usize,
    /// Statements of its transaction that were counted: as sent, refused or cut off.
    n_counted: usize,
    /// The time, as the caller has said it last.
    now_ns: u64,
    has_paused: bool,
    /// Whether it is known how the last statement ended.
    is_judged: bool,
    /// Since when the next statement waits for another transaction.
    waits_since: Option<u64>,
    /// What the last wait took, until the caller takes it out of the latency.
    waited_ns: u64,
    is_foreseen: bool,
    figures: TracedFigures,
}

impl TracedClient {
    pub(crate) fn new(load: &Arc<TracedLoad>, client: usize) -> TracedClient {
        let own = load.by_client.get(client).map_or(&[][..], Vec::as_slice);
        let n_in_trace = own.iter().map(|number| load.n_statements(*number)).sum();
        TracedClient {
            load: Arc::clone(load),
            client,
            transaction: 0,
            next: 0,
            n_counted: 0,
            now_ns: 0,
            has_paused: false,
            is_judged: true,
            waits_since: None,
            waited_ns: 0,
            is_foreseen: false,
            figures: TracedFigures {
                counted: ReplayedTrace { n_in_trace, ..ReplayedTrace::default() },
                ..TracedFigures::default()
            },
        }
    }

    /// Takes note of the time.
    #[inline]
    pub fn see(&mut self, now_ns: u64) {
        self.now_ns = now_ns;
    }

    fn number(&self) -> Option<u32> {
        self.load.by_client.get(self.client)?.get(self.transaction).copied()
    }

    fn current(&self) -> Option<&TraceTransaction> {
        self.load.trace.transactions.get(self.number()? as usize)
    }

    /// The statement that was handed out last.
    fn sent(&self) -> Option<&TraceStatement> {
        self.current()?.statements.get(self.next.checked_sub(1)?)
    }

    /// Whether all of its transactions have ended.
    #[inline]
    pub fn is_finished(&self) -> bool {
        self.number().is_none()
    }

    /// The next transaction. It is due when it begins: how late that is, is lag, and no latency.
    pub(crate) fn next_transaction(&mut self, now_ns: u64) -> NextTransaction {
        self.load.began_ns.get_or_init(|| now_ns);
        let due_ns = self.current().map_or(now_ns, |one| self.load.due_ns(one.at_us));
        NextTransaction { program: 0, due_ns: due_ns.max(now_ns) }
    }

    /// Begins the transaction, or begins it again.
    pub(crate) fn rewind(&mut self) {
        self.next = 0;
        self.has_paused = false;
        self.is_judged = true;
        self.waits_since = None;
        self.waited_ns = 0;
        self.is_foreseen = false;
    }

    /// The next step.
    pub(crate) fn step(&mut self) -> Action {
        let is_new = !std::mem::replace(&mut self.is_judged, true);
        if is_new && self.sent().is_some_and(|sent| sent.error.is_some()) {
            self.figures.counted.n_missing_errors += 1;
        }
        let Some(number) = self.number() else { return Action::End };
        let load = &self.load;
        let one = &load.trace.transactions[number as usize];
        let Some(statement) = one.statements.get(self.next) else { return Action::End };
        if statement.pause_us >= PAUSE_US_MIN
            && self.next > 0
            && !std::mem::replace(&mut self.has_paused, true)
        {
            return Action::Sleep { ns: load.scaled_ns(statement.pause_us) };
        }
        let is_open = |gate: &u32| load.ended[*gate as usize].load(Ordering::Acquire);
        if load.has_gates && !statement.gates.iter().all(is_open) {
            let since = *self.waits_since.get_or_insert(self.now_ns);
            if self.now_ns.saturating_sub(since) < WAIT_NS_MAX {
                return Action::Sleep { ns: LOOK_NS };
            }
            self.figures.counted.n_waits_given_up += 1;
        }
        if let Some(since) = self.waits_since.take() {
            let waited_ns = self.now_ns.saturating_sub(since);
            self.figures.counted.n_waits += 1;
            self.figures.waits_ns += waited_ns;
            self.waited_ns = waited_ns;
        }
        let due_ns = load.due_ns(one.at_us.saturating_add(statement.after_us));
        let lag_us = self.now_ns.saturating_sub(due_ns) / 1000;
        self.figures.lags_us.push(u32::try_from(lag_us).unwrap_or(u32::MAX));
        self.next += 1;
        if self.next > self.n_counted {
            self.n_counted = self.next;
            self.figures.counted.n_statements += 1;
        }
        self.has_paused = false;
        self.is_judged = false;
        Action::Send { statement: statement.form as usize }
    }

    /// What the last statement waited for another transaction, which is no part of a latency.
    #[inline]
    pub fn take_waited_ns(&mut self) -> u64 {
        std::mem::take(&mut self.waited_ns)
    }

    /// The form of the statement that was handed out last.
    pub(crate) fn statement(&self) -> usize {
        self.sent().map_or(0, |sent| sent.form as usize)
    }

    /// The last statement failed, which `is_refusal` if the session only reads. Says whether it failed so at the source.
    pub fn failed(&mut self, state: &str, is_refusal: bool) -> bool {
        let source = self.sent().and_then(|sent| sent.error.clone());
        let counted = &mut self.figures.counted;
        self.is_foreseen = source.as_deref() == Some(state);
        match source {
            _ if self.is_foreseen => counted.n_same_errors += 1,
            _ if is_refusal => counted.n_refused += 1,
            Some(_) => counted.n_other_errors += 1,
            None => counted.n_new_errors += 1,
        }
        if !(self.is_foreseen || is_refusal) {
            *counted.new_errors.entry(state.to_string()).or_default() += 1;
        }
        if is_refusal && !self.is_foreseen {
            self.refuse_rest();
        } else {
            self.cut_off_rest();
        }
        self.is_foreseen
    }

    /// What follows a statement that was refused is left out with it.
    fn refuse_rest(&mut self) {
        let n_left = self.left().len() as u64;
        let counted = &mut self.figures.counted;
        counted.n_statements -= 1;
        counted.n_refused += n_left;
        self.n_counted += n_left as usize;
    }

    /// What follows a statement that failed is not sent, and the transaction is rolled back.
    fn cut_off_rest(&mut self) {
        let forms = &self.load.trace.forms;
        let is_spared = |statement: &&TraceStatement| {
            statement.error.is_some() || ends_transaction(&forms[statement.form as usize].text)
        };
        let (n_left, n_spared) = (self.left().len(), self.left().iter().filter(is_spared).count());
        self.figures.counted.n_cut_off += n_left as u64;
        self.figures.counted.n_spared += n_spared as u64;
        self.n_counted += n_left;
    }

    /// The statements of its transaction that were not counted yet.
    fn left(&self) -> &[TraceStatement] {
        self.current().map_or(&[][..], |one| &one.statements[self.n_counted..])
    }

    /// Whether the error that ended the transaction was that of the source.
    pub fn has_foreseen(&self) -> bool {
        self.is_foreseen
    }

    /// The transaction has ended: who waits for it goes on.
    pub fn ended(&mut self) {
        if let Some(number) = self.number() {
            self.load.ended[number as usize].store(true, Ordering::Release);
            self.figures.counted.n_transactions += 1;
            self.pass();
        }
    }

    /// The client is gone: who waits for one of its transactions goes on.
    pub fn leave(&mut self) {
        let own = self.load.by_client.get(self.client).map_or(&[][..], Vec::as_slice);
        for number in own.iter().skip(self.transaction) {
            self.load.ended[*number as usize].store(true, Ordering::Release);
        }
    }

    /// Goes on to the next transaction. What was not sent of this one is cut off.
    fn pass(&mut self) {
        self.figures.counted.n_cut_off += self.left().len() as u64;
        self.transaction += 1;
        (self.next, self.n_counted) = (0, 0);
    }

    /// Counts and times of the whole load, which is over: what was not sent is cut off.
    pub fn take_figures(&mut self) -> TracedFigures {
        while !self.is_finished() {
            self.pass();
        }
        std::mem::take(&mut self.figures)
    }

    fn value(&self, variable: VariableId) -> Option<&str> {
        let slot = self.load.slots.get(variable.index()).copied().flatten()?;
        self.sent()?.values.get(slot)?.as_deref()
    }

    pub(crate) fn parameter(&self, variable: VariableId, out: &mut Vec<u8>) -> BoundParameter {
        match self.value(variable) {
            Some(text) => {
                out.extend_from_slice(text.as_bytes());
                BoundParameter::Text
            }
            None => BoundParameter::Null,
        }
    }

    /// Appends a text with values in it.
    pub(crate) fn render(&self, pieces: &[TextPiece], out: &mut Vec<u8>) {
        for piece in pieces {
            match piece {
                TextPiece::Text(text) => out.extend_from_slice(text.as_bytes()),
                TextPiece::Variable(variable) | TextPiece::Quoted(variable) => self.literal(*variable, out),
            }
        }
    }

    fn literal(&self, variable: VariableId, out: &mut Vec<u8>) {
        let Some(text) = self.value(variable) else { return out.extend_from_slice(b"null") };
        let kinds = self.sent().map_or("", |sent| &self.load.trace.forms[sent.form as usize].values);
        let slot = self.load.slots.get(variable.index()).copied().flatten().unwrap_or(0);
        match kinds.as_bytes().get(slot) {
            // A sign could be taken for that of a comment.
            Some(b'n') if text.starts_with('-') => out.extend_from_slice(format!("({text})").as_bytes()),
            Some(b'n') => out.extend_from_slice(text.as_bytes()),
            _ => {
                let start = out.len();
                out.extend_from_slice(text.as_bytes());
                quote::literal(out, start);
            }
        }
    }
}

#[cfg(test)]
mod tests;
