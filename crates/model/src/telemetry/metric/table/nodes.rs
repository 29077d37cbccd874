//! The rows about what is besides a server: its standbys, a pooler, the archive of its WAL.

use super::super::{Metric, counter, gauge};

/// What is read of standbys, on both ends, of a pooler, and of the archiver's queue.
pub(super) const OF_NODES: &[Metric] = &[
    gauge(
        "server.replication_lag_bytes",
        "standby/stage",
        "bytes",
        "WAL that a receiver, by application_name, has not yet written (`write`), made durable (`flush`) or \
         replayed (`replay`) (pg_stat_replication)",
    ),
    gauge(
        "server.replication_lag",
        "standby/stage",
        "s",
        "the same as time, from 10 on (write_lag, flush_lag, replay_lag)",
    ),
    gauge(
        "standby.receive_lag",
        "standby",
        "s",
        "age of the oldest WAL of the primary that pgdyno's standby has not yet received and made durable: \
         the primary's position each 0.1 s against the standby's (pg_current_wal_lsn, \
         pg_last_wal_receive_lsn)",
    ),
    gauge(
        "standby.replay_lag",
        "standby",
        "s",
        "age of the oldest WAL of the primary that it has not yet replayed, likewise \
         (pg_last_wal_replay_lsn); it grows while replay stands still, unlike server.replication_lag",
    ),
    gauge(
        "standby.receive_lag_bytes",
        "standby",
        "bytes",
        "WAL of the primary that it has not yet received and made durable (positions of both ends)",
    ),
    gauge(
        "standby.replay_lag_bytes",
        "standby",
        "bytes",
        "WAL of the primary that it has not yet replayed (positions of both ends)",
    ),
    gauge(
        "standby.replay_stall",
        "standby",
        "s",
        "longest time in the tick, in steps of 0.1 s, that it replayed nothing while received WAL waited",
    ),
    gauge("standby.replay_paused", "standby", "1", "1 if its replay is paused (pg_is_wal_replay_paused)"),
    counter(
        "standby.conflicts",
        "standby/kind",
        "1",
        "queries that its replay cancelled, by kind (pg_stat_database_conflicts)",
    ),
    gauge(
        "standby.message_age",
        "standby",
        "s",
        "time since its receiver had the last message of the primary; absent while no receiver runs (pg_stat_wal_receiver, 9.6 and later)",
    ),
    gauge(
        "reads.stale",
        "standby",
        "s",
        "longest time in the tick, in steps of 0.1 s, since the primary's highest ended transaction had the \
         number that a standby of the load shows (txid_snapshot_xmax on both ends)",
    ),
    gauge(
        "reads.stale_commits",
        "standby",
        "1",
        "transaction numbers between the highest ended one of the primary and that of the standby, at that look",
    ),
    gauge(
        "standby.queries",
        "",
        "1",
        "statements that asked the primary for its position, each a transaction",
    ),
    counter(
        "standby.cpu",
        "standby/kind",
        "s",
        "CPU time of its processes: `startup`, which replays, `walreceiver` and `other`, and on the primary `walsender`, which is part of \
         the server's (/proc/PID/stat)",
    ),
    counter(
        "pooler.cpu.user",
        "",
        "s",
        "user time of a pooler or proxy, which holds the other end of the load's connections on the observed machine (/proc/PID/stat)",
    ),
    counter("pooler.cpu.system", "", "s", "kernel time of that process (/proc/PID/stat)"),
    counter("server.archived", "", "1", "segments of WAL archived (pg_stat_archiver)"),
    counter("server.archive_failures", "", "1", "failed attempts to archive one (pg_stat_archiver)"),
    gauge(
        "archive.ready",
        "",
        "1",
        "segments of WAL that wait to be archived; absent with archive_mode off (pg_ls_archive_statusdir, before 12 pg_ls_dir)",
    ),
    gauge("archive.oldest_ready", "", "s", "how long the oldest of them has waited; absent if none waits"),
];
