//! What happens on one side of a comparison alone, built on real servers: the comparison names it, on the terminal, in JSON and
//! in its grade.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;

use testbed::{ClusterOptions, TestServer, bin_dir};

use crate::judge::{Ending, WRITE, expect, json, loaded, words};
use crate::tool::{Place, tell, wait_until};

/// Compares one short pair of runs: what is found, and the grade. The terminal must name the same as JSON.
#[track_caller]
fn compare(place: &Place, args: &[&str]) -> (Vec<String>, String) {
    let options = "compare --time 1s -c 2 --ramp-up 0s --set prepare.settle=false --json -o out";
    let all: Vec<&str> = options.split(' ').chain(args.iter().copied()).collect();
    let case = &json(&place.run(&all))["comparisons"][0];
    let found = words(&case["findings"]);
    let screen = place.run(&["compare", "out"]).stdout;
    let screen = screen.split_whitespace().collect::<Vec<&str>>().join(" ");
    for text in &found {
        let (_, evidence) = text.split_once(": ").unwrap();
        let evidence = evidence.split_whitespace().collect::<Vec<&str>>().join(" ");
        assert!(screen.contains(&evidence), "`{evidence}` is not on the terminal: {screen}");
    }
    (found, case["grade"].as_str().unwrap().to_string())
}

/// Whether the comparison knows that only B's run has this finding.
#[track_caller]
fn expect_of_b(found: &[String], severity: &str, id: &str, evidence: &str) {
    expect(found, &format!("one-sided {severity}"), &format!("{id} in 0 of 1 runs of A and 1 of 1 of B ("));
    expect(found, &format!("one-sided {severity}"), evidence);
}

#[test]
fn what_happens_on_the_server_of_one_side_is_named() {
    let place = Place::on_disk();
    // On a slow machine, tables that were loaded just now would be analyzed during A's run, too.
    let servers = ["autovacuum_naptime=1h", "autovacuum_naptime=1s"].map(|naptime| {
        TestServer::start(&ClusterOptions {
            settings: &[naptime],
            is_on_disk: true,
            ..ClusterOptions::default()
        })
    });
    let [(quiet, a), (busy, b)] = [0, 1].map(|side| loaded(&place, &servers[side]));
    let function =
        |body: &str| format!("create function may_fail(n int) returns int language sql as '{body}'");
    servers[0].execute(&quiet, &function("select 1"));
    let mut admin = servers[1].admin(&busy);
    for sql in [
        function("select 1 / case when n % 40 = 0 then 0 else 1 end").as_str(),
        &format!("alter database {busy} set session_preload_libraries = 'auto_explain'"),
        &format!("alter database {busy} set auto_explain.log_min_duration = '5ms'"),
        "alter table pgbench_accounts set (autovacuum_vacuum_threshold = 1, autovacuum_vacuum_scale_factor = 0)",
    ] {
        admin.execute(sql).unwrap();
    }
    let neighbour = |script: &str, rate: &str| {
        let mut pgbench = servers[1].client("pgbench", "postgres");
        pgbench
            .args(["-n", "-c", "1", "-T", "120", "-R", rate, "-f"])
            .arg(place.write(&format!("{rate}.sql"), script));
        Ending::of(pgbench)
    };
    let neighbours = [
        // At one per second, none would fall into one of fifty measurements of 4 s.
        neighbour("checkpoint;\n", "5"),
        neighbour("select relname from pg_class where oid = 1259;\n", "500"),
    ];
    let connected = "select count(*) >= 2 from pg_stat_activity where application_name = 'pgbench'";
    wait_until("the neighbours", || servers[1].ask("postgres", connected) == "t");
    let script = place.write("write.sql", &format!("{WRITE}SELECT may_fail(:aid);\n"));
    let sides = [format!("server.url={a}"), format!("server.url={b}")];
    let args = ["--a", &sides[0], "--b", &sides[1], "-f", script.to_str().unwrap(), "--measure", "4s"];
    // A slow load leaves A's tables as they are: nothing is to be analyzed there.
    let more = [
        "--set",
        "workload.data=\"none\"",
        "--set",
        "prepare.checkpoint=false",
        "--set",
        "workload.pace=1000/s",
    ];
    let (found, grade) = compare(&place, &[&args[..], &more].concat());
    drop(neighbours);
    expect_of_b(&found, "note", "foreign-sessions", " transactions/s next to ");
    expect_of_b(&found, "note", "foreign-sessions", "which the interval of the ratio contains");
    // A note where enough seconds are without one.
    let autovacuum = |text: &String| {
        text.starts_with("one-sided ")
            && text.contains("autovacuum-in-window in 0 of 1 runs of A and 1 of 1 of B")
    };
    assert!(found.iter().any(autovacuum), "{found:#?}");
    expect_of_b(&found, "doubt", "statements-logged", "auto_explain in session_preload_libraries");
    expect_of_b(&found, "doubt", "transactions-failed", "most often 22012 division by zero");
    let checkpoints = |text: &String| {
        text.starts_with("one-sided ")
            && text.contains("checkpoint-in-window in 0 of 1 runs of A and 1 of 1 of B")
    };
    assert!(found.iter().any(checkpoints), "{found:#?}");
    expect(&found, "undeclared-difference doubt", "setting session_preload_libraries ('' and auto_explain)");
    assert_eq!(grade, "doubtful");
    let study = analysis::study(&place.results("out"));
    let is_replaced = study.findings.iter().any(|finding| finding.id == "server-replaced");
    assert!(!is_replaced, "A and B are two servers: {:#?}", study.findings);
    place.expect_clean();
}

#[test]
fn wal_in_memory_and_logging_of_one_side_of_our_servers_are_named() {
    let mounts = fs::read_to_string("/proc/mounts").unwrap();
    if !mounts.lines().any(|line| line.contains(" /dev/shm tmpfs ")) {
        return tell("skipped: /dev/shm is no tmpfs here");
    }
    let place = Place::on_disk();
    let memory = tempfile::Builder::new().prefix("pgdyno-it-").tempdir_in("/dev/shm").unwrap();
    fs::set_permissions(memory.path(), Permissions::from_mode(0o755)).unwrap();
    let bin_dir = format!("server.bin_dir={}", bin_dir().display());
    let wal = format!("server.wal_directory={}", memory.path().display());
    let args = ["--scale", "1", "--measure", "2s", "--set", &bin_dir, "--b", &wal];
    let (found, grade) =
        compare(&place, &[&args[..], &["--b", "server.settings.log_statement=all"]].concat());
    expect_of_b(&found, "void", "not-durable", "NOT DURABLE: wal at `/dev/shm` is tmpfs, which is memory");
    expect_of_b(&found, "note", "statements-logged", "log_statement = all");
    expect(&found, "undeclared-difference doubt", "file system of wal (");
    assert_eq!(grade, "void");
    place.expect_clean();
}
