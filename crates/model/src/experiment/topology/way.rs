//! The way between a standby and its primary: how long a round trip takes, and how much passes.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use serde::de::{self, Deserializer, Visitor};
use serde::{Deserialize, Serialize, Serializer};

use crate::text::units::{plain, serde_by_text, size_bytes};

/// Longest round trip, microseconds. Our convention: around the Earth and back by satellites takes less than 2 s.
const ROUND_TRIP_US_MAX: f64 = 10e6;
/// Lowest rate, bytes per second. Our convention: a standby would need more than four minutes for the first segment of WAL.
const BYTES_PER_S_MIN: u64 = 64 << 10;
/// Highest rate, bytes per second: no relay is that fast.
const BYTES_PER_S_MAX: u64 = 1 << 40;

/// Time of a round trip: `10ms`, `500us`, `1s`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct RoundTrip {
    us: u64,
}

impl RoundTrip {
    /// A round trip that takes no time of its own.
    pub const ZERO: RoundTrip = RoundTrip { us: 0 };

    /// The time.
    pub fn duration(self) -> Duration {
        Duration::from_micros(self.us)
    }
}

impl FromStr for RoundTrip {
    type Err = String;

    fn from_str(text: &str) -> Result<RoundTrip, String> {
        let text = text.trim();
        let wrong = || format!("`{text}` is not the time of a round trip; examples: 10ms, 0.5ms, 500us, 0ms");
        let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
        let (number, unit) = text.split_at(end);
        let number = plain(number).ok_or_else(wrong)?;
        let unit_us = match unit.trim() {
            "us" | "µs" => 1.0,
            "ms" => 1e3,
            "s" => 1e6,
            // Nothing is as long in every unit.
            "" if number == 0.0 => 0.0,
            _ => return Err(wrong()),
        };
        let us = number * unit_us;
        if us > ROUND_TRIP_US_MAX {
            return Err(format!("`{text}` is longer than the longest round trip, 10s"));
        }
        Ok(RoundTrip { us: us.round() as u64 })
    }
}

impl fmt::Display for RoundTrip {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match self.us {
            0 => f.write_str("0ms"),
            us if us % 1_000_000 == 0 => write!(f, "{}s", us / 1_000_000),
            us if us % 1000 == 0 => write!(f, "{}ms", us / 1000),
            us => write!(f, "{us}us"),
        }
    }
}

/// Bytes per second, with units as in postgresql.conf: `10MB/s`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct ByteRate {
    bytes_per_s: u64,
}

impl ByteRate {
    /// The rate, bytes per second, above 0.
    pub fn bytes_per_s(self) -> u64 {
        self.bytes_per_s
    }
}

impl FromStr for ByteRate {
    type Err = String;

    fn from_str(text: &str) -> Result<ByteRate, String> {
        let text = text.trim();
        let size = text
            .strip_suffix("/s")
            .map(str::trim_end)
            .filter(|size| !size.ends_with(|c: char| c.is_ascii_digit()));
        let bytes_per_s = size.and_then(|size| size_bytes(size, 1)).ok_or_else(|| {
            format!("`{text}` is not a rate in bytes per second; examples: 10MB/s, 512kB/s, 1.25GB/s")
        })?;
        if !(BYTES_PER_S_MIN..=BYTES_PER_S_MAX).contains(&bytes_per_s) {
            return Err(format!(
                "`{text}` is not in 64kB/s..1TB/s; leave it out for as much as the machine copies"
            ));
        }
        Ok(ByteRate { bytes_per_s })
    }
}

impl fmt::Display for ByteRate {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        let units = [("TB", 1 << 40), ("GB", 1 << 30), ("MB", 1 << 20), ("kB", 1 << 10), ("B", 1)];
        let whole = units.into_iter().find(|(_, bytes)| self.bytes_per_s.is_multiple_of(*bytes));
        let (unit, bytes) = whole.unwrap_or(("B", 1));
        write!(f, "{}{unit}/s", self.bytes_per_s / bytes)
    }
}

serde_by_text!(
    RoundTrip,
    "the time of a round trip such as \"10ms\"",
    |n| match n {
        0 => Ok(RoundTrip::ZERO),
        n => Err(format!("{n} needs a unit: write \"{n}ms\"")),
    },
    |x| Err(format!("{x} needs a unit: write \"{x}ms\"")),
    |_| Err("expected the time of a round trip such as \"10ms\"".into())
);
serde_by_text!(
    ByteRate,
    "a rate such as \"10MB/s\"",
    |n| Err(format!("{n} needs a unit: write \"{n}MB/s\"")),
    |x| Err(format!("{x} needs a unit: write \"{x}MB/s\"")),
    |_| Err("expected a rate such as \"10MB/s\"".into())
);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn round_trips_are_read_as_they_are_written() {
        for (text, us, written) in [
            ("10ms", 10_000, "10ms"),
            ("0.5ms", 500, "500us"),
            ("500 us", 500, "500us"),
            ("1.5s", 1_500_000, "1500ms"),
            ("2s", 2_000_000, "2s"),
            ("0", 0, "0ms"),
            ("0s", 0, "0ms"),
        ] {
            let round_trip: RoundTrip = text.parse().unwrap();
            assert_eq!((round_trip.us, round_trip.to_string().as_str()), (us, written), "{text}");
            assert_eq!(written.parse(), Ok(round_trip));
        }
        for text in ["", "10", "-1ms", "ms", "1min", "11s", "1.2.3ms", "10msx"] {
            assert!(text.parse::<RoundTrip>().is_err(), "{text}");
        }
    }

    #[test]
    fn rates_are_read_as_they_are_written() {
        for (text, bytes_per_s, written) in [
            ("10MB/s", 10 << 20, "10MB/s"),
            ("1.5 GB/s", 3 << 29, "1536MB/s"),
            ("1000000B/s", 1_000_000, "1000000B/s"),
            ("131072B/s", 128 << 10, "128kB/s"),
        ] {
            let rate: ByteRate = text.parse().unwrap();
            assert_eq!((rate.bytes_per_s(), rate.to_string().as_str()), (bytes_per_s, written), "{text}");
            assert_eq!(written.parse(), Ok(rate));
        }
        for text in ["", "10MB", "10/s", "0MB/s", "63kB/s", "2TB/s", "10Mbit/s", "-1MB/s"] {
            assert!(text.parse::<ByteRate>().is_err(), "{text}");
        }
    }
}
