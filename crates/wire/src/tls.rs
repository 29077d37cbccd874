//! libpq's semantics of TLS on top of rustls: which certificates are trusted for each `sslmode`, client certificates,
//! and the hash that binds SCRAM to the channel. Reads certificate files; opens no connection.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{ResolvesClientCert, WebPkiServerVerifier};
use rustls::client::{verify_server_cert_signed_by_trust_anchor, verify_server_name};
use rustls::crypto::{
    CryptoProvider, WebPkiSupportedAlgorithms, ring, verify_tls12_signature, verify_tls13_signature,
    verify_tls13_signature_with_raw_key,
};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{
    CertificateDer, CertificateRevocationListDer, PrivateKeyDer, ServerName, SubjectPublicKeyInfoDer,
    UnixTime,
};
use rustls::server::ParsedCertificate;
use rustls::sign::CertifiedKey;
use rustls::{
    CertificateError, ClientConfig, DigitallySignedStruct, Error as TlsError, RootCertStore, SignatureScheme,
    SupportedProtocolVersion, version,
};
use sha2::{Digest, Sha256, Sha384, Sha512};
use x509_cert::der::asn1::ObjectIdentifier;
use x509_cert::der::oid::db::{rfc4519, rfc5912};
use x509_cert::der::{Decode, Encode};
use x509_cert::ext::pkix::SubjectAltName;
use x509_cert::ext::pkix::name::GeneralName;

use crate::conninfo::named_file;
use crate::conninfo::{Conninfo, Host, SslMode, TlsVersion};

/// The name that PostgreSQL 17 and later expect in the handshake; older servers ignore it.
const ALPN: &[u8] = b"postgresql";

/// Everything that a handshake with one host needs.
pub(crate) struct TlsSetup {
    pub(crate) config: Arc<ClientConfig>,
    pub(crate) name: ServerName<'static>,
    pub(crate) certificate: Arc<ClientCertificate>,
}

impl TlsSetup {
    /// Prepares TLS for `host`. The error is a message for people.
    pub(crate) fn new(conninfo: &Conninfo, host: &Host) -> Result<TlsSetup, String> {
        let provider = Arc::new(ring::default_provider());
        let certificate = Arc::new(ClientCertificate::read(conninfo, &provider)?);
        let mut config = ClientConfig::builder_with_provider(provider.clone())
            .with_protocol_versions(&versions(conninfo))
            .map_err(|error| error.to_string())?
            .dangerous()
            .with_custom_certificate_verifier(verifier(conninfo, &provider)?)
            .with_client_cert_resolver(certificate.clone());
        config.alpn_protocols = vec![ALPN.to_vec()];
        config.enable_sni = conninfo.sslsni;
        let name = ServerName::try_from(host.host.clone())
            .or_else(|_| ServerName::try_from(host.hostaddr.clone().unwrap_or_default()))
            .map_err(|_| format!("`{}` is not a valid name for a certificate", host.host))?;
        Ok(TlsSetup { config: Arc::new(config), name, certificate })
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
    let provider = Arc::new(ring::default_provider());
    let verifier = verifier(&conninfo, &provider)
        .map_err(|error| error.replace("`sslrootcert` file", "the certificates of"))?;
    let config = ClientConfig::builder_with_provider(provider)
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

fn verifier(
    conninfo: &Conninfo,
    provider: &Arc<CryptoProvider>,
) -> Result<Arc<dyn ServerCertVerifier>, String> {
    let file = conninfo.sslrootcert.as_deref();
    if let Some(text) = &conninfo.root_certificates {
        let listed = certificates_in(text.as_bytes())
            .map_err(|error| format!("cannot use the given root certificates: {error}"))?;
        return roots_verifier(conninfo, listed, provider);
    }
    if file == Some("system") {
        let platform = rustls_platform_verifier::Verifier::new(provider.clone())
            .map_err(|error| format!("cannot read the system's root certificates: {error}"))?;
        return Ok(Arc::new(platform));
    }
    let algorithms = provider.signature_verification_algorithms;
    let must_verify = conninfo.sslmode >= SslMode::VerifyCa;
    let Some(file) = file.filter(|file| must_verify || fs::exists(file).unwrap_or(false)) else {
        if must_verify {
            return Err(format!(
                "`sslmode={}` needs root certificates: set `sslrootcert` to a file, or to `system`",
                conninfo.sslmode.as_str()
            ));
        }
        return Ok(Arc::new(Verifier { trust: Trust::Anything, algorithms }));
    };
    let listed =
        certificates(file).map_err(|error| format!("cannot read `sslrootcert` file `{file}`: {error}"))?;
    roots_verifier(conninfo, listed, provider)
}

/// A verifier that trusts these certificates alone.
fn roots_verifier(
    conninfo: &Conninfo,
    listed: Vec<CertificateDer<'static>>,
    provider: &Arc<CryptoProvider>,
) -> Result<Arc<dyn ServerCertVerifier>, String> {
    let algorithms = provider.signature_verification_algorithms;
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(listed.iter().cloned());
    let check_name = conninfo.sslmode == SslMode::VerifyFull;
    let revocation = revocation(conninfo, &roots, provider)?;
    Ok(Arc::new(Verifier { trust: Trust::Roots { roots, listed, revocation, check_name }, algorithms }))
}

/// Reads the certificate revocation list, if there is one. As with libpq, a current list of the issuer must then cover
/// every certificate of the chain.
fn revocation(
    conninfo: &Conninfo,
    roots: &RootCertStore,
    provider: &Arc<CryptoProvider>,
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
    let builder = WebPkiServerVerifier::builder_with_provider(Arc::new(roots.clone()), provider.clone());
    let verifier = builder.with_crls(lists).enforce_revocation_expiration().build();
    verifier.map(Some).map_err(|error| about(&error))
}

/// The client's certificate, and whether the server has asked for it.
#[derive(Debug)]
pub(crate) struct ClientCertificate {
    key: Option<Arc<CertifiedKey>>,
    was_asked_for: AtomicBool,
}

impl ClientCertificate {
    /// True once the server has asked for it in the handshake.
    pub(crate) fn was_asked_for(&self) -> bool {
        self.was_asked_for.load(Ordering::Relaxed)
    }

    /// Whether it was sent, which requires that it exists.
    pub(crate) fn was_shown(&self) -> bool {
        self.was_asked_for() && self.key.is_some()
    }

    /// Reads the files. A missing certificate is not an error: libpq connects without it.
    fn read(conninfo: &Conninfo, provider: &CryptoProvider) -> Result<ClientCertificate, String> {
        let key = match client_certificate_files(conninfo)? {
            Some((chain, key)) => {
                let key = CertifiedKey::from_der(chain, key, provider)
                    .map_err(|error| format!("cannot use the client certificate: {error}"))?;
                Some(Arc::new(key))
            }
            None => None,
        };
        Ok(ClientCertificate { key, was_asked_for: AtomicBool::new(false) })
    }
}

impl ResolvesClientCert for ClientCertificate {
    fn resolve(&self, _roots: &[&[u8]], _schemes: &[SignatureScheme]) -> Option<Arc<CertifiedKey>> {
        self.was_asked_for.store(true, Ordering::Relaxed);
        self.key.clone()
    }

    fn has_certs(&self) -> bool {
        self.key.is_some()
    }
}

type Files = (Vec<CertificateDer<'static>>, PrivateKeyDer<'static>);

fn client_certificate_files(conninfo: &Conninfo) -> Result<Option<Files>, String> {
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
    let text = named_file::read_open(open).map_err(|error| about(&error))?;
    let key = PrivateKeyDer::from_pem_slice(&text).map_err(|error| about(&error))?;
    Ok(Some((chain, key)))
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
    algorithms: WebPkiSupportedAlgorithms,
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
    },
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
        let Trust::Roots { roots, listed, revocation, check_name } = &self.trust else {
            return Ok(ServerCertVerified::assertion());
        };
        let is_root = listed.iter().any(|root| root == end_entity);
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
            check_validity(end_entity, now)?;
        } else {
            let parsed = ParsedCertificate::try_from(end_entity)?;
            verify_server_cert_signed_by_trust_anchor(
                &parsed,
                roots,
                intermediates,
                now,
                self.algorithms.all,
            )?;
        }
        if *check_name {
            check_host_name(end_entity, server_name)?;
        }
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, TlsError> {
        verify_tls12_signature(message, cert, dss, &self.algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, TlsError> {
        match (verify_tls13_signature(message, cert, dss, &self.algorithms), &self.trust) {
            // webpki does not parse certificates of version 1, which `openssl x509 -req` still creates. The signature
            // must be valid even if the certificate is not verified, because channel binding relies on it.
            (Err(error), Trust::Anything) => {
                let key = x509_cert::Certificate::from_der(cert)
                    .and_then(|parsed| parsed.tbs_certificate.subject_public_key_info.to_der())
                    .map_err(|_| error)?;
                let key = SubjectPublicKeyInfoDer::from(key);
                verify_tls13_signature_with_raw_key(message, &key, dss, &self.algorithms)
            }
            (result, _) => result,
        }
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.algorithms.supported_schemes()
    }
}

fn check_validity(cert: &CertificateDer<'_>, now: UnixTime) -> Result<(), TlsError> {
    let parsed = x509_cert::Certificate::from_der(cert).map_err(|_| CertificateError::BadEncoding)?;
    let validity = parsed.tbs_certificate.validity;
    if now.as_secs() < validity.not_before.to_unix_duration().as_secs() {
        return Err(CertificateError::NotValidYet.into());
    }
    if now.as_secs() > validity.not_after.to_unix_duration().as_secs() {
        return Err(CertificateError::Expired.into());
    }
    Ok(())
}

/// The alternative names of the certificate decide; without any, its common name does, as in libpq.
fn check_host_name(cert: &CertificateDer<'_>, name: &ServerName<'_>) -> Result<(), TlsError> {
    let error = match ParsedCertificate::try_from(cert).and_then(|parsed| verify_server_name(&parsed, name)) {
        Ok(()) => return Ok(()),
        Err(error) => error,
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

/// The channel binding of type tls-server-end-point (RFC 5929 section 4.1): the certificate hashed with the hash of its
/// signature, SHA-256 in place of MD5 and SHA-1. `None` if the signature does not name a hash (Ed25519, PSS).
pub(crate) fn server_end_point(cert: &[u8]) -> Option<Vec<u8>> {
    const SHA256: [ObjectIdentifier; 5] = [
        ObjectIdentifier::new_unwrap("1.2.840.113549.1.1.4"), // RSA with MD5
        rfc5912::SHA_1_WITH_RSA_ENCRYPTION,
        rfc5912::SHA_256_WITH_RSA_ENCRYPTION,
        ObjectIdentifier::new_unwrap("1.2.840.10045.4.1"), // ECDSA with SHA-1
        rfc5912::ECDSA_WITH_SHA_256,
    ];
    let algorithm = x509_cert::Certificate::from_der(cert).ok()?.signature_algorithm.oid;
    if SHA256.contains(&algorithm) {
        Some(Sha256::digest(cert).to_vec())
    } else if [rfc5912::SHA_384_WITH_RSA_ENCRYPTION, rfc5912::ECDSA_WITH_SHA_384].contains(&algorithm) {
        Some(Sha384::digest(cert).to_vec())
    } else if [rfc5912::SHA_512_WITH_RSA_ENCRYPTION, rfc5912::ECDSA_WITH_SHA_512].contains(&algorithm) {
        Some(Sha512::digest(cert).to_vec())
    } else {
        None
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
