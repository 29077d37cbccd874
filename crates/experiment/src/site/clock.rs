//! The wall clock of records, and the delay before a load begins.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Current time, nanoseconds since the Unix epoch.
pub(crate) fn unix_now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_nanos() as u64)
}

/// Time between the order to go and the start of the load: enough for every thread to get ready.
pub(crate) const GO_DELAY: Duration = Duration::from_millis(200);
