//! Errors: counted by SQLSTATE, and divided into transactions that surely failed and those whose outcome is unknown.

use model::load::drive::LoadEnding;
use model::load::{Pace, Protocol};
use model::telemetry::event::EventKind;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use testbed::Pg;

use crate::order::{Driving, drive, load};

/// Ends a backend of `database` whose last statement is like `pattern`, in a state like `state`.
fn terminate(pg: &Pg, database: &str, pattern: &str, state: &str) {
    let sql = format!(
        "select count(pg_terminate_backend(pid)) from (select pid from pg_stat_activity \
         where datname = current_database() and pid <> pg_backend_pid() and query like '{pattern}' \
         and state like '{state}' limit 1) as one"
    );
    for _ in 0..500 {
        if pg.ask(database, &sql) == "1" {
            return;
        }
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    panic!("no backend runs {pattern}");
}

#[test]
fn a_failed_statement_is_counted_and_the_client_goes_on() {
    let pg = Pg::shared();
    let database = pg.database();
    for source in
        ["\\set d random(0, 1)\nselect 1 / :d;", "\\set d random(0, 1)\nbegin;\nselect 1 / :d;\nend;"]
    {
        for protocol in [Protocol::Simple, Protocol::Extended, Protocol::Prepared] {
            let mut load = load(&pg.socket(&database), source);
            (load.protocol, load.n_clients) = (protocol, 2);
            let story = drive(load);
            let (committed, failed, unknown, _) = story.outcomes();
            assert!(committed > 20 && failed > 20 && unknown == 0, "{protocol:?} {:?}", story.done);
            assert_eq!(story.done.errors.get("22012"), Some(&failed));
            assert_eq!(story.done.errors.len(), 1);
            assert!(story.done.messages["22012"].contains("division by zero"));
            assert_eq!(story.done.clients_lost, 0);
        }
    }
    let sql = "select count(*) from pg_stat_activity where datname = current_database() and state like 'idle in transaction%'";
    assert_eq!(pg.ask(&database, sql), "0");
}

#[test]
fn deadlocks_roll_back_and_are_counted() {
    let pg = Pg::shared();
    let database = pg.database();
    pg.admin(&database)
        .execute("create table t (id int primary key, n bigint); insert into t select i, 0 from generate_series(1, 2) i")
        .unwrap();
    let source = "\\set a random(1, 2)\n\\set b 3 - :a\nbegin;\nupdate t set n = n + 1 where id = :a;\n\
                  update t set n = n + 1 where id = :b;\nend;\n";
    let mut load = load(&pg.socket(&database), source);
    (load.n_clients, load.window.measure_s) = (4, 2);
    let story = drive(load);
    let (committed, failed, unknown, aborted) = story.outcomes();
    assert!(failed > 0 && unknown + aborted == 0, "{:?}", story.done);
    assert_eq!(story.done.errors.keys().collect::<Vec<_>>(), ["40P01"]);
    assert_eq!(pg.ask(&database, "select sum(n) from t"), (2 * committed).to_string());
}

#[test]
fn one_lost_client_is_reported_and_the_others_go_on() {
    let pg = Pg::shared();
    let database = pg.database();
    let mut load = load(&pg.socket(&database), "select 1, 'lost one';");
    (load.n_clients, load.window.measure_s) = (3, 3);
    let mut driving = Driving::start(load);
    driving.go();
    let first = driving.wait_for_interval();
    terminate(&pg, &database, "%lost one%", "%");
    let story = driving.story(vec![first]);
    assert_eq!((story.done.ending, story.done.clients_lost), (LoadEnding::Completed, 1));
    let lost: Vec<_> = story.events.iter().filter(|e| e.kind == EventKind::ConnectionLost).collect();
    assert!(lost.len() == 1 && lost[0].detail["sqlstate"] == "57P01", "{:?}", story.events);
    assert!(story.done.messages["57P01"].contains("terminating connection due to administrator command"));
    let last = story.intervals.iter().find(|i| i.t == 2).unwrap();
    assert!(last.counts.committed > 10, "{last:?}");
    let (_, failed, unknown, _) = story.outcomes();
    // A statement outside a block may have been committed if it was under way; one that was answered was.
    assert!(failed == 0 && unknown <= 1, "{:?}", story.done);
}

#[test]
fn a_crash_of_another_backend_is_reported_as_a_notice() {
    let pg = Pg::start();
    let database = pg.database();
    // One statement for the whole load: a backend that is just sending leaves out the warning (PqCommBusy in pqcomm.c).
    let mut load = load(&pg.socket(&database), "select pg_sleep(60);");
    load.window.measure_s = 30;
    let mut driving = Driving::start(load);
    driving.go();
    let first = driving.wait_for_interval();
    let mut other = pg.admin(&database);
    let pid = other.query("select pg_backend_pid()").unwrap().scalar().unwrap().parse().unwrap();
    kill(Pid::from_raw(pid), Signal::SIGKILL).unwrap();
    let story = driving.story(vec![first]);
    assert_eq!((story.done.ending, story.done.clients_lost), (LoadEnding::ConnectionsLost, 1));
    let text_of = |kind| story.events.iter().find(|event| event.kind == kind).map_or("", |event| &event.text);
    let notice = text_of(EventKind::ServerNotice);
    assert!(notice.starts_with("WARNING:  terminating connection because of crash"), "{:?}", story.events);
    assert_eq!(
        text_of(EventKind::ClientAborted),
        "client 0 aborted in command 0 (SQL) of script 0; perhaps the backend died while processing"
    );
    assert!(story.done.messages.contains_key("57P02"), "{:?}", story.done);
}

#[test]
fn a_client_lost_between_transactions_fails_none() {
    let pg = Pg::shared();
    let database = pg.database();
    for n_threads in [1, 2] {
        let mut load = load(&pg.socket(&database), "select 1, 'idle one';");
        (load.n_clients, load.n_threads, load.window.measure_s) = (2, n_threads, 3);
        load.pace = Pace::Constant { rate_per_s: 2.0 };
        let mut driving = Driving::start(load);
        driving.go();
        let first = driving.wait_for_interval();
        // An interval ends when a transaction is due: the next one is due 500 ms later.
        std::thread::sleep(std::time::Duration::from_millis(100));
        terminate(&pg, &database, "%idle one%", "idle");
        let story = driving.story(vec![first]);
        assert_eq!(story.done.clients_lost, 1);
        let counts = story.done.counts;
        assert_eq!((counts.due, counts.failed + counts.unknown), (6, 0), "{counts:?}");
        // The other client takes all slots of its own thread.
        assert_eq!(
            (counts.committed + counts.skipped, counts.skipped > 0),
            (6, n_threads == 2),
            "{counts:?}"
        );
    }
}

#[test]
fn without_clients_the_load_is_over() {
    let pg = Pg::shared();
    let database = pg.database();
    let mut load = load(&pg.socket(&database), "select 1, 'last one';");
    load.window.measure_s = 60;
    let mut driving = Driving::start(load);
    driving.go();
    let first = driving.wait_for_interval();
    terminate(&pg, &database, "%last one%", "%");
    let story = driving.story(vec![first]);
    assert_eq!((story.done.ending, story.done.clients_lost), (LoadEnding::ConnectionsLost, 1));
    assert_eq!(story.done.counts.failed, 0);
}

#[test]
fn a_transaction_that_the_server_may_have_committed_is_unknown() {
    let pg = Pg::shared();
    let database = pg.database();
    pg.admin(&database)
        .execute(
            "create table t (n int); \
             create function nap() returns trigger language plpgsql as 'begin perform pg_sleep(30); return null; end'; \
             create constraint trigger late after insert on t deferrable initially deferred \
             for each row execute function nap()",
        )
        .unwrap();
    // Ended in a statement outside a block, in a block before its commit, in the commit, and before the block is open.
    let check = |source: &str, at: &str, expected: (u64, u64, u64, u64)| {
        for protocol in [Protocol::Simple, Protocol::Extended, Protocol::Prepared] {
            let mut load = load(&pg.socket(&database), source);
            (load.protocol, load.window.measure_s) = (protocol, 30);
            let mut driving = Driving::start(load);
            driving.go();
            // Parsed before the load, a statement may be the last one of a backend that is idle.
            terminate(&pg, &database, at, "active");
            let story = driving.story(Vec::new());
            assert_eq!(story.outcomes(), expected, "{source} {protocol:?}");
            assert_eq!(story.done.errors.get("57P01"), Some(&1));
        }
    };
    check("select pg_sleep(30);", "select pg_sleep%", (0, 0, 1, 0));
    check("begin;\nselect pg_sleep(30);\nend;", "select pg_sleep%", (0, 1, 0, 0));
    check("begin;\ninsert into t values (1);\ncommit;", "commit%", (0, 0, 1, 0));
    check("begin;\ninsert into t values (1);\nend;", "end%", (0, 0, 1, 0));
    check("START TRANSACTION;\nselect pg_sleep(30);\nCOMMIT WORK;", "select pg_sleep%", (0, 1, 0, 0));
    assert_eq!(pg.ask(&database, "select count(*) from t"), "0");
}

#[test]
fn an_error_in_the_script_itself_ends_its_client() {
    let pg = Pg::shared();
    let database = pg.database();
    let source = "\\set n random(0, 20)\nbegin;\n\\set bad 1 / :n\nselect :bad;\nend;\n";
    let mut load = load(&pg.socket(&database), source);
    (load.n_clients, load.window.measure_s) = (2, 30);
    let story = drive(load);
    assert_eq!((story.done.ending, story.done.clients_lost), (LoadEnding::ConnectionsLost, 2));
    assert_eq!(story.done.errors, [("script".to_string(), 2)].into());
    assert!(story.done.messages["script"].contains("division by zero"), "{:?}", story.done.messages);
    let open = "select count(*) from pg_stat_activity where datname = current_database() and pid <> pg_backend_pid()";
    for _ in 0..100 {
        if pg.ask(&database, open) == "0" {
            return;
        }
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    panic!("a block is left open");
}
