//! Settings that name objects of a database: a server takes any name for them at its start, and later does something else without a word
//! (`default_tablespace`), or fails at the first table (`default_table_access_method`).

use std::collections::BTreeMap;

use anyhow::{Context, Result, bail};
use wire::quote_literal;
use wire::session::{Session, SessionError};

/// Fails if the server would refuse one of `chosen` in a session in this database, where it looks into the catalogs. Changes nothing: each is
/// set for a transaction that is rolled back.
///
/// # Errors
/// Names the setting, with what the server says of its value; or when the server fails.
pub fn expect(session: &mut Session, chosen: &BTreeMap<String, String>) -> Result<()> {
    // Numbers, switches and words were checked at the start.
    let rows = session.query(
        "select name from pg_catalog.pg_settings where vartype = 'string' and context in ('user', 'superuser')",
    )?;
    let is_text = |name: &str| {
        (0..rows.len()).any(|row| rows.get(row, "name").is_some_and(|known| known.eq_ignore_ascii_case(name)))
    };
    for (name, value) in chosen.iter().filter(|(name, _)| is_text(name)) {
        session.execute("begin")?;
        let (name_text, value_text) = (quote_literal(name), quote_literal(value));
        let set = session.execute(&format!("select pg_catalog.set_config({name_text}, {value_text}, true)"));
        session.execute("rollback")?;
        match set {
            Ok(()) => {}
            Err(SessionError::Server(error)) => {
                let why = error.detail.as_deref().map_or(String::new(), |detail| format!(" ({detail})"));
                bail!(
                    "`{name} = {value}` has no effect on this server: {}{why}; give a value that the server has",
                    error.message
                )
            }
            Err(error) => return Err(error).with_context(|| format!("check `{name}`")),
        }
    }
    Ok(())
}
