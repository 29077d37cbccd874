//! Situations in which a number misleads, built for real: others who work on the server, a quota, autovacuum that
//! nobody sees. A run says so.

use std::collections::BTreeMap;
use std::fs;
use std::process::{Child, Command, Stdio};

use analysis::finding::{Finding, Severity};
use analysis::summary::RunSummary;
use testbed::{Pg, QuotaGroup, as_server_user, bin_dir};

use crate::tool::{PACE, Place, tell, wait_until};

/// A short run with this many options more.
fn run<'a>(more: &[&'a str]) -> Vec<&'a str> {
    let args =
        ["run", "-w", "tpcb-select", "-s", "1", "-c", "2", "--ramp-up", "1s", "--repeats", "1", "-o", "out"];
    [&args[..], more].concat()
}

/// The runs of an experiment, by their cases.
fn runs(place: &Place, name: &str) -> BTreeMap<u32, RunSummary> {
    let study = analysis::study(&place.results(name));
    study.runs.into_iter().map(|run| (run.case, run)).collect()
}

fn finding<'a>(run: &'a RunSummary, id: &str) -> Option<&'a Finding> {
    run.findings.iter().find(|finding| finding.id == id)
}

#[track_caller]
fn expect(run: &RunSummary, id: &str, words: &[&str]) {
    let found = finding(run, id).unwrap_or_else(|| panic!("no {id}: {:#?}", run.findings));
    // A doubt, unless the uncertainty bounds what it can have done.
    assert!(found.severity == Severity::Doubt || found.effect.is_some(), "{found:?}");
    for word in words {
        assert!(found.evidence.contains(word), "`{}` lacks `{word}`", found.evidence);
    }
}

/// A pgbench that reads from a server, 4,000 times a second, until it is dropped.
struct Neighbour(Child);

impl Neighbour {
    fn of(target: &BTreeMap<&str, &str>) -> Neighbour {
        let mut command = Command::new(bin_dir().join("pgbench"));
        command.args(["-S", "-n", "-c", "2", "-R", "4000", "-T", "120", "-s", "1"]);
        command.args(["-h", target["host"], "-p", target["port"], "-U", target["user"], target["dbname"]]);
        command.stdout(Stdio::null()).stderr(Stdio::null());
        as_server_user(&mut command);
        Neighbour(command.spawn().unwrap())
    }

    fn of_database(pg: &Pg, database: &str) -> Neighbour {
        let (dir, port) = (pg.dir().display().to_string(), pg.port.to_string());
        let target = [("host", dir.as_str()), ("port", &port), ("user", "postgres"), ("dbname", database)];
        Neighbour::of(&target.into())
    }
}

impl Drop for Neighbour {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A server with pgbench's tables in one database; returns the connection string of that.
fn server(place: &Place) -> (Pg, String, String) {
    let pg = Pg::start();
    let database = pg.database();
    let target = pg.admin_target(&database);
    place.run(&["init", "--scale", "1", "--server", &target]).expect(0);
    (pg, database, target)
}

#[test]
fn work_of_others_on_a_server_by_url_is_noticed_and_our_own_is_not() {
    let place = Place::new();
    let (pg, database, target) = server(&place);
    let args = run(&["--measure", "4s", "--set", "prepare.restore=false", "--server", &target]);
    place.run(&args).expect(0);
    let quiet = &runs(&place, "out")[&1];
    for id in ["foreign-sessions", "never-quiet", "clock-changed"] {
        assert_eq!(finding(quiet, id), None, "pgdyno is alone");
    }

    fs::rename(place.path("out"), place.path("alone")).unwrap();
    let neighbour = Neighbour::of_database(&pg, &database);
    let mut sleeper = Command::new(bin_dir().join("psql"));
    sleeper.args(["-h", &pg.dir().display().to_string(), "-p", &pg.port.to_string(), "-U", "postgres"]);
    sleeper.args(["-c", "select pg_sleep(60)", "postgres"]).stdout(Stdio::null()).stderr(Stdio::null());
    let sleeper = Neighbour(sleeper.spawn().unwrap());
    place.run(&args).expect(0);
    let run = &runs(&place, "out")[&1];
    expect(run, "foreign-sessions", &["transactions/s next to"]);
    expect(run, "never-quiet", &["still busy after 10", "sessions"]);
    drop((neighbour, sleeper));
    place.expect_clean();
}

#[test]
fn wal_that_cannot_be_archived_is_noticed() {
    let place = Place::new();
    let update = "update pgbench_branches set bbalance = bbalance + 1 where bid = 1;\n";
    let updates = place.write("update.sql", update);
    let switches = place.write("switch.sql", &format!("{update}select pg_switch_wal();\n"));
    let (updates, switches) = (format!("{}@50", updates.display()), format!("{}@1", switches.display()));
    let bin_dir = bin_dir().display().to_string();
    let archiving =
        ["archive_mode=on", "archive_command=/bin/false"].map(|set| format!("server.settings.{set}"));
    let args = ["run", "-f", &updates, "-f", &switches, "--bin-dir", &bin_dir];
    let set = ["--set", &archiving[0], "--set", &archiving[1], "--set", "workload.data=tpcb"];
    let more =
        "--set prepare.settle=false --scale 1 -c 1 --pace 100/s --ramp-up 1s --measure 4s --repeats 1 -o out";
    let args: Vec<&str> = args.into_iter().chain(set).chain(more.split_whitespace()).collect();
    place.run(&args).expect(0);
    expect(&runs(&place, "out")[&1], "archiving-failed", &["failed attempt", "0 segments archived"]);
    place.expect_clean();
}

#[test]
fn foreign_work_on_our_server_is_noticed() {
    let place = Place::new();
    let bin_dir = bin_dir().display().to_string();
    let args = run(&["--measure", "6s", "--bin-dir", &bin_dir]);
    let running = place.start(place.command(&args));
    place.wait_for_load("out", 1);
    let record: serde_json::Value =
        serde_json::from_slice(&fs::read(place.path("out/runs/0001/run.json")).unwrap()).unwrap();
    let keyword = |name: &'static str| (name, record["load"]["target"][name].as_str().unwrap());
    let neighbour = Neighbour::of(&["host", "port", "user", "dbname"].map(keyword).into());
    running.wait().expect(0);
    drop(neighbour);
    expect(&runs(&place, "out")[&1], "foreign-sessions", &["transactions/s next to"]);
    place.expect_clean();
}

#[test]
fn work_of_others_on_one_side_of_a_comparison_is_noticed_there() {
    let place = Place::new();
    let ((pg_a, _, a), (pg_b, database, b)) = (server(&place), server(&place));
    let neighbour = Neighbour::of_database(&pg_b, &database);
    let quota = QuotaGroup::new(0.3);
    quota.iter().for_each(|group| pg_b.pids().into_iter().for_each(|pid| group.take(pid)));
    let url = |target: &str| format!("server.url={target}");
    let (a, b) = (url(&a), url(&b));
    let sides = ["compare", "--a", &a, "--b", &b, "--time", "1s", "-w", "tpcb-select", "-s", "1", "-c", "2"];
    let more = ["--measure", "3s", "--ramp-up", "1s", "--set", "prepare.restore=false", "-o", "out"];
    place.run(&[&sides[..], &more].concat()).expect(0);
    drop((neighbour, pg_a));
    let runs = runs(&place, "out");
    assert_eq!([finding(&runs[&1], "foreign-sessions"), finding(&runs[&1], "cpu-quota")], [None, None]);
    if quota.is_ok() {
        expect(&runs[&2], "cpu-quota", &["may use 30 % of a processor's time", "throttled in"]);
    }
    expect(&runs[&2], "foreign-sessions", &["transactions/s next to"]);
    let screen = place.run(&["compare", "out"]).expect(0).stdout;
    let screen = screen.split_whitespace().collect::<Vec<&str>>().join(" ");
    for id in ["foreign-sessions"].into_iter().chain(quota.is_ok().then_some("cpu-quota")) {
        assert!(screen.contains(&format!("{id} in 0 of 1 runs of A and 1 of 1 of B (")), "{screen}");
    }
}

#[test]
fn a_quota_of_a_server_by_url_is_noticed() {
    let place = Place::new();
    let (pg, _, target) = server(&place);
    let Ok(group) = QuotaGroup::new(0.1) else {
        return tell("skipped: no control group with a quota can be made here");
    };
    pg.pids().into_iter().for_each(|pid| group.take(pid));
    let args = run(&["--measure", "3s", "--set", "prepare.restore=false", "--server", &target]);
    place.run(&args).expect(0);
    let words =
        ["the server's control group /pgdyno-test-", "may use 10 % of a processor's time", "throttled in"];
    expect(&runs(&place, "out")[&1], "cpu-quota", &words);
}

#[test]
fn a_quota_of_pgdyno_with_our_own_server_is_noticed() {
    let Ok(group) = QuotaGroup::new(0.5) else {
        return tell("skipped: no control group with a quota can be made here");
    };
    let place = Place::new();
    let bin_dir = bin_dir().display().to_string();
    let args = run(&["--measure", "3s", "--bin-dir", &bin_dir]).join(" ");
    let line = format!(
        "echo $$ > {}/cgroup.procs; exec {} {args} --set run.repeat_disturbed=0",
        group.path().display(),
        env!("CARGO_BIN_EXE_pgdyno")
    );
    place.start(place.command_of("sh".as_ref(), &["-c", &line])).wait().expect(0);
    expect(&runs(&place, "out")[&1], "cpu-quota", &["may use 50 % of a processor's time", "throttled in"]);
}

#[test]
fn every_autovacuum_on_a_server_by_url_is_counted() {
    let place = Place::new();
    let (pg, database, target) = server(&place);
    let mut admin = pg.admin(&database);
    admin.execute("alter system set autovacuum_naptime = '1s'").unwrap();
    admin.execute("select pg_reload_conf()").unwrap();
    for table in ["pgbench_tellers", "pgbench_branches"] {
        let often = "autovacuum_vacuum_threshold = 1, autovacuum_vacuum_scale_factor = 0";
        admin.execute(&format!("alter table {table} set ({often})")).unwrap();
    }
    let count = || -> u64 {
        let sql = "select sum(autovacuum_count) from pg_stat_all_tables where relname like 'pgbench%'";
        pg.ask(&database, sql).parse().unwrap()
    };
    let before = count();
    let args =
        ["run", "-s", "1", "-c", "2", "--ramp-up", "1s", "--repeats", "1", "-o", "out", "--measure", "6s"];
    let more = [PACE, "--set", "prepare.restore=false", "--set", "prepare.settle=false", "--server", &target];
    place.run(&[&args[..], &more].concat()).expect(0);
    wait_until("a vacuum", || count() > before);
    let counted = place.first_run("out").events.into_iter().filter(|event| {
        event.detail.get("what").is_some_and(|what| what == "autovacuum")
            && event.detail["table"].contains("pgbench_")
    });
    let counted: f64 = counted.filter_map(|event| event.number("n")).sum();
    // A vacuum per second and database, and more before and after the load.
    assert!(counted >= 4.0 && counted <= (count() - before) as f64, "{counted} of {}", count() - before);
    expect(&runs(&place, "out")[&1], "autovacuum-in-window", &["times during the measurement"]);
}
