//! Required size of `max_wal_size`: arithmetic of PostgreSQL's checkpoints.

use crate::release::{Release, settings};

/// Bytes of a WAL segment.
const SEGMENT_BYTES: f64 = 16.0 * 1024.0 * 1024.0;

/// Checkpoint intervals that a measurement window must cover so that it contains two complete checkpoints, wherever the
/// first one begins: each takes up to `checkpoint_completion_target` of its interval.
pub const SPANS_FOR_TWO: f64 = 3.0;

/// The `max_wal_size` with which no checkpoint is requested before `wal_bytes` have been written since the last one.
///
/// A checkpoint is requested when `max_wal_size / (1 + checkpoint_completion_target)` minus one segment has been
/// written, before version 11 `/ (2 + ...)` (PostgreSQL's xlog.c, `CalculateCheckpointSegments` and
/// `XLogCheckpointNeeded`).
pub fn max_wal_size_for(wal_bytes: f64, version_num: u32, completion_target: f64) -> u64 {
    ((wal_bytes + 2.0 * SEGMENT_BYTES) * (cycles(version_num) + completion_target)).ceil() as u64
}

/// WAL written after a checkpoint until the next one is requested, bytes: the inverse of [`max_wal_size_for`] except
/// for its margin of a segment.
pub fn wal_between_checkpoints(max_wal_size_bytes: u64, version_num: u32, completion_target: f64) -> f64 {
    (max_wal_size_bytes as f64 / (cycles(version_num) + completion_target) - SEGMENT_BYTES).max(0.0)
}

/// Before version 11, the WAL of two checkpoints was kept.
fn cycles(version_num: u32) -> f64 {
    if Release::new(version_num).has(settings::ONE_CHECKPOINT_KEPT) { 1.0 } else { 2.0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_those_of_postgres() {
        const GB: f64 = 1024.0 * 1024.0 * 1024.0;
        // PostgreSQL 15 with max_wal_size 8 GB and target 0.9: CheckPointSegments is 512 / 1.9 = 269.
        let between = wal_between_checkpoints(8 << 30, 150_000, 0.9);
        assert_eq!((between / SEGMENT_BYTES) as u32, 268);
        for (version_num, expected_gb) in
            [(180_006, 1.9 * (4.0 + 1.0 / 32.0)), (100_023, 2.9 * (4.0 + 1.0 / 32.0))]
        {
            let size = max_wal_size_for(4.0 * GB, version_num, 0.9);
            assert!((size as f64 / GB - expected_gb).abs() < 1e-6, "{version_num}: {size}");
            assert!(wal_between_checkpoints(size, version_num, 0.9) >= 4.0 * GB);
        }
        assert_eq!(wal_between_checkpoints(1 << 20, 150_000, 0.9), 0.0);
    }
}
