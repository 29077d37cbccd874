//! The words, names, texts and signs of one statement; not what they mean. Comments are passed over.

/// A word, a quoted name, a text or a sign.
#[derive(Debug, PartialEq)]
pub(super) struct DumpToken {
    /// A word in lower case, a quoted name or a text without its quotes, or a sign.
    pub(super) text: String,
    pub(super) kind: DumpTokenKind,
    /// Where it begins in the statement.
    pub(super) at: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum DumpTokenKind {
    Word,
    QuotedName,
    /// Between single quotes or dollars.
    Text,
    Sign,
}

impl DumpToken {
    /// Whether it is this word or sign, without quotes.
    pub(super) fn is(&self, word: &str) -> bool {
        matches!(self.kind, DumpTokenKind::Word | DumpTokenKind::Sign) && self.text == word
    }

    /// Whether it is this name, with quotes or without.
    pub(super) fn names(&self, name: &str) -> bool {
        matches!(self.kind, DumpTokenKind::Word | DumpTokenKind::QuotedName) && self.text == name
    }
}

/// Whether the tokens begin with these words.
pub(super) fn begins(tokens: &[DumpToken], words: &[&str]) -> bool {
    tokens.len() >= words.len() && tokens.iter().zip(words).all(|(token, word)| token.is(word))
}

/// The tokens of a statement up to its first text or body, in which no role is named.
pub(super) fn tokens(statement: &str) -> Vec<DumpToken> {
    Tokens { statement, at: 0 }.take_while(|token| token.kind != DumpTokenKind::Text).collect()
}

/// All tokens of a statement.
pub(super) fn with_texts(statement: &str) -> Vec<DumpToken> {
    Tokens { statement, at: 0 }.collect()
}

struct Tokens<'a> {
    statement: &'a str,
    at: usize,
}

impl Iterator for Tokens<'_> {
    type Item = DumpToken;

    fn next(&mut self) -> Option<DumpToken> {
        let is_word = |c: char| c.is_alphanumeric() || c == '_' || c == '$';
        loop {
            let at = self.at;
            let rest = &self.statement[at..];
            let first = rest.chars().next()?;
            let (len, text, kind) = if rest.starts_with("--") {
                self.at += rest.find('\n').unwrap_or(rest.len());
                continue;
            } else if rest.starts_with("/*") {
                self.at += rest.find("*/").map_or(rest.len(), |end| end + 2);
                continue;
            } else if first.is_whitespace() {
                self.at += first.len_utf8();
                continue;
            } else if first == '\'' || first == '"' {
                let (text, len) = quoted(rest, first);
                (len, text, if first == '"' { DumpTokenKind::QuotedName } else { DumpTokenKind::Text })
            } else if first == '$' {
                let (text, len) = between_dollars(rest);
                (len, text, DumpTokenKind::Text)
            } else if is_word(first) {
                let len = rest.find(|c| !is_word(c)).unwrap_or(rest.len());
                (len, rest[..len].to_lowercase(), DumpTokenKind::Word)
            } else {
                (first.len_utf8(), first.to_string(), DumpTokenKind::Sign)
            };
            self.at += len;
            return Some(DumpToken { text, kind, at });
        }
    }
}

/// What is between quotes, of which a doubled one stands for itself, and its length with them.
fn quoted(rest: &str, quote: char) -> (String, usize) {
    let mut text = String::new();
    let mut at = 1;
    while let Some(end) = rest[at..].find(quote) {
        text += &rest[at..at + end];
        at += end + 1;
        if !rest[at..].starts_with(quote) {
            return (text, at);
        }
        text.push(quote);
        at += 1;
    }
    (text + &rest[at..], rest.len())
}

/// What is between `$tag$` and the next `$tag$`, and its length with them; of a lone dollar, nothing.
fn between_dollars(rest: &str) -> (String, usize) {
    let Some(tag_len) = rest[1..].find('$') else { return (String::new(), 1) };
    let tag = &rest[..tag_len + 2];
    if !tag.trim_matches('$').chars().all(|c| c.is_alphanumeric() || c == '_') {
        return (String::new(), 1);
    }
    let body = &rest[tag.len()..];
    match body.find(tag) {
        Some(end) => (body[..end].to_string(), tag.len() * 2 + end),
        None => (body.to_string(), rest.len()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_statement_is_taken_apart_without_its_comments() {
        let check = |statement: &str, expected: &[&str]| {
            let found: Vec<String> = with_texts(statement).into_iter().map(|token| token.text).collect();
            assert_eq!(found, expected, "{statement}");
        };
        check(
            "-- it's\nALTER ROLE \"A \"\"b\"\"\" PASSWORD 'it''s';",
            &["alter", "role", "A \"b\"", "password", "it's", ";"],
        );
        check("do $x$ a 'b' $x$ language /* c */ d", &["do", " a 'b' ", "language", "d"]);
        check("select $1, 'open", &["select", "", "1", ",", "open"]);
        assert_eq!(tokens("create role a password 'b' login").len(), 4);
    }
}
