//! `--window FROM/TO`: times of the log's first day, or instants, in UTC.

use anyhow::{Context, Result, bail, ensure};
use capture::reader::{CaptureWindow, WindowChoice};
use capture::value::times::timestamp_us;

/// The part of the log that a text names.
///
/// # Errors
/// When it names none.
pub(super) fn window(text: &str) -> Result<WindowChoice> {
    let (from, to) = text.split_once('/').with_context(|| wrong(text))?;
    let (from, to) = (from.trim(), to.trim());
    if let (Some(from_us), Some(to_us)) = (timestamp_us(from), timestamp_us(to)) {
        ensure!(from_us < to_us, "--window `{text}` ends before it begins");
        return Ok(WindowChoice::Between(CaptureWindow { from_us, to_us }));
    }
    match (of_day(from), of_day(to)) {
        (Some(from_us), Some(to_us)) if from_us != to_us => {
            Ok(WindowChoice::OfDay(CaptureWindow { from_us, to_us }))
        }
        (Some(_), Some(_)) => bail!("--window `{text}` has no length"),
        _ => bail!(wrong(text)),
    }
}

fn wrong(text: &str) -> String {
    format!(
        "--window `{text}` is no part of a log; write 09:00/10:00 or \"2026-01-31 09:00/2026-01-31 10:00\", in UTC"
    )
}

/// Microseconds of a day.
fn of_day(text: &str) -> Option<i64> {
    let parts: Vec<&str> = text.split(':').collect();
    let number = |at: usize, most: i64| -> Option<i64> {
        let part = parts.get(at).copied().unwrap_or("0");
        let is_number = (1..=2).contains(&part.len()) && part.bytes().all(|byte| byte.is_ascii_digit());
        if is_number { part.parse().ok().filter(|n| *n <= most) } else { None }
    };
    if !(2..=3).contains(&parts.len()) {
        return None;
    }
    Some((number(0, 24)? * 3600 + number(1, 59)? * 60 + number(2, 59)?) * 1_000_000)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_are_times_of_a_day_or_instants() {
        let hour = 3_600_000_000;
        assert_eq!(
            window("09:00/10:00").unwrap(),
            WindowChoice::OfDay(CaptureWindow { from_us: 9 * hour, to_us: 10 * hour })
        );
        assert_eq!(
            window("1970-01-01 01:00 / 1970-01-01 02:00:00").unwrap(),
            WindowChoice::Between(CaptureWindow { from_us: hour, to_us: 2 * hour })
        );
        for text in [
            "",
            "9",
            "09:00",
            "09:00/",
            "09:00/09:00",
            "25:00/26:00",
            "a/b",
            "2024-01-02 00:00/2024-01-01 00:00",
        ] {
            assert!(window(text).is_err(), "{text}");
        }
    }
}
