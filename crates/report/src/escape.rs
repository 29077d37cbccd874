//! Escapes text for HTML and JSON for a script element, so that nothing in a label can become markup.

use std::io;

use model::text::visible::{is_hidden, is_hidden_after};
use serde::Serialize;
use serde_json::ser::{CompactFormatter, Formatter, Serializer};

/// Text for an element or a double-quoted attribute. Control characters and those that change the direction of text
/// become replacement characters.
pub(crate) fn escape_html(raw: &str) -> String {
    let mut safe = String::with_capacity(raw.len() + 8);
    let mut before = ' ';
    for c in raw.chars() {
        match c {
            '&' => safe.push_str("&amp;"),
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '"' => safe.push_str("&quot;"),
            '\'' => safe.push_str("&#39;"),
            '\n' | '\t' => safe.push(c),
            '\r' => {}
            c if is_hidden_after(before, c) => safe.push('\u{fffd}'),
            c => safe.push(c),
        }
        before = c;
    }
    safe
}

/// Our text for an element, in which what stands between backticks is code.
pub(crate) fn escape_prose(raw: &str) -> String {
    let safe = escape_html(raw);
    let (prose, last) = match safe.matches('`').count() % 2 {
        0 => (safe.as_str(), ""),
        _ => safe.rsplit_once('`').map_or((safe.as_str(), ""), |(prose, _)| (prose, &safe[prose.len()..])),
    };
    let part = |(n, part): (usize, &str)| match n % 2 {
        0 => part.to_string(),
        _ => format!("<code>{part}</code>"),
    };
    prose.split('`').enumerate().map(part).collect::<String>() + last
}

/// Writes whole numbers without a fraction: `239` for `239.0`, of which a page has tens of thousands.
struct Short;

impl Formatter for Short {
    fn write_f64<W: ?Sized + io::Write>(&mut self, writer: &mut W, value: f64) -> io::Result<()> {
        /// Up to here every whole number has a representation of its own.
        const WHOLE_MAX: f64 = 9e15;
        if value.fract() == 0.0 && value.abs() < WHOLE_MAX {
            write!(writer, "{}", value as i64)
        } else {
            CompactFormatter.write_f64(writer, value)
        }
    }
}

/// A value for `<script type="application/json">`: without `<` it cannot contain an end tag or a comment. Invisible
/// characters are escaped, so that the page's source shows them.
pub(crate) fn json(value: &impl Serialize) -> String {
    let mut bytes = Vec::new();
    let written = value.serialize(&mut Serializer::with_formatter(&mut bytes, Short));
    written.expect("the page's data has text keys and plain values");
    let json = String::from_utf8(bytes).expect("JSON is text");
    let mut safe = String::with_capacity(json.len());
    for c in json.chars() {
        match c {
            // Beyond four digits, JSON has two halves.
            c if c == '<' || is_hidden(c) => {
                for unit in c.encode_utf16(&mut [0; 2]) {
                    safe.push_str(&format!("\\u{unit:04x}"));
                }
            }
            c => safe.push(c),
        }
    }
    safe
}

/// Keeps numbers with their units: the spaces of `p99 3.40 ms` become no-break spaces.
pub(crate) fn unbroken(raw: &str) -> String {
    escape_html(raw).replace(' ', "\u{a0}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn markup_in_text_stays_text() {
        for (raw, expected) in [
            ("<script>alert(1)</script>", "&lt;script&gt;alert(1)&lt;/script&gt;"),
            ("a\" onload='x'", "a&quot; onload=&#39;x&#39;"),
            ("a&b", "a&amp;b"),
            ("zero\0 and \u{202e}back", "zero\u{fffd} and \u{fffd}back"),
            ("no\u{200b}thing \u{26a0}\u{fe0f}", "no\u{fffd}thing \u{26a0}\u{fe0f}"),
        ] {
            assert_eq!(escape_html(raw), expected);
        }
    }

    #[test]
    fn what_stands_between_backticks_is_code() {
        for (raw, expected) in [
            ("no code", "no code"),
            ("by `cc1` and `<b>`", "by <code>cc1</code> and <code>&lt;b&gt;</code>"),
            ("`a` and one ` more", "<code>a</code> and one ` more"),
            ("one `", "one `"),
        ] {
            assert_eq!(escape_prose(raw), expected);
        }
    }

    #[test]
    fn data_cannot_end_its_element() {
        let hostile = "</script><script>alert(1)</script><!--\u{202e}\u{7f}\u{1b}\u{e0041}";
        let safe = json(&hostile);
        assert!(!safe.contains(['<', '\u{202e}', '\u{7f}', '\u{1b}', '\u{e0041}']), "{safe}");
        assert_eq!(serde_json::from_str::<String>(&safe).unwrap(), hostile);
    }
}
