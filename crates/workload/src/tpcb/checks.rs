//! What must hold in the tables after any run of the workload.
//!
//! Every transaction adds one `delta` to an account, a teller and a branch and records it in the history, so the four
//! sums agree at any instant, in total and per row. Truncating the history between runs, as pgbench does by default, breaks these
//! laws: keep it.

use crate::objects::check::{Checks, Hint, Invariant, checks};

/// The laws.
pub const CHECKS: Checks = Checks {
    always: ALWAYS,
    fresh: None,
    quick: &[],
    quick_reads: &[],
    hint: Some(Hint { sql: include_str!("checks/is-simple.sql"), text: SIMPLE }),
};

const ALWAYS: &[Invariant] = checks! { "checks/":
    "row-counts", "each table has the rows of its scale, ids without gaps";
    "foreign-ids", "every id refers to an existing row";
    "accounts-sum", "the sum of account balances equals the sum of recorded deltas";
    "accounts", "each account's balance equals the sum of its recorded deltas";
    "tellers-sum", "the sum of teller balances equals the sum of recorded deltas";
    "branches-sum", "the sum of branch balances equals the sum of recorded deltas";
    "tellers", "each teller's balance equals the sum of its recorded deltas";
    "branches", "each branch's balance equals the sum of its recorded deltas";
};

/// Laws that `tpcb-simple` keeps, which does not touch tellers and branches.
pub const KEPT_BY_SIMPLE: &[&str] = &["row-counts", "foreign-ids", "accounts-sum", "accounts"];

/// Laws that say something of tables which `tpcb-select` only reads.
pub const KEPT_BY_SELECT: &[&str] = &["row-counts", "foreign-ids"];

const SIMPLE: &str = "no teller and no branch was ever changed, as is normal for tpcb-simple: if that ran here, check \
                      with --workload tpcb-simple";
