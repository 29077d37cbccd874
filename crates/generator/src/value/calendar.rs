//! Days and microseconds since 1970-01-01 in the Gregorian calendar, from text, and to PostgreSQL's text.
//!
//! Years 1 to 9999: what is written has four digits of a year, and no era.

use super::text::{push_padded, push_pair};

/// Microseconds of a day.
pub(crate) const DAY_US: i64 = 86_400_000_000;
/// 0001-01-01.
pub(crate) const DATE_MIN: i64 = -719_162;
/// 9999-12-31.
pub(crate) const DATE_MAX: i64 = 2_932_896;
/// The first microsecond of 0001-01-01.
pub(crate) const TIMESTAMP_MIN: i64 = DATE_MIN * DAY_US;
/// The last microsecond of 9999-12-31.
pub(crate) const TIMESTAMP_MAX: i64 = (DATE_MAX + 1) * DAY_US - 1;

/// Days since 1970-01-01 of a day that exists.
pub(crate) fn days_from_date(year: i64, month: i64, day: i64) -> Option<i64> {
    if !(1..=9999).contains(&year)
        || !(1..=12).contains(&month)
        || day < 1
        || day > days_of_month(year, month)
    {
        return None;
    }
    // Howard Hinnant, "chrono-compatible low-level date algorithms": years begin in March.
    let shifted = if month <= 2 { year - 1 } else { year };
    let era = shifted.div_euclid(400);
    let year_of_era = shifted.rem_euclid(400);
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    Some(era * 146_097 + day_of_era - 719_468)
}

/// Year, month and day of a number of days since 1970-01-01.
pub(crate) fn date_from_days(days: i64) -> (i64, i64, i64) {
    let days = days + 719_468;
    let era = days.div_euclid(146_097);
    let day_of_era = days.rem_euclid(146_097);
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted_month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted_month + 2) / 5 + 1;
    let month = if shifted_month < 10 { shifted_month + 3 } else { shifted_month - 9 };
    (year_of_era + era * 400 + i64::from(month <= 2), month, day)
}

fn days_of_month(year: i64, month: i64) -> i64 {
    match month {
        2 if year % 4 == 0 && (year % 100 != 0 || year % 400 == 0) => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

/// Days of `YYYY-MM-DD`.
pub(crate) fn parse_date(text: &str) -> Option<i64> {
    let mut parts = text.split('-').map(number);
    let year = parts.next()??;
    let month = parts.next()??;
    let day = parts.next()??;
    if parts.next().is_some() {
        return None;
    }
    days_from_date(year, month, day)
}

/// Microseconds of `YYYY-MM-DD`, optionally followed by ` HH:MM`, `:SS` and `.ffffff`.
pub(crate) fn parse_timestamp(text: &str) -> Option<i64> {
    let Some((date, time)) = text.split_once([' ', 'T']) else { return Some(parse_date(text)? * DAY_US) };
    let (time, fraction) = time.split_once('.').unwrap_or((time, "0"));
    if fraction.len() > 6 {
        return None;
    }
    let fraction = number(fraction)? * 10i64.pow(6 - fraction.len() as u32);
    let mut parts = time.split(':').map(number);
    let hour = parts.next()??;
    let minute = parts.next()??;
    let second = parts.next().unwrap_or(Some(0))?;
    if parts.next().is_some() || hour > 23 || minute > 59 || second > 59 {
        return None;
    }
    Some(parse_date(date)? * DAY_US + ((hour * 60 + minute) * 60 + second) * 1_000_000 + fraction)
}

/// A number of digits alone, of at most six.
fn number(digits: &str) -> Option<i64> {
    let is_number = (1..=6).contains(&digits.len()) && digits.bytes().all(|digit| digit.is_ascii_digit());
    if is_number { digits.parse().ok() } else { None }
}

/// The day of a timestamp.
pub(crate) fn day_of(timestamp: i64) -> i64 {
    timestamp.div_euclid(DAY_US)
}

/// Writes `YYYY-MM-DD`.
pub(crate) fn write_date(days: i64, out: &mut Vec<u8>) {
    let (year, month, day) = date_from_days(days.clamp(DATE_MIN, DATE_MAX));
    push_padded(out, year as u64, 4);
    out.push(b'-');
    push_pair(out, month as u64);
    out.push(b'-');
    push_pair(out, day as u64);
}

/// Writes `YYYY-MM-DD HH:MM:SS.ffffff+00`: a column without time zone passes over the offset, one with it needs it.
pub(crate) fn write_timestamp(timestamp: i64, out: &mut Vec<u8>) {
    write_date(day_of(timestamp), out);
    let us = timestamp.rem_euclid(DAY_US) as u64;
    let seconds = us / 1_000_000;
    out.push(b' ');
    push_pair(out, seconds / 3600);
    out.push(b':');
    push_pair(out, seconds / 60 % 60);
    out.push(b':');
    push_pair(out, seconds % 60);
    if !us.is_multiple_of(1_000_000) {
        out.push(b'.');
        push_padded(out, us % 1_000_000, 6);
    }
    out.extend_from_slice(b"+00");
}
