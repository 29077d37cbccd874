//! Sessions that administer never wait forever: for a lock, for a server that is stopped, for one that is not there.

use crate::cluster::{Cluster, ShownCertificate};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::time::{Duration, Instant};
use wire::{ConnectError, Conninfo, Limit, Session, SessionError};

/// An administrative session that waits this long for a lock.
fn session(conninfo: &Conninfo, lock_wait_max: Duration) -> Session {
    let _limit = limit(lock_wait_max).enter();
    let mut session = Session::connect(conninfo).unwrap();
    session.administer().unwrap();
    session
}

fn limit(lock_wait_max: Duration) -> Limit {
    Limit { lock_wait_max, ..Limit::new(Duration::from_secs(30)) }
}

/// How VACUUM fails on a table that another session has locked.
fn behind_a_lock(cluster: &Cluster, place: &Conninfo, table: &str) -> (String, Duration) {
    let mut holder = Session::connect(&Conninfo {
        application_name: Some("night shift".to_owned()),
        ..cluster.socket("postgres")
    })
    .unwrap();
    holder.execute(&format!("create table {table} (i int); alter table {table} owner to trusty")).unwrap();
    holder.execute("begin").unwrap();
    holder.execute(&format!("lock table {table} /* by hand */")).unwrap();
    let wait_max = Duration::from_secs(1);
    let mut waiting = session(place, wait_max);
    let _limit = limit(wait_max).enter();
    let began = Instant::now();
    let error = waiting.execute(&format!("vacuum {table}")).unwrap_err().to_string();
    let pid = holder.backend_pid();
    for expected in [
        &*format!("held by process {pid} (user `postgres`, application `night shift`, idle in transaction; "),
        "by hand",
    ] {
        assert!(error.contains(expected), "{error}\nexpected: {expected}");
    }
    (error, began.elapsed())
}

#[test]
fn the_wait_for_a_lock_has_a_limit_and_its_holder_is_named() {
    let cluster = Cluster::shared();
    let (error, took) = behind_a_lock(&cluster, &cluster.socket("postgres"), "public.behind_a_lock");
    assert!(error.contains("55P03"), "the server gives up: {error}");
    assert!(took < Duration::from_secs(10), "{took:?}");
}

#[test]
fn behind_a_pooler_no_setting_is_touched_and_this_end_gives_up() {
    let cluster = Cluster::shared();
    let place = pooled(cluster.port);
    let mut admin = Session::connect(&cluster.socket("postgres")).unwrap();
    admin.execute("grant pg_read_all_stats to trusty").unwrap();
    let mut plain = Session::connect(&place).unwrap();
    let _limit = limit(Duration::from_secs(1)).enter();
    plain.administer().unwrap();
    assert_eq!(plain.query("show lock_timeout").unwrap().scalar(), Some("0"));
    let (error, took) = behind_a_lock(&cluster, &place, "behind_a_pooler");
    assert!(
        error.starts_with("gave up after 1 s for `vacuum behind_a_pooler`, the lock is held by"),
        "{error}"
    );
    assert!(took < Duration::from_secs(10), "{took:?}");
}

/// A server that reports another process id than that of the session's server process, as poolers do.
fn pooled(port: u16) -> Conninfo {
    let (listener, place) = testbed::hostile::listen("trusty", "postgres");
    std::thread::spawn(move || {
        for client in listener.incoming() {
            let (mut client, mut server) =
                (client.unwrap(), TcpStream::connect(("127.0.0.1", port)).unwrap());
            let (mut from_client, mut to_server) = (client.try_clone().unwrap(), server.try_clone().unwrap());
            std::thread::spawn(move || std::io::copy(&mut from_client, &mut to_server));
            std::thread::spawn(move || {
                let mut buffer = [0; 65536];
                while let Ok(n @ 1..) = server.read(&mut buffer) {
                    let bytes = &mut buffer[..n];
                    // BackendKeyData: a length of 12, and the process id.
                    if let Some(at) = bytes.windows(5).position(|head| head == b"K\0\0\0\x0c") {
                        bytes[at + 5] = 0x7f;
                    }
                    if client.write_all(bytes).is_err() {
                        return;
                    }
                }
            });
        }
    });
    place
}

#[test]
fn settings_that_end_statements_do_not_reach_what_administers() {
    let cluster = Cluster::shared();
    let hurry =
        "-c statement_timeout=200ms -c idle_in_transaction_session_timeout=200ms -c lock_timeout=300ms";
    let place = Conninfo { options: Some(hurry.to_owned()), ..cluster.socket("trusty") };
    let mut hurried = session(&place, Duration::from_secs(1));
    hurried.execute("select pg_sleep(0.5)").unwrap();
    hurried.execute("begin").unwrap();
    std::thread::sleep(Duration::from_millis(500));
    hurried.execute("commit").unwrap();
    assert_eq!(hurried.query("show lock_timeout").unwrap().scalar(), Some("300ms"), "the shorter one stays");
    let mut trusty = session(&cluster.socket("trusty"), Duration::from_secs(1));
    assert_eq!(trusty.query("show lock_timeout").unwrap().scalar(), Some("1s"));
}

#[test]
fn a_statement_that_exceeds_its_limit_is_cancelled() {
    let cluster = Cluster::shared();
    let mut admin = Session::connect(&cluster.socket("postgres")).unwrap();
    let check = |wait: &dyn Fn(&mut Session) -> SessionError, expected: &str| {
        let mut waiting = session(&cluster.socket("postgres"), Duration::from_secs(1));
        let pid = waiting.backend_pid();
        let error = wait(&mut waiting).to_string();
        assert!(error.contains(expected), "{error}\nexpected: {expected}");
        assert!(waiting.is_lost());
        pid
    };
    let by_limit = check(
        &|session| {
            let _limit = Limit::new(Duration::from_secs(1)).enter();
            session.execute("select pg_sleep(60)").unwrap_err()
        },
        "did not answer in time: waited 1.0 s for `select pg_sleep(60)`, whose server process",
    );
    let by_timeout = check(
        &|session| {
            session.set_timeout(Some(Duration::from_millis(100)));
            session.execute("select pg_sleep(60)").unwrap_err()
        },
        "no answer from the server within 100ms",
    );
    let sql = format!(
        "select count(*) from pg_stat_activity where pid in ({by_limit}, {by_timeout}) and state = 'active'"
    );
    let began = Instant::now();
    while admin.query(&sql).unwrap().scalar() != Some("0") {
        assert!(began.elapsed() < Duration::from_secs(20), "the server still sleeps");
    }
}

#[test]
fn a_wait_for_a_stopped_server_is_given_up() {
    let cluster = Cluster::start(ShownCertificate::Signed);
    let mut admin = Session::connect(&cluster.socket("postgres")).unwrap();
    let mut waiting = session(&cluster.socket("postgres"), Duration::from_millis(500));
    let postmaster = cluster.pid();
    let pids = [postmaster, waiting.backend_pid()];
    let signal = |signal| pids.iter().for_each(|pid| kill(Pid::from_raw(*pid), signal).unwrap());
    signal(Signal::SIGSTOP);
    let began = Instant::now();
    let _limit = limit(Duration::from_millis(500)).enter();
    let error = waiting.execute("checkpoint").unwrap_err().to_string();
    let took = began.elapsed();
    signal(Signal::SIGCONT);
    assert!(error.contains("the server does not respond: waited 1 s for `checkpoint`"), "{error}");
    assert!(took < Duration::from_secs(15), "{took:?}");
    admin.execute("select 1").unwrap();
}

#[test]
fn a_host_that_accepts_connections_and_says_nothing_is_given_up() {
    let hole = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = hole.local_addr().unwrap().port();
    // The user's own settings set no limit.
    let conninfo = Conninfo {
        connect_timeout: Duration::ZERO,
        ..Conninfo::new("127.0.0.1", port, "postgres", "postgres")
    };
    let _limit = Limit::new(Duration::from_millis(500)).enter();
    let error = Session::connect(&conninfo).unwrap_err();
    assert!(matches!(error, ConnectError::Timeout { .. }), "{error:?}");
}
