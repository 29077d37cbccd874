//! SQL for the statistics of each tick, for versions 9.4 to 18, and as far as it is known for 19. The SQL for versions before 9.6 follows the
//! documentation and is untested.
//!
//! Pure. One statement per tick: a union of parts with the columns metric, instance, value. Statistics are never reset.
//! Within a transaction they are a snapshot, so each tick is a transaction of its own. Sessions report their statistics
//! when a transaction ends and at most once per second (before 15: twice, over a collector that adds up to half a
//! second), so counters of databases and I/O lag by about that; the WAL position and the activity of sessions do not.

use model::release::{Release, functions, privileges, settings, statistics};
use wire::quote_literal;

use crate::server::archive;
use crate::server::sessions;
use crate::server::statements::{self, StatExtension};

/// `application_name` of the observers' sessions of the process that has this word.
pub(crate) fn application_name(word: &str) -> String {
    format!("pgdyno observer {word}").trim_end().to_string()
}

/// The server's clock in the metric column: value is its time, seconds since the Unix epoch.
pub(crate) const CLOCK: &str = "event.clock";
/// Name of a running autovacuum in the metric column: instance is the pid, value is its activity.
pub(crate) const AUTOVACUUM: &str = "event.autovacuum";
/// What an autovacuum worker does whose query is hidden.
const HIDDEN_VACUUM: &str = "work on a table that this role cannot see";
/// Size of the directory of WAL, each second.
pub(crate) const WAL_DIRECTORY: &str = "server.wal_directory_bytes";
/// Segments that wait to be archived.
pub(crate) const ARCHIVE_QUEUE: &str = "archive.ready";
/// Name of the part that counts finished autovacuums, and of its first metric.
pub(crate) const AUTOVACUUMS: &str = "database.autovacuums";

/// One part of the statement. A part that the server rejects is left out.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct StatementPart {
    /// The metrics that this part yields, for messages.
    pub(crate) what: &'static str,
    pub(crate) sql: String,
    /// Whether it runs once per minute instead of each tick.
    pub(crate) is_rare: bool,
    /// Whether its cost grows with what the server keeps: tables, statements.
    pub(crate) grows: bool,
}

/// Identifies the server: a change indicates a restart or a failover. The database has its own name: a pooler may know it by
/// another, which is that of the URL.
pub(crate) fn identity(version_num: u32) -> String {
    let logging = Release::new(version_num).of(&settings::VACUUM_LOGGING);
    let logging: Vec<String> = logging.iter().map(|name| format!("current_setting('{name}')")).collect();
    let logging = match logging.as_slice() {
        [one] => one.clone(),
        // One value if all have it.
        all => format!("(select string_agg(distinct v, ', ') from unnest(array[{}]) v)", all.join(", ")),
    };
    format!(
        "select extract(epoch from pg_postmaster_start_time())::numeric::text as start, \
         pg_is_in_recovery()::text as in_recovery, pg_backend_pid()::text as backend_pid, \
         current_database()::text as database, current_setting('log_checkpoints') as log_checkpoints, {logging} as log_autovacuum"
    )
}

/// Reads the cluster's system identifier; some managed services refuse.
pub(crate) const SYSTEM_IDENTIFIER: &str = "select system_identifier::text from pg_control_system()";

/// Settings of the observer's session: its queries end by themselves and add no other cost, and no time limit of the
/// role or the database ends the session between them.
pub(crate) fn session_settings(version_num: u32, timeout_ms: u128) -> String {
    let mut sql = format!("set statement_timeout = {timeout_ms}; set lock_timeout = {timeout_ms}; ");
    for (setting, value) in Release::new(version_num).of(&settings::OBSERVER_SETTINGS) {
        sql.push_str(&format!("set {setting} = {value}; "));
    }
    sql
}

/// Reads the timeline, which changes with a promotion.
pub(crate) fn timeline(version_num: u32, in_recovery: bool) -> String {
    if in_recovery {
        return "select timeline_id::text from pg_control_checkpoint()".to_string();
    }
    let release = Release::new(version_num);
    let (file, written) = (release.name(functions::WAL_FILE), release.name(functions::WAL_WRITTEN));
    format!("select substr({file}({written}()), 1, 8)")
}

/// Reads whether this role sees the sessions of others, as `true` or `false`, and its name.
pub(crate) fn sees_all(version_num: u32) -> &'static str {
    if Release::new(version_num).has(privileges::MONITORING_ROLES) {
        "select (pg_has_role(current_user, 'pg_read_all_stats', 'usage') or rolsuper)::text, rolname \
         from pg_roles where rolname = current_user"
    } else {
        "select rolsuper::text, rolname from pg_roles where rolname = current_user"
    }
}

/// A query of `a`, the sessions other than this one.
pub(crate) fn with_activity(version_num: u32, query: &str) -> String {
    format!("with a as ({}) {query}", activity(version_num))
}

/// The statement that consists of these parts.
pub(crate) fn statement<'a>(version_num: u32, parts: impl Iterator<Item = &'a StatementPart>) -> String {
    let parts: Vec<&str> = parts.map(|part| part.sql.as_str()).collect();
    with_activity(version_num, &parts.join(" union all "))
}

/// The statistics that this server and database need.
#[derive(Debug, Clone, Copy)]
pub(crate) struct StatisticsScope<'a> {
    /// The database under load.
    pub(crate) database: &'a str,
    /// Running and finished autovacuums; the log shows them otherwise.
    pub(crate) wants_autovacuum: bool,
    /// Sessions that are not pgdyno's.
    pub(crate) wants_clients: bool,
    /// `application_name` of this process's observers.
    pub(crate) observer: &'a str,
    /// What counts executions of statements, if it is there.
    pub(crate) extension: Option<&'a StatExtension>,
}

/// All parts for a version.
pub(crate) fn parts(version_num: u32, scope: StatisticsScope) -> Vec<StatementPart> {
    let (name, release) = (quote_literal(scope.database), Release::new(version_num));
    let mut parts = vec![
        part("server.clock_offset", clock()),
        part("server.wal_bytes", wal_position(version_num)),
        part(WAL_DIRECTORY, wal_directory(version_num)),
        part("server.connections", connections()),
        part("server.waiting, server.on_cpu", waits()),
        part("server.autovacuum_workers, server.oldest_snapshot_age", gauges(version_num)),
        part("server.checkpoints, server.buffers_written", checkpoints(release)),
        part("database", database_counters(&name, release)),
        part(
            "database.xid_age",
            format!(
                "select 'database.xid_age', '', age(datfrozenxid)::text from pg_database where datname = {name}"
            ),
        ),
    ];
    parts.push(part("server.archived", archiver()));
    parts.push(part(ARCHIVE_QUEUE, archive::queue(release)));
    parts.push(part("server.replication_lag_bytes", replication(version_num)));
    if release.has(statistics::SLRU) {
        parts.push(part("server.slru.reads", slru()));
    }
    if release.has(statistics::WAL) {
        parts.push(part("server.wal_records", wal(release)));
    }
    if release.has(statistics::IO) {
        parts.push(part("server.io", io(release)));
    }
    if scope.wants_clients {
        parts.push(part("server.foreign_sessions", sessions::sql(scope.observer)));
    }
    if scope.wants_autovacuum {
        let counts = part(AUTOVACUUMS, autovacuums(&name));
        parts.push(StatementPart { grows: true, ..counts });
        let sql = format!(
            "select '{AUTOVACUUM}', pid::text, coalesce(datname || ' ', '') \
             || case when is_hidden then 'autovacuum: {HIDDEN_VACUUM}' else coalesce(query, '') end from a \
             where kind = 'autovacuum worker'"
        );
        parts.push(part("autovacuum events", sql));
    }
    parts.push(StatementPart { grows: true, ..part("database.hot_updates", hot_updates(&name)) });
    parts.push(StatementPart { is_rare: true, ..part("database.table_bytes", table_sizes(&name)) });
    if let Some(extension) = scope.extension {
        let counts = part(statements::PART, extension.sql(scope.database));
        parts.push(StatementPart { grows: true, ..counts });
    }
    let size = format!("select 'database.bytes', '', pg_database_size({name})::text");
    parts.push(StatementPart { is_rare: true, ..part("database.bytes", size) });
    parts
}

fn part(what: &'static str, sql: String) -> StatementPart {
    StatementPart { what, sql, is_rare: false, grows: false }
}

/// Sessions other than this one. 10 calls parallel workers background workers, as those of logical replication. 9.6 has no backend types: autovacuum workers are recognized by their query text, and
/// parallel workers by having no client, which of others' sessions only a superuser sees. Before 9.6 the only wait information is whether a session waits for a lock.
///
/// `is_hidden` is a session of which this role may see only that it is there. From 10 on, of these a process that has a database and no
/// user is an autovacuum worker (`pgstat_bestart` in backend_status.c); in recovery there are none.
fn activity(version_num: u32) -> String {
    let release = Release::new(version_num);
    let hidden_kind = "case when datname is null then null when usesysid is not null then 'client backend' \
         when not pg_is_in_recovery() then 'autovacuum worker' end";
    let (kind, is_hidden) = if release.has(statistics::BACKEND_TYPES)
        && !release.has(statistics::PARALLEL_WORKER_TYPE)
    {
        let worker = "when backend_type = 'background worker' and datname is not null then 'parallel worker'";
        (
            format!("case when backend_type is null then {hidden_kind} {worker} else backend_type end"),
            "backend_type is null",
        )
    } else if release.has(statistics::BACKEND_TYPES) {
        (format!("coalesce(backend_type, {hidden_kind})"), "backend_type is null")
    } else {
        let kind = "case when query like 'autovacuum:%' then 'autovacuum worker' \
             when datname is null then 'walsender' \
             when client_port is null and query <> '<insufficient privilege>' then 'parallel worker' \
             else 'client backend' end";
        (kind.to_string(), "query = '<insufficient privilege>'")
    };
    let waits = if release.has(statistics::WAIT_EVENTS) {
        "wait_event_type, wait_event"
    } else {
        "case when waiting then 'Lock' end as wait_event_type, case when waiting then 'unknown' end as wait_event"
    };
    let leader = if release.has(statistics::LEADERS) { "leader_pid" } else { "null::integer as leader_pid" };
    let query_id = if release.has(statistics::QUERY_IDS) { "query_id" } else { "null::bigint as query_id" };
    format!(
        "select pid, datname, {kind} as kind, {is_hidden} as is_hidden, state, state_change, {waits}, query, backend_xid, \
         backend_xmin, application_name, usesysid is not null as is_user, {leader}, {query_id} \
         from pg_stat_activity where pid <> pg_backend_pid()"
    )
}

fn clock() -> String {
    format!("select '{CLOCK}', '', extract(epoch from clock_timestamp())::numeric::text")
}

/// Finished automatic vacuums and analyzes by table. The functions behind `pg_stat_all_tables`, which would also join
/// all indexes, cost a third of it. Only the tables of the session's own database can be asked for.
fn autovacuums(name: &str) -> String {
    format!(
        "select v.m, n.nspname || '.' || c.relname, v.x::text \
         from pg_class c join pg_namespace n on n.oid = c.relnamespace, lateral (values \
         ('database.autovacuums', pg_stat_get_autovacuum_count(c.oid)), \
         ('database.autoanalyzes', pg_stat_get_autoanalyze_count(c.oid))) v(m, x) \
         where c.relkind in ('r', 't', 'm') and v.x > 0 and current_database() = {name}"
    )
}

/// Functions for the difference of two positions in WAL, for the last position replayed, and for the current one.
fn functions_of_wal(version_num: u32) -> (&'static str, &'static str, &'static str) {
    let release = Release::new(version_num);
    (
        release.name(functions::WAL_DIFFERENCE),
        release.name(functions::WAL_REPLAYED),
        release.name(functions::WAL_WRITTEN),
    )
}

fn wal_position(version_num: u32) -> String {
    let (diff, replayed, current) = functions_of_wal(version_num);
    format!(
        "select 'server.wal_bytes', '', \
         {diff}(case when pg_is_in_recovery() then {replayed}() else {current}() end, '0/0')::text"
    )
}

/// Bytes of the files in `pg_wal`, also of those that are kept to be reused. Before 10 only a superuser may look; 9.4 fails for a file that
/// goes meanwhile, and is not asked.
fn wal_directory(version_num: u32) -> String {
    let release = Release::new(version_num);
    let sum = if release.has(functions::LIST_OF_WAL) {
        "(select sum(size) from pg_ls_waldir())".to_string()
    } else if release.has(functions::FILES_MAY_BE_MISSING) {
        "(select sum((pg_stat_file('pg_xlog/' || f, true)).size) from pg_ls_dir('pg_xlog') f where f ~ '^[0-9A-F]{24}$')"
            .to_string()
    } else {
        "null::numeric".to_string()
    };
    format!("select '{WAL_DIRECTORY}', '', v.x::text from (values ({sum})) v(x) where v.x is not null")
}

fn connections() -> String {
    // States of a load are reported even if no session is in them; `hidden` is a state that this role cannot see.
    "select 'server.connections', s.state, count(a.kind)::text \
     from (values ('active'), ('idle'), ('idle in transaction'), ('idle in transaction (aborted)'), \
     ('fastpath function call'), ('disabled'), ('hidden')) s(state) \
     left join a on coalesce(a.state, 'hidden') = s.state and a.kind = 'client backend' group by s.state \
     having count(a.kind) > 0 or s.state like '%idle%' or s.state = 'active'"
        .to_string()
}

fn waits() -> String {
    // A session that is idle within a transaction waits for its client (`Client:ClientRead`). How many run is unknown where the state
    // of one that may run is hidden, or not tracked (`track_activities`).
    "select 'server.waiting', wait_event_type || ':' || wait_event, count(*)::text from a \
     where wait_event is not null and state <> 'idle' \
     and kind in ('client backend', 'parallel worker', 'autovacuum worker') group by 2 \
     union all select 'server.on_cpu', '', case when not coalesce(bool_or(is_hidden or state = 'disabled'), false) \
     then (count(*) filter (where wait_event is null and state = 'active'))::text end from a \
     where kind in ('client backend', 'parallel worker')"
        .to_string()
}

fn gauges(version_num: u32) -> String {
    // Before 10, a hidden session may be an autovacuum worker.
    let tells_types = Release::new(version_num).has(statistics::BACKEND_TYPES);
    let is_known = if tells_types { "true" } else { "not coalesce(bool_or(is_hidden), false)" };
    format!(
        "select 'server.autovacuum_workers', '', \
     case when {is_known} then (count(*) filter (where kind = 'autovacuum worker'))::text end from a \
     union all select 'server.oldest_snapshot_age', '', \
     coalesce(max(greatest(age(backend_xid), age(backend_xmin))), 0)::text from a"
    )
}

/// Metric, instance and expression, as the rows of a lateral `values`.
fn unfold(from: &str, instance: &str, rows: &[(&str, &str, &str)]) -> String {
    let values: Vec<String> = rows
        .iter()
        .map(|(metric, instance, value)| format!("('{metric}', '{instance}', ({value})::numeric)"))
        .collect();
    format!(
        "select v.m, {instance}, v.x::text from {from}, lateral (values {}) v(m, i, x) where v.x is not null",
        values.join(", ")
    )
}

fn checkpoints(release: Release) -> String {
    // One write may cover many blocks where bytes are counted.
    let blocks = if release.has(statistics::IO_IN_BYTES) {
        "write_bytes / current_setting('block_size')::numeric"
    } else {
        "writes"
    };
    let from = if release.has(statistics::CHECKPOINTER) {
        format!(
            "pg_stat_bgwriter b, pg_stat_checkpointer c, (select sum({blocks}) as written, sum(fsyncs) as fsyncs \
             from pg_stat_io where object = 'relation' and backend_type not in ('checkpointer', 'background writer')) o"
        )
    } else {
        "pg_stat_bgwriter b".to_string()
    };
    unfold(&from, "v.i", &release.of(&statistics::CHECKPOINT_COLUMNS))
}

fn database_counters(name: &str, release: Release) -> String {
    let sql = unfold("pg_stat_database d", "v.i", &release.of(&statistics::DATABASE_COLUMNS));
    format!("{sql} and d.datname = {name}")
}

fn archiver() -> String {
    let rows =
        [("server.archived", "", "r.archived_count"), ("server.archive_failures", "", "r.failed_count")];
    unfold("pg_stat_archiver r", "v.i", &rows)
}

/// Lags of receivers of WAL. Those of one name are one: the one that is furthest behind.
fn replication(version_num: u32) -> String {
    let is_old = !Release::new(version_num).has(statistics::REPLICATION_LAGS);
    let stages = ["write", "flush", "replay"].map(|stage| {
        let lag = if is_old { "null::interval".to_string() } else { format!("r.{stage}_lag") };
        format!("('{stage}', r.{stage}_{}, {lag})", if is_old { "location" } else { "lsn" })
    });
    let (diff, replayed, current) = functions_of_wal(version_num);
    let place = format!("case when pg_is_in_recovery() then {replayed}() else {current}() end");
    format!(
        "select v.m, v.i, v.x::text from (select left(r.application_name, 100) || '/' || s.stage as i, \
         max(greatest({diff}({place}, s.place), 0)) as bytes, \
         max(extract(epoch from s.lag)::numeric) as lag from pg_stat_replication r, lateral (values {}) s(stage, place, lag) \
         where s.place is not null group by 1 order by 1 limit 60) l, \
         lateral (values ('server.replication_lag_bytes', l.i, l.bytes), ('server.replication_lag', l.i, l.lag)) v(m, i, x) \
         where v.x is not null",
        stages.join(", ")
    )
}

fn slru() -> String {
    let rows = [
        ("server.slru.reads", "", "u.blks_read"),
        ("server.slru.writes", "", "u.blks_written"),
        ("server.slru.hits", "", "u.blks_hit"),
    ];
    format!("{} and v.x > 0", unfold("pg_stat_slru u", "u.name", &rows))
}

/// Only the session's own database has the counters of its tables at hand.
fn hot_updates(name: &str) -> String {
    format!(
        "select 'database.hot_updates', '', coalesce(sum(pg_stat_get_tuples_hot_updated(c.oid)), 0)::text \
         from pg_class c where c.relkind in ('r', 't', 'm') having current_database() = {name}"
    )
}

fn table_sizes(name: &str) -> String {
    format!(
        "select 'database.table_bytes', t.name, pg_total_relation_size(t.oid)::text from (select c.oid, \
         n.nspname || '.' || c.relname as name from pg_class c join pg_namespace n on n.oid = c.relnamespace \
         where c.relkind = 'r' and n.nspname not in ('pg_catalog', 'information_schema') and current_database() = {name} \
         order by c.relpages desc, 2 limit 20) t"
    )
}

fn wal(release: Release) -> String {
    unfold("pg_stat_wal w", "v.i", &release.of(&statistics::WAL_COLUMNS))
}

fn io(release: Release) -> String {
    let instance = "io.backend_type || ':' || io.object || ':' || io.context";
    let sql = unfold("pg_stat_io io", instance, &release.of(&statistics::IO_COLUMNS));
    format!("{sql} and v.x > 0")
}

#[cfg(test)]
mod tests {
    use model::telemetry::metric::METRICS;

    use super::*;

    fn text(version_num: u32) -> String {
        let scope = StatisticsScope {
            database: "it's",
            wants_autovacuum: true,
            wants_clients: true,
            observer: "pgdyno observer",
            extension: None,
        };
        statement(version_num, parts(version_num, scope).iter())
    }

    #[test]
    fn every_metric_that_is_asked_for_is_a_row_of_the_table() {
        for version_num in [90_624, 100_023, 140_000, 150_018, 160_000, 170_000, 180_006] {
            let text = text(version_num);
            let names =
                text.split('\'').filter(|word| word.starts_with("server.") || word.starts_with("database."));
            let mut n = 0;
            for name in names {
                assert!(METRICS.iter().any(|metric| metric.name == name), "{name}");
                n += 1;
            }
            assert!(n > 25, "{n}");
        }
    }

    #[test]
    fn each_version_is_asked_only_for_what_it_has() {
        for (version_num, has, has_not) in [
            (90_426, "case when waiting", "backend_type"),
            (90_624, "pg_current_xlog_location", "pg_stat_wal"),
            (90_624, "wait_event", "case when waiting"),
            (90_624, "checkpoints_timed", "backend_type"),
            (100_023, "pg_current_wal_lsn", "xlog"),
            (90_624, "client_port is null", "background worker"),
            (100_023, "= 'background worker'", "client_port"),
            (120_023, "null::integer as leader_pid", "background worker"),
            (130_023, "backend_type", "pg_stat_wal"),
            (140_000, "wal_sync", "pg_stat_io"),
            (160_000, "op_bytes", "pg_stat_checkpointer"),
            (170_000, "num_timed", "checkpoints_req"),
            (180_006, "write_bytes", "op_bytes"),
            (180_006, "wal_fpi", "wal_sync"),
            (180_006, "wal_fpi", "wal_fpi_bytes"),
            (190_000, "wal_fpi_bytes", "wal_sync"),
            (90_426, "null::numeric", "pg_stat_file"),
            (90_624, "pg_stat_file('pg_xlog/' || f, true)", "pg_ls_waldir"),
            (100_023, "pg_ls_waldir()", "pg_stat_file('pg_xlog"),
        ] {
            let text = text(version_num);
            assert!(text.contains(has), "{version_num} {has}");
            assert!(!text.contains(has_not), "{version_num} {has_not}");
        }
        assert!(text(150_000).contains("datname = 'it''s'"));
        assert!(
            identity(180_006).ends_with("current_setting('log_autovacuum_min_duration') as log_autovacuum")
        );
        assert!(identity(190_000).contains("current_setting('log_autoanalyze_min_duration')"));
        assert!(!session_settings(90_624, 5000).contains("jit"));
        assert!(!session_settings(90_525, 5000).contains("parallel"));
        let ends = |version_num: u32| session_settings(version_num, 5000).matches("timeout = 0").count();
        assert_eq!([90_525, 130_000, 140_000, 170_000].map(ends), [0, 1, 2, 3]);
    }
}
