//! Preparation before a load: reads scale and partitions of the tables, and vacuums.

use model::release::pgbench;
use wire::SessionError;
use wire::session::{Rows, Session};

use crate::compat::Compat;
use crate::messages::{Complaint, MessageKind, MessageLog};
use crate::server_text;

/// Facts about the standard tables.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct StandardTables {
    /// Rows of `pgbench_branches`.
    pub(crate) scale: u32,
    /// `range` or `hash`, if accounts are partitioned.
    pub(crate) partition_method: Option<&'static str>,
    /// Number of partitions.
    pub(crate) n_partitions: u32,
}

const COUNT_BRANCHES: &str = "select count(*) from pgbench_branches";

/// Finds the first `pgbench_accounts` of the search path and its partitions.
const FIND_PARTITIONS: &str = "select o.n, p.partstrat, pg_catalog.count(i.inhparent) \
    from pg_catalog.pg_class as c \
    join pg_catalog.pg_namespace as n on (n.oid = c.relnamespace) \
    cross join lateral (select pg_catalog.array_position(pg_catalog.current_schemas(true), n.nspname)) as o(n) \
    left join pg_catalog.pg_partitioned_table as p on (p.partrelid = c.oid) \
    left join pg_catalog.pg_inherits as i on (c.oid = i.inhparent) \
    where c.relname = 'pgbench_accounts' and o.n is not null \
    group by 1, 2 \
    order by 1 asc \
    limit 1";

/// Inspects the tables that the built-in scripts use. Overrides a given `scale`, with a warning.
pub(crate) fn inspect(
    session: &mut Session,
    dbname: &str,
    is_scale_given: bool,
    compat: Compat,
    log: &mut MessageLog,
) -> Result<StandardTables, Complaint> {
    let hint = format!("Perhaps you need to do initialization (\"pgbench -i\") in database \"{dbname}\".");
    let counted = session.query(COUNT_BRANCHES).map_err(|error| {
        let text = server_text::session_error(&error, COUNT_BRANCHES);
        let complaint = Complaint::new(format!("could not count number of branches: {text}"));
        match &error {
            SessionError::Server(error) if error.sqlstate == "42P01" => complaint.hint(hint.clone()),
            _ => complaint,
        }
    })?;
    let scale = counted.scalar().and_then(|n| n.parse().ok()).unwrap_or(0);
    if is_scale_given {
        let message = format!("scale option ignored, using count from pgbench_branches table ({scale})");
        log.say(MessageKind::Warning, &message);
    }
    // A server without partitioning has no partitions.
    let Ok(found) = session.query(FIND_PARTITIONS) else {
        return Ok(StandardTables { scale, ..StandardTables::default() });
    };
    if found.is_empty() {
        let path = if compat.has(pgbench::QUOTES_SEARCH_PATH) { "\"search_path\"" } else { "search_path" };
        return Err(Complaint::new(format!("no pgbench_accounts table found in {path}")).hint(hint));
    }
    let partition_method = partition_method(&found)?;
    Ok(StandardTables { scale, partition_method, n_partitions: found.parse(0, "count").unwrap_or(0) })
}

fn partition_method(found: &Rows) -> Result<Option<&'static str>, Complaint> {
    match found.get(0, "partstrat") {
        None => Ok(None),
        Some("r") => Ok(Some("range")),
        Some("h") => Ok(Some("hash")),
        Some(other) => Err(Complaint::new(format!("unexpected partition method: \"{other}\""))),
    }
}

/// Vacuums before a load; missing tables are no reason to give up.
pub(crate) fn vacuum(session: &mut Session, with_accounts: bool, log: &mut MessageLog) {
    log.write("starting vacuum...");
    for sql in ["vacuum pgbench_branches", "vacuum pgbench_tellers", "truncate pgbench_history"] {
        try_statement(session, sql, log);
    }
    log.write("end.\n");
    if with_accounts {
        log.write("starting vacuum pgbench_accounts...");
        try_statement(session, "vacuum analyze pgbench_accounts", log);
        log.write("end.\n");
    }
}

fn try_statement(session: &mut Session, sql: &str, log: &mut MessageLog) {
    if let Err(error) = session.execute(sql) {
        log.error(&server_text::session_error(&error, sql));
        log.say(MessageKind::Detail, "(ignoring this error and continuing anyway)");
    }
    show_notices(session, log);
}

/// Shows the server's notices, as libpq's programs do.
pub(crate) fn show_notices(session: &mut Session, log: &mut MessageLog) {
    for notice in session.take_notices() {
        log.write(&server_text::server_error(&notice, None));
    }
}
