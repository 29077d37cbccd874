//! Publications that publish each new table of the database or of a schema: the subscriber of one has no such tables, stops at their first
//! rows with what it replicates of the user's own, and its slot keeps WAL on the server. Publications that name a table are not here.

use anyhow::{Context, Result, bail};
use model::release::{Release, catalogs};
use wire::session::{Session, quote_literal};
use workload::Schema;

/// What creates tables that a publication would publish.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Creator {
    /// Data that is loaded.
    Load,
    /// The tests of TPC-C's clause 3, which set rows aside.
    Tests,
    /// A store of results.
    Store,
}

impl Creator {
    fn what(self) -> &'static str {
        match self {
            Creator::Load => "what would be loaded",
            Creator::Tests => "the tables that the tests create",
            Creator::Store => "the tables of the store",
        }
    }

    /// What helps where a publication is of a schema alone.
    fn other_schema(self) -> &'static str {
        match self {
            Creator::Load | Creator::Tests => "name a schema that is not published with --schema",
            Creator::Store => "use a database without such a publication",
        }
    }
}

/// Fails as [`problem`] says.
///
/// # Errors
/// The problem, or when the server fails.
pub fn expect_none(session: &mut Session, schema: Option<&Schema>, creator: Creator) -> Result<()> {
    problem(session, schema, creator)?.map_or(Ok(()), |problem| bail!(problem))
}

/// The problem that a publication publishes whatever is created in the schema, or anywhere if none is given; none if there is no such
/// publication.
///
/// # Errors
/// When the server fails.
pub fn problem(session: &mut Session, schema: Option<&Schema>, creator: Creator) -> Result<Option<String>> {
    let release = Release::new(session.server_version_num());
    if !release.has(catalogs::PARTITIONS) {
        return Ok(None);
    }
    let mut sql = "select '`' || pubname || '` (FOR ALL TABLES)', true from pg_catalog.pg_publication where puballtables".to_string();
    if release.has(catalogs::PUBLISHED_SCHEMAS) {
        let of_schema = schema.map(|schema| format!(" where n.nspname = {}", quote_literal(schema.name())));
        sql += &format!(
            " union all select '`' || p.pubname || '` (FOR TABLES IN SCHEMA ' || n.nspname || ')', false \
               from pg_catalog.pg_publication_namespace m join pg_catalog.pg_publication p on p.oid = m.pnpubid \
               join pg_catalog.pg_namespace n on n.oid = m.pnnspid{}",
            of_schema.unwrap_or_default()
        );
    }
    let rows = session.query(&format!("{sql} order by 1")).context("look for publications")?;
    let column = |n: usize| rows.rows.iter().filter_map(move |row| row.get(n)?.clone());
    let names: Vec<String> = column(0).collect();
    if names.is_empty() {
        return Ok(None);
    }
    let helps = if column(1).any(|of_database| of_database == "t") {
        "use a database without such a publication"
    } else {
        creator.other_schema()
    };
    let what = creator.what();
    let (noun, verb) =
        if names.len() == 1 { ("publication", "publishes") } else { ("publications", "publish") };
    Ok(Some(format!(
        "{noun} {} {verb} {what}: a subscriber without these tables stops, also with your own, and its slot keeps WAL; {helps}, \
         or pass --allow-published",
        names.join(", ")
    )))
}
