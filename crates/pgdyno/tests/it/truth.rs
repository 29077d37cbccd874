//! The driver's quantiles against a server that has programmed service times and records each of them.
//!
//! The server's record bounds what the driver may report for each transaction: a client gets its answer neither before
//! it was written nor after its next statement arrived. Both hold however late the kernel wakes a process, so the test
//! cannot fail on a busy machine; where nothing is late, the bounds are a few tens of microseconds apart.

use std::fs;
use std::time::SystemTime;

use model::load::drive::{Done, DriverLine};
use model::load::histogram::HistogramSum;
use model::load::{LoadSpec, Window};
use nix::time::{ClockId, clock_gettime};
use null::ServiceTime;
use workload::Prng;

use crate::look_alike;
use crate::tool::{Place, tell};

const SEED: u64 = 5;
/// How much the readings of both clocks by two processes may differ, nanoseconds.
const CLOCKS_NS: i64 = 200_000;
/// The precision of three significant digits, as a share.
const PRECISION: f64 = 0.001;

/// The server's record of a statement, nanoseconds of the monotonic clock.
#[derive(Debug, Clone, Copy)]
struct Passage {
    connection: u64,
    arrived: i64,
    leaving: i64,
}

/// Both sides' records of a load.
struct Seen {
    passages: Vec<Passage>,
    latency: HistogramSum,
    service: HistogramSum,
    done: Done,
    /// When the load began, and when its last transaction had ended, nanoseconds of the monotonic clock.
    go: i64,
    end: i64,
}

/// The least and the most that each transaction can have taken, in order.
struct Bounds {
    least: Vec<i64>,
    most: Vec<i64>,
}

impl Bounds {
    fn new((mut least, mut most): (Vec<i64>, Vec<i64>)) -> Bounds {
        least.sort_unstable();
        most.sort_unstable();
        Bounds { least, most }
    }

    /// Bounds of the quantile, with a margin of one rank for how quantiles are counted, nanoseconds.
    fn at(&self, q: f64) -> (f64, f64) {
        let n = self.least.len();
        let rank = ((q * n as f64).ceil() as usize).clamp(1, n) - 1;
        (self.least[rank.saturating_sub(1)] as f64, self.most[(rank + 1).min(n - 1)] as f64)
    }

    /// Whether the driver's value is possible.
    fn allow(&self, q: f64, driver_ns: f64) -> bool {
        let (least, most) = self.at(q);
        (least * (1.0 - PRECISION)..=most * (1.0 + PRECISION)).contains(&driver_ns)
    }
}

fn monotonic_now() -> i64 {
    let t = clock_gettime(ClockId::CLOCK_MONOTONIC).unwrap();
    t.tv_sec() * 1_000_000_000 + t.tv_nsec()
}

/// Wall clock minus monotonic clock, from the fastest of several readings.
fn clock_offset_ns() -> i64 {
    let read = |_| {
        let before = monotonic_now();
        let wall = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_nanos() as i64;
        let after = monotonic_now();
        (after - before, wall - before.midpoint(after))
    };
    (0..20).map(read).min().unwrap().1
}

/// Offers one second of load to the look-alike.
fn measure(service: &str, pace: &str, n_clients: u32) -> Seen {
    let place = Place::new();
    let record = place.path("record");
    let (seed, record_path) = (SEED.to_string(), record.display().to_string());
    let options = ["--service", service, "--seed", &seed, "--record", &record_path];
    let load = LoadSpec {
        n_clients,
        pace: pace.parse().unwrap(),
        window: Window { ramp_up_s: 0, measure_s: 1, grace_s: 10 },
        ..LoadSpec::default()
    };
    let (mut latency, mut of_service) = (HistogramSum::new(), HistogramSum::new());
    let (mut offset_at_go, mut offset_at_end) = (0, 0);
    let hear = |line: &DriverLine| match line {
        DriverLine::Ready(_) => offset_at_go = clock_offset_ns(),
        DriverLine::Done(_) => offset_at_end = clock_offset_ns(),
        DriverLine::Interval { histograms, .. } => {
            for line in histograms {
                match line.tag.as_str() {
                    "one" => latency.add(&HistogramSum::read(line).unwrap()),
                    "one.service" => of_service.add(&HistogramSum::read(line).unwrap()),
                    _ => {}
                }
            }
        }
        _ => {}
    };
    let (go_unix_ns, done) = look_alike::drive(&place, &options, load, hear);
    let mut passages: Vec<Passage> = fs::read(&record)
        .unwrap()
        .chunks_exact(32)
        .map(|bytes| {
            let number = |i: usize| i64::from_le_bytes(bytes[8 * i..8 * i + 8].try_into().unwrap());
            Passage { connection: number(0) as u64, arrived: number(1), leaving: number(2) }
        })
        .collect();
    passages.sort_by_key(|passage| passage.arrived);
    place.expect_clean();
    let (go, end) = (go_unix_ns as i64 - offset_at_go, done.end_unix_ns as i64 - offset_at_end);
    Seen { passages, latency, service: of_service, done, go, end }
}

/// In a closed loop a client sends when it has its last answer, and has it before its next statement arrives.
fn closed_bounds(seen: &Seen) -> Bounds {
    let bounds = |(i, passage): (usize, &Passage)| {
        let is_same = |other: &&Passage| other.connection == passage.connection;
        let before = seen.passages[..i].iter().rfind(is_same);
        let after = seen.passages[i + 1..].iter().find(is_same);
        let begun = before.map_or(seen.go - CLOCKS_NS, |before| before.leaving);
        let ended = after.map_or(seen.end + CLOCKS_NS, |after| after.arrived);
        (passage.leaving - passage.arrived, ended - begun)
    };
    Bounds::new(seen.passages.iter().enumerate().map(bounds).unzip())
}

/// In an open loop of one client, transaction `k` is due at `go + k * gap`.
fn open_bounds(seen: &Seen, rate_per_s: f64) -> Bounds {
    let bounds = |(k, passage): (usize, &Passage)| {
        let due = seen.go + (k as f64 * 1e9 / rate_per_s) as i64;
        let ended = seen.passages.get(k + 1).map_or(seen.end, |next| next.arrived);
        // The service time bounds the latency, and is not subject to what is known of the schedule.
        let least = (passage.leaving - due - CLOCKS_NS).max(passage.leaving - passage.arrived);
        (least, ended - due + CLOCKS_NS)
    };
    Bounds::new(seen.passages.iter().enumerate().map(bounds).unzip())
}

/// The service times that the look-alike used, in order: the first draws of its stream.
fn programmed(service: &str, n: usize) -> Vec<i64> {
    let (time, mut prng) = (service.parse::<ServiceTime>().unwrap(), Prng::seed(SEED));
    let mut draws: Vec<i64> = (0..n).map(|_| time.draw(&mut prng) as i64).collect();
    draws.sort_unstable();
    draws
}

fn expect_true(name: &str, service: &str, seen: &Seen, bounds: &Bounds) {
    let (n, counts) = (seen.passages.len(), seen.done.counts);
    assert!(n > 100, "{name}: {n} transactions");
    assert_eq!((counts.committed, counts.failed + counts.unknown + counts.aborted), (n as u64, 0), "{name}");
    assert_eq!(
        (seen.latency.n(), seen.service.n()),
        (n as u64, n as u64),
        "{name}: each is in the histograms"
    );
    let programmed = programmed(service, n);
    let mut server: Vec<i64> = seen.passages.iter().map(|p| p.leaving - p.arrived).collect();
    server.sort_unstable();
    for q in [0.5, 0.95, 0.99] {
        let rank = ((q * n as f64).ceil() as usize).clamp(1, n) - 1;
        let latency = seen.latency.quantile_ns(q).unwrap() as f64;
        let service = seen.service.quantile_ns(q).unwrap() as f64;
        let (least, most) = bounds.at(q);
        tell(&format!(
            "{name}: p{:.0} programmed {:.3} ms, server {:.3}, driver {:.3} of service; latency {:.3} within \
             {:.3}..{:.3} ms",
            q * 100.0,
            programmed[rank] as f64 / 1e6,
            server[rank] as f64 / 1e6,
            service / 1e6,
            latency / 1e6,
            least / 1e6,
            most / 1e6
        ));
        assert!(server[rank] >= programmed[rank], "{name}: the look-alike is never early at {q}");
        let server_least = server[rank.saturating_sub(1)] as f64;
        assert!(service >= server_least * (1.0 - PRECISION), "{name}: service time at {q}");
        assert!(bounds.allow(q, latency), "{name}: {latency} ns at {q}, not within {least} to {most}");
    }
}

#[test]
fn quantiles_of_known_distributions_are_recovered() {
    for service in ["10ms", "exp:2ms", "1ms,20ms@8%"] {
        let name = format!("closed {service}");
        let seen = measure(service, "closed", 4);
        let bounds = closed_bounds(&seen);
        expect_true(&name, service, &seen, &bounds);
        if service == "10ms" {
            // The bounds are narrow enough to refuse a driver that is wrong by half.
            let median = seen.latency.quantile_ns(0.5).unwrap() as f64;
            assert!(!bounds.allow(0.5, median * 1.5) && !bounds.allow(0.5, median / 1.5), "{name}: no power");
        }
    }
    // The first is overloaded: transactions wait longer and longer for their turn.
    for (service, rate_per_s) in [("5ms", 300.0), ("exp:4ms", 200.0), ("1ms,20ms@8%", 250.0)] {
        let seen = measure(service, &format!("constant {rate_per_s}/s"), 1);
        let bounds = open_bounds(&seen, rate_per_s);
        expect_true(&format!("open {service} {rate_per_s}/s"), service, &seen, &bounds);
    }
}
