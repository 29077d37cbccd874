//! Outages with known truths: transactions at 200 per second, of which some are answered late, with errors, or never.

use std::collections::BTreeMap;

use analysis::comparison::FamilyVerdict;
use analysis::finding::Severity;
use analysis::study;
use analysis::summary::{OutageSummary, RunSummary};
use model::experiment::case::{OnLostConnection, ServerSource};
use model::experiment::keys;
use model::experiment::topology::outage::{Fault, OutageSpec, Then};
use model::load::Pace;
use model::load::execution::{Execution, ExecutionEnd};
use model::run::RunData;
use model::run::server::node::NodeRecord;
use model::run::server::outage::{LedgerRecord, OutageRecord, OutageStep, READ_COMMITS};
use model::telemetry::event::EventKind;

use crate::comparison::{compare_cases, pairs, setting};
use crate::quiet::{self, S, at, event};

const RATE_PER_S: u64 = 200;
const FAULT_S: f64 = 10.0;
/// Time of an answer without an outage, seconds.
const ANSWER_S: f64 = 0.005;
/// When the load ends: nothing is due after that.
const END_S: u64 = 35;

/// The answer to a transaction that was due then: when, and how it ended. Seconds after `go`.
type Answer = fn(f64) -> (f64, ExecutionEnd);

/// The server is silent from 10 to 13 s, and then answers everything at once.
fn silent(due_s: f64) -> (f64, ExecutionEnd) {
    let is_out = due_s + ANSWER_S > FAULT_S && due_s < 13.0;
    (if is_out { 13.0 } else { due_s + ANSWER_S }, ExecutionEnd::Committed)
}

/// Everything that is due from 10 s on fails at once.
fn gone(due_s: f64) -> (f64, ExecutionEnd) {
    let end = if due_s < FAULT_S { ExecutionEnd::Committed } else { ExecutionEnd::Failed };
    (due_s + ANSWER_S, end)
}

fn undisturbed(due_s: f64) -> (f64, ExecutionEnd) {
    (due_s + ANSWER_S, ExecutionEnd::Committed)
}

fn executions(answer: Answer) -> Vec<Execution> {
    let one = |n: u64| {
        let due_ns = n * S / RATE_PER_S;
        let (end_s, end) = answer(due_ns as f64 / 1e9);
        Execution {
            client: (n % 8) as u32,
            due_ns: Some(due_ns),
            number: n / 8 + 1,
            start_ns: due_ns,
            length_ns: ((end_s * 1e9).round() as u64).saturating_sub(due_ns),
            end,
            sqlstate: (end != ExecutionEnd::Committed).then(|| "57P01".to_string()),
            ..Execution::default()
        }
    };
    (0..END_S * RATE_PER_S).map(one).collect()
}

fn of_case(data: &mut RunData) {
    let case = &mut data.record.case;
    case.workload.pace = Pace::Poisson { rate_per_s: RATE_PER_S as f64 };
    case.workload.on_disconnect = OnLostConnection::Reconnect;
    case.outage = Some(OutageSpec {
        name: "kill-primary".to_string(),
        fault: Fault::KillPrimary,
        from_s: FAULT_S,
        to_s: FAULT_S,
        then: Then::Promote { node: "s1".to_string(), after_s: 1.0 },
        lasts_s: None,
        run: Vec::new(),
        undo: Vec::new(),
        check: Vec::new(),
        script: None,
    });
    data.record.load.as_mut().unwrap().pace = case.workload.pace;
}

/// Gives a run an outage: the primary is killed at 10 s, a standby promoted 1 s later, ready after 2.5 s.
fn hit(data: &mut RunData, answer: Answer) {
    of_case(data);
    data.executions = executions(answer);
    let step = OutageStep {
        what: "promote s1".to_string(),
        began_unix_ns: at(FAULT_S + 1.0),
        ended_unix_ns: at(FAULT_S + 2.5),
        error: None,
    };
    let ledger = LedgerRecord { node: "s1".to_string(), n_acknowledged: 7_000, ..LedgerRecord::default() };
    data.record.outage = Some(Box::new(OutageRecord {
        fault: "kill-primary".to_string(),
        planned_s: FAULT_S,
        began_unix_ns: Some(at(FAULT_S)),
        complete_unix_ns: Some(at(FAULT_S + 0.011)),
        proof: Some("all processes are gone".to_string()),
        steps: vec![step],
        ready_unix_ns: Some(at(FAULT_S + 2.5)),
        survivor: Some("s1".to_string()),
        wal_since_checkpoint_bytes: Some(40 << 20),
        ledgers: vec![ledger, LedgerRecord { node: "primary".to_string(), ..LedgerRecord::default() }],
        ..OutageRecord::default()
    }));
}

fn run_with(answer: Answer, change: impl FnOnce(&mut RunData)) -> RunSummary {
    let mut data = quiet::run(1);
    hit(&mut data, answer);
    change(&mut data);
    study(&quiet::experiment(1, vec![data])).runs.remove(0)
}

fn outage_of(answer: Answer) -> OutageSummary {
    *run_with(answer, |_| {}).outage.unwrap()
}

fn is_near(found: f64, expected: f64, within: f64) -> bool {
    (found - expected).abs() <= within
}

#[test]
fn three_silent_seconds_are_an_outage_of_three_seconds() {
    let outage = outage_of(silent);
    assert!(is_near(outage.write_outage.s, 3.0, 0.02) && !outage.write_outage.is_at_least, "{outage:?}");
    assert!(is_near(outage.lost_service_s, 3.0, 0.1 + 1e-9), "{}", outage.lost_service_s);
    assert!(is_near(outage.gap.s, 3.0, 0.02) && !outage.gap.is_at_least, "{:?}", outage.gap);
    assert_eq!((outage.limit_ns, outage.p99_before_ns), (100_000_000, Some(5_000_000)));

    let parts = outage.parts;
    assert_eq!(parts.detection_s, Some(1.0));
    assert!(
        is_near(parts.recovery_s.unwrap(), 1.5, 1e-6) && is_near(parts.first_commit_s.unwrap(), 0.5, 1e-6)
    );
    assert!(is_near(parts.clients_s.unwrap(), 0.5, 0.05), "{parts:?}");
    assert!(outage.after_effects.unwrap().s < 0.2, "{:?}", outage.after_effects);
    assert!(outage.errors.is_empty() && outage.n_due == 600, "{outage:?}");
}

/// When the commits per second were back to 90 % of those before for 2 s: what a rule by rates says.
fn back_by_rate_s(executions: &[Execution]) -> Option<f64> {
    let ends: Vec<f64> = executions.iter().map(|one| (one.start_ns + one.length_ns) as f64 / 1e9).collect();
    let rate = |from_s: f64, to_s: f64| {
        ends.iter().filter(|end_s| (from_s..to_s).contains(*end_s)).count() as f64 / (to_s - from_s)
    };
    let before = rate(FAULT_S - 5.0, FAULT_S);
    (0..250).map(|n| f64::from(n) * 0.1).find(|t| rate(FAULT_S + t, FAULT_S + t + 2.0) >= 0.9 * before)
}

#[test]
fn a_rule_by_rates_misses_most_of_the_outage() {
    let by_rate_s = back_by_rate_s(&executions(silent)).unwrap();
    assert!(by_rate_s < 1.5, "the burst of what queued hides the gap: {by_rate_s}");
}

#[test]
fn without_an_end_an_outage_is_at_least_as_long_as_what_was_seen() {
    let run = run_with(gone, |_| {});
    let outage = run.outage.as_ref().unwrap();
    assert!(outage.write_outage.is_at_least && is_near(outage.write_outage.s, 25.0, 0.02), "{outage:?}");
    assert!(is_near(outage.lost_service_s, 25.0, 0.02) && outage.gap.is_at_least, "{outage:?}");
    assert_eq!((outage.after_effects, &outage.errors), (None, &vec![("57P01".to_string(), 5_000)]));
    let found = run.findings.iter().find(|finding| finding.id == "outage-outlasts-load").unwrap();
    assert_eq!(found.severity, Severity::Doubt);

    // What still queues in the end is due, and nobody has served it.
    let queued = run_with(gone, |data| {
        let queued = data.executions.iter_mut().filter(|one| one.due_ns >= Some(20 * S));
        queued.for_each(|one| one.end = ExecutionEnd::Skipped);
        data.record.done.as_mut().unwrap().backlog = 3_000;
    });
    let outage = queued.outage.unwrap();
    assert!(outage.write_outage.is_at_least && is_near(outage.write_outage.s, 25.0, 0.02), "{outage:?}");
    assert!(is_near(outage.lost_service_s, 25.0, 0.02), "{}", outage.lost_service_s);
}

#[test]
fn service_that_returns_in_the_last_seconds_is_not_yet_back() {
    let late: Answer = |due_s| {
        let end =
            if (FAULT_S..32.0).contains(&due_s) { ExecutionEnd::Failed } else { ExecutionEnd::Committed };
        (due_s + ANSWER_S, end)
    };
    let outage = outage_of(late);
    assert!(outage.write_outage.is_at_least && is_near(outage.write_outage.s, 22.0, 0.06), "{outage:?}");
}

#[test]
fn what_breaks_off_again_is_one_outage() {
    let twice: Answer = |due_s| {
        let is_out = (FAULT_S..12.0).contains(&due_s) || (14.0..15.0).contains(&due_s);
        (due_s + ANSWER_S, if is_out { ExecutionEnd::Failed } else { ExecutionEnd::Committed })
    };
    let outage = outage_of(twice);
    assert!(is_near(outage.write_outage.s, 5.0, 0.06), "{outage:?}");
    assert!(is_near(outage.lost_service_s, 3.0, 0.06) && is_near(outage.gap.s, 2.0, 0.02), "{outage:?}");
}

#[test]
fn the_time_before_the_fault_is_a_normal_window() {
    let run = run_with(silent, |data| {
        quiet::set_committed(data, 10..13, |_| 0);
        data.events.push(event(10.1, EventKind::ConnectionLost, "server closed the connection"));
        data.events.push(event(11.5, EventKind::ServerTrouble, "the database system is starting up"));
        data.events.push(event(14.0, EventKind::ServerRestarted, "another server answers"));
        data.events.push(event(10.5, EventKind::TelemetryLost, "the session ended"));
        let done = data.record.done.as_mut().unwrap();
        (done.n_lost, done.counts.unknown) = (8, 0);
        done.measured_by_client = vec![1, 1, 1, 1, 1, 1, 1, 9_000];
    });
    assert_eq!(run.measured_s, 5.0);
    assert!(is_near(run.tps.unwrap(), 1_005.0, 10.0), "{:?}", run.tps);
    let ids: Vec<&str> = run.findings.iter().map(|finding| finding.id).collect();
    assert_eq!(ids, ["too-short-to-judge"], "{:#?}", run.findings);
}

#[test]
fn what_happens_outside_of_the_outage_is_found() {
    let check = |t_s: f64, kind: EventKind, id: &str| {
        let run = run_with(silent, |data| data.events.push(event(t_s, kind, "FATAL")));
        assert!(run.findings.iter().any(|finding| finding.id == id), "{id}: {:#?}", run.findings);
    };
    check(7.0, EventKind::ConnectionLost, "connection-lost");
    check(25.0, EventKind::ConnectionLost, "connection-lost");
    check(25.0, EventKind::ServerRestarted, "server-restarted");
    check(5.5, EventKind::ServerTrouble, "server-trouble");
}

#[test]
fn clients_that_do_not_come_back_are_counted() {
    let check = |t_s: f64, severity: Severity| {
        let run = run_with(silent, |data| {
            data.record.done.as_mut().unwrap().clients_lost = 3;
            data.events.push(event(t_s, EventKind::ClientAborted, "read-only transaction"));
        });
        let found = run.findings.iter().find(|finding| finding.id == "connection-lost").unwrap();
        assert_eq!(found.severity, severity);
        let words = format!(
            "3 of 8 clients ended, and did not come back, the first at {t_s:.0} s: read-only transaction"
        );
        assert_eq!(found.evidence, words);
    };
    check(12.0, Severity::Doubt);
    check(7.0, Severity::Void);
    // Service was back at 13 s, and had settled at 18 s.
    check(17.0, Severity::Doubt);
    check(25.0, Severity::Void);

    let both = run_with(silent, |data| {
        data.record.done.as_mut().unwrap().clients_lost = 2;
        data.events.push(event(12.0, EventKind::ClientAborted, "read-only transaction"));
        data.events.push(event(25.0, EventKind::ClientAborted, "disk full"));
    });
    let found = both.findings.iter().find(|finding| finding.id == "connection-lost").unwrap();
    assert_eq!((found.severity, both.counts()), (Severity::Void, false));
    assert!(
        found.evidence.ends_with("read-only transaction, one when service was back, at 25 s: disk full"),
        "{}",
        found.evidence
    );
}

#[test]
fn no_time_without_a_connection_is_said_that_nobody_counted() {
    let evidence = |outage_ns: f64, has_outage: bool| {
        let run = run_with(silent, |data| {
            data.events.push(event(7.0, EventKind::ConnectionLost, "FATAL"));
            data.record.done.as_mut().unwrap().outage_ns_total = outage_ns;
            if !has_outage {
                (data.record.outage, data.record.case.outage) = (None, None);
            }
        });
        run.findings.into_iter().find(|finding| finding.id == "connection-lost").unwrap().evidence
    };
    for (ns, words) in [(3e9, "3 s"), (2e6, "less than 0.1 s")] {
        let said = evidence(ns, false);
        assert!(said.contains(&format!("clients, {words} without a connection, first at 7 s")), "{said}");
    }
    for unknown in [evidence(0.0, false), evidence(3e9, true)] {
        assert!(unknown.contains("clients, first at 7 s"), "{unknown}");
    }
}

#[test]
fn a_fault_that_nothing_proves_voids_the_run() {
    let check = |change: fn(&mut OutageRecord), words: &str| {
        let run = run_with(silent, |data| change(data.record.outage.as_mut().unwrap()));
        let found = run.findings.iter().find(|finding| finding.id == "outage-not-proved").unwrap();
        assert_eq!((found.severity, run.counts()), (Severity::Void, false));
        assert!(found.evidence.contains(words), "{}", found.evidence);
    };
    check(|outage| outage.proof = None, "kill-primary: nothing shows that it happened");
    check(
        |outage| (outage.proof, outage.problem) = (None, Some("1 process is left".to_string())),
        "kill-primary: 1 process is left",
    );
    check(
        |outage| (outage.proof, outage.began_unix_ns) = (None, None),
        "kill-primary: the load ended before it",
    );
    let run = run_with(silent, |data| data.record.outage = None);
    assert!(run.findings.iter().any(|finding| finding.id == "outage-not-proved"));
}

#[test]
fn a_step_that_fails_after_the_proof_is_a_doubt() {
    let run = run_with(silent, |data| {
        let outage = data.record.outage.as_mut().unwrap();
        let failed = |what: &str, error: &str| OutageStep {
            what: what.to_string(),
            error: Some(format!("{what}: {error}")),
            ..OutageStep::default()
        };
        outage.problem = Some("promote s1: it is no standby".to_string());
        outage.steps = vec![
            failed("promote s1", "it is no standby"),
            failed("undo", "exit code 1"),
            failed(READ_COMMITS, "it does not start"),
        ];
    });
    let found = run.findings.iter().find(|finding| finding.id == "outage-step-failed").unwrap();
    assert_eq!((found.severity, run.counts()), (Severity::Doubt, true));
    assert_eq!(found.evidence, "kill-primary: promote s1: it is no standby; undo: exit code 1");

    // Without a proof, or a problem, it is another finding, or none.
    let ids = |change: fn(&mut OutageRecord)| {
        let run = run_with(silent, |data| change(data.record.outage.as_mut().unwrap()));
        run.findings
            .iter()
            .filter(|finding| finding.id.starts_with("outage-"))
            .map(|finding| finding.id)
            .collect()
    };
    let none: Vec<&str> = ids(|_| {});
    let unproved: Vec<&str> = ids(|outage| (outage.proof, outage.problem) = (None, Some("x".to_string())));
    assert_eq!((none, unproved), (vec![], vec!["outage-not-proved"]));
}

/// The way to the standby was cut for so many seconds before the primary was killed.
fn cut(data: &mut RunData, for_s: f64, names: &str, level: &str) {
    let n_lost = (for_s * RATE_PER_S as f64) as u64;
    let outage = data.record.outage.as_mut().unwrap();
    let ns = |before_s: f64| ((FAULT_S - before_s) * 1e9) as u64;
    outage.ledgers[0].n_lost = n_lost;
    outage.ledgers[0].lost_ns = Some((ns(for_s), ns(0.01)));
    let state = if names.is_empty() { "async" } else { "sync" };
    data.record.nodes =
        vec![NodeRecord { name: "s1".to_string(), sync_state: state.to_string(), ..NodeRecord::default() }];
    setting(data, "synchronous_commit", level);
    setting(data, "synchronous_standby_names", names);
}

#[test]
fn what_is_committed_on_a_cut_way_is_lost() {
    let check = |names: &str, level: &str, id: &str, words: &str| {
        let run = run_with(silent, |data| cut(data, 2.0, names, level));
        let counted = run.outage.as_ref().unwrap().commits.counted.unwrap();
        assert_eq!(counted.lost, 400, "2 s at 200 per second");
        let [first, last] = counted.lost_before_s.unwrap();
        assert!(is_near(first, 2.0, 1e-6) && is_near(last, 0.01, 1e-6));
        let of_loss: Vec<_> = run.findings.iter().filter(|finding| finding.id.contains("lost")).collect();
        assert_eq!((of_loss.len(), of_loss[0].id, of_loss[0].severity), (1, id, Severity::Doubt));
        assert!(of_loss[0].evidence.contains(words), "{}", of_loss[0].evidence);
        assert!(run.counts(), "an outage that loses is an outage");
    };
    let words =
        "400 of 7,000 acknowledged commits are lost (5.7 %), acknowledged 2.00 to 0.01 s before the fault";
    check("", "on", "commits-lost", words);
    check("s1", "local", "commits-lost", words);
    check("s1", "on", "lost-in-spite-of-sync", "although commits waited for s1 (synchronous_commit = on");
}

#[test]
fn a_server_that_comes_back_has_what_it_flushed() {
    let run = |level: &str| {
        run_with(silent, |data| {
            cut(data, 0.2, "", level);
            data.record.nodes.clear();
            data.record.outage.as_mut().unwrap().survivor = Some("primary".to_string());
        })
    };
    let ids = |run: &RunSummary| run.findings.iter().map(|finding| finding.id).collect::<Vec<_>>();
    assert!(ids(&run("off")).contains(&"commits-lost"));
    assert!(ids(&run("on")).contains(&"lost-in-spite-of-sync"));
}

#[test]
fn what_is_not_known_of_the_commits_is_never_nothing() {
    let run = run_with(silent, |data| {
        let outage = data.record.outage.as_mut().unwrap();
        outage.ledgers.clear();
        outage.ledger_unavailable = Some("the survivor cannot be read".to_string());
    });
    let commits = &run.outage.as_ref().unwrap().commits;
    assert_eq!((commits.lost(), commits.unknown.as_deref()), (None, Some("the survivor cannot be read")));
    assert!(run.findings.iter().any(|finding| finding.id == "loss-unknown"));
}

#[test]
fn ghosts_and_two_primaries_are_reported_as_the_servers_have_them() {
    let run = run_with(silent, |data| {
        let outage = data.record.outage.as_mut().unwrap();
        let ledger = &mut outage.ledgers[0];
        (ledger.n_ghosts, ledger.n_doubled, ledger.n_unknown_present, ledger.n_unknown_absent) = (1, 2, 3, 5);
        outage.ledgers[1].n_of_two_primaries = 7;
    });
    let counted = run.outage.as_ref().unwrap().commits.counted.unwrap();
    assert_eq!(
        [counted.ghosts, counted.doubled, counted.unknown_present, counted.unknown_absent],
        [1, 2, 3, 5]
    );
    let found = run.findings.iter().find(|finding| finding.id == "two-primaries").unwrap();
    assert!(found.evidence.starts_with("7 acknowledged commits"), "{}", found.evidence);

    let unread = run_with(silent, |data| {
        let outage = data.record.outage.as_mut().unwrap();
        outage.ledgers.truncate(1);
        outage.former_unavailable = Some("it does not start".to_string());
    });
    let counted = unread.outage.as_ref().unwrap().commits.counted.unwrap();
    assert_eq!((counted.of_two_primaries, counted.lost), (None, 0));
    let found = unread.findings.iter().find(|finding| finding.id == "two-primaries").unwrap();
    assert_eq!(found.severity, Severity::Note);
    assert!(found.evidence.ends_with("is unknown: it does not start"), "{}", found.evidence);
}

#[test]
fn what_a_command_did_to_other_servers_is_unknown() {
    let of = |source: ServerSource, n_standbys: u32| {
        run_with(silent, |data| {
            let case = &mut data.record.case;
            case.outage.as_mut().unwrap().fault = Fault::Hook;
            case.server.source = source;
            case.set(keys::topology::STANDBYS, n_standbys);
            let outage = data.record.outage.as_mut().unwrap();
            // The server that answers after it is read, whichever it is.
            (outage.survivor, outage.ready_unix_ns) = (None, None);
            outage.ledgers.remove(0);
        })
    };
    let unknown = |run: &RunSummary| {
        let counted = run.outage.as_ref().unwrap().commits.counted.unwrap();
        let found = run.findings.iter().find(|finding| finding.id == "two-primaries");
        assert_eq!(
            counted.of_two_primaries.is_none(),
            found.is_some_and(|found| found.severity == Severity::Note)
        );
        counted.of_two_primaries.is_none()
    };
    let url = ServerSource::Url(BTreeMap::from([("host".to_string(), "a,b".to_string())]));
    assert!(unknown(&of(url, 0)));
    let own = quiet::run(1).record.case.server.source;
    assert!(unknown(&of(own.clone(), 1)));
    assert!(!unknown(&of(own, 0)), "there is no other server");
}

#[test]
fn a_fault_that_nobody_notices_costs_no_service() {
    let run = run_with(undisturbed, |_| {});
    let outage = run.outage.as_ref().unwrap();
    assert_eq!((outage.write_outage.s, outage.lost_service_s), (0.0, 0.0));
    assert!(run.findings.iter().any(|finding| finding.id == "service-not-lost"));
}

#[test]
fn what_a_checked_command_does_later_is_its_outage() {
    // All is served for 8 s after the fault; then nothing is for 3 s.
    let late: Answer = |due_s| {
        let is_out = due_s + ANSWER_S > 18.0 && due_s < 21.0;
        (if is_out { 21.0 } else { due_s + ANSWER_S }, ExecutionEnd::Committed)
    };
    let run = |answer: Answer, check: &[&str]| {
        run_with(answer, |data| {
            let outage = data.record.case.outage.as_mut().unwrap();
            outage.fault = Fault::Hook;
            outage.check = check.iter().map(ToString::to_string).collect();
        })
    };
    let checked = run(late, &["check"]);
    let outage = checked.outage.as_ref().unwrap();
    assert!(is_near(outage.write_outage.s, 3.0, 0.02) && !outage.write_outage.is_at_least, "{outage:?}");
    assert!(is_near(outage.onset_s.unwrap(), 8.0, 0.02), "{outage:?}");
    assert!(
        is_near(outage.lost_service_s, 3.0, 0.1 + 1e-9) && is_near(outage.gap.s, 3.0, 0.02),
        "{outage:?}"
    );
    assert!(checked.findings.iter().all(|finding| finding.id != "service-not-lost"));

    // What nothing proves to have come from it is no outage of it.
    let unchecked = run(late, &[]);
    assert_eq!(unchecked.outage.as_ref().unwrap().write_outage.s, 0.0);
    assert!(unchecked.findings.iter().any(|finding| finding.id == "service-not-lost"));

    // An effect at once, and none at all, are as without a check.
    let outage = run(silent, &["check"]).outage.unwrap();
    assert!(is_near(outage.write_outage.s, 3.0, 0.02) && outage.onset_s.is_none(), "{outage:?}");
    let quiet = run(undisturbed, &["check"]);
    assert_eq!(quiet.outage.as_ref().unwrap().write_outage.s, 0.0);
    assert!(quiet.findings.iter().any(|finding| finding.id == "service-not-lost"));
}

#[test]
fn a_target_of_the_pace_is_the_limit_of_an_answer() {
    let run = run_with(silent, |data| {
        let target = "p99 <= 20ms".parse().unwrap();
        data.record.load.as_mut().unwrap().pace = Pace::Kept { rate_per_s: 200.0, target };
    });
    let outage = run.outage.unwrap();
    assert_eq!(outage.limit_ns, 20_000_000);
    assert!(is_near(outage.lost_service_s, 3.0, 0.021), "{}", outage.lost_service_s);
}

/// Everything that is due after the fault is answered when it has lasted so long, or at once.
fn answer_all(data: &mut RunData, length_s: f64) {
    let answer_ns = ((FAULT_S + length_s) * 1e9) as u64;
    for one in data.executions.iter_mut().filter(|one| one.due_ns >= Some(10 * S)) {
        one.length_ns = (S / 200).max(answer_ns.saturating_sub(one.start_ns));
    }
}

#[test]
fn six_outages_without_loss_bound_its_chance() {
    let runs = (1..=6).map(|number| {
        let mut data = quiet::run(number);
        hit(&mut data, silent);
        answer_all(&mut data, 3.0 + f64::from(number) * 0.1);
        data
    });
    let study = study(&quiet::experiment(6, runs.collect()));
    let outages = study.cases[0].outages.as_ref().unwrap();
    assert_eq!((outages.n, outages.loss.n_known, outages.loss.lost.len()), (6, 6, 0));
    assert!(is_near(outages.loss.chance_below.unwrap(), 0.393, 0.001), "{:?}", outages.loss);
    let figure = &outages.write_outage;
    assert!(
        is_near(figure.median.s, 3.35, 0.02) && is_near(figure.coverage.unwrap(), 0.969, 0.001),
        "{figure:?}"
    );
    assert!(is_near(figure.min.s, 3.1, 0.02) && is_near(figure.max.s, 3.6, 0.02), "{figure:?}");
    assert!(!figure.median.is_at_least && study.cases[0].tps_median.is_some());
}

#[test]
fn outages_are_compared_by_pairs() {
    let mut data = pairs(8, 1.0);
    for (n, run) in data.runs.iter_mut().enumerate() {
        hit(run, silent);
        // Blocks differ more than the sides do: A is out for 3 s and more, B for half as long again.
        let length_s = 3.0 + 0.4 * (n / 2) as f64;
        let length_s = if run.record.spec.case == 2 { 1.5 * length_s } else { length_s };
        answer_all(run, length_s);
    }
    let compared = compare_cases(&data);
    assert_eq!(compared.outages.len(), 2);
    for one in &compared.outages {
        assert_eq!((one.verdict, one.n_pairs, one.has_bounds), (Some(FamilyVerdict::More), 8, false));
        assert!(is_near(one.result.unwrap().ratio, 1.5, 0.03), "{one:?}");
    }
}
