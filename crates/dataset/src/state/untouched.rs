//! Whether data is still as a load left it, so that a run may begin with it instead of loading it again.
//!
//! Three proofs, all noted in the load marker. The **state** is a digest of what every write and every change of a
//! definition alters at once: files and their sizes, columns, indexes, constraints, triggers, rules, policies, privileges.
//! The **rows** are those that the server's statistics count as inserted, with none updated or deleted; they also show
//! writes that fit into existing pages. The **settings** are a digest of the values that the server has for all settings that can change
//! what is stored: data made under others is other data. Where one of them is unknown, the data counts as touched.

use std::collections::BTreeMap;

use anyhow::Result;
use model::experiment::case::setting::{self, DataMaker};
use sha2::{Digest, Sha256};
use wire::quote_literal;
use wire::session::Session;
use workload::{Marker, Schema};

/// Keys of the proofs in a marker.
pub(crate) const KEYS: [&str; 3] = [ROWS, STATE, SETTINGS];
const ROWS: &str = "rows";
const STATE: &str = "state_digest";
const SETTINGS: &str = "settings_digest";

/// The digest of the state in which a load left its tables, as their marker has it.
pub fn fingerprint(marker: &Marker) -> Option<&str> {
    marker.extra.get(STATE).map(String::as_str)
}

const DIGEST_BYTES: usize = 8;

/// The proofs of tables that were loaded just now with `n_rows` rows, for their marker.
///
/// # Errors
/// When the server fails.
pub(crate) fn proofs(
    session: &mut Session,
    schema: &Schema,
    tables: &[String],
    n_rows: u64,
) -> Result<BTreeMap<String, String>> {
    let state = digest(session, schema, tables)?;
    let settings = settings_digest(session, DataMaker::Pgdyno)?;
    let proofs = [(ROWS, n_rows.to_string()), (STATE, state), (SETTINGS, settings)];
    Ok(proofs.map(|(key, value)| (key.to_string(), value)).into())
}

/// Whether the tables, partitions included, are as the load left them that wrote `marker`.
///
/// # Errors
/// When the server fails.
pub fn is_untouched(
    session: &mut Session,
    schema: &Schema,
    tables: &[String],
    marker: &Marker,
) -> Result<bool> {
    let proof = |key: &str| marker.extra.get(key).map(String::as_str);
    let (Some(rows), Some(state), Some(settings)) = (proof(ROWS), proof(STATE), proof(SETTINGS)) else {
        return Ok(false);
    };
    if settings_digest(session, DataMaker::Pgdyno)? != settings {
        return Ok(false);
    }
    if written(session, schema, tables)? != [rows, "0", "0"] {
        return Ok(false);
    }
    Ok(digest(session, schema, tables)? == state)
}

/// A digest of the values that new sessions of the user find in this database for the settings that can change data that this maker
/// makes; those that the server does not show to this user are not among them. `RESET` would restore these values, whatever
/// this session has set.
///
/// # Errors
/// When the server fails.
pub fn settings_digest(session: &mut Session, maker: DataMaker) -> Result<String> {
    let rows = session.query(
        "select name, reset_val from pg_catalog.pg_settings where context <> 'internal' order by name collate \"C\"",
    )?;
    let makes_data = |row: &&Vec<Option<String>>| {
        row.first().and_then(Option::as_deref).is_some_and(|name| setting::makes_data(name, maker))
    };
    let texts = rows.rows.iter().filter(makes_data).flatten();
    Ok(short_digest(texts.map(|value| value.as_deref().unwrap_or("-"))))
}

/// Rows inserted, updated and deleted since the tables were created, as the server's statistics count them.
fn written(session: &mut Session, schema: &Schema, tables: &[String]) -> Result<[String; 3]> {
    let sql = format!(
        "select coalesce(sum(n_tup_ins), 0)::bigint, coalesce(sum(n_tup_upd), 0)::bigint, \
           coalesce(sum(n_tup_del), 0)::bigint \
         from pg_catalog.pg_stat_all_tables where schemaname = {} and relname in ({})",
        quote_literal(schema.name()),
        literals(tables)
    );
    let rows = session.query(&sql)?;
    let value =
        |column: usize| rows.rows.first().and_then(|row| row.get(column)?.clone()).unwrap_or_default();
    Ok([value(0), value(1), value(2)])
}

fn digest(session: &mut Session, schema: &Schema, tables: &[String]) -> Result<String> {
    let rows = session.query(&state_sql(schema, tables))?;
    Ok(short_digest(rows.rows.iter().flatten().map(|value| value.as_deref().unwrap_or("-"))))
}

/// 64 bits of the SHA-256 of texts, in hexadecimal digits: enough against chance.
pub(crate) fn short_digest<'a>(texts: impl IntoIterator<Item = &'a str>) -> String {
    let mut hash = Sha256::new();
    for text in texts {
        hash.update(text);
        hash.update([0]);
    }
    hash.finalize().iter().take(DIGEST_BYTES).map(|byte| format!("{byte:02x}")).collect()
}

/// One row for each fact. Sizes are those of the main fork: a vacuum that changes nothing may extend the others.
fn state_sql(schema: &Schema, tables: &[String]) -> String {
    format!(
        "with tables as ( \
           select c.oid from pg_catalog.pg_class c join pg_catalog.pg_namespace n on n.oid = c.relnamespace \
            where n.nspname = {} and c.relname in ({})), \
         files as (select oid from tables union all \
           select indexrelid from pg_catalog.pg_index where indrelid in (select oid from tables)) \
         select 'file' as kind, c.oid::text as a, pg_catalog.pg_relation_filenode(c.oid)::text as b, \
                pg_catalog.pg_relation_size(c.oid)::text as c, \
                concat_ws(' ', c.relname, c.relpersistence, c.relowner, c.relacl::text, c.reloptions::text, \
                  pg_catalog.to_jsonb(c) ->> 'relrowsecurity', c.reltablespace) as d \
           from pg_catalog.pg_class c where c.oid in (select oid from files) \
         union all \
         select 'column', a.attrelid::text, a.attnum::text, a.attname, \
                concat_ws(' ', a.atttypid, a.atttypmod, a.attnotnull, a.attisdropped, a.attacl::text, \
                  a.attstorage, a.attstattarget, pg_catalog.pg_get_expr(f.adbin, f.adrelid)) \
           from pg_catalog.pg_attribute a left join pg_catalog.pg_attrdef f on f.adrelid = a.attrelid and f.adnum = a.attnum \
          where a.attrelid in (select oid from tables) and a.attnum > 0 \
         union all \
         select 'index', indexrelid::text, indrelid::text, indisvalid::text, pg_catalog.pg_get_indexdef(indexrelid) \
           from pg_catalog.pg_index where indrelid in (select oid from tables) \
         union all \
         select 'constraint', oid::text, conrelid::text, conname, pg_catalog.pg_get_constraintdef(oid) \
           from pg_catalog.pg_constraint \
          where conrelid in (select oid from tables) or confrelid in (select oid from tables) \
         union all \
         select 'trigger', oid::text, tgrelid::text, tgenabled::text, pg_catalog.pg_get_triggerdef(oid) \
           from pg_catalog.pg_trigger where tgrelid in (select oid from tables) \
         union all \
         select 'rule', oid::text, ev_class::text, ev_enabled::text, pg_catalog.pg_get_ruledef(oid) \
           from pg_catalog.pg_rewrite where ev_class in (select oid from tables) \
         union all \
         select 'policy', oid::text, polrelid::text, polname, pg_catalog.pg_get_expr(polqual, polrelid) \
           from pg_catalog.pg_policy where polrelid in (select oid from tables) \
         order by 1, 2, 3, 4, 5",
        quote_literal(schema.name()),
        literals(tables)
    )
}

fn literals(names: &[String]) -> String {
    names.iter().map(|name| quote_literal(name)).collect::<Vec<_>>().join(", ")
}
