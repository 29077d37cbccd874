//! Objects in a text: one per line, pretty-printed over lines, or elements of an array.

use crate::log::LINE_BYTES_MAX;
use crate::log::reading::SkipReason;

/// Keys of arrays that contain an export's records.
const ARRAYS: [&[u8]; 2] = [b"\"events\"", b"\"records\""];

/// The result of a line.
pub(super) enum Fed<'a> {
    /// It completes an object.
    Object(&'a [u8]),
    /// It is a part of an object or of what encloses them.
    Part,
    /// It is nothing.
    Skipped(SkipReason),
}

/// An object that is being put together.
#[derive(Debug, Default)]
pub(super) struct Objects {
    open: Vec<u8>,
    depth: u32,
    is_complete: bool,
    is_torn: bool,
}

impl Objects {
    /// Takes the next line.
    pub(super) fn feed<'a>(&'a mut self, line: &'a [u8]) -> Fed<'a> {
        if self.is_complete {
            self.clear();
        }
        let is_whole = line.starts_with(b"{\"") && trimmed(line).ends_with(b"}");
        if self.depth > 0 && is_whole && balance(line) == 0 {
            // The line before ended in the middle.
            self.clear();
            self.is_torn = true;
        }
        let text = trimmed(line);
        if self.depth > 0 {
            if self.open == b"{\n" && opens_array(text) {
                self.clear();
                return Fed::Part;
            }
            return self.extend(line.trim_ascii());
        }
        if text.starts_with(b"{") {
            if text.ends_with(b"}") && (is_whole || balance(text) == 0) {
                return Fed::Object(text);
            }
            return self.extend(text);
        }
        match text {
            [] => Fed::Skipped(SkipReason::Empty),
            [b'[' | b']' | b'}', ..] => Fed::Part,
            _ => Fed::Skipped(SkipReason::NoRecord),
        }
    }

    fn extend(&mut self, text: &[u8]) -> Fed<'_> {
        if self.open.len() + text.len() > LINE_BYTES_MAX {
            self.clear();
            return Fed::Skipped(SkipReason::TooLong);
        }
        self.open.extend_from_slice(text);
        self.open.push(b'\n');
        let depth = i64::from(self.depth) + balance(text);
        self.depth = u32::try_from(depth).unwrap_or(0);
        if self.depth > 0 {
            return Fed::Part;
        }
        self.is_complete = true;
        Fed::Object(trimmed(&self.open))
    }

    fn clear(&mut self) {
        self.open.clear();
        self.depth = 0;
        self.is_complete = false;
    }

    /// Whether an object was given up since the last call.
    pub(super) fn take_torn(&mut self) -> bool {
        std::mem::take(&mut self.is_torn)
    }

    /// Whether an object lacks its end.
    pub(super) fn is_open(&self) -> bool {
        self.depth > 0
    }
}

/// Without blanks around, and without the comma after an element.
fn trimmed(line: &[u8]) -> &[u8] {
    let line = line.trim_ascii();
    line.strip_suffix(b",").unwrap_or(line).trim_ascii_end()
}

fn opens_array(text: &[u8]) -> bool {
    text.ends_with(b"[") && ARRAYS.iter().any(|key| text.starts_with(key))
}

/// Braces that open minus those that close, outside of strings.
fn balance(text: &[u8]) -> i64 {
    let (mut balance, mut rest) = (0, text);
    while let Some(at) = memchr::memchr3(b'"', b'{', b'}', rest) {
        let found = rest[at];
        rest = &rest[at + 1..];
        match found {
            b'{' => balance += 1,
            b'}' => balance -= 1,
            _ => rest = after_string(rest),
        }
    }
    balance
}

/// The rest after the end of a string.
fn after_string(mut rest: &[u8]) -> &[u8] {
    while let Some(at) = memchr::memchr2(b'"', b'\\', rest) {
        if rest[at] == b'"' {
            return &rest[at + 1..];
        }
        rest = rest.get(at + 2..).unwrap_or_default();
    }
    b""
}

#[cfg(test)]
mod tests {
    use super::*;

    fn objects(text: &str) -> (Vec<String>, usize) {
        let mut objects = Objects::default();
        let (mut found, mut skipped) = (Vec::new(), 0);
        for line in text.lines() {
            match objects.feed(line.as_bytes()) {
                Fed::Object(object) => found.push(String::from_utf8_lossy(object).replace('\n', "")),
                Fed::Part => {}
                Fed::Skipped(_) => skipped += 1,
            }
            skipped += usize::from(objects.take_torn());
        }
        (found, skipped + usize::from(objects.is_open()))
    }

    #[test]
    fn objects_are_found_in_all_layouts() {
        let check = |text: &str, expected: &[&str], n_skipped: usize| {
            let expected = expected.iter().map(|object| (*object).to_string()).collect();
            assert_eq!(objects(text), (expected, n_skipped), "{text}");
        };
        check("{\"a\":1}\n{\"a\":{}}\n", &["{\"a\":1}", "{\"a\":{}}"], 0);
        check("[\n{\"a\":1},\n{\"a\":2}\n]", &["{\"a\":1}", "{\"a\":2}"], 0);
        check(
            "[\n  {\n    \"a\": \"}{\\\"\"\n  },\n  {\n \"b\": {}\n}\n]",
            &["{\"a\": \"}{\\\"\"}", "{\"b\": {}}"],
            0,
        );
        check("{\n  \"events\": [\n    {\n      \"a\": 1\n    }\n  ],\n  \"next\": 1\n}", &["{\"a\": 1}"], 1);
        check("{\"a\":\"torn\n{\"a\":1}\njunk\n", &["{\"a\":1}"], 2);
        check("{\"a\":1}\n{\"a\":", &["{\"a\":1}"], 1);
    }
}
