//! Numbers in readable form: grouped digits, three significant digits for times, units with a space.

use jiff::Timestamp;
use jiff::tz::TimeZone;
use model::text::prose::grouped;
pub(crate) use model::text::prose::{bytes, percent, significant};

/// A whole number with its digits grouped: `1,234,567`.
pub(crate) fn count(n: u64) -> String {
    grouped(&n.to_string())
}

/// Transactions per second: whole from 100 on, three significant digits below.
pub(crate) fn tps(x: f64) -> String {
    if x.abs() >= 100.0 { grouped(&format!("{x:.0}")) } else { significant(x) }
}

/// Nanoseconds as milliseconds, without the unit.
pub(crate) fn ms(ns: f64) -> String {
    significant(ns / 1e6)
}

/// A change as a percentage with its sign and one decimal, two below 1 %: `+4.1 %`.
pub(crate) fn signed(share: f64) -> String {
    let percent = 100.0 * share;
    if percent.abs() < 0.995 { format!("{percent:+.2} %") } else { format!("{percent:+.1} %") }
}

/// Seconds: one decimal below 100, whole above.
pub(crate) fn seconds(s: f64) -> String {
    if s.abs() < 99.95 { format!("{s:.1}") } else { grouped(&format!("{s:.0}")) }
}

/// A time as `2026-11-20 11:49 UTC`.
pub(crate) fn utc(unix_ns: u64) -> String {
    match Timestamp::from_nanosecond(i128::from(unix_ns)) {
        Ok(moment) => moment.to_zoned(TimeZone::UTC).strftime("%Y-%m-%d %H:%M UTC").to_string(),
        Err(_) => format!("{unix_ns} ns after 1970"),
    }
}

/// A time for machines and spreadsheets: `2026-11-20T11:49:03.125Z`.
pub(crate) fn instant(unix_ns: u64) -> String {
    match Timestamp::from_nanosecond(i128::from(unix_ns)) {
        Ok(moment) => moment.to_zoned(TimeZone::UTC).strftime("%Y-%m-%dT%H:%M:%S%.3fZ").to_string(),
        Err(_) => String::new(),
    }
}

/// A plain ratio, as instructions per cycle: `0.75`.
pub(crate) fn ratio(x: f64) -> String {
    format!("{x:.2}")
}

/// An amount of money, with at most four significant digits below a thousand: `0.5`, `0.09259`, `1,208`.
pub(crate) fn price(amount: f64) -> String {
    if amount >= 1000.0 {
        return tps(amount);
    }
    let digits = 3 - amount.abs().max(1e-12).log10().floor() as i32;
    let text = format!("{amount:.*}", digits.clamp(0, 12) as usize);
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').to_string() } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_are_what_people_write() {
        for (amount, expected) in
            [(0.5, "0.5"), (0.092_592, "0.09259"), (365.0, "365"), (1208.15, "1,208"), (20.0, "20")]
        {
            assert_eq!(price(amount), expected);
        }
        assert_eq!(count(1_234_567), "1,234,567");
        assert_eq!(tps(4811.7), "4,812");
        assert_eq!(tps(99.5), "99.5");
        assert_eq!(percent(0.0123), "1.2 %");
        assert_eq!(percent(0.1416), "14 %");
        assert_eq!(bytes(16_777_216.0), "16.0 MiB");
        assert_eq!(bytes(512.0), "512 B");
        assert_eq!(seconds(59.96), "60.0");
        assert_eq!(seconds(1800.2), "1,800");
        assert_eq!(utc(1_795_175_340_000_000_000), "2026-11-20 11:49 UTC");
        assert_eq!(ms(3_400_000.0), "3.40");
    }
}
