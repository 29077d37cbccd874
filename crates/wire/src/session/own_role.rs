//! Whether a superuser's session has the role with which it logged in. `ALTER DATABASE ... SET role` gives it another one, and is the
//! owner's to set: whatever that role has put into the database could take the superuser's rights back (`RESET ROLE`).

use super::{Result, Session, SessionError};

/// The superuser, the role that the database has given the session, and the database. The server cuts the text of the setting to a name.
const GIVEN: &str = "select s.rolname, u.rolname, d.datname from pg_catalog.pg_roles s, pg_catalog.pg_roles u, pg_catalog.pg_database d \
     where s.rolname = session_user and s.rolsuper and u.rolname = current_user and not u.rolsuper \
     and d.datname = current_database() and exists ( \
       select 1 from pg_catalog.pg_db_role_setting p where p.setdatabase = d.oid and p.setrole = 0 \
       and exists (select 1 from pg_catalog.unnest(p.setconfig) s where s like 'role=%' \
         and pg_catalog.substr(s, 6)::pg_catalog.name = u.rolname))";

impl Session {
    /// Fails for a superuser whom the owner of the database has given another role. The search path has to be empty or the server's own.
    ///
    /// # Errors
    /// See [`SessionError`].
    pub fn expect_own_role(&mut self) -> Result<()> {
        let found = match self.query(GIVEN) {
            Ok(found) => found,
            // A server that only speaks PostgreSQL's protocol may lack these catalogs.
            Err(SessionError::Server(_)) => return Ok(()),
            Err(error) => return Err(error),
        };
        let Some([Some(user), Some(role), Some(database)]) = found.rows.first().map(Vec::as_slice) else {
            return Ok(());
        };
        Err(SessionError::GivenRole {
            user: user.clone(),
            role: role.clone(),
            database: database.clone(),
            place: self.cancel_handle().again().to_string(),
        })
    }
}
