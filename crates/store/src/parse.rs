//! The only place where stored JSON becomes values: what is beyond the bounds of `model` is refused here, so that whatever computes or
//! draws may rely on them.

use model::bounds::ReadBudget;
use model::load::interval::Interval;
use model::telemetry::reading::Tick;
use serde::de::DeserializeOwned;

/// Reads a record.
///
/// # Errors
/// When it is none, or something in it is beyond its bounds; says where, and what the bounds are.
pub fn record<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, String> {
    line(&ReadBudget::default(), bytes)
}

/// Reads a line of a file, whose lines share a budget.
pub(crate) fn line<T: DeserializeOwned>(budget: &ReadBudget, bytes: &[u8]) -> Result<T, String> {
    budget.check(bytes)?;
    serde_json::from_slice(bytes).map_err(|error| error.to_string())
}

/// Reads a line of `intervals.jsonl`. A study has millions, which are checked by themselves.
pub(crate) fn interval(bytes: &[u8]) -> Result<Interval, String> {
    let interval: Interval = serde_json::from_slice(bytes).map_err(|error| error.to_string())?;
    interval.check().map(|()| interval)
}

/// Reads a line of `readings.jsonl`; names that are not those of metrics are dropped.
pub(crate) fn tick(bytes: &[u8]) -> Result<ReadTick, String> {
    let mut tick: Tick = serde_json::from_slice(bytes).map_err(|error| error.to_string())?;
    tick.check()?;
    let impossible = tick.take_out_impossible();
    Ok(ReadTick { tick, impossible })
}

/// A tick without the values that are impossible, and the first of these in words.
#[derive(Debug)]
pub(crate) struct ReadTick {
    pub(crate) tick: Tick,
    pub(crate) impossible: Option<String>,
}
