//! Announcements and questions before a server by URL is touched.

use std::io::Write;
use std::path::Path;
use std::process::Stdio;

use testbed::Pg;

use crate::tool::{PACE, Place};

/// One short run.
const BRIEF_RUN: &str = "run -c 1 --measure 2s --ramp-up 0s --repeats 1 --set prepare.settle=false";

/// Runs pgdyno on a terminal with this input; returns its exit code and its output.
fn on_terminal(place: &Place, args: &[&str], typed: &str) -> (Option<i32>, String) {
    let program = env!("CARGO_BIN_EXE_pgdyno");
    let quoted = args.iter().map(|arg| format!("'{arg}'")).collect::<Vec<_>>().join(" ");
    let line = format!("{program} {quoted}");
    let mut command = place.command_of(Path::new("script"), &["-qec", &line, "/dev/null"]);
    let mut child =
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    stdin.write_all(typed.as_bytes()).unwrap();
    // Closing the input would close the terminal.
    let output = child.wait_with_output().unwrap();
    drop(stdin);
    (output.status.code(), String::from_utf8_lossy(&output.stdout).into_owned())
}

#[test]
fn on_a_terminal_pgdyno_asks_before_it_uses_a_database_with_other_contents() {
    let (place, pg) = (Place::new(), Pg::shared());
    let database = pg.database();
    let server = pg.admin_target(&database);
    pg.admin(&database)
        .execute("create table diary (t text); create function f() returns int language sql as 'select 1'")
        .unwrap();
    let with = |more: &[&'static str]| -> Vec<String> {
        BRIEF_RUN
            .split_whitespace()
            .chain([PACE, "-s", "1", "--server", &server])
            .chain(more.iter().copied())
            .map(str::to_string)
            .collect()
    };
    let on_terminal = |more: &[&'static str], typed: &str| {
        let args = with(more);
        on_terminal(&place, &args.iter().map(String::as_str).collect::<Vec<_>>(), typed)
    };
    let is_loaded = || pg.ask(&database, "select to_regclass('pgbench_accounts') is not null");
    let line = format!("loads 4 tables into schema public of database {database} on ");
    let question = "the database also holds table public.diary, function public.f(); go on? [y/N]";

    for no in ["n\n", "\n"] {
        let (code, shown) = on_terminal(&["-o", "no"], no);
        assert_eq!(code, Some(1), "{shown}");
        assert!(
            shown.contains(&line) && shown.contains(question) && shown.contains("not started"),
            "{shown}"
        );
        assert!(!place.path("no").exists());
        assert_eq!(is_loaded(), "f");
    }
    let (code, shown) = on_terminal(&["-o", "asked"], "y\n");
    assert_eq!(code, Some(0), "{shown}");
    assert_eq!(is_loaded(), "t");
    // There is no question if consent was given before, or nobody can answer.
    let (code, shown) = on_terminal(&["-o", "yes", "--yes"], "");
    assert_eq!((code, shown.contains("go on?")), (Some(0), false), "{shown}");
    let args = with(&["-o", "piped"]);
    let ended = place.run(&args.iter().map(String::as_str).collect::<Vec<_>>()).expect(0);
    assert!(ended.stderr.contains(&line) && !ended.stderr.contains("go on?"), "{}", ended.stderr);
    let ended = place.run(&["init", "-s", "1", "--server", &server]).expect(0);
    assert!(ended.stderr.contains(&line), "{}", ended.stderr);
    place.expect_clean();
}

#[test]
fn a_command_that_changes_nothing_says_so_and_does_not_ask() {
    let (place, pg) = (Place::new(), Pg::shared());
    let database = pg.database();
    let server = pg.admin_target(&database);
    pg.admin(&database).execute("create table diary (t text)").unwrap();
    place.write("one.sql", "select 1;\n");
    let args = BRIEF_RUN.split_whitespace().chain([PACE, "-f", "one.sql", "--server", &server, "-o", "out"]);
    let (code, shown) = on_terminal(&place, &args.collect::<Vec<_>>(), "");
    assert_eq!(code, Some(0), "{shown}");
    assert!(
        shown.contains("as it is: nothing is loaded or restored") && !shown.contains("go on?"),
        "{shown}"
    );
    place.expect_clean();
}
