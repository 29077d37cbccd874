//! Words of a POSIX shell.

/// A word in single quotes: inside them only the quote itself is special (POSIX, 2.2.2).
pub fn single_quoted(word: &str) -> String {
    format!("'{}'", word.replace('\'', "'\\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_inside_of_the_quotes_is_special() {
        for (word, expected) in [("a b", "'a b'"), ("", "''"), ("it's", "'it'\\''s'"), ("$(id)", "'$(id)'")] {
            assert_eq!(single_quoted(word), expected);
        }
    }
}
