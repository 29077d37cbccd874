//! The settings that a server reports, with a bound on their number.

use std::collections::BTreeMap;

use crate::protocol_error::ProtocolError;

/// PostgreSQL reports some fifteen settings, poolers and others a few more. The longest is `search_path`.
const N_MAX: usize = 256;
const BYTES_MAX: usize = 64 * 1024;

/// Stores a setting.
///
/// # Errors
/// If the server has reported more than the limit.
pub(crate) fn keep(
    parameters: &mut BTreeMap<String, String>,
    name: &[u8],
    value: &[u8],
) -> Result<(), ProtocolError> {
    let too_much = |what, limit| Err(ProtocolError::TooMuch { what, limit });
    if name.len() + value.len() > BYTES_MAX {
        return too_much("bytes of settings", "64 KiB");
    }
    let text = |bytes| String::from_utf8_lossy(bytes).into_owned();
    parameters.insert(text(name), text(value));
    if parameters.len() > N_MAX {
        return too_much("settings", "256");
    }
    let n_bytes: usize = parameters.iter().map(|(name, value)| name.len() + value.len()).sum();
    if n_bytes > BYTES_MAX { too_much("bytes of settings", "64 KiB") } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_have_a_number_and_a_size() {
        let mut parameters = BTreeMap::new();
        for n in 0..N_MAX {
            keep(&mut parameters, format!("name{n}").as_bytes(), b"value").unwrap();
        }
        keep(&mut parameters, b"name0", b"another").unwrap();
        assert_eq!(parameters["name0"], "another");
        assert!(keep(&mut parameters.clone(), b"one more", b"").is_err());
        assert!(keep(&mut parameters.clone(), b"name0", &[b'x'; BYTES_MAX + 1]).is_err());
        assert!(keep(&mut parameters, b"name0", &[b'x'; BYTES_MAX - 2000]).is_err(), "together");
    }
}
