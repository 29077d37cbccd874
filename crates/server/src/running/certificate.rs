//! TLS of one start of a server: an authority that signs one certificate and is thrown away with its key, the certificate,
//! and the server's key, which goes away with the directory of its socket.

use std::io::Write;
use std::net::IpAddr;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose, SanType,
};

use crate::user::account::Account;

/// The files of a server's TLS.
#[derive(Debug)]
pub(crate) struct TlsFiles {
    /// The certificate of the authority, for those who verify the server.
    pub(crate) root: String,
    pub(crate) certificate_file: PathBuf,
    pub(crate) key_file: PathBuf,
}

impl TlsFiles {
    /// Makes a certificate for `address`, and writes it with its key into `dir`, which belongs to the server's user.
    ///
    /// Both certificates are valid for ever: the authority's key is gone when this returns, and drivers whose clocks
    /// are wrong are a matter of other checks.
    pub(crate) fn make(address: IpAddr, dir: &Path, account: &Account) -> Result<TlsFiles> {
        let signed = Signed::by_new_authority(address).context("make a certificate for server.tls")?;
        let write = |name: &str, text: &str| -> Result<PathBuf> {
            let path = dir.join(name);
            account
                .act(|| files::create_new(&path, 0o600))
                .and_then(|mut file| file.write_all(text.as_bytes()))
                .with_context(|| format!("write `{}`", path.display()))?;
            Ok(path)
        };
        Ok(TlsFiles {
            certificate_file: write("server.crt", &signed.certificate)?,
            key_file: write("server.key", &signed.key)?,
            root: signed.root,
        })
    }
}

/// A certificate and its key in PEM format, and that of its authority.
struct Signed {
    root: String,
    certificate: String,
    key: String,
}

impl Signed {
    fn by_new_authority(address: IpAddr) -> Result<Signed, rcgen::Error> {
        let mut authority = named("pgdyno's authority of one start");
        authority.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        authority.key_usages = vec![KeyUsagePurpose::KeyCertSign];
        let authority_key = KeyPair::generate()?;
        let root = authority.self_signed(&authority_key)?.pem();
        let mut server = named("pgdyno's server");
        server.subject_alt_names = vec![SanType::IpAddress(address)];
        server.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        server.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        let key = KeyPair::generate()?;
        let certificate = server.signed_by(&key, &Issuer::from_params(&authority, &authority_key))?.pem();
        Ok(Signed { root, certificate, key: key.serialize_pem() })
    }
}

fn named(name: &str) -> CertificateParams {
    let mut params = CertificateParams::default();
    params.distinguished_name.push(DnType::CommonName, name);
    params
}
