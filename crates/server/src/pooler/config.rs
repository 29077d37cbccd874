//! The configuration of pgbouncer, and words that are filled in in the user's own.

use std::collections::BTreeMap;

use model::experiment::topology::pooler::PoolMode;
use wire::quote_literal;

/// Clients that it lets in for each of the load: one that leaves is counted until the pooler has noticed, when the next is there already.
const CLIENTS_EACH: u32 = 2;
/// Sessions besides those of the load: ours, and those of somebody who looks.
const SPARE_CLIENTS: u32 = 100;

/// Prepared statements that a release keeps that can: its own default since 1.24.
const PREPARED: &str = "200";

/// Name of the role that may use the console where clients have passwords.
pub(super) const ADMIN: &str = "pgdyno";

/// `DISCARD ALL`, which no text of several statements can contain, by its parts (PostgreSQL's manual, DISCARD).
const DISCARD: &str = "close all; set session authorization default; reset all; deallocate all; unlisten *; \
     select pg_catalog.pg_advisory_unlock_all(); discard plans; discard temp; discard sequences";

/// Places and numbers that a configuration names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Places {
    /// Directory of the server's socket.
    pub(super) host: String,
    /// Port of the server.
    pub(super) port: u16,
    /// Database.
    pub(super) name: String,
    /// Role of the load.
    pub(super) user: String,
    /// Directory of the pooler's socket, or the address that it listens at.
    pub(super) listen: String,
    pub(super) listen_port: u16,
    /// Directory of the pooler.
    pub(super) dir: String,
    /// Directory of this process's own socket.
    pub(super) socket_dir: String,
    /// The file with the passwords of clients, who have none without it.
    pub(super) auth_file: Option<String>,
}

/// A pool of pgbouncer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Pool<'a> {
    pub(super) mode: PoolMode,
    pub(super) size: u32,
    pub(super) n_clients: u32,
    pub(super) keeps_prepared: bool,
    /// The user's settings of pgbouncer.
    pub(super) settings: &'a BTreeMap<String, String>,
    /// Settings of PostgreSQL that sessions of the load begin with.
    pub(super) session_settings: &'a BTreeMap<String, String>,
}

/// Fills in the words in braces.
pub(super) fn filled(text: &str, places: &Places) -> String {
    let words = [
        ("{host}", places.host.clone()),
        ("{port}", places.port.to_string()),
        ("{listen}", places.listen.clone()),
        ("{listen_port}", places.listen_port.to_string()),
        ("{dir}", places.dir.clone()),
        ("{name}", places.name.clone()),
        ("{user}", places.user.clone()),
    ];
    words.iter().fold(text.to_string(), |text, (word, value)| text.replace(word, value))
}

/// The configuration of a process of pgbouncer.
pub(super) fn text(pool: &Pool, places: &Places) -> String {
    let begin = session_begin(pool.session_settings);
    let connect_query = begin.as_ref().map_or(String::new(), |sql| format!(" connect_query={}", value(sql)));
    let mut settings: BTreeMap<String, String> = BTreeMap::new();
    let mut put = |name: &str, value: String| settings.insert(name.to_string(), value);
    put("pool_mode", pool.mode.to_string());
    put("default_pool_size", pool.size.to_string());
    put("max_client_conn", most_clients(pool.n_clients).to_string());
    put("unix_socket_dir", places.socket_dir.clone());
    put("listen_port", places.listen_port.to_string());
    put("ignore_startup_parameters", "extra_float_digits".to_string());
    // A line for each session of a load that connects for each transaction would be measured, too.
    put("log_connections", "0".to_string());
    put("log_disconnections", "0".to_string());
    if pool.keeps_prepared {
        put("max_prepared_statements", PREPARED.to_string());
    }
    if let (Some(sql), PoolMode::Session) = (&begin, pool.mode) {
        put("server_reset_query", format!("{DISCARD}; {sql}"));
    }
    match &places.auth_file {
        None => {
            put("listen_addr", String::new());
            put("auth_type", "any".to_string());
            put("admin_users", places.user.clone());
        }
        Some(file) => {
            put("listen_addr", places.listen.clone());
            put("so_reuseport", "1".to_string());
            put("auth_type", "scram-sha-256".to_string());
            put("auth_file", file.clone());
            put("admin_users", ADMIN.to_string());
        }
    }
    settings.extend(pool.settings.iter().map(|(name, value)| (name.to_ascii_lowercase(), value.clone())));
    let lines: Vec<String> = settings.iter().map(|(name, value)| format!("{name} = {value}\n")).collect();
    format!(
        "[databases]\n* = host={} port={} user={}{connect_query}\n\n[pgbouncer]\n{}",
        value(&places.host),
        places.port,
        value(&places.user),
        lines.concat()
    )
}

fn most_clients(n_clients: u32) -> u32 {
    n_clients.saturating_mul(CLIENTS_EACH).saturating_add(SPARE_CLIENTS)
}

/// SQL with which a connection of the pool begins, so that its sessions have these settings.
fn session_begin(settings: &BTreeMap<String, String>) -> Option<String> {
    let set = |(name, value): (&String, &String)| {
        format!("select pg_catalog.set_config({}, {}, false)", quote_literal(name), quote_literal(value))
    };
    let all: Vec<String> = settings.iter().map(set).collect();
    (!all.is_empty()).then(|| all.join("; "))
}

/// A value in a connection string of pgbouncer, whose quotes are doubled.
fn value(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn places(auth_file: Option<&str>) -> Places {
        Places {
            host: "/tmp/it's".to_string(),
            port: 5432,
            name: "pgdyno".to_string(),
            user: "postgres".to_string(),
            listen: "127.0.0.1".to_string(),
            listen_port: 6432,
            dir: "/d".to_string(),
            socket_dir: "/d/1".to_string(),
            auth_file: auth_file.map(str::to_string),
        }
    }

    fn map(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
        pairs.iter().map(|(name, value)| (name.to_string(), value.to_string())).collect()
    }

    #[test]
    fn a_configuration_has_the_pool_and_the_settings_of_sessions() {
        let session = map(&[("default_transaction_isolation", "serializable")]);
        let settings = map(&[("Query_Wait_Timeout", "3"), ("log_connections", "1")]);
        let pool = Pool {
            mode: PoolMode::Session,
            size: 5,
            n_clients: 50,
            keeps_prepared: true,
            settings: &settings,
            session_settings: &session,
        };
        let found = text(&pool, &places(None));
        let begin = "connect_query='select pg_catalog.set_config(''default_transaction_isolation'', ''serializable'', false)'\n";
        for line in [
            "* = host='/tmp/it''s' port=5432 user='postgres' ",
            begin,
            "default_pool_size = 5\n",
            "max_client_conn = 200\n",
            "pool_mode = session\n",
            "max_prepared_statements = 200\n",
            "query_wait_timeout = 3\n",
            "log_connections = 1\n",
            "auth_type = any\n",
            "admin_users = postgres\n",
            "listen_addr = \n",
            "discard sequences; select pg_catalog.set_config('default_transaction_isolation', 'serializable', false)\n",
        ] {
            assert!(found.contains(line), "{line}: {found}");
        }

        let plain = BTreeMap::new();
        let pool = Pool {
            mode: PoolMode::Transaction,
            keeps_prepared: false,
            settings: &plain,
            session_settings: &plain,
            ..pool
        };
        let found = text(&pool, &places(Some("/d/users")));
        assert!(
            found.contains("so_reuseport = 1\n") && found.contains("auth_type = scram-sha-256\n"),
            "{found}"
        );
        assert!(!found.contains("connect_query") && !found.contains("reset_query"), "{found}");
    }

    #[test]
    fn words_in_braces_are_filled_in() {
        let text =
            "* = host={host} port={port} dbname={name} user={user}\nl={listen}:{listen_port} {dir} {other}";
        assert_eq!(
            filled(text, &places(None)),
            "* = host=/tmp/it's port=5432 dbname=pgdyno user=postgres\nl=127.0.0.1:6432 /d {other}"
        );
    }
}
