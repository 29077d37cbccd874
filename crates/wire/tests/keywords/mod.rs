//! Keywords that libpq learned after 15, compared with libpq itself, which these tests link (without TLS).

use super::cluster::{Cluster, PASSWORD};
use std::collections::BTreeMap;
use std::ffi::{CStr, CString};
use std::io::{Read, Write};
use std::net::TcpListener;
use wire::conninfo::Surroundings;
use wire::{ConnectError, Conninfo, Session, connect};

/// What libpq says of a connection after `failed: `, or of the settings; `None` if it connects.
fn libpq_says(text: &str) -> Option<String> {
    let text = CString::new(text).unwrap();
    // SAFETY: the text lives through the call; a connection, even a failed one, is good until `PQfinish`.
    let (is_connected, said) = unsafe {
        let connection = pq_sys::PQconnectdb(text.as_ptr());
        let is_connected = pq_sys::PQstatus(connection) == pq_sys::ConnStatusType::CONNECTION_OK;
        let said = CStr::from_ptr(pq_sys::PQerrorMessage(connection)).to_string_lossy().into_owned();
        pq_sys::PQfinish(connection);
        (is_connected, said)
    };
    let said = said.trim();
    (!is_connected).then(|| said.split_once(" failed: ").map_or(said, |(_, reason)| reason).to_owned())
}

/// What this crate says of the same connection.
fn we_say(text: &str) -> Option<String> {
    let conninfo = match Conninfo::resolve_in(text, &Surroundings::default()) {
        Ok(conninfo) => conninfo,
        Err(error) => return Some(error.libpq_text().to_owned()),
    };
    match connect(&conninfo) {
        Ok(_) => None,
        Err(ConnectError::AuthMethod { libpq_reason: Some(reason), .. }) => Some(reason),
        Err(error) => Some(error.to_string()),
    }
}

#[test]
fn methods_of_authentication_are_required_and_ruled_out_as_in_libpq() {
    let cluster = Cluster::shared();
    let lists = [
        "password",
        "md5",
        "scram-sha-256",
        "gss",
        "oauth",
        "none",
        "''",
        "!password",
        "!md5",
        "!scram-sha-256",
        "!none",
        "md5,none,scram-sha-256",
        "!gss,!sspi,!oauth",
        "!oauth,!scram-sha-256",
        "md5,md5",
        "md5,!password",
        "scram",
    ];
    let (mut n_refused, mut n_connected) = (0, 0);
    for user in ["trusty", "clear", "md5er", "scrammer"] {
        for list in lists {
            let text = format!(
                "host=127.0.0.1 port={} dbname=postgres user={user} password={PASSWORD} sslmode=disable require_auth={list}",
                cluster.port
            );
            let expected = libpq_says(&text);
            if expected.is_none() {
                n_connected += 1
            } else {
                n_refused += 1
            }
            assert_eq!(we_say(&text), expected, "{text}");
        }
    }
    assert!(n_refused > 20 && n_connected > 20, "{n_refused} refused, {n_connected} connected");
}

#[test]
fn channel_binding_is_missed_in_libpqs_words() {
    let cluster = Cluster::shared();
    for user in ["trusty", "clear", "md5er", "scrammer"] {
        let text = format!(
            "host=127.0.0.1 port={} dbname=postgres user={user} password={PASSWORD} sslmode=disable channel_binding=require",
            cluster.port
        );
        let expected = libpq_says(&text);
        assert!(expected.is_some(), "{text}");
        assert_eq!(we_say(&text), expected, "{text}");
    }
}

#[test]
fn values_are_refused_in_libpqs_words() {
    for setting in [
        "min_protocol_version=3.1",
        "max_protocol_version=''",
        "min_protocol_version=latest max_protocol_version=3.0",
        "load_balance_hosts=yes",
        "load_balance_hosts=''",
        "sslcertmode=yes",
        "sslcertmode=''",
        "ssl_max_protocol_version=TLSv1.1",
        "ssl_min_protocol_version=1.3",
        "sslmode=''",
        "sslnegotiation=x",
        "channel_binding=''",
        "target_session_attrs=''",
        "require_auth=md5,",
        "servicefile=x",
        "reqire_auth=md5",
    ] {
        let text = format!("host=/nowhere user=u {setting}");
        let expected = libpq_says(&text);
        assert!(expected.is_some(), "{text}");
        assert_eq!(we_say(&text), expected, "{text}");
    }
}

#[test]
fn a_mechanism_is_named_when_it_is_not_the_required_one() {
    let cluster = Cluster::shared();
    let extra = format!("password={PASSWORD} sslmode=require require_auth");
    assert!(connect(&cluster.tcp("scrammer", &format!("{extra}=scram-sha-256"))).is_ok());
    let error = connect(&cluster.tcp("scrammer", &format!("{extra}=!scram-sha-256"))).unwrap_err();
    assert_eq!(
        error.to_string(),
        format!(
            "cannot authenticate with `127.0.0.1:{}`: server requested SCRAM-SHA-256-PLUS authentication, \
             which `require_auth=!scram-sha-256` does not allow",
            cluster.port
        )
    );
}

#[test]
fn a_password_is_not_sent_to_a_server_that_must_not_ask_for_it() {
    // What a server asks for after the startup message: a clear password, and an md5 password.
    for question in [&b"R\0\0\0\x08\0\0\0\x03"[..], b"R\0\0\0\x0c\0\0\0\x05salt"] {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let server = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let mut length = [0; 4];
            stream.read_exact(&mut length).unwrap();
            let mut startup = vec![0; u32::from_be_bytes(length) as usize - 4];
            stream.read_exact(&mut startup).unwrap();
            stream.write_all(question).unwrap();
            let mut answer = Vec::new();
            stream.read_to_end(&mut answer).unwrap();
            answer
        });
        let text = format!(
            "host=127.0.0.1 port={port} user=u password={PASSWORD} sslmode=disable require_auth=scram-sha-256"
        );
        let said = we_say(&text).unwrap();
        assert!(said.starts_with("authentication method requirement \"scram-sha-256\" failed: "), "{said}");
        assert_eq!(server.join().unwrap(), b"", "{said}");
    }
}

#[test]
fn every_notation_of_a_keyword_is_accepted() {
    let cluster = Cluster::shared();
    let socket_dir = cluster.dir().display().to_string();
    let service_file = cluster.path("keyword_services").display().to_string();
    std::fs::write(&service_file, "[s]\nrequire_auth=md5\n[bad]\nreqire_auth=md5\n").unwrap();
    let place = format!("host={socket_dir} port={} dbname=postgres user=trusty", cluster.port);
    let url = format!("postgresql://trusty@127.0.0.1:{}/postgres?sslmode=disable", cluster.port);
    let check = |text: &str, environment: &[(&str, &str)], expected: &str| {
        let environment = environment.iter().map(|(key, value)| (key.to_string(), value.to_string()));
        let around = Surroundings { environment: environment.collect(), ..Surroundings::default() };
        let said = match Conninfo::resolve_in(text, &around) {
            Err(error) => error.libpq_text().to_owned(),
            Ok(conninfo) => match Session::connect(&conninfo) {
                Err(ConnectError::AuthMethod { libpq_reason: Some(reason), .. }) => reason,
                other => panic!("{text} {:?}: {other:?}", around.environment),
            },
        };
        assert_eq!(said, expected, "{text}");
    };
    let expected = "authentication method requirement \"md5\" failed: server did not complete authentication";
    check(&format!("{place} require_auth=md5"), &[], expected);
    check(&format!("{url}&require_auth=md5"), &[], expected);
    check(&place, &[("PGREQUIREAUTH", "md5")], expected);
    check(&place, &[("PGSERVICEFILE", &service_file), ("PGSERVICE", "s")], expected);
    check(&place, &[("PGREQUIREAUTH", "mdfive")], "invalid require_auth value: \"mdfive\"");
    let unknown = "invalid connection option \"reqire_auth\"";
    check(&place, &[("PGSERVICEFILE", &service_file), ("PGSERVICE", "bad")], unknown);
    check(&format!("{place} reqire_auth=md5"), &[], unknown);
    check(&format!("{url}&reqire_auth=md5"), &[], "invalid URI query parameter: \"reqire_auth\"");
}

#[test]
fn hosts_are_tried_in_random_order_on_request() {
    let cluster = Cluster::shared();
    let place = format!(
        "host=127.0.0.1,{} port={port},{port} user=trusty dbname=postgres",
        cluster.dir().display(),
        port = cluster.port
    );
    let reached = |extra: &str| {
        let conninfo = Conninfo::resolve_in(&format!("{place} {extra}"), &Surroundings::default()).unwrap();
        let mut by_host = BTreeMap::new();
        for _ in 0..40 {
            *by_host.entry(connect(&conninfo).unwrap().host.host).or_insert(0) += 1;
        }
        by_host
    };
    assert_eq!(reached(""), BTreeMap::from([("127.0.0.1".to_owned(), 40)]));
    // By chance alone all are the same once in 2^39.
    assert_eq!(reached("load_balance_hosts=random").len(), 2);
}

#[test]
fn a_certificate_must_be_shown_if_that_is_asked_for() {
    let cluster = Cluster::shared();
    let file = |name: &str| cluster.path(name).display().to_string();
    let files = format!("sslmode=require sslcert={} sslkey={}", file("client.crt"), file("client.key"));
    let check = |user: &str, extra: &str, expected: Option<&str>| {
        let said = match connect(&cluster.tcp(user, extra)) {
            Err(ConnectError::AuthMethod { libpq_reason, .. }) => libpq_reason,
            other => other.map(|_| None).unwrap_or_else(|error| panic!("{extra}: {error}")),
        };
        assert_eq!(said.as_deref(), expected, "{user} {extra}");
    };
    check("certer", &format!("{files} sslcertmode=require"), None);
    check("trusty", &format!("{files} sslcertmode=require"), None);
    check(
        "trusty",
        "sslmode=require sslcertmode=require",
        Some("server accepted connection without a valid SSL certificate"),
    );
    check("trusty", "sslmode=disable sslcertmode=require", Some("server did not request an SSL certificate"));
    let error = connect(&cluster.tcp("certer", &format!("{files} sslcertmode=disable"))).unwrap_err();
    assert!(matches!(error, ConnectError::Auth { .. }), "{error:?}");
}

#[test]
fn a_range_of_tls_versions_is_respected() {
    let cluster = Cluster::shared();
    let spoken = |extra: &str| {
        let connection = connect(&cluster.tcp("trusty", &format!("sslmode=require {extra}"))).unwrap();
        connection.tls.unwrap().split(' ').next().unwrap().to_owned()
    };
    assert_eq!(spoken(""), "TLSv1_3");
    assert_eq!(spoken("ssl_min_protocol_version=TLSv1.3"), "TLSv1_3");
    assert_eq!(spoken("ssl_max_protocol_version=TLSv1.2"), "TLSv1_2");
}
