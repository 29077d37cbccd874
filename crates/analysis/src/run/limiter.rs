//! Attribution: which of a run's resources and serial stages could give no more.
//!
//! Shares of wait samples name symptoms: sessions queue for a row whose holder waits for the flush of its commit. So what counts
//! is occupancy, the share of instants in which anyone is in a stage; waits for locks are charged to what the root
//! of their queue does; and a closed loop's clients are all accounted for, so that few clients are an answer as well.
//!
//! Thresholds: a stage or resource is a candidate from 0.7 on, named with medium confidence from 0.85 on if the next is below
//! 0.6 or a fifth less. High confidence would need proof by lifting the limit.

use std::collections::BTreeMap;

use model::telemetry::reading::{key, split_key};
use model::telemetry::wait::{self, Stage};

use crate::run::resources::busiest_thread;
use crate::run::timeline::Placed;
use crate::run::usage::Usage;
use crate::summary::Resources;
use crate::summary::limiter::{Bottleneck, Confidence, Limiter};

/// Samples that a judgement needs: with 30, the standard error of an occupancy of 0.8 is 0.07.
const SAMPLES_MIN: f64 = 30.0;
/// From here on, something is a candidate.
const CANDIDATE: f64 = 0.7;
/// From here on, something is at its limit.
const AT_LIMIT: f64 = 0.85;
/// Below this, something has room.
const HAS_ROOM: f64 = 0.6;
/// Part of the sessions at work that one kind of wait must hold to limit them.
const SHARE_MIN: f64 = 0.2;
/// Part of a busy machine that others must use to limit it.
const FOREIGN_MIN: f64 = 0.25;
/// Steal from here on limits a busy machine.
const STEAL_MIN: f64 = 0.1;

/// The measurement in figures, or a part of it.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Facts {
    /// Client sessions, by what they do: mean number over the samples.
    pub(crate) sessions: Vec<(String, f64)>,
    /// Share of instants with anyone in each stage.
    pub(crate) occupancy: Vec<(Stage, f64)>,
    /// Shares of what roots of lock queues do.
    pub(crate) roots: Vec<(String, f64)>,
    /// Busy share of the server's machine, if it was observed.
    pub(crate) cpu: Option<f64>,
    /// Processors that the server used.
    pub(crate) server_cpu: Option<f64>,
    /// Share of the server's machine that neither server nor driver used.
    pub(crate) foreign: Option<f64>,
    /// Busy share of the driver's busiest thread.
    pub(crate) driver: Option<f64>,
    /// Share of processor time taken by the hypervisor.
    pub(crate) steal: Option<f64>,
    /// Whether a quota stopped the server's processes.
    pub(crate) is_throttled: bool,
    /// Whether transactions were due at times of their own, and nearly all of them were sent.
    pub(crate) met_its_rate: bool,
    /// Whether driver and server are on one machine.
    pub(crate) is_local: bool,
    /// Sessions of the load.
    pub(crate) n_clients: f64,
}

/// Properties of the load that a judgement needs.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Conditions {
    pub(crate) n_clients: u32,
    /// Whether transactions were due at times of their own, and ended as fast as they were due.
    pub(crate) met_its_rate: bool,
    /// Whether driver and server are on one machine.
    pub(crate) is_local: bool,
}

impl Facts {
    /// The facts of a span; `None` with too few samples.
    pub(crate) fn of(usage: &Usage, (from_s, to_s): (f64, f64)) -> Option<Facts> {
        let within = |placed: &&Placed| placed.share_within(from_s, to_s) > 0.5;
        let (mut n, mut n_roots, mut covered_s) = (0.0, 0.0, 0.0);
        let mut sums: BTreeMap<(&str, &str), f64> = BTreeMap::new();
        for placed in usage.with_metric("waits.samples").filter(within) {
            n += placed.tick.values.get("waits.samples").copied().unwrap_or(0.0);
            covered_s += placed.length_s();
            for (key, value) in
                placed.tick.values.range("waits.".to_string()..).take_while(|(k, _)| k.starts_with("waits."))
            {
                // A root that had gone when it was looked up says nothing.
                if let (metric, Some(instance)) = split_key(key)
                    && (metric, instance) != ("waits.roots", "gone")
                {
                    *sums.entry((metric, instance)).or_default() += value;
                    n_roots += if metric == "waits.roots" { *value } else { 0.0 };
                }
            }
        }
        if n < SAMPLES_MIN || covered_s < 0.5 * (to_s - from_s) {
            return None;
        }
        let of = |metric: &'static str| sums.iter().filter(move |((m, _), _)| *m == metric);
        let sessions = of("waits.processes").filter_map(|((_, instance), sum)| {
            Some((instance.strip_prefix("client/")?.to_string(), sum / n))
        });
        let occupancy = Stage::ALL
            .map(|stage| (stage, sums.get(&("waits.stages", stage.as_str())).copied().unwrap_or(0.0) / n));
        Some(Facts {
            sessions: sessions.collect(),
            occupancy: occupancy.to_vec(),
            roots: of("waits.roots").map(|((_, what), sum)| (what.to_string(), sum / n_roots)).collect(),
            ..Facts::default()
        })
    }

    /// Adds what is known of machines and of the load; of processors and the driver's threads, over the same span.
    fn with(
        self,
        usage: &Usage,
        (from_s, to_s): (f64, f64),
        resources: &Resources,
        conditions: &Conditions,
    ) -> Facts {
        let remote = resources.remote.as_ref().and_then(|remote| remote.busy);
        let split = usage.cpu(from_s, to_s).filter(|split| split.server.is_some());
        let n_cpus = resources.n_cpus.filter(|n| *n > 0).map(f64::from);
        let share = |processors: Option<f64>| Some((processors? / n_cpus?).clamp(0.0, 1.0));
        Facts {
            cpu: share(split.map(|split| split.busy)).or(remote),
            server_cpu: split.and_then(|split| split.server),
            foreign: share(split.and_then(|split| split.foreign)),
            driver: busiest_thread(usage, from_s, to_s),
            steal: share(split.map(|split| split.steal)),
            is_throttled: is_throttled(usage, (from_s, to_s)),
            met_its_rate: conditions.met_its_rate,
            is_local: conditions.is_local,
            n_clients: f64::from(conditions.n_clients),
            ..self
        }
    }

    /// Sessions of the load that wait for their client. Others at the server may be idle as well.
    fn waiting(&self) -> f64 {
        let idle = self.sessions_where(|what| what == wait::IDLE || what == wait::IDLE_IN_TRANSACTION);
        (self.n_clients - self.working()).clamp(0.0, idle)
    }

    fn sessions_where(&self, is_meant: impl Fn(&str) -> bool) -> f64 {
        self.sessions.iter().filter(|(what, _)| is_meant(what)).fold(0.0, |sum, (_, n)| sum + n)
    }

    /// Sessions that are in a statement.
    fn working(&self) -> f64 {
        self.sessions_where(|what| what != wait::IDLE && what != wait::IDLE_IN_TRANSACTION)
    }

    fn occupied(&self, stage: Stage) -> f64 {
        self.occupancy.iter().find(|(of, _)| *of == stage).map_or(0.0, |(_, share)| *share)
    }

    /// The part of the sessions in a statement that are in a stage.
    fn share_in(&self, stage: Stage) -> f64 {
        let n = self.sessions_where(|what| Stage::of(what, true) == Some(stage));
        if self.working() > 0.0 { n / self.working() } else { 0.0 }
    }

    fn roots_where(&self, is_meant: impl Fn(&str) -> bool) -> f64 {
        self.roots.iter().filter(|(what, _)| is_meant(what)).fold(0.0, |sum, (_, share)| sum + share)
    }
}

/// A candidate: how near it is to its limit, 0 to 1, and its figures.
type Candidate = (Bottleneck, f64, String);

/// Names what limited.
pub(crate) fn judge(facts: &Facts) -> Limiter {
    if let Some(certain) = outside(facts) {
        return limiter(certain, Confidence::Medium, None);
    }
    let mut all: Vec<Candidate> = [stages(facts), locks(facts), lwlock(facts), processors(facts)].concat();
    all.retain(|(_, score, _)| *score >= HAS_ROOM);
    all.sort_by(|a, b| b.1.total_cmp(&a.1));
    let mut ranked = all.into_iter();
    let Some(first) = ranked.next().filter(|(_, score, _)| *score >= CANDIDATE) else {
        return nothing_near(facts);
    };
    let second = ranked.next();
    let is_clear = second.as_ref().is_none_or(|(_, score, _)| *score < 0.8 * first.1);
    // What was not observed may be near its limit too.
    let confidence = if first.1 >= AT_LIMIT && is_clear && facts.cpu.is_some() {
        Confidence::Medium
    } else {
        Confidence::Low
    };
    limiter(first, confidence, second)
}

fn limiter((name, _, evidence): Candidate, confidence: Confidence, second: Option<Candidate>) -> Limiter {
    let runner_up = second.map(|(name, _, evidence)| (name, evidence));
    Limiter { name, confidence, evidence, runner_up, next: name.advice() }
}

/// What no statistics of the server show, and what comes before them.
fn outside(facts: &Facts) -> Option<Candidate> {
    let percent = |share: f64| format!("{:.0} %", 100.0 * share);
    if facts.is_throttled {
        let evidence = "a quota stopped the server's processes again and again";
        return Some((Bottleneck::Quota, 1.0, evidence.to_string()));
    }
    if let Some(steal) = facts.steal.filter(|steal| *steal >= STEAL_MIN) {
        let evidence = format!("the hypervisor gave {} of the processors' time to others", percent(steal));
        return Some((Bottleneck::Steal, 1.0, evidence));
    }
    let is_busy = facts.cpu.is_some_and(|busy| busy >= AT_LIMIT);
    if let Some(foreign) = facts.foreign.filter(|foreign| is_busy && *foreign >= FOREIGN_MIN) {
        let evidence = format!(
            "other processes used {} of the processors, and nothing was left of them",
            percent(foreign)
        );
        return Some((Bottleneck::ForeignCpu, 1.0, evidence));
    }
    let waiting = facts.waiting();
    if let Some(busy) = facts.driver.filter(|busy| *busy >= AT_LIMIT && waiting > facts.working()) {
        let evidence = format!(
            "a thread of the driver was busy {} of the time, and {waiting:.1} sessions waited for it on average",
            percent(busy)
        );
        return Some((Bottleneck::Driver, 1.0, evidence));
    }
    None
}

/// Stages that somebody was in at nearly every instant.
fn stages(facts: &Facts) -> Vec<Candidate> {
    let candidate = |(stage, name, words): (Stage, Bottleneck, &str)| {
        let (occupied, share) = (facts.occupied(stage), facts.share_in(stage));
        // One flush serves many sessions; a device that reads for them serves each apart.
        let is_for_all = stage == Stage::WalFlush;
        let holds = share
            + facts.roots_where(|what| Stage::of(what, true) == Some(stage)) * facts.share_in(Stage::Lock);
        (is_for_all && holds >= SHARE_MIN || holds >= 0.4).then(|| {
            let evidence = format!(
                "at {:.0} % of the instants somebody was {words}, and {:.0} % of the sessions at work waited for it",
                100.0 * occupied,
                100.0 * holds.min(1.0)
            );
            (name, occupied, evidence)
        })
    };
    let all = [
        (Stage::WalFlush, Bottleneck::WalSync, "writing or syncing WAL"),
        (Stage::WalInit, Bottleneck::WalVolume, "creating a segment of WAL"),
        (Stage::DataRead, Bottleneck::DataRead, "reading data"),
        (Stage::DataWrite, Bottleneck::DataWrite, "writing data within a session"),
        (Stage::Spill, Bottleneck::Memory, "reading or writing a temporary file"),
    ];
    all.into_iter().filter_map(candidate).collect()
}

/// Queues for locks, unless what their roots do is a stage of its own.
fn locks(facts: &Facts) -> Vec<Candidate> {
    let (occupied, share) = (facts.occupied(Stage::Lock), facts.share_in(Stage::Lock));
    if share < SHARE_MIN || facts.roots.is_empty() {
        return Vec::new();
    }
    let of_client = facts.roots_where(|what| what == wait::IDLE_IN_TRANSACTION);
    let of_stage = facts.roots_where(|what| Stage::of(what, true).is_some_and(|stage| stage != Stage::Lock));
    let evidence = |whose: &str, part: f64| {
        format!(
            "{:.0} % of the sessions at work waited for locks, and {:.0} % of those for a holder that {whose}",
            100.0 * share,
            100.0 * part
        )
    };
    let at_work = (1.0 - of_client - of_stage).max(0.0);
    // Most roots must do the same; nearly all of them do where one thing limits.
    let candidate = |name, part: f64, whose| {
        (part >= 0.5).then(|| (name, occupied * (part + 0.3).min(1.0), evidence(whose, part)))
    };
    let all = [
        candidate(Bottleneck::ClientHeldLock, of_client, "waited for its client"),
        candidate(Bottleneck::RowLock, at_work, "was at work"),
    ];
    all.into_iter().flatten().collect()
}

/// The lightweight lock that most sessions wait for, other than that of WAL's flush.
fn lwlock(facts: &Facts) -> Vec<Candidate> {
    let is_one = |what: &str| what.starts_with("LWLock:") && Stage::of(what, true).is_none();
    let most = facts.sessions.iter().filter(|(what, _)| is_one(what)).max_by(|a, b| a.1.total_cmp(&b.1));
    let working = facts.working();
    let share = |n: f64| if working > 0.0 { n / working } else { 0.0 };
    let found = most.filter(|(_, n)| share(*n) >= SHARE_MIN).map(|(what, n)| {
        let evidence = format!("{:.0} % of the sessions at work waited for {what}", 100.0 * share(*n));
        // A fifth of the sessions at one point is a candidate, two fifths are its limit.
        (Bottleneck::Lwlock, (0.5 + share(*n)).min(1.0), evidence)
    });
    found.into_iter().collect()
}

fn processors(facts: &Facts) -> Vec<Candidate> {
    let Some(busy) = facts.cpu else { return Vec::new() };
    let runnable = facts.sessions_where(|what| what == wait::CPU);
    let of_server = facts.server_cpu.map_or(String::new(), |n| format!(", {n:.1} of them by the server"));
    let shared = if facts.is_local { ", with the driver on the same ones" } else { "" };
    let evidence = format!(
        "the processors were busy {:.0} % of the time{of_server}{shared}; {runnable:.1} sessions ran or waited to run",
        100.0 * busy
    );
    vec![(Bottleneck::ServerCpu, busy, evidence)]
}

/// What a load without a limit in sight lacks.
fn nothing_near(facts: &Facts) -> Limiter {
    let idle = facts.waiting();
    let working = facts.working();
    let busy = facts
        .cpu
        .map_or(String::new(), |busy| format!(", and the processors were busy {:.0} %", 100.0 * busy));
    let seen = format!(
        "on average {working:.1} sessions were in a statement and {idle:.1} waited for the driver{busy}"
    );
    if facts.met_its_rate {
        let evidence = format!("the rate that was asked for was reached; {seen}");
        return limiter((Bottleneck::OfferedLoad, 1.0, evidence), Confidence::Medium, None);
    }
    if idle > working {
        let name = if facts.is_local { Bottleneck::OfferedLoad } else { Bottleneck::Network };
        return limiter((name, 1.0, seen), Confidence::Low, None);
    }
    // Nothing is near its limit, and all clients are served: more of them would do more.
    let name = if facts.cpu.is_some_and(|busy| busy < HAS_ROOM) {
        Bottleneck::OfferedLoad
    } else {
        Bottleneck::Unknown
    };
    limiter((name, 1.0, seen), Confidence::Low, None)
}

/// The judgement of a whole measurement, of which `thirds` were judged apart.
pub(crate) fn over(whole: Limiter, thirds: &[Limiter]) -> Limiter {
    let names: Vec<Bottleneck> = thirds.iter().map(|third| third.name).collect();
    let are_clear = thirds.iter().all(|third| third.confidence == Confidence::Medium);
    match (names.first(), names.last()) {
        (Some(first), Some(last)) if first != last && are_clear => {
            let words: Vec<&str> = names.iter().map(|name| name.as_str()).collect();
            let evidence = format!("the thirds of the measurement were limited by {}", words.join(", "));
            limiter((Bottleneck::Mixed, 1.0, evidence), Confidence::Medium, None)
        }
        _ => whole,
    }
}

/// The limiter of a case: what most of its runs name.
pub(crate) fn of_case(runs: &[&Limiter]) -> Option<Limiter> {
    let count = |limiter: &Limiter| runs.iter().filter(|run| run.name == limiter.name).count();
    let most = runs.iter().max_by_key(|limiter| (count(limiter), limiter.confidence))?;
    let n = count(most);
    if n == runs.len() {
        return Some((*most).clone());
    }
    if 2 * n > runs.len() {
        let evidence = format!("{} ({n} of {} runs)", most.evidence, runs.len());
        return Some(Limiter { confidence: Confidence::Low, evidence, ..(*most).clone() });
    }
    let mut names: Vec<&str> = runs.iter().map(|run| run.name.as_str()).collect();
    names.sort_unstable();
    names.dedup();
    let evidence = format!("its runs were limited by {}", names.join(", "));
    Some(limiter((Bottleneck::Mixed, 1.0, evidence), Confidence::Low, None))
}

/// The limiter of a run over its measurement.
pub(crate) fn of_run(
    usage: &Usage,
    span: (f64, f64),
    resources: &Resources,
    conditions: &Conditions,
) -> Option<Limiter> {
    let judged = |span| Some(judge(&Facts::of(usage, span)?.with(usage, span, resources, conditions)));
    let whole = judged(span)?;
    let third = (span.1 - span.0) / 3.0;
    let bounds = [0.0, 1.0, 2.0].map(|n| (span.0 + n * third, span.0 + (n + 1.0) * third));
    let thirds: Vec<Limiter> = bounds.into_iter().filter_map(judged).collect();
    Some(if thirds.len() == bounds.len() { over(whole, &thirds) } else { whole })
}

/// Whether a quota stopped a control group of the server in more than half of its periods.
fn is_throttled(usage: &Usage, (from_s, to_s): (f64, f64)) -> bool {
    let groups = usage.instances("cgroup.periods");
    groups.iter().filter(|group| group.starts_with("server")).any(|group| {
        let rate = |metric: &str| usage.rate_of_key(&key(metric, group), from_s, to_s);
        matches!((rate("cgroup.throttled_periods"), rate("cgroup.periods")), (Some(n), Some(all)) if all > 0.0 && n / all > 0.5)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn facts(sessions: &[(&str, f64)], occupancy: &[(Stage, f64)], roots: &[(&str, f64)], cpu: f64) -> Facts {
        let owned = |all: &[(&str, f64)]| all.iter().map(|(what, n)| (what.to_string(), *n)).collect();
        Facts {
            sessions: owned(sessions),
            occupancy: occupancy.to_vec(),
            roots: owned(roots),
            cpu: Some(cpu),
            is_local: true,
            n_clients: sessions.iter().map(|(_, n)| n).sum(),
            ..Facts::default()
        }
    }

    #[test]
    fn what_somebody_is_in_at_every_instant_limits_and_symptoms_do_not() {
        // Figures as measured: a disk with 200 writes a second below the WAL, and 32 clients at scale 10.
        let slow_wal = facts(
            &[("Lock:transactionid", 22.7), ("LWLock:WALWrite", 7.4), ("IO:WalSync", 1.0), ("CPU", 0.4)],
            &[(Stage::WalFlush, 0.97), (Stage::Lock, 0.99)],
            &[("LWLock:WALWrite", 0.75), ("IO:WalSync", 0.2), ("CPU", 0.05)],
            0.15,
        );
        let found = judge(&slow_wal);
        assert_eq!((found.name, found.confidence), (Bottleneck::WalSync, Confidence::Medium), "{found:?}");
        assert!(found.evidence.starts_with("at 97 % of the instants somebody was writing or syncing WAL"));
        // A hot row that a client holds for 5 ms, 16 clients.
        let held = facts(
            &[("Lock:tuple", 14.0), ("idle in transaction", 0.9), ("CPU", 0.3)],
            &[(Stage::WalFlush, 0.1), (Stage::Lock, 0.99)],
            &[("idle in transaction", 0.9), ("CPU", 0.1)],
            0.1,
        );
        assert_eq!(judge(&held).name, Bottleneck::ClientHeldLock);
        // The same row, held by a session at work.
        let hot = Facts { roots: vec![("CPU".to_string(), 0.9), ("gone".to_string(), 0.1)], ..held };
        assert_eq!(judge(&hot).name, Bottleneck::RowLock);
    }

    #[test]
    fn processors_that_are_all_busy_limit_unless_something_else_is_as_near() {
        let cached = facts(&[("CPU", 12.0), ("idle", 4.0)], &[(Stage::WalFlush, 0.0)], &[], 0.99);
        let found = judge(&cached);
        assert_eq!((found.name, found.confidence), (Bottleneck::ServerCpu, Confidence::Medium));
        let unseen = Facts { cpu: None, ..cached.clone() };
        assert_eq!(judge(&unseen).confidence, Confidence::Low);
        let both = facts(
            &[("CPU", 3.0), ("IO:WalSync", 1.0), ("LWLock:WALWrite", 4.0)],
            &[(Stage::WalFlush, 0.9)],
            &[],
            0.95,
        );
        let found = judge(&both);
        assert_eq!((found.name, found.confidence), (Bottleneck::ServerCpu, Confidence::Low));
        assert_eq!(found.runner_up.unwrap().0, Bottleneck::WalSync);
    }

    #[test]
    fn few_clients_are_an_answer_and_nothing_near_is_unknown() {
        let one = facts(&[("CPU", 0.4), ("idle", 0.6)], &[], &[], 0.3);
        assert_eq!(judge(&one).name, Bottleneck::OfferedLoad);
        assert_eq!(judge(&Facts { is_local: false, ..one.clone() }).name, Bottleneck::Network);
        let paced = judge(&Facts { met_its_rate: true, ..one });
        assert_eq!((paced.name, paced.confidence), (Bottleneck::OfferedLoad, Confidence::Medium));
        let odd = facts(&[("CPU", 3.0), ("Timeout:PgSleep", 9.0), ("idle", 1.0)], &[], &[], 0.65);
        assert_eq!(judge(&odd).name, Bottleneck::Unknown);
    }

    #[test]
    fn quotas_steal_and_the_driver_come_before_what_the_server_says() {
        let cached = facts(&[("CPU", 2.0), ("idle", 14.0)], &[], &[], 0.99);
        assert_eq!(judge(&Facts { is_throttled: true, ..cached.clone() }).name, Bottleneck::Quota);
        assert_eq!(judge(&Facts { steal: Some(0.2), ..cached.clone() }).name, Bottleneck::Steal);
        assert_eq!(judge(&Facts { foreign: Some(0.5), ..cached.clone() }).name, Bottleneck::ForeignCpu);
        assert_eq!(judge(&Facts { driver: Some(0.97), ..cached.clone() }).name, Bottleneck::Driver);
        assert_eq!(judge(&Facts { driver: Some(0.5), ..cached.clone() }).name, Bottleneck::ServerCpu);
        // Of two clients that work, none waits for the driver, however many other sessions are idle.
        let others = Facts { driver: Some(0.97), n_clients: 2.0, ..cached };
        assert_eq!(judge(&others).name, Bottleneck::ServerCpu);
    }

    #[test]
    fn thirds_that_differ_are_mixed_and_runs_that_differ_are_said() {
        let cpu = judge(&facts(&[("CPU", 12.0)], &[], &[], 0.99));
        let held = judge(&facts(
            &[("Lock:tuple", 14.0), ("CPU", 0.3)],
            &[(Stage::Lock, 0.99)],
            &[("idle in transaction", 1.0)],
            0.1,
        ));
        let mixed = over(cpu.clone(), &[cpu.clone(), cpu.clone(), held.clone()]);
        assert_eq!(mixed.name, Bottleneck::Mixed);
        assert!(mixed.evidence.ends_with("by server-cpu, server-cpu, client-held-lock"));
        assert_eq!(over(cpu.clone(), &[cpu.clone(), held.clone(), cpu.clone()]).name, Bottleneck::ServerCpu);
        assert_eq!(of_case(&[&cpu, &cpu, &held]).unwrap().confidence, Confidence::Low);
        assert_eq!(of_case(&[&cpu, &held]).unwrap().name, Bottleneck::Mixed);
        assert_eq!(of_case(&[]), None);
    }
}
