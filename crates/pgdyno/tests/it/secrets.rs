//! A password put into every place that can hold one is found in nothing that pgdyno writes, prints or passes on.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use model::experiment::plan::RunState;
use nix::sys::signal::{Signal, kill};
use nix::unistd::{Pid, User, chown, geteuid};
use testbed::Pg;

use crate::tool::{Ended, PACE, Place, Running, tell};

const CANARY: &str = "S3cretPw-canary";

/// An experiment on an embedded server, with the canary in its description, its settings and its script.
const EXPERIMENT: &str = r#"
[experiment]
name = "canary"
description = "as postgres://u:S3cretPw-canary@h/d does"
repeats = 1
[server]
bin_dir = "/usr/lib/postgresql/15/bin"
[server.settings]
shared_buffers = "64MB"
log_statement = "all"
primary_conninfo = "host=127.0.0.1 port=1 password='S3cretPw-canary'"
archive_command = "PGPASSWORD=S3cretPw-canary /bin/true"
restore_command = "curl -u u:S3cretPw-canary http://h/%f"
[workload]
kind = "scripts"
data = "none"
scripts = ["role.sql", "one.sql@1000"]
[run]
ramp_up = "0s"
measure = "2s"
[prepare]
settle = false
"#;
const SCRIPT: &str = "ALTER ROLE postgres PASSWORD 'S3cretPw-canary';\n";

fn place() -> Place {
    let place = Place::new();
    place.write("canary.toml", EXPERIMENT);
    place.write("role.sql", SCRIPT);
    place.write("one.sql", "SELECT 1;\n");
    place
}

/// Where libpq would connect, as whom and how: nothing of it is meant for a server that pgdyno runs itself.
const NOT_FOR_OUR_SERVER: [(&str, &str); 10] = [
    ("PGHOST", "/nowhere"),
    ("PGPORT", "1"),
    ("PGUSER", "nobody"),
    ("PGDATABASE", "nowhere"),
    ("PGDATA", "/nowhere"),
    ("PGPASSWORD", CANARY),
    ("PGSERVICE", "nowhere"),
    ("PGSSLMODE", "verify-full"),
    ("PGOPTIONS", "-c default_transaction_read_only=on"),
    ("PGTARGETSESSIONATTRS", "standby"),
];

/// Starts pgdyno with the canary in variables that hold passwords and keys.
fn start(place: &Place, args: &[&str]) -> Running {
    start_with(place, args, &[])
}

fn start_with(place: &Place, args: &[&str], environment: &[(&str, &str)]) -> Running {
    let mut command = place.command(args);
    command.envs(environment.iter().copied());
    for name in ["AWS_SECRET_ACCESS_KEY", "GITHUB_TOKEN", "PGSSLKEYLOGFILE_TOKEN"] {
        command.env(name, CANARY);
    }
    place.start(command)
}

#[track_caller]
fn expect_no_canary(what: &str, text: &[u8]) {
    let found = text.windows(CANARY.len()).any(|window| window == CANARY.as_bytes());
    assert!(!found, "{what}:\n{}", String::from_utf8_lossy(text));
}

#[track_caller]
fn expect_quiet(ended: &Ended) {
    expect_no_canary("standard output", ended.stdout.as_bytes());
    expect_no_canary("standard error", ended.stderr.as_bytes());
}

/// Checks that every file below `path`, unpacked, is closed to others and without the canary; returns their names.
#[track_caller]
fn expect_closed(path: &Path) -> Vec<PathBuf> {
    let mode = fs::metadata(path).unwrap().permissions().mode() & 0o777;
    if path.is_dir() {
        assert_eq!(mode, 0o700, "{}", path.display());
        return fs::read_dir(path).unwrap().flat_map(|entry| expect_closed(&entry.unwrap().path())).collect();
    }
    assert_eq!(mode, 0o600, "{}", path.display());
    let bytes = fs::read(path).unwrap();
    let is_packed = path.extension().is_some_and(|extension| extension == "zst");
    let bytes = if is_packed { zstd::decode_all(&bytes[..]).unwrap() } else { bytes };
    expect_no_canary(&path.display().to_string(), &bytes);
    vec![path.to_path_buf()]
}

/// What the processes below `running` show to others, and what they would leave in a core file.
fn expect_processes_closed(running: &Running) {
    let mut pids = running.descendants();
    let is_server =
        |pid: i32| fs::read_link(format!("/proc/{pid}/exe")).is_ok_and(|exe| exe.ends_with("postgres"));
    assert!(pids.iter().any(|pid| is_server(*pid)), "the server is among them");
    pids.push(running.pid());
    for pid in pids {
        let Ok(arguments) = fs::read(format!("/proc/{pid}/cmdline")) else { continue };
        expect_no_canary("arguments", &arguments);
        if is_server(pid) {
            let environment = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
            expect_no_canary("the server's environment", &environment);
        }
        let limits = fs::read_to_string(format!("/proc/{pid}/limits")).unwrap_or_default();
        let core = limits.lines().find(|line| line.starts_with("Max core file size")).unwrap_or_default();
        assert_eq!(core.split_whitespace().skip(4).collect::<Vec<_>>(), ["0", "0", "bytes"], "{limits}");
    }
}

#[test]
fn a_password_in_settings_script_and_environment_gets_nowhere() {
    let place = place();
    for json in [&["plan", "canary.toml", "--json"][..], &["plan", "canary.toml"]] {
        expect_quiet(&place.run(json).expect(0));
    }
    let running = start_with(&place, &["run", "canary.toml", "-o", "out"], &NOT_FOR_OUR_SERVER);
    place.wait_for_load("out", 1);
    expect_processes_closed(&running);
    expect_quiet(&running.wait().expect(0));
    let files = expect_closed(&place.path("out"));
    for name in ["experiment.toml", "plan.json", "run.json", "server.log", "events.jsonl", "report.html"] {
        assert!(files.iter().any(|file| file.ends_with(name)), "{name} is among {files:?}");
    }
    let log = fs::read_to_string(place.path("out/runs/0001/server.log")).unwrap();
    assert!(log.contains("ALTER ROLE postgres PASSWORD '(hidden "), "{log}");
    let run = place.first_run("out");
    assert_eq!(run.record.state, RunState::Completed, "{}", run.record.reason);
    let asked = &run.record.case.server.settings;
    let had = &run.record.server.as_ref().unwrap().settings;
    for name in ["primary_conninfo", "archive_command", "restore_command"] {
        assert!(asked[name].starts_with("(hidden "), "{}", asked[name]);
        // The server archives nothing unless it is started for that, and says so.
        if had[name].value != "(disabled)" {
            assert_eq!(asked[name], had[name].value, "the same value has the same mark");
        }
    }
    for args in [
        &["report", "out", "--json"][..],
        &["report", "out"],
        &["list", ".", "--json"],
        &["list", "."],
        &["compare", "out", "out", "--report", "page"],
        &["compare", "out", "out", "--json"],
        &["history", "out", "out"],
    ] {
        expect_quiet(&place.run(args));
    }
    expect_closed(&place.path("out"));
    expect_closed(&place.path("page"));
    place.expect_clean();
}

#[test]
fn hidden_values_that_differ_are_compared_as_different() {
    let place = place();
    let two = EXPERIMENT.replace(
        "restore_command = \"curl -u u:S3cretPw-canary http://h/%f\"",
        "restore_command = [\"a S3cretPw-canary\", \"b S3cretPw-canary\"]",
    );
    place.write("canary.toml", &two);
    let planned = place.run(&["plan", "canary.toml", "--json"]).expect(0);
    expect_quiet(&planned);
    let plan: model::experiment::plan::Plan = serde_json::from_str(&planned.stdout).unwrap();
    let levels: Vec<_> = plan.cases.iter().map(|case| case.levels.values().next().unwrap().clone()).collect();
    assert_eq!(levels.len(), 2);
    assert!(levels.iter().all(|level| level.starts_with("(hidden ")) && levels[0] != levels[1], "{levels:?}");
}

/// Stops the experiment in its first run, and expects that it resumes only with the values that were hidden: each mark is a value that has to be
/// given again, and the same. `other` has other values.
fn expect_values_again(place: &Place, other: &str) {
    let running = start(place, &["run", "canary.toml", "-o", "out"]);
    place.wait_for_load("out", 1);
    running.signal(Signal::SIGINT);
    expect_quiet(&running.wait().expect(2));

    let refused = place.run(&["run", "--resume", "out"]).expect(1);
    assert!(refused.stderr.contains("give the same experiment again"), "{}", refused.stderr);
    place.write("other.toml", other);
    let refused = place.run(&["run", "--resume", "out", "other.toml"]).expect(1);
    assert!(refused.stderr.contains("has another value"), "{}", refused.stderr);
}

#[test]
fn an_experiment_with_hidden_values_resumes_if_they_are_given_again() {
    let place = place();
    place.write("canary.toml", &EXPERIMENT.replace("repeats = 1", "repeats = 2").replace("\"2s\"", "\"4s\""));
    expect_values_again(&place, &EXPERIMENT.replace(CANARY, "S3cretPw-other"));
    let refused = place.run(&["run", "out/experiment.toml", "-o", "again"]).expect(1);
    assert!(refused.stderr.contains("a secret was hidden as `(hidden "), "{}", refused.stderr);

    expect_quiet(&start(&place, &["run", "--resume", "out", "canary.toml"]).wait().expect(0));
    let data = place.results("out");
    assert_eq!(data.runs.len(), 2);
    assert!(data.runs.iter().all(|run| run.record.state == RunState::Completed));
    expect_closed(&place.path("out"));
    place.expect_clean();
}

#[test]
fn a_password_for_a_server_by_url_gets_nowhere() {
    let pg = Pg::start();
    let database = pg.database();
    pg.admin("postgres").execute(&format!("alter role bench password '{CANARY}'")).unwrap();
    let place = place();
    let url = format!("postgres://bench:{CANARY}@127.0.0.1:{}/{database}", pg.port);
    let common = [PACE, "-f", "one.sql", "--set", "workload.data=none", "--ramp-up", "0s", "--measure", "2s"];
    let run = [&["run", "--server", &url, "--repeats", "1", "-o", "out"], &common[..]].concat();
    expect_quiet(&start(&place, &run).wait().expect(0));
    expect_closed(&place.path("out"));
    let refused = place.run(&["run", "--resume", "out", "canary.toml"]).expect(1);
    assert!(refused.stderr.contains("without hidden values"), "{}", refused.stderr);
    let keywords =
        format!("host=127.0.0.1 port={} user=bench dbname={database} password='{CANARY}x'", pg.port);
    let wrong = [&["run", "--server", &keywords, "--repeats", "1", "-o", "wrong"], &common[..]].concat();
    expect_quiet(&start(&place, &wrong).wait().expect(1));
    place.expect_clean();
}

#[test]
fn a_password_among_the_options_is_refused_and_not_repeated() {
    let place = place();
    let conninfo = format!("server.settings.primary_conninfo=host=h password={CANARY}");
    let exporter = format!("target=[{{name=\"a\", telemetry=\"http://u:{CANARY}@h:1/metrics\"}}]");
    for (option, setting) in [
        ("--set", conninfo.as_str()),
        ("--set", exporter.as_str()),
        ("--set", &format!("workload.defines.password={CANARY}")),
        ("-D", &format!("password={CANARY}")),
        ("-D", &format!("api_token={CANARY}")),
    ] {
        let refused = place.run(&["plan", "canary.toml", option, setting]).expect(1);
        assert!(refused.stderr.contains("it contains a password"), "{}", refused.stderr);
        expect_quiet(&refused);
    }
    let torn = place.write("torn.toml", &EXPERIMENT.replace("port=1 ", "\" ")).display().to_string();
    expect_quiet(&place.run(&["plan", &torn]).expect(1));
}

/// Commands that hold the canary as a word, in a header, after a colon, in a variable; and words that are no secret.
const COMMANDS: &str = r#"
[hooks]
before_case = ["sh", "-c", "true psql -p 5432 -U kept_user; true DB_PASS=S3cretPw-canary curl -fsu bob:S3cretPw-canary https://h"]
before_run = ["true", "--password", "S3cretPw-canary", "-H", "X-Api-Key: S3cretPw-canary", "--port", "5432"]
after_run = ["sh", "-c", "true sshpass -p S3cretPw-canary ssh -p 2222 kept_host 'PRIVATE-TOKEN: S3cretPw-canary'"]
after_case = ["true", "-u", "bob:S3cretPw-canary", "ghp_S3cretPwcanary", "-u", "kept_user", "https://h/?private_token=S3cretPw-canary"]
"#;

#[test]
fn secrets_among_the_words_of_commands_get_nowhere_and_are_given_again() {
    let place = place();
    place.write("one.sql", "\\shell true --token S3cretPw-canary\nSELECT 1;\n");
    let two = EXPERIMENT.replace("repeats = 1", "repeats = 2").replace("\"2s\"", "\"4s\"");
    let experiment = format!("{two}{COMMANDS}");
    place.write("canary.toml", &experiment);
    for args in [&["plan", "canary.toml", "--json"][..], &["plan", "canary.toml"]] {
        let planned = place.run(args).expect(0);
        expect_quiet(&planned);
        assert!(planned.stdout.contains("kept_user"), "{}", planned.stdout);
    }
    expect_values_again(&place, &experiment.replace(CANARY, "S3cretPw-other"));
    expect_quiet(&start(&place, &["run", "--resume", "out", "canary.toml"]).wait().expect(0));
    assert!(place.results("out").runs.iter().all(|run| run.record.state == RunState::Completed));
    expect_closed(&place.path("out"));

    let packed = place.run(&["pack", "out", "--all"]).expect(0);
    expect_quiet(&packed);
    for part in [
        "hooks.before_run: true --password '(hidden ",
        "ssh -p 2222 kept_host",
        "\\shell true --token (hidden ",
    ] {
        assert!(packed.stderr.contains(part), "{part}: {}", packed.stderr);
    }
    place.run(&["unpack", "out.tar.gz", "-o", "unpacked"]).expect(0);
    expect_closed(&place.path("unpacked"));
    place.expect_clean();
}

/// Results that an earlier version wrote, with secrets in its hooks, are packed without them.
#[test]
fn a_result_of_an_earlier_version_is_packed_without_the_secrets_in_its_commands() {
    let place = place();
    place.write("canary.toml", &format!("{EXPERIMENT}{COMMANDS}"));
    start(&place, &["run", "canary.toml", "-o", "out"]).wait().expect(0);
    for name in ["plan.json", "runs/0001/run.json"] {
        let path = place.path("out").join(name);
        let text = fs::read_to_string(&path).unwrap();
        assert!(text.contains("--port"), "{text}");
        let before = |text: &str| {
            let (head, rest) = text.split_once("\"--password\"")?;
            let (_, tail) = rest.split_once("(hidden ")?;
            let (_, tail) = tail.split_once(')')?;
            Some(format!("{head}\"--password\", \"{CANARY}{tail}"))
        };
        fs::write(&path, before(&text).expect("the hook is in it")).unwrap();
    }
    let packed = place.run(&["pack", "out"]).expect(0);
    expect_quiet(&packed);
    for name in ["plan.json", "runs/0001/run.json"] {
        let told = format!("note: `{name}` held a secret");
        assert!(packed.stderr.contains(&told), "{}", packed.stderr);
    }
    place.run(&["unpack", "out.tar.gz", "-o", "unpacked"]).expect(0);
    expect_closed(&place.path("unpacked"));
}

/// Files below `dir` that are core files, or have the canary in them.
fn left_by_a_crash(dir: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap());
    let found = entries.flat_map(|entry| {
        let path = entry.path();
        if entry.file_type().unwrap().is_dir() {
            return left_by_a_crash(&path);
        }
        // Sockets and links have no content.
        let bytes = if entry.file_type().unwrap().is_file() { fs::read(&path).unwrap() } else { Vec::new() };
        let has_canary = bytes.windows(CANARY.len()).any(|window| window == CANARY.as_bytes());
        let is_core =
            bytes.starts_with(b"\x7fELF") && entry.file_name().to_string_lossy().starts_with("core");
        Vec::from_iter((has_canary || is_core).then_some(path))
    });
    found.collect()
}

#[test]
fn a_crash_leaves_neither_a_core_file_nor_the_password() {
    let (place, pg) = (Place::new(), Pg::start());
    let database = pg.database();
    pg.admin("postgres").execute(&format!("alter role bench password '{CANARY}'")).unwrap();
    place.write("one.sql", "SELECT 1;\n");
    let unlimited =
        |what: &str| place.command_of(Path::new("bash"), &["-c", &format!("ulimit -c unlimited && {what}")]);
    // What the kernel leaves of others here.
    place.start(unlimited("kill -SEGV $$")).wait();
    let of_bash = left_by_a_crash(&place.path("."));
    if of_bash.is_empty() {
        tell("core files go elsewhere on this machine: only the limits are tested");
    }
    of_bash.iter().for_each(|core| fs::remove_file(core).unwrap());

    let url = format!("postgres://bench:{CANARY}@127.0.0.1:{}/{database}", pg.port);
    for (name, of_driver) in [("driver", true), ("parent", false)] {
        let run = format!(
            "exec {} run -f one.sql -c 1 --set workload.data=none {PACE} --ramp-up 0s --measure 30s --repeats 1 --set run.repeat_disturbed=0 -o {name} --server {url}",
            env!("CARGO_BIN_EXE_pgdyno")
        );
        let running = place.start(unlimited(&run));
        place.wait_for_load(name, 1);
        let victim = if of_driver { running.descendants()[0] } else { running.pid() };
        // The first one ends Rust's own handling of the signal; a fault would come again by itself.
        for _ in 0..2 {
            kill(Pid::from_raw(victim), Signal::SIGSEGV).unwrap();
            std::thread::sleep(Duration::from_millis(200));
        }
        let ended = running.wait();
        expect_quiet(&ended);
        assert_ne!(ended.code(), Some(0), "{name}: {ended:?}");
        place.expect_clean();
        assert_eq!(left_by_a_crash(&place.path(".")), Vec::<PathBuf>::new(), "{name}");
    }
}

/// The memory of a process that holds a password is closed to other processes of its user; its usage is still seen.
#[test]
fn an_ordinary_users_driver_is_accounted_for_although_its_memory_is_not_readable() {
    let place = Place::new();
    let mut command = place.command(&[
        "run",
        PACE,
        "--bin-dir",
        "/usr/lib/postgresql/15/bin",
        "-c",
        "2",
        "--ramp-up",
        "0s",
        "--measure",
        "3s",
        "--scale",
        "1",
        "--repeats",
        "1",
        "--set",
        "server.settings.shared_buffers=64MB",
        "--set",
        "prepare.settle=false",
        "-o",
        "out",
    ]);
    if geteuid().is_root() {
        let user = User::from_name("postgres").unwrap().unwrap();
        for path in [".", "cache", "tmp", "home"] {
            chown(&place.path(path), Some(user.uid), Some(user.gid)).unwrap();
        }
        command.uid(user.uid.as_raw()).gid(user.gid.as_raw());
    }
    let running = place.start(command);
    place.wait_for_load("out", 1);
    let owner = |pid: i32| {
        use std::os::unix::fs::MetadataExt;
        fs::metadata(format!("/proc/{pid}/environ")).map(|facts| facts.uid()).ok()
    };
    assert_eq!(owner(running.pid()), Some(0), "it can be dumped, so its files in /proc are its user's");
    running.wait().expect(0);
    let run = place.first_run("out");
    for name in ["driver.cpu", "driver.memory", "driver.run_delay"] {
        let is_there = run.ticks.iter().any(|tick| tick.values.keys().any(|key| key.starts_with(name)));
        assert!(is_there, "{name}: {:?}", run.record.telemetry_unavailable);
    }
    place.expect_clean();
}
