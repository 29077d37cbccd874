//! Steps that bring a server into a known state before a run. Each returns facts by name for the phase's record,
//! including what it skipped and why.

use std::collections::{BTreeMap, BTreeSet};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use model::release::{Release, functions, statistics};
use wire::{Session, quote_ident};

use crate::database::facts::{ask, may_checkpoint, version_num};

/// Facts of a step, by name.
pub type StepDetail = BTreeMap<String, String>;

/// Pause between two looks at a server that should become quiet.
const LOOK_PAUSE: Duration = Duration::from_millis(250);
/// Consecutive looks that must find the server quiet.
const QUIET_LOOKS: u32 = 3;

/// `VACUUM` of each table (`table` or `schema.table`).
pub fn vacuum(session: &mut Session, tables: &[&str]) -> Result<StepDetail> {
    each_table(session, "VACUUM", tables)
}

/// `ANALYZE` of each table (`table` or `schema.table`).
pub fn analyze(session: &mut Session, tables: &[&str]) -> Result<StepDetail> {
    each_table(session, "ANALYZE", tables)
}

/// `VACUUM` and `ANALYZE` of the catalogs of the session's database. In a new cluster they have never been
/// run: autovacuum would process the catalogs in each run that begins from its snapshot.
///
/// # Errors
/// When the server reports one.
pub fn tend_catalogs(session: &mut Session) -> Result<()> {
    session.execute("SET synchronous_commit = off")?;
    let names = session.query(
        "select n.nspname || '.' || c.relname as name from pg_class c join pg_namespace n on n.oid = c.relnamespace \
         where c.relkind = 'r' and n.nspname in ('pg_catalog', 'information_schema')",
    )?;
    let names: Vec<&str> = (0..names.len()).filter_map(|row| names.get(row, "name")).collect();
    each_table(session, "VACUUM ANALYZE", &names).map(drop)
}

/// `VACUUM` and `ANALYZE` of what [`tend_catalogs`] itself wrote. Needs another session, because a session reports its
/// statistics when it ends.
///
/// # Errors
/// When the server reports one.
pub fn tend_statistics(session: &mut Session) -> Result<()> {
    vacuum(session, &["pg_catalog.pg_statistic"]).map(drop)
}

/// `CHECKPOINT`, so that none is due soon; skipped if the user has no privilege for it.
pub fn checkpoint(session: &mut Session) -> Result<StepDetail> {
    let version_num = version_num(session)?;
    if !may_checkpoint(session, version_num) {
        return Ok(skipped("the user is neither superuser nor, since 15, in the role pg_checkpoint"));
    }
    let began = Instant::now();
    session.execute("CHECKPOINT").context("CHECKPOINT failed")?;
    Ok(StepDetail::from([("seconds".to_string(), seconds(began))]))
}

/// Waits until the server does nothing but serve this session: no other active session (including another
/// pgdyno's), no autovacuum worker, no checkpoint, no WAL being written. Ends at the deadline at the latest. If nothing was seen
/// at work, but something is there of which our user cannot see what it does, whether the server is quiet is `unknown`.
pub fn settle(session: &mut Session, deadline: Duration) -> Result<StepDetail> {
    let version_num = version_num(session)?;
    let began = Instant::now();
    let (mut waited_for, mut unseen) = (BTreeSet::new(), BTreeSet::new());
    let (mut quiet_looks, mut last_wal) = (0, String::new());
    loop {
        let Look { mut busy, hidden, wal } = look(session, version_num)?;
        if !last_wal.is_empty() && wal != last_wal {
            busy.insert("wal".to_string());
        }
        last_wal = wal;
        quiet_looks = if busy.is_empty() { quiet_looks + 1 } else { 0 };
        waited_for.extend(busy.iter().cloned());
        unseen.extend(hidden);
        let is_quiet = quiet_looks >= QUIET_LOOKS;
        if is_quiet || began.elapsed() >= deadline {
            let list = |set: &BTreeSet<String>| set.iter().cloned().collect::<Vec<_>>().join(", ");
            let quiet =
                if is_quiet && !unseen.is_empty() { "unknown".to_string() } else { is_quiet.to_string() };
            let mut detail =
                StepDetail::from([("seconds".to_string(), seconds(began)), ("quiet".to_string(), quiet)]);
            let mut insert = |name: &str, set: &BTreeSet<String>| {
                if !set.is_empty() {
                    detail.insert(name.to_string(), list(set));
                }
            };
            insert("waited_for", &waited_for);
            insert("unseen", &unseen);
            if !is_quiet {
                detail.insert("still_busy".to_string(), list(&busy));
            }
            return Ok(detail);
        }
        thread::sleep(LOOK_PAUSE);
    }
}

/// One look at a server.
struct Look {
    /// Activities other than those of this session.
    busy: BTreeSet<String>,
    /// Sessions that are there, of which nobody here knows whether they work.
    hidden: BTreeSet<String>,
    /// The end of its WAL.
    wal: String,
}

/// Processes of which our user cannot see what they do.
const HIDDEN: &str = "hidden ";

fn look(session: &mut Session, version_num: u32) -> Result<Look> {
    // 9.6 shows no background processes except autovacuum workers. An idle checkpointer waits in its main loop;
    // the wait events of another user's processes may be hidden, and hidden means neither busy nor quiet. What has a database and
    // no user is an autovacuum worker, hidden or not.
    let release = Release::new(version_num);
    let kinds = if !release.has(statistics::BACKEND_TYPES) {
        format!(
            "case when query like 'autovacuum: %' then 'autovacuum' when state = 'active' then 'sessions' \
                  when state = 'disabled' then '{HIDDEN}sessions without track_activities' \
                  when query = '<insufficient privilege>' then '{HIDDEN}sessions of other roles' end"
        )
    } else {
        format!(
            "case when backend_type = 'autovacuum worker' then 'autovacuum' \
                  when backend_type = 'checkpointer' and wait_event is distinct from 'CheckpointerMain' then 'checkpoint' \
                  when backend_type in ('client backend', 'parallel worker') and state = 'active' then 'sessions' \
                  when backend_type in ('client backend', 'parallel worker') and state = 'disabled' \
                    then '{HIDDEN}sessions without track_activities' \
                  when backend_type is not null then null \
                  when datid is null then '{HIDDEN}background processes' \
                  when usesysid is null and not pg_is_in_recovery() then 'autovacuum' \
                  else '{HIDDEN}sessions of other roles' end"
        )
    };
    let sql = format!("select distinct {kinds} from pg_stat_activity where pid <> pg_backend_pid()");
    let rows = session.query(&sql).context("look at the server's activity")?;
    let seen = rows.rows.into_iter().filter_map(|row| row.into_iter().next().flatten());
    let (hidden, busy): (BTreeSet<String>, _) = seen.partition(|what| what.starts_with(HIDDEN));
    let hidden = hidden.into_iter().map(|what| what.trim_start_matches(HIDDEN).to_string()).collect();
    let (current, replayed) = (release.name(functions::WAL_INSERTED), release.name(functions::WAL_REPLAYED));
    let sql = format!("select case when pg_is_in_recovery() then {replayed}() else {current}() end");
    // A managed service may hide it; then it is ignored.
    Ok(Look { busy, hidden, wal: ask(session, &sql).unwrap_or_default() })
}

fn each_table(session: &mut Session, command: &str, tables: &[&str]) -> Result<StepDetail> {
    let began = Instant::now();
    let mut detail = StepDetail::new();
    session.take_notices();
    for table in tables {
        let table_began = Instant::now();
        let sql = format!("{command} {}", quote_name(table));
        session.execute(&sql).with_context(|| format!("{command} of `{table}` failed"))?;
        detail.insert(format!("{table}_s"), seconds(table_began));
        // A table of another owner is skipped with a warning.
        let warnings: Vec<String> = session.take_notices().into_iter().map(|notice| notice.message).collect();
        if !warnings.is_empty() {
            detail.insert(format!("{table}_warning"), warnings.join("; "));
        }
    }
    detail.insert("seconds".to_string(), seconds(began));
    Ok(detail)
}

/// `schema.table` with both parts quoted. The schema's name may contain a dot, but the table's does not.
pub(crate) fn quote_name(name: &str) -> String {
    match name.rsplit_once('.') {
        Some((schema, table)) => format!("{}.{}", quote_ident(schema), quote_ident(table)),
        None => quote_ident(name),
    }
}

pub(crate) fn skipped(reason: &str) -> StepDetail {
    StepDetail::from([("skipped".to_string(), reason.to_string())])
}

pub(crate) fn seconds(since: Instant) -> String {
    format!("{:.3}", since.elapsed().as_secs_f64())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_tables_are_quoted_part_by_part() {
        assert_eq!(quote_name("accounts"), "\"accounts\"");
        assert_eq!(quote_name("public.A\"b"), "\"public\".\"A\"\"b\"");
        assert_eq!(quote_name("v1.2.accounts"), "\"v1.2\".\"accounts\"");
    }
}
