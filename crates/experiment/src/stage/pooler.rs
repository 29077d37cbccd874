//! How many clients a pooler lets in and works for: read from PgBouncer's console, where our role may see it. What the pooler
//! does not show is unknown, and no reason to refuse anything.

pub(crate) mod own;

use std::collections::BTreeMap;
use std::sync::atomic::AtomicBool;

use dataset::session::is_console;
use model::experiment::topology::pooler::CONSOLE;
use wire::Conninfo;
use wire::session::{Rows, Session};

/// Limits of a pooler.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Limits {
    /// Sessions of clients, to all databases (`max_client_conn`).
    clients: Option<i64>,
    /// Sessions at the server for our database, with the setting that says so, where a client keeps one until it leaves.
    pool: Option<(i64, &'static str)>,
}

impl Limits {
    /// Those of the pooler at `conninfo`; `None` if it shows none to our role, or is another pooler.
    pub(super) fn from_console(conninfo: &Conninfo, stop: &'static AtomicBool) -> Option<Limits> {
        let console = Conninfo { dbname: CONSOLE.to_string(), ..conninfo.clone() };
        let mut session = Session::connect_unless(&console, stop).ok()??;
        if !is_console(&session) {
            return None;
        }
        let config = session.query("show config").ok()?;
        let databases = session.query("show databases").ok()?;
        Some(Limits::read(&config, &databases, &conninfo.dbname))
    }

    fn read(config: &Rows, databases: &Rows, dbname: &str) -> Limits {
        let of_config: BTreeMap<&str, &str> = (0..config.len())
            .filter_map(|row| Some((config.get(row, "key")?, config.get(row, "value")?)))
            .collect();
        let number = |name: &str| of_config.get(name)?.parse::<i64>().ok();
        let row = (0..databases.len()).find(|row| databases.get(*row, "name") == Some(dbname));
        let of_database = |name: &str| databases.get(row?, name).filter(|text| !text.is_empty());
        let mode = of_database("pool_mode").or_else(|| of_config.get("pool_mode").copied());
        let mut pool = None;
        if mode == Some("session") {
            let size = of_database("pool_size").and_then(|n| n.parse().ok());
            let size = size.or_else(|| number("default_pool_size"));
            // Some releases call the column by the one name, some by the other. It is 0 in most.
            let reserve = ["reserve_pool_size", "reserve_pool"].into_iter().find_map(of_database);
            let reserve = reserve.and_then(|n| n.parse().ok()).or_else(|| number("reserve_pool_size"));
            let of_all = of_database("max_connections").and_then(|n| n.parse().ok());
            pool = [
                size.map(|n: i64| (n + reserve.unwrap_or(0), "pool_size")),
                // 0 is no limit.
                of_all
                    .or_else(|| number("max_db_connections"))
                    .filter(|n| *n > 0)
                    .map(|n| (n, "max_db_connections")),
                number("max_user_connections").filter(|n| *n > 0).map(|n| (n, "max_user_connections")),
            ]
            .into_iter()
            .flatten()
            .min();
        }
        Limits { clients: number("max_client_conn"), pool }
    }

    /// Why `n_clients` do not get in next to `n_own` sessions of pgdyno. Sessions of others, which come and go, are not counted.
    pub(super) fn refusal(&self, n_clients: i64, n_own: i64) -> Option<String> {
        let needed = n_clients + n_own;
        let words = |most: i64, what: &str, name: &str| {
            let fitting = match most - n_own {
                n if n >= 1 => {
                    format!("at most {n} fit: lower workload.clients (--clients), or raise {name}")
                }
                _ => format!("none fits: raise {name}"),
            };
            format!(
                "{n_clients} clients need {needed} sessions, {n_own} of them pgdyno's; {what} ({name} {most}); {fitting}"
            )
        };
        let of_pool = self.pool.filter(|(most, _)| needed > *most).map(|(most, name)| {
            let what = format!("the pooler, which is in session mode, has {most} at the server for them");
            (most, words(most, &what, name))
        });
        let of_clients = self
            .clients
            .filter(|most| needed > *most)
            .map(|most| (most, words(most, &format!("the pooler lets in {most}"), "max_client_conn")));
        of_pool.into_iter().chain(of_clients).min_by_key(|(most, _)| *most).map(|(_, words)| words)
    }
}

/// What to do about a run that failed for a reason that a pooler gives or causes, whose limits could not be read before. `mode` is
/// that of the pooler in between.
pub(crate) fn advice(mode: Option<&str>, reason: &str) -> Option<&'static str> {
    // PgBouncer's own words.
    if reason.contains("max_client_conn") {
        return Some("lower workload.clients (--clients), or raise max_client_conn of the pooler");
    }
    let is_waiting = mode == Some("session") && reason.contains(UNANSWERED);
    is_waiting.then_some(
        "a pooler in session mode works for as many clients at once as its pool has sessions (default_pool_size): lower workload.clients \
         (--clients), or raise that",
    )
}

/// Words of the driver about a client that waits for a session of the pool.
const UNANSWERED: &str = "the server did not parse the statements within";

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(columns: &[&str], rows: &[&[&str]]) -> Rows {
        let cell = |text: &&str| (*text != "-").then(|| text.to_string());
        Rows {
            columns: columns.iter().map(ToString::to_string).collect(),
            rows: rows.iter().map(|row| row.iter().map(cell).collect()).collect(),
            ..Rows::default()
        }
    }

    #[test]
    fn limits_are_those_of_the_database_and_what_is_not_shown_is_unknown() {
        let config = |mode: &str, of_user: &str| {
            rows(
                &["key", "value"],
                &[
                    &["max_client_conn", "30"],
                    &["default_pool_size", "20"],
                    &["max_db_connections", "0"],
                    &["max_user_connections", of_user],
                    &["pool_mode", mode],
                ],
            )
        };
        let columns = ["name", "pool_size", "reserve_pool", "pool_mode", "max_connections"];
        let databases = rows(
            &columns,
            &[
                &["own", "5", "1", "session", "0"],
                &["tx", "5", "0", "transaction", "0"],
                &["few", "20", "0", "-", "4"],
            ],
        );
        let read = |mode, of_user, dbname: &str| Limits::read(&config(mode, of_user), &databases, dbname);
        let limits = |pool| Limits { clients: Some(30), pool };
        assert_eq!(read("transaction", "0", "own"), limits(Some((6, "pool_size"))));
        assert_eq!(read("session", "0", "tx"), limits(None));
        assert_eq!(read("session", "0", "few"), limits(Some((4, "max_db_connections"))));
        assert_eq!(read("session", "3", "few"), limits(Some((3, "max_user_connections"))));
        assert_eq!(read("session", "0", "another"), limits(Some((20, "pool_size"))));
        assert_eq!(Limits::read(&Rows::default(), &Rows::default(), "own"), Limits::default());
    }

    #[test]
    fn a_failure_that_a_pooler_causes_has_advice() {
        let refused = "client 24: server refused the connection: FATAL 08P01: no more connections allowed (max_client_conn)";
        assert!(advice(Some("transaction"), refused).unwrap().contains("raise max_client_conn"));
        let silent = "the server did not parse the statements within 30s";
        assert!(advice(Some("session"), silent).unwrap().contains("default_pool_size"));
        assert_eq!((advice(Some("transaction"), silent), advice(None, silent)), (None, None));
    }

    #[test]
    fn the_number_that_fits_is_said_and_fits() {
        let limits = Limits { clients: Some(30), pool: Some((5, "pool_size")) };
        assert_eq!(
            limits.refusal(20, 2).as_deref(),
            Some(
                "20 clients need 22 sessions, 2 of them pgdyno's; the pooler, which is in session mode, has 5 at the server for them \
                 (pool_size 5); at most 3 fit: lower workload.clients (--clients), or raise pool_size"
            )
        );
        assert_eq!(limits.refusal(3, 2), None);
        let of_clients = Limits { pool: None, ..limits };
        assert_eq!(
            of_clients.refusal(60, 2).as_deref(),
            Some(
                "60 clients need 62 sessions, 2 of them pgdyno's; the pooler lets in 30 (max_client_conn 30); at most 28 fit: lower \
                 workload.clients (--clients), or raise max_client_conn"
            )
        );
        assert_eq!(of_clients.refusal(28, 2), None);
        let none = Limits { clients: Some(2), pool: None };
        assert!(none.refusal(1, 2).unwrap().ends_with("none fits: raise max_client_conn"));
        assert_eq!(Limits::default().refusal(1000, 2), None, "what is hidden is unknown");
    }
}
