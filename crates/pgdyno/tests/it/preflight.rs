//! What is found before a server by URL is touched: every problem at once, the same by `plan` as by `run`, and data
//! that needs no load.

use std::net::TcpListener;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use testbed::Pg;

use crate::tool::{Ended, PACE, Place};

const SHORT: &str = "-s 1 -c 1 --measure 2s --ramp-up 0s --repeats 1 --set prepare.settle=false --yes";

struct Server {
    place: Place,
    pg: Arc<Pg>,
    database: String,
}

impl Server {
    fn new() -> Server {
        let pg = Pg::shared();
        let database = pg.database();
        Server { place: Place::new(), pg, database }
    }

    fn execute(&self, sql: &str) {
        self.pg.execute(&self.database, sql);
    }

    /// `pgdyno COMMAND` with the shortest experiment and `args`, as `role` if one is named.
    fn pgdyno(&self, command: &str, role: Option<&str>, args: &[&str]) -> Ended {
        let mut server = self.pg.admin_target(&self.database);
        if let Some(role) = role {
            server.push_str(&format!(" options='-c role={role}'"));
        }
        let mut all = vec![command];
        all.extend(SHORT.split(' ').filter(|word| command == "run" || *word != "--yes"));
        all.extend(args);
        all.extend([PACE, "--server", &server]);
        self.place.run(&all)
    }

    fn init(&self) {
        let server = self.pg.admin_target(&self.database);
        self.place.run(&["init", "-s", "1", "--server", &server]).expect(0);
    }
}

#[test]
fn every_problem_is_reported_at_once_and_before_a_load_is_announced() {
    let server = Server::new();
    server.init();
    let role = format!("reader_{}", server.database);
    server.execute(&format!("create role {role}"));
    server.execute(&format!("grant select on all tables in schema public to {role}"));
    server.execute("create view balances as select abalance from pgbench_accounts");
    server.execute("create table visits (aid int references pgbench_accounts)");
    let expected = [
        "cannot replace table `public.pgbench_accounts`",
        "cannot create tables in schema `public`",
        "view public.balances",
        "on table public.visits",
        "--no-restore",
        "need 10002 connections",
    ];
    let planned = server.pgdyno("plan", Some(&role), &["-c", "10000"]).expect(1);
    let ran = server.pgdyno("run", Some(&role), &["-c", "10000", "-o", "out"]).expect(1);
    for part in expected {
        assert!(planned.stdout.contains(part), "plan: {part}\n{}", planned.stdout);
        assert!(ran.stderr.contains(part), "run: {part}\n{}", ran.stderr);
    }
    assert!(!ran.stderr.contains("loads 4 tables"), "{}", ran.stderr);
    assert!(!server.place.path("out").exists());
    // What is advised works, also with the view and the foreign key.
    let reads = ["--no-restore", "-w", "tpcb-select", "-o", "reads"];
    server.pgdyno("run", Some(&role), &reads).expect(0);
    let writes = server.pgdyno("run", Some(&role), &["--no-restore", "-o", "writes"]).expect(1);
    for part in
        ["the workload needs UPDATE on `public.pgbench_accounts`", "INSERT on `public.pgbench_history`"]
    {
        assert!(writes.stderr.contains(part), "{part}\n{}", writes.stderr);
    }
    assert!(!server.place.path("writes").exists());
    server.execute(&format!("drop owned by {role}"));
    server.execute(&format!("drop role {role}"));
    server.place.expect_clean();
}

#[test]
fn data_that_nobody_has_touched_since_init_is_not_loaded_again() {
    let server = Server::new();
    let run = |name: &str| -> String {
        let ran = server.pgdyno("run", None, &["-o", name]).expect(0).stderr;
        let is_said = ran.contains("so that it is not loaded again")
            && ran.contains("it is used, and not loaded again");
        assert_eq!(is_said, name == "untouched", "{name}: {ran}");
        let run = server.place.first_run(name);
        run.record.phases[0].detail["method"].clone()
    };
    let check = |name: &str, is_used: bool| {
        let method = run(name);
        assert_eq!(method.starts_with("none: the data is as it was loaded"), is_used, "{name}: {method}");
    };
    // Plan and run ask the same function.
    let plan = |name: &str, is_used: bool| {
        let planned = server.pgdyno("plan", None, &[]).expect(0).stdout;
        assert_eq!(planned.contains("so that it is not loaded again"), is_used, "{name}: {planned}");
    };
    server.init();
    plan("untouched", true);
    check("untouched", true);
    check("run-wrote", false);
    let touches = [
        ("updated", "update pgbench_tellers set tbalance = tbalance where tid = 1"),
        ("deleted", "delete from pgbench_accounts where aid = 7"),
        ("truncated", "truncate pgbench_accounts"),
        ("index", "alter table pgbench_tellers drop constraint pgbench_tellers_pkey"),
        ("inserted", "insert into pgbench_history (tid) values (1)"),
    ];
    for (name, sql) in touches {
        server.init();
        server.execute(sql);
        plan(name, false);
    }
    check("touched", false);
    // That is more than a touch: it would go with the table.
    server.init();
    server.execute(
        "alter table pgbench_branches set (fillfactor = 50); alter table pgbench_history set unlogged",
    );
    let planned = server.pgdyno("plan", None, &[]).expect(1).stdout;
    for what in [
        "storage parameter `fillfactor=50` of `public.pgbench_branches`",
        "UNLOGGED of `public.pgbench_history`",
    ] {
        assert!(planned.contains(what), "{planned}");
    }
    server.place.expect_clean();
}

#[test]
fn a_setting_with_a_typing_error_is_named_with_what_was_meant() {
    let place = Place::new();
    let bin_dir = testbed::bin_dir();
    let planned = place
        .run(&[
            "plan",
            "--bin-dir",
            &bin_dir.display().to_string(),
            "--set",
            "server.settings.shared_bufers=1GB",
        ])
        .expect(1);
    assert!(planned.stdout.contains("did you mean `shared_buffers`?"), "{}", planned.stdout);
    place.expect_clean();
}

/// The protocol that nobody chose is asked about before the plan is looked at, and its answer is that of both.
#[test]
fn a_server_that_never_answers_is_waited_for_once() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let n_accepted = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&n_accepted);
    thread::spawn(move || {
        let mut silent = Vec::new();
        for client in listener.incoming().flatten() {
            counted.fetch_add(1, Ordering::Relaxed);
            silent.push(client);
        }
    });
    let place = Place::new();
    let server = format!("postgres://bench@127.0.0.1:{port}/bench?sslmode=disable");
    let limit = ["--set", "run.phase_timeout=2s", "--server", &server];
    let asked = |command: &str| {
        n_accepted.store(0, Ordering::Relaxed);
        let short = SHORT.split(' ').filter(|word| *word != "--yes");
        let all: Vec<&str> = [command].into_iter().chain(short).chain(limit).collect();
        let ended = place.run(&all).expect(1);
        let said = format!("{}{}", ended.stdout, ended.stderr);
        assert_eq!(said.matches("has not ended after 2 s").count(), 1, "{said}");
        n_accepted.load(Ordering::Relaxed)
    };
    assert_eq!(asked("plan"), 1);
    assert_eq!(asked("run"), 1);
}

/// What nobody has asked for is decided by the question: a curve of client counts only if nothing else varies, and time enough for a search.
#[test]
fn clients_and_lengths_that_nobody_gives_follow_the_question() {
    let place = Place::new();
    let planned = |options: &[&str]| {
        let all = [&["plan", "--set", "server.version=18"], options].concat();
        let ended = place.run(&all).expect(0).stdout;
        let cases = ended.lines().filter(|line| line.starts_with("case ")).count();
        (cases, ended)
    };
    let asked = "with 4 clients, as no number is given";
    let factor = ["--set", "server.settings.jit=[\"on\",\"off\"]"];
    for (options, n_cases, is_said) in [
        (&[][..], 3, false),
        (&factor[..], 2, true),
        (&[&factor[..], &["-c", "1,8"]].concat()[..], 4, false),
        (&["quick", factor[0], factor[1]][..], 6, false),
        (&["--pace", "max with p99 <= 20ms", "-c", "8"][..], 1, false),
    ] {
        let (found, said) = planned(options);
        assert_eq!(found, n_cases, "{options:?}\n{said}");
        let n_cpus = std::thread::available_parallelism().unwrap().get();
        if n_cpus <= 2 {
            assert_eq!(said.contains(asked), is_said, "{options:?}\n{said}");
        }
    }
}
