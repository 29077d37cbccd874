//! Certificates and keys as people make them with `openssl`: what libpq connects with, this crate does too, or says by
//! name what it lacks.

use std::fs;
use std::os::unix::fs::{MetadataExt, chown};
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use wire::{Conninfo, Session};

use crate::cluster::{Cluster, PASSWORD, ShownCertificate};

const EC: &str = "-newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes";
const P521: &str = "-newkey ec -pkeyopt ec_paramgen_curve:secp521r1 -nodes";
const SIGN: &str = "-CA root.crt -CAkey root.key -CAcreateserial -days 2";
const PSS: &str = "-sigopt rsa_padding_mode:pss";

/// A server whose certificates change.
struct Lab {
    cluster: Cluster,
    n_changes: u32,
}

impl Lab {
    fn start() -> Lab {
        Lab { cluster: Cluster::start(ShownCertificate::Signed), n_changes: 0 }
    }

    fn dir(&self) -> &Path {
        self.cluster.dir()
    }

    fn openssl(&self, line: &str) {
        let mut openssl = Command::new("openssl");
        let output = openssl.args(line.split_whitespace()).current_dir(self.dir()).output().unwrap();
        assert!(output.status.success(), "{line}\n{}", String::from_utf8_lossy(&output.stderr));
    }

    /// Makes an authority and a server's certificate, and has the server use them.
    fn serve(&mut self, authority: &str, request: &str, sign: &str, settings: &[(&str, &str)]) {
        let owner = fs::metadata(self.cluster.path("data")).unwrap().uid();
        fs::remove_file(self.cluster.path("server.key")).unwrap();
        self.openssl(&format!("req -x509 {authority} -days 2 -subj /CN=root -keyout root.key -out root.crt"));
        self.openssl(&format!("req {request} -subj /CN=db.test -keyout server.key -out server.csr"));
        self.openssl(&format!("x509 -req -in server.csr {SIGN} {sign} -out server.crt"));
        self.take(owner, settings);
    }

    fn take(&mut self, owner: u32, settings: &[(&str, &str)]) {
        self.keep_private("server.key");
        chown(self.cluster.path("server.key"), Some(owner), None).unwrap();
        self.n_changes += 1;
        let mut session = Session::connect(&self.cluster.socket("postgres")).unwrap();
        session.query("alter system reset all").unwrap();
        for (name, value) in settings {
            session.query(&format!("alter system set {name} = '{value}'")).unwrap();
        }
        session
            .query(&format!("alter system set log_autovacuum_min_duration = '{}min'", self.n_changes))
            .unwrap();
        session.query("select pg_reload_conf()").unwrap();
        let is_taken = || {
            let mut session = Session::connect(&self.cluster.socket("postgres")).unwrap();
            let found = session.query("select current_setting('log_autovacuum_min_duration')").unwrap();
            found.scalar() == Some(format!("{}min", self.n_changes).as_str())
        };
        while !is_taken() {
            std::thread::sleep(Duration::from_millis(20));
        }
        assert!(!self.cluster.log().contains("was not reloaded"), "{}", self.cluster.log());
    }

    fn keep_private(&self, key: &str) {
        use std::os::unix::fs::PermissionsExt;
        fs::set_permissions(self.cluster.path(key), fs::Permissions::from_mode(0o600)).unwrap();
    }

    fn text(&self, user: &str, extra: &str) -> String {
        let extra = extra.replace("DIR", &self.dir().display().to_string());
        let port = self.cluster.port;
        format!(
            "host=db.test hostaddr=127.0.0.1 port={port} dbname=postgres user={user} password={PASSWORD} {extra}"
        )
    }

    fn ours(&self, user: &str, extra: &str) -> Result<String, String> {
        let conninfo = Conninfo::resolve_in(&self.text(user, extra), &Default::default()).unwrap();
        let mut session = Session::connect(&conninfo).map_err(|error| error.to_string())?;
        let tls = session.tls().unwrap_or_default().to_owned();
        assert_eq!(crate::identity(&mut session), format!("{user} true"));
        Ok(tls)
    }

    fn psql(&self, user: &str, extra: &str) -> Result<(), String> {
        let mut psql = self.cluster.program("psql");
        let output = psql.args([&self.text(user, extra), "-Atc", "select 1"]).output().unwrap();
        if output.status.success() {
            Ok(())
        } else {
            Err(String::from_utf8_lossy(&output.stderr).into_owned())
        }
    }

    /// Connects as `psql` does, for each way to verify.
    fn works(&self, what: &str) {
        self.works_with(what, &["TLSv1.2", "TLSv1.3"]);
    }

    fn works_with(&self, what: &str, versions: &[&str]) {
        for (user, extra) in [
            ("trusty", "sslmode=require"),
            ("trusty", "sslmode=verify-ca sslrootcert=DIR/root.crt"),
            ("trusty", "sslmode=verify-full sslrootcert=DIR/root.crt"),
            ("scrammer", "sslmode=verify-full sslrootcert=DIR/root.crt channel_binding=require"),
        ] {
            assert_eq!(self.psql(user, extra), Ok(()), "psql, {what}: {extra}");
            for version in versions {
                let extra = format!("{extra} ssl_max_protocol_version={version}");
                assert!(self.ours(user, &extra).is_ok(), "{what}: {extra}: {:?}", self.ours(user, &extra));
            }
        }
    }

    /// Neither connects; ours says this.
    fn fails(&self, user: &str, extra: &str, expected: &str) {
        assert!(self.psql(user, extra).is_err(), "psql: {extra}");
        self.is_named(user, extra, expected);
    }

    /// Ours does not connect, and says this.
    fn is_named(&self, user: &str, extra: &str, expected: &str) {
        let error = self.ours(user, extra).expect_err(extra);
        assert!(error.contains(expected), "{extra}: {error}");
    }
}

#[test]
fn certificates_of_servers_are_verified_whatever_openssl_makes_of_them() {
    let mut lab = Lab::start();
    // The manual's own recipe, of version 1 before OpenSSL 3.2.
    lab.serve(EC, EC, "", &[]);
    lab.works("version 1");
    lab.serve("-newkey rsa:2048 -nodes", "-newkey rsa:2048 -nodes", "", &[]);
    lab.works("version 1, RSA");
    lab.fails(
        "trusty",
        "sslmode=verify-ca sslrootcert=DIR/client.crt",
        "client.crt`: name the root of the authority that signed it there",
    );
    let elsewhere = "host=other.test sslmode=verify-full sslrootcert=DIR/root.crt";
    lab.fails("trusty", elsewhere, "invalid peer certificate: certificate not valid for name \"other.test\"");

    lab.serve(P521, P521, "-extfile san", &[]);
    lab.works("P-521");
    lab.serve(P521, P521, "-sha512", &[]);
    lab.works("P-521 with SHA-512, version 1");
    lab.serve(P521, "-newkey rsa:2048 -nodes", "-sha384 -extfile san", &[]);
    lab.works("RSA by a P-521 authority");

    lab.serve(
        "-newkey rsa:2048 -nodes",
        "-newkey rsa-pss -pkeyopt rsa_keygen_bits:2048 -nodes",
        "-extfile san",
        &[],
    );
    lab.works_with("RSA-PSS key", &["TLSv1.3"]);
    let older = "sslmode=require ssl_max_protocol_version=TLSv1.2";
    lab.is_named("trusty", older, "a server with an RSA-PSS key needs TLS 1.3");
    let rsa = "-newkey rsa:3072 -nodes";
    lab.serve(&format!("{rsa} {PSS}"), rsa, &format!("{PSS} -extfile san"), &[]);
    lab.works("RSA-PSS signature");
    lab.serve("-newkey rsa-pss -nodes", "-newkey rsa-pss -nodes", "-sha512", &[]);
    lab.works_with("RSA-PSS keys, version 1", &["TLSv1.3"]);
    lab.fails(
        "trusty",
        "sslmode=verify-ca sslrootcert=DIR/client.crt",
        "client.crt`: name the root of the authority that signed it there",
    );
    lab.serve("-newkey ed25519 -nodes", "-newkey ed25519 -nodes", "", &[]);
    assert!(lab.ours("trusty", "sslmode=verify-full sslrootcert=DIR/root.crt").is_ok());
}

#[test]
fn chains_that_openssl_refuses_are_refused() {
    let mut lab = Lab::start();
    let verified = "sslmode=verify-ca sslrootcert=DIR/root.crt";
    // Another authority with the name and the key type of the one that is trusted.
    lab.serve(EC, EC, "", &[]);
    lab.openssl(&format!("req -x509 {EC} -days 2 -subj /CN=root -keyout other.key -out other.crt"));
    lab.fails("trusty", "sslmode=verify-ca sslrootcert=DIR/other.crt", "invalid peer certificate");

    // Over an intermediate authority, over one that is for clients only, and over a certificate that is none.
    let owner = fs::metadata(lab.cluster.path("server.crt")).unwrap().uid();
    let server_owner = fs::metadata(lab.cluster.path("server.key")).unwrap().uid();
    let is_authority = "basicConstraints=critical,CA:TRUE\n";
    fs::write(lab.cluster.path("ca"), is_authority).unwrap();
    for usage in ["clientAuth", "serverAuth"] {
        let text = format!("{is_authority}extendedKeyUsage={usage}\n");
        fs::write(lab.cluster.path(usage), text).unwrap();
    }
    for (extensions, refused) in [
        ("ca", None),
        ("serverAuth", None),
        ("clientAuth", Some("invalid peer certificate: InvalidPurpose")),
        ("san", Some("is not that of an authority")),
    ] {
        lab.openssl(&format!("req {EC} -subj /CN=between -keyout between.key -out between.csr"));
        lab.openssl(&format!("x509 -req -in between.csr {SIGN} -extfile {extensions} -out between.crt"));
        let by = SIGN.replace("root", "between");
        lab.openssl(&format!("x509 -req -in server.csr {by} -out leaf.crt"));
        let read = |name: &str| fs::read_to_string(lab.cluster.path(name)).unwrap();
        fs::write(lab.cluster.path("server.crt"), read("leaf.crt") + &read("between.crt")).unwrap();
        chown(lab.cluster.path("server.crt"), Some(owner), None).unwrap();
        lab.take(server_owner, &[]);
        match refused {
            None => lab.works(&format!("over an intermediate authority ({extensions})")),
            Some(expected) => lab.fails("trusty", verified, expected),
        }
    }

    // Expired.
    lab.openssl("x509 -req -in server.csr -CA root.crt -CAkey root.key -days -1 -out server.crt");
    lab.take(server_owner, &[]);
    lab.fails(
        "trusty",
        verified,
        "invalid peer certificate: the server's certificate, or one that signed it, has expired: renew it",
    );
    // Its own authority (CA:TRUE), and not listed.
    lab.openssl("req -x509 -new -key server.key -days 2 -subj /CN=self -out server.crt");
    lab.take(server_owner, &[]);
    lab.fails("trusty", verified, "root.crt`; it is self-signed: name it there");
    // A list of revoked certificates cannot be asked about it: said by name.
    lab.openssl("x509 -req -in server.csr -CA root.crt -CAkey root.key -days 2 -out server.crt");
    lab.take(server_owner, &[]);
    fs::write(lab.cluster.path("index.txt"), "").unwrap();
    let text = "[ca]\ndefault_ca=a\n[a]\ndatabase=index.txt\ncrlnumber=number\ndefault_md=sha256\n\
                default_crl_days=1\ncrl_extensions=e\n[e]\nauthorityKeyIdentifier=keyid:always\n";
    fs::write(lab.cluster.path("ca.cnf"), text).unwrap();
    fs::write(lab.cluster.path("number"), "01\n").unwrap();
    lab.openssl("ca -config ca.cnf -keyfile root.key -cert root.crt -gencrl -out none.crl");
    lab.is_named(
        "trusty",
        &format!("{verified} sslcrl=DIR/none.crl"),
        "`sslcrl` is not supported for certificates of version 1",
    );
}

#[test]
fn keys_of_clients_are_read_in_each_form_that_libpq_reads() {
    let lab = Lab::start();
    let made = |request: &str| {
        for file in ["client.key", "client.crt"] {
            fs::remove_file(lab.cluster.path(file)).ok();
        }
        lab.openssl(&format!("req {request} -subj /CN=certer -keyout client.key -out client.csr"));
        // Of version 1, as the manual's recipe makes it.
        lab.openssl(&format!("x509 -req -in client.csr {SIGN} -out client.crt"));
        lab.keep_private("client.key");
    };
    let with_key = |key: &str, extra: &str| {
        lab.keep_private(key);
        format!("sslmode=require sslcert=DIR/client.crt sslkey=DIR/{key} {extra}")
    };
    let works = |key: &str, extra: &str| {
        let extra = with_key(key, extra);
        assert_eq!(lab.psql("certer", &extra), Ok(()), "psql {extra}");
        for tls in ["TLSv1.2", "TLSv1.3"] {
            // With TLS 1.2 OpenSSL takes keys of clients only on the curves of `ssl_ecdh_curve`.
            let extra = format!("{extra} ssl_max_protocol_version={tls}");
            let (psql, ours) = (lab.psql("certer", &extra), lab.ours("certer", &extra));
            let is_named = ours.as_ref().is_err_and(|e| e.contains("an RSA-PSS key needs TLS 1.3 here"));
            assert!(ours.is_ok() || psql.is_err() || tls == "TLSv1.2" && is_named, "{extra}: {ours:?}");
        }
    };
    for request in [EC, P521, "-newkey rsa:2048 -nodes", "-newkey rsa-pss -nodes", "-newkey ed25519 -nodes"] {
        made(request);
        works("client.key", "");
        lab.openssl("pkey -in client.key -outform DER -out der.key");
        works("der.key", "");
        lab.openssl("pkcs8 -topk8 -in client.key -passout pass:S3cret -out locked.key");
        works("locked.key", "sslpassword=S3cret");
        lab.openssl("pkcs8 -topk8 -in client.key -outform DER -passout pass:S3cret -out locked.der");
        // OpenSSL's functions for files in DER ask for no password; nothing speaks against it here.
        assert!(lab.ours("certer", &with_key("locked.der", "sslpassword=S3cret")).is_ok());
        for key in ["locked.key", "locked.der"] {
            lab.is_named(
                "certer",
                &with_key(key, ""),
                "is encrypted: set `sslpassword`, or write a copy without",
            );
            lab.fails("certer", &with_key(key, "sslpassword=wrong"), "is `sslpassword` right?");
        }
    }
    // SEC1 and PKCS#1, as `openssl ecparam` and older releases write them.
    for request in [P521, EC, "-newkey rsa:2048 -nodes"] {
        made(request);
        for (form, file) in [("PEM", "old.key"), ("DER", "old.der")] {
            lab.openssl(&format!("pkey -in client.key -traditional -outform {form} -out {file}"));
            works(file, "");
        }
        lab.openssl("pkey -in client.key -traditional -aes128 -passout pass:S3cret -out old-locked.key");
        lab.is_named("certer", &with_key("old-locked.key", "sslpassword=S3cret"), "openssl pkcs8 -topk8 -in");
        for how in ["-v2 des3", "-v1 PBE-SHA1-3DES"] {
            for (form, file) in [("PEM", "des.key"), ("DER", "des.der")] {
                lab.openssl(&format!(
                    "pkcs8 -topk8 {how} -in client.key -passout pass:S3cret -outform {form} -out {file}"
                ));
                lab.is_named(
                    "certer",
                    &with_key(file, "sslpassword=S3cret"),
                    "openssl pkcs8 -topk8 -v2 aes-256-cbc -in",
                );
            }
        }
    }
    fs::write(lab.cluster.path("nonsense.key"), "nonsense").unwrap();
    lab.fails("certer", &with_key("nonsense.key", ""), "neither PEM nor a private key in DER format");
    lab.openssl(&format!("req {EC} -subj /CN=x -keyout stranger.key -out x.csr"));
    lab.fails("certer", &with_key("stranger.key", ""), "is not the key of the certificate in `sslcert`");
    made("-newkey ec -pkeyopt ec_paramgen_curve:secp256k1 -nodes");
    lab.is_named("certer", &with_key("client.key", ""), "its curve is secp256k1");
    made("-newkey ed448 -nodes");
    lab.is_named("certer", &with_key("client.key", ""), "its key is of type Ed448");
}

#[test]
fn curves_and_suites_are_shared_or_named() {
    let mut lab = Lab::start();
    for curve in ["prime256v1", "secp384r1", "secp521r1"] {
        lab.serve(
            "-newkey rsa:2048 -nodes",
            "-newkey rsa:2048 -nodes",
            "-extfile san",
            &[("ssl_ecdh_curve", curve)],
        );
        lab.works(curve);
    }
    let named = "no cipher suite, curve or kind of key in common: pgdyno offers";
    let verified = "sslmode=verify-ca sslrootcert=DIR/root.crt";
    let old = [("ssl_max_protocol_version", "TLSv1.2")];
    for suite in ["AES256-GCM-SHA384", "DHE-RSA-AES256-GCM-SHA384", "ECDHE-RSA-AES256-SHA384", "AES128-SHA"] {
        lab.serve(
            "-newkey rsa:2048 -nodes",
            "-newkey rsa:2048 -nodes",
            "",
            &[old[0], ("ssl_ciphers", suite)],
        );
        assert_eq!(lab.psql("trusty", verified), Ok(()), "{suite}");
        lab.is_named("trusty", verified, named);
    }
    lab.serve(EC, EC, "", &[("ssl_ecdh_curve", "brainpoolP384r1")]);
    lab.fails("trusty", verified, named);
    lab.serve(EC, "-newkey ed448 -nodes", "", &[]);
    assert_eq!(lab.psql("trusty", verified), Ok(()));
    lab.is_named("trusty", verified, named);
}
