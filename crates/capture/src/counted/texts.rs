//! Texts of pg_stat_statements as statements that can be prepared: a literal that had a type before it is a parameter with a cast.

use std::collections::BTreeMap;

use crate::statement::identity;
use crate::statement::lexer::{Backslash, TokenKind, tokens};
use crate::statement::{Form, FormPiece};

/// Types that may stand before a literal.
const TYPES: [&str; 6] = ["date", "interval", "time", "timestamp", "timestamptz", "timetz"];

/// The text with `$1::interval` in place of `interval $1`, which the server does not take.
pub(super) fn with_parameters(text: &str) -> String {
    let tokens = tokens(text, Backslash::Plain);
    let (mut out, mut end, mut at) = (String::new(), 0, 0);
    while at + 1 < tokens.len() {
        let (word, next) = (&tokens[at], &tokens[at + 1]);
        let is_type = word.kind == TokenKind::Word
            && TYPES.iter().any(|name| name.eq_ignore_ascii_case(word.text(text)))
            && matches!(next.kind, TokenKind::Parameter(_));
        if is_type {
            out.push_str(&text[end..word.start]);
            out.push_str(&format!("{}::{}", next.text(text), word.text(text)));
            end = next.end;
            at += 1;
        }
        at += 1;
    }
    out.push_str(&text[end..]);
    out
}

/// Gives values the types that the server could not infer; the statement becomes another one by that.
pub(super) fn with_casts(form: &mut Form, guessed: &BTreeMap<usize, String>) {
    if guessed.is_empty() {
        return;
    }
    let mut pieces = Vec::with_capacity(form.pieces.len() * 2);
    for piece in std::mem::take(&mut form.pieces) {
        let cast = match &piece {
            FormPiece::Slot(slot) => guessed.get(&usize::from(*slot)).map(|name| format!("::{name}")),
            FormPiece::Text(_) => None,
        };
        pieces.push(piece);
        pieces.extend(cast.map(FormPiece::Text));
    }
    form.pieces = pieces;
    form.identity = identity(&form.numbered());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn literals_with_a_type_are_cast() {
        for (text, expected) in [
            ("select now() - interval $1", "select now() - $1::interval"),
            ("select DATE $2, timestamp  $1 from t", "select $2::DATE, $1::timestamp from t"),
            ("select date from t where interval = $1", "select date from t where interval = $1"),
            ("", ""),
        ] {
            assert_eq!(with_parameters(text), expected, "{text}");
        }
    }
}
