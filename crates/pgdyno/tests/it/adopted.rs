//! `init`, `check` and `run` on an existing server: what they load, refuse and find.

use std::time::{Duration, Instant};

use model::run::phase::Phase;
use nix::sys::signal::Signal;
use testbed::{ClusterOptions, PASSWORD, Pg, TestServer, run};

use crate::tool::{PACE, Place, expect_sound, history_growth, wait_until};

/// The shortest run, on the data as it is.
const AS_IS: &str = "run -c 2 --measure 2s --ramp-up 0s --repeats 1 --set prepare.restore=false \
                     --set prepare.prewarm=false --set prepare.settle=false";

#[test]
fn check_verifies_what_init_loads_and_finds_damage() {
    let (place, pg) = (Place::new(), Pg::shared());
    let database = pg.database();
    let server = pg.admin_target(&database);
    let check = |code: i32| place.run(&["check", "--server", &server]).expect(code);
    let nothing = check(1);
    assert!(
        nothing.stderr.contains("no TPC-B-like tables; load them with pgdyno init"),
        "{}",
        nothing.stderr
    );
    assert_eq!(nothing.stdout, "");

    let init = |scale: &str| place.run(&["init", "--server", &server, "--scale", scale]).expect(0);
    assert!(init("2").stdout.contains("loaded scale 2: 200,022 rows, "));
    assert!(check(0).stdout.contains("scale 2, 0 transactions"));
    assert!(init("1").stdout.contains("loaded scale 1: 100,011 rows, "), "own tables are replaced");

    let mut run = vec!["--server", &server, "-o", "out", "--scale", "1"];
    run.splice(0..0, AS_IS.split_whitespace().chain([PACE]));
    place.run(&run).expect(0);
    let first = place.first_run("out");
    expect_sound(&first);
    assert_eq!(history_growth(&first), first.record.done.as_ref().unwrap().counts.committed);
    assert!(check(0).stdout.contains(&format!("scale 1, {} transactions", history_growth(&first))));

    let mut admin = pg.admin(&database);
    admin.execute("update pgbench_tellers set tbalance = tbalance + 1 where tid = 3").unwrap();
    let damaged = check(1);
    assert!(damaged.stdout.contains("VIOLATED") && damaged.stdout.contains("teller"), "{}", damaged.stdout);
    admin.execute("update pgbench_tellers set tbalance = tbalance - 1 where tid = 3").unwrap();
    admin
        .execute("delete from pgbench_history where ctid = (select min(ctid) from pgbench_history)")
        .unwrap();
    check(1);
    let json = || -> serde_json::Value {
        let json = place.run(&["check", "--json", "--server", &server]).expect(1);
        serde_json::from_str(&json.stdout).unwrap()
    };
    assert_eq!((&json()["sound"], &json()["hint"]), (&false.into(), &serde_json::Value::Null));

    // Data of the simple workload is distinguished from damaged data.
    init("1");
    run.splice(run.len() - 4.., ["-o", "simple", "-w", "tpcb-simple"]);
    place.run(&run).expect(0);
    assert!(check(1).stdout.contains("hint: no teller and no branch was ever changed"));
    assert_eq!(json()["sound"], false);
    place.run(&["check", "-w", "tpcb-simple", "--server", &server]).expect(0);
    place.expect_clean();
}

#[test]
fn data_that_is_half_loaded_is_refused() {
    let (place, pg) = (Place::new(), Pg::shared());
    let database = pg.database();
    let server = pg.admin_target(&database);
    let init = place.start(place.command(&["init", "--server", &server, "--scale", "30"]));
    let sql = "select count(*) from pg_stat_activity where query ilike 'copy %pgbench_accounts%' \
               and datname = current_database() and state = 'active'";
    wait_until("the rows of accounts", || pg.ask(&database, sql) == "1");
    init.signal(Signal::SIGKILL);
    init.wait();

    let checked = place.run(&["check", "--server", &server]).expect(1);
    assert!(checked.stderr.contains("did not finish"), "{}", checked.stderr);
    let mut args: Vec<&str> = AS_IS.split_whitespace().collect();
    args.extend(["--server", &server, "-o", "out", "--scale", "30"]);
    let refused = place.run(&args).expect(1);
    assert!(refused.stderr.contains("the data is not complete"), "{}", refused.stderr);
    assert!(!place.path("out").exists(), "nothing was measured, nothing is left");
    place.run(&["init", "--server", &server, "--scale", "1"]).expect(0);
    place.run(&["check", "--server", &server]).expect(0);
    place.expect_clean();
}

#[test]
fn tables_of_others_are_used_or_refused_but_not_dropped() {
    let (place, pg) = (Place::new(), Pg::shared());
    let database = pg.database();
    let server = pg.admin_target(&database);
    run(pg.client("pgbench", &database).args(["-i", "-q", "-s", "1"]));
    let oid = || pg.ask(&database, "select 'pgbench_accounts'::regclass::oid");
    let before = oid();

    let init = place.run(&["init", "--server", &server, "--scale", "1"]).expect(1);
    assert!(
        init.stderr.contains("pgdyno did not create") && init.stderr.contains("--replace"),
        "{}",
        init.stderr
    );
    let args = "run -c 1 --measure 2s --repeats 1 --scale 1 -o refused --server";
    let mut args: Vec<&str> = args.split_whitespace().collect();
    args.push(&server);
    let refused = place.run(&args).expect(1);
    assert!(refused.stderr.contains("pgdyno did not create"), "{}", refused.stderr);
    assert!(!place.path("refused").exists());

    let mut as_is: Vec<&str> = AS_IS.split_whitespace().chain([PACE]).collect();
    as_is.extend(["--server", &server, "-o"]);
    let other = place.run(&[&as_is[..], &["other", "--scale", "2"]].concat()).expect(1);
    assert!(other.stderr.contains("give --scale 1"), "{}", other.stderr);
    place.run(&[&as_is[..], &["out", "--scale", "1"]].concat()).expect(0);
    expect_sound(&place.first_run("out"));
    place.run(&["check", "--server", &server]).expect(0);
    assert_eq!(oid(), before);

    place.run(&["init", "--server", &server, "--scale", "1", "--replace"]).expect(0);
    assert_ne!(oid(), before);
    place.expect_clean();
}

#[test]
fn tables_that_the_user_cannot_read_are_not_reported_as_damaged() {
    let (place, pg) = (Place::new(), Pg::shared());
    let database = pg.database();
    run(pg.client("pgbench", &database).args(["-i", "-q", "-s", "1"]));
    let server = format!("postgresql://bench:{PASSWORD}@127.0.0.1:{}/{database}", pg.port);
    let measure: Vec<&str> = AS_IS.split_whitespace().chain(["--scale", "1", "-o", "out"]).collect();
    for args in [&measure[..], &["check"]] {
        let refused = place.run(&[args, &["--server", &server]].concat()).expect(1).stderr;
        for expected in [
            "`bench` cannot read the tables of the database (public.pgbench_accounts, ",
            "permission denied",
            "grant select",
        ] {
            assert!(refused.contains(expected), "{args:?}: {refused}");
        }
    }
    let init = place.run(&["init", "--scale", "1", "--server", &server]).expect(1).stderr;
    assert!(init.contains("`bench` cannot replace table `public.pgbench_accounts`"), "{init}");
    assert!(!place.path("out").exists(), "nothing was measured, nothing is left");
    place.expect_clean();
}

#[test]
fn a_standby_is_refused_before_anything_is_written() {
    let (place, pg) = (Place::new(), Pg::start());
    let database = pg.database();
    let server = pg.admin_target(&database);
    pg.make_standby();
    let measure: Vec<&str> = AS_IS.split_whitespace().chain(["--scale", "1", "-o", "out"]).collect();
    for args in [&measure[..], &["init", "--scale", "1"], &["check", "--acid"]] {
        let refused = place.run(&[args, &["--server", &server]].concat()).expect(1).stderr;
        assert!(
            refused.contains("is a standby, which takes no writes; use the primary"),
            "{args:?}: {refused}"
        );
    }
    assert!(!place.path("out").exists());
    place.expect_clean();
}

#[test]
fn a_stopped_load_ends_soon_and_is_refused_afterwards() {
    let (place, pg) = (Place::new(), Pg::shared());
    let database = pg.database();
    let server = pg.admin_target(&database);
    let init = place.start(place.command(&["init", "--server", &server, "--scale", "30"]));
    wait_until("a load", || pg.ask(&database, "select to_regclass('pgbench_accounts') is not null") == "t");
    init.signal(Signal::SIGINT);
    let began = Instant::now();
    let ended = init.wait().expect(1);
    assert!(began.elapsed() < Duration::from_secs(5), "{:?}", began.elapsed());
    assert!(ended.stderr.contains("stopped while loading"), "{}", ended.stderr);
    place.run(&["check", "--server", &server]).expect(1);
    place.expect_clean();
}

/// Two servers behind one target, which a load reaches in random order.
struct Spread {
    place: Place,
    servers: [TestServer; 2],
    target: String,
}

impl Spread {
    fn start() -> Spread {
        let servers =
            [TestServer::start(&ClusterOptions::default()), TestServer::start(&ClusterOptions::default())];
        servers.iter().for_each(|server| server.execute("postgres", "create table hits (n int)"));
        let [one, other] = &servers;
        let target = format!(
            "host={},{} port={},{} user=postgres dbname=postgres load_balance_hosts=random",
            one.dir().display(),
            other.dir().display(),
            one.port,
            other.port
        );
        Spread { place: Place::new(), servers, target }
    }
}

#[test]
fn a_load_is_spread_over_hosts_where_nothing_is_loaded_or_changed() {
    let Spread { place, servers, target } = &Spread::start();
    let [one, other] = servers;
    place.write("hit.sql", "insert into hits values (1);\n");
    let lengths = "--measure 2s --ramp-up 0s --repeats 1 --set prepare.settle=false";
    let asked = |command: &str, more: &str| {
        let words = format!("{command} {lengths} {more}");
        place.run(&[&words.split_whitespace().collect::<Vec<_>>()[..], &["--server", target]].concat())
    };
    asked("run", &format!("-f hit.sql -c 16 -o out {PACE}")).expect(0);
    let data = place.results("out");
    let committed = data.runs[0].record.done.as_ref().unwrap().counts.committed;
    let hits = servers
        .each_ref()
        .map(|server| server.ask("postgres", "select count(*) from hits").parse::<u64>().unwrap());
    assert!(hits.iter().all(|n| *n > 0) && hits.iter().sum::<u64>() == committed, "{hits:?} {committed}");
    // The steps before the load are taken on each host.
    let phases = &data.runs[0].record.phases;
    for phase in [Phase::Prewarm, Phase::Checkpoint] {
        let facts = &phases.iter().find(|record| record.phase == phase).expect("it is taken").detail;
        let of_other = format!(" on {}:{}", other.dir().display(), other.port);
        assert!(facts.keys().any(|name| name.ends_with(&of_other)), "{phase:?}: {facts:?}");
    }
    let study = analysis::study(&data);
    let found = study.runs[0].findings.iter().find(|finding| finding.id == "spread-load");
    let evidence = &found.expect("it is found").evidence;
    assert!(
        evidence.contains("2 hosts in random order") && evidence.contains(&format!(":{}", one.port)),
        "{evidence}"
    );

    // Whatever pgdyno would do to one of them is refused, before it is done.
    for (command, more, refused) in [
        ("run", "--workload tpcb", "--no-restore --set prepare.vacuum=false --set prepare.analyze=false"),
        (
            "plan",
            "--workload tpcb --no-restore",
            "with --set prepare.vacuum=false --set prepare.analyze=false",
        ),
        (
            "run",
            "-f hit.sql --allow-changes --set server.settings.work_mem=8MB",
            "server.settings would be changed on one of them",
        ),
    ] {
        let ended = asked(command, more).expect(1);
        let said = ended.stdout + &ended.stderr;
        assert!(said.contains("(load_balance_hosts=random)") && said.contains(refused), "{said}");
    }
    let ended = place.run(&["init", "--server", target]).expect(1);
    assert!(ended.stderr.contains("name one host of"), "{ended:?}");
    // A look needs no more than one.
    let ended = place.run(&["doctor", "--server", target]);
    assert!(ended.stderr.contains("load_balance_hosts=random is ignored"), "{ended:?}");
    let tables = "select count(*) from pg_tables where tablename like 'pgbench%'";
    assert!(servers.iter().all(|server| server.ask("postgres", tables) == "0"));
    place.expect_clean();
}

#[test]
fn each_host_of_a_spread_load_needs_room_for_its_share_alone() {
    let Spread { place, servers: [_, other], target } = &Spread::start();
    place.write("hit.sql", "insert into hits values (1);\n");
    let asked = |command: &str| {
        let words = format!("{command} -f hit.sql {PACE} --measure 2s --ramp-up 0s --repeats 1 --server");
        place.run(&[&words.split_whitespace().collect::<Vec<_>>()[..], &[target.as_str()]].concat())
    };
    // More than one of them takes.
    asked("plan -c 120").expect(0);
    other.execute("postgres", "alter system set max_connections = 20");
    other.restart(Duration::ZERO);
    other.wait_ready();
    let ended = asked("run -c 40 -o no").expect(1);
    let place_of_other = format!("{}:{}", other.dir().display(), other.port);
    let expected = format!("{place_of_other}/postgres`, to which chance may bring 33 of 40 clients");
    assert!(ended.stderr.contains(&expected), "{ended:?}");
    place.expect_clean();
}
