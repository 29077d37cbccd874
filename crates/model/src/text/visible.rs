//! Makes text from others fit for display: characters that would control a terminal, or reorder or hide the text around
//! them, are escaped.

use std::borrow::Cow;
use std::fmt::Write;

/// Whether a character is invisible: control characters except line break and tab, characters that reorder text
/// (Unicode TR 9), and the separators of lines and paragraphs.
pub fn is_hidden(c: char) -> bool {
    let is_bidi =
        matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    let is_separator = matches!(c, '\u{2028}' | '\u{2029}');
    (c.is_control() && !matches!(c, '\n' | '\t')) || is_bidi || is_separator
}

/// The text with hidden characters in Rust's notation: `\u{1b}`, `\r`. Line breaks and tabs stay.
pub fn visible(text: &str) -> Cow<'_, str> {
    if !text.contains(is_hidden) {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        match is_hidden(c) {
            true => write!(shown, "{}", c.escape_default()).expect("writing to a string succeeds"),
            false => shown.push(c),
        }
    }
    Cow::Owned(shown)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_and_direction_characters_are_shown() {
        for (text, expected) in [
            ("plain, größer, 東京\n\ttoo", "plain, größer, 東京\n\ttoo"),
            ("\u{1b}[2J\u{7}\rover", "\\u{1b}[2J\\u{7}\\rover"),
            ("\u{9b}31m\u{7f}", "\\u{9b}31m\\u{7f}"),
            ("a\u{202e}b\u{2066}c\u{61c}d\u{200f}e", "a\\u{202e}b\\u{2066}c\\u{61c}d\\u{200f}e"),
            ("one\u{2028}two", "one\\u{2028}two"),
        ] {
            assert_eq!(visible(text), expected);
        }
    }
}
