//! Messages in other languages, texts in other encodings, and clocks that go back.

use capture::log::SkipReason;

use crate::{read, try_read};

#[test]
fn another_language_is_an_error_that_names_the_setting() {
    let check = |log: &str| {
        let error = try_read(log).unwrap_err();
        assert!(
            error.starts_with("the messages are in another language than English: set lc_messages = 'C'"),
            "{error}"
        );
    };
    check("2026-11-29 19:34:10.000 UTC [7] a@b LOG:  Dauer: 0.056 ms  Anweisung: select 1\n");
    check("2026-11-29 19:34:10.000 UTC [7] a@b LOG:  durée : 0.056 ms, instruction : select 1\n");
    check(
        "2026-11-29 19:34:40.613 UTC,\"a\",\"b\",7,\"[local]\",6b0c7e50.7,3,\"SELECT\",2026-11-29 19:34:40 UTC,3/4,0,FEHLER,22012,\
         \"Division durch Null\",,,,,,\"select 1/0\",,,\"psql\"\n",
    );
}

#[test]
fn messages_in_two_languages_are_counted_apart() {
    let (found, reading) = read(
        "2026-11-29 19:34:10.000 UTC [7] a@b LOG:  duration: 0.056 ms  statement: select 1\n\
         2026-11-29 19:34:10.000 UTC [8] a@b LOG:  Dauer: 0.056 ms  Anweisung: select 1\n",
    );
    assert_eq!((found.statements.len(), reading.skipped(SkipReason::OtherLanguage)), (1, 1));
}

#[test]
fn other_encodings_are_read_as_latin_1() {
    let (found, reading) = read(
        b"2026-11-29 19:34:10.000 UTC [7] a@b LOG:  duration: 0.056 ms  statement: select 'caf\xe9'\n"
            .to_vec(),
    );
    assert_eq!(found.texts(), ["select 'café'"]);
    assert_eq!(reading.notes(), ["1 texts are not in UTF-8; they are read as Latin-1"]);
    let mut json = b"{\"timestamp\":\"2026-11-29 19:34:40.613 UTC\",\"pid\":7,\"error_severity\":\"LOG\",\"message\":\"statement: caf".to_vec();
    json.extend_from_slice(b"\xe9\"}\n");
    assert_eq!(read(json).0.texts(), ["café"]);
}

#[test]
fn a_clock_that_goes_back_is_noted() {
    let line = |second: u32| {
        format!("2026-11-29 19:34:{second}.000 UTC [7] a@b LOG:  duration: 0.056 ms  statement: select 1\n")
    };
    let (_, reading) = read([line(20), line(30), line(25), line(31)].concat());
    assert_eq!((reading.backward_steps, reading.backward_us_max), (1, 5_000_000));
    assert!(reading.notes()[0].starts_with("the clock goes back 1 times, by 5.0 s at most"));
    assert_eq!(reading.last_us.unwrap() - reading.first_us.unwrap(), 11_000_000);
}

#[test]
fn a_log_with_the_newest_lines_first_is_an_error() {
    let line = |second: u32| {
        format!("2026-11-29 19:34:{second}.000 UTC [7] a@b LOG:  duration: 0.056 ms  statement: select 1\n")
    };
    let error = try_read((10..40).rev().map(line).collect::<String>()).unwrap_err();
    assert!(
        error.contains("the newest lines of the log come first") && error.contains("`tac FILE`"),
        "{error}"
    );
}

#[test]
fn a_zone_that_is_not_known_is_noted() {
    let (_, reading) =
        read("2026-11-29 19:34:10.000 XYZT [7] a@b LOG:  duration: 0.056 ms  statement: select 1\n");
    assert_eq!(reading.notes(), ["1 times have a zone that is not known; they are taken as UTC"]);
}
