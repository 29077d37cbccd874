//! Loads with an outage: each transaction is reported, a silent server is given up, and nobody's word is taken for what became of a commit.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use model::load::execution::ExecutionEnd;
use model::load::{LoadSpec, OnDisconnect};
use testbed::hostile::{done, message, ready};

use super::bench::{Bench, MS, Run, closes, error, in_block, says};
use super::{BLOCK, ONE, load, once, outcomes};
use crate::clock::SECOND_NS;
use crate::tally::SILENT;

/// As [`load`], of an open loop that reports each transaction.
fn reported(source: &str, pace: &str) -> LoadSpec {
    LoadSpec { pace: pace.parse().unwrap(), each_execution: true, ledger: true, ..load(source) }
}

/// How often executions ended in each way, which must be as often as the counts say.
fn ends(run: &Run) -> BTreeMap<String, u64> {
    let mut ends = BTreeMap::new();
    for line in &run.executions {
        *ends.entry(format!("{:?}", line.execution.end)).or_default() += 1;
    }
    let counts = run.counts;
    let counted = [
        ("Aborted", counts.aborted),
        ("Committed", counts.committed),
        ("Failed", counts.failed),
        ("Skipped", counts.skipped),
        ("Unknown", counts.unknown),
    ];
    let counted: BTreeMap<String, u64> =
        counted.into_iter().filter(|(_, n)| *n > 0).map(|(end, n)| (end.to_string(), n)).collect();
    assert_eq!(ends, counted);
    assert_eq!(run.counts.due, run.executions.len() as u64, "each is reported once");
    ends
}

/// The due times, in order, milliseconds.
fn due_ms(run: &Run) -> Vec<u64> {
    let due = run.executions.iter().filter_map(|line| line.execution.due_ns);
    let mut due: Vec<u64> = due.map(|due| due / MS).collect();
    due.sort_unstable();
    due
}

#[test]
fn each_transaction_of_an_open_loop_is_reported_once_with_its_due_time() {
    // Each takes 3 ms, and 500 are due in a second: the last third waits until the load is over.
    let run = Bench::new(reported(ONE, "constant 500/s"))
        .run(move |_| Ok(vec![says(3 * MS, [done(), ready()].concat())]));
    assert_eq!(due_ms(&run), (0..500).map(|n| 2 * n).collect::<Vec<_>>());
    let ends = ends(&run);
    assert!((165..170).contains(&ends["Skipped"]) && ends.len() == 2, "{ends:?}");
    for line in &run.executions {
        let one = &line.execution;
        assert_eq!(one.number, 0, "the script has no token");
        if one.end == ExecutionEnd::Committed {
            assert_eq!((one.length_ns, one.start_ns / MS % 3), (3 * MS, 0));
        }
    }
}

#[test]
fn what_was_due_is_reported_when_the_only_client_is_lost_or_cancelled() {
    for (script, last, expected) in [(ONE, closes(MS), "Unknown"), (BLOCK, closes(MS), "Failed")] {
        let mut last = Some(last);
        let run = Bench::new(reported(script, "constant 1000/s"))
            .beside_another()
            .run(move |_| Ok(last.take().into_iter().collect()));
        let ends = ends(&run);
        assert_eq!((ends[expected], ends.len()), (1, 2), "{ends:?}");
        assert_eq!(due_ms(&run), (0..1000).collect::<Vec<_>>());
    }
    // Nobody answers: the transaction is cancelled when the load ends, and was in a block.
    let run = Bench::new(reported(BLOCK, "constant 100/s")).run(move |_| Ok(Vec::new()));
    assert_eq!(ends(&run), BTreeMap::from([("Aborted".to_string(), 1), ("Skipped".to_string(), 99)]));
}

#[test]
fn a_slot_that_waits_for_a_connection_until_the_end_is_reported() {
    let load = LoadSpec {
        on_disconnect: OnDisconnect::Reconnect,
        connect_each: true,
        ..reported(ONE, "constant 100/s")
    };
    let run = Bench::new(load).refused().run(move |_| unreachable!("nothing is sent"));
    assert_eq!(ends(&run), BTreeMap::from([("Skipped".to_string(), 100)]));
    assert_eq!(due_ms(&run), (0..100).map(|n| 10 * n).collect::<Vec<_>>());
}

#[test]
fn slots_that_nobody_took_wait_for_whoever_reads_them() {
    let (pause, begun) = (Duration::from_millis(300), Instant::now());
    let run = Bench::new(reported(ONE, "constant 1000/s")).read_after(pause).run(move |_| Ok(Vec::new()));
    assert!(begun.elapsed() >= pause, "they were left where they may be dropped");
    assert_eq!(ends(&run), BTreeMap::from([("Skipped".to_string(), 999), ("Unknown".to_string(), 1)]));
}

#[test]
fn a_slot_beyond_the_latency_limit_is_reported_with_its_own_due_time() {
    let load = LoadSpec { latency_limit_ns: Some(20 * MS), ..reported(ONE, "constant 1000/s") };
    let run = Bench::new(load).run(move |_| Ok(vec![says(10 * MS, [done(), ready()].concat())]));
    assert_eq!(due_ms(&run), (0..1000).collect::<Vec<_>>());
    assert!(ends(&run)["Skipped"] > 800);
}

#[test]
fn the_number_of_a_transaction_is_the_same_in_all_of_its_tries() {
    const TOKEN: &str = "BEGIN;\nINSERT INTO t VALUES (:client_id, :pgdyno_number);\nEND;";
    let load =
        LoadSpec { max_tries: 3, transactions_per_client: Some(3), ..reported(TOKEN, "constant 50/s") };
    let sent = std::sync::Arc::new(std::sync::Mutex::new(Vec::new()));
    let seen = sent.clone();
    let mut n_inserts = 0;
    let run = Bench::new(load).run(move |message_sent| {
        let text = String::from_utf8_lossy(&message_sent.bytes[5..]).trim_end_matches('\0').to_string();
        let is_insert = text.starts_with("INSERT");
        if is_insert {
            seen.lock().unwrap().push(text.clone());
            n_inserts += 1;
        }
        Ok(vec![says(
            MS,
            match text.as_str() {
                _ if is_insert && n_inserts == 2 => [error("40001"), message(b'Z', b"E")].concat(),
                "END;" | "ROLLBACK" => [done(), ready()].concat(),
                _ => in_block(),
            },
        )])
    });
    let numbers: Vec<u64> = run.executions.iter().map(|line| line.execution.number).collect();
    assert_eq!(numbers, [1, 2, 3]);
    let values = ["1", "2", "2", "3"].map(|n| format!("INSERT INTO t VALUES (0, {n});"));
    assert_eq!(*sent.lock().unwrap(), values);
}

#[test]
fn a_server_that_falls_silent_is_given_up_after_the_limit() {
    for (script, n_answered, expected) in
        [(ONE, 0, (0, 0, 1, 0)), (BLOCK, 1, (0, 1, 0, 0)), (BLOCK, 2, (0, 0, 1, 0))]
    {
        let load = LoadSpec { reply_timeout_ms: Some(200), each_execution: true, ..load(script) };
        let run = Bench::new(load)
            .run(move |sent| Ok(if sent.n < n_answered { vec![says(MS, in_block())] } else { Vec::new() }));
        assert_eq!((outcomes(&run), run.errors.as_slice()), (expected, &[(SILENT, 1)][..]), "{script}");
        let one = &run.executions[0].execution;
        assert_eq!(one.sqlstate.as_deref(), Some("silent"));
        assert_eq!(one.end_ns() / MS, 200 + n_answered as u64);
    }
}

#[test]
fn a_server_that_answers_within_the_limit_is_not_given_up() {
    let load = LoadSpec { reply_timeout_ms: Some(200), ..load(ONE) };
    let run = Bench::new(load).run(move |_| Ok(vec![says(199 * MS, [done(), ready()].concat())]));
    assert_eq!(outcomes(&run), (6, 0, 0, 0));
}

#[test]
fn whoever_says_that_a_session_has_ended_does_not_decide_what_became_of_a_commit() {
    for (sqlstate, n_answered, expected) in [
        ("57P01", 2, (0, 0, 1, 0)),
        ("08006", 2, (0, 0, 1, 0)),
        ("25P03", 2, (0, 0, 1, 0)),
        // Not sent, or of the transaction.
        ("57P01", 1, (0, 1, 0, 0)),
        ("23505", 2, (0, 1, 0, 0)),
    ] {
        let load = LoadSpec { on_disconnect: OnDisconnect::Reconnect, ..once(BLOCK) };
        let run = Bench::new(load).run(move |sent| {
            Ok(vec![match sent.n {
                n if n < n_answered => says(MS, in_block()),
                n if n == n_answered => says(MS, [error(sqlstate), message(b'Z', b"I")].concat()),
                _ => closes(SECOND_NS),
            }])
        });
        assert_eq!(outcomes(&run), expected, "{sqlstate} after {n_answered}");
        assert_eq!(run.errors, [(*format!("{sqlstate} ").as_bytes().first_chunk().unwrap(), 1)]);
    }
}
