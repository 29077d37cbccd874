//! The crate against a real server: Debian's PostgreSQL, started here.

#![allow(clippy::unwrap_used, reason = "helpers of tests may panic as tests do")]

mod cluster;
mod keywords;
mod limits;
mod openssl;
mod revoked;
mod session_settings;

use cluster::{Cluster, PASSWORD, ShownCertificate, unused_port};
use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use wire::conninfo::Surroundings;
use wire::{
    ConnectError, Connection, Conninfo, DialProgress, Dialing, Flow, Reply, Scanner, Secret, Session,
    SessionError, connect,
};

/// Who the server thinks we are, and whether it sees TLS.
fn identity(session: &mut Session) -> String {
    let sql =
        "select current_user || ' ' || coalesce(ssl, false) from pg_stat_ssl where pid = pg_backend_pid()";
    session.query(sql).unwrap().scalar().unwrap().to_owned()
}

fn failure(conninfo: &Conninfo) -> ConnectError {
    match connect(conninfo) {
        Ok(_) => panic!("{conninfo} connected"),
        Err(error) => {
            assert!(!format!("{error} {error:?} {conninfo:?}").contains(PASSWORD), "{error:?}");
            error
        }
    }
}

#[test]
fn each_authentication_works_over_each_way() {
    let cluster = Cluster::shared();
    let check = |conninfo: Conninfo, expected: &str| {
        let mut session = Session::connect(&conninfo).unwrap_or_else(|error| panic!("{conninfo:?}: {error}"));
        assert_eq!(identity(&mut session), expected, "{conninfo:?}");
        assert_eq!(session.tls().is_some(), expected.ends_with("true"));
    };
    for user in ["trusty", "md5er", "scrammer"] {
        let mut conninfo = cluster.socket(user);
        conninfo.password = Some(Secret::from(PASSWORD));
        check(conninfo, &format!("{user} false"));
    }
    for user in ["trusty", "clear", "md5er", "scrammer"] {
        for (sslmode, tls) in [("disable", false), ("allow", false), ("prefer", true), ("require", true)] {
            let extra = format!("sslmode={sslmode} password={PASSWORD}");
            check(cluster.tcp(user, &extra), &format!("{user} {tls}"));
        }
    }
    // Not let in without TLS, so `allow` must come back with it.
    check(cluster.tcp("tlsonly", &format!("sslmode=allow password={PASSWORD}")), "tlsonly true");
}

#[test]
fn channel_binding_is_used_and_required() {
    let cluster = Cluster::shared();
    for (binding, sslmode) in
        [("require", "require"), ("prefer", "require"), ("disable", "require"), ("require", "prefer")]
    {
        let extra = format!("password={PASSWORD} sslmode={sslmode} channel_binding={binding}");
        let mut session = Session::connect(&cluster.tcp("scrammer", &extra)).unwrap();
        assert_eq!(identity(&mut session), "scrammer true", "{extra}");
    }
    for (user, sslmode) in
        [("trusty", "require"), ("md5er", "require"), ("clear", "require"), ("scrammer", "disable")]
    {
        let extra = format!("password={PASSWORD} sslmode={sslmode} channel_binding=require");
        let error = failure(&cluster.tcp(user, &extra));
        assert!(matches!(error, ConnectError::AuthMethod { .. }), "{user}: {error:?}");
    }
}

#[test]
fn certificates_are_verified_as_sslmode_says() {
    for certificate in [ShownCertificate::Signed, ShownCertificate::SelfSigned, ShownCertificate::Version1] {
        let shared = (certificate == ShownCertificate::Signed).then(Cluster::shared);
        let own = if shared.is_none() { Some(Cluster::start(certificate)) } else { None };
        let cluster = shared.as_deref().or(own.as_ref()).unwrap();
        let root =
            cluster.path(if certificate == ShownCertificate::SelfSigned { "server.crt" } else { "root.crt" });
        let root = root.display();
        let foreign = cluster.path("client.crt");
        let foreign = foreign.display();
        let with_name = |extra: &str| {
            let text = format!(
                "host=db.test hostaddr=127.0.0.1 port={} dbname=postgres user=trusty {extra}",
                cluster.port
            );
            Conninfo::resolve_in(&text, &Surroundings::default()).unwrap()
        };
        let check = |conninfo: &Conninfo, expected: Option<&str>| match (connect(conninfo), expected) {
            (Ok(connection), None) => assert!(connection.tls.is_some()),
            (Err(ConnectError::Tls { reason, .. }), Some(part)) if reason.contains(part) => {}
            (Ok(_), Some(_)) => panic!("{certificate:?} {conninfo:?}: connected"),
            (Err(error), _) => panic!("{certificate:?} {conninfo:?}: {error}"),
        };
        check(&with_name("sslmode=require"), None);
        check(&with_name(&format!("sslmode=require sslrootcert={root}")), None);
        check(
            &with_name(&format!("sslmode=require sslrootcert={foreign}")),
            Some("invalid peer certificate"),
        );
        check(&with_name("sslmode=require sslrootcert=/nowhere"), None);
        check(&with_name("sslmode=verify-ca sslrootcert=/nowhere"), Some("/nowhere"));
        check(&with_name("sslmode=verify-ca"), Some("sslrootcert"));
        check(&with_name(&format!("sslmode=verify-ca sslrootcert={root}")), None);
        check(&with_name(&format!("sslmode=verify-full sslrootcert={root}")), None);
        check(
            &with_name(&format!("sslmode=verify-full sslrootcert={foreign}")),
            Some("invalid peer certificate"),
        );
        check(&with_name("sslrootcert=system"), Some("invalid peer certificate"));
        for (extra, end) in [
            ("sslmode=require", "256_GCM_SHA384"),
            (&format!("sslmode=require sslrootcert={root}"), "SHA384, certificate verified"),
            (&format!("sslmode=verify-full sslrootcert={root}"), "SHA384, certificate and name verified"),
        ] {
            let tls = connect(&with_name(extra)).unwrap().tls.unwrap();
            assert!(tls.ends_with(end), "{extra}: {tls}");
        }
        let by_address = |mode: &str| cluster.tcp("trusty", &format!("sslmode={mode} sslrootcert={root}"));
        check(&by_address("verify-ca"), None);
        check(&by_address("verify-full"), Some("not valid for name"));
    }
}

#[test]
fn client_certificates_are_shown_and_their_keys_must_be_private() {
    let cluster = Cluster::shared();
    let file = |name: &str| cluster.path(name).display().to_string();
    let extra = format!("sslmode=require sslcert={} sslkey={}", file("client.crt"), file("client.key"));
    let mut session = Session::connect(&cluster.tcp("certer", &extra)).unwrap();
    assert_eq!(identity(&mut session), "certer true");

    let open_key = cluster.path("open.key");
    std::fs::copy(cluster.path("client.key"), &open_key).unwrap();
    std::fs::set_permissions(&open_key, std::fs::Permissions::from_mode(0o644)).unwrap();
    let extra = format!("sslmode=require sslcert={} sslkey={}", file("client.crt"), open_key.display());
    let error = failure(&cluster.tcp("certer", &extra)).to_string();
    assert!(error.contains("chmod 0600"), "{error}");
    let error = failure(&cluster.tcp("certer", "sslmode=require"));
    assert!(matches!(error, ConnectError::Auth { .. }), "{error:?}");
}

#[test]
fn files_that_are_pipes_or_have_no_end_are_refused_by_name() {
    let cluster = Cluster::shared();
    let file = |name: &str| cluster.path(name).display().to_string();
    let pipe = cluster.path("pipe");
    nix::unistd::mkfifo(&pipe, nix::sys::stat::Mode::S_IRUSR).unwrap();
    let pipe = pipe.display().to_string();
    let (root, certificate) = (file("root.crt"), file("client.crt"));
    for (named, reason) in [(pipe.as_str(), "not a regular file"), ("/dev/zero", "longer than 64 MiB")] {
        for (keyword, settings) in [
            ("sslrootcert", format!("sslrootcert={named}")),
            ("sslcrl", format!("sslrootcert={root} sslcrl={named}")),
            ("sslcert", format!("sslcert={named} sslkey={}", file("client.key"))),
        ] {
            let error = failure(&cluster.tcp("trusty", &format!("sslmode=require {settings}"))).to_string();
            let expected = format!("`{keyword}` file `{named}`: it is {reason}");
            assert!(error.contains(&expected), "{error}");
        }
        let environment = BTreeMap::from([("PGSERVICEFILE".to_string(), named.to_string())]);
        let around = Surroundings { environment, ..Surroundings::default() };
        let error = Conninfo::resolve_in("service=bench", &around).unwrap_err().to_string();
        assert!(error.contains(&format!("cannot read service file `{named}`: it is {reason}")), "{error}");
    }
    let key = format!("sslmode=require sslcert={certificate} sslkey={pipe}");
    let error = failure(&cluster.tcp("certer", &key)).to_string();
    assert!(error.contains(&format!("`sslkey` file `{pipe}`: it is not a regular file")), "{error}");
}

#[test]
fn refusals_say_what_happened_and_what_to_do() {
    let cluster = Cluster::shared();
    let at = format!("127.0.0.1:{}", cluster.port);
    let check = |conninfo: &Conninfo, expected: &str| assert_eq!(failure(conninfo).to_string(), expected);
    check(
        &cluster.tcp("scrammer", &format!("password=not{PASSWORD}")),
        &format!(
            "server `{at}` refused user `scrammer` (28P01): password authentication failed for user \"scrammer\"; \
             the password came from the connection string"
        ),
    );
    check(
        &cluster.tcp("scrammer", ""),
        &format!(
            "server `{at}` requires a password for user `scrammer`, but none was given: set `PGPASSWORD`, or \
             add a line HOST:PORT:DATABASE:USER:PASSWORD with exactly these names to `~/.pgpass` (mode 0600)"
        ),
    );
    check(
        &cluster.tcp("tlsonly", &format!("sslmode=disable password={PASSWORD}")),
        &format!(
            "server `{at}` refused user `tlsonly` (28000): no pg_hba.conf entry for host \"127.0.0.1\", user \
             \"tlsonly\", database \"postgres\", no encryption; if the server offers TLS, its pg_hba.conf may require \
             sslmode=require; otherwise it has no line that lets this user in"
        ),
    );
    check(&cluster.tcp("trusty", "dbname=bnech"), &format!("database `bnech` does not exist on `{at}`"));
    let error = failure(&cluster.tcp("nobody", "")).to_string();
    assert!(error.contains("refused user `nobody` (28000): no pg_hba.conf entry"), "{error}");
    let no_rule = "its pg_hba.conf needs a line that lets this user in from here, and a reload";
    assert!(error.ends_with(no_rule), "with TLS no better: {error}");
    let error = failure(&cluster.socket("nobody")).to_string();
    assert!(error.contains("no encryption; ") && error.ends_with(no_rule), "no TLS on sockets: {error}");

    let port = unused_port();
    let down = Conninfo::new("127.0.0.1", port, "u", "d");
    let error = failure(&down);
    assert!(matches!(error, ConnectError::Refused { unix: false, .. }) && error.is_temporary(), "{error:?}");
    assert!(
        error.to_string().starts_with(&format!("no server at `127.0.0.1:{port}`: Connection refused")),
        "{error}"
    );
    let error = failure(&Conninfo::new("/nowhere", 5432, "u", "d"));
    assert!(
        error.to_string().starts_with("no server at unix socket `/nowhere/.s.PGSQL.5432`: No such file"),
        "{error}"
    );
    let error = failure(&Conninfo::new("dbhots.invalid", 5432, "u", "d"));
    assert!(error.to_string().starts_with("cannot resolve host `dbhots.invalid`"), "{error}");
}

#[test]
fn servers_that_are_not_postgres_are_recognised() {
    // What the stranger answers to whatever it is asked first.
    let check = |answer: &'static [u8], sslmode: &str, expected: &str| {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let server = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let mut asked = [0; 8];
            stream.read_exact(&mut asked).unwrap();
            stream.write_all(answer).unwrap();
            // Wait for the client to go, so that it reads the answer and not a reset.
            let _ = stream.read_to_end(&mut Vec::new());
        });
        let text = format!("host=127.0.0.1 port={port} user=u sslmode={sslmode} password={PASSWORD}");
        let error = failure(&Conninfo::resolve_in(&text, &Surroundings::default()).unwrap()).to_string();
        server.join().unwrap();
        assert_eq!(error.replace(&port.to_string(), "PORT"), expected);
    };
    let http = b"HTTP/1.1 400 Bad Request\r\n\r\n";
    let expected = "`127.0.0.1:PORT` does not speak PostgreSQL's protocol (its answer starts with `H`); is this an HTTP port?";
    check(http, "require", expected);
    check(http, "disable", expected);
    check(
        b"N",
        "require",
        "server `127.0.0.1:PORT` does not offer TLS, which `sslmode` requires; turn on `ssl` there, or use sslmode=prefer",
    );
    check(
        b"Esorry, no process left\0",
        "disable",
        "server refused the connection: FATAL 58000: sorry, no process left",
    );
    // It has no TLS, and its refusal ends as if that were the reason.
    check(
        b"N\
          E\0\0\0\x3eSFATAL\0C28000\0Mno pg_hba.conf entry for u, no encryption\0\0",
        "prefer",
        "server `127.0.0.1:PORT` refused user `u` (28000): no pg_hba.conf entry for u, no encryption; its pg_hba.conf \
         needs a line that lets this user in from here, and a reload",
    );
    // A server that says "ready" without asking who we are has not proved anything.
    check(b"Z\0\0\0\x05I", "disable", "`127.0.0.1:PORT`: message `Z` of the server is damaged");
}

#[test]
fn a_silent_server_ends_in_a_timeout() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    for sslmode in ["disable", "prefer", "require"] {
        let text = format!("host=127.0.0.1 port={port} user=u connect_timeout=1 sslmode={sslmode}");
        let begin = Instant::now();
        let error = failure(&Conninfo::resolve_in(&text, &Surroundings::default()).unwrap());
        assert!(matches!(error, ConnectError::Timeout { .. }), "{error:?}");
        assert!(begin.elapsed() >= Duration::from_secs(1) && begin.elapsed() < Duration::from_secs(2));
    }
}

#[test]
fn hosts_are_tried_in_order_and_by_role() {
    let cluster = Cluster::shared();
    let (down, up) = (unused_port(), cluster.port);
    let resolve = |extra: &str| {
        let text = format!("host=127.0.0.1,127.0.0.1 port={down},{up} user=trusty dbname=postgres {extra}");
        Conninfo::resolve_in(&text, &Surroundings::default()).unwrap()
    };
    for attrs in ["any", "read-write", "primary", "prefer-standby"] {
        let connection = connect(&resolve(&format!("target_session_attrs={attrs}"))).unwrap();
        assert_eq!(connection.host.port, up, "{attrs}");
    }
    for attrs in ["standby", "read-only"] {
        let error = failure(&resolve(&format!("target_session_attrs={attrs}")));
        assert!(error.to_string().contains(&format!("is not `{attrs}`")), "{error}");
        assert!(matches!(&error, ConnectError::Several(errors) if errors.len() == 2), "{error:?}");
    }
    // The server reports without being asked whether it is a standby.
    let mut asked = resolve("target_session_attrs=primary");
    asked.application_name = Some("never asked".to_owned());
    let _connected = connect(&asked).unwrap();
    let mut admin = Session::connect(&cluster.socket("postgres")).unwrap();
    let sql = "select query from pg_stat_activity where application_name = 'never asked'";
    assert_eq!(admin.query(sql).unwrap().scalar(), Some(""), "no statement has reached that backend");
    let read_only = resolve("target_session_attrs=read-only options='-c default_transaction_read_only=on'");
    assert!(connect(&read_only).is_ok());
}

#[test]
fn the_environment_means_what_it_means_for_psql() {
    let cluster = Cluster::shared();
    let port = cluster.port.to_string();
    let socket_dir = cluster.dir().display().to_string();
    let passfile = cluster.path("pgpass");
    let service_file = cluster.path("service");
    std::fs::write(&passfile, format!("127.0.0.1:{port}:*:scrammer:{PASSWORD}\n")).unwrap();
    std::fs::set_permissions(&passfile, std::fs::Permissions::from_mode(0o600)).unwrap();
    let group = format!("[s]\nhost=127.0.0.1\nport={port}\nuser=trusty\ndbname=template1\n");
    std::fs::write(&service_file, group).unwrap();
    let passfile = passfile.display().to_string();
    let service_file = service_file.display().to_string();
    let check = |text: &str, environment: &[(&str, &str)]| {
        let environment: BTreeMap<String, String> =
            environment.iter().map(|(key, value)| (key.to_string(), value.to_string())).collect();
        let sql = "select current_user, current_database(), coalesce(inet_server_port(), 0), \
                   current_setting('application_name')";
        let mut psql = cluster.program("psql");
        psql.env_clear().envs(&environment).args(["-X", "-w", "-A", "-t", "-c", sql, "-d", text]);
        let output = psql.output().unwrap();
        let expected = String::from_utf8(output.stdout).unwrap();
        let around =
            Surroundings { environment, os_user: Some("root".to_owned()), ..Surroundings::of_process() };
        let mut conninfo = Conninfo::resolve_in(text, &around).unwrap();
        if conninfo.application_name.is_none() {
            conninfo.application_name = Some("psql".to_owned());
        }
        // A round trip through keywords must not change anything that matters.
        conninfo = Conninfo::from_keywords(&conninfo.keywords(), conninfo.password.clone()).unwrap();
        let mut session = Session::connect(&conninfo).unwrap_or_else(|error| panic!("{text}: {error}"));
        let rows = session.query(sql).unwrap().rows;
        let ours: Vec<&str> = rows[0].iter().map(|value| value.as_deref().unwrap()).collect();
        assert_eq!(
            format!("{}\n", ours.join("|")),
            expected,
            "{text}: {}",
            String::from_utf8_lossy(&output.stderr)
        );
    };
    check(
        "",
        &[("PGHOST", &socket_dir), ("PGPORT", &port), ("PGUSER", "trusty"), ("PGDATABASE", "postgres")],
    );
    check("template1", &[("PGHOST", &socket_dir), ("PGPORT", &port), ("PGUSER", "trusty")]);
    check(
        "user=postgres dbname=postgres",
        &[("PGHOST", &socket_dir), ("PGPORT", &port), ("PGUSER", "trusty")],
    );
    check(
        &format!("postgres://trusty@127.0.0.1:{port}/template1?application_name=a%20b"),
        &[("PGAPPNAME", "no")],
    );
    check("service=s", &[("PGSERVICEFILE", &service_file)]);
    check("service=s dbname=postgres", &[("PGSERVICEFILE", &service_file), ("PGUSER", "no")]);
    check("dbname=postgres", &[("PGSERVICEFILE", &service_file), ("PGSERVICE", "s")]);
    let scrammer = format!("host=127.0.0.1 port={port} user=scrammer dbname=postgres");
    check(&scrammer, &[("PGPASSFILE", &passfile)]);
    check(&format!("{scrammer} passfile={passfile}"), &[]);
    check(&scrammer, &[("PGPASSWORD", PASSWORD)]);
}

#[test]
fn queries_return_text_and_errors_leave_the_session_usable() {
    let cluster = Cluster::shared();
    let mut session = Session::connect(&cluster.socket("postgres")).unwrap();
    assert!(session.server_version_num() >= 90_600);
    let rows = session.query("select 1 as a, null as b; select 'ü' as c, 2 as d").unwrap();
    assert_eq!((rows.columns.len(), rows.get(0, "c"), rows.parse::<u8>(0, "d")), (2, Some("ü"), Some(2)));

    let rows = session.query_params("select $1::int + 1 as x, $2::text as y", &[Some("41"), None]).unwrap();
    assert_eq!((rows.scalar(), rows.get(0, "y"), &*rows.tag), (Some("42"), None, "SELECT 1"));

    for round in 0..2 {
        let error = session.query("select * from absent").unwrap_err();
        let SessionError::Server(server) = &error else { panic!("{error:?}") };
        assert_eq!((&*server.sqlstate, server.position), ("42P01", Some(15)), "{round}");
        assert_eq!(error.to_string(), "ERROR 42P01: relation \"absent\" does not exist");
        assert!(session.query_params("select 1/$1::int", &[Some("0")]).is_err());
        assert_eq!(session.query("select 1").unwrap().scalar(), Some("1"));
    }
    session.execute("do $$ begin raise notice 'hello'; end $$").unwrap();
    let notices = session.take_notices();
    assert_eq!((notices.len(), &*notices[0].message), (1, "hello"));
    // Bigger than any buffer in between, both ways.
    let long = "x".repeat(3_000_000);
    let rows = session.query_params("select $1", &[Some(&long)]).unwrap();
    assert_eq!(rows.scalar().map(str::len), Some(3_000_000));
    // A COPY that nobody serves must not hang.
    let error = session.execute("create temp table t (a int); copy t from stdin").unwrap_err();
    assert!(matches!(&error, SessionError::Server(e) if e.sqlstate == "57014"), "{error:?}");
    session.execute("copy (select generate_series(1, 100000)) to stdout").unwrap();
    assert_eq!(session.query("").unwrap().rows.len(), 0);
}

#[test]
fn copy_streams_rows_and_stops_at_an_error() {
    let cluster = Cluster::shared();
    let mut with_tls = cluster.tcp("trusty", "sslmode=require");
    with_tls.application_name = Some("copy".to_owned());
    for conninfo in [cluster.socket("postgres"), with_tls] {
        let mut session = Session::connect(&conninfo).unwrap();
        session.execute("create temp table t (a int, b text)").unwrap();
        let mut next = 0;
        let copied = session
            .copy_in("copy t from stdin", |piece| {
                while piece.len() < 64 * 1024 && next < 300_000 {
                    piece.extend_from_slice(format!("{next}\tsome text\n").as_bytes());
                    next += 1;
                }
                next < 300_000
            })
            .unwrap();
        assert_eq!(copied.n_rows, 300_000);
        assert_eq!(
            copied.data_bytes,
            (0..300_000).map(|n: u32| format!("{n}").len() as u64 + 11).sum::<u64>()
        );
        let rows = session.query("select count(*), sum(a) from t").unwrap();
        assert_eq!(rows.rows[0], [Some("300000".to_owned()), Some("44999850000".to_owned())]);

        let mut n_calls = 0;
        let error = session
            .copy_in("copy t from stdin", |piece| {
                n_calls += 1;
                piece.extend_from_slice(&b"1\tx\nbad\n".repeat(10_000));
                n_calls < 100_000
            })
            .unwrap_err();
        assert!(
            matches!(&error, SessionError::Server(e) if e.sqlstate == "22P04" || e.sqlstate == "22P02"),
            "{error:?}"
        );
        assert!(n_calls < 10_000, "{n_calls}");
        let error = session.copy_in("copy absent from stdin", |_| false).unwrap_err();
        assert!(matches!(&error, SessionError::Server(e) if e.sqlstate == "42P01"), "{error:?}");
        assert!(matches!(session.copy_in("select 1", |_| false), Err(SessionError::NotCopyIn)));
        assert_eq!(session.copy_in("copy t from stdin", |_| false).unwrap().n_rows, 0);
        assert_eq!(session.query("select count(*) from t").unwrap().scalar(), Some("300000"));
    }
}

#[test]
fn a_statement_can_be_cancelled_from_another_thread() {
    let cluster = Cluster::shared();
    for conninfo in [cluster.socket("postgres"), cluster.tcp("trusty", "sslmode=require")] {
        let mut session = Session::connect(&conninfo).unwrap();
        let handle = session.cancel_handle();
        let canceller = std::thread::spawn(move || {
            std::thread::sleep(Duration::from_millis(200));
            handle.cancel()
        });
        let begin = Instant::now();
        let error = session.query("select pg_sleep(20)").unwrap_err();
        assert!(matches!(&error, SessionError::Server(e) if e.sqlstate == "57014"), "{error:?}");
        assert!(begin.elapsed() < Duration::from_secs(10));
        canceller.join().unwrap().unwrap();
        assert_eq!(session.query("select 1").unwrap().scalar(), Some("1"));
    }
}

#[test]
fn a_late_answer_and_a_lost_server_are_distinguished() {
    let cluster = Cluster::shared();
    let mut session = Session::connect(&cluster.socket("postgres")).unwrap();
    session.set_timeout(Some(Duration::from_millis(100)));
    assert_eq!(session.query("select 1").unwrap().scalar(), Some("1"));
    assert!(matches!(session.query("select pg_sleep(5)"), Err(SessionError::Timeout(_))));
    assert!(matches!(session.query("select 1"), Err(SessionError::Lost(_))));

    let mut admin = Session::connect(&cluster.socket("postgres")).unwrap();
    let mut victim = Session::connect(&cluster.socket("trusty")).unwrap();
    let pid = victim.backend_pid().to_string();
    admin.query_params("select pg_terminate_backend($1::int, 5000)", &[Some(&pid)]).unwrap();
    let error = victim.query("select 1").unwrap_err();
    assert!(matches!(&error, SessionError::Server(e) if e.sqlstate == "57P01"), "{error:?}");
    assert!(matches!(victim.query("select 1"), Err(SessionError::Lost(_))));
    assert!(victim.is_lost());
}

#[test]
fn a_raised_flag_ends_a_wait_and_cancels_the_statement() {
    static STOP: AtomicBool = AtomicBool::new(false);
    let cluster = Cluster::shared();
    let mut session = Session::connect_unless(&cluster.socket("postgres"), &STOP).unwrap().unwrap();
    assert_eq!(session.query("select 1").unwrap().scalar(), Some("1"));
    let pid = session.backend_pid();
    let began = Instant::now();
    let waiting = std::thread::spawn(move || session.query("select pg_sleep(30)").map(drop));
    std::thread::sleep(Duration::from_millis(200));
    STOP.store(true, Ordering::Relaxed);
    assert!(matches!(waiting.join().unwrap(), Err(SessionError::Stopped)));
    assert!(began.elapsed() < Duration::from_secs(2), "{:?}", began.elapsed());
    let mut admin = Session::connect(&cluster.socket("postgres")).unwrap();
    let sql = format!("select count(*) from pg_stat_activity where pid = {pid} and state = 'active'");
    while admin.query(&sql).unwrap().scalar() != Some("0") {
        assert!(began.elapsed() < Duration::from_secs(5), "the server still sleeps");
    }

    // A server that takes connections and says nothing.
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let conninfo = Conninfo::new("127.0.0.1", silent.local_addr().unwrap().port(), "postgres", "postgres");
    assert!(Session::connect_unless(&conninfo, &STOP).unwrap().is_none());
}

#[test]
fn one_event_loop_opens_and_uses_many_connections() {
    const N: usize = 5;
    enum Client {
        Dialing(Dialing, u32),
        Asking(Connection, Scanner),
        Done,
    }
    let cluster = Cluster::shared();
    let password = format!("password={PASSWORD} sslmode");
    for conninfo in [
        cluster.socket("trusty"),
        cluster.tcp("scrammer", &format!("{password}=disable")),
        cluster.tcp("scrammer", &format!("{password}=require")),
        cluster.tcp("tlsonly", &format!("{password}=allow")),
    ] {
        let mut poll = mio::Poll::new().unwrap();
        let both = mio::Interest::READABLE | mio::Interest::WRITABLE;
        let mut clients = Vec::new();
        for i in 0..N {
            let mut dialing = Dialing::start(&conninfo).unwrap();
            poll.registry().register(dialing.link_mut().unwrap(), mio::Token(i), both).unwrap();
            clients.push(Client::Dialing(dialing, 0));
        }
        let mut events = mio::Events::with_capacity(64);
        let begin = Instant::now();
        while clients.iter().any(|client| !matches!(client, Client::Done)) {
            assert!(begin.elapsed() < Duration::from_secs(10), "an event was missed: {conninfo}");
            poll.poll(&mut events, Some(Duration::from_secs(10))).unwrap();
            for event in &events {
                let client = &mut clients[event.token().0];
                *client = match std::mem::replace(client, Client::Done) {
                    Client::Dialing(mut dialing, generation) => match dialing.advance().unwrap() {
                        DialProgress::Done(mut connection) => {
                            assert!(connection.leftover.is_empty());
                            let mut bytes = Vec::new();
                            wire::message::query(&mut bytes, "select generate_series(1, 10000)");
                            assert_eq!(connection.link.send(&bytes).unwrap(), bytes.len());
                            // The last try may have been made and ended between two polls.
                            if dialing.generation() != generation {
                                poll.registry().register(&mut connection.link, event.token(), both).unwrap();
                            }
                            Client::Asking(connection, Scanner::new())
                        }
                        _ if dialing.generation() != generation => {
                            let link = dialing.link_mut().unwrap();
                            poll.registry().register(link, event.token(), both).unwrap();
                            let generation = dialing.generation();
                            Client::Dialing(dialing, generation)
                        }
                        _ => Client::Dialing(dialing, generation),
                    },
                    Client::Asking(mut connection, mut scanner) => {
                        let mut buffer = [0; 1000];
                        let mut is_ready = false;
                        while !is_ready {
                            let n = match connection.link.recv(&mut buffer) {
                                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => break,
                                n => n.unwrap(),
                            };
                            let sink = |reply: Reply<'_>| {
                                is_ready |= matches!(reply, Reply::ReadyForQuery(_));
                                Flow::Continue
                            };
                            scanner.feed(&buffer[..n], sink).unwrap();
                        }
                        if is_ready { Client::Done } else { Client::Asking(connection, scanner) }
                    }
                    Client::Done => Client::Done,
                };
            }
        }
    }
}
