//! Negotiates the protocol version, and parses the message whose format depends on it. Reads message bodies; sends
//! nothing.

use super::error::ConnectError;
use crate::conninfo::ProtocolVersion;

/// Length of a cancel key, and its maximum in protocol 3.2.
const KEY_BYTES: usize = 4;
const KEY_BYTES_MAX: usize = 256;

/// The version that NegotiateProtocolVersion offers instead of `asked`. `None` if the message makes no sense: a newer
/// or the same version, one that never existed, or rejected options that were never requested.
pub(super) fn answer(body: &[u8], asked: ProtocolVersion) -> Option<ProtocolVersion> {
    let (version, rest) = body.split_first_chunk::<4>()?;
    let (n_options, rest) = rest.split_first_chunk::<4>()?;
    let known = [ProtocolVersion::V3_0, ProtocolVersion::V3_2];
    let offered = known.into_iter().find(|known| known.number() == i32::from_be_bytes(*version))?;
    let has_options = i32::from_be_bytes(*n_options) != 0 || !rest.is_empty();
    (offered < asked && !has_options).then_some(offered)
}

/// Checks whether the offered version is acceptable.
pub(super) fn check(
    offered: ProtocolVersion,
    oldest: ProtocolVersion,
    place: &str,
) -> Result<ProtocolVersion, ConnectError> {
    if offered < oldest {
        return Err(ConnectError::ProtocolTooOld { place: place.to_owned(), offered, oldest });
    }
    Ok(offered)
}

/// Process id and key of BackendKeyData; `None` if the key's length does not fit `protocol`.
pub(super) fn cancel_key(body: &[u8], protocol: ProtocolVersion) -> Option<(i32, &[u8])> {
    let (pid, key) = body.split_first_chunk::<4>()?;
    let bytes_max = if protocol == ProtocolVersion::V3_0 { KEY_BYTES } else { KEY_BYTES_MAX };
    (KEY_BYTES..=bytes_max).contains(&key.len()).then(|| (i32::from_be_bytes(*pid), key))
}

#[cfg(test)]
mod tests {
    use super::*;
    use ProtocolVersion::{V3_0, V3_2};

    #[test]
    fn only_an_older_version_is_an_answer() {
        let check = |minor: u8, n_options: u8, asked, expected| {
            let body = [0, 3, 0, minor, 0, 0, 0, n_options];
            assert_eq!(answer(&body, asked), expected, "{minor} {n_options} {asked:?}");
        };
        check(0, 0, V3_2, Some(V3_0));
        check(2, 0, V3_2, None);
        check(1, 0, V3_2, None);
        check(0, 0, V3_0, None);
        check(2, 0, V3_0, None);
        check(0, 1, V3_2, None);
        assert_eq!(answer(&[0, 2, 0, 0, 0, 0, 0, 0], V3_2), None);
        assert_eq!(answer(&[0, 3, 0, 0, 0, 0, 0], V3_2), None);
        assert_eq!(answer(b"\0\x03\0\0\0\0\0\0_pq_.x\0\0", V3_2), None);
    }

    #[test]
    fn keys_have_four_bytes_before_version_3_2() {
        let check = |n_bytes: usize, protocol, expected: bool| {
            let body = [&[0, 0, 1, 0][..], &vec![b'k'; n_bytes]].concat();
            let found = cancel_key(&body, protocol);
            assert_eq!(found.is_some(), expected, "{n_bytes} {protocol:?}");
            if let Some((pid, key)) = found {
                assert_eq!((pid, key.len()), (256, n_bytes));
            }
        };
        check(4, V3_0, true);
        check(32, V3_0, false);
        check(3, V3_2, false);
        check(4, V3_2, true);
        check(256, V3_2, true);
        check(257, V3_2, false);
        assert_eq!(cancel_key(b"\0\0", V3_2), None);
    }
}
