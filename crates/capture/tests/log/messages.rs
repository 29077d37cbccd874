//! Messages put together to statements, by what each setting logs.

use capture::log::{BatchPart, LoggedValue, Protocol, ReadOptions, SkipReason, UNKNOWN_STATE};

use crate::{Collected, file, read, read_files, text};

/// Lines of session 7 with a default prefix, a second apart.
fn log(messages: &[&str]) -> String {
    let line = |(n, message): (usize, &&str)| {
        format!("2026-11-29 19:34:{:02}.000 UTC [7] shop@shop {message}\n", 10 + n)
    };
    messages.iter().enumerate().map(line).collect()
}

fn statements(messages: &[&str]) -> Collected {
    read(log(messages)).0
}

#[test]
fn a_text_gets_the_duration_of_the_next_line() {
    let found = statements(&[
        "LOG:  statement: select 1",
        "LOG:  temporary file: path \"a\", size 1",
        "LOG:  duration: 250.000 ms",
        "LOG:  statement: select 2",
        "LOG:  statement: select 3",
    ]);
    assert_eq!(found.texts(), ["select 1", "select 2", "select 3"]);
    let durations: Vec<Option<u64>> = found.statements.iter().map(|one| one.duration_us).collect();
    assert_eq!(durations, [Some(250_000), None, None]);
    // 19:34:12 less the duration; 19:34:13.
    assert_eq!(found.statements[1].start_us - found.statements[0].start_us, 1_250_000);
}

#[test]
fn steps_of_the_extended_protocol_are_one_statement() {
    let found = statements(&[
        "LOG:  duration: 0.100 ms  parse S_1: select $1",
        "LOG:  duration: 0.020 ms  bind S_1: select $1",
        "DETAIL:  parameters: $1 = 'nj",
        "LOG:  duration: 0.003 ms  execute S_1: select $1",
        "DETAIL:  parameters: $1 = 'a'",
        "LOG:  duration: 0.020 ms  bind S_1/C_2: select $1",
        "LOG:  duration: 0.003 ms  execute S_1/C_2: select $1",
        "LOG:  duration: 0.004 ms  execute fetch from S_1/C_2: select $1",
    ]);
    assert_eq!(found.texts(), ["select $1"; 3]);
    let first = &found.statements[0];
    assert_eq!((first.parse_us, first.bind_us, first.duration_us), (100, 20, Some(3)));
    assert_eq!(
        (&first.protocol, &first.parameters[..]),
        (&Protocol::Named("S_1".to_string()), &[text("a")][..])
    );
    let fetches: Vec<bool> = found.statements.iter().map(|one| one.is_fetch).collect();
    assert_eq!(fetches, [false, false, true]);
}

#[test]
fn durations_of_log_duration_belong_to_the_steps() {
    let (found, reading) = read(log(&[
        "LOG:  duration: 0.100 ms",
        "LOG:  duration: 0.020 ms",
        "LOG:  execute <unnamed>: select $1",
        "DETAIL:  parameters: $1 = '5'",
        "LOG:  duration: 0.003 ms",
        "LOG:  duration: 0.300 ms",
        "LOG:  statement: select 2",
        "LOG:  duration: 0.005 ms",
    ]));
    let first = &found.statements[0];
    assert_eq!((first.parse_us, first.bind_us, first.duration_us), (100, 20, Some(3)));
    assert_eq!(first.protocol, Protocol::Extended);
    assert_eq!(found.statements[1].duration_us, Some(5));
    assert_eq!(
        (
            reading.skipped(SkipReason::DurationWithoutText),
            reading.skipped_us(SkipReason::DurationWithoutText)
        ),
        (1, 300)
    );
}

#[test]
fn values_of_parameters_may_have_lines_and_quotes_and_be_cut() {
    let log = "2021-12-03 07:14:48.594 UTC [4913] user=u,db=d LOG:  duration: 0.215 ms  execute q: select $1, $2\n\
               2021-12-03 07:14:48.594 UTC [4913] user=u,db=d DETAIL:  parameters: $1 = 'nj\n\thello', $2 = NULL\n\
               2021-12-03 07:14:48.595 UTC [4913] user=u,db=d LOG:  duration: 0.215 ms  execute q: select $1, $2\n\
               2021-12-03 07:14:48.595 UTC [4913] user=u,db=d DETAIL:  parameters: $1 = 'it''s', $2 = '0123456789...'\n";
    let (found, _) = read(log);
    assert_eq!(found.statements[0].parameters, [text("nj\nhello"), LoggedValue::Null]);
    assert_eq!(
        found.statements[1].parameters,
        [text("it's"), LoggedValue::Truncated("0123456789".to_string())]
    );
}

#[test]
fn errors_belong_to_their_statements() {
    let (found, reading) = read(log(&[
        "LOG:  statement: select 1/0",
        "ERROR:  division by zero",
        "STATEMENT:  select 1/0",
        "ERROR:  42601: syntax error at or near \"selec\" at character 1",
        "STATEMENT:  selec 1",
        "LOG:  duration: 0.020 ms  bind P_1: insert into t values ($1)",
        "DETAIL:  parameters: $1 = '7'",
        "ERROR:  duplicate key value violates unique constraint \"t_pkey\"",
        "DETAIL:  Key (id)=(7) already exists.",
        "STATEMENT:  insert into t values ($1)",
        "ERROR:  something of an extension",
        "CONTEXT:  unnamed portal with parameters: $1 = 'x'",
        "STATEMENT:  select f($1)",
        "FATAL:  terminating connection due to idle-in-transaction timeout",
    ]));
    let errors: Vec<[u8; 5]> = found.statements.iter().filter_map(|one| one.error).collect();
    assert_eq!(errors, [*b"22012", *b"42601", *b"23505", UNKNOWN_STATE]);
    assert_eq!(found.statements[2].protocol, Protocol::Named("P_1".to_string()));
    assert_eq!(found.statements[2].parameters, [text("7")]);
    assert_eq!(
        (&found.statements[3].protocol, &found.statements[3].parameters[..]),
        (&Protocol::Extended, &[text("x")][..])
    );
    assert_eq!(reading.skipped(SkipReason::ErrorWithoutStatement), 1);
    assert_eq!(reading.counts.errors, 1);
}

#[test]
fn execute_has_the_text_that_prepare_has_named() {
    let found = statements(&[
        "LOG:  duration: 0.300 ms  statement: prepare p(int, text) as select $1, $2;",
        "LOG:  duration: 0.300 ms  statement: execute p(1, 'it''s')",
        "LOG:  duration: 0.300 ms  statement: EXECUTE q(1)",
        "DETAIL:  prepare: PREPARE q(int) AS select $1 + 1;",
        "LOG:  duration: 0.300 ms  statement: execute p(1 + 1, now()::text)",
        "LOG:  duration: 0.300 ms  statement: execute unknown(1)",
    ]);
    assert_eq!(
        found.texts()[1..],
        ["select $1, $2", "select $1 + 1", "execute p(1 + 1, now()::text)", "execute unknown(1)"]
    );
    assert_eq!(found.statements[1].parameters, [text("1"), text("it's")]);
    assert_eq!(found.statements[1].protocol, Protocol::Named("p".to_string()));
    assert_eq!(found.statements[3].protocol, Protocol::Simple);
}

#[test]
fn several_statements_of_one_message_are_parts_of_a_batch() {
    let (found, reading) = read(log(&["LOG:  duration: 2.000 ms  statement: begin; select ';'; commit;"]));
    assert_eq!(found.texts(), ["begin", "select ';'", "commit"]);
    let parts: Vec<BatchPart> = found.statements.iter().map(|one| one.batch).collect();
    assert_eq!(parts, [1, 2, 3].map(|number| BatchPart { number, of: 3 }));
    assert_eq!(found.statements[0].duration_us, Some(2000));
    assert_eq!((reading.timed, reading.batched, reading.counts.statements), (1, 2, 1));
}

#[test]
fn sessions_may_interleave() {
    let line = |pid: u32, message: &str| format!("2026-11-29 19:34:10.000 UTC [{pid}] shop@shop {message}\n");
    let log = [
        line(1, "LOG:  statement: select 1"),
        line(2, "LOG:  statement: select 2"),
        line(3, "LOG:  checkpoint starting: time"),
        line(2, "LOG:  duration: 2.000 ms"),
        line(1, "LOG:  duration: 1.000 ms"),
    ];
    let (found, _) = read(log.concat());
    let pushed: Vec<(u32, &str, Option<u64>)> =
        found.statements.iter().map(|one| (one.session, one.text.as_str(), one.duration_us)).collect();
    assert_eq!(pushed, [(0, "select 2", Some(2000)), (1, "select 1", Some(1000))]);
}

#[test]
fn a_process_that_was_silent_or_connects_again_is_another_session() {
    let line = |time: &str, message: &str| format!("2026-11-29 {time}.000 UTC [7] shop@shop {message}\n");
    let log = [
        line("10:00:00", "LOG:  duration: 1.000 ms  statement: select 1"),
        line("10:09:00", "LOG:  duration: 1.000 ms  statement: select 2"),
        line("10:20:00", "LOG:  duration: 1.000 ms  statement: select 3"),
        line("10:20:01", "LOG:  connection received: host=[local]"),
        line("10:20:01", "LOG:  connection authorized: user=shop database=shop application_name=psql"),
        line("10:20:02", "LOG:  duration: 1.000 ms  statement: select 4"),
        line("10:20:03", "LOG:  disconnection: session time: 0:00:02 user=shop database=shop host=[local]"),
    ];
    let (found, reading) = read(log.concat());
    let sessions: Vec<u32> = found.statements.iter().map(|one| one.session).collect();
    assert_eq!(sessions, [0, 0, 1, 2]);
    assert_eq!((reading.guessed_sessions, reading.counts.connections), (3, 3));
    let (_, last) = found.ended.iter().find(|(id, _)| *id == 2).unwrap();
    assert_eq!(last.ended_us.unwrap() - last.began_us.unwrap(), 2_000_000);
}

#[test]
fn what_a_log_lacks_is_said_with_the_setting() {
    let lacks = |text: &str| -> String {
        let (_, reading) = read(text);
        reading.lacks().iter().map(|lack| format!("{lack}\n")).collect()
    };
    let statement_alone = lacks(&log(&["LOG:  statement: select 1"]));
    assert!(
        statement_alone.contains("no durations: set log_min_duration_statement = 0; without them, mix"),
        "{statement_alone}"
    );
    assert!(
        statement_alone.contains("no virtual transaction ids: set log_line_prefix with %v"),
        "{statement_alone}"
    );
    let rds = lacks(
        "2020-03-11 20:40:43 CET:[local]:u@d:[7]:LOG:  duration: 0.1 ms  execute a: select $1\n2020-03-11 20:40:43 CET:[local]:u@d:[7]:LOG:  duration: 0.100 ms  execute a: select $1\n",
    );
    assert!(rds.contains("times in whole seconds: set log_line_prefix with %m instead of %t; a model can be made, but no trace"), "{rds}");
    assert!(
        rds.contains("1 of 1 statements with parameters have no values: set log_parameter_max_length"),
        "{rds}"
    );
    let options = ReadOptions { prefix: Some("%m ".to_string()), ..ReadOptions::default() };
    let line = "2020-03-11 20:40:43.123 CET LOG:  duration: 0.100 ms  statement: select 1\n";
    let (_, reading) = read_files(vec![file("a", line)], &options).unwrap();
    let without_process: String = reading.lacks().iter().map(|lack| format!("{lack}\n")).collect();
    assert!(without_process.contains("no session or process in any line"), "{without_process}");
}

#[test]
fn a_log_without_statements_is_an_error_that_names_the_setting() {
    let check = |messages: &[&str], expected: &str| {
        let error = read_files(vec![file("a", log(messages))], &ReadOptions::default()).unwrap_err();
        assert!(error.contains(expected), "{error}");
    };
    let without_times = vec![file("a", "LOG:  duration: 0.100 ms  statement: select 1\n".to_string())];
    let error = read_files(without_times, &ReadOptions::default()).unwrap_err();
    assert!(error.contains("no line of the log has a time"), "{error}");
    check(&["LOG:  checkpoint starting: time"], "set log_min_duration_statement = 0");
    check(&["LOG:  duration: 0.100 ms", "LOG:  duration: 0.100 ms"], "log_duration writes no texts");
    check(&["LOG:  AUDIT: SESSION,1,1,READ,SELECT,,,select 1,<none>"], "records of pgaudit");
}
