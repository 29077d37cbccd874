//! Rights on tables that are used as they are: those that a workload's transactions need, and that to tend them. Loading them needs
//! more, see `clearance`.

use anyhow::{Context, Result};
use model::experiment::case::WorkloadKind;
use model::release::{Release, privileges};
use wire::session::{Session, quote_literal};

use super::WorkloadTables;

/// How many of the tables the user cannot VACUUM and ANALYZE, which the server then skips, and how many there are
/// (`vacuum_is_permitted_for_relation` of PostgreSQL 18).
///
/// # Errors
/// When the server fails.
pub fn untended(session: &mut Session, home: &WorkloadTables) -> Result<[u64; 2]> {
    let maintain = if Release::new(session.server_version_num()).has(privileges::MAINTAIN) {
        " or pg_catalog.has_table_privilege(c.oid, 'MAINTAIN')"
    } else {
        ""
    };
    let names: Vec<String> = home.dataset.tables().into_iter().map(quote_literal).collect();
    let sql = format!(
        "select pg_catalog.pg_has_role(c.relowner, 'USAGE') or pg_catalog.pg_has_role(d.datdba, 'USAGE'){maintain} as may \
           from pg_catalog.pg_class c join pg_catalog.pg_namespace n on n.oid = c.relnamespace \
           join pg_catalog.pg_database d on d.datname = pg_catalog.current_database() \
          where n.nspname = {} and c.relname in ({})",
        quote_literal(home.schema.name()),
        names.join(", ")
    );
    let may = session.query(&sql).context("look for rights to tend the tables")?.into_first_column();
    Ok([may.iter().filter(|may| *may == "f").count() as u64, may.len() as u64])
}

/// The problem that the user lacks rights that the workload needs, if so. A right on any column is enough to pass.
///
/// # Errors
/// When the server fails.
pub fn lacks(session: &mut Session, home: &WorkloadTables, kind: WorkloadKind) -> Result<Option<String>> {
    let rows: Vec<String> = (kind.row().access)
        .iter()
        .flat_map(|(table, rights)| rights.iter().map(move |right| (table, right)))
        .map(|(table, right)| format!("({}::name, {}::text)", quote_literal(table), quote_literal(right)))
        .collect();
    if rows.is_empty() {
        return Ok(None);
    }
    let sql = format!(
        "select v.needed || ' on `' || n.nspname || '.' || c.relname || '`' \
           from (values {}) v(name, needed) \
           join pg_catalog.pg_namespace n on n.nspname = {} \
           join pg_catalog.pg_class c on c.relnamespace = n.oid and c.relname = v.name \
          where not case when v.needed = 'DELETE' then pg_catalog.has_table_privilege(c.oid, v.needed) \
                else pg_catalog.has_any_column_privilege(c.oid, v.needed) end \
          order by c.relname, v.needed",
        rows.join(", "),
        quote_literal(home.schema.name())
    );
    let rows = session.query(&sql).context("look for rights on the tables")?;
    let missing = rows.into_first_column();
    if missing.is_empty() {
        return Ok(None);
    }
    let user = session.query("select current_user")?.scalar().unwrap_or_default().to_string();
    let ways = if missing.iter().any(|right| right.starts_with("SELECT ")) {
        "grant that, or connect as another role"
    } else {
        "grant that, connect as another role, or choose a workload that only reads (--workload tpcb-select)"
    };
    Ok(Some(format!("the workload needs {}, which `{user}` lacks; {ways}", missing.join(", "))))
}
