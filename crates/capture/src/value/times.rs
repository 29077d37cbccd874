//! Dates and times as PostgreSQL writes them, in microseconds.

/// Microseconds since 1970 UTC of a date or a timestamp in ISO format; without an offset it is taken as UTC.
pub fn timestamp_us(text: &str) -> Option<i64> {
    let bytes = text.as_bytes();
    if bytes.len() < 10 || bytes.len() > 40 || !text.is_ascii() || bytes[4] != b'-' || bytes[7] != b'-' {
        return None;
    }
    let number = |from: usize, to: usize| -> Option<i64> {
        let part = text.get(from..to)?;
        if part.bytes().all(|byte| byte.is_ascii_digit()) { part.parse().ok() } else { None }
    };
    let (year, month, day) = (number(0, 4)?, number(5, 7)?, number(8, 10)?);
    if !(1..=12).contains(&month) || !(1..=31).contains(&day) {
        return None;
    }
    let days = days_from_civil(year, month, day);
    let midnight = days * 86_400_000_000;
    if bytes.len() == 10 {
        return Some(midnight);
    }
    if !matches!(bytes[10], b' ' | b'T') || bytes.len() < 16 || bytes[13] != b':' {
        return None;
    }
    let (hour, minute) = (number(11, 13)?, number(14, 16)?);
    let mut rest = &text[16..];
    let mut micros = (hour * 3600 + minute * 60) * 1_000_000;
    if let Some(seconds) = rest.strip_prefix(':') {
        let len = seconds.bytes().take_while(|byte| byte.is_ascii_digit() || *byte == b'.').count();
        let (whole, fraction) = seconds[..len].split_once('.').unwrap_or((&seconds[..len], ""));
        micros += whole.parse::<i64>().ok()? * 1_000_000;
        let digits: String = fraction.chars().chain("000000".chars()).take(6).collect();
        micros += digits.parse::<i64>().ok()?;
        rest = &seconds[len..];
    }
    let rest = rest.trim_start();
    let offset_s = if rest.is_empty() || rest == "Z" || rest == "UTC" { 0 } else { offset(rest)? };
    if hour > 24 || minute > 59 {
        return None;
    }
    Some(midnight + micros - offset_s * 1_000_000)
}

/// Seconds of `+02`, `-05:30`.
fn offset(text: &str) -> Option<i64> {
    let sign = match text.as_bytes().first()? {
        b'+' => 1,
        b'-' => -1,
        _ => return None,
    };
    let mut parts = text[1..].split(':');
    let mut part =
        || parts.next().map_or(Some(0), |part| part.parse::<i64>().ok().filter(|n| (0..60).contains(n)));
    let (hours, minutes, seconds) = (part()?, part()?, part()?);
    Some(sign * (hours * 3600 + minutes * 60 + seconds))
}

/// Days since 1970 of a day of the Gregorian calendar (Hinnant, "chrono-compatible low-level date algorithms").
pub fn days_from_civil(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let era = year.div_euclid(400);
    let of_era = year.rem_euclid(400);
    let of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719_468
}

/// Year, month and day, so many days after 1970 (the same source).
pub fn civil_from_days(days: i64) -> (i64, i64, i64) {
    let z = days + 719_468;
    let era = z.div_euclid(146_097);
    let of_era = z.rem_euclid(146_097);
    let year_of_era = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * of_year + 2) / 153;
    let day = of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    (year_of_era + era * 400 + i64::from(month <= 2), month, day)
}

/// The instant as `2024-01-31 10:00:00 UTC`.
pub fn shown(us: i64) -> String {
    let (days, of_day) = (us.div_euclid(86_400_000_000), us.rem_euclid(86_400_000_000) / 1_000_000);
    let (year, month, day) = civil_from_days(days);
    format!(
        "{year:04}-{month:02}-{day:02} {:02}:{:02}:{:02} UTC",
        of_day / 3600,
        of_day / 60 % 60,
        of_day % 60
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timestamps_are_read_and_shown() {
        for (text, expected) in [
            ("1970-01-01", Some(0)),
            ("1970-01-02 00:00:00.5", Some(86_400_500_000)),
            ("2024-02-29 12:00:00+02", Some(1_709_200_800_000_000)),
            ("2024-02-29T12:00:00-05:30", Some(1_709_227_800_000_000)),
            ("2024-02-29 12:00", Some(1_709_208_000_000_000)),
            ("2024-13-01", None),
            ("2024-01-01x12:00", None),
            ("12:00", None),
            ("infinity", None),
            ("2024-01-01 12:00:00 nowhere", None),
        ] {
            assert_eq!(timestamp_us(text), expected, "{text}");
        }
        assert_eq!(shown(1_709_208_000_000_000), "2024-02-29 12:00:00 UTC");
        assert_eq!(shown(-1_000_000), "1969-12-31 23:59:59 UTC");
    }
}
