//! Signatures of type RSASSA-PSS with any length of salt. OpenSSL salts certificates as long as the key allows, while
//! `ring` verifies salts of the length of the hash alone. Public numbers only: nothing here signs.

use std::fmt;

use p521::elliptic_curve::bigint::modular::runtime_mod::{DynResidue, DynResidueParams};
use p521::elliptic_curve::bigint::{Encoding, Integer, U4096};
use sha2::{Digest, Sha256, Sha384, Sha512};
use x509_cert::der::asn1::{ContextSpecific, ObjectIdentifier, UintRef};
use x509_cert::der::oid::db::rfc5912;
use x509_cert::der::{Decode, Encode, Reader, SliceReader, TagNumber};
use x509_cert::spki::AlgorithmIdentifierOwned;

/// Lengths of a modulus that are verified: below, `ring` and OpenSSL refuse it, above, nobody has one.
const MODULUS_BYTES: std::ops::RangeInclusive<usize> = 256..=512;
/// RFC 8017 appendix A.2.3: the salt's length if the parameters do not name it.
const SALT_BYTES_DEFAULT: u32 = 20;
/// The last byte of each encoded message (RFC 8017 section 9.1.1).
const TRAILER: u8 = 0xbc;

/// The hash of a signature.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Hash {
    /// Known for channel binding; never verified.
    Sha1,
    Sha256,
    Sha384,
    Sha512,
}

impl Hash {
    fn from_oid(oid: ObjectIdentifier) -> Option<Hash> {
        const SHA1: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.3.14.3.2.26");
        let known = [
            (SHA1, Hash::Sha1),
            (rfc5912::ID_SHA_256, Hash::Sha256),
            (rfc5912::ID_SHA_384, Hash::Sha384),
            (rfc5912::ID_SHA_512, Hash::Sha512),
        ];
        known.into_iter().find(|(known, _)| *known == oid).map(|(_, hash)| hash)
    }

    /// The hash of the parts, one after the other; `None` for SHA-1.
    pub(super) fn digest(self, parts: &[&[u8]]) -> Option<Vec<u8>> {
        fn all<D: Digest>(parts: &[&[u8]]) -> Vec<u8> {
            parts.iter().fold(D::new(), |digest, part| digest.chain_update(part)).finalize().to_vec()
        }
        match self {
            Hash::Sha1 => None,
            Hash::Sha256 => Some(all::<Sha256>(parts)),
            Hash::Sha384 => Some(all::<Sha384>(parts)),
            Hash::Sha512 => Some(all::<Sha512>(parts)),
        }
    }
}

/// What the algorithm of an RSASSA-PSS signature, or of a key for nothing else, names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Parameters {
    pub(super) hash: Hash,
    mask_hash: Hash,
    salt_bytes: usize,
}

impl Parameters {
    /// `None` if the algorithm is another one, or has parameters that nobody uses.
    pub(super) fn from_algorithm(algorithm: &AlgorithmIdentifierOwned) -> Option<Parameters> {
        if !is_pss(algorithm) {
            return None;
        }
        let parameters = algorithm.parameters.as_ref()?;
        let mut reader = SliceReader::new(parameters.value()).ok()?;
        let of = |reader: &mut SliceReader, number| {
            ContextSpecific::<AlgorithmIdentifierOwned>::decode_explicit(reader, number)
        };
        let hash = match of(&mut reader, TagNumber::N0).ok()? {
            Some(found) => Hash::from_oid(found.value.oid)?,
            None => Hash::Sha1,
        };
        let mask_hash = match of(&mut reader, TagNumber::N1).ok()? {
            Some(found) => {
                let inner = found.value.parameters?.to_der().ok()?;
                Hash::from_oid(AlgorithmIdentifierOwned::from_der(&inner).ok()?.oid)?
            }
            None => Hash::Sha1,
        };
        let salt = ContextSpecific::<u32>::decode_explicit(&mut reader, TagNumber::N2).ok()?;
        let salt_bytes = salt.map_or(SALT_BYTES_DEFAULT, |found| found.value);
        Some(Parameters { hash, mask_hash, salt_bytes: usize::try_from(salt_bytes).ok()? })
    }
}

/// Whether this is the algorithm of PSS signatures, and of keys that make no others.
pub(super) fn is_pss(algorithm: &AlgorithmIdentifierOwned) -> bool {
    algorithm.oid == rfc5912::ID_RSASSA_PSS
}

/// Why a signature is not valid.
#[derive(Debug)]
pub(super) struct NotValid;

impl fmt::Display for NotValid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the signature is not valid")
    }
}

/// Verifies an RSASSA-PSS signature (RFC 8017 section 8.1.2) with `key`, an RSAPublicKey in DER.
pub(super) fn verify(
    key: &[u8],
    parameters: &Parameters,
    message: &[u8],
    signature: &[u8],
) -> Result<(), NotValid> {
    let (modulus, exponent) = public_numbers(key).ok_or(NotValid)?;
    if !MODULUS_BYTES.contains(&modulus.len()) || signature.len() != modulus.len() {
        return Err(NotValid);
    }
    let encoded = power(signature, exponent, modulus).ok_or(NotValid)?;
    let n_bits = modulus.len() * 8 - modulus[0].leading_zeros() as usize;
    let hash = parameters.hash.digest(&[message]).ok_or(NotValid)?;
    let (above, encoded) = encoded.split_at(encoded.len() - (n_bits - 1).div_ceil(8));
    if above.iter().any(|byte| *byte != 0) {
        return Err(NotValid);
    }
    check_encoding(encoded, n_bits - 1, parameters, &hash)
}

fn public_numbers(key: &[u8]) -> Option<(&[u8], &[u8])> {
    let mut reader = SliceReader::new(key).ok()?;
    let found = reader.sequence(|fields| Ok((fields.decode::<UintRef>()?, fields.decode::<UintRef>()?)));
    let (modulus, exponent) = found.ok()?;
    reader.is_finished().then(|| (modulus.as_bytes(), exponent.as_bytes()))
}

/// `base` to the power of `exponent`, modulo `modulus`.
fn power(base: &[u8], exponent: &[u8], modulus: &[u8]) -> Option<[u8; 512]> {
    let number = |bytes: &[u8]| {
        let mut padded = [0; 512];
        padded.get_mut(512_usize.checked_sub(bytes.len())?..)?.copy_from_slice(bytes);
        Some(U4096::from_be_slice(&padded))
    };
    let (base, modulus) = (number(base)?, number(modulus)?);
    if base >= modulus || !bool::from(modulus.is_odd()) {
        return None;
    }
    let exponent_bits = exponent.len().checked_mul(8).filter(|bits| *bits <= 64)?;
    let residue = DynResidue::new(&base, DynResidueParams::new(&modulus));
    let result = residue.pow_bounded_exp(&number(exponent)?, exponent_bits).retrieve();
    result.to_be_bytes().as_ref().try_into().ok()
}

/// EMSA-PSS-VERIFY (RFC 8017 section 9.1.2) of an encoded message with `n_bits` bits.
fn check_encoding(
    encoded: &[u8],
    n_bits: usize,
    parameters: &Parameters,
    hash: &[u8],
) -> Result<(), NotValid> {
    let n_masked = encoded.len().checked_sub(hash.len() + 1).ok_or(NotValid)?;
    let n_padding = n_masked.checked_sub(parameters.salt_bytes + 1).ok_or(NotValid)?;
    let (masked, rest) = encoded.split_at(n_masked);
    let (salted_hash, trailer) = rest.split_at(hash.len());
    let unused_bits = 8 * encoded.len() - n_bits;
    if trailer != [TRAILER] || masked[0].checked_shr(8 - unused_bits as u32).unwrap_or(0) != 0 {
        return Err(NotValid);
    }

    let mask = mask(parameters.mask_hash, salted_hash, n_masked).ok_or(NotValid)?;
    let mut block: Vec<u8> = masked.iter().zip(&mask).map(|(masked, mask)| masked ^ mask).collect();
    block[0] &= 0xff >> unused_bits;
    let (padding, salt) = block.split_at(n_padding + 1);
    let (ones, zeros) = padding.split_last().ok_or(NotValid)?;
    if *ones != 1 || zeros.iter().any(|byte| *byte != 0) {
        return Err(NotValid);
    }

    let expected = parameters.hash.digest(&[&[0; 8], hash, salt]).ok_or(NotValid)?;
    if expected == salted_hash { Ok(()) } else { Err(NotValid) }
}

/// MGF1 (RFC 8017 appendix B.2.1).
fn mask(hash: Hash, seed: &[u8], n_bytes: usize) -> Option<Vec<u8>> {
    let mut mask = Vec::with_capacity(n_bytes);
    for counter in 0_u32.. {
        if mask.len() >= n_bytes {
            break;
        }
        mask.extend(hash.digest(&[seed, &counter.to_be_bytes()])?);
    }
    mask.truncate(n_bytes);
    Some(mask)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;
    use std::process::Command;

    use super::*;

    fn openssl(dir: &Path, line: &str) {
        let output = Command::new("openssl").args(line.split_whitespace()).current_dir(dir).output().unwrap();
        assert!(output.status.success(), "{line}\n{}", String::from_utf8_lossy(&output.stderr));
    }

    #[test]
    fn salts_of_any_length_are_verified_and_any_change_is_noticed() {
        let dir = tempfile::tempdir().unwrap();
        let read = |name: &str| fs::read(dir.path().join(name)).unwrap();
        fs::write(dir.path().join("text"), "what is signed").unwrap();
        for (bits, hash, name) in
            [(2048, Hash::Sha256, "sha256"), (3072, Hash::Sha512, "sha512"), (4096, Hash::Sha384, "sha384")]
        {
            openssl(dir.path(), &format!("genrsa -traditional -out key {bits}"));
            openssl(dir.path(), "rsa -in key -RSAPublicKey_out -outform DER -out public");
            let modulus_bytes = usize::div_ceil(bits, 8);
            let hash_bytes = hash.digest(&[]).unwrap().len();
            let most = (bits - 1).div_ceil(8) - hash_bytes - 2;
            for salt_bytes in [0, hash_bytes, most] {
                openssl(
                    dir.path(),
                    &format!(
                        "dgst -{name} -sign key -sigopt rsa_padding_mode:pss -sigopt rsa_pss_saltlen:{salt_bytes} -out signature text"
                    ),
                );
                let parameters = Parameters { hash, mask_hash: hash, salt_bytes };
                let (key, signature) = (read("public"), read("signature"));
                let check = |parameters: &Parameters, text: &[u8], signature: &[u8]| {
                    verify(&key, parameters, text, signature).is_ok()
                };
                assert_eq!(signature.len(), modulus_bytes);
                assert!(check(&parameters, b"what is signed", &signature), "{bits} {name} {salt_bytes}");
                assert!(!check(&parameters, b"what is signed.", &signature));
                let other_salt = Parameters { salt_bytes: salt_bytes.abs_diff(1), ..parameters };
                assert!(!check(&other_salt, b"what is signed", &signature));
                for at in [0, 1, modulus_bytes / 2, modulus_bytes - 1] {
                    let mut changed = signature.clone();
                    changed[at] ^= 1;
                    assert!(!check(&parameters, b"what is signed", &changed), "{at}");
                }
                assert!(!check(&parameters, b"what is signed", &signature[1..]));
                assert!(!check(&parameters, b"what is signed", &vec![0xff; modulus_bytes]));
                assert!(!check(&parameters, b"what is signed", &vec![0; modulus_bytes]));
                assert!(!check(&parameters, b"what is signed", &[&[0; 256][..], &signature].concat()));
            }
        }
    }

    #[test]
    fn bytes_that_are_no_key_verify_nothing() {
        let parameters = Parameters { hash: Hash::Sha256, mask_hash: Hash::Sha256, salt_bytes: 32 };
        for key in [&b""[..], b"\x30\x00", b"\x30\x06\x02\x01\x02\x02\x01\x03", &[0x30; 600]] {
            assert!(verify(key, &parameters, b"", &[0; 256]).is_err());
        }
    }
}
