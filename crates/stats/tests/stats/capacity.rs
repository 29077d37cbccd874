//! The search for the highest rate against queues whose answer is known.

#![allow(clippy::unwrap_used, reason = "helpers of tests may panic as tests do")]

use stats::random::Random;
use stats::*;

/// A server with one worker and exponential service times: latency in the steady state is exponential with rate
/// `1/service - arrivals`, so it exceeds the limit with chance `exp(-limit (1/service - rate))` (Kleinrock, "Queueing
/// Systems", 1975, 3.2).
struct Queue {
    random: Random,
    world: World,
}

const SERVICE_S: f64 = 0.000_25;
const ALLOWED: f64 = 0.01;

/// What is asked, and how quiet it is where that is measured.
#[derive(Clone, Copy)]
struct World {
    name: &'static str,
    /// Share of transactions that may be late.
    allowed: f64,
    /// The limit in mean service times.
    limit: f64,
    /// Standard deviation of the logarithm of the speed, which stays for a probe.
    noise: f64,
    /// Share of probes with a stall of half a second.
    stalls: f64,
}

const QUIET: World =
    World { name: "p99 <= 20 service times", allowed: ALLOWED, limit: 20.0, noise: 0.0, stalls: 0.0 };
const SWAYING: World =
    World { name: "the same, speed varies by 2 % from probe to probe", noise: 0.02, ..QUIET };
const MOODY: World = World { name: "the same, by 10 %", noise: 0.1, ..QUIET };
const STALLING: World = World {
    name: "the same, by 3 %, and one probe in ten stalls for half a second",
    noise: 0.03,
    stalls: 0.1,
    ..QUIET
};
const TIGHT: World = World { name: "p99 <= 6", limit: 6.0, ..QUIET };
const TIGHT_MOODY: World = World { name: "the same, speed varies by 5 %", noise: 0.05, ..TIGHT };
const RARE: World = World { name: "p99.9 <= 8", allowed: 0.001, limit: 8.0, ..QUIET };
const MEDIAN: World = World { name: "p50 <= 2", allowed: 0.5, limit: 2.0, ..QUIET };
const MEDIAN_LONG: World = World { name: "p50 <= 8", allowed: 0.5, limit: 8.0, ..QUIET };
const PROBES: usize = 12;
const PROBE_S: usize = 3;

impl World {
    /// The rate at which the allowed share is late.
    fn truth(&self) -> f64 {
        (1.0 + self.allowed.ln() / self.limit) / SERVICE_S
    }
}

impl Queue {
    fn exponential(&mut self, mean: f64) -> f64 {
        -mean * (1.0 - self.random.uniform()).ln()
    }

    /// Offers a rate for a second and then for the seconds of a probe.
    fn probe(&mut self, rate: f64, seconds: usize) -> Vec<ProbeSecond> {
        let service = SERVICE_S * (self.world.noise * self.random.normal()).exp();
        let limit_s = self.world.limit * SERVICE_S;
        let mut counted = vec![ProbeSecond::default(); seconds + 1];
        let (mut due, mut free) = (0.0, 0.0f64);
        if self.random.uniform() < self.world.stalls {
            free = 1.5;
        }
        loop {
            due += self.exponential(1.0 / rate);
            let end = free.max(due) + self.exponential(service);
            free = end;
            match counted.get_mut(end as usize) {
                Some(second) => {
                    second.ended += 1;
                    second.late += u64::from(end - due > limit_s);
                }
                None => return counted.split_off(1),
            }
        }
    }

    fn new(seed: u64, world: &World) -> Queue {
        Queue { random: Random::new(seed), world: *world }
    }

    fn judged(&mut self, rate: f64, seconds: usize) -> JudgedProbe {
        judge(&self.probe(rate, seconds), rate, self.world.allowed, 0.95).unwrap()
    }
}

/// A search as a run of a minute makes it: probes at the median of what is known, then a long one.
fn search(queue: &mut Queue) -> Estimate {
    let closed = 1.0 / SERVICE_S;
    let mut known = Threshold::between(closed / 50.0, closed * 1.25, queue.world.allowed).unwrap();
    for seconds in [PROBE_S; PROBES].into_iter().chain([4 * PROBE_S]) {
        let rate = known.next();
        known.see(rate, &queue.judged(rate, seconds));
    }
    known.estimate(0.95).unwrap()
}

/// What one would do by hand: halve the interval by each probe's verdict, and believe it.
fn bisection(queue: &mut Queue) -> f64 {
    let (mut low, mut high) = (0.0, 1.0 / SERVICE_S);
    for _ in 0..PROBES {
        let rate = 0.5 * (low + high);
        if queue.judged(rate, PROBE_S).missed { high = rate } else { low = rate }
    }
    0.5 * (low + high)
}

/// Of `n` searches: how many intervals hold the truth, the root mean square of the error, the mean half width.
fn searches(world: &World, n: u64) -> (u64, f64, f64) {
    let found: Vec<Estimate> = (0..n).map(|seed| search(&mut Queue::new(seed, world))).collect();
    let inside = found.iter().filter(|found| !found.excludes(world.truth())).count() as u64;
    let error = rms(world, found.iter().map(|found| found.point));
    (
        inside,
        error,
        mean(&found.iter().map(Estimate::half_width).collect::<Vec<f64>>()).unwrap() / world.truth(),
    )
}

fn rms(world: &World, found: impl Iterator<Item = f64>) -> f64 {
    let squares: Vec<f64> = found.map(|rate| (rate / world.truth() - 1.0).powi(2)).collect();
    mean(&squares).unwrap().sqrt()
}

/// 95 % of 30 less three standard deviations is 24.9, of 12 is 9.1; p99.9 has 86 %: its rate is a seventh of the
/// server's.
#[test]
fn a_search_finds_the_rate_and_knows_how_well() {
    let worlds = [
        (QUIET, 30, 25, 0.03, 0.13),
        (MOODY, 30, 25, 0.09, 0.6),
        (STALLING, 30, 25, 0.06, 0.38),
        (TIGHT, 12, 9, 0.15, 0.3),
        (TIGHT_MOODY, 12, 9, 0.3, 0.6),
        (RARE, 12, 8, 0.6, 1.5),
        (MEDIAN, 12, 9, 0.05, 0.2),
    ];
    for (world, n, inside_min, error_max, half_max) in worlds {
        let (inside, error, half_width) = searches(&world, n);
        assert!(inside >= inside_min, "{}: {inside} of {n} intervals", world.name);
        assert!(
            error < error_max && half_width < half_max,
            "{}: error {error}, half width {half_width}",
            world.name
        );
    }
}

/// The table of METHODOLOGY.md, "The highest rate":
/// `cargo test --release -p stats -- --ignored --nocapture the_table_of_methodology`.
#[test]
#[ignore = "prints 100 searches of each world"]
#[allow(clippy::print_stdout, reason = "the table is what it is for")]
fn the_table_of_methodology() {
    for world in [QUIET, SWAYING, MOODY, STALLING, TIGHT, TIGHT_MOODY, RARE, MEDIAN, MEDIAN_LONG] {
        let (inside, error, half_width) = searches(&world, 100);
        println!("| {} | {inside} % | {:.1} % | {:.0} % |", world.name, 100.0 * error, 100.0 * half_width);
    }
}

/// A world in which plain bisection were as good would prove nothing.
#[test]
fn plain_bisection_is_fooled_by_stalls() {
    let by_hand = rms(&STALLING, (0..30).map(|seed| bisection(&mut Queue::new(seed, &STALLING))));
    let (_, error, _) = searches(&STALLING, 30);
    assert!(by_hand > 3.0 * error, "bisection {by_hand}, search {error}");
}

#[test]
fn targets_that_are_always_or_never_met_are_recognized() {
    let mut known = Threshold::between(20.0, 1250.0, ALLOWED).unwrap();
    let second = |ended: u64, late: u64| ProbeSecond { ended, late };
    let mut held = known.clone();
    for _ in 0..10 {
        let rate = known.next();
        known.see(rate, &judge(&[second(rate as u64, rate as u64); 2], rate, ALLOWED, 0.95).unwrap());
        let rate = held.next();
        held.see(rate, &judge(&[second(rate as u64, 0); 2], rate, ALLOWED, 0.95).unwrap());
    }
    assert!(known.below(20.0) > 0.5, "{:?}", known.estimate(0.95));
    assert!(held.below(1250.0) < 0.5, "{:?}", held.estimate(0.95));
    assert!(Threshold::between(0.0, 1.0, ALLOWED).is_none() && Threshold::between(1.0, 2.0, 1.0).is_none());
}

#[test]
fn probes_are_judged_by_their_late_share_and_by_what_piles_up() {
    let second = |ended: u64, late: u64| ProbeSecond { ended, late };
    let check = |seconds: &[ProbeSecond], missed: bool, surely: Option<bool>| {
        let judged = judge(seconds, 1000.0, ALLOWED, 0.95).unwrap();
        assert_eq!((judged.missed, judged.surely_missed), (missed, surely), "{seconds:?}: {judged:?}");
    };
    check(&[second(1000, 0), second(1000, 1)], false, Some(false));
    check(&[second(1000, 9), second(1000, 9)], false, None);
    check(&[second(1000, 30), second(1000, 31)], true, Some(true));
    // As many, but all at once: one fact, not forty.
    check(&[second(1000, 40), second(1000, 0)], true, None);
    check(&[second(800, 0), second(800, 0)], true, Some(true));
    check(&[second(0, 0), second(0, 0)], true, Some(true));
    assert!(judge(&[], 1000.0, ALLOWED, 0.95).is_none());
    // Wilson's interval of 10 of 100: R, `prop.test(10, 100, correct = FALSE)`.
    let tenth = judge(&[second(100, 10)], 100.0, ALLOWED, 0.95).unwrap().late;
    assert!((tenth.low - 0.05522914).abs() < 1e-6 && (tenth.high - 0.1743657).abs() < 1e-6, "{tenth:?}");
}
