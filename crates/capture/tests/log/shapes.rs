//! Small logs in the shapes of servers and services.

use capture::log::{LoggedValue, ReadOptions, SkipReason, TimeResolution, VirtualTransaction};

use crate::{file, read, read_files, text, try_read};

/// A log with one statement of user `shop` in database `shop`, as each service writes it.
#[track_caller]
fn check(log: &str, format: &str, resolution: TimeResolution) {
    let (collected, reading) = read(log);
    assert_eq!(collected.texts(), ["select 1,\n2"], "{format}");
    assert_eq!(reading.files[0].format, format);
    assert_eq!(reading.resolution, resolution, "{format}");
    let statement = &collected.statements[0];
    assert_eq!(statement.duration_us, Some(1500), "{format}");
    // 2026-11-29 19:34:40 UTC, and what there is of .613 s, less the duration.
    let start_us = statement.start_us + 1500 - 1_795_980_880_000_000;
    assert!([0, 613_000].contains(&start_us), "{format}: {start_us}");
    let (_, session) = &collected.began[0];
    let expected = (!format.contains("%t-%c-")).then_some("shop");
    assert_eq!((session.user.as_deref(), session.database.as_deref()), (expected, expected), "{format}");
}

#[test]
fn each_service_s_shape_is_read() {
    let whole = TimeResolution::Second;
    let fine = TimeResolution::Millisecond;
    check(
        "2026-11-29 19:34:40.613 UTC,\"shop\",\"shop\",7,\"[local]\",6b0c7e50.7,3,\"SELECT\",2026-11-29 19:34:40 UTC,3/4,0,LOG,00000,\
         \"duration: 1.500 ms  statement: select 1,\n2\",,,,,,,,,\"psql\",\"client backend\",,-5\n",
        "csvlog",
        fine,
    );
    check(
        "{\"timestamp\":\"2026-11-29 19:34:40.613 UTC\",\"user\":\"shop\",\"dbname\":\"shop\",\"pid\":7,\"session_id\":\"6b0c7e50.7\",\
         \"line_num\":3,\"vxid\":\"3/4\",\"txid\":0,\"error_severity\":\"LOG\",\
         \"message\":\"duration: 1.500 ms  statement: select 1,\\n2\",\"backend_type\":\"client backend\",\"query_id\":-5}\n",
        "jsonlog",
        fine,
    );
    check(
        "{\"level\":\"info\",\"ts\":1.5,\"logger\":\"setup\",\"msg\":\"starting\"}\n\
         {\"level\":\"info\",\"ts\":1.5,\"logger\":\"postgres\",\"msg\":\"record\",\"logging_pod\":\"p-1\",\"record\":{\
         \"log_time\":\"2026-11-29 19:34:40.613 UTC\",\"user_name\":\"shop\",\"database_name\":\"shop\",\"process_id\":\"7\",\
         \"session_id\":\"6b0c7e50.7\",\"virtual_transaction_id\":\"3/4\",\"error_severity\":\"LOG\",\"sql_state_code\":\"00000\",\
         \"message\":\"duration: 1.500 ms  statement: select 1,\\n2\",\"backend_type\":\"client backend\",\"query_id\":\"-5\"}}\n",
        "JSON of CloudNativePG",
        fine,
    );
    check(
        "{\"insertId\":\"x\",\"resource\":{\"labels\":{\"database_id\":\"p:db\"},\"type\":\"cloudsql_database\"},\
         \"textPayload\":\"[7]: [1-1] db=shop,user=shop LOG:  duration: 1.500 ms  statement: select 1,\\n\\t2\",\
         \"timestamp\":\"2026-11-29T19:34:40.613Z\"}\n",
        "JSON of Cloud Logging with the prefix `[%p]: [%l-1] db=%d,user=%u `",
        fine,
    );
    check(
        "{\"properties\":{\"timestamp\":\"x\",\"processId\":7,\"errorLevel\":\"LOG\",\"message\":\"2026-11-29 19:34:40.613 UTC [7] \
         [user=shop,db=shop,app=a b] LOG:  duration: 1.500 ms  statement: select 1,\\n\\t2\"},\
         \"time\":\"2026-11-29T19:34:41Z\",\"resourceId\":\"/X\",\"category\":\"PostgreSQLLogs\"}\n",
        "JSON of Azure Monitor with the prefix `%m [%p] %q[user=%u,db=%d,app=%a] `",
        fine,
    );
    check(
        "{\n  \"events\": [\n    {\n      \"logStreamName\": \"db\",\n      \"timestamp\": 1795980880613,\n      \"message\": \
         \"2026-11-29 19:34:40 UTC:10.0.0.1(48808):shop@shop:[7]:LOG:  duration: 1.500 ms  statement: select 1,\\n\\t2\"\n    }\n  ]\n}\n",
        "JSON of CloudWatch with the prefix `%t:%r:%u@%d:[%p]:`",
        whole,
    );
    check(
        "2026-11-29 19:34:40 UTC:10.0.0.1(48808):shop@shop:[7]:LOG:  duration: 1.500 ms  statement: select 1,\n\t2\n",
        "stderr with the prefix `%t:%r:%u@%d:[%p]:`",
        whole,
    );
    check(
        "2026-11-29 19:34:40 UTC-6b0c7e50.7-LOG:  duration: 1.500 ms  statement: select 1,\n\t2\n",
        "stderr with the prefix `%t-%c-`",
        whole,
    );
    check(
        "2026-11-29T20:34:40.613+01:00 db1 postgres[7]: [3-1] db=shop,user=shop LOG:  duration: 1.500 ms  statement: select 1,\n\
         2026-11-29T20:34:40.613+01:00 db1 sshd[9]: [1-1] accepted\n\
         2026-11-29T20:34:40.613+01:00 db1 postgres[7]: [3-2] #0112\n",
        "syslog with the prefix `db=%d,user=%u `",
        fine,
    );
    check(
        "2026-11-29 20:34:40.613 CET [7] shop@shop LOG:  duration: 1.500 ms  statement: select 1,\n\t2\n",
        "stderr with the prefix `%m [%p] %q%u@%d `",
        fine,
    );
}

#[test]
fn dates_of_syslog_get_the_year_before_the_newest_instant() {
    let log = "Nov 29 19:34:40 db1 postgres[7]: [3-1] user=shop,db=shop LOG:  duration: 1.500 ms  statement: select 1\n";
    let options = ReadOptions { newest_us: 1_795_980_890_000_000, ..ReadOptions::default() };
    let (collected, _) = read_files(vec![file("a", log)], &options).unwrap();
    assert_eq!(collected.statements[0].start_us, 1_795_980_880_000_000 - 1500);
}

#[test]
fn a_line_that_syslog_has_cut_is_put_together() {
    let line = |chunk: u32, text: &str| {
        format!(
            "Nov 29 19:34:40 db1 postgres[7]: [3-{chunk}] {text}\nNov 29 19:34:40 db1 postgres[8]: [3-1] user=a,db=a LOG:  x\n"
        )
    };
    let log = [
        line(1, "user=shop,db=shop LOG:  duration: 1.500 ms  statement: select 1,"),
        line(2, " 2,"),
        line(3, "#011 3"),
    ];
    let (collected, reading) = read(log.concat());
    assert_eq!(collected.texts(), ["select 1, 2,\n 3"]);
    assert_eq!(reading.skipped(SkipReason::OtherMessage), 3);
}

#[test]
fn compressed_files_and_several_formats_are_read_in_order() {
    let csv = "2026-11-29 19:34:40.613 UTC,\"shop\",\"shop\",7,\"[local]\",6b0c7e50.7,3,\"SELECT\",2026-11-29 19:34:40 UTC,3/4,0,LOG,00000,\
               \"duration: 1.500 ms  statement: begin\",,,,,,,,,\"psql\"\n";
    let stderr =
        "2026-11-29 19:34:41.613 UTC|shop|shop|6b0c7e50.7|LOG:  duration: 1.500 ms  statement: commit\n";
    let zipped = zstd::encode_all(csv.as_bytes(), 1).unwrap();
    let files = vec![file("a.csv.zst", zipped), file("empty", ""), file("b.log", stderr)];
    let (collected, reading) = read_files(files, &ReadOptions::default()).unwrap();
    assert_eq!(collected.texts(), ["begin", "commit"]);
    // Both know the session by the same id.
    assert_eq!((reading.sessions, reading.lines()), (1, 2));
}

#[test]
fn fields_of_csvlog_reach_the_statement() {
    let log = "2026-11-29 19:34:40.613 UTC,\"shop\",\"shop\",7,\"[local]\",6b0c7e50.7,3,\"BIND\",2026-11-29 19:34:40 UTC,3/4,77,LOG,00000,\
         \"duration: 0.250 ms  bind S_1: select $1\",\"Parameters: $1 = 'it''s ''q'''\",,,,,,,,\"app\",\"client backend\",,-5\n\
         2026-11-29 19:34:40.614 UTC,\"shop\",\"shop\",7,\"[local]\",6b0c7e50.7,4,\"SELECT\",2026-11-29 19:34:40 UTC,3/4,77,LOG,00000,\
         \"duration: 0.500 ms  execute S_1: select $1\",\"Parameters: $1 = 'it''s ''q''', $2 = NULL\",,,,,,,,\"app\",\"client backend\",,-5\n";
    let (collected, _) = read(log);
    let statement = &collected.statements[0];
    assert_eq!(statement.parameters, [text("it's 'q'"), LoggedValue::Null]);
    assert_eq!((statement.bind_us, statement.duration_us), (250, Some(500)));
    assert_eq!(statement.transaction, Some(VirtualTransaction { backend: 3, local: 4 }));
    assert_eq!((statement.xid, statement.query_id), (77, -5));
    assert_eq!(collected.began[0].1.application.as_deref(), Some("app"));
    assert_eq!(collected.began[0].1.began_us, Some(1_795_980_880_000_000));
}

#[test]
fn torn_records_are_counted_and_the_next_ones_read() {
    let record = |text: &str| {
        format!(
            "2026-11-29 19:34:40.613 UTC,\"shop\",\"shop\",7,\"[local]\",6b0c7e50.7,3,\"SELECT\",2026-11-29 19:34:40 UTC,3/4,0,LOG,00000,\
             \"duration: 1.500 ms  statement: {text}\",,,,,,,,,\"psql\"\n"
        )
    };
    let torn = "2026-11-29 19:34:40.613 UTC,\"shop\",\"shop\",7,\"[local]\",6b0c7e50.7,3,\"SEL\n";
    let log = [
        record("one").as_str(),
        torn,
        &record("two"),
        "junk\n",
        &record("three"),
        "\n",
        &record("four")[..50],
    ]
    .concat();
    let (collected, reading) = read(log);
    assert_eq!(collected.texts(), ["one", "two", "three"]);
    assert_eq!(reading.skipped(SkipReason::Torn), 2);
    assert_eq!(reading.skipped(SkipReason::NoRecord), 1);
    assert_eq!(reading.skipped(SkipReason::Empty), 1);
}

#[test]
fn two_servers_in_one_log_are_an_error() {
    let line = |host: &str| {
        format!("Nov 29 19:34:40 {host} postgres[7]: [3-1] user=a,db=b LOG:  statement: select 1\n")
    };
    let error = try_read([line("db1"), line("db2")].concat()).unwrap_err();
    assert_eq!(
        error,
        "`a.log`, line 2 is of the server `db2`, the lines before of `db1`: give the log of one server"
    );

    let line = |id: &str| format!("2026-11-29 19:34:40.613 UTC|a|b|{id}|LOG:  statement: select 1\n");
    let error = try_read([line("6b0c7e50.7"), line("6b0c7e60.7"), line("6b0c7e50.7")].concat()).unwrap_err();
    assert!(error.contains("line 3: a session of process 7 goes on after a later session"), "{error}");
}
