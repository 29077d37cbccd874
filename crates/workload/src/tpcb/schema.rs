//! Statements that create, empty and drop the tables and their keys, as pgbench words them.

use super::partition::{self, partitions};
use super::{ACCOUNTS_PER_SCALE, TELLERS_PER_SCALE, TpcbTable, row_count};
use crate::objects::schema::Schema;

/// From this scale on, account ids are 64-bit.
pub(super) const BIGINT_SCALE: u32 = 20_000;

/// How tables are created.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TpcbOptions {
    /// Where tables go; pgbench leaves it to the search path.
    pub schema: Schema,
    /// Percent of each page that loading fills; 10 to 100. History is always full.
    pub fillfactor: u8,
    /// Without WAL: fast, but lost in a crash.
    pub unlogged: bool,
    /// With partitions, these alone are `unlogged` (pgbench 18), or all tables are (17 and before).
    pub unlogged_parents: bool,
    /// Where tables go.
    pub tablespace: Option<String>,
    /// How accounts are partitioned.
    pub partitioning: Option<Partitioning>,
}

impl Default for TpcbOptions {
    fn default() -> TpcbOptions {
        TpcbOptions {
            schema: Schema::searched(),
            fillfactor: 100,
            unlogged: false,
            unlogged_parents: false,
            tablespace: None,
            partitioning: None,
        }
    }
}

/// How `pgbench_accounts` is partitioned, and into how many partitions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Partitioning {
    /// Ranges of `aid`.
    Range(u32),
    /// Hash of `aid`.
    Hash(u32),
}

impl Partitioning {
    /// Number of partitions.
    pub fn n_partitions(self) -> u32 {
        match self {
            Partitioning::Range(n) | Partitioning::Hash(n) => n,
        }
    }

    /// The partitioning method: `range` or `hash`.
    pub fn method(self) -> &'static str {
        match self {
            Partitioning::Range(_) => "range",
            Partitioning::Hash(_) => "hash",
        }
    }
}

/// The CREATE TABLE statements, partitions last.
///
pub fn create_tables(scale: u32, options: &TpcbOptions) -> Vec<String> {
    let aid_type = if scale >= BIGINT_SCALE { "bigint" } else { "   int" };
    let history = format!("tid int,bid int,aid {aid_type},delta int,mtime timestamp,filler char(22)");
    let accounts = format!("aid {aid_type} not null,bid int,abalance int,filler char(84)");
    let tables = [
        (TpcbTable::History, history.as_str()),
        (TpcbTable::Tellers, "tid int not null,bid int,tbalance int,filler char(84)"),
        (TpcbTable::Accounts, accounts.as_str()),
        (TpcbTable::Branches, "bid int not null,bbalance int,filler char(88)"),
    ];
    // A partitioned table has no storage of its own.
    let is_unlogged = options.unlogged && (options.unlogged_parents || options.partitioning.is_none());
    let unlogged = if is_unlogged { " unlogged" } else { "" };
    let tablespace = options
        .tablespace
        .as_deref()
        .map_or(String::new(), |name| format!(" tablespace {}", identifier(name)));
    let create = |(table, columns): (TpcbTable, &str)| {
        let storage = match (table, options.partitioning) {
            (TpcbTable::History, _) => String::new(),
            (TpcbTable::Accounts, Some(partitioning)) => {
                format!(" partition by {} (aid)", partitioning.method())
            }
            _ => format!(" with (fillfactor={})", options.fillfactor),
        };
        format!(
            "create{unlogged} table {}({columns}){storage}{tablespace}",
            options.schema.sql_name(table.name())
        )
    };
    tables.into_iter().map(create).chain(create_partitions(scale, options)).collect()
}

fn create_partitions(scale: u32, options: &TpcbOptions) -> Vec<String> {
    let unlogged = if options.unlogged { " unlogged" } else { "" };
    let Some(partitioning) = options.partitioning else { return Vec::new() };
    let n = partitioning.n_partitions();
    let size = partition::ids_per_range(scale, n);
    let bound = |p: u32| (u64::from(p) * size + 1).to_string();
    let values = |p: u32| match partitioning {
        Partitioning::Hash(_) => format!("with (modulus {n}, remainder {})", p - 1),
        Partitioning::Range(_) => {
            let from = if p == 1 { "minvalue".to_owned() } else { bound(p - 1) };
            let to = if p == n { "maxvalue".to_owned() } else { bound(p) };
            format!("from ({from}) to ({to})")
        }
    };
    let create = |(p, partition): (u32, partition::Partition)| {
        format!(
            "create{unlogged} table {}\n  partition of {}\n  for values {} with (fillfactor={})",
            options.schema.sql_name(&partition.name),
            options.schema.sql_name(TpcbTable::Accounts.name()),
            values(p),
            options.fillfactor
        )
    };
    (1..=n).zip(partitions(scale, partitioning)).map(create).collect()
}

/// The statements by which loads of any scale define tables and keys: account ids have one of two types.
pub(crate) fn definitions() -> Vec<String> {
    let options = TpcbOptions::default();
    let tables = [1, BIGINT_SCALE].map(|scale| create_tables(scale, &options)).into_iter().flatten();
    tables.chain(primary_keys()).collect()
}

/// The primary keys, to be created after loading.
pub fn primary_keys() -> Vec<String> {
    primary_keys_in(None)
}

/// As [`primary_keys`], with indexes in a tablespace of their own.
pub fn primary_keys_in(index_tablespace: Option<&str>) -> Vec<String> {
    [TpcbTable::Branches, TpcbTable::Tellers, TpcbTable::Accounts]
        .map(|table| primary_key_of(table, table.name(), index_tablespace))
        .into()
}

/// The primary key of a table, or of one of its partitions by its name. When all partitions have theirs, that of the
/// partitioned table adopts them, and the catalogs look as if it had created them. History has none.
pub fn primary_key_of(table: TpcbTable, name: &str, index_tablespace: Option<&str>) -> String {
    let column = match table {
        TpcbTable::Branches => "bid",
        TpcbTable::Tellers => "tid",
        TpcbTable::Accounts | TpcbTable::History => "aid",
    };
    let tablespace = index_tablespace
        .map_or(String::new(), |name| format!(" using index tablespace {}", identifier(name)));
    format!("alter table {name} add primary key ({column}){tablespace}")
}

/// The foreign keys, which pgbench creates only on request.
pub fn foreign_keys() -> Vec<String> {
    [
        (TpcbTable::Tellers, "bid", TpcbTable::Branches),
        (TpcbTable::Accounts, "bid", TpcbTable::Branches),
        (TpcbTable::History, "bid", TpcbTable::Branches),
        (TpcbTable::History, "tid", TpcbTable::Tellers),
        (TpcbTable::History, "aid", TpcbTable::Accounts),
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

/// The COPY that loads a table, or a partition by its name. `freeze` needs the table to be created or truncated in the
/// same transaction, and an ordinary one: not partitioned accounts.
pub fn copy_statement(name: &str, freeze: bool) -> String {
    let options = if freeze { " with (freeze on)" } else { "" };
    format!("copy {name} from stdin{options}")
}

/// The COPY of [`super::TpcbRows::short`] into accounts or a partition of them, frozen, between [`set_defaults`] and
/// [`drop_defaults`].
pub fn copy_short_statement(name: &str) -> String {
    format!("copy {name} (aid, bid) from stdin with (freeze on)")
}

/// Makes the values that all fresh rows of accounts share the defaults of their columns. A server that need not read 84 blanks of
/// filler and a balance of 0 again for each row takes rows faster, and stores the same. For accounts, or a partition of
/// them, that nobody else sees: in the transaction of the COPY.
pub fn set_defaults(name: &str) -> String {
    format!("alter table {name} alter column abalance set default 0, alter column filler set default ''")
}

/// Undoes [`set_defaults`].
pub fn drop_defaults(name: &str) -> String {
    format!("alter table {name} alter column abalance drop default, alter column filler drop default")
}

/// The INSERT of one row of branches or tellers, counted from 0: how pgbench loaded these before 17. Accounts have too
/// many rows for this.
pub fn insert_statement(table: TpcbTable, row: u64) -> String {
    let id = row + 1;
    match table {
        TpcbTable::Branches => format!("insert into pgbench_branches(bid,bbalance) values({id},0)"),
        TpcbTable::Tellers => {
            let branch = row / TELLERS_PER_SCALE + 1;
            format!("insert into pgbench_tellers(tid,bid,tbalance) values ({id},{branch},0)")
        }
        TpcbTable::Accounts => {
            let branch = row / ACCOUNTS_PER_SCALE + 1;
            format!("insert into pgbench_accounts(aid,bid,abalance,filler) values ({id},{branch},0,'')")
        }
        TpcbTable::History => "insert into pgbench_history default values".to_owned(),
    }
}

/// The statements with which the server generates all rows itself.
pub fn generate_statements(scale: u32) -> Vec<String> {
    let count = |table| row_count(table, scale);
    vec![
        format!(
            "insert into pgbench_branches(bid,bbalance) select bid, 0 from generate_series(1, {}) as bid",
            count(TpcbTable::Branches)
        ),
        format!(
            "insert into pgbench_tellers(tid,bid,tbalance) select tid, (tid - 1) / {TELLERS_PER_SCALE} + 1, 0 \
             from generate_series(1, {}) as tid",
            count(TpcbTable::Tellers)
        ),
        format!(
            "insert into pgbench_accounts(aid,bid,abalance,filler) \
             select aid, (aid - 1) / {ACCOUNTS_PER_SCALE} + 1, 0, '' from generate_series(1, {}) as aid",
            count(TpcbTable::Accounts)
        ),
    ]
}

/// The tables' names in pgbench's order.
fn all_names() -> String {
    [TpcbTable::Accounts, TpcbTable::Branches, TpcbTable::History, TpcbTable::Tellers]
        .map(TpcbTable::name)
        .join(", ")
}

fn identifier(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}
