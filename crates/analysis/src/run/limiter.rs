//! Attribution: which of a run's resources and serial stages could give no more.
//!
//! Shares of wait samples name symptoms: sessions queue for a row whose holder waits for the flush of its commit. So what counts
//! is occupancy, the share of instants in which anyone is in a stage; waits for locks are charged to what the root
//! of their queue does; and a closed loop's clients are all accounted for, so that few clients are an answer as well.
//!
//! Thresholds: a stage or resource is a candidate from 0.7 on, named with medium confidence from 0.85 on if the next is below
//! 0.6 or a fifth less. High confidence needs proof by lifting the limit.

mod candidates;
mod charged;
mod facts;
mod figures;
mod holders;
mod mixture;
pub(crate) mod room;
pub(crate) mod rows;
mod standby;
mod unjudged;
pub(crate) mod utilisation;

use model::release::privileges;
use model::run::RunRecord;
use model::telemetry::wait;

use crate::run::usage::Usage;
use crate::summary::ResourceUsage;
use crate::summary::limiter::{Bottleneck, Confidence, Limiter, LockOwner, StandbyPart};

use candidates::{AT_LIMIT, Candidate, HAS_ROOM};
pub(crate) use facts::{Conditions, ConnectTime, MeasurementFacts};
use mixture::Part;
pub(crate) use mixture::of_case;

/// From here on, something is a candidate.
const CANDIDATE: f64 = 0.7;

/// Time of a transaction between driver and server, ms, which no machine takes to wake a process: it is a way.
const WAY_MS_MIN: f64 = 1.0;

/// How much longer a part, from samples of sessions, may seem than the whole, which the driver timed.
const ROUNDING: f64 = 1.1;

/// Part of the clients that wait for locks, from which on that is the limit whatever the holders do: our convention.
const QUEUED_MIN: f64 = 0.5;

/// Part of the clients that wait for rows which they must share, from which on that is named first: our convention.
const SHARED_MIN: f64 = 0.05;

/// Sessions that are mentioned because they only look idle, on average: fewer are rounded away.
const WAKING_MIN: f64 = 0.05;
/// Hidden sessions that are mentioned, on average.
const HIDDEN_MIN: f64 = 0.05;

/// The advice for a load without a limit in sight, if nothing is hidden from the role: no right would show more.
const LONGER: &str = "Measure longer.";
/// The same where the state of sessions is not tracked.
const TRACKED: &str = "Measure with track_activities on.";

/// Where a rate was asked for and met, the answer is there, and nothing is left to try.
const AS_ASKED: &str = "The rate limits, as asked.";

/// The advice where transactions spend most of their time on connecting.
const POOL: &str = "Keep connections open, or put a connection pooler in front of the server.";

/// The advice for a server whose machine has no driver already.
const MORE_PROCESSORS: &str = "Try more or faster processors.";

/// Names what limited, with the figures behind it.
pub(crate) fn judge(facts: &MeasurementFacts) -> Limiter {
    let judged = named(facts);
    let second = judged.runner_up.as_ref().map(|(name, _)| *name);
    let charged = charged::charged(facts, judged.name);
    let firsts = figures::firsts(facts);
    let part = if judged.name == Bottleneck::Standby { standby::part(facts) } else { None };
    let of_holder = holders::advice(facts, judged.name);
    let next = of_holder.or(part.map(StandbyPart::advice)).unwrap_or(judged.next);
    let is_of_lock = |name| matches!(name, Bottleneck::RowLock | Bottleneck::ClientHeldLock);
    let is_held = is_of_lock(judged.name) || second.is_some_and(is_of_lock);
    let holder = if is_held { holders::owner(facts) } else { None };
    Limiter {
        figures: figures::from_facts(facts, judged.name, second),
        firsts,
        charged,
        next,
        holder,
        part,
        ..judged
    }
}

fn named(facts: &MeasurementFacts) -> Limiter {
    let mut near = candidates::all(facts).into_iter().filter(|(_, score, _)| *score >= CANDIDATE);
    // Who is near a limit was not kept from anything by it.
    if facts.met_its_rate {
        let evidence = format!("the rate that was asked for was reached; {}", seen(facts));
        let of_rate = limiter((Bottleneck::OfferedLoad, 1.0, evidence), Confidence::Medium, near.next());
        return Limiter { next: AS_ASKED, ..of_rate };
    }
    if let Some(certain) = candidates::outside(facts) {
        // Nobody here can stop other processes, but what would be named without them can be tested.
        let second = near.next().filter(|_| certain.0 == Bottleneck::ForeignCpu);
        return limiter(certain, Confidence::Medium, second);
    }
    let mut ranked = candidates::all(facts).into_iter();
    let Some(first) = ranked.next().filter(|(_, score, _)| *score >= CANDIDATE) else {
        return nothing_near(facts);
    };
    let second = ranked.next();
    // What is behind a limit is no second one.
    let is_behind = match first.0 {
        Bottleneck::Checkpoint | Bottleneck::Autovacuum => true,
        Bottleneck::WalVolume => second.as_ref().is_some_and(|(second, ..)| *second == Bottleneck::WalSync),
        _ => false,
    };
    let is_clear = is_behind || second.as_ref().is_none_or(|(_, score, _)| *score < 0.8 * first.1);
    // What was not observed may be near its limit too.
    let is_seen = facts.cpu.is_some() && facts.is_sure && !facts.is_load_hidden();
    let confidence =
        if first.1 >= AT_LIMIT && is_clear && is_seen { Confidence::Medium } else { Confidence::Low };
    let second = if first.0 == Bottleneck::ClientHeldLock { slow_way(facts).or(second) } else { second };
    limiter(first, confidence, second)
}

/// The way to holders of locks who do not pause, while no thread of the driver is at work for them: it is what makes them hold so long.
fn slow_way(facts: &MeasurementFacts) -> Option<Candidate> {
    let is_foreign = holders::owner(facts).is_some_and(|owner| owner != LockOwner::Load);
    if facts.has_pauses || is_foreign {
        return None;
    }
    let holding = facts.sessions_where(|what| what == wait::IDLE_IN_TRANSACTION) - facts.driver_threads;
    let each_ms = 1e3 * holding / facts.tps.filter(|tps| *tps > 0.0)?;
    let is_possible = facts.service_s.is_none_or(|whole_s| each_ms <= 1e3 * whole_s * ROUNDING);
    (each_ms >= WAY_MS_MIN && is_possible).then(|| {
        let evidence = format!(
            "the clients do not pause, and no thread of the driver worked for them: {each_ms:.1} ms for each transaction passed on the way \
             while it held its locks"
        );
        (Bottleneck::Network, 1.0, evidence)
    })
}

fn limiter((name, _, evidence): Candidate, confidence: Confidence, second: Option<Candidate>) -> Limiter {
    let runner_up = second.map(|(name, _, evidence)| (name, evidence));
    Limiter { runner_up, ..Limiter::new(name, confidence, evidence) }
}

/// What a load without a limit in sight lacks.
fn nothing_near(facts: &MeasurementFacts) -> Limiter {
    let (idle, working, seen) = (facts.waiting(), facts.working(), seen(facts));
    if facts.connecting.is_some_and(ConnectTime::is_most) {
        let is_busy = facts.cpu.is_some_and(|busy| busy >= AT_LIMIT);
        let name = if is_busy { Bottleneck::ServerCpu } else { Bottleneck::Unknown };
        let evidence = format!("most clients wait to be connected; {seen}");
        return limiter((name, 1.0, evidence), Confidence::Low, None);
    }
    if facts.is_load_hidden() {
        let evidence =
            format!("what the load's sessions do is hidden from pgdyno's role, or not tracked; {seen}");
        return limiter((Bottleneck::Unknown, 1.0, evidence), Confidence::Low, None);
    }
    if let Some(queued) = queued(facts) {
        return queued;
    }
    // Where clients never pause, what neither the server nor the driver works on is between them.
    let way = facts.on_the_way();
    let each_ms = facts.tps.filter(|tps| *tps > 0.0).map(|tps| 1e3 * way / tps);
    // No part of a transaction is longer than all of it.
    let is_possible = |ms: &f64| facts.service_s.is_none_or(|whole_s| *ms <= 1e3 * whole_s * ROUNDING);
    if let Some(each_ms) = each_ms
        .filter(is_possible)
        .filter(|ms| *ms >= WAY_MS_MIN && !facts.has_pauses && way > 0.5 * facts.n_clients)
    {
        let evidence = format!(
            "{each_ms:.1} ms of each transaction passed between driver and server, where neither worked on it; {seen}"
        );
        let is_most = way >= AT_LIMIT * facts.n_clients && facts.is_sure;
        let confidence = if is_most { Confidence::Medium } else { Confidence::Low };
        return limiter((Bottleneck::Network, 1.0, evidence), confidence, None);
    }
    if let Some((what, n)) = facts.elsewhere() {
        let evidence = match what {
            wait::KERNEL_LOG_WRITE => format!(
                "{n:.1} of {:.0} sessions neither ran nor waited for what PostgreSQL has a name for: they wrote to the server's log, a pipe \
                 whose reader is slower; {seen}",
                facts.n_clients
            ),
            _ => format!(
                "{n:.1} sessions waited for {what}, and nothing here shows what that waits for; {seen}"
            ),
        };
        return limiter((Bottleneck::Unknown, 1.0, evidence), Confidence::Low, None);
    }
    if let Some(n) = facts.hidden_waits() {
        let evidence = format!(
            "{n:.1} sessions seemed to run, but few processors worked for them: they waited for what the server does \
             not show, before version 10 for any I/O; {seen}"
        );
        return limiter((Bottleneck::Unknown, 1.0, evidence), Confidence::Low, None);
    }
    if let Some(contended) = contended(facts) {
        return contended;
    }
    if let Some(between) = in_between(facts) {
        return between;
    }
    if idle > working {
        // Clients that pause are idle on purpose.
        let is_offered = facts.is_local || facts.has_pauses;
        let name = if is_offered { Bottleneck::OfferedLoad } else { Bottleneck::Network };
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

/// Clients of which most wait for locks, while their holders do now this, now that: whatever holds a lock up, there are fewer rows than clients
/// who want them. `None` for fewer clients.
fn queued(facts: &MeasurementFacts) -> Option<Limiter> {
    let n = rows::waiting(facts);
    if n < QUEUED_MIN * facts.n_clients || n <= 1.0 {
        return None;
    }
    let mut roots: Vec<&(String, f64)> = facts.roots.iter().collect();
    roots.sort_by(|a, b| b.1.total_cmp(&a.1));
    let roots: Vec<String> =
        roots.iter().take(3).map(|(what, share)| format!("{what} {:.0} %", 100.0 * share)).collect();
    let held = if roots.is_empty() {
        "what their holders did is not known".to_string()
    } else {
        format!("their holders did different things ({})", roots.join(", "))
    };
    let evidence = format!(
        "{n:.1} of {:.0} clients waited for locks: more clients than rows that they share; {held}",
        facts.n_clients
    );
    let is_most = n >= HAS_ROOM * facts.n_clients && facts.is_sure;
    let confidence = if is_most { Confidence::Medium } else { Confidence::Low };
    Some(limiter((Bottleneck::RowLock, 1.0, evidence), confidence, None))
}

/// Sessions of which half wait for locks of either kind: more clients would wait likewise, so the load that is offered is not the limit.
fn contended(facts: &MeasurementFacts) -> Option<Limiter> {
    let n = facts.sessions_where(|what| what.starts_with("Lock:") || what.starts_with("LWLock:"));
    if n < QUEUED_MIN * facts.working() || n <= 1.0 {
        return None;
    }
    let evidence = format!(
        "{n:.1} sessions waited for locks of rows or of the server's memory, and no single one stands out; {}",
        seen(facts)
    );
    Some(limiter((Bottleneck::Unknown, 1.0, evidence), Confidence::Low, None))
}

/// Clients of which most have no session at the server: a pooler keeps them waiting.
fn in_between(facts: &MeasurementFacts) -> Option<Limiter> {
    let sessions = facts.sessions_where(|_| true) + facts.hidden;
    if sessions >= HAS_ROOM * facts.n_clients || facts.n_clients - sessions <= 1.0 {
        return None;
    }
    let evidence = format!(
        "{:.0} clients had {sessions:.1} sessions at the server on average: the others waited for something in between, \
         such as a pooler; {}",
        facts.n_clients,
        seen(facts)
    );
    Some(limiter((Bottleneck::Network, 1.0, evidence), Confidence::Low, None))
}

/// Where the clients were, in words.
fn seen(facts: &MeasurementFacts) -> String {
    let busy =
        facts.cpu.map_or(String::new(), |busy| format!(", and {}", candidates::busy_words(facts, busy)));
    let (idle, working, waking) = (facts.waiting(), facts.working(), facts.not_yet_awake());
    let woken = match waking {
        n if n < WAKING_MIN => String::new(),
        n => format!(", {n:.1} looked idle and ran or waited to run,"),
    };
    let hidden = match facts.hidden {
        n if n < HIDDEN_MIN => String::new(),
        n => format!("; what {n:.1} more did is hidden"),
    };
    format!(
        "on average {working:.1} sessions were in a statement{woken} and {idle:.1} waited for the driver{busy}{hidden}"
    )
}

/// The limiter of a run over its measurement.
pub(crate) fn of_run(
    usage: &Usage,
    from_s: f64,
    to_s: f64,
    resources: &ResourceUsage,
    conditions: &Conditions,
    record: &RunRecord,
) -> Option<Limiter> {
    // Those of the whole measurement: a third may have none by chance.
    let checkpoints_per_min = facts::checkpoints_per_min(usage, from_s, to_s);
    let full_pages = facts::full_pages(usage, from_s, to_s);
    let deadlock_timeout_s = deadlock_timeout_s(record);
    let facts_of = |from_s, to_s| {
        let facts = MeasurementFacts {
            checkpoints_per_min,
            full_pages,
            deadlock_timeout_s,
            ..MeasurementFacts::from_usage(usage, from_s, to_s)?
        };
        let facts = facts.with(usage, from_s, to_s, resources, conditions);
        let facts = if delays_commits(record) { facts.with_commit_delay() } else { facts };
        let span = (from_s, to_s);
        let (used, standby) =
            (utilisation::resource_uses(usage, span, record), standby::stages(usage, span, record));
        Some(MeasurementFacts { used, standby, ..facts })
    };
    let Some(facts) = facts_of(from_s, to_s) else {
        return unjudged::why(usage, (from_s, to_s), record);
    };
    let judged = |(from_s, to_s)| Some(Part::from_facts(&facts_of(from_s, to_s)?));
    let whole = judge(&facts);
    let third = (to_s - from_s) / 3.0;
    let bounds = [0.0, 1.0, 2.0].map(|n| (from_s + n * third, from_s + (n + 1.0) * third));
    let thirds: Vec<Part> = bounds.into_iter().filter_map(judged).collect();
    let limiter = if thirds.len() == bounds.len() { mixture::over(whole, &thirds) } else { whole };
    let connecting = conditions.connecting.filter(|time| time.is_most());
    let is_left_to_server = limiter.name == Bottleneck::ServerCpu && record.is_driven_from_elsewhere();
    let next = match limiter.name {
        _ if is_left_to_server => MORE_PROCESSORS,
        Bottleneck::ServerCpu | Bottleneck::Unknown if connecting.is_some() && !is_pooled(record) => POOL,
        Bottleneck::Unknown => seeing_more(record).unwrap_or(limiter.next),
        _ => limiter.next,
    };
    let evidence = match connecting {
        Some(ConnectTime { connect_s, latency_s }) => format!(
            "each transaction connects first, which takes {:.1} of its {:.1} ms; {}",
            1e3 * connect_s,
            1e3 * latency_s,
            limiter.evidence
        ),
        None => limiter.evidence.clone(),
    };
    // Clients that must share rows and hardly ever wait for them are not limited by that.
    let waiting = rows::waiting(&facts);
    let is_seen = waiting >= SHARED_MIN * facts.n_clients;
    let shared = if is_seen { rows::words(&record.case.workload) } else { None };
    let shared = shared.map(|words| format!("{words}: {waiting:.1} of them waited for locks"));
    Some(Limiter { next, shared, evidence, ..limiter })
}

/// Whether a pooler is in front of the server: ours, or one that was found there.
fn is_pooled(record: &RunRecord) -> bool {
    let route = record.server.as_ref().and_then(|server| server.route.as_ref());
    record.pooler.is_some() || route.is_some_and(|route| route.pooler.is_some())
}

/// How to see more of a server than was seen, if no right is missing that this release has.
fn seeing_more(record: &RunRecord) -> Option<&'static str> {
    let server = record.server.as_ref()?;
    let is_tracked = server.setting("track_activities") != Some("off");
    let has_roles = server.has(privileges::MONITORING_ROLES);
    let is_all_seen = has_roles && !server.unavailable.contains_key("all_stats");
    match (is_tracked, is_all_seen) {
        (false, _) => Some(TRACKED),
        (true, true) => Some(LONGER),
        (true, false) if !has_roles => Some("Measure longer, or as a superuser."),
        (true, false) => None,
    }
}

/// After which time the server looks for a deadlock; its default where that is not known.
fn deadlock_timeout_s(record: &RunRecord) -> f64 {
    let setting = record.server.as_ref().and_then(|server| server.setting("deadlock_timeout"));
    setting.and_then(holders::time_s).unwrap_or(1.0)
}

/// Whether commits pause before they flush WAL, so that others join.
fn delays_commits(record: &RunRecord) -> bool {
    let setting = record.server.as_ref().and_then(|server| server.setting("commit_delay"));
    setting.is_some_and(|value| !matches!(value, "" | "0"))
}

#[cfg(test)]
mod tests;
