//! The questions about a statement, in their order, within one transaction that changes nothing.

use std::collections::BTreeSet;

use anyhow::{Context, Result};
use model::release::Release;
use model::release::settings::GENERIC_PLANS;
use serde_json::Value;
use wire::session::{EMPTY_LOCAL_SQL, SearchPath, Session, quote_literal};

use super::columns::KnownColumns;
use super::plan::{self, ParameterUse, PlanFacts};
use super::prepared;
use super::{Described, InquiryLimits, ParameterFacts};
use crate::session::undone_if_failed;

/// Most bytes of a plan that are read.
const PLAN_BYTES_MAX: usize = 16 << 20;

/// Asks about one statement, in a transaction of its own.
///
/// # Errors
/// When the session fails.
pub fn describe(session: &mut Session, sql: &str) -> Result<Described> {
    let mut inquiry = Inquiry::begin(session, InquiryLimits::default())?;
    let described = inquiry.describe(sql)?;
    inquiry.end()?;
    Ok(described)
}

/// A transaction that asks about statements. What it has found out of columns it asks once.
pub struct Inquiry<'s> {
    session: &'s mut Session,
    limits: InquiryLimits,
    columns: KnownColumns,
    /// The search path of the user's statements.
    path: SearchPath,
    n_asked: u64,
}

impl Inquiry<'_> {
    /// Begins a READ ONLY transaction. The session must be in none.
    ///
    /// # Errors
    /// When the session fails.
    pub fn begin(session: &mut Session, limits: InquiryLimits) -> Result<Inquiry<'_>> {
        let timeout_ms = limits.statement_max.as_millis().max(1);
        session
            .execute("begin transaction isolation level read committed read only")
            .context("begin to ask")?;
        // Without pruning, no partition is left out because a parameter has no value.
        session.execute(&format!(
            "select pg_catalog.set_config(s.name, v.value, true) from pg_catalog.pg_settings s join (values \
             ('statement_timeout', '{timeout_ms}'), ('lock_timeout', '{timeout_ms}'), ('plan_cache_mode', 'force_generic_plan'), \
             ('enable_partition_pruning', 'off'), ('jit', 'off')) v(name, value) on v.name = s.name"
        ))?;
        let path = match session.search_path() {
            Some(path) => path.clone(),
            None => {
                let begun = session.query("select pg_catalog.current_setting('search_path')")?;
                SearchPath { setting: begun.scalar().unwrap_or_default().to_string(), schemas: Vec::new() }
            }
        };
        session.execute(EMPTY_LOCAL_SQL)?;
        Ok(Inquiry { session, limits, columns: KnownColumns::default(), path, n_asked: 0 })
    }

    /// Asks about a statement. A parameter without a type gets the first one that the server takes.
    ///
    /// # Errors
    /// When the session fails; what the server says of the statement is no error.
    pub fn describe(&mut self, sql: &str) -> Result<Described> {
        self.describe_fitting(sql, &mut |_, _| true)
    }

    /// Asks about a statement. `fits` says whether the values of a parameter, counted from 1, fit a type of
    /// [`TYPES_TRIED`](super::TYPES_TRIED).
    ///
    /// # Errors
    /// When the session fails; what the server says of the statement is no error.
    pub fn describe_fitting(
        &mut self,
        sql: &str,
        fits: &mut dyn FnMut(usize, &str) -> bool,
    ) -> Result<Described> {
        self.n_asked += 1;
        let name = format!("pgdyno_asked_{}", self.n_asked);
        let sql = sql.trim().trim_end_matches(';');
        // Also takes back the settings that asking changes.
        self.session.execute("savepoint pgdyno_described")?;
        self.session.execute(&self.path.set_local_sql())?;
        let prepared = prepared::prepare(self.session, &name, sql, fits)?;
        let described = match prepared {
            Ok(guessed) => {
                let described = self.describe_prepared(&name, sql, &guessed)?;
                self.leave()?;
                self.session.execute(&format!("deallocate {name}"))?;
                described
            }
            Err(refused) => {
                self.leave()?;
                Described { refused: Some(refused), ..Described::default() }
            }
        };
        Ok(described)
    }

    /// Ends the transaction; nothing has changed.
    ///
    /// # Errors
    /// When the session fails.
    pub fn end(self) -> Result<()> {
        Ok(self.session.execute("rollback")?)
    }

    fn leave(&mut self) -> Result<()> {
        self.session.execute("rollback to savepoint pgdyno_described; release savepoint pgdyno_described")?;
        Ok(())
    }

    fn describe_prepared(&mut self, name: &str, sql: &str, guessed: &[usize]) -> Result<Described> {
        let mut described = Described::default();
        let types_sql = format!(
            "select pg_catalog.format_type(t.oid, null) from pg_catalog.pg_prepared_statements p, \
             pg_catalog.unnest(p.parameter_types) with ordinality t(oid, n) where p.name = {} order by t.n",
            quote_literal(name)
        );
        let types = self.session.query(&types_sql)?.into_first_column();
        let n = types.len();
        described.parameters = types
            .into_iter()
            .enumerate()
            .map(|(index, type_name)| ParameterFacts {
                type_name,
                is_guessed: guessed.contains(&(index + 1)),
                column: None,
            })
            .collect();
        let release = Release::new(self.session.server_version_num());
        if !release.has(GENERIC_PLANS) {
            described.unknown.push(format!(
                "columns and reads: the server shows generic plans since PostgreSQL {}",
                GENERIC_PLANS.first()
            ));
            return Ok(described);
        }
        let Some(facts) = self.plan(name, sql, n, &mut described)? else { return Ok(described) };
        described.reads_only = self.reads_only(&facts)?;
        if !facts.hidden.is_empty() {
            let numbers: Vec<String> = facts.hidden.iter().map(|n| format!("${n}")).collect();
            described
                .unknown
                .push(format!("columns of {}: the plan has others of that name", numbers.join(", ")));
        }
        self.attach(&facts.uses, &mut described)?;
        Ok(described)
    }

    /// The generic plan; `None` if there is none.
    fn plan(
        &mut self,
        name: &str,
        sql: &str,
        n: usize,
        described: &mut Described,
    ) -> Result<Option<PlanFacts>> {
        let nulls = vec!["null"; n].join(", ");
        let arguments = if n == 0 { String::new() } else { format!("({nulls})") };
        let explain = format!("explain (verbose, costs off, format json) execute {name}{arguments}");
        let rows = match undone_if_failed(self.session, |session| session.query(&explain))? {
            Ok(rows) => rows,
            Err(error) => {
                described.unknown.push(format!("columns and reads: {} ({})", error.message, error.sqlstate));
                return Ok(None);
            }
        };
        // One row, or, before a format of its own was its type, one row per line.
        let text = rows.into_first_column().join("\n");
        if text.len() > PLAN_BYTES_MAX {
            described.unknown.push("columns and reads: the plan is too large".to_string());
            return Ok(None);
        }
        match serde_json::from_str::<Value>(&text) {
            // A utility statement has no plan.
            Ok(plan) if plan.get(0).and_then(|one| one.get("Plan")).is_none() => {
                described.unknown.push("reads: a utility statement has no plan".to_string());
                Ok(None)
            }
            Ok(plan) => Ok(Some(plan::read(&plan, sql, n))),
            Err(error) => {
                described.unknown.push(format!("columns and reads: the plan cannot be read: {error}"));
                Ok(None)
            }
        }
    }

    /// Whether the statement only reads, as far as the functions that its plan names are known: those of the server that change
    /// something cannot run in parallel workers.
    fn reads_only(&mut self, facts: &PlanFacts) -> Result<Option<bool>> {
        if facts.writes {
            return Ok(Some(false));
        }
        let names: BTreeSet<&str> = facts.functions.iter().map(|(_, name)| name.as_str()).collect();
        let list: Vec<String> = names.into_iter().map(quote_literal).collect();
        if list.is_empty() {
            return Ok(Some(true));
        }
        let sql = format!(
            "select s.nspname, p.proname from pg_catalog.pg_proc p join pg_catalog.pg_namespace s on s.oid = p.pronamespace \
             where p.provolatile = 'v' and (s.nspname <> 'pg_catalog' or p.proparallel = 'u') and p.proname in ({})",
            list.join(", ")
        );
        let rows = self.session.query(&sql)?.rows;
        let volatile: Vec<(&str, &str)> = rows
            .iter()
            .filter_map(|row| match row.as_slice() {
                [Some(schema), Some(name)] => Some((schema.as_str(), name.as_str())),
                _ => None,
            })
            .filter(|(schema, name)| {
                let is_named = |found: &(Option<String>, String)| {
                    found.1 == *name && found.0.as_deref().is_none_or(|found| found == *schema)
                };
                facts.functions.iter().any(is_named)
            })
            .collect();
        if volatile
            .iter()
            .any(|(schema, name)| *schema == "pg_catalog" && ["nextval", "setval"].contains(name))
        {
            return Ok(Some(false));
        }
        Ok(volatile.is_empty().then_some(true))
    }

    /// Gives each parameter its column: of several, the one that says most.
    fn attach(&mut self, uses: &[ParameterUse], described: &mut Described) -> Result<()> {
        for (index, parameter) in described.parameters.iter_mut().enumerate() {
            for one in uses.iter().filter(|one| one.parameter == index + 1) {
                let Some(mut column) = self.columns.find(self.session, one, self.limits)? else {
                    continue;
                };
                (column.reads, column.is_bare) = (one.reads, one.is_bare);
                let rank = |column: &super::ColumnFacts| {
                    (column.is_bare, column.reads, column.unique, column.indexed)
                };
                if parameter.column.as_ref().is_none_or(|known| rank(known) < rank(&column)) {
                    parameter.column = Some(column);
                }
            }
        }
        Ok(())
    }
}
