//! State of a workload's tables in a database.

pub mod access;
mod traps;
pub mod untouched;

use std::collections::BTreeMap;

use anyhow::{Result, anyhow, bail};
use model::experiment::case::WorkloadSpec;
use model::release::{Release, catalogs};
use model::workload::Dataset;
use wire::ServerError;
use wire::session::{Rows, Session, SessionError, quote_ident, quote_literal};
use workload::Schema;
use workload::objects::marker::{Marker, MarkerState};

use crate::{kind, schema};

/// A workload's tables, and the schema that has them.
#[allow(missing_docs, reason = "the names say it")]
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WorkloadTables {
    pub dataset: Dataset,
    pub schema: Schema,
}

impl WorkloadTables {
    /// The tables of a case, if they are pgdyno's, in the schema that it names or the first of the search path.
    ///
    /// # Errors
    /// As [`schema::find`].
    pub fn find(session: &mut Session, workload: &WorkloadSpec) -> Result<Option<WorkloadTables>> {
        let Some(dataset) = Dataset::from_case_data(&workload.data) else { return Ok(None) };
        Ok(Some(WorkloadTables { dataset, schema: schema::find(session, workload.schema.as_deref())? }))
    }

    /// A table's name in records: those of the workload omit the schema, so that runs in two schemas are comparable.
    pub fn recorded<'a>(&self, table: &'a str) -> &'a str {
        let plain = table.strip_prefix(self.schema.name()).and_then(|rest| rest.strip_prefix('.'));
        plain.unwrap_or(table)
    }

    /// Facts by table, with the tables' names in records.
    pub fn recorded_keys<T>(&self, by_table: BTreeMap<String, T>) -> BTreeMap<String, T> {
        by_table.into_iter().map(|(table, of)| (self.recorded(&table).to_string(), of)).collect()
    }

    /// All tables as `schema.table`.
    pub fn tables(&self) -> Vec<String> {
        kind::tables_in(self.dataset, &self.schema)
    }
}

/// State of a workload's tables.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DataState {
    /// None of the tables exists.
    Absent,
    /// Complete, loaded by pgdyno.
    Whole(Marker),
    /// pgdyno began to load them and did not finish.
    Half(Marker),
    /// Tables of these names that pgdyno did not create, with their scale if it is known.
    Foreign {
        /// Rows of the table that has one per scale unit.
        scale: Option<u32>,
        /// The tables found.
        tables: Vec<String>,
    },
}

/// The mark of a workload's tables, from the catalogs alone: what has to be known before tables are dropped, whoever owns
/// them and whatever reading them would run.
///
/// # Errors
/// When the server fails, or the mark cannot be parsed.
pub fn marker(session: &mut Session, dataset: Dataset, schema: &Schema) -> Result<Option<Marker>> {
    marker_among(&relations(session, dataset, schema)?, dataset)
}

/// The same if the load that wrote it has completed the data.
///
/// # Errors
/// As [`marker`].
pub fn complete_marker(session: &mut Session, dataset: Dataset, schema: &Schema) -> Result<Option<Marker>> {
    let marker = marker(session, dataset, schema)?;
    Ok(marker.filter(|marker| matches!(marker.state, MarkerState::Finished { .. })))
}

/// Relations with the names of a workload's tables, and their comments.
fn relations(session: &mut Session, dataset: Dataset, schema: &Schema) -> Result<Rows> {
    let names: Vec<String> = dataset.tables().into_iter().map(quote_literal).collect();
    let sql = format!(
        "select c.relname as name, pg_catalog.obj_description(c.oid, 'pg_class') as comment \
         from pg_catalog.pg_class c join pg_catalog.pg_namespace n on n.oid = c.relnamespace \
         where n.nspname = {} and c.relname in ({}) order by 1",
        quote_literal(schema.name()),
        names.join(", ")
    );
    Ok(session.query(&sql)?)
}

fn marker_among(found: &Rows, dataset: Dataset) -> Result<Option<Marker>> {
    let marked = (0..found.len()).find(|row| found.get(*row, "name") == Some(dataset.marked_table()));
    let Some(comment) = marked.and_then(|row| found.get(row, "comment")) else { return Ok(None) };
    Ok(Marker::parse(comment)?.filter(|marker| marker.workload == dataset.name()))
}

/// Fails if reading a workload's tables could run code of another user with the rights of this one.
///
/// # Errors
/// Names the code and whose it is; or when the server fails.
pub fn expect_safe(session: &mut Session, home: &WorkloadTables) -> Result<()> {
    traps::expect_none(session, home.dataset, &home.schema)
}

/// Determines the state of the tables in a schema.
///
/// # Errors
/// When the server fails, a marker cannot be parsed, or reading the tables could run code of another user.
pub fn inspect(session: &mut Session, dataset: Dataset, schema: &Schema) -> Result<DataState> {
    traps::expect_none(session, dataset, schema)?;
    let found = relations(session, dataset, schema)?;
    if let Some(marker) = marker_among(&found, dataset)? {
        return Ok(match marker.state {
            MarkerState::Finished { .. } => DataState::Whole(marker),
            MarkerState::Loading => DataState::Half(marker),
        });
    }
    let tables: Vec<String> =
        (0..found.len()).filter_map(|row| Some(schema.plain_name(found.get(row, "name")?))).collect();
    if tables.is_empty() {
        return Ok(DataState::Absent);
    }
    let scale =
        match session.query(&format!("select count(*) from {}", schema.sql_name(dataset.marked_table()))) {
            Ok(rows) => rows.scalar().and_then(|n| dataset.scale_of(n.parse().ok()?)),
            Err(SessionError::Server(error)) if error.is_denied() => {
                return Err(unreadable(session, &tables, &error));
            }
            // A table of that name may be missing, or be something else.
            Err(SessionError::Server(_)) => None,
            Err(error) => return Err(error.into()),
        };
    Ok(DataState::Foreign { scale, tables })
}

/// The scale of tables that are complete, whoever loaded them.
///
/// # Errors
/// When the tables do not exist or are unfinished, or the server fails.
pub(crate) fn complete_scale(session: &mut Session, dataset: Dataset, schema: &Schema) -> Result<u32> {
    match inspect(session, dataset, schema)? {
        DataState::Whole(marker) => Ok(marker.scale),
        DataState::Foreign { scale: Some(scale), .. } if scale > 0 => Ok(scale),
        DataState::Foreign { tables, .. } => {
            bail!("the tables {} are not a complete {} set", tables.join(", "), dataset.title())
        }
        DataState::Half(marker) => bail!(
            "pgdyno {1} began to load scale {0} and did not finish; load again with pgdyno init",
            marker.scale,
            marker.tool_version
        ),
        DataState::Absent => bail!(absent(session, dataset, schema)?),
    }
}

/// The message that a schema has no tables of the workload, and which other schema has some.
///
/// # Errors
/// When the server fails.
pub fn absent(session: &mut Session, dataset: Dataset, schema: &Schema) -> Result<String> {
    let sql = format!(
        "select n.nspname from pg_catalog.pg_class c join pg_catalog.pg_namespace n on n.oid = c.relnamespace \
         where c.relname = {} and c.relkind in ('r', 'p') and n.nspname !~ '^pg_' order by 1 limit 1",
        quote_literal(dataset.marked_table())
    );
    let elsewhere = match session.query(&sql)?.scalar() {
        Some(other) => format!(", but schema `{other}` has: pass --schema"),
        None if dataset == Dataset::default() => "; load them with pgdyno init --server URL".to_string(),
        None => format!("; load them with pgdyno init -w {} --server URL", dataset.name()),
    };
    Ok(format!("schema `{}` has no {} tables{elsewhere}", schema.name(), dataset.title()))
}

/// The name of a table as functions of the server read it, which know no escapes (`U&"..."`).
pub(crate) fn quoted_name(schema: &str, table: &str) -> String {
    format!("{}.{}", quote_ident(schema), quote_ident(table))
}

/// Whether policies of row security apply to the user in one of these tables, by their [`quoted_name`].
pub(crate) fn is_filtered(session: &mut Session, tables: &[String]) -> Result<bool> {
    if !Release::new(session.server_version_num()).has(catalogs::ROW_SECURITY) {
        return Ok(false);
    }
    let active: Vec<String> = tables
        .iter()
        .map(|table| format!("pg_catalog.row_security_active({}::pg_catalog.text)", quote_literal(table)))
        .collect();
    Ok(session.query(&format!("select {}", active.join(" or ")))?.scalar() == Some("t"))
}

/// Tables that exist but are not readable are neither complete nor half loaded: we cannot know.
fn unreadable(session: &Session, tables: &[String], error: &ServerError) -> anyhow::Error {
    let user = session.parameter("session_authorization").unwrap_or("the user");
    anyhow!(
        "`{user}` cannot read the tables of the database ({}): {}; grant select on them, connect as its owner, or use another \
         database",
        tables.join(", "),
        error.message
    )
}
