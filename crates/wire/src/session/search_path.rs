//! The search path of a session that administers: empty, so that none of our statements calls a function, an operator or
//! a type that somebody put where the server looks first. Whoever owns a database or a role may set its path, and a
//! superuser who administers there would run their functions (as CVE-2018-1058, which made pg_dump do the same).

use super::{Result, Session, SessionError};
use crate::quote::quote_literal;

/// The search path that a session began with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SearchPath {
    /// Value of `search_path`.
    pub setting: String,
    /// Its schemas that exist and that the user may use, in order.
    pub schemas: Vec<String>,
}

impl SearchPath {
    /// A statement that sets it, and the session's own `row_security`, for the rest of the transaction: for statements of
    /// the user's own.
    #[must_use]
    pub fn set_local_sql(&self) -> String {
        let path = quote_literal(&self.setting);
        format!("{}; select pg_catalog.set_config('search_path', {path}, true)", own_row_security_sql(true))
    }
}

/// A statement that gives `row_security` the value that the session began with. Before 9.5 there is none.
fn own_row_security_sql(is_local: bool) -> String {
    format!(
        "select pg_catalog.set_config(name, reset_val, {is_local}) from pg_catalog.pg_settings where name = 'row_security'"
    )
}

/// A statement that empties the path for the rest of the transaction.
pub const EMPTY_LOCAL_SQL: &str = "select pg_catalog.set_config('search_path', '', true)";

impl Session {
    /// Empties the search path. Behind a pooler, which shares its sessions, it stays as it is.
    ///
    /// # Errors
    /// See [`SessionError`].
    pub fn empty_search_path(&mut self) -> Result<()> {
        // Until the path is empty: only functions with their schema, and nothing that looks for an operator or a cast.
        let sql = "select pg_catalog.pg_backend_pid(), pg_catalog.current_setting('search_path')";
        let begun = match self.query(sql) {
            Ok(rows) => rows,
            // A server that only speaks PostgreSQL's protocol may have none.
            Err(SessionError::Server(_)) => return Ok(()),
            Err(error) => return Err(error),
        };
        let row = begun.rows.first().map(Vec::as_slice).unwrap_or_default();
        let [Some(pid), Some(setting)] = row else { return Ok(()) };
        if *pid != self.backend_pid().to_string() {
            return Ok(());
        }
        let schemas = self.query("select pg_catalog.unnest(pg_catalog.current_schemas(false))")?;
        let schemas = schemas.rows.into_iter().filter_map(|row| row.into_iter().next().flatten()).collect();
        let setting = setting.clone();
        self.query("select pg_catalog.set_config('search_path', '', false)")?;
        self.search_path = Some(SearchPath { setting, schemas });
        Ok(())
    }

    /// The search path that the session began with, once it has been emptied.
    pub fn search_path(&self) -> Option<&SearchPath> {
        self.search_path.as_ref()
    }

    /// Gives the session back the search path and the `row_security` that it began with, for statements of the user's
    /// own.
    ///
    /// # Errors
    /// See [`SessionError`].
    pub fn restore_for_user(&mut self) -> Result<()> {
        let Some(path) = self.search_path.take() else { return Ok(()) };
        self.execute(&own_row_security_sql(false))?;
        let sql =
            format!("select pg_catalog.set_config('search_path', {}, false)", quote_literal(&path.setting));
        self.query(&sql).map(drop)
    }
}
