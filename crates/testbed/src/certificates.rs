//! The certificates of a server with TLS, made by `openssl` in the server's directory.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use crate::process::run;

const NEW_KEY: &str = "-newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes";
const SIGN: &str = "-CA root.crt -CAkey root.key -CAcreateserial -days 2";

/// Which certificate the server shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ShownCertificate {
    /// Signed by `root.crt`, for the host name `db.test`.
    Signed,
    /// Signed by itself as `openssl req -x509` does, with the common name `db.test` only.
    SelfSigned,
    /// Of version 1, without any extension.
    Version1,
}

/// Makes `root.crt`, `server.crt` and `server.key`, and `client.crt` and `client.key` of the user `certer`.
pub(crate) fn make(dir: &Path, certificate: ShownCertificate) {
    let openssl = |line: &str| {
        run(Command::new("openssl").args(line.split_whitespace()).current_dir(dir));
    };
    fs::write(dir.join("san"), "subjectAltName=DNS:db.test,IP:127.0.0.2\n").unwrap();
    openssl(&format!("req -x509 {NEW_KEY} -days 2 -subj /CN=root -keyout root.key -out root.crt"));
    match certificate {
        ShownCertificate::Signed => {
            openssl(&format!("req {NEW_KEY} -subj /CN=x -keyout server.key -out server.csr"));
            openssl(&format!("x509 -req -in server.csr {SIGN} -extfile san -out server.crt"));
        }
        ShownCertificate::SelfSigned => {
            openssl(&format!(
                "req -x509 {NEW_KEY} -days 2 -subj /CN=db.test -keyout server.key -out server.crt"
            ));
        }
        ShownCertificate::Version1 => {
            openssl(&format!("req {NEW_KEY} -subj /CN=db.test -keyout server.key -out server.csr"));
            openssl(&format!("x509 -req -in server.csr {SIGN} -out server.crt"));
        }
    }
    openssl(&format!("req {NEW_KEY} -subj /CN=certer -keyout client.key -out client.csr"));
    openssl(&format!("x509 -req -in client.csr {SIGN} -extfile san -out client.crt"));
    for key in ["server.key", "client.key"] {
        fs::set_permissions(dir.join(key), Permissions::from_mode(0o600)).unwrap();
    }
}

/// The settings with which a server shows what `make` has made.
pub(crate) fn settings(dir: &Path) -> Vec<String> {
    let file = |name: &str| dir.join(name).display().to_string();
    vec![
        "ssl=on".to_string(),
        format!("ssl_cert_file={}", file("server.crt")),
        format!("ssl_key_file={}", file("server.key")),
        format!("ssl_ca_file={}", file("root.crt")),
    ]
}
