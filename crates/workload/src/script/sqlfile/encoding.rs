//! The encoding that a file of SQL says it has: files are read as UTF-8, and the server would read the same bytes as another one.

use crate::script::sqlfile::tokens::{DumpTokenKind, begins, with_texts};
use crate::script::sqlscan::leading_words;

/// Encodings under whose names the server takes UTF-8 as it is.
const AS_THEY_ARE: [&str; 3] = ["utf8", "unicode", "sqlascii"];

/// The encoding that a statement sets for what follows, if it is not UTF-8.
pub(super) fn other_encoding(statement: &str) -> Option<String> {
    if leading_words(statement, 1) != ["set"] {
        return None;
    }
    let mut tokens = with_texts(statement);
    tokens.retain(|token| !token.is("session") && !token.is("local"));
    let value = if begins(&tokens, &["set", "names"]) {
        tokens.get(2)
    } else if begins(&tokens, &["set", "client_encoding"]) {
        tokens.get(3)
    } else {
        None
    };
    let value = value.filter(|token| token.kind != DumpTokenKind::Sign && !token.is("default"))?;
    let plain = value.text.to_ascii_lowercase().replace(['-', '_'], "");
    (!AS_THEY_ARE.contains(&&*plain)).then(|| value.text.clone())
}

/// The encoding that the beginning of a file that is not UTF-8 says it has.
pub fn named_encoding(bytes: &[u8]) -> Option<String> {
    let head = String::from_utf8_lossy(&bytes[..bytes.len().min(HEAD_BYTES)]);
    let is_one = |line: &&str| line.to_ascii_lowercase().contains("client_encoding");
    head.lines().filter(is_one).find_map(other_encoding)
}

/// `pg_dump` names the encoding in its first lines.
const HEAD_BYTES: usize = 64 * 1024;

/// What is wrong with a text in UTF-8 that says it has another encoding.
pub(super) fn refusal(encoding: &str) -> String {
    format!(
        "the file is UTF-8 with other letters than ASCII's, which the server would read as {encoding} from here on; write UTF8 instead \
         if the text was converted"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_encoding_that_is_not_utf8_is_found() {
        let check = |statement: &str, expected: Option<&str>| {
            assert_eq!(other_encoding(statement).as_deref(), expected, "{statement}");
        };
        check("SET client_encoding = 'LATIN1';", Some("LATIN1"));
        check("-- x\nset session client_encoding to win1252;", Some("win1252"));
        check("SET NAMES 'EUC_JP';", Some("EUC_JP"));
        check("SET client_encoding = 'UTF8';", None);
        check("set client_encoding = 'utf-8'; ", None);
        check("SET client_encoding = 'SQL_ASCII';", None);
        check("set client_encoding to default;", None);
        check("select 'set client_encoding = latin1';", None);
        assert_eq!(named_encoding(b"--\n\nSET client_encoding = 'LATIN1';\n\xe4").as_deref(), Some("LATIN1"));
        assert_eq!(named_encoding(b"select '\xe4'"), None);
    }
}
