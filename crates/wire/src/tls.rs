//! libpq's semantics of TLS on top of rustls: which certificates are trusted for each `sslmode`, client certificates,
//! and the hash that binds SCRAM to the channel. Reads certificate files; opens no connection.

mod chain;
mod client_key;
mod end_point;
mod p521;
mod provider;
mod pss;
mod refusal;

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{ResolvesClientCert, WebPkiServerVerifier};
use rustls::client::{verify_server_cert_signed_by_trust_anchor, verify_server_name};
use rustls::crypto::{verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, CertificateRevocationListDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::sign::CertifiedKey;
use rustls::{
    CertificateError, ClientConfig, DigitallySignedStruct, Error as TlsError, OtherError, RootCertStore,
    SignatureScheme, SupportedProtocolVersion, version,
};
use x509_cert::der::Decode;
use x509_cert::der::oid::db::rfc4519;
use x509_cert::ext::pkix::SubjectAltName;
use x509_cert::ext::pkix::name::GeneralName;
use x509_cert::spki::SubjectPublicKeyInfoOwned;

use crate::conninfo::named_file;
use crate::conninfo::{Conninfo, Host, SslMode, TlsVersion};
use provider::provider;

pub(crate) use end_point::server_end_point;
pub(crate) use refusal::reason;

/// The name that PostgreSQL 17 and later expect in the handshake; older servers ignore it.
const ALPN: &[u8] = b"postgresql";

/// Everything that a handshake with one host needs.
pub(crate) struct TlsSetup {
    pub(crate) config: Arc<ClientConfig>,
    pub(crate) name: ServerName<'static>,
    pub(crate) certificate: Arc<ClientCertificate>,
    /// What the handshake verifies of the server.
    pub(crate) verified: Verified,
}

/// What is verified of a server that TLS connects to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verified {
    Nothing,
    /// Somebody whom the user trusts signed its certificate.
    Certificate,
    /// That, and the certificate names the host that was asked for.
    CertificateAndName,
}

impl Verified {
    /// What is said of it behind version and cipher: `, certificate verified`.
    pub(crate) fn suffix(self) -> &'static str {
        match self {
            Verified::Nothing => "",
            Verified::Certificate => ", certificate verified",
            Verified::CertificateAndName => ", certificate and name verified",
        }
    }
}

impl TlsSetup {
    /// Prepares TLS for `host`. The error is a message for people.
    pub(crate) fn new(conninfo: &Conninfo, host: &Host) -> Result<TlsSetup, String> {
        let certificate = Arc::new(ClientCertificate::read(conninfo)?);
        let (verifier, verified) = verifier(conninfo, "`sslrootcert` file")?;
        let mut config = ClientConfig::builder_with_provider(provider().clone())
            .with_protocol_versions(&versions(conninfo))
            .map_err(|error| error.to_string())?
            .dangerous()
            .with_custom_certificate_verifier(verifier)
            .with_client_cert_resolver(certificate.clone());
        config.alpn_protocols = vec![ALPN.to_vec()];
        config.enable_sni = conninfo.sslsni;
        let name = ServerName::try_from(host.host.clone())
            .or_else(|_| ServerName::try_from(host.hostaddr.clone().unwrap_or_default()))
            .map_err(|_| format!("`{}` is not a valid name for a certificate", host.host))?;
        Ok(TlsSetup { config: Arc::new(config), name, certificate, verified })
    }
}

/// TLS for another protocol than PostgreSQL's: the server must show a certificate for its name, from an authority of the
/// file `ca`, else from one that the system trusts.
///
/// # Errors
/// When certificates cannot be read.
pub fn verified(ca: Option<&Path>) -> Result<Arc<ClientConfig>, String> {
    let ca = ca.map_or("system".to_string(), |path| path.display().to_string());
    let keywords = [("host", "any"), ("user", "nobody"), ("sslmode", "verify-full"), ("sslrootcert", &ca)];
    let keywords = keywords.map(|(keyword, value)| (keyword.to_string(), value.to_string()));
    let conninfo = Conninfo::from_keywords(&keywords.into(), None).map_err(|error| error.to_string())?;
    let (verifier, _) = verifier(&conninfo, "the certificates of")?;
    let config = ClientConfig::builder_with_provider(provider().clone())
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?
        .dangerous()
        .with_custom_certificate_verifier(verifier)
        .with_no_client_auth();
    Ok(Arc::new(config))
}

fn versions(conninfo: &Conninfo) -> Vec<&'static SupportedProtocolVersion> {
    let range = conninfo.ssl_min_protocol_version..=conninfo.ssl_max_protocol_version;
    let known = [(TlsVersion::V1_2, &version::TLS12), (TlsVersion::V1_3, &version::TLS13)];
    known.into_iter().filter(|(version, _)| range.contains(version)).map(|(_, known)| known).collect()
}

/// The verifier that a connection asks for; `named` is said before the name of the file with root certificates.
fn verifier(conninfo: &Conninfo, named: &str) -> Result<(Arc<dyn ServerCertVerifier>, Verified), String> {
    let file = conninfo.sslrootcert.as_deref();
    if let Some(text) = &conninfo.root_certificates {
        let listed = certificates_in(text.as_bytes())
            .map_err(|error| format!("cannot use the given root certificates: {error}"))?;
        return roots_verifier(conninfo, listed, "the given root certificates".to_string());
    }
    if file == Some("system") {
        let platform = rustls_platform_verifier::Verifier::new(provider().clone())
            .map_err(|error| format!("cannot read the system's root certificates: {error}"))?;
        return Ok((Arc::new(platform), Verified::CertificateAndName));
    }
    let must_verify = conninfo.sslmode >= SslMode::VerifyCa;
    let Some(file) = file.filter(|file| must_verify || fs::exists(file).unwrap_or(false)) else {
        if must_verify {
            return Err(format!(
                "`sslmode={}` needs root certificates: set `sslrootcert` to a file, or to `system`",
                conninfo.sslmode.as_str()
            ));
        }
        return Ok((Arc::new(Verifier { trust: Trust::Anything }), Verified::Nothing));
    };
    let listed = certificates(file).map_err(|error| format!("cannot read {named} `{file}`: {error}"))?;
    roots_verifier(conninfo, listed, format!("{named} `{file}`"))
}

/// A verifier that trusts these certificates alone; `place` says where they are.
fn roots_verifier(
    conninfo: &Conninfo,
    listed: Vec<CertificateDer<'static>>,
    place: String,
) -> Result<(Arc<dyn ServerCertVerifier>, Verified), String> {
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(listed.iter().cloned());
    let check_name = conninfo.sslmode == SslMode::VerifyFull;
    let revocation = revocation(conninfo, &roots)?;
    let verified = if check_name { Verified::CertificateAndName } else { Verified::Certificate };
    let trust = Trust::Roots { roots, listed, revocation, check_name, place };
    Ok((Arc::new(Verifier { trust }), verified))
}

/// Reads the certificate revocation list, if there is one. As with libpq, a current list of the issuer must then cover
/// every certificate of the chain.
fn revocation(
    conninfo: &Conninfo,
    roots: &RootCertStore,
) -> Result<Option<Arc<WebPkiServerVerifier>>, String> {
    let Some(file) = &conninfo.sslcrl else { return Ok(None) };
    let about = |error: &dyn std::fmt::Display| format!("cannot use `sslcrl` file `{file}`: {error}");
    let text = named_file::read(Path::new(file)).map_err(|error| about(&error))?;
    let lists: Vec<_> = CertificateRevocationListDer::pem_slice_iter(&text)
        .collect::<Result<_, _>>()
        .map_err(|error| about(&error))?;
    if lists.is_empty() {
        return Err(about(&"it contains no revocation list in PEM format"));
    }
    let builder = WebPkiServerVerifier::builder_with_provider(Arc::new(roots.clone()), provider().clone());
    let verifier = builder.with_crls(lists).enforce_revocation_expiration().build();
    verifier.map(Some).map_err(|error| about(&error))
}

/// The client's certificate, and whether the server has asked for it.
#[derive(Debug)]
pub(crate) struct ClientCertificate {
    key: Option<Arc<CertifiedKey>>,
    was_asked_for: AtomicBool,
    cannot_sign: AtomicBool,
}

impl ClientCertificate {
    /// True once the server has asked for it in the handshake.
    pub(crate) fn was_asked_for(&self) -> bool {
        self.was_asked_for.load(Ordering::Relaxed)
    }

    /// True if the server asked for it and takes none of the signatures that its key can make.
    pub(crate) fn cannot_sign(&self) -> bool {
        self.cannot_sign.load(Ordering::Relaxed)
    }

    /// Whether it was sent, which requires that it exists.
    pub(crate) fn was_shown(&self) -> bool {
        self.was_asked_for() && self.key.is_some()
    }

    /// Reads the files. A missing certificate is not an error: libpq connects without it.
    fn read(conninfo: &Conninfo) -> Result<ClientCertificate, String> {
        let key = certified_key(conninfo)?.map(Arc::new);
        Ok(ClientCertificate {
            key,
            was_asked_for: AtomicBool::new(false),
            cannot_sign: AtomicBool::new(false),
        })
    }
}

impl ResolvesClientCert for ClientCertificate {
    fn resolve(&self, _roots: &[&[u8]], schemes: &[SignatureScheme]) -> Option<Arc<CertifiedKey>> {
        self.was_asked_for.store(true, Ordering::Relaxed);
        let cannot_sign = self.key.as_ref().is_some_and(|key| key.key.choose_scheme(schemes).is_none());
        self.cannot_sign.store(cannot_sign, Ordering::Relaxed);
        self.key.clone()
    }

    fn has_certs(&self) -> bool {
        self.key.is_some()
    }
}

fn certified_key(conninfo: &Conninfo) -> Result<Option<CertifiedKey>, String> {
    let Some(file) = conninfo.sslcert.as_deref().filter(|file| fs::exists(file).unwrap_or(false)) else {
        return Ok(None);
    };
    let chain =
        certificates(file).map_err(|error| format!("cannot read `sslcert` file `{file}`: {error}"))?;
    let Some(key_file) = conninfo.sslkey.as_deref() else {
        return Err(format!("certificate `{file}` has no key: set `sslkey`"));
    };
    let about = |error: &dyn std::fmt::Display| format!("cannot read `sslkey` file `{key_file}`: {error}");
    let (open, metadata) = named_file::open(Path::new(key_file)).map_err(|error| about(&error))?;
    // As in libpq: our own key must be readable by us only; one owned by root may be readable by a group.
    let forbidden = if metadata.uid() == 0 { 0o037 } else { 0o077 };
    if metadata.mode() & forbidden != 0 {
        return Err(format!("private key `{key_file}` can be read by others: chmod 0600 {key_file}"));
    }
    let content = named_file::read_open(open).map_err(|error| about(&error))?;
    client_key::certified(chain, key_file, &content, conninfo.key_password.as_ref()).map(Some)
}

fn certificates(file: &str) -> Result<Vec<CertificateDer<'static>>, String> {
    certificates_in(&named_file::read(Path::new(file)).map_err(|error| error.to_string())?)
}

fn certificates_in(pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, String> {
    match CertificateDer::pem_slice_iter(pem).collect::<Result<Vec<_>, _>>() {
        Ok(found) if found.is_empty() => Err("it contains no certificate in PEM format".to_owned()),
        Ok(found) => Ok(found),
        Err(error) => Err(error.to_string()),
    }
}

/// Verifies certificates as libpq with OpenSSL does.
#[derive(Debug)]
struct Verifier {
    trust: Trust,
}

#[derive(Debug)]
enum Trust {
    /// `require` and weaker without a root file: encryption protects against eavesdropping, not against impersonation.
    Anything,
    /// A chain to one of the roots (`verify-ca`), and optionally the host name (`verify-full`).
    Roots {
        roots: RootCertStore,
        listed: Vec<CertificateDer<'static>>,
        revocation: Option<Arc<WebPkiServerVerifier>>,
        check_name: bool,
        /// Where the roots are, for messages.
        place: String,
    },
}

impl Verifier {
    fn verify(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        now: UnixTime,
    ) -> Result<ServerCertVerified, TlsError> {
        let Trust::Roots { roots, listed, revocation, check_name, .. } = &self.trust else {
            return Ok(ServerCertVerified::assertion());
        };
        let is_root = listed.iter().any(|root| root == end_entity);
        let certificate =
            x509_cert::Certificate::from_der(end_entity).map_err(|_| CertificateError::BadEncoding)?;
        let is_beyond_webpki = !is_root && chain::is_beyond_webpki(&certificate, intermediates);
        if is_beyond_webpki && revocation.is_some() {
            return Err(other(
                "`sslcrl` is not supported for certificates of version 1 or with RSA-PSS signatures; issue one of \
                 version 3 signed by another algorithm"
                    .to_owned(),
            )
            .into());
        }
        if let Some(revocation) = revocation {
            // Only the authority itself could have revoked it.
            if is_root {
                return Err(CertificateError::UnknownRevocationStatus.into());
            }
            use CertificateError::{NotValidForName, NotValidForNameContext};
            let found = revocation.verify_server_cert(end_entity, intermediates, server_name, &[], now);
            // Names come last, and are checked below.
            if let Err(error) = found
                && !matches!(
                    error,
                    TlsError::InvalidCertificate(NotValidForName | NotValidForNameContext { .. })
                )
            {
                return Err(error);
            }
        } else if is_root {
            // A self-signed server certificate that is its own root: OpenSSL accepts it, webpki by itself does not.
            chain::check_validity(&certificate, now)?;
        } else if is_beyond_webpki {
            chain::verify(&certificate, intermediates, listed, now)?;
        } else {
            let parsed = ParsedCertificate::try_from(end_entity)?;
            verify_server_cert_signed_by_trust_anchor(
                &parsed,
                roots,
                intermediates,
                now,
                provider().signature_verification_algorithms.all,
            )?;
        }
        if *check_name {
            check_host_name(end_entity, server_name)?;
        }
        Ok(ServerCertVerified::assertion())
    }
}

impl ServerCertVerifier for Verifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, TlsError> {
        self.verify(end_entity, intermediates, server_name, now).map_err(|error| match &self.trust {
            Trust::Roots { place, .. } => refusal::of_certificate(error, end_entity, place),
            Trust::Anything => error,
        })
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, TlsError> {
        match key_beyond_webpki(cert) {
            Some(key) => provider::verify_handshake(message, &key, dss, false),
            None => verify_tls12_signature(message, cert, dss, &provider().signature_verification_algorithms),
        }
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, TlsError> {
        match key_beyond_webpki(cert) {
            Some(key) => provider::verify_handshake(message, &key, dss, true),
            None => verify_tls13_signature(message, cert, dss, &provider().signature_verification_algorithms),
        }
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        provider::schemes()
    }
}

/// The key of a certificate that the library does not parse, or whose type it does not know. The signature of a
/// handshake must be valid even if the certificate is not verified, because channel binding relies on it.
fn key_beyond_webpki(cert: &CertificateDer<'_>) -> Option<SubjectPublicKeyInfoOwned> {
    let tbs = x509_cert::Certificate::from_der(cert).ok()?.tbs_certificate;
    let key = tbs.subject_public_key_info;
    (tbs.version == x509_cert::Version::V1 || pss::is_pss(&key.algorithm)).then_some(key)
}

/// An error of a certificate in our words.
fn other(reason: String) -> CertificateError {
    CertificateError::Other(OtherError(Arc::new(Refused(reason))))
}

#[derive(thiserror::Error)]
#[error("{0}")]
struct Refused(String);

/// The words alone: the library prints errors that are not its own in this form.
impl std::fmt::Debug for Refused {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{self}")
    }
}

/// The alternative names of the certificate decide; without any, its common name does, as in libpq.
fn check_host_name(cert: &CertificateDer<'_>, name: &ServerName<'_>) -> Result<(), TlsError> {
    let error = match ParsedCertificate::try_from(cert).map(|parsed| verify_server_name(&parsed, name)) {
        Ok(Ok(())) => return Ok(()),
        Ok(Err(error)) => error,
        // Of version 1, without alternative names.
        Err(_) => CertificateError::NotValidForNameContext {
            expected: name.to_owned(),
            presented: common_name_without_alternatives(cert).into_iter().collect(),
        }
        .into(),
    };
    match common_name_without_alternatives(cert) {
        Some(common_name) if name_matches(&common_name, &name.to_str()) => Ok(()),
        _ => Err(error),
    }
}

fn common_name_without_alternatives(cert: &CertificateDer<'_>) -> Option<String> {
    let tbs = x509_cert::Certificate::from_der(cert).ok()?.tbs_certificate;
    if let Some((_, SubjectAltName(names))) = tbs.get::<SubjectAltName>().ok()? {
        let is_host =
            |name: &GeneralName| matches!(name, GeneralName::DnsName(_) | GeneralName::IpAddress(_));
        if names.iter().any(is_host) {
            return None;
        }
    }
    let mut parts = tbs.subject.0.iter().flat_map(|part| part.0.iter());
    let common_name = parts.find(|part| part.oid == rfc4519::COMMON_NAME)?;
    String::from_utf8(common_name.value.value().to_vec()).ok()
}

/// A star matches exactly the first label.
fn name_matches(pattern: &str, name: &str) -> bool {
    match (pattern.strip_prefix("*."), name.split_once('.')) {
        (Some(domain), Some((label, rest))) => !label.is_empty() && domain.eq_ignore_ascii_case(rest),
        (Some(_), None) => false,
        (None, _) => pattern.eq_ignore_ascii_case(name),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_star_is_one_label() {
        for (pattern, name, expected) in [
            ("db.example.com", "DB.example.com", true),
            ("*.example.com", "db.example.com", true),
            ("*.example.com", "a.b.example.com", false),
            ("*.example.com", "example.com", false),
            ("*", "host", false),
            ("db", "db2", false),
        ] {
            assert_eq!(name_matches(pattern, name), expected, "{pattern} {name}");
        }
    }
}
