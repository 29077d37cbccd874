//! Data of a workload directory: its tables created by its own SQL, filled with rows that crate `generator` makes, marked, proved
//! before, and checked after.
//!
//! Not here: what a directory means (`generator`), and when its data is made (`experiment`).

pub mod answers;
pub mod bounds;
pub mod checks;
mod created;
pub mod extensions;
pub mod guest;
pub mod load;
pub mod marks;
mod rows;
mod statements;
pub mod trial;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use generator::Instance;
use model::text::prose::brief_hash;
use wire::quote_literal;
use wire::session::{Session, quote_ident};
use workload::Schema;

/// Longest time of one statement of `schema.sql`: it makes empty tables.
pub const SCHEMA_STATEMENT_MAX: Duration = Duration::from_secs(60);
/// How much later than the server this end gives up: a statement may have lifted the server's limit.
const GRACE: Duration = Duration::from_secs(5);

/// A directory's data and the schema that it goes into.
#[allow(missing_docs, reason = "the names say it")]
#[derive(Clone, Copy)]
pub struct DirectoryData<'a> {
    pub name: &'a str,
    pub scale: u32,
    pub instance: &'a Arc<Instance>,
    pub schema: &'a Schema,
}

impl DirectoryData<'_> {
    /// The first letters of the data's identity, as marks have it.
    fn brief(&self) -> &str {
        brief_hash(self.instance.data_identity())
    }

    /// `search_path` of every session that runs the directory's SQL: nobody else's name comes first. Extensions that it needs may be
    /// elsewhere.
    fn search_path(&self, of_extensions: &[String]) -> String {
        let schemas = of_extensions.iter().map(String::as_str).filter(|name| *name != self.schema.name());
        let all: Vec<String> = std::iter::once(self.schema.name()).chain(schemas).map(quote_ident).collect();
        format!("{}, pg_temp", all.join(", "))
    }

    /// Gives the rest of the session the directory's search path.
    ///
    /// # Errors
    /// When the server fails.
    pub fn enter(&self, session: &mut Session) -> Result<()> {
        let needed = &self.instance.manifest().needs.extensions;
        let of_extensions = extensions::schemas(session, needed)?;
        let path = quote_literal(&self.search_path(&of_extensions));
        Ok(session.execute(&format!("select pg_catalog.set_config('search_path', {path}, false)"))?)
    }
}

/// The settings with which a session of the load begins if its tables are in a schema that was named.
pub fn session_settings(schema: &str) -> BTreeMap<String, String> {
    BTreeMap::from([("search_path".to_string(), format!("{}, pg_temp", quote_ident(schema)))])
}

/// Limits each statement of the session, on the server and, in case a statement lifts that, here.
///
/// # Errors
/// When the server fails.
fn limit_statements(session: &mut Session, longest: Option<Duration>) -> Result<()> {
    let ms = longest.map_or(0, |longest| longest.as_millis());
    session.set_timeout(longest.map(|longest| longest + GRACE));
    Ok(session.execute(&format!("select pg_catalog.set_config('statement_timeout', '{ms}', false)"))?)
}
