//! What a server counts of a load, and how faithful another load is to it: the truth is known, because both are ours.

use std::path::Path;
use std::process::{Child, Stdio};

use capture::statement::identity;
use capture::statistics::{SourceStatistics, source};
use model::run::fidelity::{CountedStatement, StatementFigures, WorkloadFigures};
use serde_json::Value;
use testbed::{ClusterOptions, TestServer, bin_dir};

use crate::tool::{Place, wait_until};

const OPTIONS: ClusterOptions = ClusterOptions {
    settings: &[
        "shared_buffers=4MB",
        "shared_preload_libraries=pg_stat_statements",
        "autovacuum=off",
        "checkpoint_timeout=1h",
        "synchronous_commit=off",
    ],
    hba: None,
    has_tcp: false,
    certificate: None,
    is_on_disk: false,
    bin_dir: None,
};

/// Keys of which few are hot, a range, an aggregate, and writes.
const BUSY: &str = "\
\\set aid random_zipfian(1, 300000, 1.2)
\\set tid random(1, 30)
BEGIN;
SELECT abalance FROM pgbench_accounts WHERE aid = :aid;
UPDATE pgbench_accounts SET abalance = abalance + 1 WHERE aid = :aid;
SELECT aid FROM pgbench_accounts WHERE aid BETWEEN :aid AND :aid + 50;
INSERT INTO pgbench_history (tid, bid, aid, delta, mtime) VALUES (:tid, 1, :aid, 1, CURRENT_TIMESTAMP);
END;
";
const CALM: &str = "\
\\set bid random(1, 3)
SELECT count(*), sum(tbalance) FROM pgbench_tellers WHERE bid = :bid;
";

/// A load of pgbench that is under way, and ends with this.
struct Load(Child);

impl Load {
    fn start(server: &TestServer, database: &str, scripts: &[(&Path, u32)]) -> Load {
        let mut pgbench = server.client("pgbench", database);
        // What a call does is asked, not how fast it is.
        pgbench.args(["-n", "-c", "2", "-R", "800", "-T", "120", "--random-seed=7"]);
        for (script, weight) in scripts {
            pgbench.arg("-f").arg(format!("{}@{weight}", script.display()));
        }
        let child = pgbench.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        let load = Load(child);
        let sql = format!("select sum(xact_commit) > 800 from pg_stat_database where datname = '{database}'");
        wait_until("the load is warm", || server.ask("postgres", &sql) == "t");
        load
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        // One that has ended needs no end.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The server with a database of three scale units, `origin`, and a copy of it, `source`. Pages have room for the new versions of their
/// rows: otherwise rows would move out of order, and ranges would touch more pages with each transaction.
fn server() -> TestServer {
    let server = TestServer::start(&OPTIONS);
    server.execute("postgres", "create database origin");
    testbed::run(server.client("pgbench", "origin").args(["-i", "-q", "-s", "3", "-F", "50"]));
    server.execute("origin", "create extension pg_stat_statements");
    copy(&server, "source");
    server
}

/// Copies the database as it was before any load.
fn copy(server: &TestServer, database: &str) {
    server.execute("postgres", &format!("create database {database} template origin"));
}

/// Captures the statistics of a load over 4 s into a file.
fn captured(place: &Place, server: &TestServer, database: &str, scripts: &[(&Path, u32)], file: &str) {
    let load = Load::start(server, database, scripts);
    let target = server.admin_target(database);
    place
        .run(&["capture", "stats", "--server", &target, "--for", "4s", "--every", "1s", "-o", file])
        .expect(0);
    drop(load);
    let sql = format!("select count(*) = 0 from pg_stat_activity where datname = '{database}'");
    wait_until("the sessions have ended", || server.ask("postgres", &sql) == "t");
}

fn measure<'a>(fidelity: &'a Value, name: &str) -> &'a Value {
    let measures = fidelity["fidelity"]["measures"].as_array().unwrap();
    measures.iter().find(|one| one["name"] == name).unwrap()
}

#[test]
fn planted_infidelity_is_reported_by_the_measure_that_it_concerns() {
    let place = Place::new();
    let server = server();
    let busy = place.write("busy.sql", BUSY);
    let calm = place.write("calm.sql", CALM);
    let both: [(&Path, u32); 2] = [(&busy, 4), (&calm, 1)];
    captured(&place, &server, "source", &both, "source.zst");
    let judged = |file: &str| -> Value {
        let shown = place.run(&["capture", "fidelity", "source.zst", file, "--json"]).expect(0);
        serde_json::from_str(&shown.stdout).unwrap()
    };
    let expect = |file: &str, name: &str, grade: &str| {
        let fidelity = judged(file);
        assert_eq!(measure(&fidelity, name)["grade"], grade, "{file}: {fidelity:#}");
    };

    copy(&server, "same");
    captured(&place, &server, "same", &both, "same.zst");
    for name in ["coverage", "mix", "rows", "work", "cache"] {
        expect("same.zst", name, "faithful");
    }
    let text = place.run(&["capture", "fidelity", "source.zst", "same.zst"]).expect(0).stdout;
    assert!(text.contains("UPDATE pgbench_accounts") && text.contains("coverage"), "{text}");
    assert!(!text.contains("/* pgdyno */"), "{text}");

    // The same transactions find a tenth of the rows.
    copy(&server, "shrunk");
    for sql in ["delete from pgbench_accounts where aid % 10 <> 5", "vacuum full pgbench_accounts", "analyze"]
    {
        server.execute("shrunk", sql);
    }
    captured(&place, &server, "shrunk", &both, "shrunk.zst");
    expect("shrunk.zst", "mix", "faithful");
    expect("shrunk.zst", "rows", "not_your_workload");

    let uniform =
        place.write("uniform.sql", &BUSY.replace("random_zipfian(1, 300000, 1.2)", "random(1, 300000)"));
    copy(&server, "uniform");
    captured(&place, &server, "uniform", &[(&uniform, 4), (&calm, 1)], "uniform.zst");
    for name in ["coverage", "mix", "rows"] {
        expect("uniform.zst", name, "faithful");
    }
    let fidelity = judged("uniform.zst");
    assert_ne!(measure(&fidelity, "cache")["grade"], "faithful", "{fidelity:#}");

    // Without the range, which takes most of the time.
    let range = BUSY.lines().find(|line| line.contains("BETWEEN")).unwrap();
    let without = place.write("without.sql", &BUSY.replace(range, ""));
    captured(&place, &server, "same", &[(&without, 4), (&calm, 1)], "without.zst");
    expect("without.zst", "mix", "not_your_workload");
    let fidelity = judged("without.zst");
    assert_ne!(measure(&fidelity, "coverage")["grade"], "faithful", "{fidelity:#}");
    assert_eq!(fidelity["fidelity"]["grade"], "not_your_workload");
}

#[test]
fn statistics_say_what_was_counted_and_what_is_unknown() {
    let place = Place::new();
    let server = server();
    let busy = place.write("busy.sql", BUSY);
    captured(&place, &server, "source", &[(&busy, 1)], "stats.zst");
    let read = |name: &str| SourceStatistics::read(std::fs::File::open(place.path(name)).unwrap()).unwrap();
    let found = read("stats.zst");
    assert_eq!((found.begun.database.as_str(), found.begun.unknown.len()), ("source", 0));
    assert!((3.0..6.0).contains(&found.length_s()), "{}", found.length_s());
    assert!(found.activity.n_samples >= 2 && found.activity.active_max <= 2, "{:?}", found.activity);
    assert_eq!(found.settings["shared_buffers"], "4MB");
    let of_accounts = |at: usize, what: &str| found.tables[at]["public.pgbench_accounts"][what];
    assert!(of_accounts(1, "n_tup_upd") > of_accounts(0, "n_tup_upd"));
    let figures = found.figures(identity);
    let calls = |word: &str| {
        let one = figures.statements.values().find(|one| one.text.starts_with(word)).unwrap();
        assert!(one.figures.blocks.unwrap() > 0 || word == "BEGIN", "{one:?}");
        one.figures.calls as f64
    };
    // Each statement ran in each transaction, up to those under way at the ends.
    let n = calls("UPDATE");
    assert!(n > 100.0 && (calls("INSERT") / n - 1.0).abs() < 0.05 && (calls("BEGIN") / n - 1.0).abs() < 0.05);
    let range = figures.statements.values().find(|one| one.text.contains("BETWEEN")).unwrap();
    let rows = range.figures.rows.unwrap() as f64 / range.figures.calls as f64;
    assert!((50.5..=51.0).contains(&rows), "{rows}");

    let target = server.admin_target("source");
    let again = place.run(&["capture", "stats", "--server", &target, "-o", "stats.zst"]).expect(1);
    assert!(again.stderr.contains("cannot create `stats.zst`; name a new file with -o"), "{}", again.stderr);

    // A role that sees nothing of others, and a database without the extension.
    server.execute("source", "create role blind login");
    let blind = target.replace("user=postgres", "user=blind");
    let _load = Load::start(&server, "source", &[(&busy, 1)]);
    let said = place
        .run(&["capture", "stats", "--server", &blind, "--for", "3s", "--every", "1s", "-o", "blind.zst"])
        .expect(0);
    assert!(
        said.stderr.contains("other roles unknown: ") && said.stderr.contains("pg_read_all_stats"),
        "{}",
        said.stderr
    );
    let found = read("blind.zst");
    let figures = found.figures(identity);
    assert!(found.hidden_calls > 0 && figures.statements.is_empty(), "{:?}", figures.statements);
    assert_eq!(figures.active_sessions, None, "states of sessions were hidden");
    assert!(figures.unknown.contains_key("hidden statements"));

    let target = server.admin_target("postgres");
    let args = ["capture", "stats", "--server", &target, "--for", "2s", "--every", "1s", "-o", "none.zst"];
    let said = place.run(&args).expect(1);
    let why = "statements cannot be read, and a file without them is of no use: the extension pg_stat_statements is not in this \
               database";
    assert!(said.stderr.contains(why), "{}", said.stderr);
    assert!(!place.path("none.zst").exists());
    place.expect_clean();
}

#[test]
fn resets_and_evictions_are_noticed_while_statistics_are_read() {
    let place = Place::new();
    let mut settings = OPTIONS.settings.to_vec();
    settings.push("pg_stat_statements.max=100");
    let server = TestServer::start(&ClusterOptions { settings: settings.leak(), ..OPTIONS });
    server.execute("postgres", "create extension pg_stat_statements");
    let target = server.admin_target("postgres");
    let reading =
        place.start(place.command(&[
            "capture", "stats", "--server", &target, "--for", "30s", "--every", "1s", "-o", "s.zst",
        ]));
    let sql = "select count(*) > 0 from pg_stat_statements where query like '/* pgdyno */%pg_stat_database%'";
    wait_until("it reads", || server.ask("postgres", sql) == "t");
    let kinds = server.ask(
        "postgres",
        "select string_agg('select ' || repeat('1, ', n) || '1', '; ') from generate_series(1, 300) n",
    );
    server.execute("postgres", &kinds);
    std::thread::sleep(std::time::Duration::from_millis(1500));
    server.execute("postgres", "select pg_stat_statements_reset()");
    wait_until("it says so", || reading.has_said("pg_stat_statements was reset"));
    reading.signal(nix::sys::signal::Signal::SIGINT);
    let said = reading.wait().expect(2).stderr;
    assert!(said.contains("has dropped statements"), "{said}");
    let found = SourceStatistics::read(std::fs::File::open(place.path("s.zst")).unwrap()).unwrap();
    assert!(
        found.n_resets == 1 && found.n_evictions.unwrap() > 0 && !found.ended.as_ref().unwrap().is_complete
    );
    let unknown = found.figures(identity).unknown;
    assert!(unknown.contains_key("reset") && unknown.contains_key("evictions"), "{unknown:?}");
}

const MANIFEST: &str = "\
format = 1
name = \"kiosk\"
title = \"Kiosk\"
about = \"Things are looked at, and taken.\"
source = \"own\"
licence = \"MIT\"
scale = \"1,000 items\"
needs = {server = \"9.6\"}

[[table]]
name = \"item\"
rows = \"1000 * scale\"
[table.columns]
id = \"row + 1\"
stock = \"uniform(100000, 999999)\"

[[transaction]]
name = \"look\"
params = {id = \"uniform(1, rows(item))\"}

[[transaction]]
name = \"take\"
params = {id = \"uniform(1, rows(item))\"}

[variants]
calm = {weights = {look = 9, take = 1}}
busy = {weights = {look = 1, take = 3}}
";

const STATEMENTS: [&str; 4] =
    ["BEGIN", "END", "UPDATE item SET stock = stock - 1 WHERE id = 7", "SELECT stock FROM item WHERE id = 7"];

/// The statements of the workload, each called once at the source.
fn called_once() -> WorkloadFigures {
    let mut figures = WorkloadFigures { length_s: 1.0, ..WorkloadFigures::default() };
    for text in STATEMENTS {
        let once = StatementFigures { calls: 1, time_us: 1.0, ..StatementFigures::default() };
        let statement = CountedStatement { text: text.to_string(), is_reproduced: Some(true), figures: once };
        figures.add(format!("{:016x}", identity(text)), statement);
    }
    figures
}

#[test]
fn a_run_of_a_captured_workload_is_graded_and_another_mix_is_doubted() {
    let place = Place::new();
    std::fs::create_dir_all(place.path("kiosk.workload/transactions")).unwrap();
    for (name, text) in [
        ("workload.toml", MANIFEST),
        ("schema.sql", "create table item (id int primary key, stock bigint not null);\n"),
        ("transactions/look.sql", "SELECT stock FROM item WHERE id = :id;\n"),
        ("transactions/take.sql", "BEGIN;\nUPDATE item SET stock = stock - 1 WHERE id = :id;\nEND;\n"),
    ] {
        place.write(&format!("kiosk.workload/{name}"), text);
    }
    let bin_dir = bin_dir();
    let run = |variant: &str, out: &str, library: &str| {
        let workload = format!("./kiosk.workload:{variant}");
        let library = format!("server.settings.shared_preload_libraries={library}");
        let library: &[&str] = if library.ends_with('=') { &[] } else { &["--set", &library] };
        let args = ["run", "--bin-dir", bin_dir.to_str().unwrap(), "-w", &workload, "-s", "5", "-c", "2"];
        let more = ["--repeats", "1", "--ramp-up", "0s", "--measure", "3s", "-o", out];
        place.run(&[&args[..], &more[..], library, &["--set=prepare.settle=false"]].concat()).expect(0)
    };
    // The source is a run of the same, of which everything is counted.
    place.write("kiosk.workload/source.json", &source::text(&called_once()));
    run("busy", "source", "pg_stat_statements");
    let counted = place.first_run("source").record;
    let mut figures = counted.replay.unwrap().replay.unwrap();
    assert_eq!(figures.statements.len(), 4, "{figures:?}");
    let n_taken = figures.statements[&format!("{:016x}", identity(STATEMENTS[2]))].figures.calls;
    let n_looked = figures.statements[&format!("{:016x}", identity(STATEMENTS[3]))].figures.calls;
    let n = counted.done.unwrap().counts.committed;
    assert!(n_taken + n_looked >= n && n_taken + n_looked <= n + 4, "{n_taken} {n_looked} {n}");
    figures.others = StatementFigures::default();
    place.write("kiosk.workload/source.json", &source::text(&figures));

    run("busy", "replay", "pg_stat_statements");
    let shown = place.run(&["capture", "fidelity", "replay", "--json"]).expect(0);
    let shown: Value = serde_json::from_str(&shown.stdout).unwrap();
    let fidelity = &shown["runs"][0];
    for name in ["coverage", "mix", "rows", "work", "cache", "errors"] {
        assert_eq!(measure(fidelity, name)["grade"], "faithful", "{fidelity:#}");
    }
    assert_eq!(measure(fidelity, "arrivals")["grade"], "unknown");
    let page = std::fs::read_to_string(place.path("replay/report.html")).unwrap();
    assert!(page.contains("Fidelity to the source"), "the page has no fidelity");

    run("calm", "other", "pg_stat_statements");
    let text = place.run(&["capture", "fidelity", "other"]).expect(0).stdout;
    assert!(text.starts_with("run 1: not your workload"), "{text}");
    crate::tool::expect_found(&place, "other", &["not-your-workload"]);

    // Nobody counts the replay.
    run("busy", "uncounted", "");
    let text = place.run(&["capture", "fidelity", "uncounted"]).expect(0).stdout;
    assert!(text.starts_with("run 1: unknown") && text.contains("is not in this database"), "{text}");

    std::fs::remove_file(place.path("kiosk.workload/source.json")).unwrap();
    run("busy", "none", "");
    let none = place.run(&["capture", "fidelity", "none"]).expect(1);
    assert!(none.stderr.contains("has no run of a captured workload"), "{}", none.stderr);
    place.expect_clean();
}
