//! Numbers and times as options take them, each with its bounds.

use std::ops::RangeInclusive;

use model::experiment::keys;
use model::experiment::keys::key::Key;
use model::experiment::keys::row::KeyKind;
use model::text::units::{Span, expect_no_group};

/// Pairs of a comparison.
///
/// # Errors
/// When it is no number, too few for a verdict or too many.
pub(super) fn pairs(text: &str) -> Result<u32, String> {
    let n: i64 =
        text.trim().parse().map_err(|_| format!("`{text}` is not a number (example: --pairs 12)"))?;
    match n {
        ..6 => Err(format!("{n} is too few: five pairs agree by chance once in sixteen times; use 6 to 500")),
        6..=500 => Ok(n as u32),
        _ => Err(format!("{n} is too many; use 6 to 500")),
    }
}

/// A time that is not 0.
///
/// # Errors
/// When it is none.
pub(super) fn some_time(text: &str) -> Result<Span, String> {
    let span: Span = text.parse()?;
    if span.ms == 0 { Err(format!("`{text}` is too short; at least 1ms (example: 5min)")) } else { Ok(span) }
}

/// Reads a number within the bounds of a key's row, for an option of a command without an experiment file.
pub(super) fn of_key<T>(
    key: Key<T>,
    example: &'static str,
) -> impl Fn(&str) -> Result<u32, String> + Clone + Send + Sync + 'static {
    let kind = keys::find(key.name).map(|row| row.kind);
    move |text| {
        let (least, most) = match kind {
            Some(KeyKind::Whole(least, most)) => (least, most),
            _ => (0, u32::MAX.into()),
        };
        let n = in_range(text, least..=most, example)?;
        u32::try_from(n).map_err(|_| format!("{n} is not in {least}..{most}"))
    }
}

/// A whole number; below 0 it is out of range, like any other that is too small.
///
/// # Errors
/// When it is no number or out of bounds.
pub(super) fn in_range(text: &str, range: RangeInclusive<u64>, example: &str) -> Result<u64, String> {
    expect_no_group(text)?;
    let n: i128 =
        text.trim().parse().map_err(|_| format!("`{text}` is not a number (example: {example})"))?;
    let fits = u64::try_from(n).ok().filter(|n| range.contains(n));
    fits.ok_or_else(|| format!("{n} is not in {}..{}", range.start(), range.end()))
}
