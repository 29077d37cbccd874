//! A server that a user starts on a data directory that is already there, as pgdyno's clusters and their copies are.

use std::path::Path;
use std::process::{Child, Stdio};
use std::time::Instant;

use nix::sys::signal::Signal;
use wire::{Conninfo, Session};

use crate::binaries::program;
use crate::process::{WAIT_MAX, end, pid_of, spawn};
use crate::user::{Apart, as_server_user, give_to_server_user, place};

/// A running server; stopped in order when dropped.
#[derive(Debug)]
pub struct ByHand {
    postmaster: Child,
    socket: Apart,
}

impl ByHand {
    /// Starts the newest installed PostgreSQL on `data`, which is of its version, and waits until it lets sessions in.
    ///
    /// # Panics
    /// If it does not start.
    #[must_use]
    pub fn start(data: &Path) -> ByHand {
        let socket = place();
        give_to_server_user(socket.path());
        let mut postgres = program("postgres");
        postgres.arg("-D").arg(data).args(["-p", "5432", "-k"]).arg(socket.path());
        postgres.args(["-c", "listen_addresses=", "-c", "shared_buffers=32MB"]);
        as_server_user(postgres.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()));
        let server = ByHand { postmaster: spawn(postgres), socket };
        let began = Instant::now();
        while let Err(error) = Session::connect(&server.conninfo()) {
            assert!(began.elapsed() < WAIT_MAX, "the server on `{}` does not start: {error}", data.display());
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
        server
    }

    /// The postmaster's process id.
    #[must_use]
    pub fn pid(&self) -> i32 {
        pid_of(&self.postmaster)
    }

    /// Executes a statement in pgdyno's database, and returns the value that it returns, if it does.
    #[track_caller]
    pub fn ask(&self, sql: &str) -> String {
        let mut session = Session::connect(&self.conninfo()).unwrap();
        let rows = session.query(sql).unwrap_or_else(|error| panic!("{sql}: {error}"));
        rows.scalar().unwrap_or_default().to_string()
    }

    fn conninfo(&self) -> Conninfo {
        Conninfo::new(&self.socket.path().display().to_string(), 5432, "postgres", "pgdyno")
    }
}

impl Drop for ByHand {
    fn drop(&mut self) {
        end(&mut self.postmaster, Signal::SIGINT);
    }
}
