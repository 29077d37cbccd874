//! Versions of the protocol, with a server that speaks 3.2 and one that does not.

use server::{Binaries, Server, StopMode};
use wire::conninfo::ProtocolVersion::{self, V3_0, V3_2};
use wire::{ConnectError, Conninfo, SessionError, connect};

use crate::support::{ask, cluster, fetched, installed, place, session, settings};

/// A statement ends because it is cancelled, which takes the whole key.
fn is_cancelled(conninfo: &Conninfo) {
    let mut victim = session(conninfo);
    let (pid, handle) = (victim.backend_pid(), victim.cancel_handle());
    let waiting = std::thread::spawn(move || victim.query("select pg_sleep(60)").map(drop));
    let mut admin = session(conninfo);
    let sql = format!("select count(*) from pg_stat_activity where pid = {pid} and wait_event = 'PgSleep'");
    while ask(&mut admin, &sql) != "1" {
        assert!(!waiting.is_finished(), "it does not even sleep");
        std::thread::yield_now();
    }
    handle.cancel().unwrap();
    let ended = waiting.join().unwrap();
    assert!(matches!(&ended, Err(SessionError::Server(e)) if e.sqlstate == "57014"), "{ended:?}");
}

/// The versions spoken when 3.0, or up to 3.2, is asked for, and the bytes of the keys.
fn spoken(binaries: &Binaries, expected: [(ProtocolVersion, usize); 2], with_3_2: Result<(), &str>) {
    let place = place();
    let cluster = cluster(binaries, &place);
    let server = Server::start(&cluster, &settings(&[])).unwrap();
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
fn a_server_that_knows_it_speaks_protocol_3_2_when_it_is_asked_to() {
    spoken(&fetched("18"), [(V3_0, 4), (V3_2, 32)], Ok(()));
}

#[test]
fn an_older_server_goes_back_to_protocol_3_0_or_is_refused() {
    let refusal = "speaks protocol 3.0 at most, and `min_protocol_version` asks for 3.2";
    spoken(&installed(), [(V3_0, 4), (V3_0, 4)], Err(refusal));
}
