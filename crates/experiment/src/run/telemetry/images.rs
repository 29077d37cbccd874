//! Full-page images per second of a release that does not count them: after the load, out of the WAL of our own server. Its positions
//! follow from one before the load and from the WAL that each tick wrote.

use std::sync::atomic::AtomicBool;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use model::release::{Release, functions, statistics};
use model::run::RunRecord;
use model::telemetry::reading::{Tick, TickSource};
use model::text::units::wal_position;
use server::Cluster;
use server::running::wal_images::{count, program};
use store::RunWriter;
use wire::session::Session;

use crate::site::wal::OfTick;

const METRIC: &str = "server.wal_full_page_images";
/// How long reading the WAL may take, after the load and before the server stops.
const LONGEST: Duration = Duration::from_secs(10);

/// The position in the WAL before a load, bytes from its beginning; `None` where the server counts the images, or is not ours.
pub(crate) fn position_before(session: &mut Session, cluster: Option<&Cluster>) -> Result<Option<u64>> {
    let is_readable = cluster.is_some_and(|cluster| program(&cluster.binaries).is_ok());
    if is_readable && !Release::new(session.server_version_num()).has(statistics::WAL) {
        position(session).map(Some)
    } else {
        Ok(None)
    }
}

fn position(session: &mut Session) -> Result<u64> {
    let function = Release::new(session.server_version_num()).name(functions::WAL_INSERTED);
    let rows = session.query(&format!("select {function}()"))?;
    let text = rows.scalar().unwrap_or_default();
    wal_position(text).with_context(|| format!("`{text}` is no position in the WAL"))
}

/// Adds the images of each tick to the run's readings, or why they stay unknown. `before` is the result of [`position_before`].
///
/// # Errors
/// When the run's files cannot be written.
pub(crate) fn add(
    record: &mut RunRecord,
    before: Result<Option<u64>>,
    ticks: &[OfTick],
    cluster: Option<&Cluster>,
    writer: &RunWriter,
    stop: &AtomicBool,
) -> Result<()> {
    // The server counts them, or its statistics are not read.
    let Some(reason) = record.telemetry_unavailable.get(METRIC).cloned() else { return Ok(()) };
    let Some(cluster) = cluster else { return Ok(()) };
    match counted(cluster, before, ticks, stop) {
        Ok(counts) => {
            for (tick, n) in ticks.iter().zip(counts) {
                writer.tick(&Tick {
                    source: TickSource::Server,
                    end_unix_ns: tick.end_unix_ns,
                    length_ns: tick.length_ns,
                    values: [(METRIC.to_string(), n as f64)].into(),
                })?;
            }
            record.telemetry_unavailable.remove(METRIC);
        }
        Err(error) => {
            record.telemetry_unavailable.insert(METRIC.to_string(), format!("{reason}, and {error:#}"));
        }
    }
    Ok(())
}

fn counted(
    cluster: &Cluster,
    before: Result<Option<u64>>,
    ticks: &[OfTick],
    stop: &AtomicBool,
) -> Result<Vec<u64>> {
    program(&cluster.binaries)?;
    let before = before?.context("the position of the WAL before the load is not known")?;
    ensure!(!ticks.is_empty(), "no tick says how much WAL was written");
    count(cluster, &positions(before, ticks), LONGEST, stop)
}

/// The position before the first tick, and those at the end of each.
fn positions(before: u64, ticks: &[OfTick]) -> Vec<u64> {
    let ends = ticks.iter().scan(before, |position, tick| {
        *position += tick.wal_bytes.max(0.0) as u64;
        Some(*position)
    });
    std::iter::once(before).chain(ends).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn positions_add_up() {
        let tick = |wal_bytes| OfTick { end_unix_ns: 1, length_ns: 1, wal_bytes };
        assert_eq!(positions(100, &[tick(10.0), tick(0.0), tick(5.0)]), [100, 110, 110, 115]);
    }
}
