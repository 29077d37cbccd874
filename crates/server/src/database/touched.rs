//! Rows of tables that were read and changed so far, from the server's statistics, which are read and never reset.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use model::release::{Release, statistics};
use model::run::touched::Touched;
use wire::Session;

use crate::database::facts::{ask, is_so};
use crate::database::relations::{Missing, with_parts_of_each};

/// Limit for the statistics of sessions that have just ended to arrive.
const ARRIVAL_MAX: Duration = Duration::from_secs(2);

/// Pause between two looks at statistics that may still arrive. Before 15, a collector writes them twice a second
/// (PGSTAT_STAT_INTERVAL).
fn pause(session: &Session) -> Duration {
    Duration::from_millis(if is_shared(session) { 30 } else { 600 })
}

/// Whether the statistics are in memory that all sessions share.
fn is_shared(session: &Session) -> bool {
    Release::new(session.server_version_num()).has(statistics::IN_SHARED_MEMORY)
}

/// Whether a session can report its own counts at once, instead of when it ends or some statements later.
pub fn reports_on_request(session: &mut Session) -> bool {
    is_shared(session) && ask(session, "select 1 from pg_catalog.pg_stat_force_next_flush()").is_ok()
}

/// Rows of each table (`table` or `schema.table`), with its partitions, that were read and changed since the statistics
/// were reset; without [`pages`]. Empty if the server does not count.
///
/// # Errors
/// When a table is missing or the server fails.
pub fn so_far(session: &mut Session, tables: &[&str]) -> Result<BTreeMap<String, Touched>> {
    if !is_so(session, "select pg_catalog.current_setting('track_counts')::boolean") {
        return Ok(BTreeMap::new());
    }
    let rows = session.query(&sql(tables)).context("read the statistics of tables")?;
    let mut touched = BTreeMap::new();
    for (i, table) in tables.iter().enumerate() {
        let number =
            |name: &str| rows.parse::<u64>(i, name).with_context(|| format!("no statistics of `{table}`"));
        let of_table = Touched {
            rows_read: number("rows_read")?,
            rows_changed: number("rows_changed")?,
            rows_inserted: number("rows_inserted")?,
            pages: 0,
        };
        touched.insert((*table).to_string(), of_table);
    }
    Ok(touched)
}

/// Pages of each table (`table` or `schema.table`), with its partitions. Asking for them takes a lock on each.
///
/// # Errors
/// When a table is missing or the server fails.
pub fn pages(session: &mut Session, tables: &[&str]) -> Result<BTreeMap<String, u64>> {
    let sql = format!(
        "{}
         select (coalesce(sum(pg_catalog.pg_relation_size(p.oid)), 0)
                 / pg_catalog.current_setting('block_size')::bigint)::bigint as pages
           from parts p group by n order by n",
        with_parts_of_each(tables, Missing::Fails)
    );
    let rows = session.query(&sql).context("read the sizes of tables")?;
    let of_table = |(i, table): (usize, &&str)| Some((table.to_string(), rows.parse(i, "pages")?));
    Ok(tables.iter().enumerate().filter_map(of_table).collect())
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

/// A row for each table, in order. The server's functions are called for these tables only: its views read the statistics
/// of all relations, each time. Entries that index scans returned count as rows read even if a scan needed the index only.
fn sql(tables: &[&str]) -> String {
    format!(
        "{}
         select sum(pg_catalog.pg_stat_get_tuples_returned(p.oid)
                    + (select coalesce(sum(pg_catalog.pg_stat_get_tuples_returned(x.indexrelid)), 0)
                         from pg_catalog.pg_index x where x.indrelid = p.oid))::bigint as rows_read,
                sum(pg_catalog.pg_stat_get_tuples_inserted(p.oid) + pg_catalog.pg_stat_get_tuples_updated(p.oid)
                    + pg_catalog.pg_stat_get_tuples_deleted(p.oid))::bigint as rows_changed,
                sum(pg_catalog.pg_stat_get_tuples_inserted(p.oid))::bigint as rows_inserted
           from parts p group by n order by n",
        with_parts_of_each(tables, Missing::Fails)
    )
}
