//! Checks that a server has enough connections for a load before the first client connects.

use anyhow::{Result, ensure};
use wire::session::Session;

/// Connections of a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Room {
    max: i64,
    /// Reserved for superusers, which our user is not.
    reserved: i64,
    in_use: i64,
}

/// One connection observes the server during the load.
const WATCHERS: i64 = 1;

const SQL: &str = "select current_setting('max_connections')::bigint, \
     case when (select rolsuper from pg_catalog.pg_roles where rolname = current_user) then 0 \
          else current_setting('superuser_reserved_connections')::bigint \
             + coalesce(current_setting('reserved_connections', true), '0')::bigint end, \
     (select count(*) from pg_catalog.pg_stat_activity \
       where datid is not null and pid <> pg_catalog.pg_backend_pid())";

/// Fails if `n_clients` do not fit. A server that does not say, or that is behind a pooler, is not checked.
///
/// # Errors
/// With the figures.
pub(crate) fn check(session: &mut Session, n_clients: u32) -> Result<()> {
    let own_pid = session.query("select pg_catalog.pg_backend_pid()")?;
    if own_pid.scalar() != Some(session.backend_pid().to_string().as_str()) {
        return Ok(());
    }
    let Ok(rows) = session.query(SQL) else { return Ok(()) };
    let number = |column: usize| rows.rows.first()?.get(column)?.as_deref()?.parse().ok();
    let (Some(max), Some(reserved), Some(in_use)) = (number(0), number(1), number(2)) else { return Ok(()) };
    judge(Room { max, reserved, in_use }, i64::from(n_clients))
}

fn judge(room: Room, n_clients: i64) -> Result<()> {
    let Room { max, reserved, in_use } = room;
    let free = (max - reserved - in_use).max(0);
    let needed = n_clients + WATCHERS;
    ensure!(
        needed <= free,
        "{n_clients} clients need {needed} connections; the server has {free} free (max_connections {max}, \
         {reserved} reserved, {in_use} in use)"
    );
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clients_that_do_not_fit_are_refused_with_the_figures() {
        let room = Room { max: 20, reserved: 3, in_use: 2 };
        judge(room, 14).unwrap();
        assert_eq!(
            judge(room, 15).unwrap_err().to_string(),
            "15 clients need 16 connections; the server has 15 free (max_connections 20, 3 reserved, 2 in use)"
        );
        assert!(judge(Room { in_use: 40, ..room }, 1).unwrap_err().to_string().contains("has 0 free"));
    }
}
