//! The server against which the program and the driver run: TLS, and a role `bench` in addition to the superuser.
//!
//! The superuser `postgres` comes in by the unix socket, `bench` by TCP with a password (SCRAM), with TLS or without.

use std::ops::Deref;
use std::sync::Arc;

use crate::certificates::ShownCertificate;
use crate::cluster::ClusterOptions;
use crate::server::TestServer;
use crate::shared::SharedServer;

/// The password of `bench`: nothing may ever print it.
pub const PASSWORD: &str = "S3cretPw";

const OPTIONS: ClusterOptions = ClusterOptions {
    settings: &["shared_buffers=32MB", "max_connections=40", "deadlock_timeout=50ms"],
    hba: Some("local all postgres trust\nhost all bench 127.0.0.1/32 scram-sha-256\n"),
    has_tcp: true,
    certificate: Some(ShownCertificate::SelfSigned),
    is_on_disk: false,
    bin_dir: None,
};

/// A running server with the role `bench`.
#[derive(Debug)]
pub struct Pg(TestServer);

impl Pg {
    /// The server that tests share if they do it no harm; it ends with the last test that uses it.
    #[must_use]
    pub fn shared() -> Arc<Pg> {
        static SHARED: SharedServer<Pg> = SharedServer::new();
        SHARED.get(Pg::start)
    }

    /// A server for one test.
    #[must_use]
    pub fn start() -> Pg {
        let server = TestServer::start(&OPTIONS);
        let mut admin = server.admin("postgres");
        admin.execute("set password_encryption = 'scram-sha-256'").unwrap();
        admin.execute(&format!("create role bench login password '{PASSWORD}'")).unwrap();
        // From 15 on, a user that is no superuser may be allowed to checkpoint.
        if admin.server_version_num() >= 150_000 {
            admin.execute("grant pg_checkpoint to bench").unwrap();
        }
        Pg(server)
    }

    /// The name of a new database of `bench`.
    #[must_use]
    pub fn database(&self) -> String {
        self.database_of("bench")
    }
}

impl Deref for Pg {
    type Target = TestServer;

    fn deref(&self) -> &TestServer {
        &self.0
    }
}
