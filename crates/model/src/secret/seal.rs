//! A digest that only whoever has the key of the marks can make: HMAC-SHA-256 (RFC 2104).

use sha2::{Digest, Sha256};

/// Bytes of a block of SHA-256.
const BLOCK: usize = 64;

/// What these parts are sealed with for one `purpose`, under the key whose source [`super::set_key_source`] set. `None` without a key.
///
/// Each part counts with its length, so that bytes that move from one part to the next change the seal. Marks of hidden values are
/// made by another function of the same key, and none of them is a seal.
pub fn seal(purpose: &str, parts: &[&[u8]]) -> Option<String> {
    super::key().map(|key| sealed(key, purpose, parts))
}

fn sealed(key: &[u8; 32], purpose: &str, parts: &[&[u8]]) -> String {
    let digest = digest(key, |inner| {
        for part in [purpose.as_bytes()].iter().chain(parts) {
            inner.update((part.len() as u64).to_le_bytes());
            inner.update(part);
        }
    });
    digest.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// HMAC-SHA-256 of a message under any key.
pub fn hmac(key: &[u8; 32], message: &[u8]) -> [u8; 32] {
    digest(key, |inner| inner.update(message))
}

/// The digest of the message that `write` adds.
fn digest(key: &[u8; 32], write: impl FnOnce(&mut Sha256)) -> [u8; 32] {
    let pad = |byte: u8| {
        let mut block = [byte; BLOCK];
        block.iter_mut().zip(key).for_each(|(pad, key)| *pad ^= key);
        block
    };
    let mut inner = Sha256::new_with_prefix(pad(0x36));
    write(&mut inner);
    Sha256::new_with_prefix(pad(0x5c)).chain_update(inner.finalize()).finalize().into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn key_purpose_and_each_part_decide_the_seal() {
        let of = |key: u8, purpose: &str, parts: &[&[u8]]| sealed(&[key; 32], purpose, parts);
        let seal = of(1, "results", &[b"ab", b"c"]);
        // Python: hmac.new(bytes([1])*32, lengths and parts, 'sha256').hexdigest()
        assert_eq!(seal, EXPECTED);
        for other in [
            of(2, "results", &[b"ab", b"c"]),
            of(1, "others", &[b"ab", b"c"]),
            of(1, "results", &[b"a", b"bc"]),
            of(1, "results", &[b"abc"]),
            of(1, "results", &[b"ab", b"d"]),
        ] {
            assert_ne!(other, seal);
        }
    }

    #[test]
    fn a_digest_is_that_of_the_standard() {
        // RFC 4231, test case 1: a shorter key is filled up with zeros.
        let mut key = [0; 32];
        key[..20].fill(0x0b);
        let digits: String = hmac(&key, b"Hi There").iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(digits, "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7");
    }

    const EXPECTED: &str = "0f28b35f946e72843d4b50e5f354aba8d8d70d8bcd0f2c3e0cba5ccfd8948351";
}
