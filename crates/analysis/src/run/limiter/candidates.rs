//! What may have limited a run, with how near each was to its limit.

use model::telemetry::wait::{self, WaitStage};

use crate::run::limiter::CANDIDATE;
use crate::run::limiter::facts::MeasurementFacts;
use crate::run::limiter::room::Limited;
use crate::run::limiter::utilisation::ResourceUse;
use crate::run::limiter::{charged, holders, standby};
use crate::summary::limiter::Bottleneck;

/// From here on, something is at its limit.
pub(super) const AT_LIMIT: f64 = 0.85;
/// Busy share of the processors from which on a sentence says that no time was left.
const NONE_LEFT: f64 = 0.95;
/// Below this, something has room.
pub(super) const HAS_ROOM: f64 = 0.6;
/// Part of the sessions at work that one kind of wait must hold to limit them.
const SHARE_MIN: f64 = 0.2;
/// Part of a busy machine that others must use to limit it.
const FOREIGN_MIN: f64 = 0.25;
/// Steal from here on limits a busy machine.
const STEAL_MIN: f64 = 0.1;

/// Requested checkpoints per minute, and the part of WAL that is full pages, from which on checkpoints are behind a limit.
const CHECKPOINTS_MIN: f64 = 2.0;
const FULL_PAGES_MIN: f64 = 0.5;
/// Part of a device's queue, or of the processors, that is vacuums'.
const VACUUMS_MIN: f64 = 1.0 / 3.0;
/// Sessions per processor that could run, from which on they wait for each other's turn more than they work.
const RUNNABLE_MIN: f64 = 8.0;
/// Busy share from which on processors bind whatever is lifted. Below, they have room, and what a session does around its waits costs
/// them less when it waits less.
const ALL_BUSY: f64 = 0.95;
/// Part of its ceiling from which on a resource is a candidate though no session is known to wait for it.
pub(super) const UNSEEN_MIN: f64 = 0.9;
/// Part of its ceiling from which on it confirms what sessions wait for.
const CONFIRMS: f64 = 0.7;

/// Clients in the queue of a pooler from which on it is one, on average: our convention.
const QUEUE_MIN: f64 = 1.0;
/// Part of a pooler's connections that are in use where it has none left: a console shows those that change hands as idle.
const POOL_FULL: f64 = 0.9;

/// A candidate: how near it is to its limit, 0 to 1, and its figures.
pub(super) type Candidate = (Bottleneck, f64, String);

/// What the server and its machine show: all that have little room left, the nearest to its limit first.
pub(super) fn all(facts: &MeasurementFacts) -> Vec<Candidate> {
    let mut all: Vec<Candidate> = [
        against_ceilings(stages(facts), &facts.used),
        locks(facts),
        lwlock(facts),
        processors(facts),
        held_up_driver(facts),
    ]
    .concat();
    let cause = behind(facts, &all);
    all.retain(|(name, score, _)| *score >= HAS_ROOM && cause.iter().all(|(cause, ..)| cause != name));
    all.extend(cause);
    all.sort_by(|a, b| b.1.total_cmp(&a.1));
    by_gain(facts, all)
}

/// Candidates in the order of what a lift of each would give, as far as that is known of all that are near their limits: what holds up
/// more of the clients' time comes first. What limits all of the time anyway, and causes of others, stay first.
fn by_gain(facts: &MeasurementFacts, mut all: Vec<Candidate>) -> Vec<Candidate> {
    let n_near = all.iter().take_while(|(_, score, _)| *score >= CANDIDATE).count();
    let is_bound =
        |name: Bottleneck| name == Bottleneck::ServerCpu && facts.cpu.is_some_and(|busy| busy >= ALL_BUSY);
    let part = |name: Bottleneck| match name {
        Bottleneck::ServerCpu => Some(facts.runnable() / facts.n_clients).filter(|part| part.is_finite()),
        Bottleneck::Scheduling | Bottleneck::Checkpoint | Bottleneck::WalVolume => None,
        name => charged::charged(facts, name),
    };
    let parts: Option<Vec<f64>> =
        all[..n_near].iter().map(|(name, ..)| if is_bound(*name) { None } else { part(*name) }).collect();
    if let Some(parts) = parts {
        let mut near: Vec<(f64, Candidate)> = parts.into_iter().zip(all.drain(..n_near)).collect();
        near.sort_by(|a, b| b.0.total_cmp(&a.0));
        all.splice(..0, near.into_iter().map(|(_, candidate)| candidate));
    }
    all
}

/// What no statistics of the server show, and what comes before them.
pub(super) fn outside(facts: &MeasurementFacts) -> Option<Candidate> {
    let percent = |share: f64| format!("{:.0} %", 100.0 * share);
    let lacks_cpu = facts.wants_cpu() >= SHARE_MIN;
    let used_up = facts.quota.filter(|quota| quota.share() >= UNSEEN_MIN && lacks_cpu);
    if facts.is_throttled || used_up.is_some() {
        return Some((Bottleneck::Quota, 1.0, quota_words(facts)));
    }
    // Who has used up what it may use misses nothing that others use.
    let is_used_up = |room: &Limited| room.share() >= AT_LIMIT && facts.waiting() > facts.working();
    if let Some(room) = facts.driver_room.filter(is_used_up) {
        let evidence = format!(
            "the driver used {} that it may use, and {:.1} sessions waited for it on average",
            room.words(),
            facts.waiting()
        );
        return Some((Bottleneck::Driver, 1.0, evidence));
    }
    if let Some(steal) = facts.steal.filter(|steal| *steal >= STEAL_MIN && lacks_cpu) {
        let evidence = format!("the hypervisor gave {} of the processors' time to others", percent(steal));
        return Some((Bottleneck::Steal, 1.0, evidence));
    }
    let is_busy = facts.cpu.is_some_and(|busy| busy >= AT_LIMIT) && lacks_cpu;
    if let Some(foreign) = facts.foreign.filter(|foreign| is_busy && *foreign >= FOREIGN_MIN) {
        let left = match facts.cpu {
            Some(busy) if busy < NONE_LEFT => format!("which were busy {}", percent(busy)),
            _ => "and no processor time was left".to_string(),
        };
        let evidence =
            format!("other processes used {} of {}, {left}", percent(foreign), the_processors(facts));
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
    if let Some(of_pooler) = pooler(facts) {
        return Some(of_pooler);
    }
    if let Some(room) = facts.pooler.filter(is_used_up) {
        let evidence = format!(
            "the pooler or proxy in between used {} that it can use, and {waiting:.1} sessions waited for the driver or for it",
            room.words()
        );
        return Some((Bottleneck::Network, 1.0, evidence));
    }
    None
}

/// What keeps clients in the queue of our own pooler while the server has room: its processor time, or the number of its connections.
fn pooler(facts: &MeasurementFacts) -> Option<Candidate> {
    let queue = facts.queue.filter(|queue| queue.waiting >= QUEUE_MIN)?;
    let server = facts.server_cpu.zip(facts.n_cpus).map_or(0.0, |(used, n)| used / n.max(1.0));
    let has_device = facts.used.iter().filter_map(ResourceUse::share).all(|share| share < CONFIRMS);
    if server >= CONFIRMS || !has_device {
        return None;
    }
    let waiting = format!("{:.1} clients waited for a connection of the pooler on average", queue.waiting);
    if let Some(room) = facts.pooler.filter(|room| room.share() >= UNSEEN_MIN) {
        let evidence = format!("the pooler used {} that it can use, and {waiting}", room.words());
        return Some((Bottleneck::PoolerCpu, 1.0, evidence));
    }
    // Who waits for a lock, or for the flush of a commit, is not served sooner over more connections.
    let is_held = || {
        [stages(facts), locks(facts), lwlock(facts)].concat().iter().any(|(_, score, _)| *score >= AT_LIMIT)
    };
    let is_full = queue.active >= POOL_FULL * queue.n_connections;
    (is_full && !is_held()).then(|| {
        let evidence = format!(
            "{waiting}, and {:.1} of its {:.1} connections to the server were in use, which used {:.0} % of its processors",
            queue.active,
            queue.n_connections,
            100.0 * server
        );
        (Bottleneck::PoolerSize, 1.0, evidence)
    })
}

/// What a quota did to the server's processes.
fn quota_words(facts: &MeasurementFacts) -> String {
    let stopped = match facts.throttled {
        Some(share) => {
            format!("a quota stopped the server's processes in {:.0} % of its periods", 100.0 * share)
        }
        None => "a quota stopped the server's processes again and again".to_string(),
    };
    let who = if facts.is_quota_shared { "they and the driver, which is in the same group," } else { "they" };
    let used = facts.quota.map_or(String::new(), |quota| format!("; {who} used {}", quota.words()));
    format!("{stopped}{used}")
}

/// The processors that count for the server.
fn the_processors(facts: &MeasurementFacts) -> String {
    match facts.n_cpus {
        Some(n) if facts.is_bound && n < 1.5 => "the one processor that the server may use".to_string(),
        Some(n) if facts.is_bound => format!("the {n:.0} processors that the server may use"),
        _ => "the processors".to_string(),
    }
}

/// How busy they were, in words.
pub(super) fn busy_words(facts: &MeasurementFacts, busy: f64) -> String {
    let verb = if facts.is_bound && facts.n_cpus.is_some_and(|n| n < 1.5) { "was" } else { "were" };
    format!("{} {verb} busy {:.0} %", the_processors(facts), 100.0 * busy)
}

/// A driver whose threads wait for a processor while the server's machine has some left: it is bound to a busy one.
fn held_up_driver(facts: &MeasurementFacts) -> Vec<Candidate> {
    let (Some(busy), Some(delay)) = (facts.driver, facts.driver_delay) else { return Vec::new() };
    let has_room = facts.cpu.is_none_or(|busy| busy < AT_LIMIT);
    if !has_room || delay < SHARE_MIN || facts.waiting() <= facts.working() {
        return Vec::new();
    }
    let evidence = format!(
        "a thread of the driver worked {:.0} % of the time and waited for a processor {:.0} %, and {:.1} sessions waited for it",
        100.0 * busy,
        100.0 * delay,
        facts.waiting()
    );
    vec![(Bottleneck::Driver, (busy + delay).min(1.0), evidence)]
}

/// What is behind a candidate: checkpoints that fill WAL with full pages, a device that takes no more bytes of WAL, vacuums that
/// use what sessions wait for.
fn behind(facts: &MeasurementFacts, candidates: &[Candidate]) -> Vec<Candidate> {
    let most = candidates.iter().max_by(|a, b| a.1.total_cmp(&b.1));
    let Some((name, score, _)) = most.filter(|(_, score, _)| *score >= HAS_ROOM) else { return Vec::new() };
    // Where nobody knows them, nothing is said of them.
    let pages = facts.full_pages.filter(|share| *share >= FULL_PAGES_MIN);
    let is_of_wal = matches!(name, Bottleneck::WalSync | Bottleneck::WalVolume | Bottleneck::DataWrite);
    let ahead = (score + 0.01).min(1.01);
    if let Some(pages) = pages
        && is_of_wal
        && facts.checkpoints_per_min >= CHECKPOINTS_MIN
    {
        let evidence = format!(
            "the amount of WAL requested {:.1} checkpoints per minute, and up to {:.0} % of WAL were the full pages that \
             follow each",
            facts.checkpoints_per_min,
            100.0 * pages
        );
        return vec![(Bottleneck::Checkpoint, ahead, evidence)];
    }
    let is_flush = matches!(name, Bottleneck::WalSync | Bottleneck::WalVolume);
    if let Some(most) = facts.volume_of_wal()
        && is_flush
    {
        return vec![(Bottleneck::WalVolume, ahead, most.words())];
    }
    let stage = match name {
        Bottleneck::DataRead => Some(WaitStage::DataRead),
        Bottleneck::DataWrite => Some(WaitStage::DataWrite),
        Bottleneck::ServerCpu => None,
        _ => return Vec::new(),
    };
    let is_in_it = |what: &str| match stage {
        Some(stage) => WaitStage::from_event(what, true) == Some(stage),
        None => what == wait::CPU,
    };
    let n = facts.vacuums_where(is_in_it);
    let whole = match stage {
        Some(_) => n + facts.sessions_where(is_in_it),
        None => facts.n_cpus.unwrap_or(f64::INFINITY),
    };
    if n < VACUUMS_MIN * whole || n <= 0.0 {
        return Vec::new();
    }
    let what = stage.map_or("of the processors", |_| "of those that waited for the device");
    let evidence =
        format!("automatic vacuums were {:.0} % {what}: {n:.1} at a time", 100.0 * (n / whole).min(1.0));
    vec![(Bottleneck::Autovacuum, ahead, evidence)]
}

/// Stages that somebody was in at nearly every instant.
fn stages(facts: &MeasurementFacts) -> Vec<Candidate> {
    let candidate = |(stage, name, words): (WaitStage, Bottleneck, &str)| {
        let (occupied, share) = (facts.occupied(stage), facts.share_in(stage));
        // One flush, here or on a standby, serves many sessions; a device that reads for them serves each apart.
        let is_for_all = matches!(stage, WaitStage::WalFlush | WaitStage::Standby);
        let holds = share + facts.roots_in(stage) * facts.share_in(WaitStage::Lock);
        (is_for_all && holds >= SHARE_MIN || holds >= 0.4).then(|| {
            let evidence = format!(
                "at {:.0} % of the instants somebody was {words}, and {:.0} % of the sessions at work waited for it{}",
                100.0 * occupied,
                100.0 * holds.min(1.0),
                if stage == WaitStage::Standby { standby::words(facts) } else { String::new() }
            );
            (name, occupied, evidence)
        })
    };
    let all = [
        (WaitStage::WalFlush, Bottleneck::WalSync, "writing or syncing WAL"),
        (WaitStage::WalInit, Bottleneck::WalVolume, "creating a segment of WAL"),
        (WaitStage::Standby, Bottleneck::Standby, "waiting for a standby"),
        (WaitStage::DataRead, Bottleneck::DataRead, "reading data"),
        (WaitStage::DataWrite, Bottleneck::DataWrite, "writing data within a session"),
        (WaitStage::Spill, Bottleneck::Memory, "reading or writing a temporary file"),
    ];
    all.into_iter().filter_map(candidate).collect()
}

/// Candidates with what was used of their ceilings, and resources at their ceilings that no session is known to wait for: the
/// kernel writes for everybody, and a network has no wait event.
fn against_ceilings(mut stages: Vec<Candidate>, used: &[ResourceUse]) -> Vec<Candidate> {
    let mut names: Vec<Bottleneck> = used.iter().map(|used| used.name).collect();
    names.sort_unstable();
    names.dedup();
    for name in names {
        let of_name = used.iter().filter(|used| used.name == name);
        let shares = of_name.filter_map(|used| Some((used, used.share()?)));
        let Some((most, share)) = shares.max_by(|a, b| a.1.total_cmp(&b.1)) else { continue };
        match stages.iter_mut().find(|(stage, ..)| *stage == name) {
            Some((_, score, evidence)) => {
                *evidence = format!("{evidence}; {}", most.words());
                if share >= CONFIRMS {
                    *score = score.max(share.min(1.0));
                }
            }
            // Without a flat top it may be chance, which is worth a low confidence.
            None if share >= UNSEEN_MIN => {
                let score = if most.is_flat { share.min(1.0) } else { 0.8 };
                stages.push((name, score, most.words()));
            }
            None => {}
        }
    }
    stages
}

/// Queues for locks, unless what their roots do is a stage of its own.
fn locks(facts: &MeasurementFacts) -> Vec<Candidate> {
    if let Some(circles) = holders::circles(facts) {
        return vec![circles];
    }
    let (occupied, share) = (facts.occupied(WaitStage::Lock), facts.share_in(WaitStage::Lock));
    if share < SHARE_MIN || facts.roots.is_empty() {
        return Vec::new();
    }
    let evidence = |whose: &str, part: f64| {
        format!(
            "{:.0} % of the sessions at work waited for {}, and {:.0} % of those for a holder that {whose}{}",
            100.0 * share,
            holders::words(facts),
            100.0 * part,
            holders::held_by(facts)
        )
    };
    // Most roots must do the same; nearly all of them do where one thing limits.
    let candidate = |name, part: f64, whose| {
        (part >= 0.5).then(|| (name, occupied * (part + 0.3).min(1.0), evidence(whose, part)))
    };
    let all = [
        candidate(Bottleneck::ClientHeldLock, facts.roots_at_client(), "waited for its client"),
        candidate(Bottleneck::RowLock, facts.roots_at_work(), "was at work"),
    ];
    all.into_iter().flatten().collect()
}

/// The lightweight lock that most sessions wait for, other than that of WAL's flush.
fn lwlock(facts: &MeasurementFacts) -> Vec<Candidate> {
    let most =
        facts.sessions.iter().filter(|(what, _)| facts.is_lwlock(what)).max_by(|a, b| a.1.total_cmp(&b.1));
    let working = facts.working();
    let share = |n: f64| if working > 0.0 { n / working } else { 0.0 };
    let found = most.filter(|(_, n)| share(*n) >= SHARE_MIN).map(|(what, n)| {
        let evidence = format!("{:.0} % of the sessions at work waited for {what}", 100.0 * share(*n));
        // A fifth of the sessions at one point is a candidate, two fifths are its limit.
        (Bottleneck::Lwlock, (0.5 + share(*n)).min(1.0), evidence)
    });
    found.into_iter().collect()
}

fn processors(facts: &MeasurementFacts) -> Vec<Candidate> {
    // Others may keep all of them busy while the load waits for something else.
    let Some(busy) = facts.cpu.filter(|_| facts.wants_cpu() >= SHARE_MIN) else { return Vec::new() };
    let runnable = facts.runnable();
    let is_one = facts.is_bound && facts.n_cpus.is_some_and(|n| n < 1.5);
    let it = if is_one { "it" } else { "them" };
    let of_server = facts.server_cpu.map_or(String::new(), |n| format!(", {n:.1} of {it} by the server"));
    let shared = match (facts.is_local && !facts.is_apart, is_one) {
        (false, _) => "",
        (true, true) => ", and the driver may use it too",
        (true, false) => ", with the driver on the same ones",
    };
    let evidence = format!(
        "{} of the time{of_server}{shared}; {runnable:.1} sessions ran or waited to run",
        busy_words(facts, busy)
    );
    let queue = facts.n_cpus.map_or(0.0, |n_cpus| runnable / n_cpus);
    let is_queue = busy >= AT_LIMIT && queue >= RUNNABLE_MIN;
    let name = if is_queue { Bottleneck::Scheduling } else { Bottleneck::ServerCpu };
    vec![(name, busy, evidence)]
}
