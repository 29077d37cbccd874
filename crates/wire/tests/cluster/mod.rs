//! A server with TLS and a role for each way to authenticate.

use std::net::{TcpListener, TcpStream};
use std::ops::Deref;
use std::sync::Arc;

use testbed::{ClusterOptions, SharedServer, TestServer};
use wire::Conninfo;

pub(crate) use testbed::ShownCertificate;

/// The password of every role that has one: nothing may ever print it.
pub(crate) const PASSWORD: &str = "S3cretPw";

const HBA: &str = "
local   all postgres          trust
local   all trusty            trust
local   all md5er             md5
local   all scrammer          scram-sha-256
host    all trusty   all      trust
host    all clear    all      password
host    all md5er    all      md5
host    all scrammer all      scram-sha-256
hostssl all tlsonly  all      scram-sha-256
hostssl all certer   all      cert
";

/// A running server.
pub(crate) struct Cluster(TestServer);

impl Cluster {
    /// The server that the tests share; stopped when the last test using it ends.
    pub(crate) fn shared() -> Arc<Cluster> {
        static SHARED: SharedServer<Cluster> = SharedServer::new();
        SHARED.get(|| Cluster::start(ShownCertificate::Signed))
    }

    pub(crate) fn start(certificate: ShownCertificate) -> Cluster {
        let server = TestServer::start(&ClusterOptions {
            settings: &["shared_buffers=16MB", "max_connections=20"],
            hba: Some(HBA),
            has_tcp: true,
            certificate: Some(certificate),
            is_on_disk: false,
            bin_dir: None,
        });
        server.execute(
            "postgres",
            &format!(
                "create role trusty login; create role certer login;
                 set password_encryption = 'md5'; create role md5er login password '{PASSWORD}';
                 set password_encryption = 'scram-sha-256'; create role scrammer login password '{PASSWORD}';
                 create role clear login password '{PASSWORD}'; create role tlsonly login password '{PASSWORD}'"
            ),
        );
        Cluster(server)
    }

    /// Settings for the unix socket, from an empty environment.
    pub(crate) fn socket(&self, user: &str) -> Conninfo {
        Conninfo { user: user.to_owned(), ..self.0.socket("postgres") }
    }

    /// Settings for TCP from a key=value string with `extra` added.
    pub(crate) fn tcp(&self, user: &str, extra: &str) -> Conninfo {
        let text = format!("host=127.0.0.1 port={} dbname=postgres user={user} {extra}", self.port);
        Conninfo::resolve_in(&text, &Default::default()).unwrap()
    }
}

impl Deref for Cluster {
    type Target = TestServer;

    fn deref(&self) -> &TestServer {
        &self.0
    }
}

/// An unused port of this machine.
pub(crate) fn unused_port() -> u16 {
    loop {
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        if TcpStream::connect(("127.0.0.1", port)).is_err() {
            return port;
        }
    }
}
