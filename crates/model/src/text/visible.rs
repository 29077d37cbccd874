//! Makes text from others fit for display: characters that would control a terminal, reorder or hide the text around them, or be
//! invisible in it, are escaped.

use std::borrow::Cow;
use std::fmt::Write;

/// First and last of the characters that no terminal shows, or that change what it shows: general category Cf, or
/// Default_Ignorable_Code_Point (Unicode 16, DerivedGeneralCategory.txt and DerivedCoreProperties.txt), and the separators of
/// lines and paragraphs.
const INVISIBLE: [(char, char); 25] = [
    ('\u{ad}', '\u{ad}'),
    ('\u{34f}', '\u{34f}'),
    ('\u{600}', '\u{605}'),
    ('\u{61c}', '\u{61c}'),
    ('\u{6dd}', '\u{6dd}'),
    ('\u{70f}', '\u{70f}'),
    ('\u{890}', '\u{891}'),
    ('\u{8e2}', '\u{8e2}'),
    ('\u{115f}', '\u{1160}'),
    ('\u{17b4}', '\u{17b5}'),
    ('\u{180b}', '\u{180f}'),
    ('\u{200b}', '\u{200f}'),
    ('\u{2028}', '\u{202e}'),
    ('\u{2060}', '\u{206f}'),
    ('\u{3164}', '\u{3164}'),
    ('\u{fe00}', '\u{fe0f}'),
    ('\u{feff}', '\u{feff}'),
    ('\u{ffa0}', '\u{ffa0}'),
    ('\u{fff0}', '\u{fffb}'),
    ('\u{110bd}', '\u{110bd}'),
    ('\u{110cd}', '\u{110cd}'),
    ('\u{13430}', '\u{1343f}'),
    ('\u{1bca0}', '\u{1bca3}'),
    ('\u{1d173}', '\u{1d17a}'),
    ('\u{e0000}', '\u{e0fff}'),
];

/// Whether a character is invisible: a control character except line break and tab, or one of [`INVISIBLE`].
pub fn is_hidden(c: char) -> bool {
    if c.is_ascii() {
        return c.is_control() && !matches!(c, '\n' | '\t');
    }
    // The table is sorted.
    let at = INVISIBLE.partition_point(|(_, last)| *last < c);
    c.is_control() || INVISIBLE.get(at).is_some_and(|(first, _)| *first <= c)
}

/// Whether a character chooses between forms of the one before it.
fn is_selector(c: char) -> bool {
    matches!(c, '\u{fe00}'..='\u{fe0f}' | '\u{e0100}'..='\u{e01ef}')
}

/// Whether a character is invisible after this one: a single selector after a character that may have several forms is not.
pub fn is_hidden_after(before: char, c: char) -> bool {
    let has_forms = !before.is_ascii() && !before.is_whitespace() && !is_hidden(before);
    is_hidden(c) && !(is_selector(c) && has_forms)
}

/// The text with hidden characters in Rust's notation: `\u{1b}`, `\r`. Line breaks and tabs stay, and so does a single selector of
/// a form after a character that may have several.
pub fn visible(text: &str) -> Cow<'_, str> {
    if !text.contains(is_hidden) {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(text.len() + 16);
    let mut before = ' ';
    for c in text.chars() {
        if is_hidden_after(before, c) {
            write!(shown, "{}", c.escape_default()).expect("writing to a string succeeds")
        } else {
            shown.push(c)
        }
        before = c;
    }
    Cow::Owned(shown)
}

/// As [`visible`], on one line: what names a thing, such as a file, must not look like our lines.
pub fn on_one_line(text: &str) -> Cow<'_, str> {
    let shown = visible(text);
    if shown.contains(['\n', '\t']) {
        Cow::Owned(shown.replace('\n', "\\n").replace('\t', "\\t"))
    } else {
        shown
    }
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

    #[test]
    fn characters_that_nobody_sees_are_shown() {
        for c in [
            '\u{200b}',
            '\u{ad}',
            '\u{200c}',
            '\u{200d}',
            '\u{2060}',
            '\u{2062}',
            '\u{206a}',
            '\u{feff}',
            '\u{34f}',
            '\u{3164}',
            '\u{ffa0}',
            '\u{115f}',
            '\u{17b4}',
            '\u{180e}',
            '\u{180b}',
            '\u{fff9}',
            '\u{fff0}',
            '\u{1d173}',
            '\u{1bca0}',
            '\u{e0001}',
            '\u{e0020}',
            '\u{e007f}',
            '\u{e0fff}',
            '\u{fe0f}',
            '\u{fe00}',
            '\u{e0100}',
            '\u{600}',
            '\u{110bd}',
            '\u{13430}',
        ] {
            let escaped = c.escape_default().to_string();
            assert_eq!(visible(&format!("drop{c}table")), format!("drop{escaped}table"));
            assert_eq!(visible(&c.to_string()), escaped);
        }
        // A selector belongs to the one before it; a second one, or one after a space, hides something.
        assert_eq!(visible("⚠\u{fe0f} 葛\u{e0100}"), "⚠\u{fe0f} 葛\u{e0100}");
        assert_eq!(visible("⚠\u{fe0f}\u{fe01} \u{fe0f}"), "⚠\u{fe0f}\\u{fe01} \\u{fe0f}");
        let text = "é e\u{301} 東京 😀 ½ № \u{a0}…";
        assert_eq!(visible(text), text);
    }

    #[test]
    fn the_table_is_sorted() {
        assert!(INVISIBLE.iter().all(|(first, last)| first <= last));
        assert!(INVISIBLE.windows(2).all(|two| two[0].1 < two[1].0));
    }
}
