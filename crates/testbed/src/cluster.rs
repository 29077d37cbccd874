//! A cluster in a temporary directory, which goes with it.

use std::fs;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use crate::binaries::{clean, program};
use crate::certificates::{self, ShownCertificate};
use crate::process::run;
use crate::template::{TemplateCluster, initialize};
use crate::user::{Apart, as_server_user, give_to_server_user, place, place_in_memory};

/// The number in the name of the socket of a server that does not listen on TCP.
const SOCKET_ONLY_PORT: u16 = 5432;

/// How a test wants its server. By default it listens on its unix socket only and trusts everybody.
#[derive(Debug, Clone, Copy, Default)]
pub struct ClusterOptions<'a> {
    /// Settings as `name=value`.
    pub settings: &'a [&'a str],
    /// The whole of `pg_hba.conf`.
    pub hba: Option<&'a str>,
    /// Whether it also listens on a free port of 127.0.0.1.
    pub has_tcp: bool,
    /// Turns TLS on.
    pub certificate: Option<ShownCertificate>,
    /// Whether its directory must be on a disk. Without fsync nothing has to reach one, and in memory the thousand files of a cluster
    /// take a tenth of the time.
    pub is_on_disk: bool,
    /// The directory with the programs of another release than the newest installed one.
    pub bin_dir: Option<&'a Path>,
}

/// Never started: `data`, the socket and the log are in one directory.
#[derive(Debug)]
pub(crate) struct TestCluster {
    dir: Apart,
    pub(crate) port: u16,
    /// What the server is started with.
    pub(crate) settings: Vec<String>,
    /// Kept for the next test that wants a copy.
    _template: Option<Arc<TemplateCluster>>,
    /// Where its programs are, if not where the newest installed ones are.
    bin_dir: Option<PathBuf>,
}

impl TestCluster {
    pub(crate) fn create(options: &ClusterOptions) -> TestCluster {
        let dir = if options.is_on_disk { place() } else { place_in_memory() };
        give_to_server_user(dir.path());
        let mut settings = vec!["fsync=off".to_string()];
        settings.extend(options.settings.iter().map(|setting| (*setting).to_string()));
        if let Some(certificate) = options.certificate {
            certificates::make(dir.path(), certificate);
            give_to_server_user(&dir.path().join("server.key"));
            settings.extend(certificates::settings(dir.path()));
        }
        let port = if options.has_tcp { unused_port() } else { SOCKET_ONLY_PORT };
        let addresses = if options.has_tcp { "127.0.0.1" } else { "" };
        settings.push(format!("listen_addresses={addresses}"));

        let bin_dir = options.bin_dir.map(Path::to_path_buf);
        let template = if bin_dir.is_none() { Some(TemplateCluster::get()) } else { None };
        let cluster = TestCluster { dir, port, settings, _template: template.clone(), bin_dir };
        match template {
            Some(template) => template.copy_to(&cluster.data()),
            None => initialize(cluster.program("initdb"), &cluster.data()),
        }
        if let Some(hba) = options.hba {
            fs::write(cluster.data().join("pg_hba.conf"), hba).unwrap();
        }
        cluster
    }

    /// A copy of the cluster of a running server, as its standby.
    pub(crate) fn standby_of(primary: &TestCluster) -> TestCluster {
        let dir = place_in_memory();
        give_to_server_user(dir.path());
        let cluster = TestCluster {
            dir,
            port: SOCKET_ONLY_PORT,
            settings: primary.settings.clone(),
            _template: None,
            bin_dir: primary.bin_dir.clone(),
        };
        let mut backup = cluster.program("pg_basebackup");
        backup.arg("-h").arg(primary.dir()).args(["-p", &primary.port.to_string(), "-U", "postgres"]);
        // With the connection to the primary in its settings (-R).
        backup.args(["-R", "-X", "stream", "-c", "fast", "-D"]).arg(cluster.data());
        run(as_server_user(&mut backup));
        cluster
    }

    /// A program of its release.
    pub(crate) fn program(&self, name: &str) -> Command {
        match &self.bin_dir {
            Some(dir) => clean(&dir.join(name)),
            None => program(name),
        }
    }

    pub(crate) fn dir(&self) -> &Path {
        self.dir.path()
    }

    pub(crate) fn data(&self) -> PathBuf {
        self.dir().join("data")
    }

    pub(crate) fn log(&self) -> PathBuf {
        self.dir().join("log")
    }
}

/// A port of 127.0.0.1 on which nothing listens.
///
/// # Panics
/// If there is none.
#[must_use]
pub fn unused_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}
