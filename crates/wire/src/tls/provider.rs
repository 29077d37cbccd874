//! The cryptography of all connections: `ring`, and what OpenSSL's default has beyond it (P-521, RSASSA-PSS keys).

use std::sync::{Arc, LazyLock};

use rustls::client::danger::HandshakeSignatureValid;
use rustls::crypto::{CryptoProvider, WebPkiSupportedAlgorithms, ring};
use rustls::pki_types::SignatureVerificationAlgorithm;
use rustls::{CertificateError, DigitallySignedStruct, Error as TlsError, PeerMisbehaved, SignatureScheme};
use x509_cert::der::Encode;
use x509_cert::spki::{AlgorithmIdentifierOwned, SubjectPublicKeyInfoOwned};

use super::p521;
use super::pss::{self, Hash};

/// `rsa_pss_pss_sha256` and longer hashes: signatures of keys whose type is RSASSA-PSS (RFC 8446 section 4.2.3), and
/// the schemes of common RSA keys that are the same but for the name.
pub(super) const PSS_SCHEMES: [(SignatureScheme, SignatureScheme, Hash); 3] = [
    (SignatureScheme::Unknown(0x0809), SignatureScheme::RSA_PSS_SHA256, Hash::Sha256),
    (SignatureScheme::Unknown(0x080a), SignatureScheme::RSA_PSS_SHA384, Hash::Sha384),
    (SignatureScheme::Unknown(0x080b), SignatureScheme::RSA_PSS_SHA512, Hash::Sha512),
];

/// What is offered, for the message about a server that accepts none of it. docs/pgbench.md says the same.
pub(crate) const OFFERED: &str = "pgdyno offers the suites TLS_AES_256_GCM_SHA384, TLS_AES_128_GCM_SHA256 and \
    TLS_CHACHA20_POLY1305_SHA256 of TLS 1.3 and ECDHE-(ECDSA or RSA) with AES-GCM or CHACHA20-POLY1305 of TLS 1.2, the \
    curves X25519, prime256v1, secp384r1 and secp521r1, and certificates with RSA, RSA-PSS, Ed25519 and those EC keys, \
    while OpenSSL also has DHE, plain RSA, CBC and CCM suites, X448, Ed448 and other curves; set `ssl_ciphers` and \
    `ssl_ecdh_curve` of the server, or its certificate, to one of them";

static P521_SHA256: &dyn SignatureVerificationAlgorithm = &p521::Verification(Hash::Sha256);
static P521_SHA384: &dyn SignatureVerificationAlgorithm = &p521::Verification(Hash::Sha384);
static P521_SHA512: &dyn SignatureVerificationAlgorithm = &p521::Verification(Hash::Sha512);
static P521_ALONE: [&dyn SignatureVerificationAlgorithm; 1] = [P521_SHA512];

static PROVIDER: LazyLock<Arc<CryptoProvider>> = LazyLock::new(|| {
    let ring = ring::default_provider();
    let mut kx_groups = ring.kx_groups.clone();
    kx_groups.push(&p521::Group);
    let signature_verification_algorithms = with_p521(ring.signature_verification_algorithms);
    Arc::new(CryptoProvider { kx_groups, signature_verification_algorithms, ..ring })
});

/// The provider of this process.
pub(super) fn provider() -> &'static Arc<CryptoProvider> {
    &PROVIDER
}

/// The library keeps its tables in statics. Ours is made once for each process.
fn with_p521(ring: WebPkiSupportedAlgorithms) -> WebPkiSupportedAlgorithms {
    let mut all = ring.all.to_vec();
    all.extend([P521_SHA256, P521_SHA384, P521_SHA512]);
    let mut mapping = vec![(SignatureScheme::ECDSA_NISTP521_SHA512, &P521_ALONE[..])];
    for (scheme, known) in ring.mapping {
        // TLS 1.3 takes the first of them, TLS 1.2 the one that fits the key.
        let also = match scheme {
            SignatureScheme::ECDSA_NISTP384_SHA384 => Some(P521_SHA384),
            SignatureScheme::ECDSA_NISTP256_SHA256 => Some(P521_SHA256),
            _ => None,
        };
        let known: Vec<_> = known.iter().copied().chain(also).collect();
        mapping.push((*scheme, known.leak()));
    }
    WebPkiSupportedAlgorithms { all: all.leak(), mapping: mapping.leak() }
}

/// The schemes that servers may sign with.
pub(super) fn schemes() -> Vec<SignatureScheme> {
    let mut schemes = provider().signature_verification_algorithms.supported_schemes();
    schemes.extend(PSS_SCHEMES.map(|(of_pss_key, ..)| of_pss_key));
    schemes
}

/// Verifies the signature of a handshake with a key alone, where the library cannot parse the certificate.
pub(super) fn verify_handshake(
    message: &[u8],
    key: &SubjectPublicKeyInfoOwned,
    signed: &DigitallySignedStruct,
    is_tls13: bool,
) -> Result<HandshakeSignatureValid, TlsError> {
    let unasked = PeerMisbehaved::SignedHandshakeWithUnadvertisedSigScheme;
    if pss::is_pss(&key.algorithm) {
        let known = PSS_SCHEMES.iter().find(|(of_pss_key, ..)| *of_pss_key == signed.scheme);
        let (_, plain, _) = known.ok_or(unasked)?;
        let algorithm = algorithms(*plain).first().ok_or(CertificateError::BadSignature)?;
        return verify_with(*algorithm, message, key, signed.signature());
    }
    let is_of_tls12 = matches!(
        signed.scheme,
        SignatureScheme::RSA_PKCS1_SHA256
            | SignatureScheme::RSA_PKCS1_SHA384
            | SignatureScheme::RSA_PKCS1_SHA512
    );
    if is_tls13 && is_of_tls12 {
        return Err(unasked.into());
    }
    let of_key = content(&key.algorithm);
    let candidates = algorithms(signed.scheme).iter().take(if is_tls13 { 1 } else { usize::MAX });
    let fits = |algorithm: &&&dyn SignatureVerificationAlgorithm| {
        of_key.as_deref() == Some(algorithm.public_key_alg_id().as_ref())
    };
    let algorithm = candidates.into_iter().find(fits).ok_or(unasked)?;
    verify_with(*algorithm, message, key, signed.signature())
}

fn algorithms(scheme: SignatureScheme) -> &'static [&'static dyn SignatureVerificationAlgorithm] {
    let mapping = provider().signature_verification_algorithms.mapping;
    mapping.iter().find(|(known, _)| *known == scheme).map_or(&[], |(_, algorithms)| algorithms)
}

fn verify_with(
    algorithm: &dyn SignatureVerificationAlgorithm,
    message: &[u8],
    key: &SubjectPublicKeyInfoOwned,
    signature: &[u8],
) -> Result<HandshakeSignatureValid, TlsError> {
    let valid = algorithm.verify_signature(key.subject_public_key.raw_bytes(), message, signature);
    valid.map_err(|_| CertificateError::BadSignature)?;
    Ok(HandshakeSignatureValid::assertion())
}

/// Verifies the signature of a certificate over `message` with the key of its issuer. The error names the algorithm if
/// it is not supported.
pub(super) fn verify_certificate(
    message: &[u8],
    algorithm: &AlgorithmIdentifierOwned,
    signature: &[u8],
    key: &SubjectPublicKeyInfoOwned,
) -> Result<(), CertificateError> {
    let bits = key.subject_public_key.raw_bytes();
    if let Some(parameters) = pss::Parameters::from_algorithm(algorithm) {
        return pss::verify(bits, &parameters, message, signature)
            .map_err(|_| CertificateError::BadSignature);
    }
    let (of_signature, of_key) = (content(algorithm), content(&key.algorithm));
    let fits = |known: &&&dyn SignatureVerificationAlgorithm| {
        of_signature.as_deref() == Some(known.signature_alg_id().as_ref())
            && of_key.as_deref() == Some(known.public_key_alg_id().as_ref())
    };
    let known = provider().signature_verification_algorithms.all.iter().find(fits);
    let known = known
        .ok_or_else(|| super::other(format!("signatures of type {} are not supported", algorithm.oid)))?;
    known.verify_signature(bits, message, signature).map_err(|_| CertificateError::BadSignature)
}

/// An algorithm in DER without the tag and the length of its sequence, as the library compares it.
fn content(algorithm: &AlgorithmIdentifierOwned) -> Option<Vec<u8>> {
    let mut content = algorithm.oid.to_der().ok()?;
    if let Some(parameters) = &algorithm.parameters {
        content.extend(parameters.to_der().ok()?);
    }
    Some(content)
}
