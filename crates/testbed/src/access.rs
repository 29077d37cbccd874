//! Ways into a server: sessions, connection strings, databases, client programs.

use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

use wire::{Conninfo, Session};

use crate::server::TestServer;

/// Who initializes the cluster.
const SUPERUSER: &str = "postgres";

impl TestServer {
    /// The unix socket, as superuser.
    #[must_use]
    pub fn socket(&self, database: &str) -> Conninfo {
        Conninfo::new(&self.dir().display().to_string(), self.port, SUPERUSER, database)
    }

    /// The same as a connection string.
    #[must_use]
    pub fn admin_target(&self, database: &str) -> String {
        format!("host={} port={} user={SUPERUSER} dbname={database}", self.dir().display(), self.port)
    }

    /// A session of the superuser.
    ///
    /// # Panics
    /// If the server lets none in.
    #[must_use]
    pub fn admin(&self, database: &str) -> Session {
        Session::connect(&self.socket(database)).unwrap_or_else(|error| panic!("{database}: {error}"))
    }

    /// Executes statements as superuser.
    #[track_caller]
    pub fn execute(&self, database: &str, sql: &str) {
        self.admin(database).execute(sql).unwrap_or_else(|error| panic!("{sql}: {error}"));
    }

    /// The one value that `sql` returns in `database`.
    #[track_caller]
    #[must_use]
    pub fn ask(&self, database: &str, sql: &str) -> String {
        let rows = self.admin(database).query(sql).unwrap_or_else(|error| panic!("{sql}: {error}"));
        rows.scalar().unwrap_or_default().to_string()
    }

    /// The name of a new database of `owner`.
    #[must_use]
    pub fn database_of(&self, owner: &str) -> String {
        static NEXT: AtomicU32 = AtomicU32::new(1);
        let name = format!("db{}", NEXT.fetch_add(1, Ordering::Relaxed));
        self.execute(SUPERUSER, &format!("create database {name} owner {owner}"));
        name
    }

    /// A client program that runs as our user and connects to `database` as superuser.
    #[must_use]
    pub fn client(&self, name: &str, database: &str) -> Command {
        let mut command = self.program(name);
        command.env("PGHOST", self.dir()).env("PGPORT", self.port.to_string());
        command.env("PGUSER", SUPERUSER).env("PGDATABASE", database);
        command
    }
}
