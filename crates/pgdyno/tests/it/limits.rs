//! Nothing waits for ever: administration behind a lock, a server that is stopped in part or as a whole, a host that
//! accepts connections and says nothing.

use std::net::TcpListener;
use std::time::{Duration, Instant};

use model::telemetry::event::{Event, EventKind};
use model::telemetry::reading::TickSource;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use testbed::Pg;

use crate::tool::{Ended, PACE, Place};

/// Longer than any limit given here, shorter than for ever.
const BOUND: Duration = Duration::from_secs(45);

/// Runs pgdyno, which must end in time and fail.
#[track_caller]
fn expect_failure(place: &Place, args: &str, server: &str) -> Ended {
    let args: Vec<&str> = args.split_whitespace().chain(["--server", server]).collect();
    place.start(place.command(&args)).wait_for_end(BOUND).expect(1)
}

/// A run whose phases may take so long.
fn run(output: &str, phase_timeout: &str, options: &str) -> String {
    format!(
        "run --scale 1 -c 2 {PACE} --measure 2s --ramp-up 0s --repeats 1 --set prepare.restore=false \
         --set prepare.settle=false --set run.phase_timeout={phase_timeout} {options} -o {output}"
    )
}

#[track_caller]
fn expect_words(ended: &Ended, words: &[&str]) {
    for expected in words {
        let text = format!("{}{}", ended.stdout, ended.stderr);
        assert!(text.contains(expected), "{text}\nexpected: {expected}");
    }
}

#[test]
fn a_vacuum_behind_a_lock_ends_and_its_holder_is_named() {
    let (place, pg) = (Place::new(), Pg::shared());
    let database = pg.database();
    let server = pg.admin_target(&database);
    place.run(&["init", "--scale", "1", "--server", &server]).expect(0);
    // Somebody else's maintenance; whoever reads goes ahead.
    let mut holder = pg.admin(&database);
    holder.execute("set application_name = 'night shift'").unwrap();
    holder.execute("begin").unwrap();
    holder.execute("lock table pgbench_accounts in share update exclusive mode").unwrap();
    let pid = holder.backend_pid();
    let ended = expect_failure(&place, &run("out", "3s", ""), &server);
    let held = format!("the lock is held by process {pid} (user `postgres`, application `night shift`");
    expect_words(
        &ended,
        &["VACUUM of `public.pgbench_accounts` failed", "lock timeout", &held, "lock table pgbench_accounts"],
    );
    // None of our sessions keeps waiting, and the command succeeds if no lock is in the way.
    let waiting = "select count(*) from pg_locks join pg_stat_activity using (pid) \
                   where not granted and datname = current_database()";
    assert_eq!(pg.ask(&database, waiting), "0");
    holder.execute("rollback").unwrap();
    let again: Vec<String> = run("again", "60s", "").split_whitespace().map(str::to_string).collect();
    let mut again: Vec<&str> = again.iter().map(String::as_str).collect();
    again.extend(["--server", &server]);
    place.run(&again);
    crate::tool::expect_sound(&place.first_run("again"));
    place.expect_clean();
}

#[test]
fn settings_of_the_database_do_not_end_administration() {
    let (place, pg) = (Place::new(), Pg::shared());
    let database = pg.database();
    let server = pg.admin_target(&database);
    for setting in ["statement_timeout = '40ms'", "idle_session_timeout = '300ms'"] {
        pg.admin("postgres").execute(&format!("alter database {database} set {setting}")).unwrap();
    }
    place.run(&["init", "--scale", "3", "--server", &server]).expect(0);
    place.run(&["check", "--server", &server]).expect(0);
    place.expect_clean();
}

#[test]
fn settings_of_the_role_and_the_database_do_not_end_what_accompanies_a_run() {
    let (place, pg) = (Place::new(), Pg::start());
    let database = pg.database();
    let server = pg.admin_target(&database);
    let mut admin = pg.admin("postgres");
    for setting in ["idle_session_timeout", "idle_in_transaction_session_timeout"] {
        admin.execute(&format!("alter role postgres set {setting} = '600ms'")).unwrap();
    }
    for setting in ["statement_timeout", "lock_timeout"] {
        admin.execute(&format!("alter database {database} set {setting} = '500ms'")).unwrap();
    }
    // Loaded, copied by a template, vacuumed, read, settled, observed, and counted.
    let args = "run -s 3 -c 2 --measure 3s --ramp-up 0s --repeats 2 -o out --replace-database";
    let args: Vec<&str> =
        args.split_whitespace().chain([database.as_str(), PACE, "--server", &server]).collect();
    place.run(&args).expect(0);
    for run in place.results("out").runs {
        crate::tool::expect_sound(&run);
        // A machine that is busy with other tests makes readings late; a session that is ended loses them.
        let is_lost =
            |event: &&Event| event.kind == EventKind::TelemetryLost && !event.text.ends_with(" late");
        let lost = run.events.iter().filter(is_lost);
        assert_eq!(lost.map(|event| event.text.as_str()).collect::<Vec<_>>(), [""; 0]);
        let source = |source| run.ticks.iter().filter(|tick| tick.source == source).count();
        assert!(source(TickSource::Server) >= 3);
    }
    place.expect_clean();
}

#[test]
fn a_checkpoint_that_never_completes_is_given_up() {
    let (place, pg) = (Place::new(), Pg::start());
    let database = pg.database();
    let server = pg.admin_target(&database);
    place.run(&["init", "--scale", "1", "--server", &server]).expect(0);
    let sql = "select pid from pg_stat_activity where backend_type = 'checkpointer'";
    let checkpointer = Pid::from_raw(pg.ask("postgres", sql).parse().unwrap());
    kill(checkpointer, Signal::SIGSTOP).unwrap();
    let began = Instant::now();
    let ended = expect_failure(&place, &run("out", "3s", "--set prepare.vacuum=false"), &server);
    kill(checkpointer, Signal::SIGCONT).unwrap();
    assert!(began.elapsed() < Duration::from_secs(25), "{:?}", began.elapsed());
    expect_words(
        &ended,
        &["phase `checkpoint`", "has not ended after 3 s (run.phase_timeout)", "waits for IPC Checkpoint"],
    );
    place.expect_clean();
}

#[test]
fn a_server_that_is_stopped_ends_every_command() {
    let (place, pg) = (Place::new(), Pg::start());
    let database = pg.database();
    let server = format!("{} connect_timeout=2", pg.admin_target(&database));
    place.run(&["init", "--scale", "1", "--server", &server]).expect(0);
    pg.signal_all(Signal::SIGSTOP);
    for args in ["init --scale 1", "check", &run("out", "3s", ""), "plan --scale 1"] {
        expect_words(&expect_failure(&place, args, &server), &["no answer"]);
    }
    pg.signal_all(Signal::SIGCONT);
    place.expect_clean();
}

#[test]
fn a_host_that_says_nothing_ends_every_command() {
    let place = Place::new();
    let hole = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = hole.local_addr().unwrap().port();
    let server = format!("host=127.0.0.1 port={port} user=u dbname=d connect_timeout=");
    for args in ["check", "init --scale 1"] {
        expect_failure(&place, args, &format!("{server}2"));
    }
    // The user's own settings set no limit for a connection.
    let ended = expect_failure(&place, &run("out", "3s", ""), &format!("{server}0"));
    expect_words(&ended, &["no answer", "has not ended after 3 s (run.phase_timeout)"]);
    place.expect_clean();
}
