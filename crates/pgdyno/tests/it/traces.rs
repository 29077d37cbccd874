//! Replays of traces: the sessions of a log come back in their order, at their pace, and leave the data that the source had.

use std::fs;
use std::process::Stdio;

use model::load::drive::Done;
use model::load::replayed::ReplayedTrace;
use testbed::{ClusterOptions, TestServer};

use crate::tool::{Ended, Place, expect_found, expect_sound, wait_until};

const SETTINGS: &[&str] = &[
    "logging_collector=on",
    "log_destination=csvlog",
    "log_filename=run.log",
    "log_rotation_age=0",
    "log_rotation_size=0",
    "autovacuum=off",
];
/// Which of two writers of a teller was last, the balance shows: what is set is no sum.
const SETS: &str = "\\set tid random(1, 10)\n\\set value random(1, 1000000)\nUPDATE pgbench_tellers SET tbalance = :value WHERE tid = :tid;\n";
/// It fails at the source, too.
const FAILS: &str = "INSERT INTO pgbench_branches (bid, bbalance) VALUES (1, 0);\n";
const N_EACH: u64 = 40;
/// Transactions without parameters.
const N_SIMPLE: u64 = 20;
const N_CLIENTS: u64 = 4;

/// A server with a log of pgbench in its database `source`, and `copy` with the data from before.
struct Source {
    server: TestServer,
    place: Place,
}

impl Source {
    fn start() -> Source {
        let server = TestServer::start(&ClusterOptions { settings: SETTINGS, ..ClusterOptions::default() });
        let place = Place::new();
        server.execute("postgres", "create role app login");
        server.execute("postgres", "create database source owner app");
        let pgbench = || {
            let mut pgbench = server.client("pgbench", "source");
            pgbench.env("PGUSER", "app");
            pgbench
        };
        testbed::run(pgbench().args(["-i", "-s", "1", "-q"]));
        server.execute("postgres", "create database copy template source owner app");
        server.execute("postgres", "alter role app in database source set log_min_duration_statement = 0");
        let sets = place.write("sets.sql", SETS).display().to_string();
        let fails = place.write("fails.sql", FAILS).display().to_string();
        let n = N_EACH.to_string();
        let load = [
            "-n",
            "-c4",
            "-j2",
            "-Mprepared",
            "-t",
            &n,
            "-R80",
            "-b",
            "tpcb-like@1",
            "-f",
            &format!("{sets}@1"),
        ];
        testbed::run(pgbench().args(load));
        let each = (N_SIMPLE / 2).to_string();
        testbed::run(pgbench().args(["-n", "-c2", "-t", &each, "-Msimple", "-R80", "-f", &sets]));
        let mut failing = pgbench();
        failing.args(["-n", "-t1", "-Mprepared", "-f", &fails]).stdout(Stdio::null()).stderr(Stdio::null());
        failing.status().unwrap();
        let log = server.path("data/log/run.csv");
        // The collector writes when it can.
        wait_until("the last line of the log", || fs::read_to_string(&log).unwrap().contains("23505"));
        fs::copy(&log, place.path("run.csv")).unwrap();
        Source { server, place }
    }

    fn target(&self) -> String {
        format!("host={} port={} user=app dbname=copy", self.server.dir().display(), self.server.port)
    }

    fn run(&self, args: &str) -> Ended {
        let target = self.target();
        let quick = "--repeats 1 --this-is-a-copy --set prepare.settle=false --set prepare.prewarm=false";
        let words = args.split_whitespace().chain(quick.split(' '));
        let args: Vec<&str> = ["run", "-w", "./shop", "--replay", "trace", "--server", &target]
            .into_iter()
            .chain(words)
            .collect();
        self.place.run(&args)
    }

    fn done(&self, out: &str) -> (Done, ReplayedTrace) {
        let done = self.place.first_run(out).record.done.unwrap();
        let replayed = done.replayed.clone().unwrap();
        assert!(replayed.identity_holds() && replayed.n_in_trace > N_EACH * N_CLIENTS, "{replayed:?}");
        (done, replayed)
    }

    /// How many statements the log has of a database that were texts with this beginning, and no prepared ones.
    fn n_texts(&self, database: &str, begin: &str) -> usize {
        let log = fs::read_to_string(self.server.path("data/log/run.csv")).unwrap();
        let of_database = log.lines().filter(|line| line.contains(&format!(",\"{database}\",")));
        of_database.filter(|line| line.contains(&format!("  statement: {begin}"))).count()
    }

    /// All that the load can change, but the times of the history.
    fn state(&self, database: &str) -> String {
        let sql = "select concat_ws(' ', (select sum(abalance) from pgbench_accounts), \
                   (select md5(string_agg(aid || ':' || abalance, ',' order by aid)) from pgbench_accounts where abalance <> 0), \
                   (select string_agg(tid || ':' || tbalance, ',' order by tid) from pgbench_tellers), \
                   (select string_agg(bid || ':' || bbalance, ',' order by bid) from pgbench_branches), \
                   (select md5(string_agg(h::text, ',' order by h::text)) from (select tid, bid, aid, delta from pgbench_history) h))";
        self.server.ask(database, sql)
    }
}

#[test]
fn a_trace_of_pgbench_leaves_the_data_of_the_source_and_nothing_diverges() {
    let source = Source::start();
    let args = [
        "capture",
        "log",
        "run.csv",
        "--database",
        "source",
        "--application",
        "pgbench",
        "--privacy",
        "values",
    ];
    let copy = source.server.admin_target("copy");
    let made =
        source.place.run(&[&args[..], &["--server", &copy, "--trace", "-o", "shop"]].concat()).expect(0);
    assert!(made.stdout.contains("`trace.zst` has"), "{}", made.stdout);
    assert_ne!(source.state("source"), source.state("copy"));
    // Literals of texts are values of the trace, and texts again when it is replayed.
    assert_eq!(source.n_texts("source", "UPDATE pgbench_tellers SET tbalance = "), N_SIMPLE as usize);

    // A session that only reads changes nothing: what writes is refused, and counted.
    source.run("-o reads --speed 20 --only-reads");
    let (done, replayed) = source.done("reads");
    assert!(replayed.n_refused > N_CLIENTS * N_EACH / 2, "{replayed:?}");
    assert_eq!((replayed.n_new_errors, done.counts.failed, done.counts.unknown), (0, 0, 0), "{replayed:?}");

    let plan = [
        "plan",
        "-w",
        "./shop",
        "--replay",
        "trace",
        "--speed",
        "3",
        "--server",
        &source.target(),
        "--this-is-a-copy",
    ];
    let planned = source.place.run(&plan).expect(0);
    assert!(planned.stdout.contains("3 times as fast"), "{}{}", planned.stdout, planned.stderr);
    source.server.execute("postgres", "alter role app in database copy set log_min_duration_statement = 0");
    source.run("-o out --speed 3");
    let run = source.place.first_run("out");
    expect_sound(&run);
    let replay = run.record.case.workload.directory.as_ref().unwrap().replay.clone().unwrap();
    let lasted_ns = run.record.done.as_ref().unwrap().end_unix_ns - run.record.go_unix_ns.unwrap();
    assert!(lasted_ns as f64 >= 0.9e9 * replay.length_s(), "{lasted_ns} ns of {replay:?}");
    let (done, replayed) = source.done("out");
    crate::tool::tell(&format!("{replayed:?}\n"));
    assert_eq!(replayed.n_diverged(), 0, "{replayed:?}");
    assert_eq!((done.counts.failed, replayed.n_same_errors, done.counts.expected), (0, 1, 1), "{replayed:?}");
    let n = N_CLIENTS * N_EACH + N_SIMPLE + 1;
    assert!((n..n + 10).contains(&replayed.n_transactions), "{replayed:?}");
    assert_eq!(done.counts.committed + 1, replayed.n_transactions);
    assert!(replayed.n_waits > 0 && replayed.n_waits_given_up == 0, "{replayed:?}");
    assert!(replayed.lag_us_max >= replayed.lag_us_p99 && replayed.lag_us_p99 >= replayed.lag_us_median);
    assert_eq!(source.state("source"), source.state("copy"));
    expect_found(&source.place, "out", &["trace-pace"]);
    wait_until("the texts in the log", || {
        source.n_texts("copy", "UPDATE pgbench_tellers SET tbalance = ") == N_SIMPLE as usize
    });

    // A table that takes no rows makes errors that the source did not have.
    source.server.execute("copy", "alter table pgbench_history add check (delta < -6000) not valid");
    source.run("-o diverged --speed 20");
    let (_, replayed) = source.done("diverged");
    assert!(replayed.n_new_errors > 0 && replayed.new_errors.contains_key("23514"), "{replayed:?}");
    expect_found(&source.place, "diverged", &["trace-diverged"]);
    source.place.expect_clean();
}

#[test]
fn a_trace_that_is_none_is_refused_with_its_file_and_line_and_so_is_what_it_cannot_follow() {
    let source = Source::start();
    let args = ["capture", "log", "run.csv", "--database", "source", "--application", "pgbench"];
    let capture = |out: &str, more: &[&str]| source.place.run(&[&args[..], &["-o", out], more].concat());
    capture("shop", &[]).expect(0);
    let refused = source.run("-o x").expect(1);
    assert!(refused.stderr.contains("`trace.zst` is missing"), "{}", refused.stderr);
    fs::remove_dir_all(source.place.path("shop")).unwrap();

    // Nobody sees the texts of a hashed trace.
    capture("shop", &["--trace"]).expect(0);
    let path = source.place.path("shop/trace.zst");
    let packed = fs::read(&path).unwrap();
    let text = String::from_utf8(zstd::decode_all(&packed[..]).unwrap()).unwrap();
    let last = text.trim_end().lines().count();
    let broken = |text: &str| fs::write(&path, zstd::encode_all(text.as_bytes(), 1).unwrap()).unwrap();
    let check = |args: &str, expected: &str| {
        let refused = source.run(args).expect(1);
        assert!(refused.stderr.contains(expected), "{expected}\n{}", refused.stderr);
    };
    broken(&format!("{}\n", text.trim_end().rsplit_once(',').unwrap().0));
    check("-o x", &format!("shop/trace.zst: line {last}: is not a transaction"));
    broken(&text.replacen("\"format\":1", "\"format\":9", 1));
    check("-o x", "shop/trace.zst: line 1: has format 9");
    fs::write(&path, "no zstd").unwrap();
    check("-o x", "shop/trace.zst: is no file of zstd");
    fs::write(&path, &packed).unwrap();
    check("-o x --pace 100/s", "a trace has its own pace");
    check("-o x -c 50", "it needs");
    check("-o x --speed 0", "is no speed");
    assert!(!source.place.path("x").exists());
    source.place.expect_clean();
}
