//! The procedures of comparison against six synthetic worlds: how often they are wrong, and what they see.
//!
//! A world gives the logarithm of one run's throughput after the other; A and B are the same program, or B differs by a
//! known effect. The worlds are unkind on purpose: a comparison of blocks of runs must fail in them, which is tested,
//! or they would prove nothing about the one by pairs.

use stats::random::Random;
use stats::sample::bootstrap::Resampling;
use stats::*;

const EXPERIMENTS: u64 = 4000;
const PAIRS: usize = 10;
const MARGIN: f64 = 0.02;

/// Disturbances of runs, as shares of throughput.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct World {
    pub(crate) name: &'static str,
    /// Standard deviation between runs.
    noise: f64,
    /// Standard deviation of a level that forgets a tenth of itself from run to run.
    drift: f64,
    /// A neighbour that comes in one run of eight, stays for four on average, and takes up to this share.
    neighbour: f64,
    /// Chance of a run that loses 5 to 40 %.
    outliers: f64,
    /// What each run loses because of the runs before it.
    trend: f64,
}

pub(crate) const WORLDS: [World; 6] = [
    World { name: "quiet", noise: 0.004, drift: 0.0, neighbour: 0.0, outliers: 0.0, trend: 0.0 },
    World { name: "drift", noise: 0.007, drift: 0.03, neighbour: 0.0, outliers: 0.0, trend: 0.0 },
    World { name: "neighbour", noise: 0.007, drift: 0.0, neighbour: 0.12, outliers: 0.0, trend: 0.0 },
    World { name: "outliers", noise: 0.01, drift: 0.0, neighbour: 0.0, outliers: 0.06, trend: 0.0 },
    World { name: "trend", noise: 0.006, drift: 0.0, neighbour: 0.0, outliers: 0.0, trend: 0.008 },
    World { name: "all", noise: 0.007, drift: 0.02, neighbour: 0.08, outliers: 0.06, trend: 0.004 },
];

/// One run after the other in a world.
pub(crate) struct Runs {
    world: World,
    pub(crate) random: Random,
    n: usize,
    level: f64,
    neighbour: f64,
}

impl Runs {
    pub(crate) fn new(world: World, seed: u64) -> Runs {
        let mut random = Random::new(seed.wrapping_mul(0x2545_f491_4f6c_dd1d) ^ 0x5eed);
        let level = random.normal() * world.drift;
        let mut runs = Runs { world, random, n: 0, level, neighbour: 0.0 };
        // The neighbour may be there from the beginning.
        (0..20).for_each(|_| runs.step_neighbour());
        runs
    }

    /// The logarithm of the next run's throughput.
    pub(crate) fn next(&mut self) -> f64 {
        let world = self.world;
        self.level = 0.9 * self.level + self.random.normal() * world.drift * (1.0 - 0.81f64).sqrt();
        self.step_neighbour();
        let mut log = self.level + self.random.normal() * world.noise - world.trend * self.n as f64;
        log += (1.0 - self.neighbour).ln();
        if self.random.uniform() < world.outliers {
            log += (1.0 - 0.05 - 0.35 * self.random.uniform()).ln();
        }
        self.n += 1;
        log
    }

    fn step_neighbour(&mut self) {
        let chance = self.random.uniform();
        if self.neighbour == 0.0 && chance < 0.125 {
            self.neighbour = self.world.neighbour * self.random.uniform();
        } else if chance < 0.25 {
            self.neighbour = 0.0;
        }
    }

    /// B over A of the next pair, in random order.
    fn pair(&mut self, effect: f64) -> f64 {
        let is_b_first = self.random.bits() & 1 == 1;
        let (first, second) = (self.next(), self.next());
        effect + if is_b_first { first - second } else { second - first }
    }

    fn pairs(&mut self, n: usize, effect: f64) -> Vec<f64> {
        (0..n).map(|_| self.pair(effect)).collect()
    }
}

/// How a procedure fares over many experiments; shares of them.
#[derive(Debug, Default, Clone, Copy)]
struct Fares {
    /// The interval leaves out "no difference".
    different: f64,
    /// The interval leaves it out on the wrong side of a true effect.
    wrong_way: f64,
    /// The interval holds the true effect.
    covers: f64,
}

fn fares(effect: f64, estimates: impl Iterator<Item = Estimate>) -> Fares {
    let mut fares = Fares::default();
    let one = 1.0 / EXPERIMENTS as f64;
    for estimate in estimates {
        fares.different += if estimate.excludes(0.0) { one } else { 0.0 };
        let is_wrong = if effect > 0.0 { estimate.high < 0.0 } else { estimate.low > 0.0 };
        fares.wrong_way += if effect != 0.0 && is_wrong { one } else { 0.0 };
        fares.covers += if estimate.excludes(effect) { 0.0 } else { one };
    }
    fares
}

/// The product's comparison of so many pairs.
fn by_pairs(world: World, n_pairs: usize, effect: f64) -> Fares {
    let estimates = (0..EXPERIMENTS).map(|seed| {
        let logs = Runs::new(world, seed).pairs(n_pairs, effect);
        compare_pairs(&logs, MARGIN, Design::Fixed).expect("there are six pairs or more").ratio.map(f64::ln)
    });
    fares(effect, estimates)
}

/// The wrong way: all runs of A, then all runs of B, and Welch's t test.
fn by_blocks(world: World, n_each: usize) -> Fares {
    let estimates = (0..EXPERIMENTS).map(|seed| {
        let mut runs = Runs::new(world, seed);
        let mut block = || (0..n_each).map(|_| runs.next()).collect::<Vec<f64>>();
        welch(&block(), &block()).expect("blocks have two runs or more")
    });
    fares(0.0, estimates)
}

/// The interval of Welch's t test, "The Generalization of Student's Problem", 1947.
fn welch(a: &[f64], b: &[f64]) -> Option<Estimate> {
    let (of_a, of_b) = (sd(a)?.powi(2) / a.len() as f64, sd(b)?.powi(2) / b.len() as f64);
    let df_part = |part: f64, n: usize| part * part / (n as f64 - 1.0);
    let df = (of_a + of_b).powi(2) / (df_part(of_a, a.len()) + df_part(of_b, b.len()));
    let point = mean(b)? - mean(a)?;
    let half = student_t_quantile(0.975, df)? * (of_a + of_b).sqrt();
    Some(Estimate { point, low: point - half, high: point + half, level: 0.95 })
}

fn world(name: &str) -> World {
    *WORLDS.iter().find(|world| world.name == name).expect("it is in the list")
}

/// Pairs until the width is reached or the budget ends, and one test of them.
fn by_precision(world: World, half_width: f64, effect: f64) -> Fares {
    const BUDGET: usize = 36;
    let precision = Precision { half_width };
    let estimates = (0..EXPERIMENTS).map(|seed| {
        let mut runs = Runs::new(world, seed ^ 0xabc_def0);
        let mut logs = runs.pairs(PAIRS_MIN, effect);
        while logs.len() < BUDGET && !precision.is_reached(&logs) {
            logs.push(runs.pair(effect));
        }
        let comparison = compare_pairs(&logs, MARGIN, Design::Sequential);
        comparison.expect("there are six pairs or more").ratio.map(f64::ln)
    });
    fares(effect, estimates)
}

#[test]
fn identical_programs_are_rarely_called_different_in_any_world() {
    for world in WORLDS {
        let fares = by_pairs(world, PAIRS, 0.0);
        assert!(fares.different <= 0.06, "{}: {fares:?}", world.name);
        assert!(fares.covers >= 0.94, "{}: {fares:?}", world.name);
    }
}

#[test]
fn intervals_hold_the_true_effect_and_never_point_the_wrong_way() {
    for world in WORLDS {
        for effect in [0.02, -0.05] {
            let fares = by_pairs(world, PAIRS, effect);
            assert!(fares.covers >= 0.94, "{} {effect}: {fares:?}", world.name);
            assert!(fares.wrong_way <= 0.001, "{} {effect}: {fares:?}", world.name);
        }
    }
}

#[test]
fn true_effects_are_seen() {
    let check = |name: &str, n_pairs: usize, effect: f64, least: f64| {
        let fares = by_pairs(world(name), n_pairs, -effect);
        assert!(fares.different >= least, "{name}, {n_pairs} pairs, {effect}: {fares:?}");
    };
    check("quiet", 10, 0.01, 0.95);
    check("drift", 10, 0.02, 0.80);
    check("neighbour", 10, 0.05, 0.85);
    check("outliers", 10, 0.05, 0.60);
    check("outliers", 20, 0.05, 0.92);
}

#[test]
fn stopping_on_width_and_testing_once_keeps_the_error_rate() {
    for world in WORLDS {
        for half_width in [0.01, 0.005] {
            let fares = by_precision(world, half_width, 0.0);
            assert!(
                fares.different <= 0.06 && fares.covers >= 0.94,
                "{} {half_width}: {fares:?}",
                world.name
            );
        }
        let fares = by_precision(world, 0.01, 0.03);
        assert!(fares.covers >= 0.94 && fares.wrong_way <= 0.001, "{}: {fares:?}", world.name);
    }
}

#[test]
fn the_worlds_are_unkind_to_a_comparison_of_blocks() {
    let check = |name: &str, n_each: usize, least: f64| {
        let fares = by_blocks(world(name), n_each);
        assert!(fares.different >= least, "{name}, blocks of {n_each}: {fares:?}");
    };
    check("drift", 5, 0.15);
    check("drift", 10, 0.30);
    check("neighbour", 10, 0.15);
    check("trend", 5, 0.80);
    check("all", 5, 0.10);
    // Where nothing disturbs, it is right: the failures above are the worlds', not the test's.
    let quiet = by_blocks(WORLDS[0], 5);
    assert!(quiet.different <= 0.06, "{quiet:?}");
}

/// Seconds of a run that resemble their neighbours.
fn seconds(seed: u64, n: usize, phi: f64) -> Vec<f64> {
    let mut random = Random::new(seed ^ 0x00c0_ffee);
    let mut level = random.normal() / (1.0 - phi * phi).sqrt();
    let mut next = || {
        level = phi * level + random.normal();
        100.0 + level
    };
    (0..n).map(|_| next()).collect()
}

fn coverage(n: u64, truth: f64, estimate: impl Fn(u64) -> Estimate) -> f64 {
    (0..n).filter(|seed| !estimate(*seed).excludes(truth)).count() as f64 / n as f64
}

#[test]
fn intervals_of_autocorrelated_seconds_are_not_fooled() {
    let naive = coverage(1000, 100.0, |seed| mean_interval(&seconds(seed, 120, 0.6), 0.95).unwrap());
    assert!(naive < 0.75, "seconds taken for independent must fail here: {naive}");
    let batches =
        coverage(1000, 100.0, |seed| batch_means_interval(&seconds(seed, 120, 0.6), 10, 0.95).unwrap());
    assert!(batches > 0.91, "{batches}");
    let blocks = coverage(200, 100.0, |seed| {
        let series = seconds(seed, 120, 0.6);
        let how = Resampling { n: 400, seed };
        block_bootstrap(&series, block_length(&series), 0.95, how).unwrap()
    });
    assert!(blocks > 0.84, "{blocks}");
    let effective = mean(
        &(0..200).map(|seed| effective_sample_size(&seconds(seed, 400, 0.6)).unwrap()).collect::<Vec<f64>>(),
    );
    // n (1 - phi) / (1 + phi) = 100.
    assert!((80.0..130.0).contains(&effective.unwrap()), "{effective:?}");
}

#[test]
fn a_control_variate_narrows_the_interval_and_keeps_its_coverage() {
    let pairs = |seed: u64| {
        let mut random = Random::new(seed ^ 0xdead);
        let foreign: Vec<f64> = (0..12).map(|_| 0.1 * random.normal()).collect();
        let logs: Vec<f64> = foreign.iter().map(|x| 0.03 - 0.7 * x + 0.01 * random.normal()).collect();
        (logs, foreign)
    };
    let adjusted = |seed: u64| {
        let (logs, foreign) = pairs(seed);
        control_variate(&logs, &foreign, 0.95).unwrap().estimate
    };
    let covers = coverage(2000, 0.03, adjusted);
    assert!(covers >= 0.935, "{covers}");
    let plain = mean_interval(&pairs(1).0, 0.95).unwrap();
    assert!(adjusted(1).half_width() < 0.4 * plain.half_width());
}

/// Pairs with the difference of foreign CPU that goes with each, as shares of the machine: it shows the neighbour, and
/// is noise where nothing of the world comes from neighbours.
fn pairs_with_foreign(world: World, seed: u64, effect: f64) -> (Vec<f64>, Vec<f64>) {
    let mut runs = Runs::new(world, seed);
    let mut meter = Random::new(seed ^ 0x00f0_0d5e);
    let mut pair = || {
        let is_b_first = runs.random.bits() & 1 == 1;
        let mut run = || (runs.next(), runs.neighbour + 0.004 * meter.normal().abs());
        let (first, second) = (run(), run());
        let (a, b) = if is_b_first { (second, first) } else { (first, second) };
        (effect + b.0 - a.0, b.1 - a.1)
    };
    (0..PAIRS).map(|_| pair()).unzip()
}

#[test]
fn the_effect_of_foreign_cpu_can_be_subtracted_in_any_world() {
    // Always, and as the product shows it: where it narrows the interval, the plain one elsewhere.
    let always = |logs: &[f64], foreign: &[f64]| control_variate(logs, foreign, 0.95).unwrap().estimate;
    let shown = |logs: &[f64], foreign: &[f64]| match narrowed(logs, foreign, 0.95) {
        Some(adjusted) => adjusted.estimate,
        None => compare_pairs(logs, MARGIN, Design::Fixed).unwrap().ratio.map(f64::ln),
    };
    for world in WORLDS {
        for effect in [0.0, 0.03] {
            for (name, rule) in
                [("always", &always as &dyn Fn(&[f64], &[f64]) -> Estimate), ("shown", &shown)]
            {
                let estimates = (0..EXPERIMENTS).map(|seed| {
                    let (logs, foreign) = pairs_with_foreign(world, seed, effect);
                    rule(&logs, &foreign)
                });
                let fares = fares(effect, estimates);
                assert!(fares.covers >= 0.94, "{} {name} {effect}: {fares:?}", world.name);
                assert!(effect != 0.0 || fares.different <= 0.06, "{} {name}: {fares:?}", world.name);
            }
        }
    }
    // It is worth it where a neighbour disturbs, and shown by chance only where none does.
    let seen = |name: &str| {
        let is_shown = |seed: &u64| {
            let (logs, foreign) = pairs_with_foreign(world(name), *seed, 0.0);
            narrowed(&logs, &foreign, 0.95).is_some()
        };
        (0..EXPERIMENTS).filter(is_shown).count() as f64 / EXPERIMENTS as f64
    };
    assert!(seen("neighbour") > 0.4 && seen("quiet") < 0.015, "{} {}", seen("neighbour"), seen("quiet"));
}

#[test]
fn steady_histories_have_no_change_points() {
    let found = |seed: u64| {
        let mut random = Random::new(seed ^ 0xbeef);
        let series: Vec<f64> = (0..40).map(|_| 100.0 + 3.0 * random.normal()).collect();
        !change_points(&series, ChangeRule::default()).is_empty()
    };
    let false_alarms = (0..500).filter(|seed| found(*seed)).count();
    assert!(false_alarms <= 25, "{false_alarms} of 500");
}
