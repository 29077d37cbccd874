//! Where a part of an expression stands in `workload.toml`: expressions know only their own text.

use std::ops::Range;

use crate::directory::MANIFEST;
use crate::expression::{Expression, ExpressionError, parse};
use crate::problem::Problem;

/// The texts of the expressions that were parsed, by their numbers.
pub(super) struct Places<'a> {
    pub(super) manifest: &'a str,
    /// Where the value stands in the file, and at which of its bytes the expression begins.
    origins: Vec<(Range<usize>, usize)>,
}

impl<'a> Places<'a> {
    pub(super) fn new(manifest: &'a str) -> Places<'a> {
        Places { manifest, origins: Vec::new() }
    }

    /// Parses an expression that begins with byte `from` of the value at `at`.
    pub(super) fn parse(
        &mut self,
        text: &str,
        at: &Range<usize>,
        from: usize,
    ) -> Result<Expression, Problem> {
        self.origins.push((at.clone(), from));
        parse(text, self.origins.len() - 1).map_err(|error| self.problem(&error))
    }

    /// The problem with its place in the file.
    pub(super) fn problem(&self, error: &ExpressionError) -> Problem {
        let Some((at, from)) = self.origins.get(error.origin) else {
            return Problem::whole(MANIFEST, error.message.clone());
        };
        let raw = &self.manifest[at.clone()];
        let offset = |of_value: usize| at.start + raw_offset(raw, from + of_value);
        let range = offset(error.at)..offset(error.at + error.width);
        Problem::at(MANIFEST, self.manifest, range, error.message.clone())
    }
}

/// The offset in a value as it is written, with its quotes and escapes, of an offset in the text that it means.
fn raw_offset(raw: &str, wanted: usize) -> usize {
    let quotes = ["\"\"\"", "'''", "\"", "'"].into_iter().find(|quotes| raw.starts_with(quotes));
    let mut at = quotes.map_or(0, str::len);
    if at == 3 {
        // A line feed directly after the quotes is no part of the text.
        let first = &raw[at..];
        at += if first.starts_with("\r\n") { 2 } else { usize::from(first.starts_with('\n')) };
    }
    let has_escapes = raw.starts_with('"');
    let mut meant = 0;
    while meant < wanted {
        let rest = &raw[at..];
        let Some(first) = rest.chars().next() else { break };
        if has_escapes && first == '\\' {
            let (len, n_meant) = escape(rest);
            at += len;
            meant += n_meant;
        } else {
            at += first.len_utf8();
            meant += first.len_utf8();
        }
    }
    at
}

/// Length of an escape as it is written, and of what it means.
fn escape(rest: &str) -> (usize, usize) {
    let digits = match rest.as_bytes().get(1) {
        Some(b'x') => 2,
        Some(b'u') => 4,
        Some(b'U') => 8,
        Some(b' ' | b'\t' | b'\r' | b'\n') => {
            // The end of a line and the blanks of the next are left out.
            return (1 + rest[1..].len() - rest[1..].trim_start().len(), 0);
        }
        Some(_) => return (2, 1),
        None => return (1, 1),
    };
    let code = rest.get(2..2 + digits).and_then(|hex| u32::from_str_radix(hex, 16).ok());
    let meant = code.and_then(char::from_u32).map_or(1, char::len_utf8);
    ((2 + digits).min(rest.len()), meant)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn offsets_of_texts_are_offsets_in_the_file() {
        let check = |raw: &str, wanted: usize, expected: &str| {
            assert_eq!(&raw[raw_offset(raw, wanted)..], expected, "{raw} {wanted}");
        };
        check("\"row + x\"", 6, "x\"");
        check("'row + x'", 6, "x'");
        check("plain", 2, "ain");
        check("\"\"\"\nrow + x\"\"\"", 6, "x\"\"\"");
        check("'''row'''", 0, "row'''");
        check(r#""a\tb\u00e4c""#, 5, "c\"");
        check("\"\"\"a\\\n   b\"\"\"", 1, "\\\n   b\"\"\"");
        check("\"\"\"a\\\n   b\"\"\"", 2, "\"\"\"");
        check("\"ab\"", 100, "");
        check(r#""\"#, 5, "");
    }
}
