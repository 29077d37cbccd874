//! `pgdyno capture statements`: a workload directory from counters alone, with the values of a copy of the source as pg_stats describes them.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use ::capture::counted::{ColumnValues, CountedAnswer, CountedStatements};
use ::capture::directory::Making;
use ::capture::statistics::SourceStatistics;
use anyhow::{Context, Result};
use wire::Conninfo;
use wire::session::{Rows, Session, quote_literal};

use crate::commands::data::capture::asked::{self, Asked, TableColumn};
use crate::commands::data::capture::log::{expect_empty, keep, key, name, privacy};
use crate::front::cli::data::capture::statements::CaptureStatementsArgs;
use crate::front::setup;
use crate::{Exit, say};

/// Columns that are asked about in one question.
const COLUMNS_PER_QUESTION: usize = 200;

/// Reads the counters, asks the copy, and writes the directory.
pub(super) fn statements(args: &CaptureStatementsArgs) -> Result<Exit> {
    expect_empty(&args.output)?;
    let statistics = read(&args.stats)?;
    let counted =
        CountedStatements::new(&statistics).with_context(|| format!("`{}`", args.stats.display()))?;
    let conninfo = setup::resolve_to_look(&args.server)?;
    let asked = asked::asked(&conninfo, counted.forms(), asked::Which::AllWork)?;
    let answers = answers(&conninfo, asked)?;
    let begun = &statistics.begun;
    let making = Making {
        name: &name(&args.output),
        privacy: privacy(args.privacy),
        key: key()?,
        facts: &BTreeMap::new(),
        statistics: None,
        server: Some(&begun.server),
        system_identifier: begun.system_identifier.as_deref(),
        log: "pg_stat_statements",
        n_clients: None,
    };
    keep(&args.output, &counted.directory(&answers, &making)?, args.json)
}

fn read(path: &Path) -> Result<SourceStatistics> {
    let file = files::open(path).with_context(|| format!("cannot read `{}`", path.display()))?;
    let statistics = SourceStatistics::read(file)
        .with_context(|| format!("`{}` is no file of `pgdyno capture stats`", path.display()))?;
    statistics.notices.iter().for_each(|what| say(&format!("note: `{}`: {what}", path.display())));
    Ok(statistics)
}

/// The answers about statements, with the values of the columns that they meet.
fn answers(conninfo: &Conninfo, asked: Asked) -> Result<BTreeMap<u32, CountedAnswer>> {
    let wanted: BTreeSet<&TableColumn> = asked.columns.values().collect();
    let wanted: Vec<&TableColumn> = wanted.into_iter().collect();
    let mut known: BTreeMap<TableColumn, ColumnValues> = BTreeMap::new();
    if !wanted.is_empty() {
        let mut session =
            Session::connect(conninfo).with_context(|| format!("cannot connect to `{conninfo}`"))?;
        for some in wanted.chunks(COLUMNS_PER_QUESTION) {
            let rows = session.query(&question(some)).context("read pg_stats")?;
            known.extend((0..rows.len()).map(|row| column(&rows, row)));
        }
    }
    let mut found: BTreeMap<u32, CountedAnswer> = asked
        .facts
        .into_iter()
        .map(|(number, facts)| (number, CountedAnswer { facts, ..CountedAnswer::default() }))
        .collect();
    for ((number, slot), name) in asked.guessed {
        found.entry(number).or_default().guessed.insert(slot, name);
    }
    for ((number, slot), place) in &asked.columns {
        if let (Some(answer), Some(values)) = (found.get_mut(number), known.get(place)) {
            answer.columns.insert(*slot, values.clone());
        }
    }
    Ok(found)
}

/// The question about columns. Elements of arrays are no values of the column: such columns are unknown.
fn question(columns: &[&TableColumn]) -> String {
    let all: Vec<String> = columns
        .iter()
        .map(|one| {
            let parts = [&one.schema, &one.table, &one.column].map(|part| quote_literal(part));
            format!("({})", parts.join(", "))
        })
        .collect();
    format!(
        "select s.schemaname::text as schema, s.tablename::text as table, s.attname::text as column, s.null_frac::float8 as null_share, \
         pg_catalog.to_json(s.most_common_vals::text::text[])::text as common, pg_catalog.to_json(s.most_common_freqs)::text as shares, \
         pg_catalog.to_json(s.histogram_bounds::text::text[])::text as bounds, size.n_rows \
         from pg_catalog.pg_stats s, lateral (select greatest(c.reltuples, 0)::float8 as n_rows from pg_catalog.pg_class c \
         join pg_catalog.pg_namespace n on n.oid = c.relnamespace where n.nspname = s.schemaname and c.relname = s.tablename) size, \
         lateral (select 1 from pg_catalog.pg_attribute a join pg_catalog.pg_class c on c.oid = a.attrelid \
         join pg_catalog.pg_namespace n on n.oid = c.relnamespace join pg_catalog.pg_type t on t.oid = a.atttypid \
         where n.nspname = s.schemaname and c.relname = s.tablename and a.attname = s.attname and t.typcategory <> 'A') scalar \
         where (s.schemaname, s.tablename, s.attname) in ({}) order by s.inherited",
        all.join(", ")
    )
}

fn column(rows: &Rows, row: usize) -> (TableColumn, ColumnValues) {
    let text = |name: &str| rows.get(row, name).unwrap_or_default();
    let place = TableColumn {
        schema: text("schema").to_string(),
        table: text("table").to_string(),
        column: text("column").to_string(),
    };
    let values = |name: &str| -> Vec<String> { serde_json::from_str(text(name)).unwrap_or_default() };
    let shares: Vec<f64> = serde_json::from_str(text("shares")).unwrap_or_default();
    let found = ColumnValues {
        null_share: rows.parse(row, "null_share").unwrap_or(0.0),
        common: values("common").into_iter().zip(shares).collect(),
        bounds: values("bounds"),
        n_rows: rows.parse(row, "n_rows").unwrap_or(0.0),
    };
    (place, found)
}
