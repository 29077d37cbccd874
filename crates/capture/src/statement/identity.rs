//! The identity of a statement across protocols, releases and tools: a hash of its tokens.
//!
//! Literals, parameters and the constants `true`, `false` and `null` are alike, as pg_stat_statements has them; lists of them are one,
//! and so are rows of lists; comments and the case of words do not matter. A server's own query id differs by protocol and release.
//!
//! What a script has in another form is the same statement: `= any (array)` in place of a long `in` list, and `set_config` in place of
//! `SET LOCAL`.

use crate::statement::lexer::{Backslash, LexedToken, TokenKind, tokens};

/// FNV-1a of 64 bits (Fowler, Noll, Vo; draft-eastlake-fnv).
const FNV_BASIS: u64 = 0xcbf2_9ce4_8422_2325;
const FNV_PRIME: u64 = 0x0100_0000_01b3;

/// The identity of a statement.
pub fn identity(text: &str) -> u64 {
    identity_of(text, &tokens(text, Backslash::Plain))
}

/// A hash of bytes that can go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Fnv(pub(crate) u64);

impl Fnv {
    pub(crate) fn new() -> Fnv {
        Fnv(FNV_BASIS)
    }

    pub(crate) fn add(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = (self.0 ^ u64::from(*byte)).wrapping_mul(FNV_PRIME);
        }
    }
}

/// The identity of a text with these tokens.
pub(crate) fn identity_of(text: &str, tokens: &[LexedToken]) -> u64 {
    let mut hash = Fnv::new();
    for word in rewritten(collapsed(words(text, tokens))) {
        hash.add(word.as_bytes());
        hash.add(&[0]);
    }
    hash.0
}

/// Placeholder of everything that is a value.
const VALUE: &str = "$";

fn words(text: &str, tokens: &[LexedToken]) -> Vec<String> {
    let mut words: Vec<String> = Vec::with_capacity(tokens.len());
    for token in tokens {
        let text = token.text(text);
        let word = match token.kind {
            TokenKind::Text | TokenKind::Bits | TokenKind::Number | TokenKind::Parameter(_) => {
                VALUE.to_string()
            }
            TokenKind::Word => {
                let word = text.to_lowercase();
                let is_constant = matches!(word.as_str(), "null" | "true" | "false");
                if is_constant && !follows_is(&words) { VALUE.to_string() } else { word }
            }
            _ => text.to_string(),
        };
        words.push(word);
    }
    while words.last().is_some_and(|word| word == ";") {
        words.pop();
    }
    words
}

/// Whether the next word is that of `is null`, `is not true`.
fn follows_is(words: &[String]) -> bool {
    match words {
        [.., is, not] if is == "is" && not == "not" => true,
        [.., is] => is == "is",
        [] => false,
    }
}

/// Words with each list of values in parentheses or brackets as one value, and rows of such lists as one row.
fn collapsed(words: Vec<String>) -> Vec<String> {
    let mut found: Vec<String> = Vec::with_capacity(words.len());
    for word in words {
        if matches!(word.as_str(), ")" | "]") {
            close_list(&mut found);
        }
        found.push(word);
        let is_row = matches!(found.as_slice(), [.., a, b, c, comma, d, e, f]
            if comma == "," && a == "(" && b == VALUE && c == ")" && d == "(" && e == VALUE && f == ")");
        if is_row {
            found.truncate(found.len() - 4);
        }
    }
    found
}

/// Words in the form that scripts have.
fn rewritten(words: Vec<String>) -> Vec<String> {
    if is_set_local(&words) {
        return ["select", "set_config", "(", VALUE, ")"].map(str::to_string).to_vec();
    }
    let mut found: Vec<String> = Vec::with_capacity(words.len());
    for word in words {
        found.push(word);
        if let Some(in_list) = in_list(&found) {
            found.truncate(found.len() - 5);
            found.extend(in_list.iter().map(|word| (*word).to_string()));
        }
    }
    found
}

/// The list in place of the comparison with all elements of an array that the last five words are.
fn in_list(words: &[String]) -> Option<&'static [&'static str]> {
    let [.., is, any, open, value, close] = words else { return None };
    if open != "(" || value != VALUE || close != ")" {
        return None;
    }
    match (is.as_str(), any.as_str()) {
        ("=", "any") => Some(&["in", "(", VALUE, ")"]),
        ("<>", "all") => Some(&["not", "in", "(", VALUE, ")"]),
        _ => None,
    }
}

/// Whether it is `SET LOCAL name = value`, whatever the value is: later releases show it as a parameter, earlier ones as it is.
fn is_set_local(words: &[String]) -> bool {
    let [set, local, name @ .., is, value] = words else { return false };
    let is_name = |(n, word): (usize, &String)| (word == ".") == (n % 2 == 1);
    set == "set"
        && local == "local"
        && !name.is_empty()
        && name.iter().enumerate().all(is_name)
        && matches!(is.as_str(), "=" | "to")
        && value != "default"
}

/// Makes one value of a list of values that ends here.
fn close_list(found: &mut Vec<String>) {
    let mut n_values = 0;
    let mut rest = found.as_slice();
    while let [before @ .., comma, value] = rest
        && comma == ","
        && value == VALUE
    {
        n_values += 1;
        rest = before;
    }
    let is_list = matches!(rest, [.., open, value] if value == VALUE && matches!(open.as_str(), "(" | "["));
    if is_list {
        found.truncate(found.len() - 2 * n_values);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_differs_only_in_values_is_the_same() {
        for (one, other) in [
            ("SELECT a FROM t WHERE id = 5", "select a from t where id = $1;"),
            ("select a from t where id in (1, 2, 3)", "select a from t where id in ($1 /*, ... */)"),
            ("insert into t values (1, 'a'), (2, 'b')", "insert into t values ($1, $2)"),
            ("update t set a = a + -5", "UPDATE t SET a = a + $1"),
            ("select /* hint */ 1 -- x\n", "select 2"),
            ("select true, null, x is not null", "select $1, $2, x is not null"),
            ("select interval '1 day', E'x', $$y$$", "select interval $1, $2, $3"),
            ("select array[1,2]", "select array[$1]"),
            ("select a from t where id in (1, 2)", "select a from t where id = any ($1)"),
            ("delete from t where id not in (1, 2)", "delete from t where id <> all ($1)"),
            ("set local app.tenant = '5'", "select set_config('app.tenant', $1, true)"),
            ("SET LOCAL jit TO off", "set local jit = $1"),
        ] {
            assert_eq!(identity(one), identity(other), "{one} | {other}");
        }
    }

    #[test]
    fn what_differs_in_words_is_not() {
        for (one, other) in [
            ("select a from t", "select b from t"),
            ("select \"A\" from t", "select a from t"),
            ("select x is null", "select x is true"),
            ("select f(1, 2, a)", "select f(1, a)"),
            ("select a - 5", "select a + 5"),
            ("set local jit = default", "set local jit = off"),
            ("set jit = off", "set local jit = off"),
            ("select a < any ($1)", "select a in ($1)"),
        ] {
            assert_ne!(identity(one), identity(other), "{one} | {other}");
        }
    }
}
