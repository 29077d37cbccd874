//! The words of commands in a text, as a shell splits them, with their places: a command line, a line of a script, a list of
//! TOML, or a command that a sentence quotes. It never fails: what is no command becomes words that mean nothing.

/// A word of a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Word<'a> {
    /// Without the quotes around it, otherwise as written.
    pub(super) text: &'a str,
    /// Where that begins.
    pub(super) start: usize,
    /// Whether it is the first one of a command.
    pub(super) is_first: bool,
}

/// What ends a command: the signs of a shell, and those that quote or list commands elsewhere.
const ENDS: &[u8] = b"\n;|`()[]{}";

/// The words of `text`.
pub(super) fn split(text: &str) -> Vec<Word<'_>> {
    let bytes = text.as_bytes();
    let (mut words, mut at, mut is_first) = (Vec::new(), 0, true);
    while at < bytes.len() {
        if ends_command(bytes, at) {
            is_first = true;
            at += 1;
        } else if is_between(bytes, at) {
            at += 1;
        } else {
            let (start, end, next) = word_at(bytes, at);
            words.push(Word { text: &text[start..end], start, is_first });
            is_first = false;
            at = next;
        }
    }
    words
}

fn ends_command(bytes: &[u8], at: usize) -> bool {
    let follows = |sign: u8| bytes.get(at + 1).is_none_or(|next| next.is_ascii_whitespace() || *next == sign);
    match bytes[at] {
        // A line that goes on.
        b'\n' => at == 0 || bytes[at - 1] != b'\\',
        // One within an address separates its variables.
        b'&' => follows(b'&'),
        byte => ENDS.contains(&byte),
    }
}

/// Whether the byte stands between words: space, a comma after which a list goes on, or a backslash before the end of a line.
fn is_between(bytes: &[u8], at: usize) -> bool {
    let next = bytes.get(at + 1).copied();
    match bytes[at] {
        b',' => next.is_none_or(|next| next.is_ascii_whitespace() || is_quote(next)),
        b'\\' => next == Some(b'\n'),
        byte => byte.is_ascii_whitespace(),
    }
}

fn is_quote(byte: u8) -> bool {
    matches!(byte, b'"' | b'\'')
}

/// Start and end of the word at `at`, without quotes around the whole of it, and where to go on.
fn word_at(bytes: &[u8], at: usize) -> (usize, usize, usize) {
    let mut end = at;
    while end < bytes.len() && !is_between(bytes, end) && !ends_command(bytes, end) {
        // Elsewhere in a word it may be an apostrophe.
        let opens = end == at || bytes[at] == b'-' || matches!(bytes[end - 1], b'=' | b':' | b',');
        match quoted_at(bytes, end).filter(|_| opens) {
            // Nothing follows, or it is no part of the word.
            Some((inner, closing, next)) if end == at && is_over(bytes, next) => {
                return (inner, closing, next);
            }
            Some((_, _, next)) => end = next,
            None => end += 1,
        }
    }
    (at, end, end)
}

fn is_over(bytes: &[u8], at: usize) -> bool {
    at >= bytes.len() || is_between(bytes, at) || ends_command(bytes, at) || is_quote(bytes[at])
}

/// Start and end of what the quote at `at` encloses, and what follows it; `None` if there is no quote, or nothing closes it. A
/// quote after a backslash is closed by such a one: a command within a string of JSON.
fn quoted_at(bytes: &[u8], at: usize) -> Option<(usize, usize, usize)> {
    let is_escaped = bytes[at] == b'\\';
    let inner = at + 1 + usize::from(is_escaped);
    let quote = *bytes.get(inner - 1).filter(|byte| is_quote(**byte))?;
    let mut end = inner;
    while end < bytes.len() {
        match bytes[end] {
            b'\\' if is_escaped && bytes.get(end + 1) == Some(&quote) => return Some((inner, end, end + 2)),
            // In double quotes it keeps the next sign from closing them.
            b'\\' if quote == b'"' => end += 2,
            byte if byte == quote && !is_escaped => return Some((inner, end, end + 1)),
            _ => end += 1,
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_split_however_they_are_written() {
        let check = |text: &str, expected: &[&[&str]]| {
            let mut commands: Vec<Vec<&str>> = Vec::new();
            for word in split(text) {
                assert!(text[word.start..].starts_with(word.text), "{text}");
                if word.is_first {
                    commands.push(Vec::new());
                }
                commands.last_mut().unwrap().push(word.text);
            }
            assert_eq!(commands, expected, "{text}");
        };
        check("", &[]);
        check("a  b\tc", &[&["a", "b", "c"]]);
        check("a 'b c' \"d e\"", &[&["a", "b c", "d e"]]);
        check("a --b='c d' e", &[&["a", "--b='c d'", "e"]]);
        check("a -p'c d' e", &[&["a", "-p'c d'", "e"]]);
        check("a; b | c && d &\ne", &[&["a"], &["b"], &["c"], &["d"], &["e"]]);
        check("a \\\n  b", &[&["a", "b"]]);
        check("x = [\"a\", \"-b\", 'c d']", &[&["x", "="], &["a", "-b", "c d"]]);
        check("[\"a\",\"-b\"]", &[&["a", "-b"]]);
        check("the user's `a -b c` failed", &[&["the", "user's"], &["a", "-b", "c"], &["failed"]]);
        check("sh -c \\\"a b\\\" c", &[&["sh", "-c", "a b", "c"]]);
        check("a \"b \\\" c\" d", &[&["a", "b \\\" c", "d"]]);
        check("a http://h/?x=1&y=2", &[&["a", "http://h/?x=1&y=2"]]);
        check("a 'b", &[&["a", "'b"]]);
        check("é 'ü ö' \\", &[&["é", "ü ö", "\\"]]);
        check("a \"b\\", &[&["a", "\"b\\"]]);
    }
}
