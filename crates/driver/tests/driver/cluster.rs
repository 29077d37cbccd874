//! The server of these tests, and the genuine pgbench against it.

use std::fs;
use std::ops::Deref;
use std::sync::Arc;

use testbed::{ClusterOptions, SharedServer, TestServer, as_server_user};
use wire::{Conninfo, Session};

const OPTIONS: ClusterOptions = ClusterOptions {
    settings: &[
        "shared_buffers=16MB",
        "max_connections=100",
        "deadlock_timeout=50ms",
        "log_line_prefix=%a|%c|",
    ],
    hba: None,
    has_tcp: false,
    certificate: None,
    is_on_disk: false,
    bin_dir: None,
};

/// A running server.
pub(crate) struct Cluster(TestServer);

impl Cluster {
    /// The server that the tests share; stopped when the last test using it ends.
    pub(crate) fn shared() -> Arc<Cluster> {
        static SHARED: SharedServer<Cluster> = SharedServer::new();
        SHARED.get(Cluster::start)
    }

    /// A server for one test.
    pub(crate) fn start() -> Cluster {
        Cluster(TestServer::start(&OPTIONS))
    }

    /// Settings for the unix socket.
    pub(crate) fn conninfo(&self) -> Conninfo {
        self.socket("postgres")
    }

    /// A session, as soon as the server lets one in.
    pub(crate) fn session(&self) -> Session {
        self.wait_ready()
    }

    /// Runs the genuine pgbench; `args` without what is needed to connect. Gives standard output and error.
    pub(crate) fn pgbench(&self, args: &[&str]) -> (String, String) {
        let mut command = self.client("pgbench", "postgres");
        let output = as_server_user(command.args(args).arg("dbname=postgres options='-c log_statement=all'"))
            .output()
            .unwrap();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        (text(&output.stdout), text(&output.stderr))
    }

    /// A file that pgbench may read.
    pub(crate) fn file(&self, name: &str, text: &str) -> String {
        let path = self.path(name);
        fs::write(&path, text).unwrap();
        path.display().to_string()
    }
}

impl Deref for Cluster {
    type Target = TestServer;

    fn deref(&self) -> &TestServer {
        &self.0
    }
}
