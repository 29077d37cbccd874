//! Locks that sessions wait for: of which kind they are, whose session holds them, and circles that the server has to break.

use model::telemetry::wait;

use crate::run::limiter::facts::MeasurementFacts;
use crate::run::limiter::{candidates::Candidate, rows};
use crate::summary::limiter::{Bottleneck, LockOwner};

/// Part of the waits from which on one kind or owner is said without the others.
const NEARLY_ALL: f64 = 0.8;
/// Part of the clients that deadlocks must hold up to be named, and part of the waits that they must explain: our convention.
const HELD_UP_MIN: f64 = 0.2;
const EXPLAINED_MIN: f64 = 0.5;
/// Longest name of a session that is quoted.
const NAME_CHARS: usize = 40;

const CIRCLES: &str =
    "Lock rows in the same order in all transactions; a shorter deadlock_timeout notices the circles sooner.";
const FOREIGN: &str =
    "End the session that holds the lock, or measure without it: it is not one of the load's.";
const PREPARED: &str =
    "Commit or roll back the prepared transaction (pg_prepared_xacts), which holds the lock.";
const VACUUM: &str = "Measure when no automatic vacuum works on the table, or turn its truncation off.";
const ADVISORY: &str = "Hold the advisory lock for a shorter part of the transaction, or use more keys.";
const TABLES: &str = "Lock the table in a weaker mode, or for a shorter part of the transaction.";

/// The kinds of locks, in words, with the wait events that are of them.
const KINDS: [(&str, &[&str]); 4] = [
    ("row locks", &["transactionid", "tuple", "spectoken", "speculative token"]),
    ("table locks", &["relation"]),
    ("advisory locks", &["advisory"]),
    ("the extension of a table", &["extend"]),
];

/// The kinds that sessions waited for, each with its part, the most first.
fn kinds(facts: &MeasurementFacts) -> Vec<(&'static str, f64)> {
    let locks = || facts.sessions.iter().filter_map(|(what, n)| Some((what.strip_prefix("Lock:")?, *n)));
    let all: f64 = locks().map(|(_, n)| n).sum();
    let of = |events: &[&str]| locks().filter(|(lock, _)| events.contains(lock)).map(|(_, n)| n).sum::<f64>();
    let mut found: Vec<(&str, f64)> =
        KINDS.iter().map(|(words, events)| (*words, of(events) / all)).collect();
    found.retain(|(_, share)| *share > 0.0);
    found.sort_by(|a, b| b.1.total_cmp(&a.1));
    found
}

/// `row locks`; `locks (row locks 60 %, advisory locks 40 %)`.
pub(super) fn words(facts: &MeasurementFacts) -> String {
    let kinds = kinds(facts);
    match kinds.as_slice() {
        [(kind, share), ..] if *share >= NEARLY_ALL => (*kind).to_string(),
        [_, ..] => {
            let each: Vec<String> =
                kinds.iter().map(|(kind, share)| format!("{kind} {:.0} %", 100.0 * share)).collect();
            format!("locks ({})", each.join(", "))
        }
        [] => "locks".to_string(),
    }
}

/// The parts of the waits for locks by whose the root of the queue is, of those that are known.
fn owners(facts: &MeasurementFacts) -> Vec<(LockOwner, f64)> {
    let mut found: Vec<(LockOwner, f64)> = Vec::new();
    for (instance, share) in &facts.holders {
        let owner = match instance.split_once('/').map_or("", |(_, owner)| owner) {
            "load" => LockOwner::Load,
            "prepared" => LockOwner::Prepared,
            "autovacuum" => LockOwner::Autovacuum,
            other if other == "pgdyno" || other.starts_with("other") => LockOwner::Other,
            _ => continue,
        };
        match found.iter_mut().find(|(known, _)| *known == owner) {
            Some((_, sum)) => *sum += share,
            None => found.push((owner, *share)),
        }
    }
    found.sort_by(|a, b| b.1.total_cmp(&a.1));
    found
}

/// Whose session most of the sessions wait for.
pub(super) fn owner(facts: &MeasurementFacts) -> Option<LockOwner> {
    owners(facts).first().filter(|(_, share)| *share >= 0.5).map(|(owner, _)| *owner)
}

/// `; the holder was a session of the load`.
pub(super) fn held_by(facts: &MeasurementFacts) -> String {
    let of_one = |owner: LockOwner| match owner {
        LockOwner::Load => "a session of the load".to_string(),
        LockOwner::Other => format!("a session that is not the load's{}", names(facts)),
        LockOwner::Autovacuum => "an automatic vacuum".to_string(),
        LockOwner::Prepared => "a prepared transaction".to_string(),
    };
    let owners = owners(facts);
    match owners.as_slice() {
        [] => String::new(),
        [(owner, share), ..] if *share >= NEARLY_ALL => format!("; the holder was {}", of_one(*owner)),
        _ => {
            let each: Vec<String> = owners
                .iter()
                .map(|(owner, share)| format!("{} ({:.0} %)", of_one(*owner), 100.0 * share))
                .collect();
            format!("; the holder was {}", each.join(" or "))
        }
    }
}

/// ` ("psql")`: what the sessions call themselves that hold most.
fn names(facts: &MeasurementFacts) -> String {
    let named = facts.holders.iter().filter_map(|(instance, share)| {
        let name = instance.split_once('/')?.1.strip_prefix("other:")?;
        Some((name.replace('`', "'").chars().take(NAME_CHARS).collect::<String>(), *share))
    });
    let most = named.max_by(|a, b| a.1.total_cmp(&b.1));
    most.map_or(String::new(), |(name, _)| format!(" (it calls itself `{name}`)"))
}

/// What to do about a lock: it depends on its kind and on its owner. `None` for the usual advice.
pub(super) fn advice(facts: &MeasurementFacts, name: Bottleneck) -> Option<&'static str> {
    if !matches!(name, Bottleneck::RowLock | Bottleneck::ClientHeldLock) {
        return None;
    }
    if name == Bottleneck::RowLock && circles(facts).is_some() {
        return Some(CIRCLES);
    }
    match owner(facts) {
        Some(LockOwner::Other) => return Some(FOREIGN),
        Some(LockOwner::Prepared) => return Some(PREPARED),
        Some(LockOwner::Autovacuum) => return Some(VACUUM),
        Some(LockOwner::Load) | None => {}
    }
    match kinds(facts).first().filter(|(_, share)| *share >= 0.5)?.0 {
        "advisory locks" => Some(ADVISORY),
        "table locks" => Some(TABLES),
        _ => None,
    }
}

/// Sessions that wait for each other: the server ends one of them when it has waited for deadlock_timeout, so that each deadlock holds up
/// two sessions at least for that long. A circle has no root.
pub(super) fn circles(facts: &MeasurementFacts) -> Option<Candidate> {
    let n = rows::waiting(facts);
    if n < HELD_UP_MIN * facts.n_clients || n <= 0.0 || facts.deadlocks_per_s <= 0.0 {
        return None;
    }
    let held_up = 2.0 * facts.deadlocks_per_s * facts.deadlock_timeout_s;
    if held_up < EXPLAINED_MIN * n && facts.circles < EXPLAINED_MIN {
        return None;
    }
    let evidence = format!(
        "{n:.1} of {:.0} clients waited for {}, in circles: the server ended {:.1} deadlocks a second, each when it had lasted {:.1} s \
         (deadlock_timeout)",
        facts.n_clients,
        words(facts),
        facts.deadlocks_per_s,
        facts.deadlock_timeout_s
    );
    Some((Bottleneck::RowLock, facts.occupied(model::telemetry::wait::WaitStage::Lock).max(0.7), evidence))
}

/// A time as the server shows it, `1s` or `500ms`, in seconds; a number alone is of milliseconds.
pub(super) fn time_s(text: &str) -> Option<f64> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let each_s = match &text[digits.len()..] {
        "" | "ms" => 1e-3,
        "s" => 1.0,
        "min" => 60.0,
        _ => return None,
    };
    Some(digits.parse::<f64>().ok()? * each_s)
}

/// What a root does that is none: those of circles, and those that had ended.
pub(super) fn is_no_root(what: &str) -> bool {
    matches!(what, wait::CYCLE | wait::GONE)
}
