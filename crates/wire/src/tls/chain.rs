//! A chain of certificates that the library `webpki` cannot verify: the server's certificate has version 1, as
//! `openssl x509 -req` of OpenSSL before 3.2 makes it, or a signature of type RSASSA-PSS is in the chain. Stricter than
//! OpenSSL: an extension that is critical and unknown here, or a constraint on names, refuses the chain.

use rustls::CertificateError;
use rustls::pki_types::{CertificateDer, UnixTime};
use x509_cert::Version;
use x509_cert::certificate::Certificate;
use x509_cert::der::asn1::ObjectIdentifier;
use x509_cert::der::oid::AssociatedOid;
use x509_cert::der::oid::db::rfc5280::{ANY_EXTENDED_KEY_USAGE, ID_CE_NAME_CONSTRAINTS, ID_KP_SERVER_AUTH};
use x509_cert::der::{Decode, Encode};
use x509_cert::ext::pkix::{BasicConstraints, ExtendedKeyUsage, KeyUsage, SubjectAltName};

use super::provider::verify_certificate;
use super::pss;

/// Most certificates of a chain, the server's and the authority's included; `webpki` allows about as many.
const LENGTH_MAX: usize = 8;
/// Most signatures to verify for one chain, however many certificates of one name the server shows.
const SIGNATURES_MAX: usize = 64;

/// Whether the library cannot verify this chain, and this module has to.
pub(super) fn is_beyond_webpki(end_entity: &Certificate, intermediates: &[CertificateDer<'_>]) -> bool {
    let is_signed_by_pss = |of: &Certificate| {
        pss::is_pss(&of.signature_algorithm)
            || pss::is_pss(&of.tbs_certificate.subject_public_key_info.algorithm)
    };
    let mut others = intermediates.iter().filter_map(|der| Certificate::from_der(der).ok());
    end_entity.tbs_certificate.version == Version::V1
        || is_signed_by_pss(end_entity)
        || others.any(|other| is_signed_by_pss(&other))
}

/// Verifies that the certificate of a server was issued by one of `roots`, directly or over `intermediates`, and that
/// all of them are valid now. Names of hosts are not looked at.
pub(super) fn verify(
    end_entity: &Certificate,
    intermediates: &[CertificateDer<'_>],
    roots: &[CertificateDer<'_>],
    now: UnixTime,
) -> Result<(), CertificateError> {
    check_validity(end_entity, now)?;
    check_extensions(end_entity)?;
    check_purpose(end_entity)?;
    let parsed = |all: &[CertificateDer<'_>]| {
        all.iter().filter_map(|der| Certificate::from_der(der).ok()).collect::<Vec<_>>()
    };
    let mut search = Search {
        intermediates: parsed(&intermediates[..intermediates.len().min(LENGTH_MAX)]),
        roots: parsed(roots),
        now,
        n_signatures: 0,
        error: CertificateError::UnknownIssuer,
    };
    if search.is_issued(end_entity, 0) { Ok(()) } else { Err(search.error) }
}

struct Search {
    intermediates: Vec<Certificate>,
    roots: Vec<Certificate>,
    now: UnixTime,
    n_signatures: usize,
    /// Why the last chain that was found is not valid.
    error: CertificateError,
}

impl Search {
    /// Whether a chain leads from `issued`, below which are `depth` authorities, to a root.
    fn is_issued(&mut self, issued: &Certificate, depth: usize) -> bool {
        let roots = std::mem::take(&mut self.roots);
        let is_by_root = roots.iter().any(|root| self.is_by(issued, root, depth, true));
        self.roots = roots;
        if is_by_root || depth + 2 >= LENGTH_MAX {
            return is_by_root;
        }
        let intermediates = self.intermediates.clone();
        intermediates.iter().any(|authority| {
            self.is_by(issued, authority, depth, false) && self.is_issued(authority, depth + 1)
        })
    }

    fn is_by(&mut self, issued: &Certificate, issuer: &Certificate, depth: usize, is_root: bool) -> bool {
        if issued.tbs_certificate.issuer != issuer.tbs_certificate.subject
            || self.n_signatures >= SIGNATURES_MAX
        {
            return false;
        }
        self.n_signatures += 1;
        let verdict = check_signature(issued, issuer)
            .and_then(|()| check_validity(issuer, self.now))
            .and_then(|()| check_authority(issuer, depth, is_root));
        verdict.map_err(|error| self.error = error).is_ok()
    }
}

fn check_signature(issued: &Certificate, issuer: &Certificate) -> Result<(), CertificateError> {
    if issued.signature_algorithm != issued.tbs_certificate.signature {
        return Err(CertificateError::BadEncoding);
    }
    let message = issued.tbs_certificate.to_der().map_err(|_| CertificateError::BadEncoding)?;
    let signature = issued.signature.as_bytes().ok_or(CertificateError::BadEncoding)?;
    let key = &issuer.tbs_certificate.subject_public_key_info;
    verify_certificate(&message, &issued.signature_algorithm, signature, key)
}

/// Whether the certificate is valid now.
pub(super) fn check_validity(of: &Certificate, now: UnixTime) -> Result<(), CertificateError> {
    let validity = of.tbs_certificate.validity;
    if now.as_secs() < validity.not_before.to_unix_duration().as_secs() {
        return Err(CertificateError::NotValidYet);
    }
    if now.as_secs() > validity.not_after.to_unix_duration().as_secs() {
        return Err(CertificateError::Expired);
    }
    Ok(())
}

/// Whether this may have issued a certificate below which are `depth` more authorities. As with OpenSSL, one of version
/// 1 may if it is a root.
fn check_authority(of: &Certificate, depth: usize, is_root: bool) -> Result<(), CertificateError> {
    check_extensions(of)?;
    // What an authority may be used for limits what it issues. A root is trusted for servers by its place in the file.
    if !is_root {
        check_purpose(of)?;
    }
    let of = &of.tbs_certificate;
    if of.version == Version::V1 && is_root {
        return Ok(());
    }
    let constraints = of.get::<BasicConstraints>().map_err(|_| CertificateError::BadEncoding)?;
    let (_, constraints) = constraints.filter(|(_, found)| found.ca).ok_or_else(|| {
        super::other(format!(
            "the certificate of `{}` is not that of an authority (basicConstraints CA:TRUE)",
            of.subject
        ))
    })?;
    if constraints.path_len_constraint.is_some_and(|most| depth > usize::from(most)) {
        return Err(super::other(format!("more authorities are below `{}` than it allows", of.subject)));
    }
    match of.get::<KeyUsage>().map_err(|_| CertificateError::BadEncoding)? {
        Some((_, usage)) if !usage.key_cert_sign() => {
            Err(super::other(format!("the key of `{}` cannot sign certificates (keyUsage)", of.subject)))
        }
        _ => Ok(()),
    }
}

/// Whether a server may use it, or what it issues: without the extension for anything.
fn check_purpose(of: &Certificate) -> Result<(), CertificateError> {
    let usage = of.tbs_certificate.get::<ExtendedKeyUsage>().map_err(|_| CertificateError::BadEncoding)?;
    let is_for_servers = |oid: &ObjectIdentifier| [ID_KP_SERVER_AUTH, ANY_EXTENDED_KEY_USAGE].contains(oid);
    match usage {
        Some((_, usage)) if !usage.0.iter().any(is_for_servers) => Err(CertificateError::InvalidPurpose),
        _ => Ok(()),
    }
}

/// Refuses what this module does not understand.
fn check_extensions(of: &Certificate) -> Result<(), CertificateError> {
    let known = [BasicConstraints::OID, KeyUsage::OID, ExtendedKeyUsage::OID, SubjectAltName::OID];
    let refused = of.tbs_certificate.extensions.iter().flatten().find(|extension| {
        extension.extn_id == ID_CE_NAME_CONSTRAINTS
            || extension.critical && !known.contains(&extension.extn_id)
    });
    match refused {
        Some(extension) => Err(super::other(format!(
            "extension {} is not supported in a chain with certificates of version 1 or RSA-PSS signatures",
            extension.extn_id
        ))),
        None => Ok(()),
    }
}
