//! A relay between a client and a server of the test: times, order, cuts and ends.

use std::num::NonZeroU64;
use std::sync::mpsc::{self, Receiver};
use std::time::{Duration, Instant};

use tempfile::TempDir;

use super::*;

/// How long anything that must happen may take.
const PATIENCE: Duration = Duration::from_secs(20);
/// How long is waited for what must not happen.
const QUIET: Duration = Duration::from_millis(100);

/// A relay before a server, whose connections are received in order.
struct Bench {
    relay: Option<Relay>,
    served: Receiver<UnixStream>,
    directory: TempDir,
}

impl Bench {
    fn new(round_trip_ms: u64, rate: u64) -> Bench {
        let directory = tempfile::tempdir().unwrap();
        let server = UnixListener::bind(directory.path().join("server")).unwrap();
        let (send, served) = mpsc::channel();
        // It ends with the test's process.
        thread::spawn(move || server.incoming().flatten().try_for_each(|stream| send.send(stream)));
        let listener = UnixListener::bind(directory.path().join("relay")).unwrap();
        let way = OneWay::from_round_trip(Duration::from_millis(round_trip_ms), NonZeroU64::new(rate));
        let relay = Relay::start(listener, &directory.path().join("server"), way).unwrap();
        Bench { relay: Some(relay), served, directory }
    }

    fn relay(&self) -> &Relay {
        self.relay.as_ref().unwrap()
    }

    fn knock(&self) -> UnixStream {
        patient(UnixStream::connect(self.directory.path().join("relay")).unwrap())
    }

    fn open(&self) -> (UnixStream, UnixStream) {
        let client = self.knock();
        (client, patient(self.served.recv_timeout(PATIENCE).unwrap()))
    }
}

fn patient(stream: UnixStream) -> UnixStream {
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.set_write_timeout(Some(PATIENCE)).unwrap();
    stream
}

fn send(mut stream: &UnixStream, text: &str) {
    stream.write_all(text.as_bytes()).unwrap();
}

/// Fails if other bytes come.
fn expect(mut stream: &UnixStream, text: &str) {
    let mut bytes = vec![0; text.len()];
    stream.read_exact(&mut bytes).unwrap();
    assert_eq!(String::from_utf8_lossy(&bytes), text);
}

fn expect_end(mut stream: &UnixStream) {
    match stream.read(&mut [0; 16]) {
        Ok(n) => assert_eq!(n, 0, "bytes instead of the end"),
        // What was sent to it had not been received.
        Err(error) => assert_eq!(error.kind(), io::ErrorKind::ConnectionReset),
    }
}

fn expect_silence(mut stream: &UnixStream) {
    stream.set_read_timeout(Some(QUIET)).unwrap();
    let found = stream.read(&mut [0; 16]);
    assert_eq!(found.map_err(|error| error.kind()), Err(io::ErrorKind::WouldBlock));
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
}

fn wait_until(what: &str, is_so: impl Fn() -> bool) {
    let begin = Instant::now();
    while !is_so() {
        assert!(begin.elapsed() < PATIENCE, "{what}");
        thread::sleep(Duration::from_millis(2));
    }
}

/// Times of round trips of one byte, which the server sends back, in order.
fn round_trips(bench: &Bench, n: usize) -> Vec<Duration> {
    let (client, server) = bench.open();
    let echo = thread::spawn(move || {
        (0..n).for_each(|_| {
            expect(&server, "x");
            send(&server, "y")
        })
    });
    let mut times: Vec<Duration> = (0..n)
        .map(|_| {
            let begin = Instant::now();
            send(&client, "x");
            expect(&client, "y");
            begin.elapsed()
        })
        .collect();
    echo.join().unwrap();
    times.sort();
    times
}

#[test]
fn a_round_trip_takes_as_long_as_it_should() {
    let times = round_trips(&Bench::new(10, 0), 200);
    assert!(times[0] >= Duration::from_millis(10), "{:?}", times[0]);
    assert!(times[100] < Duration::from_millis(13), "{:?}", times[100]);
    let direct = round_trips(&Bench::new(0, 0), 200);
    assert!(direct[100] < Duration::from_millis(3), "{:?}", direct[100]);
}

#[test]
fn bytes_take_the_time_that_the_rate_gives_them() {
    let bench = Bench::new(0, 1_000_000);
    let (client, server) = bench.open();
    let begin = Instant::now();
    let sender = thread::spawn(move || send(&client, &"x".repeat(500_000)));
    expect(&server, &"x".repeat(500_000));
    let took = begin.elapsed();
    sender.join().unwrap();
    assert!((Duration::from_millis(495)..Duration::from_secs(2)).contains(&took), "{took:?}");
    wait_until("bytes are not counted", || bench.relay().forwarded_bytes() == 500_000);
    assert_eq!(bench.relay().swallowed_bytes(), 0);
}

#[test]
fn a_way_is_changed_while_bytes_pass_and_what_passes_is_counted() {
    let bench = Bench::new(0, 0);
    let relay = bench.relay();
    let (client, server) = bench.open();
    let passes = |n: usize| {
        send(&server, &"x".repeat(n));
        expect(&client, &"x".repeat(n));
        wait_until("bytes are not counted", || relay.passed().bytes == n as u64);
        relay.passed()
    };
    assert!(passes(100).least.unwrap() < Duration::from_millis(50));

    relay.set_way(OneWay::from_round_trip(Duration::from_millis(200), None));
    assert_eq!(relay.passed().bytes, 0, "since the change");
    let slow = passes(10).least.unwrap();
    assert!((Duration::from_millis(100)..Duration::from_secs(5)).contains(&slow), "{slow:?}");

    relay.set_way(OneWay::from_round_trip(Duration::ZERO, NonZeroU64::new(1_000_000)));
    let Passed { bytes, span, busy, .. } = passes(200_000);
    assert!(span >= Duration::from_millis(199), "{bytes} in {span:?}");
    assert!(busy >= Duration::from_millis(10), "{busy:?}: the rate held up what was sent");
    relay.set_way(OneWay::from_round_trip(Duration::ZERO, NonZeroU64::new(2_000_000)));
    let busy = passes(1000).busy;
    assert!(busy <= Duration::from_millis(1), "{busy:?}: less came than may pass");
    relay.set_way(OneWay::default());
    assert!(passes(100).least.unwrap() < slow);
}

#[test]
fn all_bytes_arrive_in_order_both_ways_and_so_does_the_end() {
    let bench = Bench::new(2, 0);
    let (client, server) = bench.open();
    let text: String = (0..400_000).map(|n| format!("{n},")).collect();
    let (up, down) = (text.clone(), text.clone());
    let client = Arc::new(client);
    let of_sender = Arc::clone(&client);
    let sender = thread::spawn(move || {
        send(&of_sender, &up);
        of_sender.shutdown(std::net::Shutdown::Write).unwrap();
    });
    let echo = thread::spawn(move || {
        expect(&server, &down);
        expect_end(&server);
        send(&server, "bye");
    });
    sender.join().unwrap();
    expect(&client, "bye");
    echo.join().unwrap();
    expect_end(&client);
    drop(client);
    wait_until("the connection stays", || bench.relay().n_connections() == 0);
}

#[test]
fn what_is_sent_to_a_full_line_waits_at_its_sender() {
    // 10 kB on the way, and two pieces.
    let bench = Bench::new(200, 100_000);
    let (client, server) = bench.open();
    client.set_write_timeout(Some(Duration::from_millis(50))).unwrap();
    let mut n_taken = 0;
    while let Ok(n) = (&client).write(&[7; 4096]) {
        n_taken += n;
        assert!(n_taken < 4 << 20, "nothing waits");
    }
    // The sender's socket has a buffer of the kernel's.
    assert!(n_taken < 1 << 20, "{n_taken}");
    server.set_read_timeout(Some(QUIET * 3)).unwrap();
    let n_read = (&server).read(&mut [0; 4096]).unwrap();
    assert!(n_read <= 4096);
}

#[test]
fn a_cut_swallows_all_and_what_has_a_hole_is_closed_afterwards() {
    let bench = Bench::new(0, 0);
    let relay = bench.relay();
    let (client, server) = bench.open();
    let (other_client, other_server) = bench.open();
    send(&client, "before");
    expect(&server, "before");
    wait_until("bytes are not counted", || relay.forwarded_bytes() == 6);

    relay.cut();
    assert!(relay.is_cut());
    send(&client, "swallowed");
    send(&server, "both ways");
    expect_silence(&server);
    expect_silence(&client);
    wait_until("bytes are not counted", || relay.swallowed_bytes() == 18);
    assert_eq!(relay.forwarded_bytes(), 6);

    relay.pass();
    expect_end(&client);
    expect_end(&server);
    send(&other_client, "untouched");
    expect(&other_server, "untouched");
    wait_until("the broken connection stays", || relay.n_connections() == 1);
}

#[test]
fn nobody_learns_of_an_end_while_it_is_cut_and_who_connects_waits() {
    let bench = Bench::new(0, 0);
    let (client, server) = bench.open();
    bench.relay().cut();
    drop(server);
    expect_silence(&client);
    send(&client, "to nobody");
    let late = bench.knock();
    send(&late, "hello");
    assert!(bench.served.recv_timeout(QUIET).is_err(), "who connects is let in");

    bench.relay().pass();
    expect_end(&client);
    expect(&patient(bench.served.recv_timeout(PATIENCE).unwrap()), "hello");
}

#[test]
fn what_was_on_the_way_is_lost_also_by_a_short_cut() {
    let bench = Bench::new(400, 0);
    let (client, server) = bench.open();
    send(&client, "on the way");
    // Until it is in the line.
    thread::sleep(Duration::from_millis(50));
    bench.relay().cut();
    bench.relay().pass();
    expect_end(&server);
    expect_end(&client);
    assert_eq!((bench.relay().swallowed_bytes(), bench.relay().forwarded_bytes()), (10, 0));
}

#[test]
fn a_relay_that_ends_leaves_nothing() {
    for is_cut in [false, true] {
        let mut bench = Bench::new(1000, 0);
        let (client, server) = bench.open();
        send(&client, "on the way");
        if is_cut {
            bench.relay().cut();
        }
        let shared = Arc::downgrade(&bench.relay().shared);
        let begin = Instant::now();
        drop(bench.relay.take());
        assert!(begin.elapsed() < PATIENCE);
        assert!(shared.upgrade().is_none(), "a thread is left");
        let refused = UnixStream::connect(bench.directory.path().join("relay"));
        assert_eq!(refused.map_err(|error| error.kind()).unwrap_err(), io::ErrorKind::ConnectionRefused);
        expect_end(&client);
        expect_end(&server);
    }
}

#[test]
fn who_connects_to_a_server_that_is_gone_sees_the_end() {
    let directory = tempfile::tempdir().unwrap();
    let listener = UnixListener::bind(directory.path().join("relay")).unwrap();
    let relay = Relay::start(listener, &directory.path().join("nowhere"), OneWay::default()).unwrap();
    let client = patient(UnixStream::connect(directory.path().join("relay")).unwrap());
    expect_end(&client);
    assert_eq!(relay.n_connections(), 0);
    // It is started again where it was.
    let again = UnixListener::bind(directory.path().join("nowhere")).unwrap();
    let client = patient(UnixStream::connect(directory.path().join("relay")).unwrap());
    send(&client, "hello");
    expect(&patient(again.accept().unwrap().0), "hello");
}
