//! A server that listens for drivers elsewhere: who gets in, and as whom.

use std::io::{Read, Write};
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::Duration;

use rustix::net::{AddressFamily, SocketType};
use server::{Cluster, ListenAddress, OwnServer, StartOptions, StopMode};
use wire::conninfo::SslMode;
use wire::{Conninfo, Secret, Session, connect};

use crate::support::{ask, cluster, fetched, installed, place, session, settings};

const HERE: &str = "127.0.0.1";

fn start(cluster: &Cluster, tls: bool, more: &[(&str, &str)]) -> (OwnServer, Conninfo) {
    let listen = Some(ListenAddress::resolve(HERE, tls).unwrap());
    let options = StartOptions { settings: settings(more), listen, ..StartOptions::default() };
    let server = OwnServer::start_with(cluster, &options).unwrap();
    let conninfo = server.load_conninfo().unwrap();
    (server, conninfo)
}

fn refusal(conninfo: &Conninfo) -> String {
    connect(conninfo).map(drop).unwrap_err().to_string()
}

/// What the server says to the load's role when it comes from another address of this machine.
fn answer_to(from: [u8; 4], port: u16) -> String {
    let socket = rustix::net::socket(AddressFamily::INET, SocketType::STREAM, None).unwrap();
    rustix::net::bind(&socket, &SocketAddr::from((from, 0))).unwrap();
    rustix::net::connect(&socket, &SocketAddr::from(([127, 0, 0, 1], port))).unwrap();
    let mut stream = TcpStream::from(socket);
    stream.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    let words = b"user\0pgdyno_load\0database\0pgdyno\0\0";
    let length = (8 + words.len() as u32).to_be_bytes();
    stream.write_all(&[&length[..], &196_608_u32.to_be_bytes(), words].concat()).unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).ok();
    String::from_utf8_lossy(&answer).into_owned()
}

#[test]
fn only_admitted_addresses_get_in_and_only_as_the_loads_role_with_its_password() {
    let place = place();
    let cluster = cluster(&installed(), &place);
    let (server, conninfo) =
        start(&cluster, false, &[("log_statement", "all"), ("log_min_duration_statement", "0")]);
    let port = conninfo.hosts[0].port;
    assert!(refusal(&conninfo).contains("no pg_hba.conf entry"), "nobody is admitted yet");
    server.admit(&cluster, &[HERE.parse().unwrap()]).unwrap();
    let mut load = session(&conninfo);
    assert_eq!(
        ask(&mut load, "select host(inet_server_addr()) || ' ' || current_user"),
        "127.0.0.1 pgdyno_load"
    );
    assert_eq!(ask(&mut load, "select rolsuper from pg_roles where rolname = current_user"), "f");

    let with = |change: &dyn Fn(&mut Conninfo)| {
        let mut other = conninfo.clone();
        change(&mut other);
        refusal(&other)
    };
    let wrong = with(&|other| other.password = Some(Secret::new("wrong")));
    assert!(wrong.contains("28P01") && wrong.contains("password authentication failed"), "{wrong}");
    let without = with(&|other| other.password = None);
    assert!(without.contains("password"), "{without}");
    let superuser = with(&|other| other.user = "postgres".to_string());
    assert!(superuser.contains("no pg_hba.conf entry"), "{superuser}");
    let elsewhere = with(&|other| other.dbname = "postgres".to_string());
    assert!(elsewhere.contains("no pg_hba.conf entry"), "{elsewhere}");
    let neighbour = answer_to([127, 0, 0, 2], port);
    assert!(neighbour.contains("no pg_hba.conf entry for host \"127.0.0.2\""), "{neighbour}");

    // Those who were admitted before are not any more.
    server.admit(&cluster, &["127.0.0.2".parse().unwrap()]).unwrap();
    assert!(refusal(&conninfo).contains("no pg_hba.conf entry"));
    assert!(answer_to([127, 0, 0, 2], port).starts_with('R'), "a question for the password");

    let mut own = session(&server.conninfo());
    own.execute("create schema app; create table app.t (n int); create sequence app.s; create function app.f() returns int language sql as 'select 1'")
        .unwrap();
    let log = std::fs::read_to_string(server.log_path()).unwrap();
    let password = conninfo.password.clone().unwrap();
    assert!(log.contains("create role pgdyno_load") && !log.contains(password.expose()));
    server.stop(StopMode::Fast).unwrap();
    // The next start lets nobody in, and has another password.
    let (server, next) = start(&cluster, true, &[]);
    assert_ne!(next.password, conninfo.password);
    assert!(refusal(&next).contains("no pg_hba.conf entry"));
    server.admit(&cluster, &[HERE.parse().unwrap()]).unwrap();
    expect_verified_tls(&server, &next);
    expect_rights_of_a_load(&mut session(&next));
    server.stop(StopMode::Fast).unwrap();
    // Another start's authority has the same name and another key.
    let (server, mut last) = start(&cluster, true, &[]);
    server.admit(&cluster, &[HERE.parse().unwrap()]).unwrap();
    last.root_certificates = next.root_certificates;
    let stranger = refusal(&last);
    assert!(stranger.contains("certificate"), "{stranger}");
}

/// It does what scripts do, and makes nothing that somebody else's rights could run.
fn expect_rights_of_a_load(load: &mut Session) {
    for sql in [
        "insert into app.t values (app.f()), (nextval('app.s')); update app.t set n = 0; delete from app.t; truncate app.t",
        "begin; lock table app.t in access exclusive mode; commit",
        "create temporary table mine (n int); drop table mine",
        "do $$ begin perform setval('app.s', 7); end $$",
    ] {
        load.execute(sql).unwrap_or_else(|error| panic!("{sql}: {error}"));
    }
    for (sql, words) in [
        ("create table app.mine (n int)", "permission denied for schema app"),
        ("create schema mine", "permission denied for database"),
        (
            "create trigger mine before insert on app.t execute function app.f()",
            "permission denied for table t",
        ),
        ("alter table app.t add other int", "must be owner of table t"),
    ] {
        let error = load.execute(sql).unwrap_err().to_string();
        assert!(error.contains(words), "{sql}: {error}");
    }
}

/// Its certificate is verified, all connections are encrypted, and the key belongs to the server's user alone.
fn expect_verified_tls(server: &OwnServer, conninfo: &Conninfo) {
    let sql = "select ssl from pg_stat_ssl where pid = pg_backend_pid()";
    assert_eq!(ask(&mut session(conninfo), sql), "t");
    let with = |change: &dyn Fn(&mut Conninfo)| {
        let mut other = conninfo.clone();
        change(&mut other);
        refusal(&other)
    };
    let plain = with(&|other| other.sslmode = SslMode::Disable);
    assert!(plain.contains("no pg_hba.conf entry") && plain.contains("no encryption"), "{plain}");
    let without = with(&|other| other.root_certificates = None);
    assert!(without.contains("needs root certificates"), "{without}");
    let named = with(&|other| {
        other.hosts[0].hostaddr = Some(HERE.to_string());
        other.hosts[0].host = "db1".to_string();
    });
    assert!(named.contains("certificate") && named.contains("db1"), "{named}");
    let key = ask(&mut session(&server.conninfo()), "show ssl_key_file");
    let facts = std::fs::metadata(&key).unwrap();
    assert_eq!(
        (facts.mode() & 0o777, facts.uid()),
        (0o600, std::fs::metadata(server.data_dir()).unwrap().uid())
    );
    assert!(!Path::new(&key).starts_with(server.data_dir()), "snapshots do not contain it");
}

#[test]
fn a_server_before_scram_takes_the_hash_of_the_password() {
    let place = place();
    let cluster = cluster(&fetched("9.6"), &place);
    let (server, conninfo) = start(&cluster, false, &[]);
    server.admit(&cluster, &[HERE.parse::<IpAddr>().unwrap()]).unwrap();
    assert_eq!(ask(&mut session(&conninfo), "select current_user"), "pgdyno_load");
    let sql = "select left(rolpassword, 3) from pg_authid where rolname = 'pgdyno_load'";
    assert_eq!(ask(&mut session(&server.conninfo()), sql), "md5");
}
