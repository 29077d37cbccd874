//! Numbers as options take them, each with its bounds.

/// Pairs of a comparison.
///
/// # Errors
/// When it is no number, too few for a verdict or too many.
pub(super) fn pairs(text: &str) -> Result<u32, String> {
    let n: u32 =
        text.trim().parse().map_err(|_| format!("`{text}` is not a number (example: --pairs 12)"))?;
    match n {
        0..6 => {
            Err(format!("{n} is too few: five pairs agree by chance once in sixteen times; use 6 to 500"))
        }
        6..=500 => Ok(n),
        _ => Err(format!("{n} is too many; use 6 to 500")),
    }
}

/// Clients or threads.
///
/// # Errors
/// When it is no number or out of bounds.
pub(super) fn clients(text: &str) -> Result<u32, String> {
    let n: u32 =
        text.trim().parse().map_err(|_| format!("`{text}` is not a number (example: --clients 1,16,64)"))?;
    if (1..=100_000).contains(&n) { Ok(n) } else { Err(format!("{n} is not in 1..100000")) }
}

/// Repetitions of each case.
///
/// # Errors
/// When it is no number or out of bounds.
pub(super) fn repeats(text: &str) -> Result<u32, String> {
    let n: u32 =
        text.trim().parse().map_err(|_| format!("`{text}` is not a number (example: --repeats 5)"))?;
    if (1..=1000).contains(&n) { Ok(n) } else { Err(format!("{n} is not in 1..1000")) }
}
