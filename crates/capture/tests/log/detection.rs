//! Formats found out, and messages about files that are something else.

use capture::log::{FormatName, ReadOptions};

use crate::{file, read, read_files, try_read};

fn error_with(options: &ReadOptions, log: &str) -> String {
    read_files(vec![file("server.csv", log)], options).expect_err("it is refused")
}

const STDERR: &str =
    "2026-11-29 19:34:10.000 UTC [7] shop@shop LOG:  duration: 0.056 ms  statement: select 1\n";

#[test]
fn a_prefix_that_fits_in_two_ways_is_an_error_that_shows_both() {
    let error = try_read("2026-11-29 19:34:10.000 UTC [7] shop LOG:  statement: select 1\n").unwrap_err();
    assert_eq!(
        error,
        "`a.log` can be read in several ways; give --prefix as SHOW log_line_prefix prints it. \
         The line `2026-11-29 19:34:10.000 UTC [7] shop LOG:  statement: select 1` would be:\n  \
         `%m [%p] %u `                process=7 user=shop\n  \
         `%m [%p] %d `                process=7 database=shop"
    );
}

#[test]
fn a_file_that_is_not_what_the_user_says_names_its_first_line_and_its_format() {
    let options = ReadOptions { format: Some(FormatName::Csv), ..ReadOptions::default() };
    assert_eq!(
        error_with(&options, STDERR),
        "`server.csv`, line 1 is no record of csvlog: `2026-11-29 19:34:10.000 UTC [7] shop@shop LOG:  duration: 0.056 ms  statement: select 1`; \
         it looks like stderr with the prefix `%m [%p] %q%u@%d `: leave the format to be found out"
    );
    // Without that, the name of a file does not matter.
    assert!(read_files(vec![file("server.csv", STDERR)], &ReadOptions::default()).is_ok());
}

#[test]
fn a_prefix_that_no_line_has_is_an_error_with_one_that_fits() {
    let options = ReadOptions { prefix: Some("%t %u ".to_string()), ..ReadOptions::default() };
    let error = error_with(&options, STDERR);
    assert!(
        error.starts_with("no line of `server.csv` begins with the prefix `%t %u `: line 1 is `2026"),
        "{error}"
    );
    assert!(error.ends_with("its lines fit `%m [%p] %q%u@%d `"), "{error}");
    let options = ReadOptions { prefix: Some("%m [%k] ".to_string()), ..ReadOptions::default() };
    assert!(error_with(&options, STDERR).contains("has %k, which PostgreSQL does not know"));
}

#[test]
fn a_log_whose_prefix_was_changed_when_statements_were_switched_on_is_read_from_there() {
    let old = "2026-11-29 19:00:00.000 UTC [3] LOG:  database system is ready to accept connections\n\
               2026-11-29 19:00:01.000 UTC [9] ERROR:  relation \"x\" does not exist at character 15\n\
               2026-11-29 19:00:01.000 UTC [9] STATEMENT:  select * from x\n\
               2026-11-29 19:34:00.000 UTC [3] LOG:  parameter \"log_min_duration_statement\" changed to \"0\"\n"
        .repeat(4);
    let new = |second: u32, virtual_id: u32| {
        format!(
            "2026-11-29 19:34:1{second}.000 UTC [7] 692b.7 4/{virtual_id} 0 -771 shop@shop LOG:  duration: 0.056 ms  statement: select 1\n"
        )
    };
    let log = old + &(1..5).map(|n| new(n, n)).collect::<String>();
    let (found, _) = read_files(vec![file("a", log)], &ReadOptions::default()).unwrap();
    assert_eq!(found.statements.len(), 4);
    assert_eq!(found.began[0].1.database.as_deref(), Some("shop"));
}

#[test]
fn a_prefix_of_the_user_is_taken_even_if_it_is_unusual() {
    let options = ReadOptions { prefix: Some("<%p> %d~%u %n: ".to_string()), ..ReadOptions::default() };
    let log = "<7> shop db~me 1795980880.613: LOG:  duration: 1.000 ms  statement: select 1\n";
    let (found, _) = read_files(vec![file("a", log)], &options).unwrap();
    assert_eq!(found.began[0].1.database.as_deref(), Some("shop db"));
    assert_eq!(found.statements[0].start_us, 1_795_980_880_612_000);
}

#[test]
fn strangers_are_named() {
    let check = |log: &str, expected: &str| {
        let error = try_read(log).unwrap_err();
        assert!(error.contains(expected), "{error}");
    };
    check(
        "2018-09-12 16:09:05.313 3394 LOG C-0x562376c014e0: a/b@127.0.0.1:43866 login attempt\n",
        "is a log of PgBouncer",
    );
    check("hello\nworld\n", "cannot find out the format of `a.log`");
    check("a\0b\n", "is no text");
    check("", "the log has 0 messages but no statement");
}

#[test]
fn lines_at_the_start_without_sessions_do_not_decide() {
    let start = "2026-11-29 19:34:10.000 UTC [1] LOG:  starting PostgreSQL 15.20\n".repeat(250);
    let (found, reading) = read([&start, STDERR].concat());
    assert_eq!(found.began[0].1.user.as_deref(), Some("shop"));
    assert_eq!(reading.files[0].format, "stderr with the prefix `%m [%p] %q%u@%d `");
}

#[test]
fn lines_without_prefix_belong_to_the_text_only_where_tabs_were_removed() {
    let (found, _) = read([STDERR, "from t\n"].concat());
    assert_eq!(found.texts(), ["select 1\nfrom t"]);
    let (found, _) = read([STDERR, "\tfrom t\n", "pg_ctl: junk\n"].concat());
    assert_eq!(found.texts(), ["select 1\nfrom t"]);
}
