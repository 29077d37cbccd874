//! What sessions and background processes wait for, sampled several times a second and added up for each tick.
//!
//! Shares of samples name symptoms. What limits is a stage that is occupied at nearly every instant, by whomever; so a tick has
//! for each stage the number of instants with anyone in it. Who waits for a lock waits for what the root of its queue does.
//!
//! Pure, but for the source of jitter.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use model::telemetry::wait::{self, WaitStage};
use model::telemetry::watch::Backends;

use crate::gather::Gather;
use crate::host::place::ProcessPlace;
use crate::server::roots::RootTally;
use crate::server::statements::{self, Names, Sampled};

/// Most samples a second.
const RATE_MAX: f64 = 20.0;
/// Share of one processor of the server that sampling may use, looks at its processes included.
const CPU_SHARE: f64 = 0.01;
/// What a sample costs the server: measured with version 15 at 64 and 512 sessions (0.37 and 1.4 ms of CPU time).
const COST_S: f64 = 0.000_3;
const COST_PER_SESSION_S: f64 = 0.000_002_2;
/// Processes that a sample looks at.
const LOOKED_MAX: usize = 1000;
/// Whether a session of another database waits for a lock.
pub(crate) const LOCKED_ELSEWHERE: &str =
    "coalesce(wait_event_type, '') = 'Lock' and coalesce(datname, current_database()) <> current_database()";
/// The class of sessions of the load and of others.
const CLIENT: &str = "client";

/// A sample: class, state, wait event with its type, number of processes, and the ids of those that wait for nothing. Idle background
/// processes are left out, and sessions of other databases that wait for locks: they queue for what the load does not lock.
pub(crate) fn sample_sql() -> String {
    sample_of("", "a", "1, 2, 3, 4")
}

/// The same, apart for each statement of this database, with its identifier, if the server has one, and its text.
pub(crate) fn sample_statements_sql(database: &str) -> String {
    let from = format!("a, {}", statements::of_sessions(database));
    let columns = ", coalesce(s.id::text, ''), min(s.text)";
    sample_of(columns, &from, "1, 2, 3, 4, s.id, case when s.id is null then s.text end")
}

fn sample_of(more: &str, from: &str, by: &str) -> String {
    format!(
        "select case when kind = 'client backend' then '{CLIENT}' else kind end, \
         case when is_hidden then '{}' else coalesce(state, '') end, \
         coalesce(wait_event_type, ''), coalesce(wait_event, ''), count(*)::text, \
         coalesce(string_agg(case when wait_event_type is null and coalesce(state, '') not like 'idle%' then pid::text end, ' '), '')\
         {more} from {from} \
         where kind is not null and (kind = 'client backend' or coalesce(wait_event_type, '') <> 'Activity') \
         and not ({LOCKED_ELSEWHERE}) group by {by}",
        // As a state, none that PostgreSQL has.
        wait::HIDDEN
    )
}

/// The samples of a tick.
#[derive(Debug, Default)]
pub(crate) struct WaitTally {
    n_samples: u32,
    /// Processes by class and wait, summed over samples.
    processes: BTreeMap<String, f64>,
    /// Processes without a wait event by where the kernel had them, summed over samples.
    places: BTreeMap<ProcessPlace, f64>,
    /// Processes without a wait event that the kernel was not asked about, summed over samples, on a server without events for I/O.
    n_unseen: f64,
    /// Whether the server has no wait events for I/O and for standbys: before 10.
    lacks_events: bool,
    /// Samples with at least one process in it, by wait.
    instants: BTreeMap<String, u32>,
    /// The same by stage.
    stages: BTreeMap<WaitStage, u32>,
    roots: RootTally,
    n_queries: u32,
    took: Duration,
    statements: Sampled,
}

/// The content of one sample, in short.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct WaitSample {
    pub(crate) n_processes: u32,
    pub(crate) has_lock_waits: bool,
}

type Row = [Option<String>];

/// A look at processes of the server that wait for nothing that it knows of.
pub(crate) struct Kernel<'a> {
    /// Where the process with this id is, if it is on this machine.
    pub(crate) look: &'a dyn Fn(i32) -> Option<ProcessPlace>,
    /// Whether the server has wait events for I/O: from 10 on.
    pub(crate) has_io_events: bool,
}

impl Kernel<'_> {
    pub(crate) fn place(&self, pid: &str) -> Option<ProcessPlace> {
        (self.look)(pid.parse().ok()?)
    }

    /// What a process does that waits for nothing the server knows of.
    pub(crate) fn what(&self, place: Option<ProcessPlace>) -> &'static str {
        place.and_then(|place| place.wait(self.has_io_events)).unwrap_or(wait::CPU)
    }
}

impl WaitTally {
    /// Adds the rows of [`sample_sql`], which took this long, or of [`sample_statements_sql`] with the names of statements.
    pub(crate) fn add(
        &mut self,
        rows: &[Vec<Option<String>>],
        kernel: &Kernel,
        took: Duration,
        mut names: Option<&mut Names>,
    ) -> WaitSample {
        if names.is_some() {
            self.statements.count_sample();
        }
        self.lacks_events = !kernel.has_io_events;
        let (mut seen, mut waits, mut stages) = (WaitSample::default(), BTreeSet::new(), BTreeSet::new());
        for row in rows {
            let Some((class, what, n)) = process(row) else { continue };
            seen.n_processes = seen.n_processes.saturating_add(n);
            for (what, n) in self.look(&what, n, row, kernel) {
                *self.processes.entry(format!("{class}/{what}")).or_default() += f64::from(n);
                if let Some(stage) = WaitStage::from_event(&what, class == CLIENT) {
                    seen.has_lock_waits |= stage == WaitStage::Lock;
                    stages.insert(stage);
                }
                if let (Some(names), Some([.., Some(id), Some(text)])) = (&mut names, row.get(6..)) {
                    self.statements.add(&names.of(id, text), &what, n);
                }
                if what.contains(':') {
                    waits.insert(what);
                }
            }
        }
        waits.into_iter().for_each(|what| *self.instants.entry(what).or_default() += 1);
        stages.into_iter().for_each(|stage| *self.stages.entry(stage).or_default() += 1);
        self.n_samples += 1;
        self.n_queries += 1;
        self.took += took;
        seen
    }

    /// What `n` processes of a row do, apart for those that the kernel has in I/O.
    fn look(&mut self, what: &str, n: u32, row: &Row, kernel: &Kernel) -> BTreeMap<String, u32> {
        let pids = row.get(5).and_then(Option::as_deref).filter(|_| what == wait::CPU).unwrap_or_default();
        let (mut by, mut n_looked) = (BTreeMap::new(), 0);
        for place in pids.split(' ').take(LOOKED_MAX.min(n as usize)).filter_map(|pid| kernel.place(pid)) {
            n_looked += 1;
            *self.places.entry(place).or_default() += 1.0;
            *by.entry(kernel.what(Some(place)).to_string()).or_default() += 1;
        }
        if n > n_looked {
            let is_unseen = what == wait::CPU && !kernel.has_io_events;
            self.n_unseen += if is_unseen { f64::from(n - n_looked) } else { 0.0 };
            *by.entry(what.to_string()).or_default() += n - n_looked;
        }
        by
    }

    /// Adds the rows of [`sql`](crate::server::roots::sql), where it is known or not whose sessions are whose.
    pub(crate) fn add_roots(
        &mut self,
        rows: &[Vec<Option<String>>],
        kernel: &Kernel,
        ours: Option<&Backends>,
        took: Duration,
    ) {
        self.roots.add(rows, kernel, ours);
        self.n_queries += 1;
        self.took += took;
    }

    /// Hands over the tick's readings, and starts the next tick.
    pub(crate) fn put(&mut self, gather: &mut Gather) {
        // Whose I/O has no event and was not seen in the kernel may be in any stage but that of locks.
        let is_blind = self.n_unseen > self.places.values().sum::<f64>();
        let lacks_events = self.lacks_events;
        let WaitTally {
            n_samples,
            processes,
            places,
            instants,
            stages,
            roots,
            n_queries,
            took,
            statements,
            ..
        } = std::mem::take(self);
        if n_samples == 0 {
            return;
        }
        gather.put("waits.samples", "", f64::from(n_samples));
        gather.put("waits.queries", "", f64::from(n_queries));
        gather.put("waits.time", "", took.as_secs_f64());
        processes.iter().for_each(|(key, n)| gather.put_said("waits.processes", key, *n));
        places.iter().for_each(|(place, n)| gather.put("waits.kernel", place.as_str(), *n));
        instants.iter().for_each(|(key, n)| gather.put_said("waits.instants", key, f64::from(*n)));
        // A stage that nobody was in was observed all the same, unless nobody could have been seen in it.
        let is_seen = |stage: &WaitStage| match stage {
            WaitStage::Lock => true,
            WaitStage::Standby => !lacks_events,
            _ => !is_blind,
        };
        for stage in WaitStage::ALL {
            let n = stages.get(&stage).copied();
            if let Some(n) = n.or(is_seen(&stage).then_some(0)) {
                gather.put("waits.stages", stage.as_str(), f64::from(n));
            }
        }
        roots.put(gather);
        statements.put(gather);
    }
}

/// Class, what it does, and how many.
fn process(row: &Row) -> Option<(&str, String, u32)> {
    let [Some(class), Some(state), Some(kind), Some(event), Some(n), ..] = row else { return None };
    Some((class, what(class == CLIENT, state, kind, event), n.parse().ok()?))
}

fn what(is_client: bool, state: &str, kind: &str, event: &str) -> String {
    match state {
        "idle" if is_client => wait::IDLE.to_string(),
        "idle in transaction" | "idle in transaction (aborted)" if is_client => {
            wait::IDLE_IN_TRANSACTION.to_string()
        }
        wait::HIDDEN => wait::HIDDEN.to_string(),
        // Without a tracked state, a session that waits for its client may be in a transaction or not.
        "" | "disabled" if is_client && (kind.is_empty() || kind == "Client") => wait::HIDDEN.to_string(),
        _ if kind.is_empty() => wait::CPU.to_string(),
        _ => wait::name(kind, event),
    }
}

/// When samples are taken: at random within their period, so that they keep no step with what the server does
/// periodically (WAL writer and background writer wake every 200 ms).
#[derive(Debug)]
pub(crate) struct Rhythm {
    state: u64,
}

impl Rhythm {
    pub(crate) fn new(seed: u64) -> Rhythm {
        Rhythm { state: seed | 1 }
    }

    /// The pause after a sample that took `took`, and whose looks into the kernel used `looks` of CPU time.
    pub(crate) fn pause(&mut self, seen: WaitSample, took: Duration, looks: Duration) -> Duration {
        let cost = COST_S + COST_PER_SESSION_S * f64::from(seen.n_processes) + looks.as_secs_f64();
        let mean = (1.0 / RATE_MAX).max(cost / CPU_SHARE);
        // A server that answers slowly is asked less often.
        let mean = mean.max(4.0 * took.as_secs_f64()).min(1.0);
        // xorshift64 (Marsaglia 2003): no number here needs to be better.
        self.state ^= self.state << 13;
        self.state ^= self.state >> 7;
        self.state ^= self.state << 17;
        let uniform = (self.state >> 11) as f64 / (1u64 << 53) as f64;
        Duration::from_secs_f64(mean * (0.5 + uniform))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gather::Backwards;

    /// Processes 1 and 2 run, 3 flushes WAL, 4 sleeps for a page of its memory; others are elsewhere.
    fn kernel(has_io_events: bool) -> Kernel<'static> {
        let look = &|pid| match pid {
            1 | 2 => Some(ProcessPlace::Running),
            3 => Some(ProcessPlace::WalFlush),
            4 => Some(ProcessPlace::PageFault),
            _ => None,
        };
        Kernel { look, has_io_events }
    }

    fn row(texts: [&str; 5]) -> Vec<Option<String>> {
        texts.map(|text| Some(text.to_string())).to_vec()
    }

    #[test]
    fn samples_add_up_by_class_event_and_stage() {
        let mut tally = WaitTally::default();
        let first = [
            row(["client", "active", "IO", "WALSync", "1"]),
            row(["client", "active", "LWLock", "WALWrite", "3"]),
            row(["client", "active", "Lock", "transactionid", "2"]),
            row(["client", "active", "", "", "2"]),
            row(["client", "idle", "Client", "ClientRead", "8"]),
            row(["walwriter", "", "IO", "WALSync", "1"]),
            row(["client", "hidden", "", "", "1"]),
            row(["autovacuum worker", "hidden", "", "", "1"]),
            row(["client", "disabled", "Client", "ClientRead", "2"]),
        ];
        let seen = tally.add(&first, &kernel(true), Duration::from_millis(1), None);
        assert_eq!(seen, WaitSample { n_processes: 21, has_lock_waits: true });
        let second = [row(["client", "idle in transaction", "Client", "ClientRead", "1"])];
        assert!(!tally.add(&second, &kernel(true), Duration::from_millis(1), None).has_lock_waits);
        let mut gather = Gather::new(Backwards::Reset);
        tally.put(&mut gather);
        let values = gather.take().0;
        let of = |key: &str| values.get(key).copied();
        assert_eq!(of("waits.samples"), Some(2.0));
        assert_eq!(of("waits.stages[wal-flush]"), Some(1.0));
        assert_eq!(of("waits.stages[data-read]"), Some(0.0));
        assert_eq!(of("waits.instants[IO:WalSync]"), Some(1.0));
        assert_eq!(of("waits.processes[client/CPU]"), Some(2.0));
        assert_eq!(of("waits.processes[client/idle in transaction]"), Some(1.0));
        assert_eq!(of("waits.processes[walwriter/IO:WalSync]"), Some(1.0));
        assert_eq!(of("waits.processes[client/hidden]"), Some(3.0));
        assert_eq!(of("waits.processes[autovacuum worker/hidden]"), Some(1.0));
        tally.put(&mut gather);
        assert!(gather.take().0.is_empty(), "a tick without samples has no readings of them");
    }

    #[test]
    fn who_waits_for_nothing_is_looked_at_in_the_kernel() {
        let nulls = |pids: &str, n: &str| {
            [&row(["client", "active", "", "", n])[..], &[Some(pids.to_string())]].concat()
        };
        let readings = |has_io_events| {
            let mut tally = WaitTally::default();
            let rows = [nulls("1 2 3 4 5", "5"), row(["client", "active", "LWLock", "WALWrite", "3"])];
            let seen = tally.add(&rows, &kernel(has_io_events), Duration::from_millis(1), None);
            assert_eq!(seen.n_processes, 8);
            let mut gather = Gather::new(Backwards::Reset);
            tally.put(&mut gather);
            gather.take().0
        };
        let old = readings(false);
        assert_eq!(old["waits.processes[client/CPU]"], 3.0);
        assert_eq!(old["waits.processes[client/Kernel:WalFlush]"], 1.0);
        assert_eq!(old["waits.processes[client/Kernel:PageFault]"], 1.0);
        assert_eq!(old["waits.kernel[running]"], 2.0);
        assert_eq!(old["waits.kernel[wal-flush]"], 1.0);
        assert_eq!(old["waits.instants[Kernel:WalFlush]"], 1.0);
        // Version 10 and later would show a flush: this one began after the answer.
        let new = readings(true);
        assert_eq!(new["waits.processes[client/CPU]"], 4.0);
        assert_eq!(new["waits.processes[client/Kernel:PageFault]"], 1.0);
        assert_eq!(new["waits.kernel[wal-flush]"], 1.0);
    }

    #[test]
    fn a_stage_that_nobody_could_be_seen_in_is_unknown() {
        let stages = |kernel: &Kernel| {
            let mut tally = WaitTally::default();
            let rows =
                [row(["client", "active", "", "", "3"]), row(["client", "active", "Lock", "tuple", "1"])];
            tally.add(&rows, kernel, Duration::from_millis(1), None);
            let mut gather = Gather::new(Backwards::Reset);
            tally.put(&mut gather);
            let readings = gather.take().0;
            let of = |key: &str| readings.get(key).copied();
            (of("waits.stages[lock]"), of("waits.stages[data-read]"))
        };
        assert_eq!(stages(&Kernel { look: &|_| None, has_io_events: false }), (Some(1.0), None));
        assert_eq!(stages(&Kernel { look: &|_| None, has_io_events: true }), (Some(1.0), Some(0.0)));
    }

    #[test]
    fn many_sessions_are_sampled_less_often_and_never_in_step() {
        let mut rhythm = Rhythm::new(7);
        let of = |n_processes| WaitSample { n_processes, ..WaitSample::default() };
        let mut mean = |n, took, looks| {
            (0..1000).map(|_| rhythm.pause(of(n), took, looks).as_secs_f64()).sum::<f64>() / 1000.0
        };
        let (fast, none) = (Duration::from_micros(500), Duration::ZERO);
        assert!((mean(8, fast, none) - 0.05).abs() < 0.002);
        assert!((mean(512, fast, none) - 0.143).abs() < 0.005);
        assert!((mean(8, Duration::from_millis(50), none) - 0.2).abs() < 0.01);
        assert!((mean(8, fast, Duration::from_millis(2)) - 0.232).abs() < 0.01);
        assert!(mean(1, Duration::from_secs(9), none) <= 1.05);
        let mut pauses: Vec<Duration> = (0..10).map(|_| rhythm.pause(of(8), fast, none)).collect();
        pauses.dedup();
        assert_eq!(pauses.len(), 10);
    }
}
