//! Why a handshake failed, in words that say what this program and the server do not have in common.

use std::io;

use rustls::{AlertDescription, CertificateError, Error as TlsError, PeerIncompatible, PeerMisbehaved};

use rustls::pki_types::CertificateDer;
use x509_cert::Certificate;
use x509_cert::der::Decode;

use super::other;
use super::provider::OFFERED;

/// Where the roots of `sslrootcert=system` are.
const OF_SYSTEM: &str = "the root certificates of the system (`sslrootcert=system`)";

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
        TlsError::InvalidCertificate(CertificateError::Other(of_us)) if of_us.0.is::<super::Refused>() => {
            format!("invalid peer certificate: {}", of_us.0)
        }
        // What is verified by the system's roots is not explained yet, and its certificate not known here.
        TlsError::InvalidCertificate(error) => match explained(error, false, OF_SYSTEM) {
            Some(words) => format!("invalid peer certificate: {words}"),
            None => text,
        },
        _ => text,
    }
}

/// An error of a server's certificate that was verified by the roots in `place`, with what to do where that is known.
pub(super) fn of_certificate(error: TlsError, certificate: &CertificateDer<'_>, place: &str) -> TlsError {
    let TlsError::InvalidCertificate(reason) = &error else { return error };
    let parsed = Certificate::from_der(certificate).map(|parsed| parsed.tbs_certificate);
    let is_self_signed = parsed.is_ok_and(|parsed| parsed.subject == parsed.issuer);
    explained(reason, is_self_signed, place).map_or(error, |words| other(words).into())
}

/// An error of a certificate in words with what to do; `None` if the library's are as good.
fn explained(error: &CertificateError, is_self_signed: bool, place: &str) -> Option<String> {
    // The library has no name for it in its own errors.
    let is_authority =
        matches!(error, CertificateError::Other(of) if format!("{:?}", of.0).contains("CaUsedAsEndEntity"));
    let is_unknown = is_authority || *error == CertificateError::UnknownIssuer;
    Some(match error {
        _ if is_self_signed && is_unknown => {
            format!("the server's certificate is not signed by an authority in {place}; it is self-signed: name it there")
        }
        CertificateError::UnknownIssuer => format!(
            "the server's certificate is not signed by an authority in {place}: name the root of the authority that signed it there"
        ),
        _ if is_authority => format!(
            "the server's certificate is that of an authority (CA:TRUE), and not in {place}: name it in a file of `sslrootcert`, or give the \
             server a certificate of its own"
        ),
        CertificateError::Expired | CertificateError::ExpiredContext { .. } => {
            "the server's certificate, or one that signed it, has expired: renew it on the server, or set the clock of this machine"
                .to_owned()
        }
        CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => {
            "the server's certificate, or one that signed it, is not valid yet: set the clock of this machine or of the one that issued it"
                .to_owned()
        }
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_of_certificates_say_what_to_do() {
        let say = |error, is_self_signed| explained(&error, is_self_signed, "`sslrootcert` file `r.crt`");
        assert_eq!(
            say(CertificateError::UnknownIssuer, true).unwrap(),
            "the server's certificate is not signed by an authority in `sslrootcert` file `r.crt`; it is self-signed: name it there"
        );
        let unknown = say(CertificateError::UnknownIssuer, false).unwrap();
        assert!(unknown.contains("`r.crt`: name the root of the authority"), "{unknown}");
        assert!(say(CertificateError::Expired, false).unwrap().contains("has expired: renew it"));
        assert_eq!(say(CertificateError::BadSignature, true), None);
        let of_us = other("words".to_owned());
        assert_eq!(say(of_us.clone(), true), None, "it has words already");
        let error = io::Error::new(io::ErrorKind::InvalidData, TlsError::InvalidCertificate(of_us));
        assert_eq!(reason(&error), "invalid peer certificate: words");
    }
}
