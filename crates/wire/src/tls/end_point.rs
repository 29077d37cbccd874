//! The hash of the server's certificate that binds SCRAM to the channel. Opens nothing.

use sha2::{Digest, Sha224, Sha256, Sha384, Sha512};
use x509_cert::Certificate;
use x509_cert::der::Decode;
use x509_cert::der::asn1::ObjectIdentifier;
use x509_cert::der::oid::db::rfc5912;

use super::pss::{self, Hash};

/// The channel binding of type tls-server-end-point (RFC 5929 section 4.1): the certificate hashed with the hash of its
/// signature, SHA-256 in place of MD5 and SHA-1. `None` if the signature does not name a hash (Ed25519).
pub(crate) fn server_end_point(cert: &[u8]) -> Option<Vec<u8>> {
    const SHA224: [ObjectIdentifier; 2] = [rfc5912::SHA_224_WITH_RSA_ENCRYPTION, rfc5912::ECDSA_WITH_SHA_224];
    const SHA256: [ObjectIdentifier; 5] = [
        ObjectIdentifier::new_unwrap("1.2.840.113549.1.1.4"), // RSA with MD5
        rfc5912::SHA_1_WITH_RSA_ENCRYPTION,
        rfc5912::SHA_256_WITH_RSA_ENCRYPTION,
        ObjectIdentifier::new_unwrap("1.2.840.10045.4.1"), // ECDSA with SHA-1
        rfc5912::ECDSA_WITH_SHA_256,
    ];
    const SHA384: [ObjectIdentifier; 2] = [rfc5912::SHA_384_WITH_RSA_ENCRYPTION, rfc5912::ECDSA_WITH_SHA_384];
    const SHA512: [ObjectIdentifier; 2] = [rfc5912::SHA_512_WITH_RSA_ENCRYPTION, rfc5912::ECDSA_WITH_SHA_512];
    let signature = Certificate::from_der(cert).ok()?.signature_algorithm;
    let is_among = |list: &[ObjectIdentifier]| list.contains(&signature.oid);
    let of_pss = pss::Parameters::from_algorithm(&signature).map(|parameters| parameters.hash);

    if is_among(&SHA256) || matches!(of_pss, Some(Hash::Sha1 | Hash::Sha256)) {
        Some(Sha256::digest(cert).to_vec())
    } else if is_among(&SHA384) || of_pss == Some(Hash::Sha384) {
        Some(Sha384::digest(cert).to_vec())
    } else if is_among(&SHA512) || of_pss == Some(Hash::Sha512) {
        Some(Sha512::digest(cert).to_vec())
    } else if is_among(&SHA224) {
        Some(Sha224::digest(cert).to_vec())
    } else {
        None
    }
}
