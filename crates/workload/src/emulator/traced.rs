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
mod tests {
    use super::*;

    const TEXT: &str = concat!(
        r#"{"format":1,"n_clients":2,"n_sessions":2,"n_forms":2,"n_transactions":2,"n_statements":3,"length_us":9000,"n_each_max":1}"#,
        "\n",
        r#"{"text":"update t set a = :v1 where k = :v2","values":"qn"}"#,
        "\n",
        r#"{"text":"end","values":""}"#,
        "\n",
        r#"{"c":0,"t":1000,"s":[{"f":0,"v":["it's","-7"],"e":"23505"}]}"#,
        "\n",
        r#"{"c":1,"t":2000,"s":[{"f":0,"v":[null,"7"],"g":[0]},{"f":1,"a":6000,"p":5000}]}"#,
        "\n",
    );

    fn clients(has_gates: bool) -> (Bundle, [TracedClient; 2]) {
        let trace = Trace::read(TEXT).unwrap();
        let source = script_of(&trace);
        let bundle = Bundle::of_trace(&[(TRACE_SCRIPT, &source, 1)]).unwrap();
        let load = TracedLoad { has_gates, ..TracedLoad::new(trace, 2.0, &bundle.variables) };
        let load = Arc::new(load);
        (bundle, [0, 1].map(|client| TracedClient::new(&load, client)))
    }

    /// Begins a client's transaction at this time.
    fn begin(client: &mut TracedClient, now_ns: u64) -> Action {
        client.next_transaction(now_ns);
        client.rewind();
        client.see(now_ns);
        client.step()
    }

    #[test]
    fn transactions_are_due_at_the_pace_of_the_source() {
        let (_, [mut first, mut second]) = clients(true);
        assert_eq!(first.next_transaction(5_000).due_ns, 5_000 + 500_000);
        // Both began then.
        assert_eq!(second.next_transaction(7_000).due_ns, 5_000 + 1_000_000);
        assert_eq!(second.next_transaction(9_000_000).due_ns, 9_000_000, "lag is no latency");
    }

    #[test]
    fn a_writer_waits_for_the_end_of_the_one_before_it_and_not_for_ever() {
        let (_, [mut first, mut second]) = clients(true);
        first.next_transaction(0);
        assert_eq!(begin(&mut second, 1_500_000), Action::Sleep { ns: LOOK_NS });
        assert_eq!(begin(&mut first, 1_600_000), Action::Send { statement: 0 });
        second.see(1_700_000);
        assert_eq!(second.step(), Action::Sleep { ns: LOOK_NS });
        first.ended();
        assert!(first.is_finished());
        second.see(1_900_000);
        assert_eq!(second.step(), Action::Send { statement: 0 });
        assert_eq!((second.take_waited_ns(), second.take_waited_ns()), (400_000, 0));
        // Its client thought for 5 ms, at twice the speed.
        assert_eq!(second.step(), Action::Sleep { ns: 2_500_000 });
        second.see(4_400_000);
        assert_eq!(second.step(), Action::Send { statement: 1 });
        assert_eq!(second.step(), Action::End);
        second.ended();
        let figures = second.take_figures();
        assert_eq!(
            (figures.lags_us, figures.counted.n_waits, figures.counted.n_transactions),
            (vec![900, 400], 1, 1)
        );

        let (_, [mut first, mut second]) = clients(true);
        first.next_transaction(0);
        begin(&mut second, 1_000_000);
        second.see(1_000_000 + WAIT_NS_MAX);
        assert_eq!(second.step(), Action::Send { statement: 0 });
        assert_eq!(second.take_figures().counted.n_waits_given_up, 1);
    }

    #[test]
    fn without_gates_the_later_writer_of_a_key_can_be_first() {
        let (_, [mut first, mut second]) = clients(false);
        first.next_transaction(0);
        assert_eq!(begin(&mut second, 1_000_000), Action::Send { statement: 0 });
        assert_eq!(begin(&mut first, 1_100_000), Action::Send { statement: 0 });
    }

    #[test]
    fn what_ends_otherwise_than_at_the_source_is_counted() {
        let (_, [mut first, mut second]) = clients(false);
        begin(&mut first, 500_000);
        assert!(first.failed("23505", false) && first.has_foreseen());
        assert_eq!(first.figures.counted.n_same_errors, 1);
        begin(&mut first, 600_000);
        assert_eq!(first.step(), Action::End);
        assert_eq!(first.figures.counted.n_missing_errors, 1);
        begin(&mut first, 700_000);
        assert!(!first.failed("40001", false));
        assert_eq!((first.figures.counted.n_other_errors, first.figures.counted.new_errors["40001"]), (1, 1));
        begin(&mut second, 800_000);
        assert!(!second.failed("42P01", false));
        // The end that follows is no loss.
        assert_eq!((second.figures.counted.n_new_errors, second.figures.counted.n_lost()), (1, 0));
    }

    /// The counts of the second client, after this was done with it.
    fn counted(act: impl FnOnce(&mut TracedClient)) -> ReplayedTrace {
        let (_, [_, mut second]) = clients(false);
        act(&mut second);
        let counted = second.take_figures().counted;
        assert!(counted.n_in_trace == 2 && counted.identity_holds(), "{counted:?}");
        assert_eq!(second.take_figures().counted, ReplayedTrace::default(), "once");
        counted
    }

    #[test]
    fn each_statement_is_sent_refused_or_cut_off_and_counted_once() {
        let counts = |of: &ReplayedTrace| (of.n_statements, of.n_refused, of.n_cut_off, of.n_spared);
        let all = counted(|client| {
            begin(client, 0);
            // It thinks before the end.
            assert!(matches!(client.step(), Action::Sleep { .. }));
            assert_eq!(client.step(), Action::Send { statement: 1 });
            assert_eq!(client.step(), Action::End);
            client.ended();
        });
        assert_eq!(counts(&all), (2, 0, 0, 0));
        let refused = counted(|client| {
            begin(client, 0);
            assert!(!client.failed("25006", true));
            client.ended();
        });
        assert_eq!((counts(&refused), refused.n_diverged(), refused.new_errors.len()), ((0, 2, 0, 0), 0, 0));
        let failed = counted(|client| {
            begin(client, 0);
            client.failed("42P01", false);
            client.ended();
        });
        assert_eq!(
            (counts(&failed), failed.n_diverged()),
            ((1, 0, 1, 1), 1),
            "the end that follows is no loss"
        );
        // Its connection was lost before the end, and it goes on, or it does not.
        for goes_on in [true, false] {
            let lost = counted(|client| {
                begin(client, 0);
                if goes_on {
                    client.ended();
                } else {
                    client.leave();
                }
            });
            assert_eq!((counts(&lost), lost.n_diverged()), ((1, 0, 1, 0), 1));
        }
        // The load was over before it began.
        let none = counted(|_| {});
        assert_eq!((counts(&none), none.n_diverged()), ((0, 0, 2, 0), 2));
        // Begun again, it is the same statement.
        let again = counted(|client| {
            begin(client, 0);
            begin(client, 1_000);
        });
        assert_eq!(counts(&again), (1, 0, 1, 0));
    }

    #[test]
    fn nobody_waits_for_a_client_that_is_gone() {
        let (_, [mut first, mut second]) = clients(true);
        first.next_transaction(0);
        assert_eq!(begin(&mut second, 1_500_000), Action::Sleep { ns: LOOK_NS });
        first.leave();
        second.see(1_600_000);
        assert_eq!(second.step(), Action::Send { statement: 0 });
        assert_eq!(second.take_figures().counted.n_waits_given_up, 0);
    }

    #[test]
    fn values_stand_in_texts_as_literals_and_in_messages_as_they_are() {
        let (bundle, [mut first, mut second]) = clients(false);
        let statement = &bundle.programs[0].statements[0];
        let rendered = |client: &TracedClient| {
            let mut out = Vec::new();
            client.render(&statement.pieces, &mut out);
            String::from_utf8(out).unwrap()
        };
        begin(&mut first, 0);
        assert_eq!(rendered(&first), "update t set a = 'it''s' where k = (-7);");
        begin(&mut second, 0);
        assert_eq!(rendered(&second), "update t set a = null where k = 7;");
        let mut out = Vec::new();
        assert_eq!(first.parameter(statement.parameters[0], &mut out), BoundParameter::Text);
        assert_eq!(out, b"it's");
        assert_eq!(second.parameter(statement.parameters[0], &mut out), BoundParameter::Null);
    }

    #[test]
    fn statements_that_had_no_parameters_are_sent_as_texts() {
        let text = TEXT.replacen("\"values\":\"qn\"", "\"values\":\"qn\",\"is_text\":true", 1);
        let trace = Trace::read(&text).unwrap();
        assert_eq!(trace.text().unwrap(), text);
        let (mut bundle, _) = clients(false);
        assert!(!bundle.is_simple_query(0));
        bundle.traced = Some(Arc::new(TracedLoad::new(trace, 1.0, &bundle.variables)));
        assert_eq!([0, 1, 2].map(|at| bundle.is_simple_query(at)), [true, false, false]);
    }

    /// A directory whose trace is in this file.
    fn directory_with(packed: &[u8]) -> WorkloadDirectory {
        let mut directory = WorkloadDirectory::default();
        directory.texts.insert(TRACE_FILE.to_string(), generator::draws_reference(packed));
        directory.draws.add(packed.to_vec());
        directory
    }

    #[test]
    fn a_plan_reads_a_trace_once() {
        let packed = zstd::encode_all(TEXT.replacen("9000", "9001", 1).as_bytes(), 1).unwrap();
        let mut directory = directory_with(&packed);
        let outline = outline_of(&directory).unwrap();
        assert_eq!((outline.head.length_us, outline.forms.len(), outline.transactions.len()), (9001, 2, 0));
        // Nobody unpacks the bytes of a file that is known.
        for bytes in directory.draws.0.values_mut() {
            *bytes = b"other".as_slice().into();
        }
        assert!(trace_of(&directory).is_err());
        assert!(Arc::ptr_eq(&outline, &outline_of(&directory).unwrap()));
        // It must be at hand all the same.
        directory.draws.0.clear();
        assert!(outline_of(&directory).unwrap_err().contains("not at hand"));
    }

    #[test]
    fn an_outline_is_that_of_a_sound_trace() {
        let packed = zstd::encode_all(TEXT.replacen("\"g\":[0]", "\"g\":[7]", 1).as_bytes(), 1).unwrap();
        let directory = directory_with(&packed);
        for _ in 0..2 {
            let message = outline_of(&directory).unwrap_err();
            assert!(message.contains("trace.zst: line 5: there is no transaction 7"), "{message}");
        }
    }

    #[test]
    fn a_trace_that_cannot_be_unpacked_is_called_one() {
        let packed = zstd::encode_all(TEXT.as_bytes(), 1).unwrap();
        assert_eq!(unpacked(&packed, TEXT.len() as u64).as_deref(), Ok(TEXT));
        let longer = unpacked(&packed, TEXT.len() as u64 - 1).unwrap_err();
        assert!(longer.starts_with("the trace has more than") && longer.contains("--window"), "{longer}");
        let broken = unpacked(b"no zstd", 100).unwrap_err();
        assert!(broken.starts_with("is no file of zstd") && broken.contains("capture it again"), "{broken}");
        assert!(!longer.contains("captured rows") && !broken.contains("captured rows"));
    }

    #[test]
    fn a_trace_runs_nothing_but_sql() {
        for source in ["select 1;\n\\shell rm x\n", "\\set x 1\nselect :x;\n", "\\sleep 1 s\n"] {
            assert!(Bundle::of_trace(&[(TRACE_SCRIPT, source, 1)]).is_err(), "{source}");
        }
    }
}
