//! Values as they are written into texts: literals of SQL. Fields of rows to copy are written as crate `generator` writes rows.

/// Makes a literal of what `out` has from `start` on. Its meaning does not depend on `standard_conforming_strings`.
pub(crate) fn literal(out: &mut Vec<u8>, start: usize) {
    let is_special = |byte: &u8| matches!(byte, b'\'' | b'\\');
    let n_special = out[start..].iter().filter(|byte| is_special(byte)).count();
    let has_escapes = n_special > 0 && out[start..].contains(&b'\\');
    let prefix: &[u8] = if has_escapes { b"E'" } else { b"'" };

    // From the end, so that nothing is overwritten before it is read; what stands before the first special byte moves at once.
    let (mut from, mut n_left) = (out.len(), n_special);
    out.resize(from + prefix.len() + n_special, 0);
    let mut to = out.len();
    while n_left > 0 {
        (from, to) = (from - 1, to - 1);
        let byte = out[from];
        out[to] = byte;
        if is_special(&byte) {
            to -= 1;
            out[to] = byte;
            n_left -= 1;
        }
    }
    out.copy_within(start..from, start + prefix.len());
    out[start..start + prefix.len()].copy_from_slice(prefix);
    out.push(b'\'');
}

#[cfg(test)]
mod tests {
    use super::*;

    fn made(make: fn(&mut Vec<u8>, usize), text: &str) -> String {
        let mut out = b"x=".to_vec();
        out.extend_from_slice(text.as_bytes());
        make(&mut out, 2);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn literals_mean_the_same_whatever_the_server_s_settings() {
        for (text, expected) in [
            ("", "x=''"),
            ("abc", "x='abc'"),
            ("it's", "x='it''s'"),
            ("''", "x=''''''"),
            ("a\\b", "x=E'a\\\\b'"),
            ("\\'", "x=E'\\\\'''"),
            ("'\\", "x=E'''\\\\'"),
            ("ä'ö", "x='ä''ö'"),
        ] {
            assert_eq!(made(literal, text), expected, "{text}");
        }
    }
}
