//! The rules that the rows of a workload keep: files of SQL that select what violates them.

use crate::objects::schema::Schema;

/// One invariant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Invariant {
    /// The name of its file.
    pub id: &'static str,
    /// The invariant.
    pub title: &'static str,
    /// Selects at most 100 rows that violate it, none if all is well; with `@.` for the schema and `:scale`.
    pub sql: &'static str,
}

impl Invariant {
    /// The statement for the tables of a schema at a scale.
    pub fn query(&self, schema: &Schema, scale: u32) -> String {
        schema.fill(&self.sql.replace(":scale", &scale.to_string()))
    }
}

/// What must hold in a set of tables. All of it is read in one snapshot.
#[derive(Clone, Copy, Debug)]
pub struct Checks {
    /// After any number of transactions.
    pub always: &'static [Invariant],
    /// Until the first one.
    pub fresh: Option<InitialState>,
    /// Names of those that are cheap enough to be made before and after each run.
    pub quick: &'static [&'static str],
    /// The largest tables that these read.
    pub quick_reads: &'static [&'static str],
    /// Another possible explanation of what is found.
    pub hint: Option<Hint>,
}

/// What holds until the first transaction.
#[derive(Clone, Copy, Debug)]
pub struct InitialState {
    /// Selects a row if a transaction has run.
    pub is_changed: &'static str,
    /// The checks of what holds if none has.
    pub checks: &'static [Invariant],
}

/// An explanation of violations.
#[derive(Clone, Copy, Debug)]
pub struct Hint {
    /// Selects whether it applies.
    pub sql: &'static str,
    /// The explanation.
    pub text: &'static str,
}

/// Rows of checks: the name of each file and what it says.
macro_rules! checks {
    ($folder:literal: $($id:literal, $title:literal;)+) => {
        &[$(Invariant { id: $id, title: $title, sql: include_str!(concat!($folder, $id, ".sql")) }),+]
    };
}
pub(crate) use checks;
