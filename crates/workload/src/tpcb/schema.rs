//! Statements that make, key, empty and drop the tables, as pgbench words them.

use super::{ACCOUNTS_PER_SCALE, TABLES, Table};

/// From this scale on, account ids are 64-bit.
const BIGINT_SCALE: u32 = 20_000;

/// How tables are made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TpcbOptions {
    /// Percent of each page that loading fills; 10 to 100. History is always full.
    pub fillfactor: u8,
    /// Without WAL: fast, and lost in a crash.
    pub unlogged: bool,
    /// Where tables go.
    pub tablespace: Option<String>,
    /// How accounts are cut.
    pub partitioning: Option<Partitioning>,
}

impl Default for TpcbOptions {
    fn default() -> TpcbOptions {
        TpcbOptions { fillfactor: 100, unlogged: false, tablespace: None, partitioning: None }
    }
}

/// How `pgbench_accounts` is cut, and into how many partitions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Partitioning {
    /// By ranges of `aid`.
    Range(u32),
    /// By hash of `aid`.
    Hash(u32),
}

impl Partitioning {
    fn method(self) -> &'static str {
        match self {
            Partitioning::Range(_) => "range",
            Partitioning::Hash(_) => "hash",
        }
    }
}

/// The CREATE TABLE statements, partitions last.
///
/// As in pgbench 18, with partitions only these are unlogged: a partitioned table has no storage to speak of.
pub fn create_tables(scale: u32, options: &TpcbOptions) -> Vec<String> {
    let aid_type = if scale >= BIGINT_SCALE { "bigint" } else { "   int" };
    let history = format!("tid int,bid int,aid {aid_type},delta int,mtime timestamp,filler char(22)");
    let accounts = format!("aid {aid_type} not null,bid int,abalance int,filler char(84)");
    let tables = [
        (Table::History, history.as_str()),
        (Table::Tellers, "tid int not null,bid int,tbalance int,filler char(84)"),
        (Table::Accounts, accounts.as_str()),
        (Table::Branches, "bid int not null,bbalance int,filler char(88)"),
    ];
    let unlogged = if options.unlogged && options.partitioning.is_none() { " unlogged" } else { "" };
    let tablespace = options
        .tablespace
        .as_deref()
        .map_or(String::new(), |name| format!(" tablespace {}", identifier(name)));
    let create = |(table, columns): (Table, &str)| {
        let storage = match (table, options.partitioning) {
            (Table::History, _) => String::new(),
            (Table::Accounts, Some(partitioning)) => format!(" partition by {} (aid)", partitioning.method()),
            _ => format!(" with (fillfactor={})", options.fillfactor),
        };
        format!("create{unlogged} table {}({columns}){storage}{tablespace}", table.name())
    };
    tables.into_iter().map(create).chain(create_partitions(scale, options)).collect()
}

fn create_partitions(scale: u32, options: &TpcbOptions) -> Vec<String> {
    let unlogged = if options.unlogged { " unlogged" } else { "" };
    let create = |number: u32, values: String| {
        format!(
            "create{unlogged} table pgbench_accounts_{number}\n  partition of pgbench_accounts\n  \
             for values {values} with (fillfactor={})",
            options.fillfactor
        )
    };
    match options.partitioning {
        None => Vec::new(),
        Some(Partitioning::Hash(n)) => {
            (1..=n).map(|p| create(p, format!("with (modulus {n}, remainder {})", p - 1))).collect()
        }
        Some(Partitioning::Range(n)) => {
            let size = (ACCOUNTS_PER_SCALE * u64::from(scale)).div_ceil(u64::from(n.max(1)));
            let bound = |p: u32| (u64::from(p) * size + 1).to_string();
            let values = |p: u32| {
                let from = if p == 1 { "minvalue".to_owned() } else { bound(p - 1) };
                let to = if p == n { "maxvalue".to_owned() } else { bound(p) };
                format!("from ({from}) to ({to})")
            };
            (1..=n).map(|p| create(p, values(p))).collect()
        }
    }
}

/// The primary keys, to be made after loading.
pub fn primary_keys() -> Vec<String> {
    primary_keys_in(None)
}

/// As [`primary_keys`], with indexes in a tablespace of their own.
pub fn primary_keys_in(index_tablespace: Option<&str>) -> Vec<String> {
    let tablespace = index_tablespace
        .map_or(String::new(), |name| format!(" using index tablespace {}", identifier(name)));
    [(Table::Branches, "bid"), (Table::Tellers, "tid"), (Table::Accounts, "aid")]
        .map(|(table, column)| format!("alter table {} add primary key ({column}){tablespace}", table.name()))
        .into()
}

/// The foreign keys, which pgbench makes only when asked to.
pub fn foreign_keys() -> Vec<String> {
    [
        (Table::Tellers, "bid", Table::Branches),
        (Table::Accounts, "bid", Table::Branches),
        (Table::History, "bid", Table::Branches),
        (Table::History, "tid", Table::Tellers),
        (Table::History, "aid", Table::Accounts),
    ]
    .map(|(table, column, target)| {
        let (table, target) = (table.name(), target.name());
        format!("alter table {table} add constraint {table}_{column}_fkey foreign key ({column}) references {target}")
    })
    .into()
}

/// Drops all tables that exist, in one statement, so that foreign keys do not matter.
pub fn drop_tables() -> String {
    format!("drop table if exists {}", all_names())
}

/// Empties all tables, in one statement, so that foreign keys do not matter.
pub fn truncate_tables() -> String {
    format!("truncate table {}", all_names())
}

/// The COPY that loads a table. `freeze` needs the table to be made or truncated in the same transaction, and an
/// ordinary one: not partitioned accounts.
pub fn copy_statement(table: Table, freeze: bool) -> String {
    let options = if freeze { " with (freeze on)" } else { "" };
    format!("copy {} from stdin{options}", table.name())
}

fn all_names() -> String {
    TABLES.map(Table::name).join(", ")
}

fn identifier(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}
