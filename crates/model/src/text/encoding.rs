//! What is wrong with bytes that were to be text, in words.

const GZIP: &[u8] = &[0x1f, 0x8b];
const ZSTD: &[u8] = &[0x28, 0xb5, 0x2f, 0xfd];

/// What a file is that has these bytes and is not UTF-8, and what to do, after its name: `is compressed by gzip; …`.
pub fn not_text(bytes: &[u8]) -> &'static str {
    match bytes {
        _ if bytes.starts_with(GZIP) => {
            "is compressed by gzip; unpack it with gunzip, and name the unpacked file"
        }
        _ if bytes.starts_with(ZSTD) => {
            "is compressed by zstd; unpack it with unzstd, and name the unpacked file"
        }
        _ => "is not UTF-8 text; convert it",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packed_files_are_named() {
        for (bytes, expected) in [
            (&b"\x1f\x8b\x08\x00\xff"[..], "is compressed by gzip; unpack it with gunzip"),
            (b"\x28\xb5\x2f\xfd\x24", "is compressed by zstd; unpack it with unzstd"),
            (b"select '\xe4';", "is not UTF-8 text; convert it"),
        ] {
            assert!(not_text(bytes).starts_with(expected), "{bytes:?}");
        }
    }
}
