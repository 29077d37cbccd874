//! What somebody changed in the definition of a marked table: the columns, constraints, indexes and storage parameters that the
//! catalogs have, and no statement of a load creates. The comparison is with these statements themselves.
//!
//! Not here: what is missing, since dropping the table does not destroy it, and what a load takes from the server's settings
//! (tablespace, access method).

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context, Result};
use model::workload::Dataset;
use wire::session::Session;
use workload::catalogue;

use super::Relation;
use crate::own::apply::is_applied_sql;

/// The only storage parameter that a load sets.
const STORAGE: &str = "fillfactor=100";
/// Types as the statements of a load name them, and as the server does.
const TYPES: [(&str, &str); 4] = [
    ("int", "integer"),
    ("char(", "character("),
    ("varchar(", "character varying("),
    ("timestamptz", "timestamp with time zone"),
];

/// The definitions that a load makes.
#[derive(Debug, Default)]
struct Design {
    columns: Vec<Column>,
    indexes: BTreeSet<Index>,
    /// The names of primary keys, by table; the server chooses those that are not there.
    key_names: BTreeMap<String, String>,
}

#[derive(Debug)]
struct Column {
    table: String,
    name: String,
    kind: String,
    is_not_null: bool,
}

#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Index {
    table: String,
    /// `None` for a primary key.
    name: Option<String>,
    is_unique: bool,
    /// Columns, as the server writes them.
    keys: String,
}

/// Definitions of the relations that no load has made, each with its table.
///
/// # Errors
/// When the server fails.
pub(super) fn additions(
    session: &mut Session,
    dataset: Dataset,
    relations: &[Relation],
) -> Result<Vec<String>> {
    let design = Design::for_dataset(dataset);
    let oids = relations.iter().map(|relation| relation.oid.to_string()).collect::<Vec<_>>().join(", ");
    let rows = session.query(&facts_sql(&oids)).context("look for the definitions of the tables")?;
    let mut found = Vec::new();
    for row in 0..rows.len() {
        let text = |column: &str| rows.get(row, column).unwrap_or_default();
        let is_of = |relation: &&Relation| Some(relation.oid) == rows.parse(row, "oid");
        let Some(relation) = relations.iter().find(is_of) else { continue };
        let Some(table) = relation.table_of(dataset) else { continue };
        let fact = ColumnFact {
            name: text("name"),
            definition: text("definition"),
            is_set: text("is_set") == "t",
            is_default: text("is_default") == "t",
            is_target: text("is_target") == "t",
        };
        let what = match text("kind") {
            "column" => design.change_of_column(table, &fact),
            "index" => design.change_of_index(table, &relation.name, &fact),
            "constraint" => Some(format!("constraint `{}`", fact.name)),
            _ => (fact.name != STORAGE).then(|| format!("storage parameter `{}`", fact.name)),
        };
        found.extend(what.map(|what| format!("{what} of `{}`", relation.plain_name())));
    }
    Ok(found)
}

/// A row of [`facts_sql`].
struct ColumnFact<'a> {
    name: &'a str,
    /// The type of a column, the columns of an index.
    definition: &'a str,
    /// Whether a column is NOT NULL, or an index unique.
    is_set: bool,
    /// Whether a column has no default and no identity, or an index is that of a primary key.
    is_default: bool,
    /// Whether a column has a statistics target.
    is_target: bool,
}

impl Design {
    fn for_dataset(dataset: Dataset) -> Design {
        let mut design = Design::default();
        for statement in (catalogue::maker(dataset).definitions)() {
            design.read(&statement);
        }
        design
    }

    /// Adds what a statement of a load makes.
    fn read(&mut self, statement: &str) {
        let (Some((head, _)), Some(list)) = (statement.split_once('('), in_brackets(statement)) else {
            return;
        };
        let words: Vec<&str> = head.split_whitespace().collect();
        match words.as_slice() {
            ["create", "table", table] => {
                self.columns.extend(items(list).into_iter().filter_map(|item| Column::read(table, item)));
            }
            ["alter", "table", table, .., "primary", "key"] => {
                self.indexes.insert(Index::new(table, None, true, list));
                if let [_, _, _, "add", "constraint", name, ..] = words.as_slice() {
                    self.key_names.insert(table.to_string(), name.to_string());
                }
            }
            ["create", .., "index", name, "on", table] => {
                self.indexes.insert(Index::new(table, Some(name), words.contains(&"unique"), list));
            }
            _ => {}
        }
    }

    fn change_of_column(&self, table: &str, fact: &ColumnFact) -> Option<String> {
        let ours: Vec<&Column> =
            self.columns.iter().filter(|column| column.table == table && column.name == fact.name).collect();
        let name = fact.name;
        if ours.is_empty() {
            return Some(format!("column `{name}`"));
        }
        if ours.iter().all(|column| column.kind != fact.definition) {
            return Some(format!("the type of column `{name}`"));
        }
        if !fact.is_default {
            return Some(format!("the default of column `{name}`"));
        }
        if fact.is_target {
            return Some(format!("the statistics target of column `{name}`"));
        }
        (fact.is_set && !ours.iter().any(|column| column.is_not_null))
            .then(|| format!("NOT NULL of column `{name}`"))
    }

    /// `relation` is the table, or a partition of it.
    fn change_of_index(&self, table: &str, relation: &str, fact: &ColumnFact) -> Option<String> {
        let name = (!fact.is_default).then_some(fact.name);
        if !self.indexes.contains(&Index::new(table, name, fact.is_set, fact.definition)) {
            return Some(format!("index `{}`", fact.name));
        }
        let has_own_name = match self.key_names.get(table) {
            Some(name) => fact.name == name,
            // The server appends a number if the name is taken.
            None => fact
                .name
                .strip_prefix(relation)
                .and_then(|rest| rest.strip_prefix("_pkey"))
                .is_some_and(|number| number.bytes().all(|b| b.is_ascii_digit())),
        };
        (fact.is_default && !has_own_name).then(|| format!("the name of primary key `{}`", fact.name))
    }
}

impl Column {
    /// `name type`, and perhaps `not null`.
    fn read(table: &str, item: &str) -> Option<Column> {
        let (name, rest) = item.split_once(' ')?;
        let (kind, is_not_null) = match rest.strip_suffix(" not null") {
            Some(kind) => (kind.trim(), true),
            None => (rest.trim(), false),
        };
        Some(Column {
            table: table.to_string(),
            name: name.to_string(),
            kind: server_type(kind),
            is_not_null,
        })
    }
}

impl Index {
    fn new(table: &str, name: Option<&str>, is_unique: bool, keys: &str) -> Index {
        Index { table: table.to_string(), name: name.map(str::to_string), is_unique, keys: keys.to_string() }
    }
}

/// A type as `format_type` has it.
fn server_type(kind: &str) -> String {
    if kind == "timestamp" {
        return "timestamp without time zone".to_string();
    }
    let known = TYPES.into_iter().find_map(|(ours, theirs)| {
        let rest = kind.strip_prefix(ours)?;
        (ours.ends_with('(') || rest.is_empty()).then(|| format!("{theirs}{rest}"))
    });
    known.unwrap_or_else(|| kind.to_string())
}

/// What the first pair of brackets encloses.
fn in_brackets(statement: &str) -> Option<&str> {
    let (start, mut depth) = (statement.find('(')? + 1, 1);
    for (at, sign) in statement[start..].char_indices() {
        depth += match sign {
            '(' => 1,
            ')' => -1,
            _ => 0,
        };
        if depth == 0 {
            return Some(&statement[start..start + at]);
        }
    }
    None
}

/// The parts of a list: commas within brackets separate nothing.
fn items(list: &str) -> Vec<&str> {
    let mut depth = 0;
    let separates = |sign: char| {
        depth += match sign {
            '(' => 1,
            ')' => -1,
            _ => 0,
        };
        sign == ',' && depth == 0
    };
    list.split(separates).map(str::trim).collect()
}

/// One row for each fact. Primary and unique keys are their indexes. Before 10, columns have no identity.
fn facts_sql(oids: &str) -> String {
    let applied = is_applied_sql("c", "pg_class");
    format!(
        "select a.attrelid as oid, 'column' as kind, a.attname::text as name, \
                pg_catalog.format_type(a.atttypid, a.atttypmod) as definition, a.attnotnull as is_set, \
                not a.atthasdef and coalesce(pg_catalog.to_jsonb(a) ->> 'attidentity', '') = '' as is_default, \
                coalesce(pg_catalog.to_jsonb(a) ->> 'attstattarget', '-1') <> '-1' as is_target \
           from pg_catalog.pg_attribute a where a.attrelid in ({oids}) and a.attnum > 0 and not a.attisdropped \
         union all \
         select i.indrelid, 'index', c.relname::text, \
                pg_catalog.regexp_replace(pg_catalog.pg_get_indexdef(c.oid), '^.* USING btree \\((.*)\\)$', '\\1'), \
                i.indisunique, i.indisprimary, false \
           from pg_catalog.pg_index i join pg_catalog.pg_class c on c.oid = i.indexrelid where i.indrelid in ({oids}) and not {applied} \
         union all \
         select k.conrelid, 'constraint', k.conname::text, '', false, false, false \
           from pg_catalog.pg_constraint k where k.conrelid in ({oids}) and k.contype in ('c', 'f') \
         union all \
         select c.oid, 'storage', pg_catalog.unnest(c.reloptions), '', false, false, false \
           from pg_catalog.pg_class c where c.oid in ({oids}) \
          order by 1, 2, 3"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_statements_of_a_load_say_what_it_makes() {
        let n = |dataset| {
            let design = Design::for_dataset(dataset);
            (design.columns.len(), design.indexes.len())
        };
        // Two scales of pgbench's tables; nine tables of TPC-C, of which history has no key, and two more indexes.
        assert_eq!(n(Dataset::Tpcb), (2 * 17, 3));
        assert_eq!(n(Dataset::Tpcc), (92, 10));
        assert_eq!(n(Dataset::TprocC), (92, 10));
    }

    #[test]
    fn what_no_statement_makes_is_a_change() {
        let design = Design::for_dataset(Dataset::Tpcb);
        let column = |name, definition, is_set, is_default| {
            let fact = ColumnFact { name, definition, is_set, is_default, is_target: false };
            design.change_of_column("pgbench_accounts", &fact)
        };
        assert_eq!(column("aid", "bigint", true, true), None);
        assert_eq!(column("aid", "integer", true, true), None);
        assert_eq!(column("filler", "character(84)", false, true), None);
        assert_eq!(column("filler", "character(85)", false, true).unwrap(), "the type of column `filler`");
        assert_eq!(column("bid", "integer", true, true).unwrap(), "NOT NULL of column `bid`");
        assert_eq!(column("note", "text", false, true).unwrap(), "column `note`");
        let index = |name, definition, is_set, is_default| {
            let fact = ColumnFact { name, definition, is_set, is_default, is_target: false };
            design.change_of_index("pgbench_accounts", "pgbench_accounts_2", &fact)
        };
        assert_eq!(index("pgbench_accounts_2_pkey", "aid", true, true), None);
        assert_eq!(index("pgbench_accounts_2_pkey1", "aid", true, true), None);
        for name in ["mine", "pgbench_accounts_pkey", "pgbench_accounts_2_pkey_mine"] {
            assert_eq!(index(name, "aid", true, true).unwrap(), format!("the name of primary key `{name}`"));
        }
        for (definition, is_primary) in [("aid", false), ("aid) INCLUDE (bid", true), ("bid", true)] {
            assert!(index("mine", definition, true, is_primary).is_some(), "{definition}");
        }
    }
}
