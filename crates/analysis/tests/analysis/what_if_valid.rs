//! What-ifs whose mechanism can act on what is claimed, and those that are named with the reason why it cannot.

use analysis::summary::ResourceUsage;
use analysis::summary::limiter::{Bottleneck, Limiter, LockOwner};
use analysis::what_if::{Circumstances, GroupAbilities, what_ifs};
use model::experiment::case::{Case, ServerSource};

use crate::quiet::{self, experiment};
use crate::what_if::{chosen_with_groups, limiter, record};

#[test]
fn a_what_if_must_be_able_to_act_on_what_is_claimed() {
    let mut case = quiet::case(1);
    // A lock that a stranger holds lasts as long with any other load.
    for name in [Bottleneck::ClientHeldLock, Bottleneck::RowLock] {
        for (holder, words) in [
            (
                LockOwner::Other,
                "a session that is not the load's holds the lock, and no change of the load changes that",
            ),
            (
                LockOwner::Prepared,
                "a prepared transaction holds the lock, and no change of the load changes that",
            ),
        ] {
            let held = Limiter { holder: Some(holder), ..limiter(name, None) };
            let reason = chosen_with_groups(&held, &case, &ResourceUsage::default()).unwrap_err();
            assert_eq!(reason, words);
        }
        let held = Limiter { holder: Some(LockOwner::Load), ..limiter(name, None) };
        assert!(chosen_with_groups(&held, &case, &ResourceUsage::default()).is_ok());
    }
    // Threads of one quota have no more of it when there are more of them.
    case.workload.n_threads = 1;
    let used = |driver_cpu, driver_room| ResourceUsage {
        n_cpus: Some(4),
        server_cpu: Some(1.0),
        driver_cpu: Some(driver_cpu),
        driver_room,
        ..ResourceUsage::default()
    };
    let of_driver = limiter(Bottleneck::Driver, None);
    let reason = chosen_with_groups(&of_driver, &case, &used(0.49, Some(0.5))).unwrap_err();
    assert!(
        reason.starts_with(
            "the driver used 0.49 of 0.50 processors that it may use: more threads share the same"
        ),
        "{reason}"
    );
    for room in [None, Some(2.0)] {
        assert_eq!(chosen_with_groups(&of_driver, &case, &used(0.97, room)).unwrap().change, "threads=2");
    }
    // A server that is bound to one of four processors has no room on the others.
    let bound = ResourceUsage {
        n_cpus: Some(4),
        host_busy: Some(0.3),
        server_cpu: Some(0.98),
        server_room: Some(1.0),
        ..ResourceUsage::default()
    };
    let quota = chosen_with_groups(&limiter(Bottleneck::ServerCpu, None), &case, &bound).unwrap();
    assert_eq!(quota.change, "cpu_quota=0.784 (20 % less than the server used)");
}

#[test]
fn rows_that_are_named_first_are_tested_first() {
    let case = quiet::case(1);
    let shared = Some("8 clients share 1 branch".to_string());
    let of_rows = Limiter { shared, ..limiter(Bottleneck::WalSync, Some(0.5)) };
    let run = analysis::study(&experiment(1, vec![quiet::run(1)])).runs.remove(0);
    let (record, settable, groups) = (record(&[]), Default::default(), GroupAbilities::default());
    let tested = |case: &Case| {
        let limiter = &of_rows;
        let (run, record, settable, groups) = (&run, &record, &settable, &groups);
        let of = Circumstances { case, limiter, record, run, allow_changes: false, settable, groups };
        let (all, untested) = what_ifs(of);
        let all: Vec<String> =
            all.iter().map(|what_if| format!("{}: {}", what_if.limiter.as_str(), what_if.change)).collect();
        (all, untested)
    };
    let (all, untested) = tested(&case);
    assert_eq!((all.len(), untested.len()), (2, 0), "{all:?} {untested:?}");
    assert!(all[0].starts_with("row-lock: scale="), "{all:?}");
    assert_eq!(all[1], "wal-sync: synchronous_commit=off");
    let mut by_url = case;
    by_url.server.source = ServerSource::Url(Default::default());
    let (_, untested) = tested(&by_url);
    assert_eq!(untested[0].0, Bottleneck::RowLock);
    assert!(untested[0].1.contains("those of a server by URL are left alone"), "{untested:?}");
}
