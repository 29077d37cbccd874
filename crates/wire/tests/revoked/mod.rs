//! Certificates that their authority has revoked.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use wire::conninfo::Surroundings;
use wire::{Conninfo, Session};

use crate::cluster::{Cluster, ShownCertificate};

const AUTHORITY: &str = "
[ca]
default_ca = authority
[authority]
database = index.txt
crlnumber = crlnumber
default_md = sha256
default_crl_days = 1
crl_extensions = extensions
[extensions]
authorityKeyIdentifier = keyid:always
";

fn authority(dir: &Path, line: &str) {
    let common = "ca -config authority.cnf -keyfile root.key -cert root.crt";
    let mut openssl = Command::new("openssl");
    openssl.args(common.split_whitespace()).args(line.split_whitespace()).current_dir(dir);
    let output = openssl.output().unwrap();
    assert!(output.status.success(), "{line}\n{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn a_revoked_certificate_is_refused_by_the_list_that_libpq_reads() {
    let cluster = Cluster::start(ShownCertificate::Signed);
    let dir = cluster.dir();
    fs::write(dir.join("authority.cnf"), AUTHORITY).unwrap();
    fs::write(dir.join("index.txt"), "").unwrap();
    fs::write(dir.join("crlnumber"), "01\n").unwrap();
    authority(dir, "-gencrl -out none.crl");
    authority(dir, "-gencrl -crlsec 1 -out old.crl");
    authority(dir, "-revoke server.crt");
    authority(dir, "-gencrl -out revoked.crl");
    std::thread::sleep(Duration::from_secs(2));

    let path = |name: &str| dir.join(name).display().to_string();
    let connect = |extra: &str, home: Option<&str>| {
        let text = format!(
            "host=db.test hostaddr=127.0.0.1 port={} dbname=postgres user=trusty {extra}",
            cluster.port
        );
        let around = Surroundings { home: home.map(|name| dir.join(name)), ..Surroundings::default() };
        let conninfo = Conninfo::resolve_in(&text, &around).unwrap();
        // The way a driver learns where to connect.
        let told = Conninfo::from_keywords(&conninfo.keywords(), None).unwrap();
        let said =
            [conninfo, told].map(|conninfo| Session::connect(&conninfo).map(drop).map_err(|e| e.to_string()));
        assert_eq!(said[0], said[1]);
        said[0].clone()
    };
    let root = path("root.crt");
    let check = |list: &str, expected: Option<&str>| {
        for mode in ["require", "verify-ca", "verify-full"] {
            let said = connect(&format!("sslmode={mode} sslrootcert={root} sslcrl={}", path(list)), None);
            match expected {
                None => assert_eq!(said, Ok(()), "{list} {mode}"),
                Some(part) => {
                    assert!(said.as_ref().is_err_and(|e| e.contains(part)), "{list} {mode}: {said:?}")
                }
            }
        }
    };
    check("none.crl", None);
    check("revoked.crl", Some("Revoked"));
    check("old.crl", Some("revocation list expired"));
    check("nowhere.crl", Some("cannot use `sslcrl` file"));
    check("root.crt", Some("no revocation list"));
    let by_address = format!(
        "hostaddr=127.0.0.1 host=other.test sslmode=verify-full sslrootcert={root} sslcrl={}",
        path("none.crl")
    );
    assert!(connect(&by_address, None).is_err_and(|error| error.contains("not valid for name")));

    // Without being named it is looked for at home, as the roots are.
    fs::create_dir_all(dir.join("home/.postgresql")).unwrap();
    fs::copy(path("revoked.crl"), dir.join("home/.postgresql/root.crl")).unwrap();
    let said = connect(&format!("sslmode=verify-full sslrootcert={root}"), Some("home"));
    assert!(said.as_ref().is_err_and(|error| error.contains("Revoked")), "{said:?}");
    // What verifies nothing asks no list.
    assert_eq!(connect("sslmode=require", Some("home")), Ok(()));
}
