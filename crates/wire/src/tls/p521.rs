//! The curve P-521 (secp521r1), which `ring` lacks: keys of servers and clients, and the exchange of keys.

use std::fmt;
use std::sync::Arc;

use p521::ecdh::EphemeralSecret;
use p521::ecdsa::signature::RandomizedSigner;
use p521::ecdsa::signature::hazmat::PrehashVerifier;
use p521::ecdsa::{Signature, SigningKey as EcdsaKey, VerifyingKey};
use p521::elliptic_curve::rand_core::OsRng;
use p521::elliptic_curve::sec1::ToEncodedPoint;
use p521::pkcs8::DecodePrivateKey;
use p521::{PublicKey, SecretKey};
use rustls::crypto::{ActiveKeyExchange, SharedSecret, SupportedKxGroup};
use rustls::ffdhe_groups::FfdheGroup;
use rustls::pki_types::{
    AlgorithmIdentifier, InvalidSignature, PrivateKeyDer, SignatureVerificationAlgorithm, alg_id,
};
use rustls::sign::{Signer, SigningKey};
use rustls::{Error as TlsError, NamedGroup, PeerMisbehaved, SignatureAlgorithm, SignatureScheme};

use super::pss::Hash;

/// An uncompressed point begins with this byte, the only form that TLS 1.3 allows (RFC 8446 section 4.2.8.2).
const UNCOMPRESSED: u8 = 4;
/// Longest hash. The library refuses hashes of less than half of the curve's length, so shorter ones are padded, which
/// does not change the number that they stand for.
const HASH_BYTES_MAX: usize = 64;

/// Verifies ECDSA signatures by P-521 keys, with this hash.
#[derive(Debug)]
pub(super) struct Verification(pub(super) Hash);

impl SignatureVerificationAlgorithm for Verification {
    fn verify_signature(
        &self,
        public_key: &[u8],
        message: &[u8],
        signature: &[u8],
    ) -> Result<(), InvalidSignature> {
        let key = VerifyingKey::from_sec1_bytes(public_key).map_err(|_| InvalidSignature)?;
        let signature = Signature::from_der(signature).map_err(|_| InvalidSignature)?;
        let hash = self.0.digest(&[message]).ok_or(InvalidSignature)?;
        let mut padded = [0; HASH_BYTES_MAX];
        padded[HASH_BYTES_MAX - hash.len()..].copy_from_slice(&hash);
        key.verify_prehash(&padded, &signature).map_err(|_| InvalidSignature)
    }

    fn public_key_alg_id(&self) -> AlgorithmIdentifier {
        alg_id::ECDSA_P521
    }

    fn signature_alg_id(&self) -> AlgorithmIdentifier {
        match self.0 {
            Hash::Sha384 => alg_id::ECDSA_SHA384,
            Hash::Sha512 => alg_id::ECDSA_SHA512,
            _ => alg_id::ECDSA_SHA256,
        }
    }
}

/// The group for the exchange of keys.
#[derive(Debug)]
pub(super) struct Group;

impl SupportedKxGroup for Group {
    fn start(&self) -> Result<Box<dyn ActiveKeyExchange>, TlsError> {
        let secret = EphemeralSecret::random(&mut OsRng);
        let public = secret.public_key().to_encoded_point(false).as_bytes().to_vec();
        Ok(Box::new(Exchange { secret, public }))
    }

    fn ffdhe_group(&self) -> Option<FfdheGroup<'static>> {
        None
    }

    fn name(&self) -> NamedGroup {
        NamedGroup::secp521r1
    }
}

struct Exchange {
    secret: EphemeralSecret,
    public: Vec<u8>,
}

impl ActiveKeyExchange for Exchange {
    fn complete(self: Box<Self>, peer: &[u8]) -> Result<SharedSecret, TlsError> {
        let refused = PeerMisbehaved::InvalidKeyShare;
        let peer = Some(peer).filter(|peer| peer.first() == Some(&UNCOMPRESSED)).ok_or(refused.clone())?;
        let peer = PublicKey::from_sec1_bytes(peer).map_err(|_| refused)?;
        let shared = self.secret.diffie_hellman(&peer);
        Ok(SharedSecret::from(shared.raw_secret_bytes().as_slice()))
    }

    fn ffdhe_group(&self) -> Option<FfdheGroup<'static>> {
        None
    }

    fn group(&self) -> NamedGroup {
        NamedGroup::secp521r1
    }

    fn pub_key(&self) -> &[u8] {
        &self.public
    }
}

/// A client's private key.
#[derive(Clone)]
pub(super) struct Key(Arc<EcdsaKey>);

impl Key {
    /// `None` if this is no key of the curve.
    pub(super) fn from_der(der: &PrivateKeyDer<'_>) -> Option<Key> {
        let secret = match der {
            PrivateKeyDer::Sec1(sec1) => SecretKey::from_sec1_der(sec1.secret_sec1_der()).ok()?,
            PrivateKeyDer::Pkcs8(pkcs8) => SecretKey::from_pkcs8_der(pkcs8.secret_pkcs8_der()).ok()?,
            _ => return None,
        };
        Some(Key(Arc::new(EcdsaKey::from_bytes(&secret.to_bytes()).ok()?)))
    }

    /// The point of its public key, uncompressed.
    pub(super) fn public_point(&self) -> Vec<u8> {
        VerifyingKey::from(self.0.as_ref()).to_encoded_point(false).as_bytes().to_vec()
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a P-521 key")
    }
}

impl SigningKey for Key {
    fn choose_scheme(&self, offered: &[SignatureScheme]) -> Option<Box<dyn Signer>> {
        let is_offered = offered.contains(&SignatureScheme::ECDSA_NISTP521_SHA512);
        is_offered.then(|| Box::new(self.clone()) as Box<dyn Signer>)
    }

    fn algorithm(&self) -> SignatureAlgorithm {
        SignatureAlgorithm::ECDSA
    }
}

impl Signer for Key {
    fn sign(&self, message: &[u8]) -> Result<Vec<u8>, TlsError> {
        let signature: Signature = self
            .0
            .try_sign_with_rng(&mut OsRng, message)
            .map_err(|_| TlsError::General("signing failed".to_owned()))?;
        Ok(signature.to_der().as_bytes().to_vec())
    }

    fn scheme(&self) -> SignatureScheme {
        SignatureScheme::ECDSA_NISTP521_SHA512
    }
}
