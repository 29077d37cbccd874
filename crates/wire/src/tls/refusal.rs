//! Why a handshake failed, in words that say what this program and the server do not have in common.

use std::io;

use rustls::{AlertDescription, CertificateError, Error as TlsError, PeerIncompatible, PeerMisbehaved};

use super::provider::OFFERED;

/// The reason of an error that a handshake ended with.
pub(crate) fn reason(error: &io::Error) -> String {
    let text = error.to_string();
    let Some(error) = error.get_ref().and_then(|inner| inner.downcast_ref::<TlsError>()) else { return text };
    match error {
        // OpenSSL says no more than this if it has no suite, curve or kind of signature in common with its peer.
        TlsError::AlertReceived(AlertDescription::HandshakeFailure | AlertDescription::InsufficientSecurity) => {
            format!("the server and pgdyno have no cipher suite, curve or kind of key in common: {OFFERED}")
        }
        TlsError::PeerIncompatible(PeerIncompatible::ServerSentHelloRetryRequestWithUnknownExtension) => text,
        TlsError::PeerMisbehaved(PeerMisbehaved::SignedKxWithWrongAlgorithm) => {
            "a server with an RSA-PSS key needs TLS 1.3 here: allow it with `ssl_max_protocol_version` on both sides, or \
             give the server an RSA key"
                .to_owned()
        }
        TlsError::PeerIncompatible(_) => format!("{text}: {OFFERED}"),
        TlsError::AlertReceived(AlertDescription::ProtocolVersion) => {
            "the server has no version of TLS in common with pgdyno, which offers 1.2 and 1.3 (or what \
             `ssl_min_protocol_version` and `ssl_max_protocol_version` leave of them); set `ssl_max_protocol_version` of \
             the server to one of them"
                .to_owned()
        }
        TlsError::InvalidCertificate(
            CertificateError::UnsupportedSignatureAlgorithmContext { .. }
            | CertificateError::UnsupportedSignatureAlgorithmForPublicKeyContext { .. },
        ) => format!("{text}: the key or the signature of a certificate is of a kind that is not supported: {OFFERED}"),
        _ => text,
    }
}
