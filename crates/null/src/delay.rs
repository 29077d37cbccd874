//! Programmed service times.

use std::str::FromStr;

use workload::Prng;

/// How long a statement takes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum ServiceTime {
    /// No time.
    Instant,
    /// Always this long, nanoseconds.
    Fixed(u64),
    /// Evenly distributed over the logarithm between the two, nanoseconds.
    LogUniform(u64, u64),
}

impl ServiceTime {
    /// The next service time, nanoseconds.
    pub fn draw(self, prng: &mut Prng) -> u64 {
        match self {
            ServiceTime::Instant => 0,
            ServiceTime::Fixed(ns) => ns,
            ServiceTime::LogUniform(low, high) => {
                let (low, high) = ((low as f64).ln(), (high as f64).ln());
                (low + (high - low) * prng.double()).exp() as u64
            }
        }
    }
}

impl FromStr for ServiceTime {
    type Err = String;

    /// `0`, `200us`, `5ms`, or a range: `50us..50ms`.
    fn from_str(text: &str) -> Result<ServiceTime, String> {
        if text == "0" {
            return Ok(ServiceTime::Instant);
        }
        match text.split_once("..") {
            None => Ok(ServiceTime::Fixed(nanoseconds(text)?)),
            Some((low, high)) => match (nanoseconds(low)?, nanoseconds(high)?) {
                (low, high) if 0 < low && low < high => Ok(ServiceTime::LogUniform(low, high)),
                _ => Err(format!("`{text}`: the range must begin above 0 and end above its beginning")),
            },
        }
    }
}

fn nanoseconds(text: &str) -> Result<u64, String> {
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let unit = match &text[digits..] {
        "us" => 1_000,
        "ms" => 1_000_000,
        "s" => 1_000_000_000,
        _ => return Err(format!("`{text}` is not a service time; examples: 0, 200us, 50us..50ms")),
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
        check("50ms..50us", Err(()));
        check("5", Err(()));
        check("ms", Err(()));
        check("99999s", Err(()));
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
}
