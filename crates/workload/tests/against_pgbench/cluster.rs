//! A server with the client programs that the tests ask.

use std::io::Write;
use std::ops::Deref;
use std::process::{Command, Stdio};

use testbed::{ClusterOptions, TestServer};

pub(crate) struct Cluster(TestServer);

impl Cluster {
    pub(crate) fn start() -> Cluster {
        Cluster(TestServer::start(&ClusterOptions::default()))
    }

    fn command(&self, program: &str, arguments: &[&str]) -> Command {
        let mut command = self.client(program, "postgres");
        command.current_dir(self.dir()).args(arguments);
        command
    }

    /// Standard output of a client program that succeeds.
    pub(crate) fn run(&self, program: &str, arguments: &[&str]) -> String {
        testbed::run(&mut self.command(program, arguments))
    }

    /// What pgbench says on stderr, whatever becomes of it, without the name in front of errors.
    pub(crate) fn pgbench(&self, arguments: &[&str]) -> String {
        let output = self.command("pgbench", arguments).output().expect("pgbench starts");
        let words = String::from_utf8(output.stderr).expect("pgbench speaks UTF-8");
        words.replace("pgbench: error: ", "")
    }

    /// Rows of a query, unaligned.
    pub(crate) fn query(&self, database: &str, sql: &str) -> String {
        self.run("psql", &["-X", "-A", "-t", "-q", "-v", "ON_ERROR_STOP=1", "-d", database, "-c", sql])
    }

    /// Runs a psql script; for COPY data in line.
    pub(crate) fn script(&self, database: &str, script: &[u8]) {
        let mut psql = self
            .command("psql", &["-X", "-q", "-v", "ON_ERROR_STOP=1", "-d", database])
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .spawn()
            .expect("psql starts");
        psql.stdin.take().expect("piped").write_all(script).expect("psql reads");
        assert!(psql.wait().expect("psql ends").success(), "psql failed in {database}");
    }

    pub(crate) fn write(&self, name: &str, text: &str) {
        std::fs::write(self.path(name), text).expect("scripts are writable");
    }
}

impl Deref for Cluster {
    type Target = TestServer;

    fn deref(&self) -> &TestServer {
        &self.0
    }
}
