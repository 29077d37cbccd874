//! Literals as the values that they stand for.

/// The value of a literal in quotes; `None` if it has escapes that make no text.
pub fn text_value(literal: &str, is_escaped: bool) -> Option<String> {
    let bytes = literal.as_bytes();
    match bytes.first()? {
        b'$' => dollar_value(literal),
        b'e' | b'E' => unescaped(&quoted(&literal[1..], true)?),
        b'n' | b'N' => text_value(&literal[1..], is_escaped),
        b'u' | b'U' => None,
        _ if is_escaped => unescaped(&quoted(literal, true)?),
        _ => quoted(literal, false),
    }
}

/// The contents of the parts of a literal, with doubled quotes as one; escapes are kept.
fn quoted(literal: &str, is_escaped: bool) -> Option<String> {
    let mut out = String::with_capacity(literal.len());
    let mut chars = literal.chars().peekable();
    let mut is_open = false;
    while let Some(c) = chars.next() {
        match c {
            '\'' if !is_open => is_open = true,
            '\'' if chars.peek() == Some(&'\'') => {
                chars.next();
                out.push('\'');
            }
            '\'' => is_open = false,
            '\\' if is_open && is_escaped => {
                out.push('\\');
                out.push(chars.next()?);
            }
            _ if is_open => out.push(c),
            // Blanks between the parts of a literal over several lines.
            _ if c.is_ascii_whitespace() => {}
            _ => return None,
        }
    }
    (!is_open && !out.contains('\0')).then_some(out)
}

fn dollar_value(literal: &str) -> Option<String> {
    let tag_len = literal[1..].find('$')? + 2;
    let body = literal.get(tag_len..)?.strip_suffix(&literal[..tag_len])?;
    Some(body.to_string())
}

/// Text without the escapes of `E'...'`.
fn unescaped(text: &str) -> Option<String> {
    let mut out: Vec<u8> = Vec::with_capacity(text.len());
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        if c != '\\' {
            out.extend(c.encode_utf8(&mut [0; 4]).bytes());
            continue;
        }
        let escaped = chars.next()?;
        let mut digits = |radix: u32, least: usize, most: usize| {
            let mut found = String::new();
            while found.len() < most && chars.peek().is_some_and(|c| c.is_digit(radix)) {
                found.extend(chars.next());
            }
            let number = u32::from_str_radix(&found, radix).ok();
            if found.len() >= least { number } else { None }
        };
        match escaped {
            'b' => out.push(8),
            'f' => out.push(12),
            'n' => out.push(b'\n'),
            'r' => out.push(b'\r'),
            't' => out.push(b'\t'),
            'x' => out.push(u8::try_from(digits(16, 1, 2)?).ok()?),
            'u' => out.extend(char::from_u32(digits(16, 4, 4)?)?.encode_utf8(&mut [0; 4]).bytes()),
            'U' => out.extend(char::from_u32(digits(16, 8, 8)?)?.encode_utf8(&mut [0; 4]).bytes()),
            '0'..='7' => {
                let first = escaped.to_digit(8)?;
                let rest: Vec<u32> = std::iter::from_fn(|| {
                    let digit = chars.peek()?.to_digit(8)?;
                    chars.next();
                    Some(digit)
                })
                .take(2)
                .collect();
                out.push(u8::try_from(rest.iter().fold(first, |sum, digit| sum * 8 + digit)).ok()?);
            }
            other => out.extend(other.encode_utf8(&mut [0; 4]).bytes()),
        }
    }
    let text = String::from_utf8(out).ok()?;
    (!text.contains('\0')).then_some(text)
}

/// A value as a literal.
pub fn quote(value: &str) -> String {
    if value.contains('\\') {
        format!("E'{}'", value.replace('\\', "\\\\").replace('\'', "''"))
    } else {
        format!("'{}'", value.replace('\'', "''"))
    }
}

/// A value as a literal without colons, which would begin variables of a script.
pub(crate) fn quote_without_colons(value: &str) -> String {
    let escaped = value.replace('\\', "\\\\").replace('\'', "''").replace(':', "\\x3a");
    format!("E'{escaped}'")
}

/// Elements as the text of an array.
pub fn array_text<'a>(elements: impl Iterator<Item = Option<&'a str>>) -> String {
    let mut out = String::from("{");
    for (n, element) in elements.enumerate() {
        if n > 0 {
            out.push(',');
        }
        match element {
            None => out.push_str("NULL"),
            Some(text) => {
                let is_plain = !text.is_empty()
                    && !text.eq_ignore_ascii_case("null")
                    && text.bytes().all(|byte| {
                        byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'+')
                    });
                if is_plain {
                    out.push_str(text);
                } else {
                    out.push('"');
                    out.push_str(&text.replace('\\', "\\\\").replace('"', "\\\""));
                    out.push('"');
                }
            }
        }
    }
    out.push('}');
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn literals_have_their_values() {
        for (literal, expected) in [
            ("'it''s'", Some("it's")),
            ("'c:\\'", Some("c:\\")),
            ("'a'\n 'b'", Some("ab")),
            ("E'a\\n\\'\\x41\\u00e9\\101\\q'", Some("a\n'AéAq")),
            ("E'it''s'", Some("it's")),
            ("N'x'", Some("x")),
            ("$$a'b$$", Some("a'b")),
            ("$t$a$$b$t$", Some("a$$b")),
            ("U&'\\0061'", None),
            ("'open", None),
            ("E'\\000'", None),
            ("E'\\xff'", None),
            ("$$open", None),
        ] {
            assert_eq!(text_value(literal, false).as_deref(), expected, "{literal}");
        }
        assert_eq!(text_value("'a\\'b'", true).as_deref(), Some("a'b"));
    }

    #[test]
    fn values_are_quoted() {
        assert_eq!(quote("it's"), "'it''s'");
        assert_eq!(quote("a\\"), "E'a\\\\'");
        let elements = [Some("1"), None, Some("a b"), Some("q\"\\"), Some("null"), Some("")];
        assert_eq!(array_text(elements.into_iter()), r#"{1,NULL,"a b","q\"\\","null",""}"#);
    }
}
