//! Streams of statements in, traces out: clients, pauses, gates, masks, and what gives no trace.

use std::collections::BTreeMap;

use model::directory::trace::{TRACE_FILE, Trace};

use crate::directory::trace::expect_sendable;
use crate::directory::{Making, make, tests};
use crate::log::{BatchPart, ExecutedStatement, LoggedSession, Protocol, StatementSink};
use crate::privacy::Privacy;
use crate::reader::{LogReader, WindowChoice};

/// A statement of a session at a time, for 100 µs in all.
fn statement(session: u32, text: &str, parameters: &[&str], at_us: i64) -> ExecutedStatement {
    ExecutedStatement { session, parse_us: 0, bind_us: 0, ..tests::statement(text, parameters, at_us) }
}

fn trace_of(all: Vec<ExecutedStatement>, privacy: Privacy) -> Result<Trace, String> {
    let mut reader = LogReader::new(WindowChoice::All).with_trace();
    let sessions: std::collections::BTreeSet<u32> = all.iter().map(|one| one.session).collect();
    sessions.iter().for_each(|id| reader.session_began(*id, &LoggedSession::default()));
    all.into_iter().for_each(|one| reader.executed(one));
    let making = Making {
        name: "shop",
        privacy,
        key: [1; 32],
        facts: &BTreeMap::new(),
        statistics: None,
        server: None,
        system_identifier: None,
        log: "test",
        n_clients: None,
    };
    let made = make(&mut reader.finish(), &making).map_err(|error| format!("{error:#}"))?;
    let text = String::from_utf8(zstd::decode_all(&made.files[TRACE_FILE][..]).unwrap()).unwrap();
    Trace::read(&text)
}

const UPDATE: &str = "update t set a = $1 where id = $2";

#[test]
fn a_later_writer_of_a_key_waits_for_the_one_before_it() {
    // Session 2 has begun before 1, and writes the key after 1 has ended; 3 writes another key.
    let all = vec![
        statement(2, "begin", &[], 0),
        statement(1, "begin", &[], 1_000),
        statement(1, UPDATE, &["5", "7"], 2_000),
        statement(3, UPDATE, &["5", "8"], 2_500),
        statement(1, "commit", &[], 3_000),
        statement(2, UPDATE, &["6", "7"], 4_000),
        statement(2, UPDATE, &["7", "7"], 5_000),
        statement(2, "commit", &[], 9_000),
        statement(3, "insert into t (id, a) values ($1, $2)", &["7", "1"], 10_000),
        statement(3, "delete from t where id = $1", &["7"], 11_000),
        statement(1, "insert into t (id, a) values ($1, $2)", &["7", "1"], 12_000),
    ];
    let trace = trace_of(all, Privacy::Values).unwrap();
    let gates: Vec<Vec<&[u32]>> = trace
        .transactions
        .iter()
        .map(|one| one.statements.iter().map(|one| &one.gates[..]).collect())
        .collect();
    let none: &[u32] = &[];
    // By beginnings: 2's block, 1's block, 3's update, its insert and delete, 1's insert after the delete.
    assert_eq!(gates[0], [none, &[1], none, none], "{gates:?}");
    assert_eq!((&gates[1], &gates[2]), (&vec![none; 3], &vec![none]));
    // A row is added without waiting, unless somebody has removed it; who removes it waits for the one who changed it before.
    assert_eq!((&gates[3][..], &gates[4][..]), (&[none][..], &[&[0][..]][..]));
    assert_eq!(gates[5], [&[4]]);
    assert_eq!(trace.head.n_sessions, 3);
}

#[test]
fn who_ended_later_is_waited_for_by_those_alone_that_came_after() {
    let all = vec![
        statement(1, "begin", &[], 0),
        statement(1, UPDATE, &["5", "7"], 1_000),
        statement(2, UPDATE, &["6", "7"], 2_000),
        statement(1, "commit", &[], 90_000),
        statement(2, UPDATE, &["6", "7"], 200_000),
    ];
    let trace = trace_of(all, Privacy::Values).unwrap();
    let statements = trace.transactions.iter().flat_map(|one| &one.statements);
    let gates: Vec<&[u32]> = statements.map(|one| &one.gates[..]).collect();
    let none: &[u32] = &[];
    assert_eq!(gates, [none, none, none, none, &[0]]);
}

#[test]
fn who_was_not_waited_for_is_waited_for_by_the_next_one() {
    // 1 writes the key first and ends last but one; 2 cannot have waited for it, and 3 comes after both.
    let all = vec![
        statement(1, "begin", &[], 0),
        statement(1, UPDATE, &["5", "7"], 1_000),
        statement(2, UPDATE, &["6", "7"], 2_000),
        statement(1, "commit", &[], 90_000),
        statement(3, UPDATE, &["7", "7"], 200_000),
        statement(1, UPDATE, &["8", "7"], 300_000),
    ];
    let trace = trace_of(all, Privacy::Values).unwrap();
    let gates = |at: usize| -> Vec<&[u32]> {
        trace.transactions[at].statements.iter().map(|one| &one.gates[..]).collect()
    };
    assert_eq!((gates(0), gates(1)), (vec![&[][..]; 3], vec![&[][..]]));
    assert_eq!(gates(2), [&[0, 1][..]]);
    // The last one waits for the one before it alone.
    assert_eq!(gates(3), [&[2][..]]);
}

#[test]
fn a_row_that_is_added_again_hides_no_writer() {
    let insert = "insert into t (id, a) values ($1, 1)";
    let all = vec![
        statement(1, UPDATE, &["5", "7"], 0),
        statement(2, insert, &["7"], 100_000),
        statement(3, UPDATE, &["6", "7"], 200_000),
    ];
    let trace = trace_of(all, Privacy::Values).unwrap();
    assert_eq!(trace.transactions[1].statements[0].gates[..], [] as [u32; 0]);
    assert_eq!(trace.transactions[2].statements[0].gates[..], [0, 1]);
}

#[test]
fn sessions_that_follow_each_other_share_a_client() {
    let all = vec![
        statement(1, "select $1", &["1"], 0),
        statement(2, "select $1", &["2"], 1_000),
        statement(1, "select $1", &["3"], 2_000),
        statement(3, "select $1", &["4"], 3_000),
        statement(4, "select $1", &["5"], 4_000),
    ];
    let trace = trace_of(all, Privacy::Values).unwrap();
    let clients: Vec<u32> = trace.transactions.iter().map(|one| one.client).collect();
    assert_eq!((clients, trace.head.n_clients, trace.head.n_sessions), (vec![0, 1, 0, 1, 0], 2, 4));
    assert_eq!((trace.head.n_each_max, trace.head.length_us), (3, 4_100));
}

#[test]
fn pauses_errors_and_frames_are_those_of_the_session() {
    let mut failed = statement(1, "insert into t values ($1)", &["5"], 1_000);
    failed.error = Some(*b"23505");
    let mut parts = [statement(2, "select $1", &["1"], 50_000), statement(2, "select $1", &["2"], 50_100)];
    (parts[0].batch, parts[1].batch) = (BatchPart { number: 1, of: 2 }, BatchPart { number: 2, of: 2 });
    let [first, second] = parts;
    let all =
        vec![statement(1, "begin", &[], 0), failed, statement(1, "rollback", &[], 21_100), first, second];
    let trace = trace_of(all, Privacy::Values).unwrap();
    let statements = &trace.transactions[0].statements;
    assert_eq!(statements[1].error.as_deref(), Some("23505"));
    assert_eq!((statements[2].after_us, statements[2].pause_us), (21_100, 20_000));
    let texts: Vec<&str> = trace.transactions[1]
        .statements
        .iter()
        .map(|one| trace.forms[one.form as usize].text.as_str())
        .collect();
    assert_eq!(texts, ["begin", "select :v1", "select :v1", "end"]);
}

#[test]
fn values_are_masked_and_what_is_cut_off_is_left_out() {
    let insert = "insert into person (name, age) values ($1, $2)";
    let all =
        || vec![statement(1, insert, &["Quagga", "44"], 0), statement(1, insert, &["Quag...", "45"], 1_000)];
    let clear = trace_of(all(), Privacy::Values).unwrap();
    assert_eq!(clear.transactions.len(), 1);
    assert_eq!(clear.transactions[0].statements[0].values[0].as_deref(), Some("Quagga"));
    let hashed = trace_of(all(), Privacy::Hashed).unwrap();
    let value = |at: usize| hashed.transactions[0].statements[0].values[at].as_deref().unwrap();
    assert!(value(0) != "Quagga" && value(0).len() == 6 && value(1) == "44", "{hashed:?}");
}

/// A trace of a statement with these parameters, one transaction after the other.
fn of_statement(text: &str, all: &[&[&str]], privacy: Privacy) -> Trace {
    let one = |(n, parameters): (usize, &&[&str])| statement(1, text, parameters, 1_000 * n as i64);
    trace_of(all.iter().enumerate().map(one).collect(), privacy).unwrap()
}

/// The texts of its statements.
fn texts(trace: &Trace) -> Vec<&str> {
    trace.forms.iter().map(|form| form.text.as_str()).collect()
}

/// The values of each of its statements.
fn values(trace: &Trace) -> Vec<Vec<&str>> {
    let statements = trace.transactions.iter().flat_map(|one| &one.statements);
    statements
        .map(|one| one.values.iter().map(|value| value.as_deref().unwrap_or("null")).collect())
        .collect()
}

#[test]
fn literals_of_a_program_keep_their_meaning_as_in_modelled_transactions() {
    // A program's literals stay in a statement with parameters, also if nothing else of the texts does.
    let mixed = "select f('active', 10) from t where name = $1 order by 1 limit 10";
    for privacy in [Privacy::Hashed, Privacy::Shape] {
        let found = of_statement(mixed, &[&["Quagga"], &["Kudu"]], privacy);
        assert_eq!(texts(&found), ["select f('active', 10) from t where name = :v1 order by 1 limit 10"]);
        let value = values(&found)[0][0].to_string();
        assert!(value != "Quagga" && value.len() == 6, "{value}");
    }
    // Without parameters it is a program's if many executions have it, and no column has to do with it.
    let alone = "select f('active') from t where name = 'Quagga' limit 10";
    let of = |n: usize| texts(&of_statement(alone, &vec![&[][..]; n], Privacy::Shape))[0].to_string();
    let (few, many) = (of(19), of(20));
    for kept in ["'active'", "'Quagga'", "limit 10"] {
        assert!(!few.contains(kept), "{few}");
        assert_eq!(many.contains(kept), kept != "'Quagga'", "{many}");
    }
    // A unit of time is nobody's.
    let units = "select date_trunc('day', at) from t where name = 'Quagga'";
    let found = of_statement(units, &[&[]], Privacy::Hashed);
    assert!(texts(&found)[0].contains("date_trunc('day', at)") && !texts(&found)[0].contains("Quagga"));
}

#[test]
fn a_literal_that_differs_between_executions_is_masked_as_a_value() {
    let text = |name: &str| format!("select * from t where name = '{name}' and id = $1");
    let all = vec![statement(1, &text("Quagga"), &["1"], 0), statement(1, &text("Impala"), &["2"], 1_000)];
    let hashed = trace_of(all, Privacy::Hashed).unwrap();
    assert_eq!(texts(&hashed), ["select * from t where name = :v1 and id = :v2"]);
    for (values, name) in values(&hashed).iter().zip(["Quagga", "Impala"]) {
        assert!(values[0] != name && values[0].len() == 6, "{values:?}");
    }
}

#[test]
fn a_statement_without_parameters_stays_a_text_and_its_values_are_literals() {
    let text = |id: &str, name: &str| format!("select * from t where id = {id} and name = '{name}' limit 10");
    let of = |rows: &[(&str, &str)]| -> Vec<ExecutedStatement> {
        let all = rows.iter().enumerate();
        all.map(|(n, (id, name))| statement(1, &text(id, name), &[], 1_000 * n as i64)).collect()
    };
    // They differ: each is a text of its own, with a bare number and no cast.
    let trace = trace_of(of(&[("7", "Quagga"), ("8", "Kudu")]), Privacy::Values).unwrap();
    let form = &trace.forms[0];
    assert_eq!(form.text, "select * from t where id = :v1 and name = :v2 limit 10");
    assert_eq!((form.values.as_str(), form.is_text), ("nq", true));
    // All are equal: nothing is left of values.
    let trace = trace_of(of(&[("7", "it''s: x"), ("7", "it''s: x")]), Privacy::Values).unwrap();
    let form = &trace.forms[0];
    assert_eq!(form.text, "select * from t where id = 7 and name = 'it''s: x' limit 10");
    assert_eq!((form.values.as_str(), form.is_text), ("", false));
    // A simple query stays one.
    let mut simple = of(&[("7", "Kudu")]);
    simple[0].protocol = Protocol::Simple;
    assert!(trace_of(simple, Privacy::Values).unwrap().forms[0].is_text);
}

#[test]
fn what_differs_next_to_parameters_becomes_one_with_the_type_of_a_number() {
    let all = vec![
        statement(1, "select * from t where a = $1 and b = 5 and c = 1", &["1"], 0),
        statement(1, "select * from t where a = $1 and b = 6 and c = 1", &["1"], 1_000),
    ];
    let trace = trace_of(all, Privacy::Values).unwrap();
    assert_eq!(texts(&trace), ["select * from t where a = :v1 and b = :v2::integer and c = 1"]);
    assert_eq!(values(&trace), [["1", "5"], ["1", "6"]]);
    assert!(!trace.forms[0].is_text);
}

#[test]
fn a_log_that_tells_no_pace_gives_no_trace() {
    let refused = |change: fn(&mut ExecutedStatement), expected: &str| {
        let mut one = statement(1, "select $1", &["1"], 0);
        change(&mut one);
        let message = trace_of(vec![one], Privacy::Values).unwrap_err();
        assert!(message.contains(expected) && message.contains("leave --trace out"), "{message}");
    };
    refused(|one| one.duration_us = None, "log_min_duration_statement");
    // Its line was written at a whole second.
    refused(|one| one.start_us -= 100, "whole seconds");
}

#[test]
fn a_trace_that_no_run_takes_is_not_left_behind() {
    let refused = |all: Vec<ExecutedStatement>, expected: &str| {
        let message = trace_of(all, Privacy::Values).unwrap_err();
        assert!(message.contains(expected) && message.contains("--window"), "{message}");
        assert!(!message.contains("capture it again"), "{message}");
    };
    let one = |n: i64| statement(1, &format!("select a{n} from t where id = $1"), &["1"], 1_000 * n);
    refused((0..1_001).map(one).collect(), "the trace has 1001 different statements, and at most 1000 fit");
    // As many as fit, but their texts do not.
    let long = |n: i64| statement(1, &format!("select a{n}{} from t", "x".repeat(6_000)), &[], 1_000 * n);
    refused((0..200).map(long).collect(), "the texts of statements have more than 1048576 bytes");
    // Each byte is six in JSON.
    let value = "\u{1}".repeat(3 << 20);
    refused(vec![statement(1, "select $1", &[&value], 0)], "and a line has at most 16777216");

    let rows = 1 << 20;
    assert!(expect_sendable(rows, (64 << 20) - rows).is_ok());
    let message = expect_sendable(rows, (64 << 20) - rows + 1).unwrap_err().to_string();
    assert!(message.contains("a driver takes 67108864") && message.contains("--application"), "{message}");
}
