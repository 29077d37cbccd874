//! Locks by their kind and their holder.

use crate::summary::limiter::LockOwner;

use super::*;

/// Fourteen of sixteen clients wait for locks of these kinds, whose holders do one thing.
fn waiting_for(locks: &[(&str, f64)], root: &str, holders: &[(&str, f64)]) -> MeasurementFacts {
    let rest = [("CPU", 1.0), ("idle in transaction", 1.0)];
    let sessions: Vec<(&str, f64)> = locks.iter().chain(&rest).copied().collect();
    let holders = holders.iter().map(|(what, share)| (what.to_string(), *share)).collect();
    let facts = facts(&sessions, &[(WaitStage::Lock, 0.99)], &[(root, 1.0)], 0.2);
    MeasurementFacts { holders, has_pauses: true, deadlock_timeout_s: 1.0, ..facts }
}

#[test]
fn the_kind_of_a_lock_and_whose_it_is_are_said_and_the_advice_follows() {
    let rows = [("Lock:transactionid", 10.0), ("Lock:tuple", 4.0)];
    let check = |facts: &MeasurementFacts, name, words: &str, next: &str, holder| {
        let found = judge(facts);
        assert_eq!((found.name, found.holder), (name, holder), "{found:?}");
        assert!(found.evidence.contains(words), "{}", found.evidence);
        assert!(found.next.starts_with(next), "{}", found.next);
    };
    let (held, at_work) = (Bottleneck::ClientHeldLock, Bottleneck::RowLock);
    check(
        &waiting_for(&rows, "CPU", &[("transactionid/load", 0.7), ("tuple/load", 0.3)]),
        at_work,
        "waited for row locks, and 100 % of those for a holder that was at work; the holder was a session of the load",
        "Try a larger scale",
        Some(LockOwner::Load),
    );
    let advisory = [("Lock:advisory", 14.0)];
    check(
        &waiting_for(&advisory, "idle", &[("advisory/other:psql", 1.0)]),
        held,
        "waited for advisory locks, and 100 % of those for a holder that waited for its client; the holder was a session that is not the \
         load's (it calls itself `psql`)",
        "End the session",
        Some(LockOwner::Other),
    );
    check(
        &waiting_for(&advisory, "CPU", &[("advisory/load", 1.0)]),
        at_work,
        "advisory locks",
        "Hold the advisory lock",
        Some(LockOwner::Load),
    );
    check(
        &waiting_for(&[("Lock:relation", 14.0)], "CPU", &[("relation/unknown", 1.0)]),
        at_work,
        "waited for table locks, and 100 % of those for a holder that was at work",
        "Lock the table in a weaker mode",
        None,
    );
    check(
        &waiting_for(&rows, "prepared transaction", &[("transactionid/prepared", 1.0)]),
        held,
        "the holder was a prepared transaction",
        "Commit or roll back",
        Some(LockOwner::Prepared),
    );
    let both = [("Lock:tuple", 8.0), ("Lock:advisory", 6.0)];
    check(
        &waiting_for(&both, "CPU", &[("tuple/load", 0.6), ("advisory/other", 0.4)]),
        at_work,
        "waited for locks (row locks 57 %, advisory locks 43 %), and",
        "Try a larger scale",
        Some(LockOwner::Load),
    );
    assert!(judge(&waiting_for(&both, "CPU", &[])).evidence.ends_with("was at work"), "nobody knows whose");
}

#[test]
fn holders_that_never_pause_wait_on_the_way() {
    let rows = [("Lock:transactionid", 14.0)];
    let held = waiting_for(&rows, "idle in transaction", &[("transactionid/load", 1.0)]);
    let held = MeasurementFacts { tps: Some(100.0), driver_threads: 0.05, ..held };
    let second = |facts: &MeasurementFacts| judge(facts).runner_up;
    assert_eq!(judge(&held).name, Bottleneck::ClientHeldLock);
    assert_eq!(second(&held), None, "they pause on purpose");
    let far = MeasurementFacts { has_pauses: false, ..held };
    let (name, evidence) = second(&far).unwrap();
    assert_eq!(name, Bottleneck::Network);
    let expected = "the clients do not pause, and no thread of the driver worked for them: 9.5 ms for each transaction passed on the way";
    assert!(evidence.starts_with(expected), "{evidence}");
    let foreign = vec![("transactionid/other:psql".to_string(), 1.0)];
    assert_eq!(
        second(&MeasurementFacts { holders: foreign, ..far.clone() }),
        None,
        "a stranger's way is not the load's"
    );
    assert_eq!(second(&MeasurementFacts { tps: Some(5000.0), ..far }), None, "0.2 ms are no way");
}

#[test]
fn deadlocks_that_explain_the_time_are_named_and_a_circle_has_no_root() {
    // Eight clients that lock two of few rows in either order: four deadlocks a second, each of which holds up two of them for a second.
    let circles = facts(
        &[("Lock:transactionid", 6.5), ("CPU", 0.3), ("idle", 1.2)],
        &[(WaitStage::Lock, 0.97)],
        &[("CPU", 1.0)],
        0.1,
    );
    let circles = MeasurementFacts { deadlocks_per_s: 2.6, deadlock_timeout_s: 1.0, circles: 0.4, ..circles };
    let found = judge(&circles);
    assert_eq!((found.name, found.confidence), (Bottleneck::RowLock, Confidence::Medium), "{found:?}");
    let expected = "6.5 of 8 clients waited for row locks, in circles: the server ended 2.6 deadlocks a second, each when it had lasted 1.0 s \
                    (deadlock_timeout)";
    assert_eq!(found.evidence, expected);
    assert!(found.next.starts_with("Lock rows in the same order"), "{}", found.next);
    // Now and then one does not explain it.
    let rare = judge(&MeasurementFacts { deadlocks_per_s: 0.1, circles: 0.05, ..circles });
    assert!(!rare.evidence.contains("circles"), "{}", rare.evidence);
    for (text, expected) in
        [("1s", Some(1.0)), ("200ms", Some(0.2)), ("2min", Some(120.0)), ("50", Some(0.05)), ("x", None)]
    {
        assert_eq!(holders::time_s(text), expected, "{text}");
    }
}

#[test]
fn what_has_no_root_is_not_at_work() {
    let of = |roots: &[(&str, f64)]| {
        let keys = roots.iter().map(|(what, n)| (format!("waits.roots[{what}]"), *n));
        let rest = [("waits.samples", 10.0), ("waits.holders[tuple/load]", 2.0)];
        let values = keys.chain(rest.map(|(key, n)| (key.to_string(), n))).collect();
        let tick = Tick { source: TickSource::Server, end_unix_ns: 1, length_ns: 4_000_000_000, values };
        let placed = |_| Placed { from_s: 0.0, to_s: 4.0, tick: &tick };
        let parties = Parties { server: true, driver: true, pgdyno: true };
        let usage = Usage::new((0..4).map(placed).collect(), parties);
        let facts = MeasurementFacts::from_usage(&usage, 0.0, 4.0).unwrap();
        (facts.roots, facts.circles, facts.holders)
    };
    let (roots, circles, holders) = of(&[("cycle", 3.0), ("gone", 5.0), ("CPU", 1.0)]);
    assert_eq!((roots, circles), (vec![("CPU".to_string(), 1.0)], 0.75));
    assert_eq!(holders, [("tuple/load".to_string(), 1.0)]);
}

#[test]
fn what_a_lift_would_give_orders_what_is_near_its_limit() {
    // Processors that are 88 % busy, while a flush is under way at 80 % of the instants and most sessions wait for it.
    let both = facts(
        &[("CPU", 3.0), ("IO:WalSync", 1.0), ("LWLock:WALWrite", 8.0), ("idle", 2.0)],
        &[(WaitStage::WalFlush, 0.8)],
        &[],
        0.88,
    );
    let found = judge(&both);
    let second = found.runner_up.map(|(name, _)| name);
    assert_eq!((found.name, second), (Bottleneck::WalSync, Some(Bottleneck::ServerCpu)));
    assert_eq!(found.confidence, Confidence::Low);
    // All busy, they bind whatever is lifted.
    assert_eq!(judge(&MeasurementFacts { cpu: Some(0.97), ..both.clone() }).name, Bottleneck::ServerCpu);
    let mut few = both;
    few.sessions[2].1 = 1.0;
    assert_eq!(judge(&few).name, Bottleneck::ServerCpu, "few of them wait for it");
}
