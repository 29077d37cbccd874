//! Round trips: a known load is logged as `capture plan` says, captured, checked against what is known of it, and run again on the data that
//! it began with. That replay has to be faithful to it.

use std::fs;
use std::path::Path;
use std::process::Stdio;

use capture::statistics::SourceStatistics;
use model::run::RunData;
use serde_json::{Value, json};
use testbed::{ClusterOptions, TestServer};

use crate::tool::{Place, bin_dir_of, expect_sound, wait_until};

/// The role of the loads, which owns their databases and nothing else.
const ROLE: &str = "app";
/// What the lines of a text begin with: also the program, which tells the load from those that watch it.
const PREFIX: &str = "%m [%p] %c %v %x %q%u@%d %a ";
/// How a run is kept short: it measures nothing that anybody compares.
const QUICK: [&str; 6] = [
    "--repeats=1",
    "--ramp-up=0s",
    "--set=prepare.settle=false",
    "--set=prepare.prewarm=false",
    "--this-is-a-copy",
    "--quiet",
];

/// A server that logs in one format, with the database of a load and a copy of it from before the load.
struct Source {
    place: Place,
    server: TestServer,
    /// The log's file below the server's directory; `None`: its standard error.
    log: Option<&'static str>,
}

/// A directory that was captured, and what the capture says of it.
struct Captured {
    summary: Value,
}

impl Source {
    /// Starts a server, with data that `fill` puts into its database `source`.
    fn start(destination: &str, fill: impl FnOnce(&Source)) -> Source {
        Source::start_on(None, destination, fill)
    }

    /// The same on the release whose programs are in a directory.
    fn start_on(bin_dir: Option<&Path>, destination: &str, fill: impl FnOnce(&Source)) -> Source {
        let destination_setting = format!("log_destination={destination}");
        let prefix_setting = format!("log_line_prefix={PREFIX}");
        let collector =
            if destination == "stderr" { "logging_collector=off" } else { "logging_collector=on" };
        let settings = [
            "shared_preload_libraries=pg_stat_statements",
            "shared_buffers=32MB",
            collector,
            "log_filename=run.log",
            "log_rotation_age=0",
            "log_rotation_size=0",
            "autovacuum=off",
            &prefix_setting,
            &destination_setting,
        ];
        let options = ClusterOptions { settings: &settings, bin_dir, ..ClusterOptions::default() };
        let server = TestServer::start(&options);
        let log = match destination {
            "csvlog" => Some("data/log/run.csv"),
            "jsonlog" => Some("data/log/run.json"),
            _ => None,
        };
        let source = Source { place: Place::new(), server, log };
        source.server.execute("postgres", &format!("create role {ROLE} login"));
        source.server.execute("postgres", &format!("create database source owner {ROLE}"));
        // The owner of a schema could replace the functions in it.
        for sql in ["create schema ext", "create extension pg_stat_statements schema ext"] {
            source.server.execute("source", sql);
        }
        source.server.execute("source", &format!("grant usage on schema ext to {ROLE}"));
        fill(&source);
        source.server.execute("source", "vacuum analyze");
        source.server.execute("postgres", &format!("create database replay template source owner {ROLE}"));
        source
    }

    /// The connection string of the loads.
    fn target(&self, database: &str) -> String {
        format!(
            "host={} port={} user={ROLE} dbname={database}",
            self.server.dir().display(),
            self.server.port
        )
    }

    /// Does what the plan says.
    fn log_everything(&self) {
        let target = self.server.admin_target("postgres");
        let plan =
            self.place.run(&["capture", "plan", "--server", &target, "--for", "1s", "--json"]).expect(0);
        let plan: Value = serde_json::from_str(&plan.stdout).unwrap();
        let way = plan["ways"].as_array().unwrap().iter().find(|way| way["id"] == "full").unwrap();
        assert_eq!(way["missing"].as_array().unwrap().len(), 0, "{way}");
        for sql in way["do"].as_array().unwrap() {
            self.server.execute("postgres", sql.as_str().unwrap());
        }
        let sql = "select current_setting('log_min_duration_statement')";
        wait_until("everything is logged", || self.server.ask("postgres", sql) == "0");
    }

    /// Logs nothing anymore.
    fn log_nothing(&self) {
        self.server.execute("postgres", "alter system reset all");
        self.server.execute("postgres", "select pg_reload_conf()");
    }

    /// Reads the server's counters while a load is under way, into `stats.zst`.
    fn count(&self) {
        let target = self.server.admin_target("source");
        let args =
            ["capture", "stats", "--server", &target, "--for", "4s", "--every", "1s", "-o", "stats.zst"];
        self.place.run(&args).expect(0);
    }

    /// Captures what sessions with these options did, with values in clear.
    fn captured(&self, options: &[&str]) -> Captured {
        self.captured_as("values", options)
    }

    fn captured_as(&self, privacy: &str, options: &[&str]) -> Captured {
        let here = match self.log {
            Some(log) => {
                let here = self.place.path("log");
                fs::copy(self.server.path(log), &here).unwrap();
                here
            }
            None => self.place.write("log", &self.server.log()),
        };
        let file = fs::File::open(self.place.path("stats.zst")).unwrap();
        let (from_us, to_us) = SourceStatistics::read(file).unwrap().span_us.unwrap();
        // Microseconds of 1970 are what an instant in UTC is.
        let instant = |us: i64| {
            let sql = format!(
                "select to_char(timestamp '1970-01-01' + interval '1 us' * {us}, 'YYYY-MM-DD HH24:MI:SS.US')"
            );
            self.server.ask("postgres", &sql)
        };
        let window = format!("{}/{}", instant(from_us), instant(to_us));
        let copy = self.server.admin_target("replay");
        let args = ["capture", "log", here.to_str().unwrap(), "--stats", "stats.zst", "--privacy", privacy];
        let more =
            ["--window", &window, "--database", "source", "--server", &copy, "--json", "-o", "captured"];
        let made = self.place.run(&[&args[..], &more[..], options].concat()).expect(0);
        crate::tool::tell(&made.stderr);
        let checked = self.place.run(&["workload", "check", "./captured"]);
        assert_eq!(checked.code(), Some(0), "{}{}", checked.stdout, checked.stderr);
        Captured { summary: serde_json::from_str(&made.stdout).unwrap() }
    }

    /// Runs the captured directory on the copy, and returns how faithful that was.
    fn replayed(&self, length: &str) -> (RunData, Value) {
        let target = self.target("replay");
        let args =
            ["run", "-w", "./captured", "--server", &target, "-c2", "--measure", length, "-o", "replay"];
        self.place.run(&[&args[..], &QUICK[..]].concat()).expect(0);
        let shown = self.place.run(&["capture", "fidelity", "replay", "--json"]).expect(0);
        let shown: Value = serde_json::from_str(&shown.stdout).unwrap();
        (self.place.first_run("replay"), shown["runs"][0]["fidelity"].clone())
    }

    /// Fails unless a replay of this length is faithful.
    fn expect_faithful(&self, length: &str) {
        let (run, fidelity) = self.replayed(length);
        expect_sound(&run);
        let measures = fidelity["measures"].as_array().unwrap();
        for measure in measures {
            let expected: &[&str] = match measure["name"].as_str().unwrap() {
                // The machine has other things to do, these are few seconds, and a workload may have a single statement.
                "times" => &["faithful", "approximate", "unknown"],
                "arrivals" => &["unknown"],
                _ => &["faithful"],
            };
            assert!(expected.contains(&measure["grade"].as_str().unwrap()), "{fidelity:#}");
        }
        assert_eq!(measures.len(), 8, "{fidelity:#}");
        for statement in fidelity["statements"].as_array().unwrap() {
            assert_eq!(statement["fails"].as_array().unwrap().len(), 0, "{statement:#}");
        }
    }
}

impl Captured {
    fn templates(&self) -> &[Value] {
        self.summary["templates"].as_array().unwrap()
    }

    /// Number of statements of each template, and how often it was seen: the most frequent first.
    fn shapes(&self) -> Vec<(usize, u64)> {
        let shape = |one: &Value| (one["statements"].as_array().unwrap().len(), one["n"].as_u64().unwrap());
        let mut shapes: Vec<(usize, u64)> = self.templates().iter().map(shape).collect();
        shapes.sort_by_key(|(_, n)| std::cmp::Reverse(*n));
        shapes
    }
}

/// Whether `n` of `of` is within 99 % of the binomial distribution with this share (normal approximation).
#[track_caller]
fn expect_binomial(n: u64, of: u64, share: f64) {
    let of = of as f64;
    let limit = 2.576 * (of * share * (1.0 - share)).sqrt() + 1.0;
    assert!((n as f64 - share * of).abs() <= limit, "{n} of {of}, expected {share}");
}

/// Loads the tables of a built-in workload.
fn fill(source: &Source, workload: &str, scale: &str) {
    let target = source.target("source");
    source.place.run(&["init", "-w", workload, "-s", scale, "--server", &target]).expect(0);
}

/// Runs a workload at a rate on its database as it is, while all is logged and counted for 4 s.
fn load(source: &Source, workload: &[&str], protocol: &str, rate: u32) {
    source.log_everything();
    let target = source.target("source");
    let pace = format!("{rate}/s");
    let args = ["run", "--server", &target, "--no-restore", "--measure=6s", "-o", "load"];
    let more = ["--protocol", protocol, "--pace", &pace];
    let running =
        source.place.start(source.place.command(&[&args[..], &more[..], workload, &QUICK[..]].concat()));
    source.place.wait_for_load("load", 1);
    source.count();
    running.wait().expect(0);
    source.log_nothing();
    let run = source.place.first_run("load");
    assert_eq!(run.record.done.as_ref().unwrap().counts.failed, 0, "{:?}", run.record.done);
}

/// Runs pgbench, and counts for 4 s once statements like this one are executed.
fn pgbench(source: &Source, options: &[&str], statement: &str) {
    let mut pgbench = source.server.client("pgbench", "source");
    pgbench.env("PGUSER", ROLE).args(["-n", "-c2", "-T30"]).args(options);
    let mut load = pgbench.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let sql = format!(
        "select coalesce(sum(calls), 0) > 100 from ext.pg_stat_statements where query like '{statement}'"
    );
    wait_until("the load", || source.server.ask("source", &sql) == "t");
    source.count();
    load.kill().unwrap();
    load.wait().unwrap();
}

/// Fails unless so many transactions of 4 s at the rate are within 99 % of Poisson's distribution (normal approximation).
#[track_caller]
fn expect_rate(n: u64, rate: u32) {
    let expected = f64::from(4 * rate);
    // The readings of the counters are not 4 s apart to the millisecond.
    let limit = 2.576 * expected.sqrt() + 0.02 * expected;
    assert!((n as f64 - expected).abs() <= limit, "{n} transactions instead of {expected}");
}

#[test]
fn transactions_of_sysbench_come_back_from_csv() {
    let source = Source::start("csvlog", |source| fill(source, "oltp", "10"));
    // Of two clients, one would sometimes insert a key that the other has just inserted.
    load(&source, &["-w", "oltp", "-s10", "-c1"], "prepared", 45);
    let captured = source.captured(&["--user", ROLE, "--application", "pgdyno"]);
    // 18 statements within BEGIN and COMMIT.
    let shapes = captured.shapes();
    assert!(matches!(shapes[..], [(20, _)]), "{shapes:?}");
    expect_rate(shapes[0].1, 45);
    assert_eq!(captured.summary["protocol"], "prepared");
    // Updated rows are found elsewhere, so that ranges become dearer with time: the replay is as old, on average, as the load was.
    source.expect_faithful("7s");
}

#[test]
fn jobs_of_a_queue_come_back_from_json() {
    let source = Source::start("jsonlog", |source| fill(source, "queue", "1"));
    load(&source, &["-w", "queue", "-s1", "-c2"], "extended", 150);
    let captured = source.captured(&["--user", ROLE, "--application", "pgdyno"]);
    // Producers insert one row; workers take one, note it, and commit.
    let shapes = captured.shapes();
    let n =
        |n_statements: usize| shapes.iter().filter(|one| one.0 == n_statements).map(|one| one.1).sum::<u64>();
    assert_eq!(shapes.len(), 2, "{shapes:?}");
    expect_binomial(n(1), n(1) + n(5), 0.5);
    expect_rate(n(1) + n(5), 150);
    assert_eq!(captured.summary["protocol"], "extended");
    // Each captured job can be done once.
    source.expect_faithful("3s");
}

#[test]
fn accounts_of_tpcb_come_back_from_text_of_an_older_release() {
    let programs = bin_dir_of("12");
    let source = Source::start_on(Some(&programs), "stderr", |source| fill(source, "tpcb", "1"));
    load(&source, &["-w", "tpcb", "-s1", "-c2"], "simple", 150);
    let captured = source.captured(&["--user", ROLE, "--application", "pgdyno", "--prefix", PREFIX]);
    let shapes = captured.shapes();
    assert!(matches!(shapes[..], [(7, _)]), "{shapes:?}");
    expect_rate(shapes[0].1, 150);
    assert_eq!(captured.summary["protocol"], "simple");
    // Before 15 a copied database begins on disk alone: its first reads count less in a longer replay.
    source.expect_faithful("7s");
}

#[test]
fn skewed_keys_come_back_with_their_exponent() {
    let source = Source::start("csvlog", |source| fill(source, "tpcb", "1"));
    let text =
        "\\set aid random_zipfian(1, 100000, 1.2)\nSELECT abalance FROM pgbench_accounts WHERE aid = :aid;\n";
    source.place.write("zipf.sql", text);
    let script = source.place.path("zipf.sql").display().to_string();
    source.log_everything();
    pgbench(&source, &["-Mprepared", "-R5000", "-f", &script], "SELECT abalance%");
    source.log_nothing();
    let captured = source.captured(&["--user", ROLE, "--application", "pgbench"]);
    let shapes = captured.shapes();
    assert!(matches!(shapes[..], [(1, 10_000..)]), "{shapes:?}");
    let key = &captured.templates()[0]["variables"][0];
    let exponent = key["zipf_exponent"].as_f64().unwrap();
    assert!((exponent / 1.2 - 1.0).abs() < 0.05, "{key}");
    assert_eq!((&key["role"], &key["column"]), (&json!("key"), &json!("pgbench_accounts.aid")));
    source.expect_faithful("3s");
}

#[test]
fn counters_alone_give_an_approximation_of_what_each_statement_does() {
    let source = Source::start("csvlog", |source| fill(source, "tpcb", "1"));
    pgbench(&source, &["-Msimple", "-R150", "-btpcb-like"], "UPDATE pgbench_tellers%");
    let copy = source.server.admin_target("replay");
    let args =
        ["capture", "statements", "stats.zst", "--privacy", "values", "--server", &copy, "-o", "captured"];
    let made = source.place.run(&args).expect(0);
    for part in ["approximate at best", ":aid key of pgbench_accounts.aid", "which ones belonged together"] {
        assert!(made.stdout.contains(part), "{part}\n{}\n{}", made.stdout, made.stderr);
    }
    let shown = source.place.run(&["capture", "show", "captured", "--json"]).expect(0);
    let summary: Value = serde_json::from_str(&shown.stdout).unwrap();
    let rate_of = |name: &str| {
        let template = summary["templates"].as_array().unwrap().iter().find(|one| one["name"] == name);
        template.unwrap_or_else(|| panic!("no {name}: {summary:#}"))["rate"].as_f64().unwrap()
    };
    for name in ["update-pgbench-tellers", "update-pgbench-branches", "insert-pgbench-history"] {
        // Four seconds.
        expect_rate((4.0 * rate_of(name)).round() as u64, 150);
    }
    let left_out = summary["left_out"].as_array().unwrap();
    assert!(left_out.iter().any(|one| one["reason"] == "frame"), "{summary:#}");
    let readme = fs::read_to_string(source.place.path("captured/README.md")).unwrap();
    assert!(readme.contains("This is no capture of transactions"), "{readme}");

    let (run, fidelity) = source.replayed("6s");
    expect_sound(&run);
    for measure in fidelity["measures"].as_array().unwrap() {
        // Memory and time depend on what the load has done before, and on what else the machine does.
        if ["coverage", "mix", "rows", "errors"].contains(&measure["name"].as_str().unwrap()) {
            assert_eq!(measure["grade"], "faithful", "{fidelity:#}");
        }
    }
    assert_ne!(
        fidelity["grade"], "faithful",
        "nobody knows which statements belonged together: {fidelity:#}"
    );

    let refused =
        source.place.run(&["capture", "statements", "nothing", "--server", &copy, "-o", "x"]).expect(1);
    assert!(refused.stderr.contains("cannot read `nothing`"), "{}", refused.stderr);
}

#[test]
fn a_hashed_sample_of_one_transaction_in_a_hundred_comes_back_on_another_release_at_the_rates_of_the_counters()
 {
    /// It is a parameter, as a person's name would be.
    const PERSONAL: &str = "quagga-owner";
    let programs = bin_dir_of("18");
    let source = Source::start_on(Some(&programs), "csvlog", |source| fill(source, "tpcb", "1"));
    let pay = "\\set aid random(1, 100000)\n\\set delta random(1, 9)\nBEGIN;\n\
               UPDATE pgbench_accounts SET abalance = abalance + :delta WHERE aid = :aid;\n\
               INSERT INTO pgbench_history (tid, bid, aid, delta, mtime, filler) VALUES (1, 1, :aid, :delta, now(), :owner);\nEND;\n";
    let look = "\\set aid random(1, 100000)\nSELECT abalance FROM pgbench_accounts WHERE aid = :aid;\n";
    let scripts = [("pay.sql", pay, 1), ("look.sql", look, 1)];
    let scripts =
        scripts.map(|(name, text, weight)| format!("{}@{weight}", source.place.write(name, text).display()));
    source.server.execute("postgres", "alter system set log_transaction_sample_rate = 0.01");
    source.server.execute("postgres", "select pg_reload_conf()");
    let owner = format!("owner={PERSONAL}");
    let options = ["-Mprepared", "-R2000", "-D", &owner, "-f", &scripts[0], "-f", &scripts[1]];
    pgbench(&source, &options, "SELECT abalance%");
    source.log_nothing();

    let captured = source.captured_as("hashed", &["--user", ROLE, "--application", "pgbench"]);
    let shapes = captured.shapes();
    let n = |n_statements: usize| shapes.iter().find(|one| one.0 == n_statements).map_or(0, |one| one.1);
    assert_eq!(shapes.len(), 2, "{shapes:?}");
    // Half of the load is each kind, which so few sampled transactions would tell to 50 %, and the counters to 5 %.
    let rate = |n_statements: usize| {
        let of = |one: &&Value| one["statements"].as_array().unwrap().len() == n_statements;
        captured.templates().iter().find(of).unwrap()["rate"].as_f64().unwrap()
    };
    let ratio = rate(1) / rate(4);
    assert!((0.93..1.07).contains(&ratio), "{ratio} from {shapes:?}");
    let n_all = (4.0 * (rate(1) + rate(4))).round() as u64;
    expect_binomial(n(1) + n(4), n_all, 0.01);
    assert_eq!(captured.summary["privacy"], "hashed");
    assert!(captured.summary["values_masked"].as_u64().unwrap() > 0, "{:#}", captured.summary);
    expect_nowhere(&source.place.path("captured"), PERSONAL);
    // Selects clean up behind updates, the more the longer the load has run: the replay is as old, on average, as the load was.
    source.expect_faithful("7s");
}

/// Fails if a file of a directory has a text, packed or not.
fn expect_nowhere(dir: &Path, text: &str) {
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            expect_nowhere(&path, text);
            continue;
        }
        let bytes = fs::read(&path).unwrap();
        let unpacked = zstd::decode_all(&bytes[..]).unwrap_or(bytes);
        let is_there = unpacked.windows(text.len()).any(|part| part == text.as_bytes());
        assert!(!is_there, "{} has captured values", path.display());
    }
}
