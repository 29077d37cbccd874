//! Which binaries a version means: those that are installed, else fetched ones, and both sides of a comparison the same kind.

use std::fs;
use std::process::Command;

use model::experiment::case::ServerSource;
use model::experiment::plan::Plan;
use testbed::{Pg, bin_dir};

use crate::harm::expect_made;
use crate::tool::{Ended, PACE, Place};

/// What Place says, so that tests have the same servers everywhere.
const CHOICE: &str = "PGDYNO_SERVER_BUILD";
const SHORT: [&str; 9] = ["--scale", "1", "--measure", "2s", "--ramp-up", "0s", "--repeats", "1", PACE];

/// Runs pgdyno as a user does, who has not said which builds are meant, and without a network.
fn run(place: &Place, args: &[&str]) -> Ended {
    let mut command = place.command(args);
    command.env_remove(CHOICE);
    for name in ["HTTPS_PROXY", "HTTP_PROXY", "ALL_PROXY", "https_proxy", "http_proxy", "all_proxy"] {
        command.env(name, "http://127.0.0.1:9");
    }
    place.start(command).wait()
}

/// The series of the newest installed server.
fn installed() -> String {
    let said = testbed::run(Command::new(bin_dir().join("postgres")).arg("--version"));
    let number = said.trim().trim_start_matches("postgres (PostgreSQL) ");
    number.split(['.', ' ']).next().unwrap().to_string()
}

#[test]
fn an_installed_server_is_measured_where_none_is_asked_for() {
    let place = Place::new();
    let ended = expect_made(run(&place, &[&["run", "-c", "1", "-o", "out"], &SHORT[..]].concat()));
    let data = place.results("out");
    let source = ServerSource::Installed(installed().parse().unwrap());
    assert_eq!(data.plan.cases[0].server.source, source);
    let server = data.runs[0].record.server.as_ref().unwrap();
    assert_eq!((server.version_num / 10_000).to_string(), installed());
    assert!(!ended.stdout.contains("fetched"), "{}", ended.stdout);
    let checked = run(&place, &["check", "--version", &installed()]).expect(0);
    assert!(checked.stdout.contains("ok"), "{}", checked.stdout);
    place.expect_clean();
}

#[test]
fn a_fetched_build_is_named_on_the_line_with_the_server() {
    let place = Place::with_binaries(&["12"]);
    let args = [&["run", "--version", "12", "-c", "1", "-o", "out"], &SHORT[..]].concat();
    let ended = expect_made(run(&place, &args));
    assert!(ended.stdout.contains("PostgreSQL 12.22 (fetched build, -Os)"), "{}", ended.stdout);
    for name in ["report.html", "report.md"] {
        let text = fs::read_to_string(place.path("out").join(name)).unwrap();
        assert!(text.contains("(fetched build, -Os)"), "{name}");
    }
    place.expect_clean();
}

#[test]
fn all_versions_of_an_experiment_are_builds_of_one_kind() {
    let place = Place::with_binaries(&["12"]);
    let here = installed();
    let sources = |options: &[&str]| -> Vec<ServerSource> {
        let ended = run(&place, &[&["plan", "--json", "-c", "1"], options].concat()).expect(0);
        let plan: Plan = serde_json::from_str(&ended.stdout).unwrap();
        plan.cases.into_iter().map(|case| case.server.source).collect()
    };
    let of = |version: &str| version.parse().unwrap();
    assert_eq!(sources(&["--version", &here]), [ServerSource::Installed(of(&here))]);
    assert_eq!(
        sources(&["--version", &format!("{here},12")]),
        [ServerSource::Version(of(&here)), ServerSource::Version(of("12"))],
        "only one of them is installed"
    );
    let said = run(&place, &["plan", "-c", "1", "--version", &format!("{here},12")]).expect(0).stdout;
    let words = format!("note    {here}: fetched although {here}.");
    assert!(
        said.contains(&words) && said.contains("because 12 is not: all get builds of one kind"),
        "{said}"
    );
    assert_eq!(
        sources(&["--version", &here, "--set", "server.build=fetched"]),
        [ServerSource::Version(of(&here))]
    );
    let refused = |options: &[&str], expected: &str| {
        let ended = run(&place, &[&["plan", "-c", "1"], options].concat()).expect(1);
        assert!(ended.stderr.contains(expected), "{}", ended.stderr);
    };
    refused(
        &["--version", "12", "--set", "server.build=installed"],
        "PostgreSQL 12 is not installed here (found ",
    );
    let dir = bin_dir().display().to_string();
    refused(&["--bin-dir", &dir, "--set", "server.build=fetched"], "server.bin_dir names the server itself");
    refused(&["--set", "server.build=own"], "`own`");
    place.expect_clean();
}

#[test]
fn a_method_that_fetched_builds_lack_is_refused_with_who_has_it() {
    let place = Place::with_binaries(&["16"]);
    let options = ["--version", "16", "--set", "server.settings.wal_compression=lz4", "-c", "1"];
    let ended = run(&place, &[&["plan"], &options[..]].concat());
    assert_ne!(ended.code(), Some(0));
    for part in [
        "Fetched builds are made without lz4",
        "postgresql-16",
        &format!("server.version = \"{}\"", installed()),
    ] {
        assert!(ended.stdout.contains(part) || ended.stderr.contains(part), "{part}\n{ended:?}");
    }
    let options = ["--version", &installed(), "--set", "server.settings.wal_compression=lz4", "-c", "1"];
    run(&place, &[&["plan"], &options[..]].concat()).expect(0);
}

#[test]
fn an_archive_gets_into_a_fetched_server_by_installed_programs() {
    let (pg, place) = (Pg::start(), Place::with_binaries(&["12", "18"]));
    let database = pg.database_of("postgres");
    pg.execute(&database, "create table items (id int primary key, n int); insert into items select i, 0 from generate_series(1, 100) i");
    let there = pg.path("items.dump");
    testbed::run(pg.client("pg_dump", &database).arg("-Fc").arg("--file").arg(&there));
    fs::copy(&there, place.path("items.dump")).unwrap();
    testbed::run(Command::new("chmod").arg("a+r").arg(place.path("items.dump")));
    place.write("add.sql", "update items set n = n + 1 where id = 1;\n");
    place.write(
        "items.toml",
        "[experiment]\nname = \"items\"\nrepeats = 1\n[workload]\nkind = \"scripts\"\nscripts = [\"add.sql\"]\n\
         restore_from = \"items.dump\"\nclients = 1\n[run]\nramp_up = \"0s\"\nmeasure = \"2s\"\n[prepare]\nsettle = false\n",
    );
    let args = ["run", "items.toml", "--version", "12", "-o", "out", PACE, "--allow-archive-as-superuser"];
    expect_made(run(&place, &args));
    assert!(place.first_run("out").record.done.unwrap().counts.committed > 0);
    // Older programs do, too: releases are compared on the same data.
    let args = ["run", "items.toml", "--version", "18", "-o", "newer", PACE, "--allow-archive-as-superuser"];
    expect_made(run(&place, &args));
    assert!(place.first_run("newer").record.done.unwrap().counts.committed > 0);
    expect_too_new(&place);
    place.expect_clean();
}

/// The plan refuses an archive whose pg_dump is newer than each pg_restore of this machine: the same archive, with a later release in it.
fn expect_too_new(place: &Place) {
    let here = installed();
    // From 17 on, programs read what the newest release writes.
    if here.parse::<u32>().unwrap() >= 17 {
        return;
    }
    let bytes = fs::read(place.path("items.dump")).unwrap();
    let (head, rest) = bytes.split_at(300);
    let before = format!("{here}.");
    let after = head.windows(before.len()).enumerate().filter(|(_, at)| *at == before.as_bytes());
    let mut changed = head.to_vec();
    for (at, _) in after {
        changed[at..at + 2].copy_from_slice(b"18");
    }
    fs::write(place.path("items.dump"), [&changed[..], rest].concat()).unwrap();
    let args = ["plan", "items.toml", "--version", "18", "--allow-archive-as-superuser"];
    let refused = run(place, &args).expect(1).stdout;
    let words = ["pg_dump 18.", "no `pg_restore` on this machine is new enough", "postgresql-client-18"];
    assert!(words.iter().all(|word| refused.contains(word)), "{refused}");
}
