//! Quotes names and values for SQL text.

/// `text` as an identifier: always quoted, so that keywords and capitals are safe.
pub fn quote_ident(text: &str) -> String {
    format!("\"{}\"", text.replace('"', "\"\""))
}

/// `text` as a string literal. A backslash makes it an `E''` literal, which means the same whatever
/// `standard_conforming_strings` says.
pub fn quote_literal(text: &str) -> String {
    let doubled = text.replace('\'', "''");
    if doubled.contains('\\') {
        format!(" E'{}'", doubled.replace('\\', r"\\"))
    } else {
        format!("'{doubled}'")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quotes_are_doubled() {
        assert_eq!(quote_ident("x"), "\"x\"");
        assert_eq!(quote_ident("x\"; drop"), "\"x\"\"; drop\"");
        assert_eq!(quote_literal("it's"), "'it''s'");
        assert_eq!(quote_literal(r"a\'b"), r" E'a\\''b'");
    }
}
