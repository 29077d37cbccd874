//! Values as they are written into texts: literals of SQL, and fields of rows to copy.

/// Makes a literal of what `out` has from `start` on. Its meaning does not depend on `standard_conforming_strings`.
pub(crate) fn literal(out: &mut Vec<u8>, start: usize) {
    let is_special = |byte: &u8| matches!(byte, b'\'' | b'\\');
    let n_special = out[start..].iter().filter(|byte| is_special(byte)).count();
    let has_escapes = n_special > 0 && out[start..].contains(&b'\\');
    let prefix: &[u8] = if has_escapes { b"E'" } else { b"'" };
    widen(out, start, prefix.len(), n_special, |byte| is_special(&byte).then_some(byte));
    out[start..start + prefix.len()].copy_from_slice(prefix);
    out.push(b'\'');
}

/// Makes a field of `COPY`'s text format of what `out` has from `start` on.
pub(crate) fn field(out: &mut Vec<u8>, start: usize) {
    let escaped = |byte: u8| match byte {
        b'\\' => Some((b'\\', b'\\')),
        b'\n' => Some((b'\\', b'n')),
        b'\r' => Some((b'\\', b'r')),
        b'\t' => Some((b'\\', b't')),
        _ => None,
    };
    let n_special = out[start..].iter().filter(|byte| escaped(**byte).is_some()).count();
    widen(out, start, 0, n_special, |byte| escaped(byte).map(|_| b'\\'));
    // The second byte of each pair is still the byte itself.
    let mut at = start;
    while at < out.len() && n_special > 0 {
        if out[at] == b'\\' {
            at += 1;
            out[at] = escaped(out[at]).map_or(out[at], |(_, second)| second);
        }
        at += 1;
    }
}

/// Moves the bytes from `start` on by `n_before`, and puts a byte before each of the `n_special` ones for which `before` has
/// one. From the end, so that nothing is overwritten before it is read.
fn widen(
    out: &mut Vec<u8>,
    start: usize,
    n_before: usize,
    n_special: usize,
    before: impl Fn(u8) -> Option<u8>,
) {
    let mut from = out.len();
    out.resize(from + n_before + n_special, 0);
    let mut to = out.len();
    // What stands before the first special byte moves at once.
    let mut n_left = n_special;
    while n_left > 0 {
        (from, to) = (from - 1, to - 1);
        let byte = out[from];
        out[to] = byte;
        if let Some(first) = before(byte) {
            to -= 1;
            out[to] = first;
            n_left -= 1;
        }
    }
    out.copy_within(start..from, start + n_before);
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

    #[test]
    fn fields_survive_the_text_format_of_copy() {
        for (text, expected) in [
            ("", "x="),
            ("abc", "x=abc"),
            ("a\tb\nc\rd", "x=a\\tb\\nc\\rd"),
            ("\\", "x=\\\\"),
            ("\\N", "x=\\\\N"),
            ("\\\n", "x=\\\\\\n"),
        ] {
            assert_eq!(made(field, text), expected, "{text:?}");
        }
    }
}
