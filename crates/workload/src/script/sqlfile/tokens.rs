//! The words, names, texts and signs of one statement; not what they mean. Where each ends is the scanner's to say. Comments are passed
//! over.

use crate::script::sqlscan::{SqlToken, tokens as scanned};

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
    all(statement).take_while(|token| token.kind != DumpTokenKind::Text).collect()
}

/// All tokens of a statement.
pub(super) fn with_texts(statement: &str) -> Vec<DumpToken> {
    all(statement).collect()
}

fn all(statement: &str) -> impl Iterator<Item = DumpToken> + '_ {
    scanned(statement).filter_map(|(token, range)| of_text(token, &statement[range.clone()], range.start))
}

/// What the scanner found at `at`; `None` for blanks and comments.
fn of_text(token: SqlToken, text: &str, at: usize) -> Option<DumpToken> {
    let first = text.chars().next()?;
    let word = |text: &str, at| DumpToken { text: text.to_lowercase(), kind: DumpTokenKind::Word, at };
    Some(match token {
        SqlToken::Quoted if first == '"' => {
            DumpToken { text: between(text, '"'), kind: DumpTokenKind::QuotedName, at }
        }
        SqlToken::Quoted => DumpToken { text: of_quotes(text), kind: DumpTokenKind::Text, at },
        SqlToken::Word => word(text, at),
        // The end of a slice, as in `a[1:n]`, and no variable: psql's have been replaced.
        SqlToken::Variable => word(&text[1..], at + 1),
        SqlToken::Other if text.starts_with("--") || text.starts_with("/*") || first.is_whitespace() => {
            return None;
        }
        SqlToken::Other if first.is_ascii_digit() => word(text, at),
        // A lone one begins a parameter.
        SqlToken::Other if first == '$' => DumpToken { text: String::new(), kind: DumpTokenKind::Text, at },
        SqlToken::Other => DumpToken { text: text.to_string(), kind: DumpTokenKind::Sign, at },
    })
}

/// What a text in quotes or dollars says.
fn of_quotes(text: &str) -> String {
    if let Some(tag_len) = text.strip_prefix('$').and_then(|rest| rest.find('$')) {
        let (tag, body) = text.split_at(tag_len + 2);
        return body.strip_suffix(tag).unwrap_or(body).to_string();
    }
    match text.strip_prefix(['e', 'E']) {
        Some(escaped) => between(escaped, '\'').replace("\\'", "'"),
        None => between(text, '\''),
    }
}

/// What is between quotes, of which a doubled one stands for itself.
fn between(text: &str, quote: char) -> String {
    let inner = text.strip_prefix(quote).unwrap_or(text);
    inner.strip_suffix(quote).unwrap_or(inner).replace(&format!("{quote}{quote}"), &quote.to_string())
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
        // Backslashes and comments within comments are PostgreSQL's.
        check("select E'it\\'s', f() /* a /* b */ c */;", &["select", "it's", ",", "f", "(", ")", ";"]);
        check("a[1:n]::int", &["a", "[", "1", "n", "]", "::", "int"]);
        check("select $1, 'open", &["select", "", "1", ",", "open"]);
        assert_eq!(tokens("create role a password 'b' login").len(), 4);
    }
}
