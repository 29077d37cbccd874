//! A fingerprint of a database's relations, which shows whether two runs began from the same data.
//! Reads the catalog; rows only where checksums are asked for.

use std::collections::BTreeMap;
use std::time::Instant;

use anyhow::{Context, Result};
use model::run::fingerprint::{Fingerprint, RelationPrint};
use wire::{Session, quote_literal};

use crate::database::digest::ServerDigest;
use crate::database::relations::{Missing, with_parts};
use crate::database::tend::quote_name;

/// The fingerprint of the tables (`table` or `schema.table`), their partitions and their indexes.
///
/// # Errors
/// When a table is missing or the server fails.
pub fn fingerprint(session: &mut Session, tables: &[&str], with_checksums: bool) -> Result<Fingerprint> {
    let began = Instant::now();
    let relations = relations(session, tables)?;
    let mut checksums = BTreeMap::new();
    if with_checksums {
        let digest = ServerDigest::read(session);
        for table in tables {
            checksums.insert(table.to_string(), checksum(session, table, digest)?);
        }
    }
    Ok(Fingerprint {
        relations,
        checksums,
        definitions: BTreeMap::new(),
        seconds: began.elapsed().as_secs_f64(),
    })
}

fn relations(session: &mut Session, tables: &[&str]) -> Result<BTreeMap<String, RelationPrint>> {
    if tables.is_empty() {
        return Ok(BTreeMap::new());
    }
    // Named as in the user's sessions, where the search path is not empty.
    let searched = session.search_path().map(|path| path.schemas.as_slice()).unwrap_or_default();
    let searched: Vec<String> = searched.iter().map(|schema| quote_literal(schema)).collect();
    let name = |oid: &str| {
        if searched.is_empty() {
            format!("{oid}::regclass::text")
        } else {
            format!(
                "(select case when n.nspname in ({}) then quote_ident(r.relname) else r.oid::regclass::text end \
                from pg_class r join pg_namespace n on n.oid = r.relnamespace where r.oid = {oid})",
                searched.join(", ")
            )
        }
    };
    let (of_table, of_index) = (name("t.oid"), name("x.indexrelid"));
    let sql = format!(
        "{}
         select {of_table} as name, pg_relation_size(t.oid) as bytes, '' as definition
           from t join pg_class c on c.oid = t.oid where c.relkind in ('r', 'm')
         union all
         select {of_index}, pg_relation_size(x.indexrelid), pg_get_indexdef(x.indexrelid)
           from t join pg_index x on x.indrelid = t.oid",
        with_parts(tables, Missing::Fails)
    );
    let rows = session.query(&sql).context("list the workload's relations")?;
    let relation = |i: usize| {
        let print =
            RelationPrint { bytes: rows.parse(i, "bytes")?, index: rows.get(i, "definition")?.to_string() };
        Some((rows.get(i, "name")?.to_string(), print))
    };
    (0..rows.len()).map(|i| relation(i).context("the catalog answered in an unknown way")).collect()
}

/// The number of rows and the sum of 60 bits of each row's digest: equal for equal rows in any order, and for other
/// rows only with a probability of 2^-60.
fn checksum(session: &mut Session, table: &str, digest: ServerDigest) -> Result<String> {
    // As `t::text`, for which the table's owner could define a cast of its own.
    let sql = format!(
        "select count(*) || ':' || coalesce(sum(('x' || substr({}, 1, 15))::bit(60)::bigint), 0) || '{}' from {} t",
        digest.sql("textin(record_out(t))"),
        if digest == ServerDigest::Md5 { "" } else { Fingerprint::BY_SHA256 },
        quote_name(table)
    );
    session.execute("begin")?;
    // The text of values depends on these.
    session.execute(
        "set local datestyle = 'ISO'; set local timezone = 'UTC'; set local extra_float_digits = 3",
    )?;
    let rows = session.query(&sql);
    session.execute("rollback")?;
    let rows = rows.with_context(|| format!("the checksum of `{table}` failed"))?;
    rows.scalar().map(str::to_string).context("a checksum is a value")
}
