//! Tables of a database that carry pgdyno's mark: what `clean` leaves, because somebody may want their data.

use anyhow::{Context, Result};
use wire::session::Session;
use workload::objects::marker::Marker;

/// Tables of this database whose comment is the marker of a load, qualified and quoted. At most a hundred.
///
/// # Errors
/// When the server fails.
pub fn loaded_tables(session: &mut Session) -> Result<Vec<String>> {
    let sql = "select pg_catalog.format('%I.%I', n.nspname, c.relname), d.description \
               from pg_catalog.pg_class c join pg_catalog.pg_namespace n on n.oid operator(pg_catalog.=) c.relnamespace \
               join pg_catalog.pg_description d on d.objoid operator(pg_catalog.=) c.oid \
               where d.classoid operator(pg_catalog.=) 'pg_catalog.pg_class'::pg_catalog.regclass \
               and d.objsubid operator(pg_catalog.=) 0 and c.relkind operator(pg_catalog.=) any (array['r','p']::\"char\"[]) \
               and d.description operator(pg_catalog.~~) 'pgdyno%' order by 1 limit 100";
    let rows = session.query(sql).context("look for tables that pgdyno loaded")?;
    let mut names = Vec::new();
    for row in rows.rows {
        let [Some(name), Some(comment)] = row.as_slice() else { continue };
        if !matches!(Marker::parse(comment), Ok(None)) {
            names.push(name.clone());
        }
    }
    Ok(names)
}
