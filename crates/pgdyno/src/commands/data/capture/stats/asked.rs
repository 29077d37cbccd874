//! The questions of `capture stats`. What the server hides from the role is unknown.

use std::collections::BTreeMap;
use std::time::Duration;

use ::capture::statistics::{ActivityLine, Begun, STATS_FORMAT, StatsLine};
use anyhow::{Context, Result};
use model::release::settings::OBSERVER_SETTINGS;
use model::release::{Release, functions, privileges, statistics};
use observe::counted::{OWN_COMMENT, StatementCounter};
use serde_json::{Map, Value};
use wire::Conninfo;
use wire::session::{Rows, Session, quote_literal};

/// Limit of each question, on the server, and here.
const STATEMENT_MAX: Duration = Duration::from_secs(10);
const ANSWER_MAX: Duration = Duration::from_secs(15);
/// Tables and columns that are read, the largest first.
const TABLES_MAX: usize = 5_000;
const COLUMNS_MAX: usize = 20_000;

/// A session that asks.
pub(super) struct Asking {
    session: Session,
    release: Release,
    counter: Result<StatementCounter, String>,
    activity: ActivityLine,
}

impl Asking {
    /// Connects. The session ends by itself if this end is gone, and waits for nobody's lock.
    pub(super) fn open(conninfo: &Conninfo) -> Result<Asking> {
        let mut session = Session::connect(conninfo)?;
        session.administer().with_context(|| format!("begin a session on {conninfo}"))?;
        session.set_timeout(Some(ANSWER_MAX));
        let release = Release::new(session.server_version_num());
        let mut settings: Vec<(&str, String)> = release
            .of(&OBSERVER_SETTINGS)
            .into_iter()
            .map(|(name, value)| (name, value.to_string()))
            .collect();
        settings.push(("statement_timeout", STATEMENT_MAX.as_millis().to_string()));
        settings.push(("lock_timeout", "1000".to_string()));
        settings.push(("default_transaction_read_only", "on".to_string()));
        for (name, value) in settings {
            let sql = format!(
                "select pg_catalog.set_config({}, {}, false)",
                quote_literal(name),
                quote_literal(&value)
            );
            session.query(&sql)?;
        }
        let counter = StatementCounter::find(&mut session)?;
        Ok(Asking { session, release, counter, activity: ActivityLine::default() })
    }

    pub(super) fn session(&mut self) -> &mut Session {
        &mut self.session
    }

    pub(super) fn counter(&self) -> Option<&StatementCounter> {
        self.counter.as_ref().ok()
    }

    /// Why the server's statements cannot be read; none if they can.
    pub(super) fn without_statements(&self) -> Option<&str> {
        self.counter.as_ref().err().map(String::as_str)
    }

    /// The first line, with what is unknown.
    pub(super) fn begun(&mut self, every: Duration) -> Result<Begun> {
        let mut unknown = BTreeMap::new();
        if !self.sees_all()? {
            let how = if self.release.has(privileges::MONITORING_ROLES) {
                "grant it pg_read_all_stats"
            } else {
                "before 10, only a superuser does"
            };
            let why =
                format!("the role does not see statements, sessions and some settings of other roles; {how}");
            unknown.insert("other roles".to_string(), why);
        }
        let database = self.ask("select pg_catalog.current_database()::text")?;
        let identifier = if self.release.has(functions::CONTROL_SYSTEM) {
            self.ask("select system_identifier::text from pg_catalog.pg_control_system()").ok()
        } else {
            None
        };
        Ok(Begun {
            format: STATS_FORMAT,
            tool_version: env!("CARGO_PKG_VERSION").to_string(),
            at_us: self.clock_us()?,
            server: self.release.to_string(),
            version_num: self.session.server_version_num(),
            system_identifier: identifier.filter(|identifier| !identifier.is_empty()),
            database,
            every_ms: u64::try_from(every.as_millis()).unwrap_or(u64::MAX),
            unknown,
        })
    }

    fn sees_all(&mut self) -> Result<bool> {
        let role = if self.release.has(privileges::MONITORING_ROLES) {
            "or pg_catalog.pg_has_role(current_user, 'pg_read_all_stats', 'usage')"
        } else {
            ""
        };
        let sql = format!(
            "select (select rolsuper from pg_catalog.pg_roles where rolname = current_user) {role} as sees_all"
        );
        Ok(self.ask(&sql)? == "t")
    }

    /// The server's clock, microseconds since the Unix epoch.
    pub(super) fn clock_us(&mut self) -> Result<i64> {
        let sql = "select (extract(epoch from pg_catalog.clock_timestamp()) * 1000000)::bigint";
        self.ask(sql)?.parse().context("the server does not say its time")
    }

    /// Settings that are not at their defaults.
    pub(super) fn settings(&mut self) -> Result<BTreeMap<String, String>> {
        let rows = self.query(
            "select name, pg_catalog.current_setting(name) from pg_catalog.pg_settings \
             where source not in ('default', 'client', 'session', 'override')",
        )?;
        let pair = |row: Vec<Option<String>>| match <[Option<String>; 2]>::try_from(row) {
            Ok([Some(name), Some(value)]) => Some((name, value)),
            _ => None,
        };
        Ok(rows.rows.into_iter().filter_map(pair).collect())
    }

    /// Counters of the database.
    pub(super) fn database(&mut self) -> Result<StatsLine> {
        let rows = self.query(
            "select pg_catalog.row_to_json(d) from pg_catalog.pg_stat_database d where d.datname = pg_catalog.current_database()",
        )?;
        let row = objects(&rows).into_iter().next().unwrap_or_default();
        let reset = row.get("stats_reset").and_then(Value::as_str).map(str::to_string);
        Ok(StatsLine::Database { at_us: self.clock_us()?, counters: numbers(&row), reset })
    }

    /// Counters and sizes of the largest tables, which need no lock.
    pub(super) fn tables(&mut self) -> Result<StatsLine> {
        let rows = self.query(&format!(
            "select pg_catalog.row_to_json(t) from (select s.schemaname || '.' || s.relname as name, c.relpages, c.reltuples, \
             (select pg_catalog.sum(x.relpages) from pg_catalog.pg_index i join pg_catalog.pg_class x on x.oid = i.indexrelid \
               where i.indrelid = c.oid) as index_pages, \
             s.seq_scan, s.seq_tup_read, s.idx_scan, s.idx_tup_fetch, s.n_tup_ins, s.n_tup_upd, s.n_tup_del, s.n_tup_hot_upd, \
             s.n_live_tup, s.n_dead_tup from pg_catalog.pg_stat_user_tables s join pg_catalog.pg_class c on c.oid = s.relid \
             order by c.relpages desc limit {TABLES_MAX}) t"
        ))?;
        let named = |row: Map<String, Value>| {
            let name = row.get("name")?.as_str()?.to_string();
            Some((name, numbers(&row)))
        };
        let tables = objects(&rows).into_iter().filter_map(named).collect();
        Ok(StatsLine::Tables { at_us: self.clock_us()?, tables })
    }

    /// Columns as pg_stats describes them, with values of rows.
    pub(super) fn columns(&mut self) -> Result<BTreeMap<String, BTreeMap<String, String>>> {
        let rows = self.query(&format!(
            "select pg_catalog.row_to_json(s) from pg_catalog.pg_stats s \
             where s.schemaname not in ('pg_catalog', 'information_schema') limit {COLUMNS_MAX}"
        ))?;
        let named = |row: Map<String, Value>| {
            let part = |key: &str| row.get(key).and_then(Value::as_str).map(str::to_string);
            let name = format!("{}.{}.{}", part("schemaname")?, part("tablename")?, part("attname")?);
            let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_string);
            let known = row.iter().filter(|(_, value)| !value.is_null());
            Some((name, known.map(|(key, value)| (key.clone(), text(value))).collect()))
        };
        Ok(objects(&rows).into_iter().filter_map(named).collect())
    }

    /// Looks at the sessions of clients in the database once.
    pub(super) fn sample(&mut self) -> Result<()> {
        // A role without rights sees no type either.
        let clients = if self.release.has(statistics::BACKEND_TYPES) {
            " and coalesce(backend_type, 'client backend') = 'client backend'"
        } else {
            ""
        };
        let rows = self.query(&format!(
            "select count(*) as sessions, count(*) filter (where state in ('active', 'fastpath function call')) as active, \
             count(*) filter (where state like 'idle in transaction%') as idle, count(*) filter (where state is null) as hidden, \
             (extract(epoch from pg_catalog.clock_timestamp()) * 1000000)::bigint as at_us \
             from pg_catalog.pg_stat_activity where datname = pg_catalog.current_database() \
             and pid <> pg_catalog.pg_backend_pid(){clients}"
        ))?;
        let number =
            |name: &str| rows.parse::<u64>(0, name).with_context(|| format!("no answer about {name}"));
        let active = number("active")?;
        let sum = &mut self.activity;
        sum.at_us = rows.parse(0, "at_us").unwrap_or_default();
        sum.n_samples += 1;
        sum.sessions += number("sessions")?;
        sum.active += active;
        sum.idle_in_transaction += number("idle")?;
        sum.active_max = sum.active_max.max(active);
        sum.hidden += number("hidden")?;
        Ok(())
    }

    /// The samples since the last call, if there are any.
    pub(super) fn take_activity(&mut self) -> Option<StatsLine> {
        let taken = std::mem::take(&mut self.activity);
        (taken.n_samples > 0).then_some(StatsLine::Activity(taken))
    }

    fn query(&mut self, sql: &str) -> Result<Rows> {
        self.session.query(&format!("{OWN_COMMENT} {sql}")).context("ask the server")
    }

    fn ask(&mut self, sql: &str) -> Result<String> {
        Ok(self.query(sql)?.scalar().unwrap_or_default().to_string())
    }
}

/// The rows of one column of JSON.
fn objects(rows: &Rows) -> Vec<Map<String, Value>> {
    let texts = rows.rows.iter().filter_map(|row| row.first()?.as_deref());
    texts.filter_map(|text| serde_json::from_str(text).ok()).collect()
}

/// The members that are numbers.
fn numbers(row: &Map<String, Value>) -> BTreeMap<String, f64> {
    row.iter().filter_map(|(key, value)| Some((key.clone(), value.as_f64()?))).collect()
}
