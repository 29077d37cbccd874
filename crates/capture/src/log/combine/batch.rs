//! Several statements in one simple query, split at semicolons outside of quotes, comments and bodies of functions.

/// The statements of a text, without their semicolons; a text with one statement as it is.
pub(super) fn statements(text: &str) -> Vec<&str> {
    if is_single(text) {
        return vec![text];
    }
    let mut found = Vec::new();
    let mut begin = 0;
    // Depth of parentheses, and of BEGIN ATOMIC … END in functions: semicolons in them end no statement.
    let (mut depth, mut bodies) = (0_i64, 0_u32);
    let bytes = text.as_bytes();
    let mut at = 0;
    while at < bytes.len() {
        let length = skipped(&bytes[at..], at > 0 && is_name_byte(bytes[at - 1]));
        if length > 0 {
            at += length;
            continue;
        }
        match bytes[at] {
            b'(' => depth += 1,
            b')' => depth -= 1,
            b';' if depth <= 0 && bodies == 0 => {
                found.push(text[begin..at].trim());
                begin = at + 1;
            }
            byte if byte.is_ascii_alphabetic() => {
                let word = word(&bytes[at..]);
                let follows = |expected: &[u8]| {
                    bytes[at + word.len()..]
                        .trim_ascii_start()
                        .get(..expected.len())
                        .is_some_and(|next| next.eq_ignore_ascii_case(expected))
                };
                let begins_body = word.eq_ignore_ascii_case(b"begin") && follows(b"atomic");
                if begins_body || bodies > 0 && word.eq_ignore_ascii_case(b"case") {
                    bodies += 1;
                } else if word.eq_ignore_ascii_case(b"end") {
                    bodies = bodies.saturating_sub(1);
                }
                at += word.len();
                continue;
            }
            _ => {}
        }
        at += 1;
    }
    found.push(text[begin..].trim());
    found.retain(|statement| !is_comment(statement));
    if found.len() < 2 { vec![text] } else { found }
}

/// Whether no semicolon is followed by anything: nearly all texts.
fn is_single(text: &str) -> bool {
    let rest = text.trim_end();
    let rest = rest.strip_suffix(';').unwrap_or(rest);
    memchr::memchr(b';', rest.as_bytes()).is_none()
}

fn is_name_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'$') || byte >= 0x80
}

fn word(bytes: &[u8]) -> &[u8] {
    let n = bytes.iter().take_while(|byte| is_name_byte(**byte)).count();
    &bytes[..n]
}

/// Whether a text has nothing but comments and blanks.
fn is_comment(text: &str) -> bool {
    let bytes = text.as_bytes();
    let mut at = 0;
    while at < bytes.len() {
        let rest = &bytes[at..];
        if rest.starts_with(b"--") || rest.starts_with(b"/*") {
            at += skipped(rest, false).max(1);
        } else if bytes[at].is_ascii_whitespace() {
            at += 1;
        } else {
            return false;
        }
    }
    true
}

/// Length of a literal, a quoted name or a comment at the beginning; 0 if there is none. One that does not end goes on to the end.
fn skipped(bytes: &[u8], is_in_name: bool) -> usize {
    match bytes {
        [b'\'', ..] => literal(bytes, false),
        [b'e' | b'E', b'\'', ..] if !is_in_name => 1 + literal(&bytes[1..], true),
        [b'"', ..] => memchr::memchr(b'"', &bytes[1..]).map_or(bytes.len(), |end| end + 2),
        [b'-', b'-', ..] => memchr::memchr(b'\n', bytes).map_or(bytes.len(), |end| end + 1),
        [b'/', b'*', ..] => comment(bytes),
        [b'$', ..] if !is_in_name => dollar(bytes),
        _ => 0,
    }
}

fn literal(bytes: &[u8], has_escapes: bool) -> usize {
    let mut at = 1;
    while at < bytes.len() {
        match bytes[at] {
            b'\\' if has_escapes => at += 2,
            b'\'' if bytes.get(at + 1) == Some(&b'\'') => at += 2,
            b'\'' => return at + 1,
            _ => at += 1,
        }
    }
    bytes.len()
}

/// A comment, which may contain others.
fn comment(bytes: &[u8]) -> usize {
    let (mut at, mut depth) = (2, 1);
    while at < bytes.len() {
        match &bytes[at..] {
            [b'*', b'/', ..] => {
                depth -= 1;
                at += 2;
                if depth == 0 {
                    return at;
                }
            }
            [b'/', b'*', ..] => {
                depth += 1;
                at += 2;
            }
            _ => at += 1,
        }
    }
    bytes.len()
}

/// `$tag$ … $tag$`; 0 for `$1`.
fn dollar(bytes: &[u8]) -> usize {
    let n = bytes[1..].iter().take_while(|byte| is_name_byte(**byte) && **byte != b'$').count();
    let is_tag = bytes.get(1 + n) == Some(&b'$') && !bytes[1].is_ascii_digit();
    if !is_tag {
        return 0;
    }
    let tag = &bytes[..n + 2];
    memchr::memmem::find(&bytes[tag.len()..], tag).map_or(bytes.len(), |end| end + 2 * tag.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_split_at_the_semicolons_that_end_statements() {
        let check = |text: &str, expected: &[&str]| assert_eq!(statements(text), expected, "{text}");
        check("select 1", &["select 1"]);
        check("select 1;", &["select 1;"]);
        check(";", &[";"]);
        check("select 1; select 2;", &["select 1", "select 2"]);
        check("select ';'; select e'\\';' ; x", &["select ';'", "select e'\\';'", "x"]);
        check("select \";\"; -- a; b\nx", &["select \";\"", "-- a; b\nx"]);
        check("a /* ; /* ; */ ; */; b", &["a /* ; /* ; */ ; */", "b"]);
        check("do $$ begin x; end $$; select $1", &["do $$ begin x; end $$", "select $1"]);
        check("do $a$ ; $$ ; $a$", &["do $a$ ; $$ ; $a$"]);
        check("begin; select 1; end;", &["begin", "select 1", "end"]);
        check(
            "create function f() returns int begin atomic select case when true then 1 end; select 2; end; select 3",
            &[
                "create function f() returns int begin atomic select case when true then 1 end; select 2; end",
                "select 3",
            ],
        );
        check(
            "create rule r as on insert to t do (select 1; select 2); x",
            &["create rule r as on insert to t do (select 1; select 2)", "x"],
        );
        check("select 1; -- done", &["select 1; -- done"]);
        check("select 'unclosed; a", &["select 'unclosed; a"]);
        check("é; ü", &["é", "ü"]);
    }
}
