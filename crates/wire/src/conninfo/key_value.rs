//! Strings of the form `key=value key='other value'`, as libpq reads them.

use super::settings::{Settings, store};

/// The settings of a text. The error is in libpq's words.
pub(super) fn parse(text: &str) -> Result<Settings, String> {
    let mut settings = Settings::new();
    let mut rest = skip_blanks(text.as_bytes());
    while !rest.is_empty() {
        let n_name = rest.iter().position(|&byte| byte == b'=' || is_blank(byte)).unwrap_or(rest.len());
        let (name, after) = rest.split_at(n_name);
        let name = String::from_utf8_lossy(name);

        let Some(after) = skip_blanks(after).strip_prefix(b"=") else {
            return Err(format!("missing \"=\" after \"{name}\" in connection info string"));
        };
        let after = skip_blanks(after);

        let (value, after) = match after.strip_prefix(b"'") {
            Some(quoted) => {
                let (value, after) = read_value(quoted, |byte| byte == b'\'');
                (value, after.ok_or("unterminated quoted string in connection info string")?)
            }
            None => {
                let (value, after) = read_value(after, is_blank);
                (value, after.unwrap_or_default())
            }
        };
        store(&mut settings, &name, &value).map_err(|_| format!("invalid connection option \"{name}\""))?;
        rest = skip_blanks(after);
    }
    Ok(settings)
}

/// A value without its backslashes, and what follows the byte that ends it, if one does.
fn read_value(bytes: &[u8], is_end: fn(u8) -> bool) -> (Vec<u8>, Option<&[u8]>) {
    let mut value = Vec::new();
    let mut rest = bytes;
    while let Some((&byte, after)) = rest.split_first() {
        rest = after;
        if is_end(byte) {
            return (value, Some(rest));
        }
        if byte != b'\\' {
            value.push(byte);
        } else if let Some((&escaped, after)) = rest.split_first() {
            value.push(escaped);
            rest = after;
        }
    }
    (value, None)
}

fn skip_blanks(bytes: &[u8]) -> &[u8] {
    let n_blanks = bytes.iter().take_while(|&&byte| is_blank(byte)).count();
    &bytes[n_blanks..]
}

/// C's `isspace`.
fn is_blank(byte: u8) -> bool {
    byte.is_ascii_whitespace() || byte == b'\x0b'
}
