//! The TPC-B-like workload: the built-in scripts of pgbench and the tables they run on.
//!
//! Schema and rows are exactly those of `pgbench -i`, so that either program can run on what the other loaded.
//! Not TPC-B: no think time, no residency rules, and a `filler` of NULLs in most tables.

mod checks;
mod partition;
mod rows;
mod schema;

pub use checks::{CHECKS, KEPT_BY_SELECT, KEPT_BY_SIMPLE};
pub use partition::{Partition, partitions};
pub use rows::TpcbRows;
pub(crate) use schema::definitions;
pub use schema::{
    Partitioning, TpcbOptions, copy_short_statement, copy_statement, create_tables, drop_defaults,
    drop_tables, foreign_keys, generate_statements, insert_statement, primary_key_of, primary_keys,
    primary_keys_in, set_defaults, truncate_tables,
};

use std::sync::LazyLock;

use model::workload::WorkloadKind;

use crate::objects::schema::Schema;

/// Branches per scale unit.
pub const BRANCHES_PER_SCALE: u64 = 1;
/// Tellers per scale unit.
pub const TELLERS_PER_SCALE: u64 = 10;
/// Accounts per scale unit.
pub const ACCOUNTS_PER_SCALE: u64 = 100_000;

pub(crate) const TPCB: &str = include_str!("tpcb/sql/tpcb.sql");
pub(crate) const TPCB_SIMPLE: &str = include_str!("tpcb/sql/tpcb-simple.sql");
pub(crate) const TPCB_SELECT: &str = include_str!("tpcb/sql/tpcb-select.sql");

/// A built-in script.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TpcbScript {
    /// pgbench's `tpcb-like`: five statements in a transaction.
    Tpcb,
    /// pgbench's `simple-update`: no updates of tellers and branches, hence little contention.
    TpcbSimple,
    /// pgbench's `select-only`: one read.
    TpcbSelect,
}

/// A name that no built-in script has.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no built-in script is named `{0}`; take tpcb, tpcb-simple or tpcb-select")]
pub struct UnknownBuiltin(pub String);

impl TpcbScript {
    /// All of them, in pgbench's order.
    pub const ALL: [TpcbScript; 3] = [TpcbScript::Tpcb, TpcbScript::TpcbSimple, TpcbScript::TpcbSelect];

    /// The workload that consists of it.
    pub fn kind(self) -> WorkloadKind {
        match self {
            TpcbScript::Tpcb => WorkloadKind::Tpcb,
            TpcbScript::TpcbSimple => WorkloadKind::TpcbSimple,
            TpcbScript::TpcbSelect => WorkloadKind::TpcbSelect,
        }
    }

    /// The name, as an experiment file spells it.
    pub fn name(self) -> &'static str {
        self.kind().as_str()
    }

    /// pgbench's name.
    pub fn pgbench_name(self) -> &'static str {
        match self {
            TpcbScript::Tpcb => "tpcb-like",
            TpcbScript::TpcbSimple => "simple-update",
            TpcbScript::TpcbSelect => "select-only",
        }
    }

    /// pgbench's description, which stands for the script's name in its output.
    pub fn description(self) -> &'static str {
        match self {
            TpcbScript::Tpcb => "<builtin: TPC-B (sort of)>",
            TpcbScript::TpcbSimple => "<builtin: simple update>",
            TpcbScript::TpcbSelect => "<builtin: select only>",
        }
    }

    /// The script as pgbench has it, which leaves the schema to the search path.
    pub fn source(self) -> &'static str {
        static SOURCES: LazyLock<[String; 3]> =
            LazyLock::new(|| TpcbScript::ALL.map(|builtin| builtin.source_in(&Schema::searched())));
        &SOURCES[self as usize]
    }

    /// The script on the tables of a schema.
    pub fn source_in(self, schema: &Schema) -> String {
        schema.fill(match self {
            TpcbScript::Tpcb => TPCB,
            TpcbScript::TpcbSimple => TPCB_SIMPLE,
            TpcbScript::TpcbSelect => TPCB_SELECT,
        })
    }

    /// Finds a script by our name or pgbench's.
    pub fn parse(name: &str) -> Result<TpcbScript, UnknownBuiltin> {
        let is_named = |builtin: &TpcbScript| builtin.name() == name || builtin.pgbench_name() == name;
        TpcbScript::ALL.into_iter().find(is_named).ok_or_else(|| UnknownBuiltin(name.to_owned()))
    }

    /// Finds a script by an unambiguous prefix of pgbench's name; the error is pgbench's message.
    pub fn parse_pgbench_prefix(prefix: &str) -> Result<TpcbScript, String> {
        let found: Vec<TpcbScript> = TpcbScript::ALL
            .into_iter()
            .filter(|builtin| builtin.pgbench_name().starts_with(prefix))
            .collect();
        match found[..] {
            [builtin] => Ok(builtin),
            [] => Err(format!("no builtin script found for name \"{prefix}\"")),
            _ => Err(format!(
                "ambiguous builtin name: {} builtin scripts found for prefix \"{prefix}\"",
                found.len()
            )),
        }
    }
}

impl std::str::FromStr for TpcbScript {
    type Err = UnknownBuiltin;

    fn from_str(name: &str) -> Result<TpcbScript, UnknownBuiltin> {
        TpcbScript::parse(name)
    }
}

/// A table of the workload.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TpcbTable {
    /// `pgbench_branches`.
    Branches,
    /// `pgbench_tellers`.
    Tellers,
    /// `pgbench_accounts`.
    Accounts,
    /// `pgbench_history`: empty after loading.
    History,
}

/// All tables, in the order of loading and vacuuming.
pub const TABLES: [TpcbTable; 4] =
    [TpcbTable::Branches, TpcbTable::Tellers, TpcbTable::Accounts, TpcbTable::History];

impl TpcbTable {
    /// The table's name.
    pub const fn name(self) -> &'static str {
        match self {
            TpcbTable::Branches => "pgbench_branches",
            TpcbTable::Tellers => "pgbench_tellers",
            TpcbTable::Accounts => "pgbench_accounts",
            TpcbTable::History => "pgbench_history",
        }
    }
}

/// Rows of a freshly loaded table.
pub fn row_count(table: TpcbTable, scale: u32) -> u64 {
    let per_scale = match table {
        TpcbTable::Branches => BRANCHES_PER_SCALE,
        TpcbTable::Tellers => TELLERS_PER_SCALE,
        TpcbTable::Accounts => ACCOUNTS_PER_SCALE,
        TpcbTable::History => 0,
    };
    per_scale * u64::from(scale)
}
