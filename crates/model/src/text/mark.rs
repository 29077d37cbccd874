//! The mark with which some editors begin a text in UTF-8, and which is no part of it.

/// The byte order mark, U+FEFF.
const MARK: char = '\u{feff}';

/// A text without the mark at its beginning. Positions in it are then those that an editor shows.
pub fn without_mark(text: &str) -> &str {
    text.strip_prefix(MARK).unwrap_or(text)
}

/// The same for a text that is owned.
pub fn unmarked(mut text: String) -> String {
    if text.starts_with(MARK) {
        text.drain(..MARK.len_utf8());
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_mark_at_the_beginning_is_no_part_of_a_text() {
        for (text, expected) in
            [("\u{feff}a", "a"), ("a\u{feff}", "a\u{feff}"), ("", ""), ("\u{feff}\u{feff}a", "\u{feff}a")]
        {
            assert_eq!((without_mark(text), unmarked(text.to_string()).as_str()), (expected, expected));
        }
    }
}
