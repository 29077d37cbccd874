//! What a server does not count or time, so that its zero says nothing.
//!
//! Pure. The settings are those of the observer's session, which are the load's: one role, one database. Whoever counts all the
//! same, as a session with a setting of its own, makes the metric known: only a zero is left out.

use model::telemetry::reading::split_key;
use wire::session::SessionError;

use crate::server::statistics::{ARCHIVE_QUEUE, WAL_DIRECTORY};

/// A switch, and the metrics that stay at zero while it is off.
#[derive(Debug)]
struct Switch {
    setting: &'static str,
    reason: &'static str,
    metrics: &'static [&'static str],
}

const SWITCHES: [Switch; 5] = [
    Switch {
        setting: "track_activities",
        reason: "track_activities is off: the server does not say what sessions do",
        metrics: &["server.on_cpu", "server.foreign_working"],
    },
    Switch {
        setting: "track_counts",
        reason: "track_counts is off: the server counts transactions alone",
        metrics: &[
            "database.blocks_read",
            "database.blocks_hit",
            "database.rows_returned",
            "database.rows_fetched",
            "database.rows_inserted",
            "database.rows_updated",
            "database.rows_deleted",
            "database.temp_files",
            "database.temp_bytes",
            "database.deadlocks",
            "database.conflicts",
            "database.hot_updates",
        ],
    },
    Switch {
        setting: "track_io_timing",
        reason: "track_io_timing is off: the server does not time reads and writes",
        metrics: &[
            "database.read_time",
            "database.write_time",
            "server.io.read_time",
            "server.io.write_time",
            "server.io.fsync_time",
            "statements.io_time",
        ],
    },
    Switch {
        setting: "track_wal_io_timing",
        reason: "track_wal_io_timing is off: the server does not time writes and syncs of WAL",
        metrics: &["server.wal_write_time", "server.wal_sync_time"],
    },
    Switch {
        setting: "pg_stat_statements.track_planning",
        reason: "pg_stat_statements.track_planning is off: the extension does not time planning",
        metrics: &["statements.plan_time"],
    },
];

/// Reads which of the switches are off.
pub(crate) fn sql() -> String {
    let names: Vec<String> = SWITCHES.iter().map(|switch| format!("'{}'", switch.setting)).collect();
    format!("select name from pg_settings where setting = 'off' and name in ({})", names.join(", "))
}

/// The metrics that this server does not count.
#[derive(Debug, Clone, Default)]
pub(crate) struct Uncounted(Vec<&'static Switch>);

impl Uncounted {
    /// Of the settings that [`sql`] returns.
    pub(crate) fn new<'a>(off: impl Iterator<Item = &'a str>) -> Uncounted {
        Uncounted(off.filter_map(|name| SWITCHES.iter().find(|switch| switch.setting == name)).collect())
    }

    /// The metrics of each switch that is off, separated by commas, and the reason.
    pub(crate) fn reasons(&self) -> impl Iterator<Item = (String, &'static str)> {
        self.0.iter().map(|switch| (switch.metrics.join(", "), switch.reason))
    }

    /// Whether the value of a key is known: a zero that nobody counted is not.
    pub(crate) fn is_known(&self, key: &str, value: f64) -> bool {
        let metric = split_key(key).0;
        value != 0.0 || !self.0.iter().any(|switch| switch.metrics.contains(&metric))
    }
}

/// Why a server rejects a part, with the right that it needs where the server's message names none.
pub(crate) fn refusal(what: &str, error: &SessionError) -> String {
    let is_denied = matches!(error, SessionError::Server(error) if error.is_denied());
    if is_denied && [WAL_DIRECTORY, ARCHIVE_QUEUE].contains(&what) {
        format!("{error}; grant the role pg_monitor (10 and later): pg_read_all_stats is not enough")
    } else {
        error.to_string()
    }
}

#[cfg(test)]
mod tests {
    use model::telemetry::metric::METRICS;

    use super::*;

    #[test]
    fn a_zero_that_nobody_counted_is_unknown() {
        let off = Uncounted::new(["track_io_timing", "wal_level"].into_iter());
        assert!(!off.is_known("database.read_time", 0.0));
        assert!(!off.is_known("server.io.read_time[client backend:relation:normal]", 0.0));
        assert!(off.is_known("database.read_time", 0.25), "a session with a setting of its own has timed it");
        assert!(off.is_known("database.deadlocks", 0.0));
        assert!(!Uncounted::new(["track_counts"].into_iter()).is_known("database.deadlocks", 0.0));
        assert!(Uncounted::default().is_known("database.read_time", 0.0));
        assert_eq!(off.reasons().count(), 1);
    }

    #[test]
    fn every_metric_of_a_switch_is_a_row_of_the_table() {
        for metric in SWITCHES.iter().flat_map(|switch| switch.metrics) {
            assert!(METRICS.iter().any(|row| row.name == *metric), "{metric}");
        }
    }
}
