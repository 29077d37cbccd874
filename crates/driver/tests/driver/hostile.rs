//! A server that breaks the protocol over a real socket, and how the driver reacts with each poller.

use std::io::Write;
use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use model::load::{LoadSpec, OnDisconnect, PollerChoice, Protocol, Window};
use model::telemetry::event::EventKind;
use testbed::hostile::{done, key, message, read_message, read_startup, ready, serve, write_endlessly};
use wire::Conninfo;

use crate::driven::{Driven, load, try_drive, try_drive_until};

/// What the server answers to a message.
enum Answer {
    Once(Vec<u8>),
    /// And then the connection is closed.
    Last(Vec<u8>),
    /// Again and again, as long as the client reads.
    Endless(Vec<u8>),
    /// This many times, without reading anything meanwhile.
    Unread(Vec<u8>, usize),
}

/// A server that admits everybody, and answers each Query and each Sync as the test says.
struct Hostile {
    conninfo: Conninfo,
    heard: Heard,
}

/// What each connection sent after its startup message.
type Heard = Arc<Mutex<Vec<Arc<Mutex<Vec<u8>>>>>>;

impl Hostile {
    /// `answers` is given the number of the message, from 0.
    fn start(answers: impl Fn(usize) -> Answer + Send + Sync + 'static) -> Hostile {
        let heard = Heard::default();
        let (ears, answers) = (Arc::clone(&heard), Arc::new(answers));
        let conninfo = serve(move |stream| {
            let ear = Arc::<Mutex<Vec<u8>>>::default();
            ears.lock().unwrap().push(Arc::clone(&ear));
            let hear = |bytes: &[u8]| ear.lock().unwrap().extend_from_slice(bytes);
            converse(stream, hear, &*answers)
        });
        Hostile { conninfo, heard }
    }

    /// Takes what the connections have sent so far.
    fn take_heard(&self) -> Vec<Vec<u8>> {
        let heard = std::mem::take(&mut *self.heard.lock().unwrap());
        heard.iter().map(|ear| ear.lock().unwrap().clone()).collect()
    }
}

/// A row so long that it fills a buffer of io_uring together with CommandComplete and ReadyForQuery.
fn row_that_fills_a_buffer() -> Vec<u8> {
    const BUFFER_BYTES: usize = 2048;
    let n_bytes = BUFFER_BYTES - 5 - done().len() - ready().len();
    message(b'D', &vec![b'r'; n_bytes])
}

fn converse(
    mut stream: TcpStream,
    hear: impl Fn(&[u8]),
    answers: &impl Fn(usize) -> Answer,
) -> std::io::Result<()> {
    read_startup(&mut stream)?;
    let settings = message(b'S', b"client_encoding\0UTF8\0");
    stream.write_all(&[message(b'R', &[0; 4]), settings, key(), ready()].concat())?;
    for n in 0.. {
        loop {
            let (header, body) = read_message(&mut stream)?;
            hear(&header);
            hear(&body);
            if matches!(header[0], b'Q' | b'S') {
                break;
            }
        }
        match answers(n) {
            Answer::Once(bytes) => stream.write_all(&bytes)?,
            Answer::Last(bytes) => return stream.write_all(&bytes),
            Answer::Unread(bytes, n) => {
                for _ in 0..n {
                    stream.write_all(&bytes)?;
                    std::thread::sleep(Duration::from_micros(200));
                }
                stream.set_read_timeout(Some(Duration::from_secs(2)))?;
            }
            Answer::Endless(again) => write_endlessly(&mut stream, &again)?,
        }
    }
    Ok(())
}

/// A load of one client in the simple protocol.
fn spec(server: &Hostile, script: &str, n: u64) -> LoadSpec {
    let mut spec = load(&server.conninfo, &[script], n);
    spec.window = Window { ramp_up_s: 0, measure_s: 20, grace_s: 1 };
    spec
}

/// Drives the load with each poller that the kernel has.
fn with_each(spec: &LoadSpec, mut check: impl FnMut(&str, &Driven)) {
    with_each_by(try_drive, spec, &mut check);
}

/// As [`with_each`], by a way to drive.
fn with_each_by(
    drive: impl Fn(LoadSpec) -> Result<Driven, String>,
    spec: &LoadSpec,
    check: &mut dyn FnMut(&str, &Driven),
) {
    for (choice, name) in [(PollerChoice::Epoll, "epoll"), (PollerChoice::IoUring, "io_uring")] {
        match drive(LoadSpec { poller: choice, ..spec.clone() }) {
            Ok(driven) => check(name, &driven),
            Err(message) => assert!(
                choice == PollerChoice::IoUring && message.contains("does not let this process use io_uring"),
                "{message}"
            ),
        }
    }
}

/// Whatever a connection sent that is neither one of these queries nor a goodbye.
fn foreign(heard: &[Vec<u8>], queries: &[String]) -> Vec<String> {
    let mut foreign = Vec::new();
    for bytes in heard {
        let mut rest = &bytes[..];
        while let [tag, l0, l1, l2, l3, ..] = *rest {
            let end = 1 + u32::from_be_bytes([l0, l1, l2, l3]) as usize;
            let body = rest.get(5..end).unwrap_or(rest);
            let text = String::from_utf8_lossy(body).into_owned();
            if tag != b'X' && !queries.iter().any(|query| text == format!("{query}\0")) {
                foreign.push(text.escape_debug().take(60).collect());
                break;
            }
            rest = &rest[end..];
        }
    }
    foreign
}

#[test]
fn a_reply_that_comes_twice_is_no_second_commit_and_gets_none_of_our_memory() {
    let queries = ["SELECT 1;".to_string(), format!("SELECT '{}';", "x".repeat(3000))];
    let script = format!("{}\n{}\n", queries[0], queries[1]);
    let twice = |again: Vec<u8>| [done(), ready(), again].concat();
    let apart = |again: Vec<u8>| [row_that_fills_a_buffer(), done(), ready(), again].concat();
    let surplus = [
        ("ReadyForQuery", twice(ready())),
        ("a whole reply", twice([done(), ready()].concat())),
        ("ReadyForQuery, in a buffer of its own", apart(ready())),
        ("a whole reply, in a buffer of its own", apart([done(), ready()].concat())),
        ("a row, in a buffer of its own", apart(row_that_fills_a_buffer())),
        ("CommandComplete, in a buffer of its own", apart(done())),
    ];
    let mut faults = Vec::new();
    for (what, bytes) in surplus {
        let server = Hostile::start(move |_| Answer::Once(bytes.clone()));
        let mut spec = spec(&server, &script, 50);
        spec.on_disconnect = OnDisconnect::Reconnect;
        let mut check = |name: &str, driven: &Driven| {
            let foreign = foreign(&server.take_heard(), &queries);
            let (counts, lost) = (&driven.done.counts, driven.done.clients_lost);
            if !foreign.is_empty() || (counts.committed, lost) != (0, 1) {
                faults.push(format!("{name}, {what}: {} committed, {foreign:?}", counts.committed));
            }
        };
        with_each(&spec, &mut check);
    }
    assert!(faults.is_empty(), "{faults:#?}");
}

#[test]
fn a_broken_protocol_ends_the_client_and_is_reported() {
    let server = Hostile::start(|_| Answer::Once([done(), ready(), ready()].concat()));
    let mut spec = spec(&server, "SELECT 1;", 50);
    (spec.n_clients, spec.on_disconnect) = (3, OnDisconnect::Reconnect);
    with_each(&spec, |name, driven| {
        let text = "the server sent ReadyForQuery without a request";
        assert_eq!(driven.texts(EventKind::ProtocolBroken), [text; 3], "{name}");
        assert_eq!(driven.done.errors.get("proto"), Some(&3), "{name}: {:?}", driven.done);
        assert!(driven.texts(EventKind::ClientAborted).iter().all(|texts| texts.ends_with(text)), "{name}");
        assert_eq!(server.take_heard().len(), 3, "{name}: no client dials again");
    });
}

/// Each reply contains something that the client has not asked for, or lacks what it has.
#[test]
fn replies_that_were_not_asked_for_commit_nothing() {
    let reply = |messages: &[(u8, &[u8])]| -> Vec<u8> {
        messages.iter().flat_map(|(tag, body)| message(*tag, body)).collect()
    };
    let row = (b'D', &b"\0\x01\0\0\0\x011"[..]);
    let done = (b'C', &b"SELECT 1\0"[..]);
    let ready = (b'Z', &b"I"[..]);
    let bind = (b'2', &b""[..]);
    let simple = [
        ("no result", reply(&[ready])),
        ("no result but rows", reply(&[row, row, ready])),
        ("CloseComplete", reply(&[(b'3', b""), done, ready])),
        ("PortalSuspended", reply(&[row, (b's', b""), ready])),
        ("a request to authenticate", reply(&[(b'R', b"\0\0\0\x03"), done, ready])),
        ("BackendKeyData", reply(&[(b'K', b"12345678"), done, ready])),
        ("a message of 2 GB", [&b"D\x7f\xff\xff\xff"[..], &[b'r'; 100]].concat()),
        ("no message at all", b"HTTP/1.1 400 Bad Request\r\n".to_vec()),
    ];
    let extended = [
        ("two results", reply(&[(b'1', b""), bind, row, done, done, ready])),
        ("no result", reply(&[(b'1', b""), bind, ready])),
    ];
    let cases = simple.into_iter().map(|case| (Protocol::Simple, case));
    for (protocol, (what, bytes)) in cases.chain(extended.into_iter().map(|case| (Protocol::Extended, case)))
    {
        let server = Hostile::start(move |_| Answer::Once(bytes.clone()));
        let mut spec = spec(&server, "SELECT 1;", 5);
        spec.protocol = protocol;
        with_each(&spec, |name, driven| {
            let texts = driven.texts(EventKind::ProtocolBroken);
            assert_eq!((driven.done.counts.committed, texts.len()), (0, 1), "{name}, {what}: {texts:?}");
        });
    }
}

/// A row that is longer than what is kept here is no fault of the server's.
#[test]
fn a_message_above_our_limit_is_our_limit() {
    let reply = [&b"D\x01\x10\0\0"[..], &[b'r'; 100]].concat();
    let server = Hostile::start(move |_| Answer::Once(reply.clone()));
    let mut spec = spec(&server, "SELECT long FROM t;", 5);
    spec.on_disconnect = OnDisconnect::Reconnect;
    with_each(&spec, |name, driven| {
        assert_eq!(driven.texts(EventKind::ProtocolBroken).len(), 0, "{name}");
        let text = "the server sent a DataRow of 17825788 bytes, more than pgdyno's limit of 16777216, for the statement \
                    `SELECT long FROM t;`";
        assert_eq!(driven.texts(EventKind::LimitExceeded), [text], "{name}");
        assert_eq!(driven.done.errors.get("limit"), Some(&1), "{name}: {:?}", driven.done);
        assert_eq!((driven.done.counts.committed, driven.done.clients_lost), (0, 1), "{name}");
    });
}

/// A pooler lets sessions in while its server is gone, and ends them at their first statement.
#[test]
fn logins_that_lead_to_no_commit_are_not_repeated_at_once() {
    let fatal = message(b'E', b"SFATAL\0VFATAL\0C08P01\0Mserver login has been failing\0\0");
    let answer = fatal.clone();
    let server = Hostile::start(move |_| Answer::Last(answer.clone()));
    let mut spec = spec(&server, "SELECT 1;", 1);
    (spec.transactions_per_client, spec.n_clients) = (None, 2);
    (spec.on_disconnect, spec.window.measure_s) = (OnDisconnect::Reconnect, 2);
    with_each(&spec, |name, driven| {
        let n_logins = server.take_heard().len();
        // Two clients in two seconds, every 25 to 75 ms.
        assert!((20..=162).contains(&n_logins), "{name}: {n_logins}");
        assert_eq!(driven.done.clients_lost, 0, "{name}");
    });

    // A session that has committed is replaced at once.
    let server = Hostile::start(move |n| match n {
        0 => Answer::Once([done(), ready()].concat()),
        _ => Answer::Last(fatal.clone()),
    });
    let mut spec = self::spec(&server, "SELECT 1;", 1);
    spec.transactions_per_client = None;
    (spec.on_disconnect, spec.window.measure_s) = (OnDisconnect::Reconnect, 1);
    with_each(&spec, |name, _| {
        let n_logins = server.take_heard().len();
        assert!(n_logins > 60, "{name}: {n_logins}");
    });
}

#[test]
fn an_idle_client_takes_what_may_come_at_any_time_and_nothing_else() {
    let news = [
        message(b'S', b"TimeZone\0UTC\0"),
        message(b'N', b"SNOTICE\0C00000\0Mhello\0\0"),
        message(b'A', b"\0\0\0\x01c\0p\0"),
    ]
    .concat();
    for (surplus, n_broken) in [(Vec::new(), 0), (message(b'D', b"\0\0"), 1), (ready(), 1)] {
        let reply = [done(), ready(), news.clone(), surplus].concat();
        let server = Hostile::start(move |_| Answer::Once(reply.clone()));
        // Between two transactions the client is idle.
        let mut spec = spec(&server, "SELECT 1;", 4);
        spec.pace = "constant 20/s".parse().unwrap();
        with_each(&spec, |name, driven| {
            let texts = driven.texts(EventKind::ProtocolBroken);
            let n = if n_broken == 0 { 4 } else { 0 };
            assert_eq!((texts.len(), driven.done.counts.committed), (n_broken, n), "{name}: {texts:?}");
        });
    }
}

#[test]
fn a_server_that_never_stops_holds_up_neither_the_others_nor_the_end() {
    let endless = [
        ("rows", message(b'D', &[b'r'; 1000])),
        ("notices", message(b'N', b"SNOTICE\0C00000\0Mhello\0\0")),
        ("settings", message(b'S', b"TimeZone\0UTC\0")),
        ("errors", message(b'E', b"SERROR\0C40001\0Mno\0\0")),
    ];
    for (what, again) in endless {
        // The first client that gets there; the other one goes on.
        let is_taken = Arc::new(AtomicBool::new(false));
        let n_of_the_other = Arc::new(AtomicUsize::new(0));
        let (taken, other) = (Arc::clone(&is_taken), Arc::clone(&n_of_the_other));
        let server = Hostile::start(move |n| match n {
            10 if !taken.swap(true, Ordering::Relaxed) => Answer::Endless(again.clone()),
            n => {
                other.fetch_max(n, Ordering::Relaxed);
                Answer::Once([done(), ready()].concat())
            }
        });
        let mut spec = spec(&server, "\\sleep 1 ms\nSELECT 1;", 1);
        spec.transactions_per_client = None;
        spec.all_notices = what == "notices";
        spec.n_clients = 2;
        let began = std::time::Instant::now();
        let drive = |spec: LoadSpec| {
            let other = Arc::clone(&n_of_the_other);
            try_drive_until(spec, move || other.load(Ordering::Relaxed) > 50)
        };
        with_each_by(drive, &spec, &mut |name, driven| {
            let counts = &driven.done.counts;
            // Two clients that are both held up have committed 20 or 21.
            assert!(counts.committed > 50, "{name}, {what}: {counts:?}");
            // The endless one, and the other one if it sleeps when the load ends.
            assert!((1..=2).contains(&(counts.started - counts.committed)), "{name}, {what}: {counts:?}");
            assert!(is_taken.swap(false, Ordering::Relaxed), "{name}, {what}: {counts:?}");
            n_of_the_other.store(0, Ordering::Relaxed);
        });
        assert!(began.elapsed() < Duration::from_secs(60), "{what}: {:?}", began.elapsed());
    }
}

#[test]
fn a_server_that_answers_what_it_has_not_read_is_detected() {
    let queries = [format!("SELECT '{}';", "x".repeat(4000))];
    let server = Hostile::start(|_| Answer::Unread([done(), ready()].concat(), 20_000));
    let spec = spec(&server, &queries[0], 100_000);
    with_each(&spec, |name, driven| {
        let texts = driven.texts(EventKind::ProtocolBroken);
        assert_eq!((texts.len(), driven.done.clients_lost), (1, 1), "{name}: {:?}", driven.done);
        std::thread::sleep(Duration::from_millis(100));
        let heard = server.take_heard();
        // The last one is cut where the client gave up.
        let whole =
            |bytes: &Vec<u8>| bytes[..bytes.len() / (queries[0].len() + 6) * (queries[0].len() + 6)].to_vec();
        let heard: Vec<Vec<u8>> = heard.iter().map(whole).collect();
        assert_eq!(foreign(&heard, &queries), [""; 0], "{name}");
    });
}
