//! Queries that find violations of what must hold after any run of the workload.
//!
//! Every transaction adds one `delta` to an account, a teller and a branch and records it in the history, so the four
//! sums agree at any instant, in total and per row. All queries of a check belong in one repeatable-read snapshot.
//! Truncating the history between runs, as pgbench does by default, breaks these laws: keep it.

use super::{Builtin, TABLES, Table, row_count};
use crate::objects::check::Check;
use crate::objects::schema::Schema;

/// Most offending rows that a check returns.
const ROWS_MAX: u32 = 100;

/// The invariants that hold after any number of runs of `builtin` on freshly loaded tables.
///
/// `tpcb-simple` does not touch tellers and branches, so the laws about these do not hold there; `tpcb-select` changes
/// nothing, and only the shape of the tables is checked.
pub fn balance_checks(schema: &Schema, builtin: Builtin, scale: u32) -> Vec<Check> {
    let mut checks = vec![
        Check {
            id: "row-counts",
            title: "each table has the rows of its scale, ids without gaps",
            sql: row_counts(scale),
        },
        Check { id: "foreign-ids", title: "every id refers to an existing row", sql: foreign_ids() },
    ];
    if !builtin.kind().row().only_reads() {
        checks.push(Check {
            id: "accounts-sum",
            title: "the sum of account balances equals the sum of recorded deltas",
            sql: sums("abalance", "pgbench_accounts"),
        });
        checks.push(Check {
            id: "accounts",
            title: "each account's balance equals the sum of its recorded deltas",
            sql: per_row("pgbench_accounts", "aid", "abalance"),
        });
    }
    if builtin == Builtin::Tpcb {
        checks.extend([
            Check {
                id: "tellers-sum",
                title: "the sum of teller balances equals the sum of recorded deltas",
                sql: sums("tbalance", "pgbench_tellers"),
            },
            Check {
                id: "branches-sum",
                title: "the sum of branch balances equals the sum of recorded deltas",
                sql: sums("bbalance", "pgbench_branches"),
            },
            Check {
                id: "tellers",
                title: "each teller's balance equals the sum of its recorded deltas",
                sql: per_row("pgbench_tellers", "tid", "tbalance"),
            },
            Check {
                id: "branches",
                title: "each branch's balance equals the sum of its recorded deltas",
                sql: per_row("pgbench_branches", "bid", "bbalance"),
            },
        ]);
    }
    checks.iter_mut().for_each(|check| check.sql = schema.fill(&check.sql));
    checks
}

/// Whether transactions wrote only to accounts and the history, not to tellers and branches.
pub fn is_untouched_but_for_accounts(schema: &Schema) -> String {
    schema.fill(
        "select exists (select 1 from @.pgbench_history) \
        and not exists (select 1 from @.pgbench_tellers where tbalance <> 0) \
        and not exists (select 1 from @.pgbench_branches where bbalance <> 0)",
    )
}

/// Counts committed transactions that wrote.
pub fn history_rows(schema: &Schema) -> String {
    schema.fill("select count(*) from @.pgbench_history")
}

fn sums(balance: &str, table: &str) -> String {
    format!(
        "select balances, deltas from \
         (select coalesce(sum({balance}), 0) as balances from @.{table}) b, \
         (select coalesce(sum(delta), 0) as deltas from @.pgbench_history) h \
         where balances <> deltas"
    )
}

/// A full join also finds a deleted row and a delta without its account. (NULL never equals anything.)
fn per_row(table: &str, id: &str, balance: &str) -> String {
    format!(
        "select coalesce(t.{id}, h.{id}) as {id}, t.{balance} as balance, h.deltas from @.{table} t \
         full join (select {id}, sum(delta) as deltas from @.pgbench_history group by {id}) h on t.{id} = h.{id} \
         where t.{balance} is distinct from coalesce(h.deltas, 0) limit {ROWS_MAX}"
    )
}

fn row_counts(scale: u32) -> String {
    let count = |table: Table| {
        let (name, n_rows) = (table.name(), row_count(table, scale));
        let id = match table {
            Table::Branches => "bid",
            Table::Tellers => "tid",
            Table::Accounts | Table::History => "aid",
        };
        format!(
            "select '{name}' as table_name, {n_rows}::bigint as expected, count(*) as counted, \
             count({id}) as with_id, min({id})::bigint as lowest, max({id})::bigint as highest from @.{name}"
        )
    };
    let loaded = TABLES.into_iter().filter(|table| *table != Table::History);
    let counts = loaded.map(count).collect::<Vec<_>>().join(" union all ");
    format!(
        "select * from ({counts}) t where (counted, with_id, lowest, highest) \
         is distinct from (expected, expected, 1::bigint, expected)"
    )
}

fn foreign_ids() -> String {
    let orphans = |(table, id, target): (Table, &str, Table)| {
        let (table, target) = (table.name(), target.name());
        format!(
            "(select '{table}.{id}' as column_name, f.{id}::bigint as id, count(*) as n_rows from @.{table} f \
             left join @.{target} t on t.{id} = f.{id} where t.{id} is null group by f.{id} limit {ROWS_MAX})"
        )
    };
    [
        (Table::Tellers, "bid", Table::Branches),
        (Table::Accounts, "bid", Table::Branches),
        (Table::History, "bid", Table::Branches),
        (Table::History, "tid", Table::Tellers),
        (Table::History, "aid", Table::Accounts),
    ]
    .map(orphans)
    .join(" union all ")
        + &format!(" limit {ROWS_MAX}")
}
