//! Several statements in one simple query, split at semicolons outside of quotes, comments and bodies of functions.

use crate::statement::lexer::{Backslash, LexedToken, TokenKind, lexed};

/// The statements of a text, without their semicolons; a text with one statement as it is.
pub(super) fn statements(text: &str) -> Vec<&str> {
    if is_single(text) {
        return vec![text];
    }
    let mut found = Vec::new();
    let (mut begin, mut is_blank) = (0, true);
    // Depth of parentheses, and of BEGIN ATOMIC … END in functions: semicolons in them end no statement.
    let (mut depth, mut bodies) = (0_i64, 0_u32);
    let is = |token: LexedToken, word: &str| {
        token.kind == TokenKind::Word && token.text(text).eq_ignore_ascii_case(word)
    };
    let mut tokens = lexed(text, Backslash::Plain).peekable();
    while let Some(token) = tokens.next() {
        match token.kind {
            TokenKind::Semicolon if depth <= 0 && bodies == 0 => {
                if !is_blank {
                    found.push(text[begin..token.start].trim());
                }
                (begin, is_blank) = (token.end, true);
                continue;
            }
            TokenKind::Mark(b'(') => depth += 1,
            TokenKind::Mark(b')') => depth -= 1,
            TokenKind::Word => {
                let begins_body = is(token, "begin") && tokens.peek().is_some_and(|next| is(*next, "atomic"));
                if begins_body || bodies > 0 && is(token, "case") {
                    bodies += 1;
                } else if is(token, "end") {
                    bodies = bodies.saturating_sub(1);
                }
            }
            _ => {}
        }
        is_blank = false;
    }
    if !is_blank {
        found.push(text[begin..].trim());
    }
    if found.len() < 2 { vec![text] } else { found }
}

/// Whether no semicolon is followed by anything: nearly all texts.
fn is_single(text: &str) -> bool {
    let rest = text.trim_end();
    let rest = rest.strip_suffix(';').unwrap_or(rest);
    memchr::memchr(b';', rest.as_bytes()).is_none()
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
