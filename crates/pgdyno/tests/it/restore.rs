//! How data on a server by URL is restored before each run, and the proof that it was.

use std::collections::BTreeMap;

use model::run::phase::Phase;
use nix::sys::signal::Signal;
use testbed::{PASSWORD, Pg};

use crate::tool::{Ended, PACE, Place, expect_found, wait_until};

/// Names of templates and copies.
const OURS: &str =
    r"select coalesce(string_agg(datname, ' '), '') from pg_database where datname like 'pgdyno\_%'";

/// Three short runs on data of scale 1.
fn command(place: &Place, server: &str, measure: &str, more: &[&str]) -> std::process::Command {
    let args =
        "run -c 2 --ramp-up 0s --repeats 3 --scale 1 --set prepare.settle=false --set prepare.checksums=true";
    let mut args: Vec<&str> = args.split_whitespace().collect();
    args.extend(["--measure", measure, PACE, "--server", server]);
    args.extend(more);
    let mut command = place.command(&args);
    command.env("PGPASSWORD", PASSWORD);
    command
}

fn run(place: &Place, server: &str, more: &[&str]) -> Ended {
    place.start(command(place, server, "2s", more)).wait()
}

/// The facts of each restore, after a look at the fingerprints.
fn restores(place: &Place, out: &str) -> Vec<BTreeMap<String, String>> {
    let data = store::load_experiment(&place.path(out)).unwrap();
    let prints: Vec<_> = data.runs.iter().map(|run| run.record.fingerprint.clone().unwrap()).collect();
    assert_eq!(prints.len(), 3);
    for print in &prints {
        assert!(print.checksums["pgbench_accounts"].starts_with("100000:"), "{print:?}");
        assert!(print.relations["pgbench_accounts_pkey"].bytes > 1 << 20, "{print:?}");
        assert_eq!(print.contents_differ(&prints[0]), None);
        assert_eq!(print.sizes_differ(&prints[0]), None);
    }
    data.runs.iter().map(|run| run.record.phase(Phase::Restore).unwrap().detail.clone()).collect()
}

/// The same for a database that may be replaced by a copy.
fn run_by_copies(place: &Place, server: &str, database: &str, more: &[&str]) -> Ended {
    run(place, server, &[&["--replace-database", database], more].concat())
}

#[test]
fn the_database_is_copied_from_a_template_that_is_gone_afterwards() {
    let (place, pg) = (Place::new(), Pg::start());
    let database = pg.database();
    let server = format!("host=127.0.0.1 port={} user=bench dbname={database}", pg.port);
    pg.admin("postgres").execute("alter role bench createdb").unwrap();

    let allowed = ["--replace-database", &database];
    let killed = place.start(command(&place, &server, "20s", &[&allowed[..], &["-o", "killed"]].concat()));
    let has_rows = "select count(*) > 0 from pgbench_history";
    wait_until("a template", || !pg.ask("postgres", OURS).is_empty());
    wait_until("the load", || {
        // While the database is replaced nobody may be in it.
        std::thread::sleep(std::time::Duration::from_secs(2));
        pg.ask(&database, has_rows) == "t"
    });
    killed.signal(Signal::SIGKILL);
    killed.wait();
    let left = pg.ask("postgres", OURS);
    assert_ne!(left, "", "nobody was there to drop it");

    let ended = run_by_copies(&place, &server, &database, &["-o", "out"]).expect(0);
    let line = format!(
        "loads 4 tables into schema public of database {database} on 127.0.0.1:{} (public.pgbench_accounts, \
         public.pgbench_branches, public.pgbench_history, public.pgbench_tellers); the whole database is replaced by a copy of \
         itself before each run",
        pg.port
    );
    assert!(ended.stderr.contains(&line), "{}", ended.stderr);
    for (n, detail) in restores(&place, "out").iter().enumerate() {
        assert!(detail["seconds"].parse::<f64>().unwrap() < 60.0, "{detail:?}");
        assert!(
            detail["method"].ends_with("create database from a template, strategy file_copy"),
            "{detail:?}"
        );
        assert_eq!(detail.contains_key("load_seconds"), n == 0, "loaded once: {detail:?}");
    }
    assert_eq!(pg.ask("postgres", OURS), "", "no template is left, not even that of the one that was killed");
    assert_eq!(pg.ask(&database, has_rows), "t", "what the last run did is there to be seen");
    let owner = format!("select pg_get_userbyid(datdba) from pg_database where datname = '{database}'");
    assert_eq!(pg.ask("postgres", &owner), "bench");
    place.expect_clean();
}

#[test]
fn objects_that_another_session_creates_between_two_runs_are_kept_and_the_report_says_so() {
    let (place, pg) = (Place::new(), Pg::shared());
    let database = pg.database();
    let server = pg.admin_target(&database);
    let runs = place.start(command(&place, &server, "4s", &["--replace-database", &database, "-o", "out"]));
    wait_for_load(&place, 1);
    pg.admin(&database)
        .execute(
            "create table diary (t text); insert into diary values ('dear'); create sequence numbers; \
             create view seen as select 1 as a; create function f() returns int language sql as 'select 1'; \
             create schema app; select lo_from_bytea(77, 'x')",
        )
        .unwrap();
    let ended = runs.wait().expect(0);
    let is_there = "select (select t from diary) || to_regclass('numbers') || to_regclass('seen') || to_regproc('f') \
                    || to_regnamespace('app') || convert_from(lo_get(77), 'utf8')";
    assert_eq!(pg.ask(&database, is_there), "dearnumbersseenfappx", "{}", ended.stderr);
    let details = restores(&place, "out");
    let methods: Vec<&str> = details.iter().map(|detail| detail["method"].as_str()).collect();
    assert!(methods[0].ends_with("strategy file_copy"), "{methods:?}");
    for detail in &details[1..] {
        assert!(detail["method"].starts_with("loaded again, "), "{detail:?}");
        let why = format!("database `{database}` has changed since pgdyno loaded it: ");
        assert!(detail["no_template"].starts_with(&why), "{detail:?}");
    }
    assert!(details[1]["database_changed"].contains("public."), "{details:?}");
    assert_eq!(details[2].get("database_changed"), None, "it is reported once");
    let report = std::fs::read_to_string(place.path("out/report.md")).unwrap();
    assert!(report.contains("Somebody else changed the database between runs"), "{report}");
    expect_found(&place, "out", &["database-changed"]);
    assert_eq!(pg.ask("postgres", &of(OURS, &database)), "");
    place.expect_clean();
}

/// Names of the templates of one database: other tests use the server at the same time.
fn of(ours: &str, database: &str) -> String {
    format!("{ours} and shobj_description(oid, 'pg_database') like '%\"{database}\"%'")
}

/// Waits for the first second of a run's load.
fn wait_for_load(place: &Place, run: u32) {
    let intervals = place.path(&format!("out/runs/{run:04}/intervals.jsonl"));
    wait_until("the run's load", || intervals.metadata().is_ok_and(|file| file.len() > 0));
}

#[test]
fn a_database_that_pgdyno_did_not_make_is_replaced_only_if_it_is_named() {
    let (place, pg) = (Place::new(), Pg::shared());
    let database = pg.database();
    let server = pg.admin_target(&database);
    let oid = format!("select oid from pg_database where datname = '{database}'");
    let before = pg.ask("postgres", &oid);
    let ended = run(&place, &server, &["-o", "out"]).expect(0);
    assert!(ended.stderr.contains(", replaced before each run"), "{}", ended.stderr);
    for detail in restores(&place, "out") {
        assert!(detail["method"].starts_with("loaded again, "), "{detail:?}");
        assert!(detail["no_template"].contains(&format!("--replace-database {database}")), "{detail:?}");
    }
    assert_eq!(pg.ask("postgres", &oid), before, "it is the same database");
    let template = ["--set", "prepare.restore_by=template"];
    let refused = run(&place, &server, &[&template[..], &["-o", "refused"]].concat()).expect(1);
    assert!(refused.stderr.contains(&format!("--replace-database {database}")), "{}", refused.stderr);
    assert!(!place.path("refused").exists());
    let plan = ["plan", "--server", &server, "-s", "1"];
    let planned = place.run(&[&plan[..], &template].concat()).expect(1);
    assert!(planned.stdout.contains(&format!("--replace-database {database}")), "{}", planned.stdout);
    let named = ["--replace-database", &database];
    place.run(&[&plan[..], &template, &named].concat()).expect(0);
    let other = run(&place, &server, &["--replace-database", "other", "-o", "refused"]).expect(1);
    assert!(
        other.stderr.contains("no server by URL in this experiment uses this database"),
        "{}",
        other.stderr
    );
    place.expect_clean();
}

#[test]
fn a_database_that_pgdyno_made_is_replaced_by_copies_from_one_experiment_to_the_next() {
    let (place, pg) = (Place::new(), Pg::shared());
    let server = pg.admin_target("made_by_pgdyno");
    let init =
        |code: i32| place.run(&["init", "--create-database", "--server", &server, "-s", "1"]).expect(code);
    assert!(init(0).stderr.contains("created database `made_by_pgdyno`"));
    assert!(init(0).stderr.contains("exists; pgdyno created it"));
    for out in ["out", "again"] {
        run(&place, &server, &["-o", out]).expect(0);
        for detail in restores(&place, out) {
            assert!(detail["method"].ends_with("strategy file_copy"), "{detail:?}");
        }
    }
    let theirs = pg.admin_target(&pg.database());
    let refused = place.run(&["init", "--create-database", "--server", &theirs, "-s", "1"]).expect(1);
    assert!(refused.stderr.contains("pgdyno did not create it"), "{}", refused.stderr);
    place.expect_clean();
}

#[test]
fn where_a_copy_would_lose_something_data_is_loaded_again_and_the_reason_reported() {
    let pg = Pg::shared();
    for (make, expected) in [
        ("create table diary (t text)", "also holds table public.diary"),
        ("create sequence numbers", "also holds sequence public.numbers"),
        ("alter database DB set work_mem = '8MB'", "settings of the database would be lost"),
        ("grant connect on database DB to bench", "privileges on the database would be lost"),
    ] {
        let (place, database) = (Place::new(), pg.database());
        let server = pg.admin_target(&database);
        pg.admin(&database).execute(&make.replace("DB", &database)).unwrap();
        // Contents and properties of the database are looked at by two functions, which also refuse below.
        if ["create table", "alter database"].iter().any(|kind| make.starts_with(kind)) {
            run_by_copies(&place, &server, &database, &["-o", "out"]).expect(0);
            for detail in restores(&place, "out") {
                assert!(detail["method"].starts_with("loaded again, "), "{detail:?}");
                assert!(detail["no_template"].contains(expected), "{detail:?}");
            }
        }
        let template = ["--set", "prepare.restore_by=template", "-o", "asked"];
        let asked = run_by_copies(&place, &server, &database, &template).expect(1);
        assert!(asked.stderr.contains(expected), "{}", asked.stderr);
        place.expect_clean();
    }
}

#[test]
fn where_only_the_next_template_fails_the_run_has_its_data_and_the_next_one_loads() {
    let (place, pg) = (Place::new(), Pg::shared());
    let database = pg.database();
    let server = pg.admin_target(&database);
    let runs = place.start(command(&place, &server, "4s", &["--replace-database", &database, "-o", "out"]));
    wait_for_load(&place, 1);
    // A session that is connected to the database prevents the copy.
    let oid = format!("select oid from pg_database where datname = '{database}'");
    let (before, mut admin) = (pg.ask("postgres", &oid), pg.admin("postgres"));
    wait_until("the copy in place of the database", || admin.query(&oid).unwrap().scalar() != Some(&before));
    let visitor = pg.admin(&database);
    // The copy is given up before the next load begins.
    wait_for_load(&place, 2);
    drop(visitor);
    runs.wait().expect(0);
    let details = restores(&place, "out");
    let methods: Vec<&str> = details.iter().map(|detail| detail["method"].as_str()).collect();
    assert!(methods[1].ends_with("strategy file_copy"), "{methods:?}");
    assert!(details[1]["no_template"].contains("copy database"), "{details:?}");
    assert!(methods[2].starts_with("loaded again, "), "{methods:?}");
    assert_eq!(details[1].get("no_template"), details[2].get("no_template"));
    place.expect_clean();
}

#[test]
fn another_pgdyno_does_not_get_a_database_that_is_released_for_a_copy() {
    let (place, pg) = (Place::new(), Pg::shared());
    let database = pg.database();
    // Each session takes a second to begin, so that the others are faster.
    let server = pg.admin_target(&database);
    let slow = format!("{server} options='-c post_auth_delay=1'");
    let runs = place.start(command(&place, &slow, "2s", &["--replace-database", &database, "-o", "out"]));
    wait_until("a template", || !pg.ask("postgres", &of(OURS, &database)).is_empty());
    let refused = place.run(&["init", "--server", &server, "-s", "1"]).expect(1);
    assert!(refused.stderr.contains("another pgdyno "), "{}", refused.stderr);
    runs.wait().expect(0);
    place.expect_clean();
}
