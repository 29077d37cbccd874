//! Situations in which a number misleads, built on real servers: what the judge says of each, in a run and on one side of a
//! comparison.

use std::io;
use std::net::{Shutdown, TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};

use model::telemetry::reading::Tick;
use serde_json::Value;
use testbed::{ClusterOptions, PASSWORD, Pg, TestServer, bin_dir};

use crate::poolers::{self, Pooler};
use crate::tool::{Ended, PACE, Place, tell, wait_until};

/// Options of a run as short as possible, on tables as they are.
fn as_is() -> Vec<&'static str> {
    let options = "-c 2 --measure 2s --ramp-up 0s --set workload.data=\"none\" --set prepare.settle=false \
                   --set prepare.checkpoint=false --json -o";
    options.split(' ').collect()
}

/// All that was found, as `id severity: evidence`.
pub(crate) fn words(findings: &Value) -> Vec<String> {
    let text = |finding: &Value, name: &str| finding[name].as_str().unwrap().to_string();
    let all = findings.as_array().unwrap().iter();
    all.map(|f| format!("{} {}: {}", text(f, "id"), text(f, "severity"), text(f, "evidence"))).collect()
}

#[track_caller]
pub(crate) fn expect(found: &[String], id_and_severity: &str, evidence: &str) {
    let fits = |text: &&String| text.starts_with(&format!("{id_and_severity}: ")) && text.contains(evidence);
    assert!(found.iter().any(|text| fits(&text)), "no {id_and_severity} with `{evidence}` in {found:#?}");
}

pub(crate) fn json(ended: &Ended) -> Value {
    serde_json::from_str(&ended.stdout).unwrap_or_else(|error| panic!("{error}: {ended:?}"))
}

/// What is found in one run of scripts to which any load will do.
fn run_of(place: &Place, output: &str, args: &[&str]) -> Vec<String> {
    run_of_load(place, output, &[args, &[PACE]].concat())
}

/// What is found in one run of scripts.
fn run_of_load(place: &Place, output: &str, args: &[&str]) -> Vec<String> {
    let all = [&["run", "--repeats", "1"], args, &as_is(), &[output]].concat();
    let ended = place.run(&all);
    words(&json(&ended)["runs"][0]["findings"])
}

/// What is found in a comparison of one pair, and its grade.
fn compare(place: &Place, output: &str, args: &[&str]) -> (Vec<String>, String) {
    let all = [&["compare", "--time", "1s"], args, &as_is(), &[output]].concat();
    let ended = place.run(&all);
    let case = &json(&ended)["comparisons"][0];
    (words(&case["findings"]), case["grade"].as_str().unwrap().to_string())
}

/// What is found when two results are compared.
fn compare_stored(place: &Place, a: &str, b: &str) -> Vec<String> {
    words(&json(&place.run(&["compare", a, b, "--json"]))["comparisons"][0]["findings"])
}

/// pgbench's tables at scale 1 in a new database of a server.
pub(crate) fn loaded(place: &Place, server: &TestServer) -> (String, String) {
    let database = server.database_of("postgres");
    let target = server.admin_target(&database);
    place.run(&["init", "--server", &target, "--scale", "1"]).expect(0);
    (database, target)
}

const READ: &str = "\\set aid random(1, 100000)\nSELECT abalance FROM pgbench_accounts WHERE aid = :aid;\n";
/// Updates keys that scale 1 does not have.
const BEYOND: &str = "SET synchronous_commit = off;\n\\set aid random(200001, 300000)\n\
                      UPDATE pgbench_accounts SET abalance = abalance + 1 WHERE aid = :aid;\n";
/// A function that makes commits asynchronous for the rest of the session.
const HIDDEN: &str = "create function hurry() returns text language sql as \
                      'select pg_catalog.set_config(''synchronous_commit'', ''off'', false)'";
pub(crate) const WRITE: &str = "\\set aid random(1, 100000)\n\
                     UPDATE pgbench_accounts SET abalance = abalance + 1 WHERE aid = :aid;\n";

#[test]
fn a_server_by_url_that_logs_statements_is_doubted() {
    let (place, pg) = (Place::on_disk(), Pg::shared());
    let (database, target) = loaded(&place, &pg);
    let read = place.write("read.sql", READ);
    let args = ["--server", &target, "-f", read.to_str().unwrap()];
    pg.execute("postgres", &format!("alter database {database} set log_statement = 'all'"));
    let found = run_of(&place, "logged", &args);
    expect(&found, "statements-logged doubt", "log_statement = all");
    place.expect_clean();
}

#[test]
fn own_tables_that_write_no_wal_are_not_durable() {
    let (place, pg) = (Place::on_disk(), Pg::shared());
    let (database, target) = loaded(&place, &pg);
    let tables = "create unlogged table quick (id int primary key, n int);\ncreate table slow (id int primary key, n int);\n\
                  insert into quick select i, 0 from generate_series(1, 100) i;\ninsert into slow select * from quick;\n";
    pg.admin(&database).execute(tables).unwrap();
    let script = |table: &str| {
        let text = format!("\\set id random(1, 100)\nUPDATE {table} SET n = n + 1 WHERE id = :id;\n");
        place.write(&format!("{table}.sql"), &text).display().to_string()
    };
    let (quick, slow) = (script("quick"), script("slow"));
    let found = run_of(&place, "quick", &["--server", &target, "-f", &quick]);
    expect(&found, "not-durable doubt", "UNLOGGED tables, which write no WAL (`public.quick`)");
    let found = run_of(&place, "slow", &["--server", &target, "-f", &slow]);
    assert!(!found.iter().any(|text| text.contains("UNLOGGED")), "{found:#?}");

    let schema = place.write("tables.sql", tables).display().to_string();
    let data = format!("workload.data={{files=[\"{schema}\"]}}");
    let bin_dir = bin_dir().display().to_string();
    let options = "run --repeats 1 -c 2 --measure 2s --ramp-up 0s --json -o own";
    let own = [PACE, "--bin-dir", &bin_dir, "--set", &data, "-f", &quick];
    let args: Vec<&str> = options.split(' ').chain(own).collect();
    let found = words(&json(&place.run(&args))["runs"][0]["findings"]);
    expect(&found, "not-durable doubt", "`public.quick`");
    place.expect_clean();
}

#[test]
fn a_row_above_our_limit_is_our_limit() {
    let (place, pg) = (Place::on_disk(), Pg::shared());
    let (_, target) = loaded(&place, &pg);
    let script = place.write("long.sql", "SELECT repeat('x', 3000000);\n");
    let args = ["--server", &target, "-f", script.to_str().unwrap(), "--set", "workload.max_message_mib=1"];
    let found = run_of(&place, "long", &args);
    expect(&found, "message-limit void", "limit of 1048576");
    assert!(
        !found.iter().any(|text| text.starts_with("connection-lost")),
        "one cause, one finding: {found:#?}"
    );
    let said = place.run(&["report", "long"]).stdout;
    assert!(!said.contains("why connections broke"), "none broke: {said}");
    assert!(!said.contains("--resume"), "it would end the same way: {said}");
    place.expect_clean();
}

#[test]
fn our_server_that_logs_durations_and_vacuums_each_second_is_doubted() {
    let place = Place::on_disk();
    let bin_dir = bin_dir().display().to_string();
    let options = "run --repeats 1 -w tpcb -s 1 -c 2 --measure 3s --ramp-up 0s --json -o out \
                   --set server.settings.autovacuum_naptime=1s --set server.settings.autovacuum_vacuum_threshold=1 \
                   --set server.settings.autovacuum_vacuum_scale_factor=0 \
                   --set server.settings.session_preload_libraries=auto_explain \
                   --set server.settings.log_duration=on --bin-dir";
    let args: Vec<&str> =
        options.split(' ').filter(|word| !word.is_empty()).chain([bin_dir.as_str()]).collect();
    let result = json(&place.run(&args));
    expect(&words(&result["cases"][0]["findings"]), "spread-unknown note", "1 run only");
    expect(&words(&result["findings"]), "closed-loop note", "1 of 1 case uses a closed loop");
    let found = words(&result["runs"][0]["findings"]);
    expect(&found, "too-short-to-judge note", "3 s were measured");
    expect(&found, "autovacuum-in-window doubt", "during the measurement");
    expect(&found, "statements-logged doubt", "log_duration = on, auto_explain in session_preload_libraries");
    place.expect_clean();
}

#[test]
fn tables_by_url_that_init_would_not_make_are_named() {
    let (place, pg) = (Place::on_disk(), Pg::shared());
    let (database, target) = loaded(&place, &pg);
    let built_in = ["--server", &target, "--set", "prepare.restore=false", "-s", "1"];
    let built_in = |output: &'static str| {
        let options = "run --repeats 1 -w tpcb-simple -c 2 --measure 2s --ramp-up 0s --set prepare.settle=false --json -o";
        let args: Vec<&str> = options.split(' ').chain([output, PACE]).chain(built_in).collect();
        words(&json(&place.run(&args))["runs"][0]["findings"])
    };
    let found = built_in("usual");
    assert!(!found.iter().any(|text| text.starts_with("tables-altered")), "{found:#?}");

    let mut admin = pg.admin(&database);
    for sql in [
        "alter table pgbench_accounts set unlogged",
        "alter table pgbench_tellers drop constraint pgbench_tellers_pkey",
        "alter table pgbench_branches set (fillfactor = 50)",
        "create index most on pgbench_accounts (bid)",
        "create function pass() returns trigger language plpgsql as 'begin return new; end'",
        "create trigger audit before update on pgbench_accounts for each row execute function pass()",
    ] {
        admin.execute(sql).unwrap();
    }
    let found = built_in("altered");
    expect(&found, "tables-altered void", "`pgbench_tellers` has no primary key");
    let write = place.write("write.sql", WRITE);
    let found = run_of(&place, "scripts", &["--server", &target, "-f", write.to_str().unwrap()]);
    for evidence in ["index most", "trigger audit", "UNLOGGED"] {
        expect(&found, "tables-altered doubt", evidence);
    }

    // What it advises has all that the command needs but the URL.
    let study = analysis::study(&place.results("altered"));
    let altered = study.runs[0].findings.iter().find(|finding| finding.id == "tables-altered").unwrap();
    let (_, advice) = altered.advice.split_once("(pgdyno ").unwrap();
    let (command, _) = advice.split_once(" --server URL)").unwrap();
    assert_eq!(command, "init --replace -w tpcb -s 1");
    place.run(&command.split(' ').chain(["--server", &target]).collect::<Vec<&str>>()).expect(0);
    let found = built_in("again");
    assert!(!found.iter().any(|text| text.starts_with("tables-altered")), "{found:#?}");
    place.expect_clean();
}

#[test]
fn statements_by_url_that_find_no_rows_are_void_and_those_that_find_some_are_not() {
    let (place, pg) = (Place::on_disk(), Pg::shared());
    let (database, target) = loaded(&place, &pg);
    let run = |name: &str, script: &str| {
        let file = place.write(&format!("{name}.sql"), script);
        run_of(&place, name, &["--server", &target, "-f", file.to_str().unwrap()])
    };
    let found = run("write", WRITE);
    for id in
        ["rows-missed", "no-statements", "scripts-set", "statements-logged", "tables-altered", "in-between"]
    {
        assert!(!found.iter().any(|text| text.starts_with(id)), "{id} in {found:#?}");
    }
    let found = run("beyond", BEYOND);
    expect(&found, "rows-missed void", "read and changed no row of `public.pgbench_accounts`");
    expect(&found, "scripts-set note", "synchronous_commit = off");
    expect(&found, "not-durable doubt", "synchronous_commit = off in a script");
    // The script's text names no setting, and a deferred trigger or a library could do the same.
    pg.admin(&database).execute(HIDDEN).unwrap();
    let found = run("hidden", &format!("SELECT hurry();\n{WRITE}"));
    expect(&found, "scripts-set note", "synchronous_commit = off at its end, which no script's text sets");
    expect(&found, "not-durable doubt", "synchronous_commit = off in the load's sessions");
    let found = run("most", &WRITE.replace("100000", "1000000"));
    expect(&found, "rows-missed doubt", " rows of `public.pgbench_accounts` changed per transaction");
    place.expect_clean();
}

#[test]
fn statements_on_our_server_that_find_no_rows_are_void() {
    let place = Place::on_disk();
    let bin_dir = bin_dir().display().to_string();
    let beyond = place.write("beyond.sql", BEYOND);
    let options =
        "run --repeats 1 -s 1 -c 2 --measure 2s --ramp-up 0s --set workload.data=tpcb --json -o out -f";
    let args = options.split(' ').chain([beyond.to_str().unwrap(), PACE, "--bin-dir", &bin_dir]);
    let found = words(&json(&place.run(&args.collect::<Vec<_>>()))["runs"][0]["findings"]);
    expect(&found, "rows-missed void", "read and changed no row of ");
    expect(&found, "scripts-set note", "synchronous_commit = off");
    expect(&found, "not-durable note", "synchronous_commit = off in a script");
    assert!(!found.iter().any(|text| text.starts_with("tables-altered")), "{found:#?}");
    place.expect_clean();
}

#[test]
fn scripts_without_statements_have_no_number() {
    let (place, pg) = (Place::on_disk(), Pg::shared());
    let target = pg.admin_target(&pg.database());
    let (none, one) = (place.write("none.sql", "\\set a 1\n"), place.write("one.sql", "SELECT 1;\n"));
    let (none, one) = (none.to_str().unwrap(), one.to_str().unwrap());
    let found = run_of(&place, "both", &["--server", &target, "-f", none, "-f", one]);
    expect(&found, "no-statements doubt", "none.sql`");
    let [a, b] = [one, none].map(|script| format!("workload.scripts=[\"{script}\"]"));
    let url = format!("server.url={target}");
    let sides =
        ["--a", &a, "--b", &b, "--set", &url, "--set", "workload.kind=\"scripts\"", "--fail-on", "slower"];
    let (found, grade) = compare(&place, "none", &sides);
    expect(&found, "pairs-excluded void", "no run of B counts (no-statements: no statement in `");
    assert_eq!(grade, "void");
    let ended = place.run(&["compare", "none"]).expect(1);
    assert!(ended.stderr.contains("no run of B counts (no-statements: "), "{ended:?}");
    assert!(ended.stdout.contains("no verdict: 0 pairs"), "{ended:?}");
}

#[test]
fn what_only_one_side_does_decides_the_grade_of_a_comparison() {
    let place = Place::on_disk();
    let servers = ["on", "off"].map(|fsync| {
        TestServer::start(&ClusterOptions {
            settings: &[&format!("fsync={fsync}")],
            is_on_disk: true,
            ..ClusterOptions::default()
        })
    });
    let [(unhurried, a), (database, b)] = [0, 1].map(|side| loaded(&place, &servers[side]));
    let write = place.write("write.sql", &format!("SELECT hurry();\n{WRITE}"));
    let sides = [format!("server.url={a}"), format!("server.url={b}")];
    let sides = ["--a", &sides[0], "--b", &sides[1], "-f", write.to_str().unwrap()];
    servers[0].admin(&unhurried).execute(&HIDDEN.replace("''off''", "''on''")).unwrap();
    servers[1].execute("postgres", &format!("alter database {database} set log_statement = 'all'"));
    let mut admin = servers[1].admin(&database);
    for sql in [
        HIDDEN,
        "alter table pgbench_history set unlogged",
        "create index more on pgbench_accounts (bid)",
        "alter table pgbench_tellers drop constraint pgbench_tellers_pkey",
        "alter table pgbench_accounts enable row level security",
        "create publication everything for table pgbench_accounts",
        "delete from pgbench_accounts where aid > 10000",
    ] {
        admin.execute(sql).unwrap();
    }
    let mut receiver = servers[1].program("pg_receivewal");
    let wal = place.path("wal");
    std::fs::create_dir(&wal).unwrap();
    receiver.arg("-h").arg(servers[1].dir()).args(["-p", &servers[1].port.to_string(), "-U", "postgres"]);
    receiver.arg("-D").arg(&wal);
    let receiver = Ending::of(receiver);
    let connected = || servers[1].ask("postgres", "select count(*) from pg_stat_replication") == "1";
    wait_until("the receiver", connected);
    let (found, grade) = compare(&place, "out", &sides);
    drop(receiver);
    expect(&found, "undeclared-difference doubt", "receivers of WAL (none and 1 async");
    expect(&found, "undeclared-difference void", "setting fsync (on and off");
    expect(&found, "undeclared-difference void", "setting synchronous_commit in sessions (on and off");
    expect(&found, "undeclared-difference doubt", "setting log_statement (none and all");
    expect(
        &found,
        "undeclared-difference doubt",
        "index more of public.pgbench_accounts (none and CREATE INDEX",
    );
    expect(&found, "one-sided void", "not-durable in 0 of ");
    expect(&found, "one-sided doubt", "statements-logged in 0 of ");
    expect(&found, "one-sided doubt", "rows-missed in 0 of ");
    assert_eq!(grade, "void");
    place.expect_clean();
}

#[test]
fn doubts_about_both_sides_are_doubts_about_their_comparison() {
    let place = Place::on_disk();
    let server = TestServer::start(&ClusterOptions {
        settings: &["fsync=off"],
        is_on_disk: true,
        ..ClusterOptions::default()
    });
    let [a, b] = [0, 1].map(|_| format!("server.url={}", loaded(&place, &server).1));
    let write = place.write("write.sql", WRITE);
    let (found, grade) = compare(&place, "out", &["--a", &a, "--b", &b, "-f", write.to_str().unwrap()]);
    expect(&found, "doubtful-runs doubt", "not-durable in ");
    expect(&found, "same-server note", "of one cluster");
    assert!(!found.iter().any(|text| text.starts_with("one-sided void")), "{found:#?}");
    assert_eq!(grade, "doubtful");
    place.expect_clean();
}

#[test]
fn one_server_under_two_names_is_noticed_and_one_database_refused() {
    let (place, pg) = (Place::on_disk(), Pg::shared());
    let [one, other] = [pg.database(), pg.database()];
    let script = place.write("one.sql", "SELECT 1;\n");
    let a = format!("server.url={}", pg.admin_target(&one));
    let compare = |output: &str, database: &str| {
        let b = format!("server.url=postgres://bench@127.0.0.1:{}/{database}?sslmode=require", pg.port);
        let mut command = place.command(&["compare", "--time", "1s", "--a", &a, "--b", &b]);
        command.env("PGPASSWORD", PASSWORD).arg("-f").arg(&script).args(as_is()).arg(output);
        place.start(command).wait()
    };
    let ended = compare("databases", &other);
    let case = &json(&ended)["comparisons"][0];
    let found = words(&case["findings"]);
    expect(&found, "same-server note", "of one cluster");
    expect(&found, "undeclared-difference doubt", "TLS (none and TLSv1");
    expect(&found, "undeclared-difference doubt", "way to the server (a unix socket and TCP");
    assert_eq!(case["grade"], "doubtful");
    let ended = compare("same", &one);
    assert!(ended.stderr.contains("is the same database as that of another case"), "{ended:?}");
    // What encryption costs is asked of one database.
    let by = |sslmode| format!("server.url=postgres://bench@127.0.0.1:{}/{one}?sslmode={sslmode}", pg.port);
    let [plain, encrypted] = [by("disable"), by("require")];
    let mut command = place.command(&["compare", "--time", "1s", "--a", &plain, "--b", &encrypted]);
    command.env("PGPASSWORD", PASSWORD).arg("-f").arg(&script).args(as_is()).arg("encrypted");
    let case = &json(&place.start(command).wait())["comparisons"][0];
    let found = words(&case["findings"]);
    assert!(found.iter().all(|text| !text.starts_with("undeclared-difference")), "{found:#?}");
    assert!(case["b"].as_str().unwrap().ends_with("?sslmode=require"), "{case:#}");
    assert!(case["n_pairs"].as_u64().unwrap() >= 1, "{case:#}");
    let by_tcp = format!("postgres://bench@127.0.0.1:{}/{one}?sslmode=require", pg.port);
    let mut command =
        place.command(&[&["run", "--repeats", "1", "--server", &by_tcp], &as_is()[..], &["by-tcp"]].concat());
    command.env("PGPASSWORD", PASSWORD).arg("-f").arg(&script);
    place.start(command).wait();
    let report = place.run(&["report", "by-tcp"]).expect(0);
    assert!(report.stdout.contains("connections encrypted (TLSv1"), "{report:?}");
    let ended = place.run(&["compare", "databases:1", "by-tcp", "--json"]);
    let found = words(&json(&ended)["comparisons"][0]["findings"]);
    expect(&found, "same-server void", "of one cluster");
    place.expect_clean();
}

#[test]
fn poolers_and_proxies_are_named_also_on_one_side() {
    let place = Place::on_disk();
    let server =
        TestServer::start(&ClusterOptions { has_tcp: true, is_on_disk: true, ..ClusterOptions::default() });
    let database = server.database_of("postgres");
    let script = place.write("one.sql", "SELECT 1;\n");
    let run = |output: &str, port: u16| {
        let url = format!("postgres://postgres@127.0.0.1:{port}/{database}?sslmode=disable");
        let args = ["--server", &url, "-f", script.to_str().unwrap(), "--protocol", "simple"];
        // The pooler has to use a hundredth of a second.
        run_of_load(&place, output, &args)
    };
    run("direct", server.port);
    let expect_one_sided = |output: &str, way: &str| {
        let found = compare_stored(&place, "direct", output);
        expect(&found, "one-sided note", "in-between in 0 of 1 runs of A and 1 of 1 of B");
        let difference = format!("way to the server (TCP and {way})");
        expect(&found, "undeclared-difference doubt", &difference);
        assert!(!found.iter().any(|text| text.contains("lock_timeout")), "pgdyno's own: {found:#?}");
    };
    let found = run("proxy", proxy(server.port));
    expect(&found, "in-between note", &format!("and the server accepts at 127.0.0.1:{}", server.port));
    expect_one_sided("proxy", "TCP through a proxy");
    for mode in ["session", "transaction"] {
        let Some(pooler) = Pooler::start(&server, mode) else { return tell(poolers::SKIPPED) };
        let port = pooler.port;
        let found = run(mode, port);
        expect(&found, "in-between note", &format!("a pooler in {mode} mode answers at 127.0.0.1:{port}"));
        expect(&found, "in-between note", "; it used 0.");
        let usage = place.first_run(mode);
        // The kernel counts hundredths of a second, of which a short run may have none in one of the two.
        let of_tick =
            |tick: &Tick| ["pooler.cpu.user", "pooler.cpu.system"].map(|name| tick.values.get(name));
        let used: f64 = usage.ticks.iter().flat_map(of_tick).flatten().sum();
        assert!(used > 0.0, "{mode}: the pooler works");
        let blamed = found.iter().any(|text| text.starts_with("foreign-cpu") && text.contains("pooler"));
        assert!(!blamed, "{found:#?}");
        drop(pooler);
        expect_one_sided(mode, &format!("TCP through a pooler in {mode} mode"));
    }
    place.expect_clean();
}

#[test]
fn a_pooler_that_loses_prepared_statements_gets_the_extended_protocol_unless_one_was_chosen() {
    let place = Place::on_disk();
    let server =
        TestServer::start(&ClusterOptions { has_tcp: true, is_on_disk: true, ..ClusterOptions::default() });
    let Some(pooler) = Pooler::start(&server, "transaction") else { return tell(poolers::SKIPPED) };
    let database = server.database_of("postgres");
    let script = place.write("one.sql", "SELECT 1;\n");
    let url = format!("postgres://postgres@127.0.0.1:{}/{database}?sslmode=disable", pooler.port);
    let with = |command: &'static str, more: &[&'static str]| {
        let given = [command, "--repeats", "1", "--server", &url, "-f", script.to_str().unwrap()];
        let options = as_is();
        place.run(&[&given[..], more, &options[..options.len() - 2]].concat())
    };
    let said = "Protocol: extended instead of prepared, as nobody chose one: the pooler at `";
    let planned = with("plan", &[]).expect(0);
    assert!(planned.stdout.contains(said), "{planned:?}");
    let ended = with("run", &["-o", "out", "-q"]).expect(0);
    assert!(ended.stderr.contains(said), "{ended:?}");
    let record = place.first_run("out").record;
    assert_eq!(record.case.workload.protocol.as_str(), "extended");
    let page = std::fs::read_to_string(place.path("out/report.md")).unwrap();
    assert!(page.contains("Protocol: extended instead of prepared"), "{page}");
    // It is not the user's choice, and is made again for whoever repeats it, also where another pooler answers.
    let stored = std::fs::read_to_string(place.path("out/experiment.toml")).unwrap();
    assert!(!stored.contains("protocol = "), "{stored}");
    let again = place.run(&["plan", "out/experiment.toml"]).expect(0);
    assert!(again.stdout.contains(said), "{again:?}");
    let chosen = with("plan", &["-M", "prepared"]).expect(1);
    assert!(chosen.stdout.contains("use --protocol simple or extended"), "{chosen:?}");
    drop(pooler);
    place.expect_clean();
}

/// A program that ends with the test.
pub(crate) struct Ending(Child);

impl Ending {
    pub(crate) fn of(mut command: Command) -> Ending {
        Ending(command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap())
    }
}

impl Drop for Ending {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Forwards connections to a port of 127.0.0.1; returns its own. Ends with the tests.
fn proxy(to: u16) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for client in listener.incoming().flatten() {
            let Ok(server) = TcpStream::connect(("127.0.0.1", to)) else { return };
            let pass = |mut from: TcpStream, mut to: TcpStream| {
                std::thread::spawn(move || {
                    let _ = io::copy(&mut from, &mut to);
                    let _ = to.shutdown(Shutdown::Write);
                });
            };
            pass(client.try_clone().unwrap(), server.try_clone().unwrap());
            pass(server, client);
        }
    });
    port
}
