//! What one thread counted in one interval.

use hdrhistogram::Histogram;
use model::load::interval::{
    CommandTally, Connects, Counts, HISTOGRAM_DIGITS, HISTOGRAM_MAX_NS, HISTOGRAM_MIN_NS, Moments,
};

/// Counts of one thread in one interval, by script. Reused: allocated twice per thread, never
/// while a transaction is under way.
#[derive(Debug)]
pub(crate) struct IntervalTally {
    pub(crate) scripts: Vec<ScriptTally>,
}

/// Counts of one script.
#[derive(Debug)]
pub(crate) struct ScriptTally {
    pub(crate) counts: Counts,
    /// End minus due.
    pub(crate) latency: Times,
    /// End minus sent.
    pub(crate) service: Times,
    /// Latency and service at once, of transactions that began when they were due: counted once, and added to both in
    /// the end.
    punctual: Times,
    /// Sent minus due; all zero in a closed loop, so only there in an open one.
    pub(crate) lag: Option<Times>,
    /// Each statement's time from send to the end of its reply.
    pub(crate) statements: Vec<Times>,
    /// Rows that acknowledged statements returned or changed, by statement.
    pub(crate) n_rows: Vec<u64>,
    /// Errors of statements by SQLSTATE, of every try.
    pub(crate) statement_errors: Vec<(u32, SqlState, u64)>,
    /// Failed and unknown transactions by SQLSTATE.
    pub(crate) errors: Vec<(SqlState, u64)>,
    /// Connections that clients made or lost for transactions of the script.
    pub(crate) connects: Connects,
    /// Exact sums in addition to the histograms.
    pub(crate) latency_moments: Moments,
    pub(crate) lag_moments: Moments,
    /// Each command of the script, if they are timed.
    pub(crate) commands: Vec<CommandTally>,
    /// Facts about the committed transactions, in the order in which the program lists them.
    pub(crate) facts: Vec<u64>,
    /// Times that are not counted yet, see [`ScriptTally::note`].
    noted: Vec<Noted>,
}

/// The kinds of recorded times.
#[derive(Debug, Clone, Copy)]
pub(crate) enum TimeKind {
    Latency,
    Service,
    /// Latency and service, of a transaction that began when it was due.
    Punctual,
    /// Counted in an open loop only.
    Lag,
    /// The statement with this index.
    Statement(u32),
}

/// A time and its kind, in eight bytes, because many are noted before they are counted.
#[derive(Debug, Clone, Copy)]
struct Noted(u64);

impl Noted {
    /// Bits of the time: three days in nanoseconds, of which a histogram holds an hour.
    const TIME_BITS: u32 = 48;
    const TIME_MAX: u64 = (1 << Noted::TIME_BITS) - 1;
    /// Kinds before those of statements.
    const N_OTHERS: u64 = 4;
    /// Most statements that can be numbered.
    const N_STATEMENTS: u64 = (1 << (u64::BITS - Noted::TIME_BITS)) - Noted::N_OTHERS;

    /// `None` if the kind has no number.
    #[inline]
    fn new(kind: TimeKind, ns: u64) -> Option<Noted> {
        let number = match kind {
            TimeKind::Latency => 0,
            TimeKind::Service => 1,
            TimeKind::Punctual => 2,
            TimeKind::Lag => 3,
            TimeKind::Statement(index) if u64::from(index) < Noted::N_STATEMENTS => {
                Noted::N_OTHERS + u64::from(index)
            }
            TimeKind::Statement(_) => return None,
        };
        Some(Noted(number << Noted::TIME_BITS | ns.min(Noted::TIME_MAX)))
    }

    #[inline]
    fn parts(self) -> (TimeKind, u64) {
        let kind = match self.0 >> Noted::TIME_BITS {
            0 => TimeKind::Latency,
            1 => TimeKind::Service,
            2 => TimeKind::Punctual,
            3 => TimeKind::Lag,
            number => TimeKind::Statement((number - Noted::N_OTHERS) as u32),
        };
        (kind, self.0 & Noted::TIME_MAX)
    }
}

/// Times that are noted before they are counted: 8 KiB, which fit into a processor's first cache and take some 20 us to
/// count.
const NOTED_MAX: usize = 1024;

/// SQLSTATEs that are counted separately: PostgreSQL has some 260, and functions raise their own.
pub(crate) const ERRORS_MAX: usize = 1000;

/// How large a tally must be.
#[derive(Debug, Clone)]
pub(crate) struct TallyShape {
    /// Number of statements, by script.
    pub(crate) n_statements: Vec<usize>,
    /// Number of commands, by script; all 0 if commands are not timed.
    pub(crate) n_commands: Vec<usize>,
    /// Number of facts, by script.
    pub(crate) n_facts: Vec<usize>,
    pub(crate) is_open_loop: bool,
}

/// A SQLSTATE, or one of the words below, padded with blanks.
pub(crate) type SqlState = [u8; 6];
/// Stands for the SQLSTATE of a connection that ended without one.
pub(crate) const LOST: SqlState = *b"lost  ";
/// Stands for the SQLSTATE of an error in the script itself (an expression, a variable).
pub(crate) const SCRIPT: SqlState = *b"script";

/// Stands for the SQLSTATE where the server broke the protocol.
pub(crate) const PROTOCOL: SqlState = *b"proto ";
/// Stands for the SQLSTATE where the server sent more than the driver takes.
pub(crate) const LIMIT: SqlState = *b"limit ";
/// Stands for the SQLSTATE where the server's reply did not come in time.
pub(crate) const SILENT: SqlState = *b"silent";
/// Stands for whatever is not a SQLSTATE, and for those beyond [`ERRORS_MAX`].
pub(crate) const OTHER: SqlState = *b"other ";

/// The fixed-size form of a SQLSTATE as received: five digits or capital letters.
pub(crate) fn sqlstate(text: &[u8]) -> SqlState {
    let is_one = text.len() == 5 && text.iter().all(|b| b.is_ascii_digit() || b.is_ascii_uppercase());
    if !is_one {
        return OTHER;
    }
    let mut state = *b"      ";
    state[..5].copy_from_slice(text);
    state
}

/// A histogram of times in nanoseconds.
#[derive(Debug, Clone)]
pub(crate) struct Times {
    pub(crate) histogram: Histogram<u32>,
    /// The largest value itself; the histogram knows only its bucket.
    pub(crate) max_ns: u64,
}

impl Times {
    pub(crate) fn new() -> Times {
        let histogram = Histogram::new_with_bounds(HISTOGRAM_MIN_NS, HISTOGRAM_MAX_NS, HISTOGRAM_DIGITS);
        Times { histogram: histogram.expect("the constants are valid bounds"), max_ns: 0 }
    }

    /// Counts one value; longer than an hour counts as an hour.
    #[inline]
    pub(crate) fn record(&mut self, ns: u64) {
        self.histogram.saturating_record(ns);
        self.max_ns = self.max_ns.max(ns);
    }

    /// Adds the other's counts.
    pub(crate) fn add(&mut self, other: &Times) {
        if !other.histogram.is_empty() {
            self.histogram.add(&other.histogram).expect("all histograms have the same bounds");
            self.max_ns = self.max_ns.max(other.max_ns);
        }
    }

    fn clear(&mut self) {
        if !self.histogram.is_empty() {
            self.histogram.reset();
            self.max_ns = 0;
        }
    }
}

impl IntervalTally {
    /// An empty tally.
    pub(crate) fn new(shape: &TallyShape) -> IntervalTally {
        let scripts = shape
            .n_statements
            .iter()
            .zip(shape.n_commands.iter().zip(&shape.n_facts))
            .map(|(&n, (&n_commands, &n_facts))| ScriptTally {
                counts: Counts::default(),
                latency: Times::new(),
                service: Times::new(),
                punctual: Times::new(),
                lag: shape.is_open_loop.then(Times::new),
                statements: vec![Times::new(); n],
                n_rows: vec![0; n],
                statement_errors: Vec::with_capacity(16),
                errors: Vec::with_capacity(16),
                connects: Connects::default(),
                latency_moments: Moments::default(),
                lag_moments: Moments::default(),
                commands: vec![CommandTally::default(); n_commands],
                facts: vec![0; n_facts],
                noted: Vec::with_capacity(NOTED_MAX),
            })
            .collect();
        IntervalTally { scripts }
    }

    /// Adds the other's counts.
    pub(crate) fn add(&mut self, other: &IntervalTally) {
        for (mine, theirs) in self.scripts.iter_mut().zip(&other.scripts) {
            mine.add(theirs);
        }
    }

    /// Counts the noted times.
    pub(crate) fn count(&mut self) {
        self.scripts.iter_mut().for_each(ScriptTally::count);
    }

    /// Adds the punctual times to latency and service. Left to the control loop, because it walks through whole
    /// histograms.
    pub(crate) fn complete(&mut self) {
        self.scripts.iter_mut().for_each(ScriptTally::complete);
    }

    /// Counts the noted times of scripts that have many. Called when the loop is about to wait: done when there is no
    /// room left, it would delay the statement that follows an answer.
    #[inline]
    pub(crate) fn count_much(&mut self) {
        self.scripts
            .iter_mut()
            .filter(|script| script.noted.len() >= NOTED_MAX / 2)
            .for_each(ScriptTally::count);
    }

    /// Empties it for the next interval.
    pub(crate) fn clear(&mut self) {
        self.scripts.iter_mut().for_each(ScriptTally::clear);
    }
}

impl ScriptTally {
    /// Notes a time in nanoseconds, to be counted with others. The server's work drives a histogram out of the
    /// processor's caches between two turns of the driver: counted one by one, each time waits for memory; counted in a
    /// row, their waits overlap.
    #[inline]
    pub(crate) fn note(&mut self, kind: TimeKind, ns: u64) {
        match Noted::new(kind, ns) {
            Some(noted) => self.noted.push(noted),
            None => self.record(kind, ns),
        }
        if self.noted.len() == NOTED_MAX {
            self.count();
        }
    }

    #[cold]
    fn count(&mut self) {
        let mut noted = std::mem::take(&mut self.noted);
        for (kind, ns) in noted.drain(..).map(Noted::parts) {
            self.record(kind, ns);
        }
        self.noted = noted;
    }

    fn complete(&mut self) {
        self.latency.add(&self.punctual);
        self.service.add(&self.punctual);
        self.punctual.clear();
    }

    #[inline]
    fn record(&mut self, kind: TimeKind, ns: u64) {
        match kind {
            TimeKind::Latency => self.latency.record(ns),
            TimeKind::Service => self.service.record(ns),
            TimeKind::Punctual => self.punctual.record(ns),
            TimeKind::Lag => self.lag.iter_mut().for_each(|lag| lag.record(ns)),
            TimeKind::Statement(index) => self.statements[index as usize].record(ns),
        }
    }

    /// Adds the rows of an acknowledged statement.
    #[inline]
    pub(crate) fn rows(&mut self, statement: usize, n: u64) {
        if let Some(sum) = self.n_rows.get_mut(statement) {
            *sum = sum.saturating_add(n);
        }
    }

    /// Counts errors of a statement; each statement has few kinds.
    pub(crate) fn statement_error(&mut self, statement: u32, sqlstate: SqlState, n: u64) {
        let known = self.statement_errors.iter().position(|of| (of.0, of.1) == (statement, sqlstate));
        match known {
            Some(at) => self.statement_errors[at].2 += n,
            None if self.statement_errors.len() >= ERRORS_MAX => {}
            None => self.statement_errors.push((statement, sqlstate, n)),
        }
    }

    /// Counts an error by its SQLSTATE.
    pub(crate) fn error(&mut self, sqlstate: SqlState, n: u64) {
        let known = self.errors.iter().position(|(state, _)| *state == sqlstate);
        match known {
            Some(at) => self.errors[at].1 += n,
            // A server may invent them.
            None if self.errors.len() >= ERRORS_MAX && sqlstate != OTHER => self.error(OTHER, n),
            None => self.errors.push((sqlstate, n)),
        }
    }

    fn add(&mut self, other: &ScriptTally) {
        self.counts += other.counts;
        self.latency.add(&other.latency);
        self.service.add(&other.service);
        self.punctual.add(&other.punctual);
        if let (Some(mine), Some(theirs)) = (&mut self.lag, &other.lag) {
            mine.add(theirs);
        }
        for (mine, theirs) in self.statements.iter_mut().zip(&other.statements) {
            mine.add(theirs);
        }
        for (mine, theirs) in self.n_rows.iter_mut().zip(&other.n_rows) {
            *mine = mine.saturating_add(*theirs);
        }
        for &(statement, sqlstate, n) in &other.statement_errors {
            self.statement_error(statement, sqlstate, n);
        }
        for &(sqlstate, n) in &other.errors {
            self.error(sqlstate, n);
        }
        self.connects += other.connects;
        self.latency_moments += other.latency_moments;
        self.lag_moments += other.lag_moments;
        for (mine, theirs) in self.facts.iter_mut().zip(&other.facts) {
            *mine = mine.saturating_add(*theirs);
        }
        for (mine, theirs) in self.commands.iter_mut().zip(&other.commands) {
            *mine += *theirs;
        }
    }

    fn clear(&mut self) {
        self.counts = Counts::default();
        self.latency.clear();
        self.service.clear();
        self.punctual.clear();
        if let Some(lag) = &mut self.lag {
            lag.clear();
        }
        self.statements.iter_mut().for_each(Times::clear);
        self.n_rows.fill(0);
        self.statement_errors.clear();
        self.errors.clear();
        self.connects = Connects::default();
        self.latency_moments = Moments::default();
        self.lag_moments = Moments::default();
        self.commands.fill(CommandTally::default());
        self.facts.fill(0);
    }
}

/// The text of a SQLSTATE.
pub(crate) fn sqlstate_text(sqlstate: &SqlState) -> String {
    String::from_utf8_lossy(sqlstate).trim_end().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tally(n_statements: usize, is_open_loop: bool) -> IntervalTally {
        IntervalTally::new(&TallyShape {
            n_statements: vec![n_statements],
            n_commands: vec![0],
            n_facts: vec![0],
            is_open_loop,
        })
    }

    #[test]
    fn each_noted_time_is_counted_under_its_kind() {
        let mut tally = tally(2, true);
        let script = &mut tally.scripts[0];
        let kinds = [TimeKind::Latency, TimeKind::Service, TimeKind::Lag, TimeKind::Statement(0)];
        script.note(TimeKind::Punctual, 7);
        for n in 1..=NOTED_MAX as u64 {
            (1..).zip(kinds).for_each(|(times, kind)| script.note(kind, times * 1000 * n));
        }
        script.note(TimeKind::Statement(1), u64::MAX);
        tally.count();
        // Twice, because punctual times must not be added again.
        tally.complete();
        tally.complete();
        let script = &tally.scripts[0];
        let counted = [&script.latency, &script.service, script.lag.as_ref().unwrap(), &script.statements[0]];
        for ((times, of), n_punctual) in (1..).zip(counted).zip([1, 1, 0, 0]) {
            assert_eq!(of.histogram.len(), NOTED_MAX as u64 + n_punctual);
            assert_eq!(of.max_ns, times * 1000 * NOTED_MAX as u64);
        }
        assert_eq!(script.statements[1].histogram.len(), 1);
        assert_eq!(script.statements[1].max_ns, Noted::TIME_MAX, "three days at most");
    }

    #[test]
    fn rows_and_errors_are_those_of_their_statement() {
        let (mut mine, mut other) = (tally(2, false), tally(2, false));
        for tally in [&mut mine, &mut other] {
            let script = &mut tally.scripts[0];
            script.rows(1, 5);
            script.rows(7, 1);
            script.statement_error(1, *b"23505 ", 1);
        }
        other.scripts[0].statement_error(0, *b"57014 ", 1);
        mine.add(&other);
        let script = &mine.scripts[0];
        assert_eq!(script.n_rows, [0, 10], "there is no statement 7");
        assert_eq!(script.statement_errors, [(1, *b"23505 ", 2), (0, *b"57014 ", 1)]);
        mine.clear();
        assert_eq!((&mine.scripts[0].n_rows[..], mine.scripts[0].statement_errors.len()), (&[0, 0][..], 0));
    }

    #[test]
    fn punctual_times_survive_addition_and_are_cleared() {
        let (mut mine, mut other) = (tally(1, false), tally(1, false));
        for tally in [&mut mine, &mut other] {
            tally.scripts[0].note(TimeKind::Punctual, 7000);
            tally.count();
        }
        mine.add(&other);
        mine.complete();
        let script = &mine.scripts[0];
        assert_eq!([&script.latency, &script.service].map(|times| times.histogram.len()), [2, 2]);
        other.clear();
        other.complete();
        assert!(other.scripts[0].latency.histogram.is_empty());
    }

    #[test]
    fn noted_times_are_counted_before_their_room_runs_out() {
        let mut tally = tally(1, false);
        let note = |tally: &mut IntervalTally, n: usize| {
            (0..n).for_each(|_| tally.scripts[0].note(TimeKind::Latency, 5))
        };
        note(&mut tally, NOTED_MAX / 2 - 1);
        tally.count_much();
        assert!(tally.scripts[0].latency.histogram.is_empty());
        note(&mut tally, 1);
        tally.count_much();
        assert_eq!(tally.scripts[0].latency.histogram.len(), NOTED_MAX as u64 / 2);
    }

    #[test]
    fn a_statement_without_a_number_is_not_mistaken_for_another() {
        let last = Noted::N_STATEMENTS as u32 - 1;
        let (kind, ns) = Noted::new(TimeKind::Statement(last), 5).unwrap().parts();
        assert!(matches!(kind, TimeKind::Statement(index) if index == last) && ns == 5);
        assert!(Noted::new(TimeKind::Statement(last + 1), 5).is_none());
    }
}
