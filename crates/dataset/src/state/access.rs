//! Rights that a workload's transactions need on tables that are used as they are. Loading them needs more, see `clearance`.

use anyhow::{Context, Result};
use model::experiment::case::WorkloadKind;
use wire::session::{Session, quote_literal};

use super::Home;

/// The problem that the user lacks rights that the workload needs, if so. A right on any column is enough to pass.
///
/// # Errors
/// When the server fails.
pub fn lacks(session: &mut Session, home: &Home, kind: WorkloadKind) -> Result<Option<String>> {
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
    Ok(Some(format!(
        "the workload needs {}, which `{user}` lacks; grant that, connect as another role, or choose a workload that only \
         reads (--workload tpcb-select)",
        missing.join(", ")
    )))
}
