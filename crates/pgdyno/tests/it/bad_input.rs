//! Bad input: each line says what is wrong and what to do, on standard error, with exit code 1, and leaves nothing.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpListener;
use std::process::Stdio;

use testbed::{PASSWORD, Pg, unused_port};

use crate::tool::Place;

/// Runs pgdyno with `line` split at blanks (`~` stands for a blank within an argument), which must fail with all of
/// `expected` in its message.
#[track_caller]
fn check(place: &Place, line: &str, expected: &[&str]) {
    let words: Vec<String> = line.split_whitespace().map(|word| word.replace('~', " ")).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let before = files(place);
    let ended = place.run(&words);
    assert_eq!(ended.code(), Some(1), "{line}\n{ended:?}");
    assert_eq!(ended.stdout, "", "{line}");
    for part in expected {
        assert!(ended.stderr.contains(part), "{line}\nexpected: {part}\n{}", ended.stderr);
    }
    assert!(!ended.stderr.contains(PASSWORD) && !ended.stderr.contains("panicked"), "{}", ended.stderr);
    assert_eq!(files(place), before, "{line} leaves nothing behind");
}

/// The files in the place, except for the cache.
fn files(place: &Place) -> Vec<String> {
    let entries = fs::read_dir(place.path("")).unwrap().flatten();
    let mut names: Vec<String> = entries.map(|entry| entry.file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[test]
fn typing_errors_are_reported_with_a_hint() {
    let place = Place::new();
    fs::create_dir(place.path("photos")).unwrap();
    place.write("photos/a.txt", "mine");
    place.write("key.toml", "[experiment]\nname = \"x\"\n[workload]\nclinets = 1\n");
    place.write("type.toml", "[experiment]\nname = \"x\"\nrepeats = \"three\"\n");
    place.write("torn.toml", "[experiment\n");
    let check = |line: &str, expected: &[&str]| check(&place, line, expected);
    check("rnu", &["unrecognized subcommand 'rnu'", "'run'"]);
    check("", &["Usage: pgdyno <COMMAND>"]);
    check("run --clinets 1", &["unexpected argument '--clinets'", "'--clients'"]);
    check("run --clients ten", &["--clients", "`ten` is not a number (example: --clients 1,16,64)"]);
    check("run --clients 0", &["--clients", "0 is not in 1..100000"]);
    check("run --measure 30", &["--measure 30: `30` needs a unit: write `30s` or `30min`"]);
    check("run --measure 1s", &["--measure 1s: 1s is too short; give at least 2s"]);
    check("run --pace 0/s", &["--pace 0/s", "must be above 0"]);
    check("run --pace fast", &["`fast` is not a pace; examples: closed, 2000/s"]);
    check("run -M fast", &["--protocol fast", "`simple`, `extended`, `prepared`"]);
    check("run -w tpcx", &["--workload tpcx", "did you mean `tpcc`", "the directories oltp, ycsb"]);
    check("run --scale 0", &["--scale 0: scale 0 is not in 1..1000000"]);
    check("run --repeats 0", &["'--repeats <N>': 0 is not in 1..1000"]);
    check("run --set experiment.repeats=0", &["--set experiment.repeats=0: 0 is not in 1..1000"]);
    check(
        "run --set workload.clinets=3",
        &["--set workload.clinets=3: unknown field `clinets`", "`clients`"],
    );
    check("run --set scale", &["has no `=`"]);
    check("run key.toml -o out", &["key.toml:4:1: unknown field `clinets`", "`clients`", "clinets = 1\n  ^"]);
    check("run type.toml", &["type.toml:3:11: invalid type: string \"three\", expected a whole number"]);
    check("run torn.toml", &["torn.toml:1:"]);
    check("run missing.toml", &["cannot read the experiment file `missing.toml`: No such file"]);
    check(
        "run quikc",
        &[
            "no experiment `quikc`: it is neither a file nor built in (quick, scripts, versions, standby-cost, pooler, failover, m5-metal, piops, ",
        ],
    );
    check(
        "run -o photos",
        &["`photos` contains files that pgdyno did not write (a.txt); choose an empty directory"],
    );
    check("report photos", &["`photos` is not the directory of an experiment"]);
    check("report nowhere", &["`nowhere` is not the directory of an experiment"]);
    check("check", &["no embedded server with such data", "--server"]);
    check(
        "init --workload tpcx",
        &["--workload: `tpcx` is no workload; did you mean `tpc", "the directories oltp, ycsb, "],
    );
    let long = "x".repeat(64);
    check(
        &format!("init --create-database --server postgres://localhost/{long}"),
        &["has 64 bytes; PostgreSQL takes at most 63"],
    );
    check("server remove NOSUCH", &["there is no cluster `NOSUCH`"]);
    check("server remove --force NOSUCH", &["there is no cluster `NOSUCH`"]);
    assert!(!place.path("cache/clusters/NOSUCH.lock").exists());
    check("init --scale x", &["--scale: `x` is not a scale"]);
}

#[test]
fn values_below_the_lowest_are_refused_with_the_lowest() {
    let place = Place::new();
    let check = |line: &str, expected: &[&str]| check(&place, line, expected);
    check("run --scale 1,000", &["--scale 1,000: `000` begins with 0", "write 1000 for 1,000"]);
    check("run -c 1,000", &["`000` begins with 0: commas separate levels here; write 1000 for 1,000"]);
    check("run -c -4", &["'--clients <N,...>': -4 is not in 1..100000"]);
    check("run --threads -1", &["'--threads <N,...>': -1 is not in 1..100000"]);
    check("run --threads 0", &["0 is not in 1..100000"]);
    check("run --scale -3", &["--scale -3: scale -3 is not in 1..1000000"]);
    check("run --repeats -1", &["-1 is not in 1..1000"]);
    check("run --measure 0", &["--measure 0: 0s is too short; give at least 2s"]);
    check("run --measure -5s", &["--measure -5s: `-5s` is below 0"]);
    check("run --ramp-up -1", &["--ramp-up -1: `-1` is below 0"]);
    check("run --pace -5/s", &["--pace -5/s", "must be above 0"]);
    check("init --partitions -1", &["-1 is not in 0..10000"]);
    check("init --streams 0", &["0 is not in 1..256"]);
    check("init --scale -1", &["--scale: scale -1 is not in 1..1000000"]);
    check("compare --aa --pairs -1", &["-1 is too few"]);
    check("compare --aa --time 0", &["'--time <TIME>': `0` is too short"]);
    check("compare --aa --margin -1%", &["`-1%` is not a share above 0"]);
    check("why results --time 0s", &["'--time <TIME>': `0s` is too short"]);
    place.write("below.toml", "[experiment]\nname = \"x\"\n[workload]\nclients = -4\n");
    check("run below.toml", &["below.toml:4:11: `-4` is below 0; expected a whole number from 0 up"]);
    place.write("headless.toml", "[workload]\nclients = 4\n");
    check(
        "run headless.toml",
        &["headless.toml:1:1: missing field `experiment`; begin the file with `[experiment]`"],
    );
    place.write("bad.sql", "select 1;\n\\sett x 1\n");
    check("run -f bad.sql", &["pgdyno: error: workload.scripts: bad.sql:2: invalid command"]);
}

#[test]
fn impossible_versions_and_settings_are_reported() {
    let place = Place::with_binaries(&["18"]);
    let check = |line: &str, expected: &[&str]| check(&place, line, expected);
    check(
        "run -o out --version 8.4",
        &["--version 8.4: version `8.4` is older than 9.4, the oldest supported"],
    );
    check("run -o out --version abc", &["`abc` is not a PostgreSQL version"]);
    check("run -o out --version 19", &["no server binaries for `19`", "9.6, 10, 11", "18"]);
    check("run -o out --version 12 --server x", &["'--version", "cannot be used with '--server"]);
    // This fetches nothing.
    check(
        "run -o out --version 10 --set workload.partitions=2",
        &["partitions with a primary key need PostgreSQL 11; the server is version 10"],
    );
    check(
        "run -o out --version 9.6 -w tpcc --set workload.calls=procedures",
        &["procedures need PostgreSQL 11; the server is version 9.6", "workload.calls = \"functions\""],
    );
    let planned = place.run(&["plan", "-c", "1", "--version", "18,19"]).expect(1);
    assert!(planned.stdout.contains("problem case 2: no server binaries for `19`"), "{}", planned.stdout);
    let many = ["100000 clients with at least 2.00 MiB each", "GiB; lower workload.clients"];
    check("run -o out --scale 1 -c 100000", &many);
    let planned = place.run(&["plan", "--scale", "1", "-c", "1,100000"]).expect(1);
    assert!(planned.stdout.contains("problem case 2: 100000 clients with at least"), "{}", planned.stdout);
    check("run -o out --bin-dir /nonexistent", &["`/nonexistent`", "directory that holds `postgres`"]);
    check("run -o out --bin-dir /proc", &["`/proc` has no `postgres`"]);

    let short = "run --scale 1 -c 50 -o out --set";
    check(&format!("{short} server.settings.port=1"), &["setting `port` cannot be chosen"]);
    check(
        &format!("{short} server.settings.shared_buffers=900TB"),
        &["900TB is more than the", "GiB of memory"],
    );
    check(
        &format!("{short} server.settings.max_connections=20"),
        &["50 clients and 5 connections", "need 55"],
    );
    let unknown = format!("{short} server.settings.shared_bufers=8GB");
    check(
        &unknown,
        &[
            "unrecognized configuration parameter \"shared_bufers\"",
            "FATAL:",
            "did you mean `shared_buffers`?",
        ],
    );
    // Also with existing data.
    place.run(&["init", "--scale", "1"]).expect(0);
    check(&unknown, &["unrecognized configuration parameter \"shared_bufers\"", "FATAL:"]);
    check(
        &format!("{short} server.settings.work_mem=many"),
        &["invalid value for parameter \"work_mem\"", "FATAL:"],
    );
    place.expect_clean();
}

#[test]
fn unreachable_servers_are_reported() {
    let (place, pg) = (Place::new(), Pg::shared());
    let check = |target: &str, expected: &[&str]| {
        check(&place, &format!("run --scale 1 -c 1 -o out --server {target}"), expected);
    };
    let port = pg.port;
    let unused = unused_port();
    check(
        &format!("postgres://bench@127.0.0.1:{unused}/x"),
        &[&format!("no server at `127.0.0.1:{unused}`"), "is the port right"],
    );
    check("postgres://bench@dbhots.invalid/x", &["cannot resolve host `dbhots.invalid`"]);
    check("postgres//host/db", &["not a URL: missing \":\" after \"postgres\""]);
    check(&format!("postgres://u:{PASSWORD}@h:99999/db"), &["port 99999 is not in 1..65535"]);
    check("http://127.0.0.1/", &["a PostgreSQL URL starts with `postgres://`"]);
    check(
        &format!("postgres://bench:wrong@127.0.0.1:{port}/postgres"),
        &["refused user `bench` (28P01)", "the password came from the connection string"],
    );
    check(&format!("postgres://bench@127.0.0.1:{port}/postgres"), &["password", "PGPASSWORD"]);
    check(
        &format!("postgres://bench:{PASSWORD}@127.0.0.1:{port}/bnech"),
        &["database `bnech` does not exist"],
    );
    check(&format!("postgres://eve:x@127.0.0.1:{port}/postgres"), &["eve", "28000"]);
    let socket = pg.admin_target("postgres").replace(' ', "~");
    check(&format!("{socket}~nonsense=1"), &["nonsense"]);
    for (set, expected) in [
        ("server.data_checksums=true", "a server given by URL keeps its own"),
        ("server.settings.port=1", "clients reach the server by it"),
        ("server.settings.work_mem=1MB", "put back at the end, only with --allow-changes"),
    ] {
        check(&format!("{socket} --set {set}"), &[expected]);
    }
    check(
        &format!("postgres://u@127.0.0.1:{}/x", web_server()),
        &["does not speak PostgreSQL's protocol", "HTTP port?"],
    );

    // Contradictions are reported without connecting to a server.
    place.write(
        "both.toml",
        "[experiment]\nname = \"x\"\n[server]\nversion = \"18\"\nurl = \"host=dbhots.invalid\"\n",
    );
    super::bad_input::check(&place, "run both.toml", &["give one of version, bin_dir, source and url"]);

    let database = pg.database();
    let socket = pg.admin_target(&database).replace(' ', "~");
    place.run(&["init", "--server", &pg.admin_target(&database), "--scale", "1"]).expect(0);
    // Also when only one of the cases does not fit.
    let as_is = "--set prepare.restore=false";
    check(
        &format!("{socket} -c 99 {as_is}"),
        &[
            "99 clients need 101 connections; the server has",
            "max_connections 40",
            " fit: lower workload.clients (--clients), or raise max_connections",
        ],
    );
    assert_eq!(place.processes(), Vec::<i32>::new());
}

#[test]
fn results_that_cannot_be_written_are_a_failure() {
    let place = Place::new();
    let plan =
        |stdout: Stdio| place.command(&["plan"]).stdout(stdout).stderr(Stdio::piped()).output().unwrap();
    let full = fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    let output = plan(full.into());
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&output.stderr).contains("No space left on device"));
    // It is no failure if the reader of a pipe stops early.
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    assert_eq!(plan(writer.into()).status.code(), Some(0));
    if !nix::unistd::geteuid().is_root() {
        check(&place, "run -o /proc/nothing", &["cannot create directory"]);
    }
    check(&place, "run -o /dev/null/out", &["cannot create directory `/dev/null/out`"]);
}

/// A port that answers one client as a web server does.
fn web_server() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for mut visitor in listener.incoming().flatten() {
            let _ = visitor.read(&mut [0; 8]);
            let _ = visitor.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n");
        }
    });
    port
}

#[test]
fn a_byte_order_mark_is_no_part_of_a_text() {
    let place = Place::with_binaries(&["18"]);
    let mark = "\u{feff}";
    place.write("own.sql", &format!("{mark}select 1;\n"));
    place.write("table.sql", &format!("{mark}create table t (id int);\n"));
    place.write("hosts", &format!("{mark}ssh:db1\n"));
    place.write(
        "marked.toml",
        &format!(
            "{mark}[experiment]\nname = \"x\"\n[workload]\nkind = \"scripts\"\ndata = {{files = [\"table.sql\"]}}\nscripts = [\"own.sql\"]\nclinets = 1\n"
        ),
    );
    // Positions are those that an editor shows.
    check(&place, "plan marked.toml", &["marked.toml:7:1: unknown field `clinets`"]);
    let text = fs::read_to_string(place.path("marked.toml")).unwrap();
    place.write("marked.toml", &text.replace("clinets = 1\n", ""));
    place.run(&["plan", "marked.toml"]).expect(0);
    place.write("bad.sql", &format!("{mark}\\set i 1 +\n"));
    check(&place, "run -f bad.sql", &["bad.sql:1:11: syntax error"]);
    // Nobody answers there, which the plan says.
    let planned = place.run(&["plan", "--driver", "@hosts"]).expect(1);
    assert!(
        planned.stdout.contains("driven from db1") && !planned.stdout.contains(mark),
        "{}",
        planned.stdout
    );
}

#[test]
fn what_is_printed_as_a_time_is_taken_as_one() {
    let place = Place::with_binaries(&["18"]);
    for time in ["2min30s", "2 min 30 s", "150s", "2.5min"] {
        let planned = place.run(&["plan", "--measure", time, "--repeats", "1"]).expect(0);
        assert!(planned.stdout.contains("measure 150 s"), "{time}: {}", planned.stdout);
    }
}

#[test]
fn an_experiment_that_is_there_is_resumed_or_another_directory_chosen() {
    let place = Place::new();
    crate::formats::unpack(&place, &crate::formats::newest(), "run");
    check(
        &place,
        "run -o results/run",
        &[
            "`results/run` already contains an experiment; go on with it by `pgdyno run --resume results/run`, or choose a \
             new or empty directory for another one",
        ],
    );
}

#[test]
fn init_loads_the_tables_that_a_workload_shares() {
    let (place, pg) = (Place::new(), Pg::shared());
    for (workload, tables) in [("tpcb-select", "tpcb"), ("simple-update", "tpcb"), ("tpcb", "tpcb")] {
        let target = pg.admin_target(&pg.database());
        let ended = place.run(&["init", "--server", &target, "--scale", "1", "-w", workload]).expect(0);
        let said = format!("workload `{workload}` runs on the tables of `{tables}`");
        assert_eq!(ended.stderr.contains(&said), workload != tables, "{}", ended.stderr);
        assert!(ended.stdout.contains("loaded scale 1: 100,011 rows"), "{}", ended.stdout);
        place.run(&["check", "--server", &target]).expect(0);
    }
}
