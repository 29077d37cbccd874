//! Code of another user that reading the tables of a store, or writing into them, would run with the rights of this session. The tables
//! that the migrations create have none of it.
//!
//! Policies of row security count here although the session has `row_security` off: such a table could not be read whole anyway.

use anyhow::{Context, Result, ensure};
use wire::{Session, quote_literal};

use crate::SCHEMA;

/// What a session does with the tables.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SessionPurpose {
    Read,
    Write,
}

/// The tables that a result is read from.
const READ: [&str; 4] = ["migration", "experiment", "file", "file_part"];
/// The tables that a push fills, too.
const FILLED: [&str; 7] = ["cases", "runs", "phases", "intervals", "readings", "findings", "comparisons"];

/// Comment on the schema that says whose it is.
pub(crate) const MARK: &str = "results of pgdyno";

/// Limit for the message, which has one line.
const NAMED_MAX: usize = 5;

impl SessionPurpose {
    fn tables(self) -> Vec<&'static str> {
        match self {
            SessionPurpose::Read => READ.to_vec(),
            SessionPurpose::Write => [&READ[..], &FILLED].concat(),
        }
    }
}

/// Locks the tables against changes of what they are until the end of the transaction, and fails if they have code of others. A
/// transaction with one snapshot begins with it, so that the snapshot is later than the locks.
///
/// # Errors
/// See [`expect_none`].
pub(crate) fn hold(session: &mut Session, purpose: SessionPurpose) -> Result<()> {
    // CREATE TRIGGER and CREATE RULE wait for the second one, too.
    let mode = match purpose {
        SessionPurpose::Read => "ACCESS SHARE",
        SessionPurpose::Write => "ROW EXCLUSIVE",
    };
    let tables: Vec<String> = purpose.tables().iter().map(|table| format!("{SCHEMA}.{table}")).collect();
    session.execute(&format!("LOCK TABLE {} IN {mode} MODE", tables.join(", ")))?;
    // The schema may be another one since it was looked at: now nobody but its owner can put one in its place.
    expect_trusted(session, purpose)?;
    expect_none(session, purpose)
}

/// Whether there is a schema; it is pgdyno's, and belongs to somebody whose objects the session may use.
///
/// # Errors
/// Otherwise, or when the server fails.
pub(crate) fn expect_trusted(session: &mut Session, purpose: SessionPurpose) -> Result<bool> {
    let found = session.query_params(OWNER, &[Some(SCHEMA)])?;
    let Some(mark) = found.get(0, "mark") else { return Ok(false) };
    ensure!(
        mark == MARK,
        "the store has a schema `{SCHEMA}` that pgdyno did not create (its comment is not `{MARK}`); use another database"
    );
    let holds = |column: &str| found.get(0, column) == Some("t");
    let owner = found.get(0, "owner").unwrap_or_default();
    ensure!(
        holds("is_trusted") || (purpose == SessionPurpose::Read && !holds("is_superuser")),
        "the schema `{SCHEMA}` of the store belongs to the role `{owner}`, whose triggers and views would run with the rights of this \
         session; connect to the store as that role"
    );
    Ok(true)
}

/// The mark of the schema, its owner, and whether this session may run the owner's triggers, defaults and views: it is the owner's, or
/// the owner is a superuser. Who is a member of the owner, or a superuser, has its rights, and trusts it with none. The session's role is the
/// one that logged in, whose rights code of any other one could take back.
const OWNER: &str = "SELECT coalesce(obj_description(n.oid, 'pg_namespace'), '') AS mark, o.rolname AS owner, me.rolsuper AS is_superuser, \
                            o.rolsuper OR o.oid = me.oid AS is_trusted \
                       FROM pg_namespace n JOIN pg_roles o ON o.oid = n.nspowner JOIN pg_roles me ON me.rolname = session_user \
                      WHERE n.nspname = $1";

/// Fails if one of the tables, or a part of it, has code of a user who is neither the session's own nor a superuser.
///
/// # Errors
/// Names what it is and whose, or when the server fails.
pub(crate) fn expect_none(session: &mut Session, purpose: SessionPurpose) -> Result<()> {
    let tables: Vec<String> = purpose.tables().into_iter().map(quote_literal).collect();
    let sql = TRAPS
        .replace("{writing}", if purpose == SessionPurpose::Write { WRITING } else { "" })
        .replace("{schema}", &quote_literal(SCHEMA))
        .replace("{tables}", &tables.join(", "));
    let rows = session.query(&sql).context("look for code of others in the store")?;
    let mut found = rows.into_first_column();
    found.truncate(NAMED_MAX);
    ensure!(
        found.is_empty(),
        "the store has what could run code of another user with the rights of this session: {}; connect to the store as that role, or \
         have it removed",
        found.join(", ")
    );
    Ok(())
}

/// OIDs from 16384 on are of objects that initdb did not make (`FirstNormalObjectId`). The session's role is the one that logged in, not
/// one that it has taken since (`SET ROLE`): code of that one could take the rights back.
const TRAPS: &str = "WITH RECURSIVE t(oid) AS ( \
       SELECT c.oid FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname = {schema} AND c.relname IN ({tables}) \
     UNION SELECT i.inhrelid FROM pg_inherits i JOIN t ON i.inhparent = t.oid), \
     trap(relation, what, author) AS ( \
       SELECT oid, CASE relkind WHEN 'v' THEN 'a view' ELSE 'no plain table' END, relowner FROM pg_class WHERE relkind <> 'r' \
     UNION ALL SELECT oid, 'row security', relowner FROM pg_class WHERE relrowsecurity \
     UNION ALL SELECT a.attrelid, 'the type of column `' || a.attname || '`', c.relowner FROM pg_attribute a \
         JOIN pg_class c ON c.oid = a.attrelid WHERE a.attnum > 0 AND NOT a.attisdropped AND a.atttypid >= 16384 \
     UNION ALL SELECT i.indrelid, 'an expression of index `' || x.relname || '`', x.relowner FROM pg_index i \
         JOIN pg_class x ON x.oid = i.indexrelid WHERE i.indexprs IS NOT NULL OR i.indpred IS NOT NULL \
     UNION ALL SELECT k.conrelid, 'constraint `' || k.conname || '`', c.relowner FROM pg_constraint k \
         JOIN pg_class c ON c.oid = k.conrelid WHERE k.contype = 'c' \
     UNION ALL SELECT e.stxrelid, 'an expression of statistics `' || e.stxname || '`', c.relowner FROM pg_statistic_ext e \
         JOIN pg_class c ON c.oid = e.stxrelid WHERE to_jsonb(e) ->> 'stxexprs' IS NOT NULL{writing}) \
     SELECT DISTINCT trap.what || ' (`' || n.nspname || '.' || c.relname || '`, by `' || r.rolname || '`)' AS found \
       FROM t JOIN trap ON trap.relation = t.oid JOIN pg_class c ON c.oid = t.oid JOIN pg_namespace n ON n.oid = c.relnamespace \
       JOIN pg_roles r ON r.oid = trap.author WHERE NOT r.rolsuper AND r.rolname <> session_user ORDER BY 1";

/// A trigger is its table's owner's and its function's; whoever has the privilege TRIGGER on a table may add one. The defaults are those
/// of the migrations, as the server writes them if no schema before `pg_catalog` has such a function.
const WRITING: &str = " \
     UNION ALL SELECT g.tgrelid, 'trigger `' || g.tgname || '`', a.author FROM pg_trigger g JOIN pg_class c ON c.oid = g.tgrelid \
         JOIN pg_proc p ON p.oid = g.tgfoid CROSS JOIN LATERAL (VALUES (c.relowner), (p.proowner)) a(author) WHERE NOT g.tgisinternal \
     UNION ALL SELECT w.ev_class, 'rule `' || w.rulename || '`', c.relowner FROM pg_rewrite w JOIN pg_class c ON c.oid = w.ev_class \
     UNION ALL SELECT d.adrelid, 'the default of column `' || a.attname || '`', c.relowner FROM pg_attrdef d \
         JOIN pg_class c ON c.oid = d.adrelid JOIN pg_attribute a ON a.attrelid = d.adrelid AND a.attnum = d.adnum \
        WHERE pg_get_expr(d.adbin, d.adrelid) NOT IN ('now()', 'false', '1')";
