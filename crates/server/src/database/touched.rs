//! Rows of tables that were read and changed so far, from the server's statistics, which are read and never reset.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use model::run::touched::Touched;
use wire::Session;

use crate::database::facts::{ask, is_so};
use crate::database::relations::{Missing, with_parts};

/// Limit for the statistics of sessions that have just ended to arrive.
const ARRIVAL_MAX: Duration = Duration::from_secs(2);

/// Pause between two looks at statistics that may still arrive. Before 15, a collector writes them twice a second
/// (PGSTAT_STAT_INTERVAL).
fn pause(session: &Session) -> Duration {
    Duration::from_millis(if session.server_version_num() >= 150_000 { 30 } else { 600 })
}

/// Whether a session can report its own counts at once, instead of when it ends or some statements later.
pub fn reports_on_request(session: &mut Session) -> bool {
    session.server_version_num() >= 150_000
        && ask(session, "select 1 from pg_catalog.pg_stat_force_next_flush()").is_ok()
}

/// Rows of each table (`table` or `schema.table`), with its partitions, that were read and changed since the statistics
/// were reset. Empty if the server does not count.
///
/// # Errors
/// When a table is missing or the server fails.
pub fn so_far(session: &mut Session, tables: &[&str]) -> Result<BTreeMap<String, Touched>> {
    if !is_so(session, "select pg_catalog.current_setting('track_counts')::boolean") {
        return Ok(BTreeMap::new());
    }
    let mut touched = BTreeMap::new();
    for table in tables {
        let rows = session.query(&sql(table)).with_context(|| format!("read the statistics of `{table}`"))?;
        let number = |name: &str| rows.parse::<u64>(0, name);
        let found = number("rows_read").zip(number("rows_changed"));
        let (rows_read, rows_changed) = found.with_context(|| format!("no statistics of `{table}`"))?;
        touched.insert((*table).to_string(), Touched { rows_read, rows_changed });
    }
    Ok(touched)
}

/// The same when the sessions of these processes have ended, which report their last counts then, and when it no longer
/// changes.
///
/// # Errors
/// As [`so_far`].
pub fn settled(session: &mut Session, tables: &[&str], pids: &[i32]) -> Result<BTreeMap<String, Touched>> {
    let (began, pause) = (Instant::now(), pause(session));
    let pids: Vec<String> = pids.iter().map(i32::to_string).collect();
    let have_ended = format!(
        "select not exists (select 1 from pg_catalog.pg_stat_activity where pid = any ('{{{}}}'::int[]))",
        pids.join(",")
    );
    while began.elapsed() < ARRIVAL_MAX && !is_so(session, &have_ended) {
        std::thread::sleep(Duration::from_millis(30));
    }
    let mut known = so_far(session, tables)?;
    loop {
        std::thread::sleep(pause);
        let now = so_far(session, tables)?;
        if now == known || began.elapsed() > ARRIVAL_MAX {
            return Ok(now);
        }
        known = now;
    }
}

/// Entries that index scans returned count as rows read even if a scan needed the index only.
fn sql(table: &str) -> String {
    format!(
        "{}
         select (coalesce(sum(s.seq_tup_read), 0)
                 + (select coalesce(sum(x.idx_tup_read), 0) from pg_catalog.pg_stat_all_indexes x
                     where x.relid in (select oid from t)))::bigint as rows_read,
                coalesce(sum(s.n_tup_ins + s.n_tup_upd + s.n_tup_del), 0)::bigint as rows_changed
           from pg_catalog.pg_stat_all_tables s where s.relid in (select oid from t)",
        with_parts(&[table], Missing::Fails)
    )
}
