//! `pgdyno doctor` on a real server, as superuser and as a role without rights: what it finds, its exit codes, that nothing
//! stays on the server; and values of the operating system that it sets and restores.

use std::path::Path;
use std::process::Command;

use serde_json::Value;
use testbed::{PASSWORD, Pg, run};

use crate::os;
use crate::tool::{Ended, PACE, Place};

fn json(ended: &Ended) -> Value {
    serde_json::from_str(&ended.stdout).unwrap_or_else(|error| panic!("{error}: {ended:?}"))
}

/// The row or sight with this identifier.
fn of<'a>(all: &'a Value, part: &str, id: &str) -> &'a Value {
    let found = all[part].as_array().unwrap().iter().find(|one| one["id"] == id);
    found.unwrap_or_else(|| panic!("{part} have no {id}"))
}

fn lacks(all: &Value) -> Vec<&str> {
    let sights = all["sights"].as_array().unwrap().iter();
    sights.filter(|sight| sight["has"] == false).map(|sight| sight["id"].as_str().unwrap()).collect()
}

#[test]
fn a_server_is_judged_for_each_role_and_nothing_stays_on_it() {
    let place = Place::new();
    let pg = Pg::shared();
    let database = pg.database_of("postgres");
    let dump = || {
        let text = run(pg.client("pg_dump", &database).arg("--create"));
        text.lines().filter(|line| !line.starts_with('\\')).collect::<Vec<_>>().join("\n")
    };
    let before = dump();

    let found = json(&place.run(&["doctor", &pg.admin_target(&database), "--json"]).expect(0));
    assert_eq!((&found["host"]["of"], &found["worst"]), (&"server".into(), &"doubt".into()));
    let fsync = of(&found, "rows", "fsync");
    assert_eq!((&fsync["verdict"], &fsync["found"]), (&"doubt".into(), &"off".into()));
    assert_eq!(fsync["findings"], serde_json::json!(["not-durable"]));
    assert_eq!(of(&found, "rows", "shared-buffers")["verdict"], "advice");
    assert_eq!(of(&found, "rows", "writable")["verdict"], "fine");
    for id in ["superuser", "create-tables", "create-databases", "all-stats", "checkpoint"] {
        assert!(!lacks(&found).contains(&id), "{id}: {found}");
    }
    assert_eq!(of(&found, "rows", "disk-space")["scope"], "data", "the data directory was found");

    // As a role without rights, by a URL with a password that nobody may see.
    let url = format!("postgres://bench:{PASSWORD}@127.0.0.1:{}/{database}", pg.port);
    let poor = place.run(&["doctor", &url, "--json"]).expect(0);
    assert!(!format!("{}{}", poor.stdout, poor.stderr).contains(PASSWORD), "{poor:?}");
    let poor = json(&poor);
    let lacking = lacks(&poor);
    for id in ["superuser", "create-tables", "create-databases", "io-timing"] {
        assert!(lacking.contains(&id), "{id}: {lacking:?}");
    }
    assert_eq!(of(&poor, "rows", "build")["found"], "this role cannot read pg_config");
    let fix = |id: &str, part: &str| of(&poor, part, id)["fix"].as_str().unwrap().to_string();
    for (id, part) in [("jit", "rows"), ("autovacuum-naptime", "rows")] {
        assert!(fix(id, part).starts_with("as a superuser: alter system set "), "{}", fix(id, part));
    }
    assert!(fix("all-stats", "sights").starts_with("grant pg_monitor to bench, as a superuser"));
    assert!(fix("create-tables", "sights").starts_with("grant usage, create on schema public to bench, "));
    let methods = pg.ask(
        "postgres",
        "select coalesce('lz4' = any (enumvals), false) from pg_settings where name = 'wal_compression'",
    );
    assert_eq!(
        fix("wal-compression", "rows").contains("wal_compression = 'lz4'"),
        methods == "t",
        "also for this role"
    );
    assert!(dump() == before, "doctor changed the database");

    let text = place.run(&["doctor", "--strict", "--server", &url]).expect(3);
    let head = text.stdout.find("doubt: what is measured like this is doubtful").unwrap();
    assert!(text.stdout.find("advice: ").is_some_and(|at| at > head), "{}", text.stdout);
    assert!(text.stdout.contains("rows are as they should be; --verbose shows them"), "{}", text.stdout);
    let wide: Vec<&str> = text.stdout.lines().filter(|line| line.chars().count() > 80).collect();
    assert!(wide.iter().all(|line| !line.trim().contains(' ')), "{wide:?}");

    let refused = place.run(&["doctor", "host=127.0.0.1 port=1 user=u dbname=d"]).expect(1);
    assert!(refused.stderr.contains("pgdyno: error: ") && refused.stdout.is_empty(), "{refused:?}");
    let refused = place.run(&["doctor", "--host", "ssh:h"]).expect(1);
    assert!(refused.stderr.contains("name that server too"), "{}", refused.stderr);
    let refused = place.run(&["doctor", "--apply=fsync"]).expect(1);
    assert!(refused.stderr.contains("pgdyno sets nothing for such a row"), "{}", refused.stderr);
    place.expect_clean();
}

#[test]
fn a_fix_has_the_names_of_role_and_database_and_can_be_executed_as_it_is() {
    let (place, pg) = (Place::new(), Pg::shared());
    let (database, quoted) = ("Shop of ROLE", "\"Shop of ROLE\"");
    pg.execute("postgres", &format!("create database {quoted}"));
    let url = format!("host={} port={} user=postgres dbname='{database}'", pg.dir().display(), pg.port);
    pg.execute(database, &format!("alter role postgres in database {quoted} set jit = on"));
    let jit = || {
        let found = json(&place.run(&["doctor", &url, "--json"]).expect(0));
        of(&found, "rows", "jit").clone()
    };
    let found = jit();
    let fix = found["fix"].as_str().unwrap();
    assert_eq!(
        fix,
        format!("alter role postgres in database {quoted} set jit = off; new sessions have it"),
        "{found}"
    );
    pg.execute(database, fix.split(';').next().unwrap());
    assert_eq!(jit()["verdict"], "fine");
    pg.execute("postgres", &format!("drop database {quoted}"));
    place.expect_clean();
}

#[test]
fn advice_for_a_standby_is_what_it_takes() {
    let (place, pg) = (Place::new(), Pg::start());
    let database = pg.database();
    let target = pg.admin_target(&database);
    place.run(&["init", "-s", "1", "--server", &target]).expect(0);
    pg.make_standby();
    let found = json(&place.run(&["doctor", &target, "--json"]).expect(3));
    let fix = |part: &str, id: &str| of(&found, part, id)["fix"].as_str().unwrap().to_string();
    // What writes a catalog is for the primary, and ALTER SYSTEM, which writes a file of the standby, is not.
    let mut session = pg.admin(&database);
    assert!(session.execute("create extension pg_prewarm").is_err());
    assert!(
        fix("sights", "prewarm").starts_with("on the primary: create extension"),
        "{}",
        fix("sights", "prewarm")
    );
    assert!(fix("sights", "create-tables").starts_with("name the primary"));
    assert_eq!(of(&found, "rows", "autovacuum-naptime")["verdict"], "fine", "a standby does not vacuum");
    let jit = fix("rows", "jit");
    for statement in jit.split_inclusive(';') {
        session.execute(statement).unwrap_or_else(|error| panic!("{statement}: {error}"));
    }
    // The options that doctor and the refusal name are enough to measure it.
    let writable = fix("rows", "writable");
    let (_, options) = writable.split_once("existing data: ").unwrap();
    let run = "run -s 1 -c 1 --measure 2s --ramp-up 0s --repeats 1 --yes -o out --server";
    let bare: Vec<&str> =
        run.split_whitespace().chain([target.as_str(), PACE, "-w", "tpcb-select"]).collect();
    let refused = place.run(&bare).expect(1).stderr;
    let (_, wanted) = options.split_once("--no-restore").unwrap();
    assert!(refused.contains(&format!("measure it here with --no-restore{wanted}")), "{refused}");
    let args: Vec<&str> =
        run.split_whitespace().chain([target.as_str(), PACE]).chain(options.split_whitespace()).collect();
    place.run(&args).expect(0);
    place.expect_clean();
}

/// Length of the queue of connections, which belongs to a network namespace: the machine's stays as it is.
const SOMAXCONN: &str = "/proc/sys/net/core/somaxconn";

#[test]
fn a_value_that_is_applied_stays_until_it_is_undone() {
    let Some(_values) = os::may_set() else { return };
    let place = Place::new();
    let journal = place.path("journal");
    let unfinished = place.path("cache/postgres/.unpack-left");
    for dir in [&journal, Path::new("/run/pgdyno"), &unfinished] {
        std::fs::create_dir_all(dir).unwrap();
    }
    let pgdyno = place.command(&[]).get_program().to_str().unwrap().to_string();
    let script = format!(
        "set -e; mount --bind {journal} /run/pgdyno; echo 512 > {SOMAXCONN}; \
         {pgdyno} doctor --apply=somaxconn --json > first; cat {SOMAXCONN}; \
         {pgdyno} doctor --apply=somaxconn > second; cat {SOMAXCONN}; \
         {pgdyno} doctor --undo; cat {SOMAXCONN}; {pgdyno} doctor --undo; \
         {pgdyno} doctor --apply=somaxconn > third; flock /run/pgdyno/os.lock {pgdyno} clean || echo left; \
         {pgdyno} clean; cat {SOMAXCONN}",
        journal = journal.display()
    );
    let command: Command =
        place.command_of(Path::new("/usr/bin/unshare"), &["--mount", "--net", "sh", "-c", &script]);
    let ended = place.start(command).wait().expect(0);
    assert_eq!(ended.stdout, "4096\n4096\n512\nleft\n512\n", "{}", ended.stderr);
    let first: Value = serde_json::from_str(&std::fs::read_to_string(place.path("first")).unwrap()).unwrap();
    assert_eq!(first["applied"][0]["before"], "512");
    assert_eq!(of(&first, "rows", "somaxconn")["verdict"], "fine");
    for words in [
        "no row of this machine asks for a value that pgdyno can set",
        "put back `/proc/sys/net/core/somaxconn` to 512",
        "no value of this machine was set by pgdyno doctor --apply",
        "not put back: what pgdyno doctor --apply has set: another pgdyno (process ",
        "/.unpack-left`, which was not completely unpacked",
    ] {
        assert!(ended.stderr.contains(words), "{words}: {}", ended.stderr);
    }
    let (rest, restored) = (ended.stderr.find(".unpack-left"), ended.stderr.rfind("put back `"));
    assert!(rest < restored, "clean went on after what it had to leave: {}", ended.stderr);
    assert!(!journal.join("os-kept.jsonl").exists());
    place.expect_clean();
}
