//! A real server whose answers a proxy falsifies once the load has begun, through a whole run: pgdyno ends in time and in little
//! memory, says what was wrong, calls nothing valid, and leaves nothing. What comes before the load is for `limits` and crate wire.

use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use analysis::finding::Severity;
use testbed::hostile::{message, ready};
use testbed::{PASSWORD, Pg};

use crate::tool::{Ended, Place, Running, expect_identity, tell, wait_until};

/// What a client of the load sends, at first and perhaps not again: its statements are prepared.
const SIGN_OF_LOAD: &[u8] = b"UPDATE \"public\".pgbench_accounts";
/// Questions of the load that are answered truthfully: more than there are before it begins.
const TRUE_ANSWERS: u32 = 200;
/// More than any of these runs takes: 2 s of load, 1 s of grace, and time to give up.
const BOUND: Duration = Duration::from_secs(60);
/// Some 40 MiB, and the 64 MiB that an administrative session takes of one answer.
const MEMORY_MIB_MAX: u64 = 200;

/// What comes before what the server says, or in its place.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Lie {
    /// Each ReadyForQuery comes twice.
    ReadyTwice,
    EndlessRows,
    EndlessNotices,
    /// The header of a message of 2 GiB, and some of it.
    VastMessage,
    /// No message of the protocol.
    Garbage,
    /// Nothing, on an open connection.
    Silence,
    /// The connection is closed within a message.
    Close,
}

impl Lie {
    /// Whether it begins where the server sends a message of this type: within a reply, or at its end.
    fn comes_before(self, tag: u8) -> bool {
        let is_at_end = matches!(self, Lie::ReadyTwice | Lie::EndlessNotices | Lie::Garbage);
        tag == if is_at_end { b'Z' } else { b'C' }
    }

    /// Whether no server that is merely slow or gone does this.
    fn breaks_protocol(self) -> bool {
        matches!(self, Lie::ReadyTwice | Lie::VastMessage | Lie::Garbage)
    }
}

/// Whom it lies to.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Audience {
    /// Clients of the load.
    Load,
    /// Everybody, sessions that begin later too.
    All,
}

/// A proxy in front of a server.
#[derive(Clone, Copy)]
struct Proxy {
    server: u16,
    lie: Lie,
    audience: Audience,
}

/// What the two directions of a connection, and all connections, know.
#[derive(Clone)]
struct Known {
    /// Questions of the load that this connection has sent.
    n_own: Arc<AtomicU32>,
    n_all: Arc<AtomicU32>,
}

impl Proxy {
    /// Starts it, and returns the port that it listens on.
    fn start(self) -> u16 {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let n_all = Arc::<AtomicU32>::default();
        // The threads end with their connections, and with the process of the tests.
        std::thread::spawn(move || {
            for client in listener.incoming() {
                let client = client.unwrap();
                let server = TcpStream::connect(("127.0.0.1", self.server)).unwrap();
                // One message at a time goes through here: waiting for more to send would take 40 ms for each.
                client.set_nodelay(true).unwrap();
                server.set_nodelay(true).unwrap();
                let known = Known { n_own: Arc::default(), n_all: Arc::clone(&n_all) };
                let (from, to, told) =
                    (client.try_clone().unwrap(), server.try_clone().unwrap(), known.clone());
                std::thread::spawn(move || pass_questions(from, to, &told));
                std::thread::spawn(move || self.pass_answers(server, client, &known));
            }
        });
        port
    }

    fn lies_now(self, known: &Known) -> bool {
        let is_meant = self.audience == Audience::All || known.n_own.load(Ordering::Relaxed) > 0;
        is_meant && known.n_all.load(Ordering::Relaxed) > TRUE_ANSWERS
    }

    /// Passes messages of the server on, until it is time to lie. An error is somebody's hanging up.
    fn pass_answers(self, mut server: TcpStream, mut client: TcpStream, known: &Known) {
        let _ = (|| -> io::Result<()> {
            loop {
                let mut header = [0; 5];
                server.read_exact(&mut header)?;
                let length = u32::from_be_bytes([header[1], header[2], header[3], header[4]]);
                let mut body = vec![0; length as usize - 4];
                server.read_exact(&mut body)?;
                if self.lie.comes_before(header[0]) && self.lies_now(known) {
                    self.tell_lie(&mut client)?;
                }
                client.write_all(&[&header[..], &body].concat())?;
            }
        })();
        let _ = (client.shutdown(Shutdown::Both), server.shutdown(Shutdown::Both));
    }

    fn tell_lie(self, client: &mut TcpStream) -> io::Result<()> {
        match self.lie {
            Lie::ReadyTwice => client.write_all(&ready()),
            Lie::EndlessRows => {
                write_endlessly(client, &message(b'D', &[&[0, 1, 0, 0, 0, 90][..], &[b'x'; 90]].concat()))
            }
            Lie::EndlessNotices => write_endlessly(client, &message(b'N', b"SNOTICE\0C00000\0Mhello\0\0")),
            Lie::VastMessage => {
                client.write_all(b"D\x7f\xff\xff\xff")?;
                write_endlessly(client, &[b'x'; 100])
            }
            Lie::Garbage => write_endlessly(client, b"\0\xff\x1b[2Jno protocol"),
            Lie::Silence => loop {
                std::thread::sleep(Duration::from_millis(100));
                // To see whether the client has hung up, nothing of the protocol is needed.
                if client.peek(&mut [0]).is_ok_and(|n| n == 0) {
                    return Err(io::ErrorKind::BrokenPipe.into());
                }
            },
            Lie::Close => {
                client.write_all(b"D\0\0\0\x20half a row")?;
                Err(io::ErrorKind::BrokenPipe.into())
            }
        }
    }
}

/// Writes `bytes` again and again, as long as the client reads. The pauses leave time for the other servers that lie at the same
/// moment; without an end, it is more than anybody may keep in memory.
fn write_endlessly(client: &mut TcpStream, bytes: &[u8]) -> io::Result<()> {
    let many = bytes.repeat((128 * 1024_usize).div_ceil(bytes.len()));
    loop {
        client.write_all(&many)?;
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Passes what a client sends on, and counts questions of the load.
fn pass_questions(mut client: TcpStream, mut server: TcpStream, known: &Known) {
    let mut buffer = [0; 16384];
    while let Ok(n @ 1..) = client.read(&mut buffer) {
        let mut parts = buffer[..n].windows(SIGN_OF_LOAD.len());
        let is_load = known.n_own.load(Ordering::Relaxed) > 0;
        if is_load || parts.any(|part| part.eq_ignore_ascii_case(SIGN_OF_LOAD)) {
            known.n_own.fetch_add(1, Ordering::Relaxed);
            known.n_all.fetch_add(1, Ordering::Relaxed);
        }
        if server.write_all(&buffer[..n]).is_err() {
            break;
        }
    }
    let _ = (client.shutdown(Shutdown::Both), server.shutdown(Shutdown::Both));
}

/// Waits for the end, and returns the most memory that pgdyno or its driver had, in MiB.
#[track_caller]
fn watch(running: Running, what: &str) -> (Ended, u64) {
    let (began, mut peak_kib) = (Instant::now(), 0);
    while running.is_alive() {
        for pid in running.descendants().into_iter().chain([running.pid()]) {
            let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
            let kib = status.lines().find_map(|line| line.strip_prefix("VmHWM:")?.split_whitespace().next());
            peak_kib = kib.map_or(0, |kib| kib.parse().unwrap()).max(peak_kib);
        }
        assert!(began.elapsed() < BOUND, "{what} has no end");
        std::thread::sleep(Duration::from_millis(50));
    }
    (running.wait(), peak_kib >> 10)
}

/// A whole run against a server that lies, and the words in which pgdyno must say so.
fn check(pg: &Pg, lie: Lie, audience: Audience, words: &str) {
    let what = format!("{lie:?} to {audience:?}");
    let (place, database) = (Place::new(), pg.database());
    let port = Proxy { server: pg.port, lie, audience }.start();
    let server = format!("postgres://bench:{PASSWORD}@127.0.0.1:{port}/{database}?sslmode=disable");
    let args = "run --scale 1 -c 2 --measure 4s --ramp-up 0s --repeats 1 --set prepare.settle=false \
                --set prepare.prewarm=false --set run.grace=1s --set run.phase_timeout=20s -o out --server";
    let args: Vec<&str> = args.split_whitespace().chain([server.as_str()]).collect();
    let began = Instant::now();
    let (ended, peak_mib) = watch(place.start(place.command(&args)), &what);
    let run = place.first_run("out");
    let reason = format!("{:?}: {}", run.record.state, run.record.reason);
    tell(&format!("{what}: {:?}, {peak_mib} MiB, {:?}, {reason}", ended.code(), began.elapsed()));
    assert_eq!(ended.code(), Some(1), "{what}: {ended:?}");
    assert!(peak_mib < MEMORY_MIB_MAX, "{what}: {peak_mib} MiB");
    assert!(reason.starts_with("Partial") && reason.contains(words), "{what}: {reason}");
    assert!(ended.stderr.contains(&run.record.reason), "{what}: {}", ended.stderr);
    let voids = voids(&place);
    assert!(voids.contains(&"run-incomplete".to_string()), "{what}: {voids:?}");
    assert_eq!(voids.contains(&"protocol-broken".to_string()), lie.breaks_protocol(), "{what}: {voids:?}");
    if run.record.done.is_some() {
        expect_identity(&run);
    }
    let said = format!("{}{}", ended.stdout, ended.stderr);
    assert!(
        !said.contains('\u{1b}') && !said.contains(PASSWORD) && !said.contains("panicked"),
        "{what}: {said}"
    );
    place.expect_clean();
    let sessions = format!("select count(*) from pg_stat_activity where datname = '{database}'");
    wait_until("the end of all sessions", || pg.ask("postgres", &sessions) == "0");
}

/// Findings that void the only run.
fn voids(place: &Place) -> Vec<String> {
    let study = analysis::study(&place.results("out"));
    let voids = study.runs[0].findings.iter().filter(|finding| finding.severity == Severity::Void);
    voids.map(|finding| finding.id.to_string()).collect()
}

#[test]
fn a_server_that_lies_once_the_load_has_begun_ends_the_run_and_voids_it() {
    let pg = Pg::start();
    // A surplus ReadyForQuery may arrive before a request, or as the end of the next reply.
    let lies = [
        (Lie::ReadyTwice, Audience::All, "ReadyForQuery"),
        (Lie::EndlessRows, Audience::All, "gave 2 clients no reply"),
        (Lie::EndlessNotices, Audience::All, "gave 2 clients no reply"),
        (Lie::VastMessage, Audience::All, "message `D` of the server has an impossible length"),
        (Lie::Garbage, Audience::All, "unexpected message type 0x00 from the server"),
        (Lie::Silence, Audience::All, "gave 2 clients no reply"),
        (Lie::Close, Audience::All, "every client lost its connection"),
        // The observer, and who counts rows at the end, hear the truth.
        (Lie::ReadyTwice, Audience::Load, "ReadyForQuery"),
        (Lie::EndlessRows, Audience::Load, "gave 2 clients no reply"),
    ];
    // At the same time: most of it is waiting.
    std::thread::scope(|scope| {
        for (lie, audience, words) in lies {
            let pg = &pg;
            scope.spawn(move || check(pg, lie, audience, words));
        }
    });
}
