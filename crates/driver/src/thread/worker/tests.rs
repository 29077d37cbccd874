//! The loop of a thread against a scripted server: what happens when each step of a transaction fails.

mod bench;
mod outages;
mod pipelines;
mod traces;

use std::io;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use model::load::interval::Counts;
use model::load::{LoadSpec, OnDisconnect, OnError, Protocol, Window};
use model::telemetry::event::EventKind;
use testbed::hostile::{done, message, ready};

use self::bench::{Bench, MS, Run, admits_and_cancels_after, closes, error, in_block, says};
use crate::clock::{self, SECOND_NS};
use crate::poller::scripted::{Act, ScriptedEvent};
use crate::thread::stop::Cancels;

const ONE: &str = "SELECT 1;";
const BLOCK: &str = "BEGIN;\nUPDATE t SET n = 1;\nEND;";

/// One client, one second of load, one of grace.
fn load(source: &str) -> LoadSpec {
    let script = model::load::ScriptSpec {
        name: "script".into(),
        tag: "script".into(),
        weight: 1,
        source: source.into(),
    };
    LoadSpec {
        scripts: vec![script],
        protocol: Protocol::Simple,
        window: Window { ramp_up_s: 0, measure_s: 1, grace_s: 1 },
        ..LoadSpec::default()
    }
}

/// As [`load`], with one transaction.
fn once(source: &str) -> LoadSpec {
    LoadSpec { transactions_per_client: Some(1), ..load(source) }
}

/// Committed, failed, unknown and aborted transactions.
fn outcomes(run: &Run) -> (u64, u64, u64, u64) {
    let Counts { committed, failed, unknown, aborted, .. } = run.counts;
    (committed, failed, unknown, aborted)
}

#[test]
fn a_closed_loop_commits_as_fast_as_the_server_answers() {
    let run = Bench::new(load(ONE)).run(move |_| Ok(vec![says(MS, [done(), ready()].concat())]));
    assert_eq!(outcomes(&run), (1000, 0, 0, 0));
    assert_eq!((run.counts.due, run.counts.skipped), (1000, 0));
    assert_eq!((run.latency_ns_min, run.latency_ns_max), (1e6, 1e6));
    assert_eq!(run.finished.measured, [(0, 999)], "the last one ends as the window does");
}

#[test]
fn a_reply_that_is_held_back_takes_so_much_longer() {
    let load = LoadSpec { reply_delay_ns: 3 * MS, ..load(BLOCK) };
    let run = Bench::new(load).run(move |sent| {
        Ok(vec![says(MS, if sent.n % 3 < 2 { in_block() } else { [done(), ready()].concat() })])
    });
    // Three statements, each with 1 ms at the server and 3 ms that are added.
    assert_eq!((run.latency_ns_min, run.latency_ns_max), (12e6, 12e6));
    assert_eq!(outcomes(&run), (84, 0, 0, 0));
}

#[test]
fn a_refused_connection_ends_its_client() {
    let load = LoadSpec { connect_each: true, ..load(ONE) };
    let run = Bench::new(load).refused().run(move |_| unreachable!("nothing is sent"));
    assert_eq!((run.counts, run.finished.clients_lost), (Counts::default(), 1));
    assert!(run.texts(EventKind::ClientAborted)[0].ends_with("aborted while establishing connection"));
}

#[test]
fn a_client_that_reconnects_dials_until_the_load_ends() {
    let mut load = LoadSpec { on_disconnect: OnDisconnect::Reconnect, connect_each: true, ..load(ONE) };
    load.window.measure_s = 3;
    let run = Bench::new(load).refused().run(move |_| unreachable!("nothing is sent"));
    assert_eq!((run.counts, run.finished.clients_lost), (Counts::default(), 0));
    assert!(run.events.is_empty(), "{:?}", run.events);
    // Each second has its own part of the outage.
    for connects in &run.connects[..3] {
        let outage_s = connects.outage_ns / 1e9;
        assert!((0.9..=1.0).contains(&outage_s) && connects.opened == 0, "{connects:?}");
    }
}

#[test]
fn a_client_that_reconnects_is_not_lost_when_its_connection_ends_after_the_load() {
    let load = LoadSpec { on_disconnect: OnDisconnect::Reconnect, ..load(ONE) };
    let run = Bench::new(load).run(move |_| Ok(vec![closes(SECOND_NS + 10 * MS)]));
    assert_eq!((outcomes(&run), run.finished.clients_lost), ((0, 0, 1, 0), 0));
}

#[test]
fn what_fails_with_its_connection_is_counted_apart_from_what_fails_by_an_error() {
    for (script, ends, expected) in [
        (BLOCK, closes(MS), (1, 1)),
        (BLOCK, says(MS, [error("22012"), message(b'Z', b"E")].concat()), (0, 0)),
        // It may be committed.
        (ONE, closes(MS), (1, 0)),
    ] {
        let mut ends = Some(ends);
        let run = Bench::new(load(script)).run(move |_| Ok(ends.take().into_iter().collect()));
        let sum = run.connects.iter().fold((0, 0), |(lost, failed), c| (lost + c.lost, failed + c.failed));
        assert_eq!(sum, expected, "{script}");
    }
}

#[test]
fn a_lost_connection_leaves_unknown_only_what_the_server_may_have_committed() {
    let torn = |reply: Vec<u8>| vec![says(MS, reply[..reply.len() - 3].to_vec()), closes(2 * MS)];
    for (source, n_answered, expected) in [
        (ONE, 0, (0, 0, 1, 0)),
        // BEGIN and UPDATE commit nothing.
        (BLOCK, 0, (0, 1, 0, 0)),
        (BLOCK, 1, (0, 1, 0, 0)),
        (BLOCK, 2, (0, 0, 1, 0)),
    ] {
        for is_torn in [false, true] {
            let run = Bench::new(load(source)).run(move |sent| {
                Ok(match sent.n < n_answered {
                    true => vec![says(MS, in_block())],
                    false if is_torn => torn([done(), ready()].concat()),
                    false => vec![closes(MS)],
                })
            });
            assert_eq!(outcomes(&run), expected, "{source}, {n_answered} answers, torn: {is_torn}");
            assert_eq!((run.finished.clients_lost, run.counts.started), (1, 1));
            assert_eq!(run.texts(EventKind::ConnectionLost).len(), 1);
            assert_eq!(run.errors, [(*b"lost  ", 1)]);
        }
    }
}

#[test]
fn a_message_that_cannot_be_sent_is_a_lost_connection() {
    let run = Bench::new(load(BLOCK)).run(move |sent| match sent.n {
        0 => Ok(vec![says(MS, in_block())]),
        _ => Err(io::ErrorKind::BrokenPipe.into()),
    });
    assert_eq!((outcomes(&run), run.finished.clients_lost), ((0, 1, 0, 0), 1));
}

#[test]
fn the_rest_of_a_message_is_sent_and_its_reply_counts_once() {
    let run = Bench::new(once(ONE)).run(move |sent| {
        Ok(match sent.n {
            0 => vec![Act { after_ns: MS, what: ScriptedEvent::TakesAllBut(4) }],
            _ => {
                assert_eq!(sent.bytes, b" 1;\0");
                vec![says(MS, [done(), ready()].concat())]
            }
        })
    });
    assert_eq!(outcomes(&run), (1, 0, 0, 0));
    assert_eq!(run.latency_ns_max, 2e6, "from the first byte");
}

#[test]
fn an_unrequested_answer_ends_the_client_even_where_lost_clients_return() {
    let surplus = [done(), ready(), done()].concat();
    let before = Act { after_ns: MS, what: ScriptedEvent::SaysEarly([done(), ready()].concat()) };
    for (what, act, n_committed) in [("surplus", says(MS, surplus), 0), ("early", before, 0)] {
        let mut act = Some(act);
        let load = LoadSpec { on_disconnect: OnDisconnect::Reconnect, ..load(ONE) };
        let run = Bench::new(load).run(move |_| Ok(act.take().into_iter().collect()));
        assert_eq!(outcomes(&run), (n_committed, 0, 1, 0), "{what}");
        assert_eq!(run.finished.clients_lost, 1, "{what}");
        assert_eq!(run.texts(EventKind::ProtocolBroken).len(), 1, "{what}");
        assert_eq!(run.errors, [(*b"proto ", 1)], "{what}");
    }
}

#[test]
fn a_statement_longer_than_the_grace_is_cancelled() {
    let (bench, cancelled) = Bench::new(load(ONE)).with_cancel();
    let answer = 2 * SECOND_NS + 10 * MS;
    let run = bench.run(move |_| Ok(vec![says(answer, [error("57014"), ready()].concat())]));
    assert_eq!(outcomes(&run), (0, 0, 0, 1));
    assert_eq!((run.finished.unanswered, run.finished.clients_lost), (0, 0));
    assert_eq!(run.took_ns, answer);
    let request = cancelled.recv_timeout(Duration::from_secs(10)).expect("a cancel request");
    assert_eq!(request[8..], [0, 0, 0, 1, 0, 0, 0, 2], "process number and key of the session");
}

#[test]
fn a_request_to_cancel_that_comes_too_late_is_repeated_for_the_next_statement() {
    let (bench, cancelled) = Bench::new(load(BLOCK)).with_cancel();
    let cancelled = Arc::new(Mutex::new(cancelled));
    let requests = Arc::clone(&cancelled);
    let takes = move |statement: &str| {
        requests.lock().unwrap().recv_timeout(Duration::from_secs(10)).expect(statement);
        // The thread that has made the request takes note of it.
        std::thread::sleep(Duration::from_millis(200));
    };
    let run = bench.run(move |sent| {
        Ok(vec![match sent.n {
            0 => says(2 * SECOND_NS + 10 * MS, in_block()),
            1 => {
                takes("BEGIN");
                says(10 * MS, [error("57014"), message(b'Z', b"E")].concat())
            }
            _ => {
                takes("UPDATE");
                says(10 * MS, [done(), ready()].concat())
            }
        }])
    });
    assert_eq!((outcomes(&run), run.finished.unanswered), ((0, 0, 0, 1), 0));
    let more = cancelled.lock().unwrap().recv_timeout(Duration::from_millis(300));
    assert!(more.is_err(), "ROLLBACK is not cancelled");
}

#[test]
fn a_rollback_that_a_late_request_cancels_loses_no_client() {
    let (bench, _cancelled) = Bench::new(load(BLOCK)).with_cancel();
    let run = bench.run(move |sent| {
        let failed = || [error("57014"), message(b'Z', b"E")].concat();
        Ok(vec![match sent.n {
            0 => says(MS, in_block()),
            1 => says(2 * SECOND_NS, failed()),
            _ => says(10 * MS, failed()),
        }])
    });
    assert_eq!((outcomes(&run), run.finished.clients_lost), ((0, 0, 0, 1), 0));
    assert!(run.events.is_empty(), "{:?}", run.events);
}

#[test]
fn slots_of_a_lost_client_are_skipped_for_as_long_as_another_thread_goes_on() {
    let load = LoadSpec { pace: "constant 4/s".parse().unwrap(), ..load(ONE) };
    for (bench, n_due) in [(Bench::new(load.clone()), 1), (Bench::new(load).beside_another(), 4)] {
        let run = bench.run(move |_| Ok(vec![closes(MS)]));
        assert_eq!((run.counts.due, run.counts.skipped, run.counts.unknown), (n_due, n_due - 1, 1));
        assert_eq!(run.finished.clients_lost, 1);
    }
}

#[test]
fn a_server_can_answer_after_it_has_taken_the_last_request_to_cancel() {
    // One after the other, they would take four seconds.
    let (conninfo, cancelled) = admits_and_cancels_after(Duration::from_millis(100));
    let handle = wire::connect(&conninfo).unwrap().cancel_handle();
    let (mut cancels, begun) = (Cancels::default(), clock::now());
    assert!(!cancels.are_over(begun), "nothing was asked");
    cancels.send(vec![handle; 40], begun);
    let taken: Vec<_> = (0..40).map_while(|_| cancelled.recv_timeout(Duration::from_secs(2)).ok()).collect();
    let taken_at = clock::now();
    assert_eq!(taken.len(), 40);
    while !cancels.are_over(clock::now()) {
        std::thread::sleep(Duration::from_millis(10));
    }
    assert!(clock::now() > taken_at + SECOND_NS, "there was time for the last answer");
    assert!(clock::now() < begun + 20 * SECOND_NS, "but not for ever");
}

#[test]
fn a_server_that_never_answers_holds_up_the_end_by_two_seconds() {
    for (source, expected) in [(ONE, (0, 0, 1, 0)), (BLOCK, (0, 0, 0, 1))] {
        let run = Bench::new(load(source)).run(move |_| Ok(Vec::new()));
        assert_eq!(outcomes(&run), expected, "{source}");
        assert_eq!((run.took_ns, run.finished.unanswered), (4 * SECOND_NS, 1), "{source}");
        assert_eq!(run.finished.unanswered_ns, 4 * SECOND_NS, "{source}");
    }
}

#[test]
fn a_script_that_sleeps_at_the_end_owes_nobody_an_answer() {
    for source in ["\\sleep 60 s\nSELECT 1;", "BEGIN;\n\\sleep 60 s\nEND;"] {
        let run = Bench::new(load(source)).run(move |_| Ok(vec![says(MS, in_block())]));
        assert_eq!(outcomes(&run), (0, 0, 0, 1), "{source}");
        assert_eq!((run.finished.unanswered, run.finished.unanswered_ns), (0, 0), "{source}");
        assert_eq!(run.took_ns, 2 * SECOND_NS, "one of load, one of grace: {source}");
    }
    // A reply that is held back has been given.
    let delayed = LoadSpec { reply_delay_ns: 500 * MS, ..once(ONE) };
    let answer = SECOND_NS + 800 * MS;
    let run = Bench::new(delayed).run(move |_| Ok(vec![says(answer, [done(), ready()].concat())]));
    assert_eq!((outcomes(&run), run.finished.unanswered), ((1, 0, 0, 0), 0));
}

#[test]
fn slots_that_no_client_was_free_for_are_counted() {
    let behind = LoadSpec { pace: "constant 1000/s".parse().unwrap(), ..load(ONE) };
    let limited = LoadSpec { latency_limit_ns: Some(50 * MS), ..behind.clone() };
    let answer = || Ok(vec![says(10 * MS, [done(), ready()].concat())]);
    let run = Bench::new(behind).run(move |_| answer());
    // One transaction takes ten slots' time.
    assert_eq!((run.counts.due, run.counts.started, run.counts.skipped), (1000, 100, 900));
    assert_eq!((outcomes(&run), run.finished.backlog), ((100, 0, 0, 0), 900));
    // The last one was due after 99 ms, began after 990 and ended after 1,000.
    assert_eq!(run.latency_ns_max, 901e6);
    let run = Bench::new(limited).run(move |_| answer());
    assert_eq!((run.counts.due, run.counts.started), (1000, 100));
    assert!((850..=900).contains(&run.counts.skipped), "{:?}", run.counts);
    assert!(run.latency_ns_max <= 60e6, "{} ns: the limit and the service", run.latency_ns_max);
}

#[test]
fn slots_that_wait_when_the_last_client_is_lost_are_skipped() {
    let load = LoadSpec { pace: "constant 1000/s".parse().unwrap(), ..load(ONE) };
    let run = Bench::new(load).run(move |_| Ok(vec![closes(500 * MS)]));
    assert_eq!((outcomes(&run), run.finished.clients_lost), ((0, 0, 1, 0), 1));
    assert!((499..=501).contains(&run.counts.skipped), "{:?}", run.counts);
    assert_eq!((run.counts.due, run.finished.backlog), (run.counts.skipped + 1, run.counts.skipped));
}

#[test]
fn a_serialization_failure_is_rolled_back_and_tried_again() {
    let load = LoadSpec { max_tries: 3, each_execution: true, ..once(BLOCK) };
    let run = Bench::new(load).run(move |sent| {
        Ok(vec![match sent.n {
            1 => says(MS, [error("40001"), message(b'Z', b"E")].concat()),
            2 => {
                assert_eq!(&sent.bytes[5..], b"ROLLBACK\0");
                says(MS, [done(), ready()].concat())
            }
            0 | 3 | 4 => says(MS, in_block()),
            _ => says(MS, [done(), ready()].concat()),
        }])
    });
    assert_eq!(outcomes(&run), (1, 0, 0, 0));
    assert_eq!((run.counts.retried, run.counts.retries), (1, 1));
    assert_eq!(run.latency_ns_max, 6e6, "both tries and the ROLLBACK");
    let statements: Vec<&[String]> = run.executions.iter().map(|one| &one.statements[..]).collect();
    assert_eq!(statements, [["BEGIN;", "UPDATE t SET n = 1;", "END;"]], "those of the last try");
}

#[test]
fn an_error_in_the_rollback_ends_the_client() {
    let run = Bench::new(load(BLOCK)).run(move |sent| {
        Ok(vec![match sent.n {
            0 => says(MS, in_block()),
            _ => says(MS, [error("XX000"), message(b'Z', b"E")].concat()),
        }])
    });
    assert_eq!((outcomes(&run), run.finished.clients_lost), ((0, 1, 0, 0), 1));
    assert!(run.texts(EventKind::ClientAborted)[0].contains("while rolling back"));
}

#[test]
fn an_error_that_ends_the_load_aborts_the_other_clients() {
    let load = LoadSpec { n_clients: 3, on_error: OnError::EndLoad, ..load(ONE) };
    let run = Bench::new(load).run(move |sent| {
        Ok(match sent.client {
            1 => vec![says(MS, [error("22012"), ready()].concat())],
            _ => vec![says(3 * MS, [error("57014"), ready()].concat())],
        })
    });
    assert_eq!(outcomes(&run), (0, 1, 0, 2));
    assert_eq!((run.finished.clients_lost, run.took_ns), (1, 3 * MS));
}

#[test]
fn a_thread_that_is_held_up_says_so() {
    let run = Bench::new(once(ONE)).run(move |_| {
        let held = Act { after_ns: MS, what: ScriptedEvent::HoldsUp };
        Ok(vec![held, says(2 * MS, [done(), ready()].concat())])
    });
    assert_eq!((outcomes(&run), run.n_pauses), ((1, 0, 0, 0), 1));
}

#[test]
fn a_session_that_has_ended_is_not_asked_for_its_settings() {
    let answer = || says(MS, [done(), ready()].concat());
    let asks = |load| LoadSpec { ask_settings: true, ..load };
    // The client that has made all its transactions first is kept; its session ends before the load does.
    for ending in [closes(2 * MS), says(2 * MS, done())] {
        let mut kept = vec![answer(), ending];
        let load = asks(LoadSpec { n_clients: 2, ..once(ONE) });
        let run = Bench::new(load).run(move |sent| {
            Ok(match sent.client {
                0 => std::mem::take(&mut kept),
                _ => vec![closes(5 * MS)],
            })
        });
        assert_eq!((outcomes(&run), run.finished.clients_lost), ((1, 0, 1, 0), 1));
        assert!(run.finished.sessions.is_none(), "{:?}", run.finished.sessions);
    }
    // The last transaction of a client was lost with its connection.
    let load = asks(LoadSpec { on_disconnect: OnDisconnect::Reconnect, ..once(ONE) });
    let run = Bench::new(load).run(move |_| Ok(vec![closes(MS)]));
    assert_eq!((outcomes(&run), run.finished.clients_lost), ((0, 0, 1, 0), 0));
    assert!(run.finished.sessions.is_none(), "{:?}", run.finished.sessions);
}

#[test]
fn a_thread_waits_for_the_reader_of_its_texts_if_all_of_them_count() {
    let pause = Duration::from_millis(300);
    for all_notices in [true, false] {
        let load = LoadSpec { all_notices, ..once("\\set x debug(1)\nSELECT 1;") };
        let (sender, sent) = std::sync::mpsc::channel();
        let begun = Instant::now();
        let run = Bench::new(load).read_after(pause).run(move |_| {
            sender.send(begun.elapsed()).ok();
            Ok(vec![says(MS, [done(), ready()].concat())])
        });
        let waited = sent.recv().unwrap();
        assert!(waited >= pause || !all_notices, "{waited:?}");
        assert_eq!((outcomes(&run), run.texts(EventKind::ScriptDebug).len()), ((1, 0, 0, 0), 1));
    }
}

#[test]
fn a_poller_that_breaks_ends_the_thread_with_a_report() {
    let bench = Bench::new(load(ONE));
    let broken = bench.try_run(move |_| Ok(vec![Act { after_ns: MS, what: ScriptedEvent::Breaks }]));
    assert_eq!(broken.err().as_deref(), Some("the script breaks the poller"));
}
