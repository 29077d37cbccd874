//! Times in logs: `2026-11-29 19:34:40.613 UTC`, ISO 8601, syslog's `Nov 29 19:34:40`, and seconds since 1970.

use crate::value::times::{civil_from_days, days_from_civil};

/// Microseconds of a day.
const DAY_US: i64 = 86_400_000_000;

/// A time in a log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct LogTime {
    /// Microseconds since 1970 UTC.
    pub(crate) us: i64,
    /// Whether the log writes no fraction.
    pub(crate) is_whole: bool,
    /// Whether the zone's abbreviation is none that we know, so that UTC was assumed.
    pub(crate) is_zone_unknown: bool,
}

/// Offsets in minutes of the abbreviations that `log_timezone` can write. Those with several meanings have the most common one.
const ZONES: &[(&str, i32)] = &[
    ("UTC", 0),
    ("GMT", 0),
    ("Z", 0),
    ("UCT", 0),
    ("WET", 0),
    ("WEST", 60),
    ("BST", 60),
    ("CET", 60),
    ("MET", 60),
    ("WAT", 60),
    ("CEST", 120),
    ("MEST", 120),
    ("EET", 120),
    ("SAST", 120),
    ("CAT", 120),
    ("EEST", 180),
    ("MSK", 180),
    ("EAT", 180),
    ("IDT", 180),
    ("MSD", 240),
    ("PKT", 300),
    ("IST", 330),
    ("WIB", 420),
    ("HKT", 480),
    ("SGT", 480),
    ("AWST", 480),
    ("JST", 540),
    ("KST", 540),
    ("ACST", 570),
    ("AEST", 600),
    ("ACDT", 630),
    ("AEDT", 660),
    ("NZST", 720),
    ("NZDT", 780),
    ("NDT", -150),
    ("ADT", -180),
    ("BRT", -180),
    ("NST", -210),
    ("AST", -240),
    ("EDT", -240),
    ("EST", -300),
    ("CDT", -300),
    ("CST", -360),
    ("MDT", -360),
    ("MST", -420),
    ("PDT", -420),
    ("PST", -480),
    ("AKDT", -480),
    ("AKST", -540),
    ("HDT", -540),
    ("HST", -600),
];

/// Months as syslog names them.
const MONTHS: [&[u8; 3]; 12] =
    [b"Jan", b"Feb", b"Mar", b"Apr", b"May", b"Jun", b"Jul", b"Aug", b"Sep", b"Oct", b"Nov", b"Dec"];

/// `2026-11-29 19:34:40[.613] ZONE` or the same with `T`, at the beginning of `bytes`; returns how many bytes it has, the zone included.
pub(crate) fn stamp(bytes: &[u8]) -> Option<(LogTime, usize)> {
    let (us, is_whole, n) = without_zone(bytes)?;
    let is_iso = bytes[10] == b'T';
    let begins = |byte: &u8| byte.is_ascii_alphabetic() || matches!(byte, b'+' | b'-');
    let n = if bytes.get(n) == Some(&b' ') && bytes.get(n + 1).is_some_and(begins) { n + 1 } else { n };
    let zone_length = zone_length(&bytes[n..], is_iso);
    let zone = zone(&bytes[n..n + zone_length]);
    let offset_us = i64::from(zone.unwrap_or(0)) * 60_000_000;
    let is_zone_unknown = zone.is_none();
    Some((LogTime { us: us - offset_us, is_whole, is_zone_unknown }, n + zone_length))
}

/// Length of a zone: letters, or a sign and digits. A colon within it is ISO's alone: `%t:` is followed by one.
fn zone_length(bytes: &[u8], is_iso: bool) -> usize {
    match bytes {
        [b'+' | b'-', digit, ..] if digit.is_ascii_digit() => {
            1 + bytes[1..]
                .iter()
                .take(5)
                .take_while(|b| b.is_ascii_digit() || (is_iso && **b == b':'))
                .count()
        }
        [letter, ..] if letter.is_ascii_alphabetic() => {
            bytes.iter().take(8).take_while(|byte| byte.is_ascii_alphabetic()).count()
        }
        _ => 0,
    }
}

/// A date and time: microseconds as if in UTC, whether without fraction, and its length.
pub(crate) fn without_zone(bytes: &[u8]) -> Option<(i64, bool, usize)> {
    let fixed = bytes.get(..19)?;
    let is_shaped = fixed[4] == b'-'
        && fixed[7] == b'-'
        && matches!(fixed[10], b' ' | b'T')
        && fixed[13] == b':'
        && fixed[16] == b':';
    if !is_shaped {
        return None;
    }
    let day = day_number(number(&fixed[..4])?, number(&fixed[5..7])?, number(&fixed[8..10])?)?;
    let second = clock(&fixed[11..19])?;
    let us = day * DAY_US + second * 1_000_000;
    if bytes.get(19) != Some(&b'.') {
        return Some((us, true, 19));
    }
    let digits = bytes[20..].iter().take(9).take_while(|b| b.is_ascii_digit()).count();
    let fraction = fraction_us(&bytes[20..20 + digits])?;
    Some((us + fraction, false, 20 + digits))
}

/// `19:34:40` as seconds.
fn clock(bytes: &[u8]) -> Option<i64> {
    let (hour, minute, second) = (number(&bytes[..2])?, number(&bytes[3..5])?, number(&bytes[6..8])?);
    (hour < 24 && minute < 60 && second < 61).then_some(hour * 3600 + minute * 60 + second)
}

/// Digits after the point, as microseconds.
fn fraction_us(digits: &[u8]) -> Option<i64> {
    let first = &digits[..digits.len().min(6)];
    if first.is_empty() {
        return None;
    }
    let scale = 10_i64.pow(6 - first.len() as u32);
    Some(number(first)? * scale)
}

/// Minutes east of UTC of `UTC`, `CET`, `+01`, `-0330`, `+05:30`; nothing at all is UTC.
fn zone(bytes: &[u8]) -> Option<i32> {
    match bytes {
        [] => Some(0),
        [sign @ (b'+' | b'-'), digits @ ..] => {
            let digits: Vec<u8> = digits.iter().copied().filter(u8::is_ascii_digit).collect();
            let minutes = match digits.len() {
                1 | 2 => number(&digits)? * 60,
                4 => number(&digits[..2])? * 60 + number(&digits[2..])?,
                _ => return None,
            };
            let minutes = i32::try_from(minutes).ok()?;
            Some(if *sign == b'-' { -minutes } else { minutes })
        }
        name => ZONES.iter().find(|(known, _)| known.as_bytes() == name).map(|(_, minutes)| *minutes),
    }
}

/// `Nov 29 19:34:40` of syslog, whose year is the latest in which it is not after `newest_us`; returns its length too.
pub(crate) fn syslog_stamp(bytes: &[u8], newest_us: i64) -> Option<(LogTime, usize)> {
    let fixed = bytes.get(..15)?;
    let month = MONTHS.iter().position(|name| *name == &fixed[..3])? as i64 + 1;
    if fixed[3] != b' ' || fixed[6] != b' ' || fixed[9] != b':' || fixed[12] != b':' {
        return None;
    }
    let day = if fixed[4] == b' ' { number(&fixed[5..6])? } else { number(&fixed[4..6])? };
    let second = clock(&fixed[7..15])?;
    let (newest_year, ..) = civil_from_days(newest_us.div_euclid(DAY_US));
    // The 29th of February may need four years, or eight at the turn of some centuries.
    let us = (0..9).find_map(|back| {
        let us = day_number(newest_year - back, month, day)? * DAY_US + second * 1_000_000;
        (us <= newest_us).then_some(us)
    })?;
    Some((LogTime { us, is_whole: true, is_zone_unknown: false }, 15))
}

/// `1700000000.123` of `%n`; returns its length too.
pub(crate) fn unix_stamp(bytes: &[u8]) -> Option<(LogTime, usize)> {
    let whole = bytes.iter().take(12).take_while(|b| b.is_ascii_digit()).count();
    let second = number(&bytes[..whole])?;
    if whole == 0 || bytes.get(whole) != Some(&b'.') {
        return None;
    }
    let digits = bytes[whole + 1..].iter().take(9).take_while(|b| b.is_ascii_digit()).count();
    let us = second * 1_000_000 + fraction_us(&bytes[whole + 1..whole + 1 + digits])?;
    Some((LogTime { us, is_whole: false, is_zone_unknown: false }, whole + 1 + digits))
}

/// A number of decimal digits alone.
pub(crate) fn number(bytes: &[u8]) -> Option<i64> {
    if bytes.is_empty() {
        return None;
    }
    bytes.iter().try_fold(0_i64, |sum, byte| {
        let digit = i64::from(byte.checked_sub(b'0').filter(|digit| *digit <= 9)?);
        sum.checked_mul(10)?.checked_add(digit)
    })
}

/// The same, of 32 bits.
pub(crate) fn number_u32(bytes: &[u8]) -> Option<u32> {
    u32::try_from(number(bytes)?).ok()
}

/// Days since 1970 of a day that the Gregorian calendar has.
fn day_number(year: i64, month: i64, day: i64) -> Option<i64> {
    let is_leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    let length = match month {
        2 => 28 + i64::from(is_leap),
        4 | 6 | 9 | 11 => 30,
        1..=12 => 31,
        _ => return None,
    };
    (1..=length).contains(&day).then(|| days_from_civil(year, month, day))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read_in_all_their_forms() {
        let check = |text: &str, us: i64, is_whole: bool, length: usize| {
            let (time, n) = stamp(text.as_bytes()).unwrap_or_else(|| panic!("{text}"));
            assert_eq!((time.us, time.is_whole, n), (us, is_whole, length), "{text}");
        };
        check("1970-01-01 00:00:00 UTC", 0, true, 23);
        check("2026-11-29 19:34:40.613 UTC [1]", 1_795_980_880_613_000, false, 27);
        check("2021-02-14 01:34:02 CET x", 1_613_262_842_000_000, true, 23);
        check("2021-02-14 01:34:02 +01 x", 1_613_262_842_000_000, true, 23);
        check("2021-02-14T01:34:02.5+01:00 x", 1_613_262_842_500_000, false, 27);
        check("2021-02-14 06:04:02 +0530", 1_613_262_842_000_000, true, 25);
        check("2000-02-29 00:00:00", 951_782_400_000_000, true, 19);
        check("2022-11-27T18:58:02.096123456Z", 1_669_575_482_096_123, false, 30);
        assert!(stamp(b"2021-02-14 01:34:02 XYZ").unwrap().0.is_zone_unknown);
        for bad in ["2021-02-30 00:00:00 UTC", "2021-13-01 00:00:00", "2021-02-14 25:00:00", "20210214", ""] {
            assert!(stamp(bad.as_bytes()).is_none(), "{bad}");
        }
    }

    #[test]
    fn a_date_without_a_year_is_the_latest_possible_one() {
        let newest = stamp(b"2026-01-10 00:00:00 UTC").unwrap().0.us;
        let check = |text: &str, expected: &str| {
            let (time, _) = syslog_stamp(text.as_bytes(), newest).unwrap_or_else(|| panic!("{text}"));
            assert_eq!(time.us, stamp(expected.as_bytes()).unwrap().0.us, "{text}");
        };
        check("Jan  9 13:15:39 host", "2026-01-09 13:15:39 UTC");
        check("Feb 11 13:15:39 host", "2025-02-11 13:15:39 UTC");
        check("Feb 29 00:00:00 host", "2024-02-29 00:00:00 UTC");
        assert!(syslog_stamp(b"Foo 11 13:15:39 host", newest).is_none());
    }

    #[test]
    fn seconds_since_1970_are_read() {
        assert_eq!(unix_stamp(b"1669575482.096 x").unwrap().0.us, 1_669_575_482_096_000);
        assert!(unix_stamp(b"1669575482 x").is_none());
    }
}
