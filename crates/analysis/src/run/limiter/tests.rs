//! Loads whose limit is known, as figures.

use model::telemetry::reading::{Tick, TickSource};
use model::telemetry::wait::WaitStage;

use crate::run::timeline::Placed;
use crate::run::usage::Parties;
use crate::summary::limiter::LimiterFigure;

use super::utilisation::ResourceUse;
use super::*;

mod affinity;
mod idle;
mod lacking;
mod locks;
mod mixture;
mod standby;

fn facts(
    sessions: &[(&str, f64)],
    occupancy: &[(WaitStage, f64)],
    roots: &[(&str, f64)],
    cpu: f64,
) -> MeasurementFacts {
    let owned = |all: &[(&str, f64)]| all.iter().map(|(what, n)| (what.to_string(), *n)).collect();
    MeasurementFacts {
        sessions: owned(sessions),
        occupancy: occupancy.to_vec(),
        roots: owned(roots),
        cpu: Some(cpu),
        is_local: true,
        is_sure: true,
        n_cpus: Some(2.0),
        n_clients: sessions.iter().map(|(_, n)| n).sum(),
        ..MeasurementFacts::default()
    }
}

#[test]
fn what_somebody_is_in_at_every_instant_limits_and_symptoms_do_not() {
    // Figures as measured: a disk with 200 writes a second below the WAL, and 32 clients at scale 10.
    let slow_wal = facts(
        &[("Lock:transactionid", 22.7), ("LWLock:WALWrite", 7.4), ("IO:WalSync", 1.0), ("CPU", 0.4)],
        &[(WaitStage::WalFlush, 0.97), (WaitStage::Lock, 0.99)],
        &[("LWLock:WALWrite", 0.75), ("IO:WalSync", 0.2), ("CPU", 0.05)],
        0.15,
    );
    let found = judge(&slow_wal);
    assert_eq!((found.name, found.confidence), (Bottleneck::WalSync, Confidence::Medium), "{found:?}");
    assert!(found.evidence.starts_with("at 97 % of the instants somebody was writing or syncing WAL"));
    // A hot row that a client holds for 5 ms, 16 clients.
    let held = facts(
        &[("Lock:tuple", 14.0), ("idle in transaction", 0.9), ("CPU", 0.3)],
        &[(WaitStage::WalFlush, 0.1), (WaitStage::Lock, 0.99)],
        &[("idle in transaction", 0.9), ("CPU", 0.1)],
        0.1,
    );
    assert_eq!(judge(&held).name, Bottleneck::ClientHeldLock);
    // The same row, held by a session at work.
    let hot = MeasurementFacts { roots: vec![("CPU".to_string(), 0.9), ("gone".to_string(), 0.1)], ..held };
    assert_eq!(judge(&hot).name, Bottleneck::RowLock);
}

#[test]
fn more_clients_than_rows_limit_whatever_the_holders_of_the_rows_do() {
    // Figures as measured: TPC-B by URL with 64 clients at scale 2, whose holders now flush, now work, now wait for their client.
    let queue = facts(
        &[
            ("Lock:transactionid", 11.0),
            ("Lock:tuple", 46.7),
            ("IO:WalSync", 0.6),
            ("CPU", 1.5),
            ("idle in transaction", 1.2),
        ],
        &[(WaitStage::WalFlush, 0.5), (WaitStage::Lock, 1.0)],
        &[("IO:WalSync", 0.18), ("CPU", 0.4), ("idle in transaction", 0.42)],
        0.55,
    );
    let found = judge(&queue);
    assert_eq!((found.name, found.confidence), (Bottleneck::RowLock, Confidence::Medium), "{found:?}");
    let words = "57.7 of 61 clients waited for locks: more clients than rows that they share; their holders did different things \
                 (idle in transaction 42 %, CPU 40 %, IO:WalSync 18 %)";
    assert_eq!(found.evidence, words);
    assert!(found.next.starts_with("Try a larger scale"));
    // A release that does not tell who holds a lock.
    let unknown = judge(&MeasurementFacts { roots: Vec::new(), ..queue.clone() });
    assert_eq!(unknown.name, Bottleneck::RowLock);
    assert!(unknown.evidence.ends_with("what their holders did is not known"), "{}", unknown.evidence);
    let few = facts(
        &[("Lock:tuple", 2.0), ("CPU", 1.0), ("idle", 9.0)],
        &[(WaitStage::Lock, 0.9), (WaitStage::WalFlush, 0.6)],
        &[("IO:WalSync", 0.55), ("CPU", 0.45)],
        0.3,
    );
    assert_ne!(judge(&few).name, Bottleneck::RowLock);
}

#[test]
fn processors_that_are_all_busy_limit_unless_something_else_is_as_near() {
    let cached = facts(&[("CPU", 12.0), ("idle", 4.0)], &[(WaitStage::WalFlush, 0.0)], &[], 0.99);
    let found = judge(&cached);
    assert_eq!((found.name, found.confidence), (Bottleneck::ServerCpu, Confidence::Medium));
    let unseen = MeasurementFacts { cpu: None, ..cached.clone() };
    assert_eq!(judge(&unseen).confidence, Confidence::Low);
    let both = facts(
        &[("CPU", 3.0), ("IO:WalSync", 1.0), ("LWLock:WALWrite", 4.0)],
        &[(WaitStage::WalFlush, 0.9)],
        &[],
        0.95,
    );
    let found = judge(&both);
    assert_eq!((found.name, found.confidence), (Bottleneck::ServerCpu, Confidence::Low));
    assert_eq!(found.runner_up.unwrap().0, Bottleneck::WalSync);
}

#[test]
fn ceilings_confirm_what_sessions_wait_for_and_show_what_they_do_not() {
    let flushing = facts(
        &[("IO:WalSync", 1.0), ("LWLock:WALWrite", 6.0), ("CPU", 0.4)],
        &[(WaitStage::WalFlush, 0.75)],
        &[],
        0.3,
    );
    assert_eq!(judge(&flushing).confidence, Confidence::Low);
    let used = |used, measured| ResourceUse::of_flushes(used, measured);
    let near = MeasurementFacts { used: vec![used(3870.0, 3900.0)], ..flushing.clone() };
    let found = judge(&near);
    assert_eq!((found.name, found.confidence), (Bottleneck::WalSync, Confidence::Medium));
    assert!(found.evidence.ends_with("; WAL flushes 3,870/s of 3,900/s measured"), "{}", found.evidence);
    let of_ceilings = |found: &Limiter| {
        let figures = found.figures.iter().filter(|figure| figure.of == "the ceiling");
        figures.map(|figure| (figure.label.clone(), figure.speaks_for)).collect::<Vec<_>>()
    };
    let flushes = "WAL flushes 3,870/s of 3,900/s measured".to_string();
    assert_eq!(of_ceilings(&found), [(flushes, Some(Bottleneck::WalSync))]);
    // Where something else limits, it only completes the picture.
    let elsewhere = facts(&[("Lock:tuple", 14.0)], &[(WaitStage::Lock, 0.99)], &[("CPU", 1.0)], 0.2);
    let elsewhere = judge(&MeasurementFacts { used: vec![used(390.0, 3900.0)], ..elsewhere });
    assert_eq!(of_ceilings(&elsewhere), [("WAL flushes 390/s of 3,900/s measured".to_string(), None)]);
    let far = judge(&MeasurementFacts { used: vec![used(390.0, 3900.0)], ..flushing });
    assert_eq!(far.confidence, Confidence::Low);
    assert!(far.evidence.contains("390/s of 3,900/s"), "{}", far.evidence);
    // No session is known to wait for it.
    let working = facts(&[("CPU", 3.0), ("Timeout:PgSleep", 9.0)], &[], &[], 0.5);
    let unseen = |share: f64, is_flat| {
        let mut near = used(3900.0 * share, 3900.0);
        near.is_flat = is_flat;
        let used = vec![near];
        let found = judge(&MeasurementFacts { used, ..working.clone() });
        (found.name, found.confidence)
    };
    assert_eq!(unseen(0.95, true), (Bottleneck::WalSync, Confidence::Medium));
    assert_eq!(unseen(0.95, false), (Bottleneck::WalSync, Confidence::Low));
    assert_eq!(unseen(0.8, true).0, Bottleneck::OfferedLoad);
}

#[test]
fn a_flush_that_waits_for_bytes_is_the_volume_s() {
    // Figures as measured: rows of 64 kB, 8 clients, a WAL device of 8.4 MB/s.
    let flushing =
        facts(&[("LWLock:WALWrite", 6.9), ("IO:WalSync", 1.0)], &[(WaitStage::WalFlush, 1.0)], &[], 0.1);
    let check = |used: &[ResourceUse], expected, confidence| {
        let found = judge(&MeasurementFacts { used: used.to_vec(), ..flushing.clone() });
        assert_eq!((found.name, found.confidence), (expected, confidence), "{used:?}");
        found
    };
    let full = ResourceUse::of_wal_bytes(8.06e6, 8.4e6);
    let found = check(std::slice::from_ref(&full), Bottleneck::WalVolume, Confidence::Medium);
    assert_eq!(found.evidence, "WAL 8.06 MB/s of 8.40 MB/s declared");
    assert_eq!(found.runner_up.unwrap().0, Bottleneck::WalSync);
    let mut flat = ResourceUse::of_wal_bytes(8.44e6, 8.4e6);
    flat.is_flat = true;
    check(&[flat], Bottleneck::WalVolume, Confidence::Medium);
    check(&[ResourceUse::of_wal_bytes(4e6, 8.4e6)], Bottleneck::WalSync, Confidence::Medium);
    // As many flushes as the device gives are nearer to a limit than the bytes are.
    check(&[full.clone(), ResourceUse::of_flushes(3890.0, 3900.0)], Bottleneck::WalSync, Confidence::Low);
    check(&[full, ResourceUse::of_flushes(390.0, 3900.0)], Bottleneck::WalVolume, Confidence::Medium);
}

#[test]
fn a_standby_is_a_stage_and_the_locks_behind_it_are_its_own() {
    // Figures as measured: TPC-B with 16 clients, and a synchronous standby with 100 writes per second.
    let waiting = facts(
        &[("Lock:transactionid", 7.2), ("Lock:tuple", 1.0), ("IPC:SyncRep", 7.1), ("idle", 0.7)],
        &[(WaitStage::Standby, 0.99), (WaitStage::Lock, 0.97), (WaitStage::WalFlush, 0.03)],
        &[("IPC:SyncRep", 0.98), ("IO:WalSync", 0.02)],
        0.05,
    );
    let found = judge(&waiting);
    assert_eq!((found.name, found.confidence), (Bottleneck::Standby, Confidence::Medium), "{found:?}");
    assert!(found.charged.is_some_and(|share| share > 0.9), "{:?}", found.charged);
}

#[test]
fn what_waits_out_of_sight_is_no_lack_of_clients() {
    let remote = judge(&facts(&[("Extension:PostgresFdwReceive", 7.0), ("idle", 1.0)], &[], &[], 0.2));
    assert_eq!((remote.name, remote.confidence), (Bottleneck::Unknown, Confidence::Low));
    assert!(
        remote.evidence.starts_with("7.0 sessions waited for Extension:PostgresFdwReceive"),
        "{remote:?}"
    );
    // Before version 10, who waits for the disk seems to run.
    let old = facts(&[("CPU", 15.0), ("idle", 1.0)], &[], &[], 0.1);
    let found = judge(&old);
    assert_eq!(found.name, Bottleneck::Unknown);
    assert!(found.evidence.starts_with("15.0 sessions seemed to run"), "{}", found.evidence);
    assert_eq!(judge(&MeasurementFacts { cpu: None, ..old.clone() }).name, Bottleneck::Unknown);
    assert_eq!(judge(&MeasurementFacts { cpu: Some(0.98), ..old.clone() }).name, Bottleneck::ServerCpu);
    // So it does while others use the machine; the kernel says what the server had and wanted of it.
    let counted =
        |delay| MeasurementFacts { server_cpu: Some(0.05), server_delay: Some(delay), ..old.clone() };
    let alongside =
        |delay| judge(&MeasurementFacts { cpu: Some(0.99), foreign: Some(0.95), ..counted(delay) }).name;
    assert_eq!((alongside(0.1), alongside(12.0)), (Bottleneck::Unknown, Bottleneck::ForeignCpu));
    // A pause within a statement is a client's own.
    let pausing = facts(&[("Timeout:PgSleep", 7.0), ("idle", 1.0)], &[], &[], 0.2);
    assert_eq!(judge(&pausing).name, Bottleneck::OfferedLoad);
}

#[test]
fn io_that_only_the_kernel_knows_is_charged_to_its_stage() {
    // Means over a measurement of version 9.6 with 16 clients: on a device with 300 reads a second, and with 200 writes a second
    // below WAL.
    let reading = facts(
        &[("Kernel:DataRead", 15.932), ("CPU", 0.026), ("idle", 1.043)],
        &[(WaitStage::DataRead, 1.0)],
        &[],
        0.026,
    );
    let found = judge(&reading);
    assert_eq!((found.name, found.confidence), (Bottleneck::DataRead, Confidence::Medium), "{found:?}");
    let flushing = facts(
        &[
            ("Lock:transactionid", 7.209),
            ("LWLock:WALWrite", 6.133),
            ("Lock:tuple", 1.43),
            ("Kernel:WalFlush", 0.975),
            ("idle in transaction", 0.184),
            ("CPU", 0.013),
            ("LWLock:LockManager", 0.006),
            ("idle", 1.051),
        ],
        &[(WaitStage::WalFlush, 0.987), (WaitStage::Lock, 1.0)],
        &[("LWLock:WALWrite", 0.818), ("Kernel:WalFlush", 0.167), ("idle in transaction", 0.015)],
        0.066,
    );
    let found = judge(&flushing);
    assert_eq!((found.name, found.confidence), (Bottleneck::WalSync, Confidence::Medium), "{found:?}");
    // Invented figures: I/O of no known kind is named as what it is.
    let faulting = facts(&[("Kernel:PageFault", 14.0), ("CPU", 1.0)], &[], &[], 0.1);
    let found = judge(&faulting);
    assert_eq!(found.name, Bottleneck::Unknown);
    assert!(found.evidence.starts_with("14.0 sessions waited for Kernel:PageFault"), "{}", found.evidence);
    // Invented as well: of busy processors, what the kernel counted as waiting for one is a figure of its own.
    let busy = facts(&[("CPU", 12.0), ("idle", 4.0)], &[], &[], 0.99);
    let found = judge(&MeasurementFacts { server_cpu: Some(1.9), server_delay: Some(9.0), ..busy });
    let queued = found.figures.iter().find(|figure| figure.label == "waiting for a processor");
    assert_eq!(queued.map(|figure| figure.share), Some(0.75), "{found:?}");
}

#[test]
fn commits_that_pause_before_they_flush_are_the_flush() {
    // Version 15, commit_delay: who pauses holds the row that the others queue for, and no wait event shows it.
    let sessions = [("Lock:transactionid", 1.6), ("LWLock:WALWrite", 1.3), ("CPU", 1.0), ("idle", 0.1)];
    let roots = [("CPU", 0.9), ("LWLock:WALWrite", 0.1)];
    let paused = facts(&sessions, &[(WaitStage::WalFlush, 0.7), (WaitStage::Lock, 0.8)], &roots, 0.06);
    let paused = MeasurementFacts { server_cpu: Some(0.08), server_delay: Some(0.01), ..paused };
    let before = judge(&paused).charged;
    let found = judge(&paused.clone().with_commit_delay());
    assert_eq!((found.name, found.confidence), (Bottleneck::WalSync, Confidence::Medium), "{found:?}");
    assert!(
        before.is_none_or(|charged| charged < 0.5) && found.charged.unwrap() > 0.85,
        "{before:?} {found:?}"
    );
    // The same where the kernel was looked at.
    let sessions =
        [("Lock:transactionid", 1.6), ("LWLock:WALWrite", 1.3), ("Kernel:Sleep", 0.9), ("CPU", 0.1)];
    let roots = [("Kernel:Sleep", 0.9), ("LWLock:WALWrite", 0.1)];
    let known = facts(&sessions, &[(WaitStage::WalFlush, 0.7), (WaitStage::Lock, 0.8)], &roots, 0.06);
    let found = judge(&known.with_commit_delay());
    assert!(found.charged.unwrap() > 0.85, "{found:?}");
    // What its share is when something else limits is known as well.
    let after = judge(&facts(&[("CPU", 4.0)], &[(WaitStage::WalFlush, 0.12)], &[], 0.97));
    let first = after.firsts.iter().find(|figure| figure.speaks_for == Some(Bottleneck::WalSync)).unwrap();
    assert_eq!((first.label.as_str(), first.share), ("somebody writing or syncing WAL", 0.12));
}

#[test]
fn who_waits_until_an_answer_has_left_is_not_at_work() {
    // Answers of 10 MB over 25 MB/s.
    let sending = facts(&[("Client:ClientWrite", 3.8), ("CPU", 0.2)], &[], &[], 0.3);
    let sending = MeasurementFacts { tps: Some(2.5), driver: Some(0.1), driver_threads: 0.1, ..sending };
    let found = judge(&sending);
    assert_eq!((found.name, found.confidence), (Bottleneck::Network, Confidence::Medium), "{found:?}");
    assert_eq!(judge(&MeasurementFacts { driver: Some(0.97), ..sending }).name, Bottleneck::Driver);
}

#[test]
fn few_clients_are_an_answer_and_nothing_near_is_unknown() {
    let one = facts(&[("CPU", 0.4), ("idle", 0.6)], &[], &[], 0.3);
    assert_eq!(judge(&one).name, Bottleneck::OfferedLoad);
    assert_eq!(judge(&MeasurementFacts { is_local: false, ..one.clone() }).name, Bottleneck::Network);
    let pausing = MeasurementFacts { is_local: false, has_pauses: true, ..one.clone() };
    assert_eq!(judge(&pausing).name, Bottleneck::OfferedLoad);
    let paced = judge(&MeasurementFacts { met_its_rate: true, ..one });
    assert_eq!((paced.name, paced.confidence), (Bottleneck::OfferedLoad, Confidence::Medium));
    let odd = facts(&[("CPU", 3.0), ("Timeout:PgSleep", 9.0), ("idle", 1.0)], &[], &[], 0.65);
    assert_eq!(judge(&odd).name, Bottleneck::Unknown);
}

#[test]
fn quotas_steal_and_the_driver_come_before_what_the_server_says() {
    let cached = facts(&[("CPU", 2.0), ("idle", 14.0)], &[], &[], 0.99);
    assert_eq!(judge(&MeasurementFacts { is_throttled: true, ..cached.clone() }).name, Bottleneck::Quota);
    assert_eq!(judge(&MeasurementFacts { steal: Some(0.2), ..cached.clone() }).name, Bottleneck::Steal);
    assert_eq!(
        judge(&MeasurementFacts { foreign: Some(0.5), ..cached.clone() }).name,
        Bottleneck::ForeignCpu
    );
    assert_eq!(judge(&MeasurementFacts { driver: Some(0.97), ..cached.clone() }).name, Bottleneck::Driver);
    assert_eq!(judge(&MeasurementFacts { driver: Some(0.5), ..cached.clone() }).name, Bottleneck::ServerCpu);
    // Of two clients that work, none waits for the driver, however many other sessions are idle.
    let others = MeasurementFacts { driver: Some(0.97), n_clients: 2.0, ..cached };
    assert_eq!(judge(&others).name, Bottleneck::ServerCpu);
}

#[test]
fn a_holder_is_no_more_often_with_its_client_than_any_session_is() {
    // Figures as measured: a row held for 1.5 ms, half of which pass before the roots of the queue are known.
    let hot = facts(
        &[
            ("Lock:transactionid", 9.3),
            ("LWLock:LockManager", 3.6),
            ("idle", 0.6),
            ("Lock:tuple", 1.2),
            ("CPU", 1.2),
            ("idle in transaction", 0.2),
        ],
        &[(WaitStage::Lock, 0.97)],
        &[("idle in transaction", 0.52), ("CPU", 0.45), ("LWLock:LockManager", 0.03)],
        0.6,
    );
    let found = judge(&hot);
    assert_eq!((found.name, found.confidence), (Bottleneck::RowLock, Confidence::Medium), "{found:?}");
    // The same roots, with a session in a transaction at nearly every instant.
    let mut held = hot;
    held.sessions.last_mut().unwrap().1 = 0.95;
    assert_eq!(judge(&held).name, Bottleneck::ClientHeldLock);
}

#[test]
fn busy_processors_limit_no_load_that_waits_for_something_else() {
    // Figures as measured: WAL's buffers are 32 kB, its device gives 200 writes per second, and others compile meanwhile.
    let inserting = facts(
        &[
            ("LWLock:WALInsert", 6.8),
            ("LWLock:WALWrite", 4.8),
            ("LWLock:BufferContent", 3.2),
            ("IO:WalWrite", 0.7),
            ("idle", 0.5),
        ],
        &[(WaitStage::WalFlush, 0.99)],
        &[],
        0.99,
    );
    let foreign = MeasurementFacts { foreign: Some(0.98), steal: Some(0.12), ..inserting };
    let found = judge(&foreign);
    assert_eq!((found.name, found.confidence), (Bottleneck::WalSync, Confidence::Medium), "{found:?}");
    // Where a fifth of the clients could use a processor, it is theirs that is missing.
    let running = facts(&[("CPU", 3.0), ("idle", 1.0), ("LWLock:WALWrite", 12.0)], &[], &[], 0.99);
    let running = MeasurementFacts { foreign: Some(0.5), ..running };
    let found = judge(&running);
    let second = found.runner_up.map(|(name, _)| name);
    assert_eq!((found.name, second), (Bottleneck::ForeignCpu, Some(Bottleneck::ServerCpu)));
    // A driver elsewhere waits for no processor of the server's machine.
    assert_ne!(judge(&MeasurementFacts { is_local: false, ..running }).name, Bottleneck::ForeignCpu);
}

#[test]
fn a_rate_that_was_reached_is_the_limit_and_what_is_near_stands_second() {
    let paced = facts(
        &[("LWLock:WALWrite", 2.0), ("IO:WalSync", 1.0), ("idle", 5.0)],
        &[(WaitStage::WalFlush, 0.9)],
        &[],
        0.9,
    );
    let found = judge(&MeasurementFacts { met_its_rate: true, foreign: Some(0.6), ..paced });
    assert_eq!((found.name, found.confidence), (Bottleneck::OfferedLoad, Confidence::Medium));
    assert_eq!(found.next, "The rate limits, as asked.", "nobody asked for more clients or a higher rate");
    assert_eq!(found.runner_up.map(|(name, _)| name), Some(Bottleneck::WalSync));
}

#[test]
fn a_judgement_has_its_figures_as_shares_once_each() {
    let both = facts(
        &[("CPU", 3.0), ("IO:WalSync", 1.0), ("LWLock:WALWrite", 4.0)],
        &[(WaitStage::WalFlush, 0.9)],
        &[("IO:WalSync", 1.0)],
        0.95,
    );
    let rows = |found: &Limiter| -> Vec<String> {
        let row = |figure: &LimiterFigure| {
            let whose = figure.speaks_for.map_or("-", Bottleneck::as_str);
            format!("{whose}: {} {:.2} of {}", figure.label, figure.share, figure.of)
        };
        found.figures.iter().map(row).collect()
    };
    let expected = [
        "server-cpu: busy 0.95 of processors",
        "server-cpu: running, or waiting to run 0.38 of sessions at work",
        "wal-sync: somebody writing or syncing WAL 0.90 of instants",
        "wal-sync: writing or syncing WAL 0.62 of sessions at work",
        "wal-sync: behind one writing or syncing WAL 0.90 of waits for locks",
        "-: in a statement 1.00 of clients",
    ];
    assert_eq!(rows(&judge(&both)), expected);
    let throttled = MeasurementFacts { is_throttled: true, throttled: Some(0.8), driver: Some(0.3), ..both };
    let expected = [
        "quota: a quota stopped the server 0.80 of periods of the quota",
        "-: busy 0.95 of processors",
        "-: in a statement 1.00 of clients",
        "-: the driver's busiest thread at work 0.30 of time",
    ];
    assert_eq!(rows(&judge(&throttled)), expected);
}

#[test]
fn what_is_behind_a_limit_is_named_before_it() {
    // Figures as measured: a disk with 600 writes a second, max_wal_size 32 MB, and 8 clients.
    let flushing = facts(
        &[("LWLock:WALWrite", 5.5), ("CPU", 0.2), ("idle", 1.4)],
        &[(WaitStage::WalFlush, 0.98)],
        &[],
        0.3,
    );
    let often = MeasurementFacts { checkpoints_per_min: 6.0, full_pages: Some(0.77), ..flushing.clone() };
    let found = judge(&often);
    assert_eq!((found.name, found.confidence), (Bottleneck::Checkpoint, Confidence::Medium), "{found:?}");
    assert_eq!(found.runner_up.unwrap().0, Bottleneck::WalSync);
    for other in [
        MeasurementFacts { checkpoints_per_min: 1.0, ..often.clone() },
        MeasurementFacts { full_pages: Some(0.2), ..often },
        flushing,
    ] {
        assert_eq!(judge(&other).name, Bottleneck::WalSync);
    }
    // Two of three that wait for the disk are vacuums; one of two processors is theirs.
    let reading = facts(&[("IO:DataFileRead", 1.2), ("idle", 2.8)], &[(WaitStage::DataRead, 0.99)], &[], 0.1);
    let vacuums = vec![("IO:DataFileRead".to_string(), 2.4)];
    assert_eq!(
        judge(&MeasurementFacts { vacuums: vacuums.clone(), ..reading.clone() }).name,
        Bottleneck::Autovacuum
    );
    let few = vec![("IO:DataFileRead".to_string(), 0.3)];
    assert_eq!(judge(&MeasurementFacts { vacuums: few, ..reading }).name, Bottleneck::DataRead);
    let busy = facts(&[("CPU", 4.0)], &[], &[], 0.99);
    let at_work = vec![("CPU".to_string(), 0.9)];
    assert_eq!(judge(&MeasurementFacts { vacuums: at_work, ..busy.clone() }).name, Bottleneck::Autovacuum);
    assert_eq!(judge(&MeasurementFacts { vacuums, ..busy }).name, Bottleneck::ServerCpu);
}

#[test]
fn a_driver_that_gets_no_processor_a_long_way_and_a_long_queue_are_named() {
    // Figures as measured: a driver on one processor with two other processes.
    let held = facts(&[("CPU", 0.3), ("idle", 15.7)], &[], &[], 0.72);
    let held = MeasurementFacts { driver: Some(0.25), driver_delay: Some(0.51), tps: Some(13_000.0), ..held };
    assert_eq!(judge(&held).name, Bottleneck::Driver);
    // The same wait on a machine without any processor left is the machine's.
    let full = MeasurementFacts { cpu: Some(0.99), ..held };
    assert_eq!(judge(&full).name, Bottleneck::ServerCpu);
    // Four clients behind a proxy that adds 3 ms each way.
    let far = facts(&[("idle", 4.0)], &[], &[], 0.06);
    let far = MeasurementFacts {
        driver: Some(0.01),
        driver_delay: Some(0.01),
        driver_threads: 0.02,
        tps: Some(630.0),
        ..far
    };
    let found = judge(&far);
    assert_eq!((found.name, found.confidence), (Bottleneck::Network, Confidence::Medium));
    assert!(found.evidence.starts_with("6.3 ms of each transaction passed between"), "{}", found.evidence);
    assert_eq!(judge(&MeasurementFacts { has_pauses: true, ..far.clone() }).name, Bottleneck::OfferedLoad);
    assert_eq!(judge(&MeasurementFacts { tps: Some(30_000.0), ..far }).name, Bottleneck::OfferedLoad);
    // 512 clients on two processors; few samples leave it unsure.
    let many = facts(&[("CPU", 38.0), ("idle", 474.0)], &[], &[], 0.99);
    let found = judge(&MeasurementFacts { is_sure: false, ..many.clone() });
    assert_eq!((found.name, found.confidence), (Bottleneck::Scheduling, Confidence::Low));
    assert_eq!(judge(&MeasurementFacts { n_cpus: Some(32.0), ..many }).name, Bottleneck::ServerCpu);
}

#[test]
fn what_a_quota_kept_from_the_server_is_no_queue_for_processors() {
    let check = |delay: f64, throttled: &[(&str, f64)], expected: f64| {
        let groups = throttled.iter().map(|(group, s)| (format!("cgroup.throttled_time[{group}]"), *s));
        let values = groups.chain([("server.run_delay".to_string(), delay)]).collect();
        let tick = Tick { source: TickSource::Host, end_unix_ns: 1, length_ns: 1_000_000_000, values };
        let placed = vec![Placed { from_s: 0.0, to_s: 1.0, tick: &tick }];
        let usage = Usage::new(placed, Parties { server: true, driver: true, pgdyno: true });
        let found = facts::server_delay(&usage, 0.0, 1.0).unwrap();
        assert!((found - expected).abs() < 1e-9, "{delay} {throttled:?}: {found}");
    };
    check(1.19, &[], 1.19);
    // As measured with a quota of 0.3 processors.
    check(1.19, &[("server:/db", 1.27)], 0.0);
    check(12.0, &[("server:/db", 1.5), ("server:/", 0.5), ("driver:/load", 3.0)], 10.5);
}

/// Ten samples a second of these classes and states, as a role sees them, over 4 s of a load of four clients.
fn seen_by_a_role(processes: &[(&str, f64)]) -> Limiter {
    let processes = processes.iter().map(|(what, n)| (format!("waits.processes[{what}]"), 10.0 * n));
    let values = processes.chain([("waits.samples".to_string(), 10.0)]).collect();
    let tick = Tick { source: TickSource::Server, end_unix_ns: 1, length_ns: 4_000_000_000, values };
    let placed = |_| Placed { from_s: 0.0, to_s: 4.0, tick: &tick };
    let usage =
        Usage::new((0..4).map(placed).collect(), Parties { server: true, driver: true, pgdyno: true });
    let conditions = Conditions {
        n_clients: 4,
        met_its_rate: false,
        is_local: true,
        has_pauses: false,
        tps: None,
        service_s: None,
        connecting: None,
    };
    let facts = MeasurementFacts::from_usage(&usage, 0.0, 4.0).unwrap();
    let facts = facts.with(&usage, 0.0, 4.0, &ResourceUsage::default(), &conditions);
    judge(&MeasurementFacts { cpu: Some(0.2), n_cpus: Some(4.0), ..facts })
}

#[test]
fn sessions_that_are_hidden_are_neither_at_work_nor_idle() {
    // Thirty sessions of somebody's application, and the load's four.
    let found = seen_by_a_role(&[("client/CPU", 1.0), ("client/idle", 3.0), ("client/hidden", 30.0)]);
    assert_eq!(found.name, Bottleneck::OfferedLoad, "{found:?}");
    let expected = "on average 1.0 sessions were in a statement and 3.0 waited for the driver";
    assert!(found.evidence.contains(expected), "{}", found.evidence);
    assert!(found.evidence.ends_with("; what 30.0 more did is hidden"), "{}", found.evidence);
}

#[test]
fn a_load_whose_sessions_are_hidden_has_no_limiter() {
    for seen in [
        &[("client/hidden", 4.0)][..],
        &[("client/hidden", 30.0), ("client/CPU", 1.0)],
        &[("client/hidden", 3.0), ("client/idle", 3.0)],
    ] {
        let found = seen_by_a_role(seen);
        assert_eq!(
            (found.name, found.confidence),
            (Bottleneck::Unknown, Confidence::Low),
            "{seen:?}: {found:?}"
        );
        assert!(found.evidence.contains("is hidden from pgdyno's role"), "{}", found.evidence);
    }
    // What is at its limit though few of the sessions are seen is named, and not as certain.
    let few = facts(&[("IO:WalSync", 1.0)], &[(WaitStage::WalFlush, 0.97)], &[], 0.2);
    let found = judge(&MeasurementFacts { n_clients: 4.0, hidden: 3.0, ..few.clone() });
    assert_eq!((found.name, found.confidence), (Bottleneck::WalSync, Confidence::Low));
    assert_eq!(judge(&few).confidence, Confidence::Medium);
}
