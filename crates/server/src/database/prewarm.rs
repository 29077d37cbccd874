//! Reads data into memory before a run: by the extension `pg_prewarm` where it is installed, else by scans.

use std::time::Instant;

use anyhow::{Context, Result};
use model::release::{Release, catalogs, settings};
use wire::session::Extension;
use wire::{Session, quote_ident, quote_literal};

use crate::database::facts::version_num;
use crate::database::relations::{Missing, with_heaps};
use crate::database::tend::{StepDetail, seconds, skipped};

/// One relation to read.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Relation {
    oid: u32,
    bytes: u64,
    is_index: bool,
    /// Quoted name with schema; for an index, that of its table.
    table: String,
    /// Policies of row security show the user only some of the rows: a scan would call their functions.
    is_filtered: bool,
    /// First column of an index, quoted, if it is a plain column of a B-tree without condition.
    column: Option<String>,
}

/// Reads the tables (`table` or `schema.table`), their TOAST tables and all indexes: into shared buffers if they fit, else into the
/// kernel's cache and then as much as fits into shared buffers, indexes before tables. Without the extension, a scan leaves a table beyond
/// a quarter of shared buffers in the kernel's cache. No more is read than the server's `effective_cache_size`, small
/// relations first.
pub fn prewarm(session: &mut Session, tables: &[&str]) -> Result<StepDetail> {
    let began = Instant::now();
    let version_num = version_num(session)?;
    let extension = session.extension("pg_prewarm").context("look for the extension pg_prewarm")?;
    let objection = extension.as_ref().and_then(|extension| extension.objection("pg_prewarm"));
    let schema = match extension {
        Some(Extension::Safe { schema, .. }) => Some(schema),
        Some(Extension::Replaceable { .. }) | None => None,
    };
    let mut relations = relations(session, tables, version_num, schema.is_some())?;
    if relations.is_empty() {
        return Ok(skipped("there are no tables to read"));
    }
    relations.sort_by_key(|relation| (relation.bytes, relation.oid));
    let page_bytes = setting_bytes(session, "block_size")?.max(1);
    let shared_bytes = setting_bytes(session, "shared_buffers")? * page_bytes;
    let cache_bytes = setting_bytes(session, "effective_cache_size")? * page_bytes;
    let total_bytes: u64 = relations.iter().map(|relation| relation.bytes).sum();
    let mode = if total_bytes <= shared_bytes { "buffer" } else { "read" };
    let mut budget_bytes = cache_bytes.max(shared_bytes);
    let mut read_bytes = 0;
    let (mut ringed, mut filtered) = (Vec::new(), Vec::new());
    for relation in &relations {
        let wanted_bytes = relation.bytes.min(budget_bytes);
        if wanted_bytes < page_bytes {
            continue;
        }
        if let Some(schema) = &schema {
            read_pages(session, schema, relation, mode, wanted_bytes / page_bytes)?;
        } else if relation.is_filtered {
            if !relation.is_index {
                filtered.push(relation.table.as_str());
            }
            continue;
        } else if wanted_bytes == relation.bytes {
            scan(session, relation, version_num)?;
            if !relation.is_index && goes_through_ring(relation.bytes, shared_bytes) {
                ringed.push(relation.table.as_str());
            }
        } else {
            // A scan cannot stop in the middle.
            continue;
        }
        budget_bytes -= wanted_bytes;
        read_bytes += wanted_bytes;
    }
    let method = match &schema {
        None => scans_text(objection.as_deref(), &ringed, &filtered),
        Some(_) if mode == "buffer" => "pg_prewarm, mode buffer".to_string(),
        Some(schema) => {
            let filled_bytes = fill(session, schema, &mut relations, shared_bytes, page_bytes)?;
            format!(
                "pg_prewarm, mode read; then mode buffer for {filled_bytes} bytes: indexes before tables, small before large"
            )
        }
    };
    Ok(StepDetail::from([
        ("method".to_string(), method),
        ("relations".to_string(), relations.len().to_string()),
        ("bytes".to_string(), total_bytes.to_string()),
        ("read_bytes".to_string(), read_bytes.to_string()),
        ("seconds".to_string(), seconds(began)),
    ]))
}

/// Fills shared buffers: indexes first, because each statement goes through one, then tables, small before large; of the last one
/// as much as fits. Returns the bytes.
fn fill(
    session: &mut Session,
    schema: &str,
    relations: &mut [Relation],
    shared_bytes: u64,
    page_bytes: u64,
) -> Result<u64> {
    relations.sort_by_key(|relation| (!relation.is_index, relation.bytes, relation.oid));
    let mut room_bytes = shared_bytes;
    for relation in relations.iter() {
        let wanted_bytes = relation.bytes.min(room_bytes);
        if wanted_bytes < page_bytes {
            continue;
        }
        read_pages(session, schema, relation, "buffer", wanted_bytes / page_bytes)?;
        room_bytes -= wanted_bytes;
    }
    Ok(shared_bytes - room_bytes)
}

/// Whether a sequential scan leaves the table in the kernel's cache only: beyond a quarter of shared buffers it uses a
/// ring of 256 kB (PostgreSQL's `heapam.c`, `initscan`).
fn goes_through_ring(bytes: u64, shared_bytes: u64) -> bool {
    bytes > shared_bytes / 4
}

fn scans_text(objection: Option<&str>, ringed: &[&str], filtered: &[&str]) -> String {
    let mut text = format!("scans ({})", objection.unwrap_or("the extension pg_prewarm is not installed"));
    if !ringed.is_empty() {
        let tables = ringed.join(", ");
        text.push_str(&format!("; into the kernel's cache only, not into shared buffers: {tables}"));
    }
    if !filtered.is_empty() {
        text.push_str(&format!("; not read, because of row security: {}", filtered.join(", ")));
    }
    text
}

/// The tables, their partitions, and all their indexes; also TOAST tables with their indexes, if the user may read them: by the
/// extension as their owner, by a scan only with the rights to their schema, which superusers alone have.
fn relations(
    session: &mut Session,
    tables: &[&str],
    version_num: u32,
    has_extension: bool,
) -> Result<Vec<Relation>> {
    if tables.is_empty() {
        return Ok(Vec::new());
    }
    let is_filtered = if Release::new(version_num).has(catalogs::ROW_SECURITY) {
        "row_security_active(c.oid)"
    } else {
        "false"
    };
    let may_read_toast = if has_extension {
        "has_table_privilege(c.oid, 'select')"
    } else {
        "has_table_privilege(c.oid, 'select') and has_schema_privilege(c.relnamespace, 'usage')"
    };
    let sql = format!(
        "{}
         select c.oid, pg_relation_size(c.oid) as bytes, false as is_index, {is_filtered} as is_filtered,
                n.nspname, c.relname, null as attname
           from heaps h join pg_class c on c.oid = h.oid join pg_namespace n on n.oid = c.relnamespace
          where c.relkind in ('r', 'm') or (c.relkind = 't' and {may_read_toast})
         union all
         select x.indexrelid, pg_relation_size(x.indexrelid), true, {is_filtered}, n.nspname, c.relname,
                case when a.amname = 'btree' and x.indpred is null and x.indkey[0] > 0 then k.attname end
           from heaps h join pg_class c on c.oid = h.oid join pg_namespace n on n.oid = c.relnamespace
           join pg_index x on x.indrelid = c.oid join pg_class ic on ic.oid = x.indexrelid
           join pg_am a on a.oid = ic.relam
           left join pg_attribute k on k.attrelid = c.oid and k.attnum = x.indkey[0]
          where ic.relkind = 'i' and (c.relkind <> 't' or ({may_read_toast}))",
        with_heaps(tables, Missing::Fails)
    );
    let rows = session.query(&sql).context("list the tables to read")?;
    let relation = |i: usize| {
        let text = |column: &str| rows.get(i, column);
        Some(Relation {
            oid: rows.parse(i, "oid")?,
            bytes: rows.parse(i, "bytes")?,
            is_index: text("is_index")? == "t",
            is_filtered: text("is_filtered")? == "t",
            table: format!("{}.{}", quote_ident(text("nspname")?), quote_ident(text("relname")?)),
            column: text("attname").map(quote_ident),
        })
    };
    (0..rows.len()).map(|i| relation(i).context("the catalog answered in an unknown way")).collect()
}

/// A setting in the unit of `pg_settings`: pages for `shared_buffers` and `effective_cache_size`.
fn setting_bytes(session: &mut Session, name: &str) -> Result<u64> {
    let sql = format!("select setting from pg_settings where name = {}", quote_literal(name));
    let rows = session.query(&sql)?;
    rows.scalar()
        .and_then(|text| text.parse().ok())
        .with_context(|| format!("setting `{name}` is unreadable"))
}

/// Reads the first pages of a relation, by the extension in this schema.
fn read_pages(
    session: &mut Session,
    schema: &str,
    relation: &Relation,
    mode: &str,
    n_pages: u64,
) -> Result<()> {
    let last = n_pages.saturating_sub(1);
    // Of the exact types: whoever owns the schema could add a function of the name that fits others better.
    let sql = format!(
        "select {schema}.pg_prewarm({}::regclass, '{mode}'::text, 'main'::text, 0::bigint, {last}::bigint)",
        relation.oid
    );
    session.execute(&sql).with_context(|| format!("pg_prewarm of {} failed", relation.table))
}

/// Reads a table by counting its rows, a B-tree by counting over its first column. The settings last until the
/// rollback. An index that cannot be read in this way stays cold.
fn scan(session: &mut Session, relation: &Relation, version_num: u32) -> Result<()> {
    let (off, sql) = match (&relation.column, relation.is_index) {
        (_, false) => {
            (["enable_indexscan", "enable_indexonlyscan"], format!("select count(*) from {}", relation.table))
        }
        (Some(column), true) => (
            ["enable_seqscan", "enable_bitmapscan"],
            format!("select count({column}) from {} where {column} is not null", relation.table),
        ),
        (None, true) => return Ok(()),
    };
    session.execute("begin read only")?;
    let mut result = Ok(());
    let workers =
        Release::new(version_num).has(settings::PARALLEL_QUERY).then_some("max_parallel_workers_per_gather");
    for name in off.into_iter().chain(workers) {
        let value = if name.starts_with("max") { "0" } else { "off" };
        result = result.and_then(|()| session.execute(&format!("set local {name} = {value}")));
    }
    result = result.and_then(|()| session.execute(&sql));
    session.execute("rollback")?;
    result.with_context(|| format!("reading {} failed", relation.table))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_that_a_scan_leaves_out_of_shared_buffers_are_named() {
        assert!(!goes_through_ring(256 << 20, 1 << 30) && goes_through_ring((256 << 20) + 1, 1 << 30));
        assert!(!scans_text(None, &[], &[]).contains("kernel"));
        let text = scans_text(None, &["a", "b"], &[]);
        assert!(text.ends_with("into the kernel's cache only, not into shared buffers: a, b"), "{text}");
        assert!(scans_text(None, &[], &["c"]).ends_with("; not read, because of row security: c"));
    }
}
