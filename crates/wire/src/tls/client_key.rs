//! The client's private key as libpq's users have it: PEM or DER, encrypted or not, RSA, RSA-PSS, EC or Ed25519.

use std::fmt::Display;
use std::sync::Arc;

use pkcs8::{
    EncryptedPrivateKeyInfo, ObjectIdentifier, PrivateKeyInfo, SecretDocument, SubjectPublicKeyInfoRef,
};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs1KeyDer, PrivatePkcs8KeyDer};
use rustls::sign::{CertifiedKey, Signer, SigningKey};
use rustls::{Error as TlsError, SignatureAlgorithm, SignatureScheme};
use x509_cert::Certificate;
use x509_cert::der::asn1::OctetStringRef;
use x509_cert::der::oid::db::rfc5912::{ID_EC_PUBLIC_KEY, ID_RSASSA_PSS};
use x509_cert::der::{Decode, Reader, SliceReader};
use x509_cert::spki::AlgorithmIdentifierRef;

use super::p521::Key as P521Key;
use super::provider::{PSS_SCHEMES, provider};
use crate::secret::Secret;

const ENCRYPTED: &str = "ENCRYPTED PRIVATE KEY";
/// The line in a key that OpenSSL before 3.0 encrypted, in a form that hashes the password with MD5.
const ENCRYPTED_TRADITIONAL: &str = "Proc-Type: 4,ENCRYPTED";

/// Curves and other keys by their numbers, for messages.
const NAMES: [(&str, &str); 9] = [
    ("1.3.132.0.10", "secp256k1"),
    ("1.3.132.0.33", "secp224r1"),
    ("1.2.840.10045.3.1.1", "prime192v1"),
    ("1.3.36.3.3.2.8.1.1.7", "brainpoolP256r1"),
    ("1.3.36.3.3.2.8.1.1.11", "brainpoolP384r1"),
    ("1.3.36.3.3.2.8.1.1.13", "brainpoolP512r1"),
    ("1.3.101.113", "Ed448"),
    ("1.2.840.10040.4.1", "DSA"),
    ("1.2.156.10197.1.301", "SM2"),
];

/// Joins the chain of certificates in `sslcert` with the content of `sslkey`, named `file`.
pub(super) fn certified(
    chain: Vec<CertificateDer<'static>>,
    file: &str,
    content: &[u8],
    password: Option<&Secret>,
) -> Result<CertifiedKey, String> {
    let der = decoded(file, content, password)?;
    let key = signing_key(der)
        .map_err(|found| format!("cannot use `sslkey` file `{file}`: {found}; {SUPPORTED}"))?;
    let certificate = chain.first().and_then(|first| Certificate::from_der(first).ok());
    let shown = certificate.map(|certificate| certificate.tbs_certificate.subject_public_key_info);
    let differs = shown.is_some_and(|shown| match &key.public_bits {
        Some(ours) => shown.subject_public_key.raw_bytes() != ours,
        None => false,
    });
    if differs {
        return Err(format!("`sslkey` file `{file}` is not the key of the certificate in `sslcert`"));
    }
    Ok(CertifiedKey::new(chain, key.signs))
}

const SUPPORTED: &str = "keys may be RSA of 2048 bits or more, RSA-PSS, EC on prime256v1, secp384r1 or secp521r1, or \
    Ed25519";

fn decoded(file: &str, content: &[u8], password: Option<&Secret>) -> Result<PrivateKeyDer<'static>, String> {
    let about = |error: &dyn Display| format!("cannot read `sslkey` file `{file}`: {error}");
    // As libpq, any file that is not PEM may be DER.
    let Some(text) = std::str::from_utf8(content).ok().filter(|text| text.contains("-----BEGIN ")) else {
        if let Ok(encrypted) = EncryptedPrivateKeyInfo::try_from(content) {
            return decrypted(file, &encrypted, password);
        }
        return PrivateKeyDer::try_from(content).map(|key| key.clone_key()).map_err(|_| {
            match unknown_encryption(content) {
                Some(algorithm) => unsupported_encryption(file, &format!("algorithm {algorithm}")),
                None => about(&"it is neither PEM nor a private key in DER format (PKCS#8, PKCS#1 or SEC1)"),
            }
        });
    };
    if text.contains(ENCRYPTED_TRADITIONAL) {
        return Err(format!(
            "`sslkey` file `{file}` is encrypted in the form of OpenSSL before 3.0 ({ENCRYPTED_TRADITIONAL}), which is \
             not supported; convert it: openssl pkcs8 -topk8 -in {file} -out NEW, and name NEW in `sslkey`"
        ));
    }
    if text.contains(&format!("-----BEGIN {ENCRYPTED}-----")) {
        let begin = text.find(&format!("-----BEGIN {ENCRYPTED}-----")).unwrap_or(0);
        let (_, document) =
            SecretDocument::from_pem(text[begin..].trim_end()).map_err(|error| about(&error))?;
        let encrypted = EncryptedPrivateKeyInfo::try_from(document.as_bytes())
            .map_err(|error| unsupported_encryption(file, &error))?;
        return decrypted(file, &encrypted, password);
    }
    PrivateKeyDer::from_pem_slice(content).map_err(|error| about(&error))
}

fn decrypted(
    file: &str,
    encrypted: &EncryptedPrivateKeyInfo<'_>,
    password: Option<&Secret>,
) -> Result<PrivateKeyDer<'static>, String> {
    let Some(password) = password else {
        return Err(format!(
            "`sslkey` file `{file}` is encrypted: set `sslpassword`, or write a copy without it by `openssl pkey -in {file} -out NEW`"
        ));
    };
    let plain = encrypted.decrypt(password.expose()).map_err(|error| match error {
        // The library names a wrong padding after the opposite operation.
        pkcs8::Error::EncryptedPrivateKey(
            pkcs8::pkcs5::Error::DecryptFailed | pkcs8::pkcs5::Error::EncryptFailed,
        ) => {
            format!("cannot decrypt `sslkey` file `{file}`: is `sslpassword` right?")
        }
        error => unsupported_encryption(file, &error),
    })?;
    Ok(PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(plain.as_bytes().to_vec())))
}

/// The algorithm of an encrypted key whose parameters the library does not read (`EncryptedPrivateKeyInfo`, RFC 5958, section 3).
fn unknown_encryption(content: &[u8]) -> Option<ObjectIdentifier> {
    let mut reader = SliceReader::new(content).ok()?;
    let key = reader.sequence(|inner| {
        let algorithm = AlgorithmIdentifierRef::decode(inner)?;
        OctetStringRef::decode(inner)?;
        Ok(algorithm.oid)
    });
    key.ok()
}

/// What to do about an encryption that OpenSSL knows and the library does not.
fn unsupported_encryption(file: &str, error: &dyn Display) -> String {
    format!(
        "cannot decrypt `sslkey` file `{file}` ({error}): only PBES2 with PBKDF2 (HMAC with SHA-2) or scrypt, and AES, is supported; \
         convert it: openssl pkcs8 -topk8 -v2 aes-256-cbc -in {file} -out NEW"
    )
}

/// A key that can sign, and its public half as certificates contain it.
struct Loaded {
    signs: Arc<dyn SigningKey>,
    public_bits: Option<Vec<u8>>,
}

/// The error names what kind of key it is.
fn signing_key(der: PrivateKeyDer<'static>) -> Result<Loaded, String> {
    if let Some(key) = P521Key::from_der(&der) {
        return Ok(Loaded { public_bits: Some(key.public_point()), signs: Arc::new(key) });
    }
    let info = match &der {
        PrivateKeyDer::Pkcs8(pkcs8) => PrivateKeyInfo::try_from(pkcs8.secret_pkcs8_der()).ok(),
        _ => None,
    };
    let kind = info.as_ref().map(|info| info.algorithm.oid);
    let curve = info.as_ref().and_then(|info| info.algorithm.parameters_oid().ok());
    if let Some(info) = info
        && kind == Some(ID_RSASSA_PSS)
    {
        let plain = PrivatePkcs1KeyDer::from(info.private_key.to_vec());
        let loaded = loaded(PrivateKeyDer::Pkcs1(plain)).map_err(|error| format!("RSA-PSS key: {error}"))?;
        return Ok(Loaded { signs: Arc::new(PssKey(loaded.signs)), ..loaded });
    }
    loaded(der).map_err(|error| match (kind, curve) {
        (Some(ID_EC_PUBLIC_KEY), Some(curve)) => format!("its curve is {}", name(curve)),
        (Some(kind), _) => format!("its key is of type {} ({error})", name(kind)),
        _ => error.to_string(),
    })
}

fn loaded(der: PrivateKeyDer<'static>) -> Result<Loaded, TlsError> {
    let signs = provider().key_provider.load_private_key(der)?;
    let public = signs.public_key();
    let public_bits = public.and_then(|public| {
        let parsed = SubjectPublicKeyInfoRef::try_from(public.as_ref()).ok()?;
        parsed.subject_public_key.as_bytes().map(<[u8]>::to_vec)
    });
    Ok(Loaded { signs, public_bits })
}

/// The usual name of a curve or a type of key.
pub(super) fn name(oid: ObjectIdentifier) -> String {
    let oid = oid.to_string();
    NAMES.iter().find(|(known, _)| *known == oid).map_or(oid.clone(), |(_, name)| format!("{name} ({oid})"))
}

/// An RSA key for nothing but PSS signatures: the schemes have other numbers and the same signatures.
#[derive(Debug)]
struct PssKey(Arc<dyn SigningKey>);

impl SigningKey for PssKey {
    fn choose_scheme(&self, offered: &[SignatureScheme]) -> Option<Box<dyn Signer>> {
        PSS_SCHEMES.iter().filter(|(of_pss_key, ..)| offered.contains(of_pss_key)).find_map(|schemes| {
            let (scheme, plain, _) = *schemes;
            let signer = self.0.choose_scheme(&[plain])?;
            Some(Box::new(PssSigner { scheme, signer }) as Box<dyn Signer>)
        })
    }

    fn algorithm(&self) -> SignatureAlgorithm {
        SignatureAlgorithm::RSA
    }
}

#[derive(Debug)]
struct PssSigner {
    scheme: SignatureScheme,
    signer: Box<dyn Signer>,
}

impl Signer for PssSigner {
    fn sign(&self, message: &[u8]) -> Result<Vec<u8>, TlsError> {
        self.signer.sign(message)
    }

    fn scheme(&self) -> SignatureScheme {
        self.scheme
    }
}
