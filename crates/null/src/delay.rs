//! Programmed service times.

use std::str::FromStr;

use workload::Prng;

/// How long a statement takes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum ServiceTime {
    /// Answers leave at once.
    Instant,
    /// Always this long, in nanoseconds.
    Fixed(u64),
    /// Uniformly distributed over the logarithm between the two, in nanoseconds.
    LogUniform(u64, u64),
    /// Exponentially distributed with this mean, in nanoseconds.
    Exponential(u64),
    /// One of two times.
    Bimodal {
        /// The usual time, in nanoseconds.
        usual: u64,
        /// The rare time, in nanoseconds.
        rare: u64,
        /// Share of rare times, 0 to 1.
        share: f64,
    },
}

impl ServiceTime {
    /// The next service time, in nanoseconds.
    pub fn draw(self, prng: &mut Prng) -> u64 {
        match self {
            ServiceTime::Instant => 0,
            ServiceTime::Fixed(ns) => ns,
            ServiceTime::LogUniform(low, high) => {
                let (low, high) = ((low as f64).ln(), (high as f64).ln());
                (low + (high - low) * prng.double()).exp() as u64
            }
            // Inversion (Devroye 1986, II.2); `double` is below 1, so the logarithm is finite.
            ServiceTime::Exponential(mean) => (-(1.0 - prng.double()).ln() * mean as f64) as u64,
            ServiceTime::Bimodal { usual, rare, share } => {
                if prng.double() < share {
                    rare
                } else {
                    usual
                }
            }
        }
    }
}

impl FromStr for ServiceTime {
    type Err = String;

    /// `0`, `200us`, `5ms`, a range `50us..50ms`, a mean `exp:2ms`, or two times `1ms,20ms@5%`.
    fn from_str(text: &str) -> Result<ServiceTime, String> {
        if text == "0" {
            return Ok(ServiceTime::Instant);
        }
        if let Some(mean) = text.strip_prefix("exp:") {
            return Ok(ServiceTime::Exponential(nanoseconds(mean)?));
        }
        if let Some((usual, rare)) = text.split_once(',') {
            return bimodal(usual, rare)
                .ok_or_else(|| format!("`{text}` is not two service times; example: 1ms,20ms@5%"));
        }
        match text.split_once("..") {
            None => Ok(ServiceTime::Fixed(nanoseconds(text)?)),
            Some((low, high)) => match (nanoseconds(low)?, nanoseconds(high)?) {
                (low, high) if 0 < low && low < high => Ok(ServiceTime::LogUniform(low, high)),
                _ => Err(format!(
                    "`{text}`: the lower bound must be above 0, and the upper bound above the lower"
                )),
            },
        }
    }
}

/// A time without any answer, counted from the first statement; what came meanwhile is answered at its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Silence {
    /// When it begins, nanoseconds after the first statement.
    pub from_ns: u64,
    /// When it ends.
    pub to_ns: u64,
}

impl Silence {
    /// When an answer leaves that is due at `due_ns`, both counted from the first statement.
    pub(crate) fn end_of(self, due_ns: u64) -> u64 {
        if (self.from_ns..self.to_ns).contains(&due_ns) { self.to_ns } else { due_ns }
    }
}

impl FromStr for Silence {
    type Err = String;

    /// `2s..4s`.
    fn from_str(text: &str) -> Result<Silence, String> {
        let refused = || format!("`{text}` is no time of silence; example: 2s..4s");
        let (from, to) = text.split_once("..").ok_or_else(refused)?;
        match (nanoseconds(from)?, nanoseconds(to)?) {
            (from_ns, to_ns) if from_ns < to_ns => Ok(Silence { from_ns, to_ns }),
            _ => Err(refused()),
        }
    }
}

/// `1ms` and `20ms@5%`.
fn bimodal(usual: &str, rare: &str) -> Option<ServiceTime> {
    let (rare, percent) = rare.strip_suffix('%')?.split_once('@')?;
    let share = percent.parse::<f64>().ok().filter(|percent| (0.0..=100.0).contains(percent))? / 100.0;
    Some(ServiceTime::Bimodal { usual: nanoseconds(usual).ok()?, rare: nanoseconds(rare).ok()?, share })
}

fn nanoseconds(text: &str) -> Result<u64, String> {
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let unit = match &text[digits..] {
        "us" => 1_000,
        "ms" => 1_000_000,
        "s" => 1_000_000_000,
        _ => {
            return Err(format!(
                "`{text}` is not a service time; examples: 0, 200us, 50us..50ms, exp:2ms, 1ms,20ms@5%"
            ));
        }
    };
    let n: u64 = text[..digits].parse().map_err(|_| format!("`{text}` is not a service time"))?;
    n.checked_mul(unit)
        .filter(|&ns| ns <= 60_000_000_000)
        .ok_or_else(|| format!("`{text}` is longer than a minute"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn service_times_are_read_with_their_units() {
        let check = |text: &str, expected: Result<ServiceTime, ()>| {
            assert_eq!(text.parse::<ServiceTime>().map_err(drop), expected, "{text}");
        };
        check("0", Ok(ServiceTime::Instant));
        check("200us", Ok(ServiceTime::Fixed(200_000)));
        check("50us..50ms", Ok(ServiceTime::LogUniform(50_000, 50_000_000)));
        check("exp:2ms", Ok(ServiceTime::Exponential(2_000_000)));
        let bimodal = ServiceTime::Bimodal { usual: 1_000_000, rare: 20_000_000, share: 0.05 };
        check("1ms,20ms@5%", Ok(bimodal));
        check("1ms,20ms@105%", Err(()));
        check("1ms,20ms", Err(()));
        check("exp:", Err(()));
        check("50ms..50us", Err(()));
        check("5", Err(()));
        check("ms", Err(()));
        check("99999s", Err(()));
    }

    #[test]
    fn what_falls_into_a_silence_is_answered_at_its_end() {
        let silence = "2s..4s".parse::<Silence>().unwrap();
        for (due_s, left_s) in [(0, 0), (1, 1), (2, 4), (3, 4), (4, 4), (5, 5)] {
            assert_eq!(silence.end_of(due_s * 1_000_000_000), left_s * 1_000_000_000, "{due_s} s");
        }
        for text in ["", "2s", "4s..2s", "2s..2s", "2..4"] {
            assert!(text.parse::<Silence>().is_err(), "{text}");
        }
    }

    #[test]
    fn draws_stay_in_their_range() {
        let mut prng = Prng::seed(1);
        let time = ServiceTime::LogUniform(50_000, 50_000_000);
        let draws: Vec<u64> = (0..1000).map(|_| time.draw(&mut prng)).collect();
        assert!(draws.iter().all(|ns| (49_999..=50_000_000).contains(ns)));
        let below_middle = draws.iter().filter(|&&ns| ns < 1_581_139).count();
        assert!((400..600).contains(&below_middle), "half are below the geometric mean: {below_middle}");
    }

    #[test]
    fn draws_have_the_distribution_that_was_asked_for() {
        // With 10,000 draws a share is within 0.02 of its value in all but one of 10,000 seeds.
        let share_below = |time: ServiceTime, limit: u64| {
            let mut prng = Prng::seed(7);
            (0..10_000).filter(|_| time.draw(&mut prng) < limit).count() as f64 / 10_000.0
        };
        let check = |time: &str, limit: u64, expected: f64| {
            let share = share_below(time.parse().unwrap(), limit);
            assert!((share - expected).abs() < 0.02, "{time}: {share} below {limit}");
        };
        check("exp:2ms", 2_000_000, 1.0 - (-1.0f64).exp());
        check("exp:2ms", 6_000_000, 1.0 - (-3.0f64).exp());
        check("1ms,20ms@5%", 1_000_001, 0.95);
        check("1ms,20ms@5%", 20_000_000, 0.95);
    }
}
