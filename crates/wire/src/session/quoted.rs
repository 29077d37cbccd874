//! Names as the server itself quotes them: only where that is necessary, for statements that people read and copy.

use super::{Result, Session};

impl Session {
    /// The name that the SQL expression `name` has, quoted where that is necessary; `None` if it is NULL.
    ///
    /// # Errors
    /// See [`SessionError`](super::SessionError).
    pub fn quoted_if_needed(&mut self, name: &str) -> Result<Option<String>> {
        let rows = self.query(&format!("select pg_catalog.quote_ident({name})"))?;
        Ok(rows.scalar().map(str::to_string))
    }
}
