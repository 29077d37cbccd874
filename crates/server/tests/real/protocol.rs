//! What is negotiated when a connection begins: the version of the protocol, with a server that speaks 3.2 and one that
//! does not, and how TLS begins, with a server that accepts it at once and one that wants a request first.

use server::{Binaries, ListenAddress, OwnServer, StartOptions, StopMode};
use wire::conninfo::ProtocolVersion::{self, V3_0, V3_2};
use wire::conninfo::SslNegotiation;
use wire::{ConnectError, Conninfo, SessionError, connect};

use crate::support::{ask, cluster, fetched, installed, place, session, settings};

/// A cancelled statement ends, which needs the complete key.
fn is_cancelled(conninfo: &Conninfo) {
    let mut victim = session(conninfo);
    let (pid, handle) = (victim.backend_pid(), victim.cancel_handle());
    let waiting = std::thread::spawn(move || victim.query("select pg_sleep(60)").map(drop));
    let mut admin = session(conninfo);
    let sql = format!("select count(*) from pg_stat_activity where pid = {pid} and wait_event = 'PgSleep'");
    while ask(&mut admin, &sql) != "1" {
        assert!(!waiting.is_finished(), "it never slept");
        std::thread::yield_now();
    }
    handle.cancel().unwrap();
    let ended = waiting.join().unwrap();
    assert!(matches!(&ended, Err(SessionError::Server(e)) if e.sqlstate == "57014"), "{ended:?}");
}

/// The versions in use when 3.0, or up to 3.2, is requested, and the bytes of the keys.
fn spoken(binaries: &Binaries, expected: [(ProtocolVersion, usize); 2], with_3_2: Result<(), &str>) {
    let place = place();
    let cluster = cluster(binaries, &place);
    let server = OwnServer::start(&cluster, &settings(&[])).unwrap();
    let mut conninfo = server.conninfo();
    for (asked, expected) in [V3_0, V3_2].into_iter().zip(expected) {
        conninfo.max_protocol_version = asked;
        let connection = connect(&conninfo).unwrap();
        assert_eq!((connection.protocol, connection.secret_key.len()), expected, "{asked:?}");
        is_cancelled(&conninfo);
    }
    conninfo.min_protocol_version = V3_2;
    let said = match connect(&conninfo) {
        Err(error @ ConnectError::ProtocolTooOld { .. }) => Err(error.to_string()),
        other => other.map(drop).map_err(|error| panic!("{error}")),
    };
    match with_3_2 {
        Ok(()) => assert_eq!(said, Ok(())),
        Err(part) => assert!(said.as_ref().is_err_and(|said| said.contains(part)), "{said:?}"),
    }
    server.stop(StopMode::Fast).unwrap();
}

#[test]
fn a_server_that_knows_protocol_3_2_speaks_it_on_request() {
    spoken(&fetched("18"), [(V3_0, 4), (V3_2, 32)], Ok(()));
}

#[test]
fn an_older_server_falls_back_to_protocol_3_0_or_is_refused() {
    let refusal = "supports protocol 3.0 at most, but `min_protocol_version` requires 3.2";
    spoken(&installed(), [(V3_0, 4), (V3_0, 4)], Err(refusal));
}

/// The result of TLS without a request first; with a request, it is available.
fn tls_at_once(binaries: &Binaries) -> Result<(), String> {
    let place = place();
    let cluster = cluster(binaries, &place);
    let listen = ListenAddress::resolve("127.0.0.1", true).unwrap();
    let options = StartOptions { settings: settings(&[]), listen: Some(listen), ..StartOptions::default() };
    let server = OwnServer::start_with(&cluster, &options).unwrap();
    server.admit(&cluster, &[listen.address]).unwrap();
    let mut conninfo = server.load_conninfo().unwrap();
    assert!(connect(&conninfo).unwrap().tls.is_some());
    conninfo.sslnegotiation = SslNegotiation::Direct;
    let outcome = connect(&conninfo).map(|connection| assert!(connection.tls.is_some()));
    server.stop(StopMode::Fast).unwrap();
    outcome.map_err(|error| error.to_string())
}

#[test]
fn a_server_from_17_on_accepts_tls_without_a_request() {
    assert_eq!(tls_at_once(&fetched("18")), Ok(()));
}

#[test]
fn an_older_server_that_needs_a_request_for_tls_is_distinguished_from_one_without_tls() {
    let said = tls_at_once(&installed()).unwrap_err();
    assert!(said.starts_with("cannot set up TLS with `127.0.0.1:"), "{said}");
    assert!(said.contains("sslnegotiation=postgres"), "{said}");
}
