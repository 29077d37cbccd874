//! Servers that break the protocol or never stop, over a real socket: connecting to them and asking them ends, in bounded
//! memory, with an error that says what was wrong.

#![allow(clippy::unwrap_used, reason = "helpers of tests may panic as tests do")]

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;
use testbed::hostile::{
    done, listen, message, read_message, read_startup, ready, serve, welcome, write_endlessly,
};
use wire::{ConnectError, Conninfo, Limit, ProtocolError, Session, SessionError, connect};

fn answer() -> Vec<u8> {
    [done(), ready()].concat()
}

/// What a server says to one message of its client.
#[derive(Clone)]
enum Say {
    Once(Vec<u8>),
    /// Repeats as long as the client listens.
    Endless(Vec<u8>),
    /// Repeats, byte by byte.
    Dripping(Vec<u8>),
}

/// Settings of a server that says these things, one to each message that it gets.
fn server(says: Vec<Say>) -> Conninfo {
    let conninfo = serve(move |stream| converse(stream, says.clone()));
    Conninfo { password: Some("secret".into()), connect_timeout: Duration::from_secs(30), ..conninfo }
}

/// Settings of a server that says these things to its first client, and nothing to others.
fn one_session(says: Vec<Say>) -> Conninfo {
    let (listener, conninfo) = listen("u", "d");
    std::thread::spawn(move || {
        let (first, _) = listener.accept().unwrap();
        std::thread::spawn(move || converse(first, says));
        // They are held open.
        let _others: Vec<_> = listener.incoming().take(100).collect();
    });
    conninfo
}

fn converse(mut stream: TcpStream, says: Vec<Say>) -> std::io::Result<()> {
    for (n, say) in says.into_iter().enumerate() {
        if n == 0 {
            read_startup(&mut stream)?;
        } else {
            read_message(&mut stream)?;
        }
        match say {
            Say::Once(bytes) => stream.write_all(&bytes)?,
            Say::Endless(bytes) => write_endlessly(&mut stream, &bytes)?,
            Say::Dripping(bytes) => {
                for byte in bytes.iter().cycle() {
                    stream.write_all(&[*byte])?;
                    std::thread::sleep(Duration::from_millis(20));
                }
            }
        }
    }
    // The client hangs up.
    stream.read_exact(&mut [0; 64])
}

fn refusal(says: Vec<Say>) -> String {
    match connect(&server(says)) {
        Err(error @ ConnectError::Several(_)) => panic!("{error:?}"),
        Err(error) => error.to_string(),
        Ok(_) => panic!("connected"),
    }
}

#[test]
fn messages_before_the_server_is_ready_have_bounds() {
    let check = |say: Say, expected: &str| {
        let error = refusal(vec![say]);
        assert!(error.contains(expected), "{error}, not {expected}");
    };
    let ok = message(b'R', &[0; 4]);
    let after_ok = |again: Vec<u8>| [ok.clone(), again].concat();
    let many_settings = (0..300).flat_map(|n| message(b'S', format!("name{n}\0value\0").as_bytes()));
    check(Say::Once(after_ok(many_settings.collect())), "more settings than pgdyno's limit of 256");
    let long = [&b"search_path\0"[..], &[b'x'; 65_000], b"\0"].concat();
    let another = [&b"TimeZone\0"[..], &[b'x'; 1000], b"\0"].concat();
    check(Say::Once(after_ok([message(b'S', &long), message(b'S', &another)].concat())), "limit of 64 KiB");
    check(Say::Endless(message(b'S', b"TimeZone\0UTC\0")), "limit of 1 MiB");
    check(Say::Endless(message(b'N', b"SNOTICE\0C00000\0Mhello\0\0")), "limit of 1 MiB");
    check(Say::Once(b"S\x7f\xff\xff\xff".to_vec()), "does not speak PostgreSQL's protocol");
    check(Say::Once(message(b'R', &[0; 2000])), "does not speak PostgreSQL's protocol");
    check(Say::Once(message(b'N', &[b'n'; 30_000])), "does not speak PostgreSQL's protocol");
    // Twice let in, and asked for the password for ever.
    check(Say::Once(after_ok(ok.clone())), "message `R` of the server is damaged");
    let asks = vec![Say::Once(message(b'R', &[0, 0, 0, 3])); 20];
    assert!(refusal(asks).contains("message `R` of the server is damaged"));
}

#[test]
fn a_server_that_sends_single_bytes_counts_as_silent() {
    let notice = message(b'N', &[&b"SNOTICE\0C00000\0M"[..], &[b'x'; 40], b"\0\0"].concat());
    let row = |n_bytes: u32| [&b"D"[..], &n_bytes.to_be_bytes(), &[b'x'; 100]].concat();
    for drops in [notice, row(1 << 20)] {
        // New connections are not let in either.
        let answers = vec![Say::Once(answer()); 3];
        let says = [&[Say::Once(welcome())][..], &answers, &[Say::Dripping(drops)]].concat();
        let place = one_session(says);
        let _limit =
            Limit { lock_wait_max: Duration::from_millis(200), ..Limit::new(Duration::from_secs(5)) }.enter();
        let mut session = Session::connect(&place).unwrap();
        session.administer().unwrap();
        let error = session.query("select 1").unwrap_err().to_string();
        assert!(error.contains("the server does not respond") && error.contains("`select 1`"), "{error}");
    }
}

#[test]
fn scram_takes_little_time_and_begins_only_once() {
    let begin = Say::Once(message(b'R', b"\0\0\0\x0aSCRAM-SHA-256\0\0"));
    let error = refusal(vec![begin.clone(), begin.clone()]);
    assert!(error.contains("message `R` of the server is damaged"), "{error}");
    // The nonce must begin with the client's, so this server listens.
    let (listener, conninfo) = listen("u", "d");
    let conninfo = Conninfo { password: Some("secret".into()), ..conninfo };
    let serve = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut buffer = [0; 1024];
        let _ = stream.read(&mut buffer).unwrap();
        stream.write_all(&message(b'R', b"\0\0\0\x0aSCRAM-SHA-256\0\0")).unwrap();
        let n = stream.read(&mut buffer).unwrap();
        let text = String::from_utf8_lossy(&buffer[..n]).into_owned();
        let nonce = text.rsplit("r=").next().unwrap();
        let first = format!("r={nonce}server,s=c2FsdHNhbHQ=,i=4000000000");
        stream.write_all(&message(b'R', &[b"\0\0\0\x0b", first.as_bytes()].concat())).unwrap();
        let _ = stream.read(&mut buffer);
    });
    let error = connect(&conninfo).unwrap_err().to_string();
    assert!(error.contains("iteration count exceeds"), "{error}");
    serve.join().unwrap();
}

fn session(says: Vec<Say>) -> Session {
    let says = [vec![Say::Once(welcome())], says].concat();
    let mut session = Session::connect_as_libpq(&server(says)).unwrap();
    session.set_timeout(Some(Duration::from_secs(60)));
    session
}

#[test]
fn a_surplus_reply_is_not_the_answer_to_the_next_statement() {
    let surplus = [
        ready(),
        answer(),
        message(b'D', b"\0\0"),
        message(b'C', b"SELECT 1\0"),
        message(b'R', b"\0\0\0\x03"),
    ];
    for surplus in surplus {
        let tag = surplus[0];
        let mut session = session(vec![Say::Once([answer(), surplus].concat()), Say::Once(answer())]);
        let first = session.execute("SELECT 1");
        // It comes with the first answer, or is there before the second statement.
        let error = first.and_then(|()| session.execute("SELECT 2")).unwrap_err();
        assert!(matches!(error, SessionError::Protocol(ProtocolError::Unasked(t)) if t == tag), "{error:?}");
        assert!(session.is_lost());
    }
}

#[test]
fn an_answer_without_end_ends() {
    let row = message(b'D', b"\0\x01\0\0\0\x04abcd");
    let error = |say: Say| session(vec![say]).query("SELECT 1").unwrap_err();
    let check = |say: Say, expected: &str| {
        let error = error(say).to_string();
        assert!(error.contains(expected), "{error}, not {expected}");
    };
    check(Say::Endless(row), "more rows than pgdyno's limit of 64 MiB");
    check(Say::Endless(message(b'C', b"SELECT 1\0")), "more rows than pgdyno's limit of 64 MiB");
    check(Say::Once(b"D\x7f\xff\xff\xff".to_vec()), "impossible length: 2147483647");
    check(
        Say::Once(b"D\x01\x00\x00\x05".to_vec()),
        "a DataRow of 16777217 bytes, more than pgdyno's limit of 16777216",
    );
    let settings = (0..300).flat_map(|n| message(b'S', format!("name{n}\0value\0").as_bytes())).collect();
    check(Say::Once(settings), "more settings than pgdyno's limit of 256");
    let mut session = session(vec![Say::Endless(message(b'N', b"SNOTICE\0C00000\0Mhello\0\0"))]);
    session.set_timeout(Some(Duration::from_secs(1)));
    let error = session.query("SELECT 1").unwrap_err();
    assert!(matches!(error, SessionError::Timeout(_)), "{error:?}");
    assert_eq!(session.take_notices().len(), 1000);
}

#[test]
fn notices_that_are_kept_have_a_size() {
    let long = message(b'N', &[&b"SNOTICE\0C00000\0M"[..], &[b'x'; 60_000], b"\0\0"].concat());
    let mut session = session(vec![Say::Once([long.repeat(100), answer()].concat())]);
    session.execute("SELECT 1").unwrap();
    let n = session.take_notices().len();
    assert!((10..25).contains(&n), "{n} notices of 60,000 bytes in 1 MiB");
}
