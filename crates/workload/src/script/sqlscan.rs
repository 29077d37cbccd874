//! Where one SQL statement of a script ends and the next begins, by psql's lexical rules.
//!
//! It only splits: semicolons inside quotes, dollar quotes, comments, parentheses and SQL function bodies
//! do not count; a backslash outside of quotes starts a command, but `\;` is a semicolon that does not split.

use std::collections::BTreeMap;
use std::ops::Range;

use crate::number;
use crate::script::variables::{is_name_byte, is_name_start};

/// The end of a piece of SQL.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SqlEnd {
    Semicolon,
    /// The position is just after the backslash.
    Backslash,
    EndOfScript,
}

/// SQL text up to a stop.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Chunk {
    /// The statement with its semicolon, without blanks and `--` comments in front; empty if there was none.
    pub(crate) text: String,
    /// Offset of the statement in the script.
    pub(crate) start: usize,
    pub(crate) stop: SqlEnd,
}

/// Splits a script.
pub(crate) struct SqlScanner<'a> {
    source: &'a str,
    /// Where scanning goes on; a caller that read a backslash command sets it.
    pub(crate) position: usize,
    paren_depth: usize,
    body: BodyTracker,
    /// Variables of psql that are replaced by their values.
    variables: BTreeMap<String, String>,
}

impl<'a> SqlScanner<'a> {
    pub(crate) fn new(source: &'a str) -> SqlScanner<'a> {
        SqlScanner {
            source,
            position: 0,
            paren_depth: 0,
            body: BodyTracker::default(),
            variables: BTreeMap::new(),
        }
    }

    /// From here on, replaces a variable by this value, or no longer.
    pub(crate) fn set(&mut self, name: String, value: Option<String>) {
        match value {
            Some(value) => self.variables.insert(name, value),
            None => self.variables.remove(&name),
        };
    }

    /// Reads up to the next stop.
    pub(crate) fn next_chunk(&mut self) -> Chunk {
        let mut chunk = Chunk { text: String::new(), start: self.position, stop: SqlEnd::EndOfScript };
        while self.position < self.source.len() {
            let rest = &self.source[self.position..];
            if rest.starts_with("\\;") || rest.starts_with("\\:") {
                if rest.starts_with("\\;") {
                    self.body.restart();
                }
                self.position += 1;
                self.keep(1, &mut chunk);
            } else if rest.starts_with('\\') {
                self.position += 1;
                chunk.stop = SqlEnd::Backslash;
                return chunk;
            } else if self.scan_token(rest, &mut chunk) {
                chunk.stop = SqlEnd::Semicolon;
                return chunk;
            }
        }
        chunk
    }

    /// Takes one token, and returns whether it ends the statement.
    fn scan_token(&mut self, rest: &str, chunk: &mut Chunk) -> bool {
        if let Some(len) = test_len(rest) {
            self.replace(len, "FALSE", chunk);
            return false;
        }
        if let Some((len, value)) = self.value(rest) {
            self.replace(len, &value, chunk);
            return false;
        }
        let first = rest.as_bytes()[0];
        let len = match first {
            b';' => {
                self.keep(1, chunk);
                let is_end = self.paren_depth == 0 && self.body.begin_depth == 0;
                if is_end {
                    self.body.restart();
                }
                return is_end;
            }
            b'(' => {
                self.paren_depth += 1;
                1
            }
            b')' => {
                self.paren_depth = self.paren_depth.saturating_sub(1);
                1
            }
            b'\'' => quoted_len(rest, b'\'', false),
            b'"' => quoted_len(rest, b'"', false),
            b'$' => dollar_len(rest),
            _ if rest.starts_with("/*") => block_comment_len(rest),
            _ if rest.starts_with("--") => {
                self.keep_if_started(line_comment_len(rest), chunk);
                return false;
            }
            _ if number::is_c_space(char::from(first)) => {
                self.keep_if_started(1, chunk);
                return false;
            }
            b':' => colon_len(rest),
            b'0'..=b'9' => number_len(rest),
            _ if is_name_start(first) => self.word_len(rest),
            _ => 1,
        };
        self.keep(len, chunk);
        false
    }

    /// The value of a variable that is set, and the length of its name with its colon and quotes: `:n`, `:'n'`, `:"n"`.
    fn value(&self, rest: &str) -> Option<(usize, String)> {
        if self.variables.is_empty() {
            return None;
        }
        let after = rest.strip_prefix(':')?;
        let quote = ["'", "\""].into_iter().find(|quote| after.starts_with(quote)).unwrap_or_default();
        let name = &after[quote.len()..];
        let name = &name[..name.bytes().take_while(|byte| is_name_byte(*byte)).count()];
        let value = self.variables.get(name)?;
        let is_closed = after[quote.len() + name.len()..].starts_with(quote);
        is_closed.then(|| (1 + name.len() + 2 * quote.len(), format!("{quote}{value}{quote}")))
    }

    /// An identifier, or the prefix of an escape string together with the string.
    fn word_len(&mut self, rest: &str) -> usize {
        let len = identifier_len(rest);
        if len == 1 && rest[1..].starts_with('\'') && rest.starts_with(['e', 'E']) {
            return 1 + escape_string_len(&rest[1..]);
        }
        self.body.word(&rest[..len], self.paren_depth);
        len
    }

    fn keep(&mut self, len: usize, chunk: &mut Chunk) {
        self.replace(len, &self.source[self.position..self.position + len], chunk);
    }

    /// Takes `len` bytes of the script as if they were `text`.
    fn replace(&mut self, len: usize, text: &str, chunk: &mut Chunk) {
        if chunk.text.is_empty() {
            chunk.start = self.position;
        }
        chunk.text.push_str(text);
        self.position += len;
    }

    fn keep_if_started(&mut self, len: usize, chunk: &mut Chunk) {
        if chunk.text.is_empty() {
            self.position += len;
        } else {
            self.keep(len, chunk);
        }
    }
}

/// Length of a quoted token whose quote is doubled to stand for itself.
fn quoted_len(rest: &str, quote: u8, has_escapes: bool) -> usize {
    let bytes = rest.as_bytes();
    let mut at = 1;
    while at < bytes.len() {
        if has_escapes && bytes[at] == b'\\' {
            // The byte after a backslash is never the first of several, or it cannot equal a quote.
            at += 2;
        } else if bytes[at] == quote {
            if bytes.get(at + 1) != Some(&quote) {
                return at + 1;
            }
            at += 2;
        } else {
            at += 1;
        }
    }
    rest.len()
}

/// Length of a string with backslash escapes. Its parts on further lines have no `E` of their own and keep its rules.
fn escape_string_len(rest: &str) -> usize {
    let mut len = quoted_len(rest, b'\'', true);
    while let Some(gap) = continuation_gap(&rest[len..]) {
        len += gap;
        len += quoted_len(&rest[len..], b'\'', true);
    }
    len
}

/// Length of the blanks and `--` comments between two parts of one string: a newline is among them, a quote follows.
fn continuation_gap(rest: &str) -> Option<usize> {
    let mut at = 0;
    let mut has_newline = false;
    loop {
        let here = &rest[at..];
        match here.chars().next()? {
            '\'' if has_newline => return Some(at),
            c if number::is_c_space(c) => {
                has_newline |= matches!(c, '\n' | '\r');
                at += 1;
            }
            _ if here.starts_with("--") => at += here.find(['\n', '\r'])?,
            _ => return None,
        }
    }
}

/// Length of a variable with its colon, of `::`, or of the lone colon. A variable's name begins no escape string.
fn colon_len(rest: &str) -> usize {
    if rest.starts_with("::") {
        return 2;
    }
    1 + rest[1..].bytes().take_while(|byte| is_name_byte(*byte)).count()
}

/// Length of `:{?name}`, which in psql says whether a variable is set. pgbench answers FALSE for all of them.
fn test_len(rest: &str) -> Option<usize> {
    let name = rest.strip_prefix(":{?")?;
    let len = name.bytes().take_while(|byte| is_name_byte(*byte)).count();
    (len > 0 && name[len..].starts_with('}')).then(|| ":{?}".len() + len)
}

/// Length of digits and of a word that follows without a blank, which is no prefix of a string. The sign of an exponent
/// is a part of the number, and so begins no comment.
fn number_len(rest: &str) -> usize {
    let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
    if let [b'e' | b'E', b'+' | b'-', ..] = rest.as_bytes()[digits..] {
        return digits + 2;
    }
    let is_glued = rest[digits..].bytes().next().is_some_and(is_name_start);
    digits + if is_glued { identifier_len(&rest[digits..]) } else { 0 }
}

fn identifier_len(rest: &str) -> usize {
    rest.bytes().take_while(|byte| is_name_byte(*byte) || *byte == b'$').count()
}

/// Length of `$tag$...$tag$`, or of the lone dollar.
fn dollar_len(rest: &str) -> usize {
    let Some(tag_len) = rest[1..].find('$') else { return 1 };
    let tag = &rest[1..=tag_len];
    let is_part = |byte: u8| is_name_start(byte) || byte.is_ascii_digit();
    if !tag.bytes().all(is_part) || tag.starts_with(|c: char| c.is_ascii_digit()) {
        return 1;
    }
    let delimiter = &rest[..tag_len + 2];
    let body = &rest[delimiter.len()..];
    body.find(delimiter).map_or(rest.len(), |end| delimiter.len() * 2 + end)
}

/// The first word of each statement of a text, in lower case; comments are passed over.
#[must_use]
pub fn first_words(sql: &str) -> Vec<String> {
    let first_word = |text: String| -> String {
        let word = without_comments(&text).chars().take_while(char::is_ascii_alphabetic);
        word.map(|letter| letter.to_ascii_lowercase()).collect()
    };
    statements(sql).into_iter().map(first_word).filter(|word| !word.is_empty()).collect()
}

/// The first words of one statement in lower case, after comments, at most `n`.
pub fn leading_words(sql: &str, n: usize) -> Vec<String> {
    let words = without_comments(sql).split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
    words.filter(|word| !word.is_empty()).take(n).map(str::to_ascii_lowercase).collect()
}

/// The statements of a text, without those that are empty.
#[must_use]
pub fn statements(sql: &str) -> Vec<String> {
    let mut scanner = SqlScanner::new(sql);
    let mut all = Vec::new();
    loop {
        let chunk = scanner.next_chunk();
        if !matches!(without_comments(&chunk.text), "" | ";") {
            all.push(chunk.text);
        }
        if chunk.stop == SqlEnd::EndOfScript {
            return all;
        }
    }
}

/// What a token of a statement is, as far as it matters for variables.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SqlToken {
    /// A string or a quoted name.
    Quoted,
    /// A name or a keyword.
    Word,
    /// `:name`.
    Variable,
    Other,
}

/// The tokens of a statement, in order and without gaps.
pub(crate) fn tokens(sql: &str) -> impl Iterator<Item = (SqlToken, Range<usize>)> + '_ {
    let mut at = 0;
    std::iter::from_fn(move || {
        let rest = sql.get(at..).filter(|rest| !rest.is_empty())?;
        let (len, token) = token_len(rest);
        let range = at..at + len;
        at += len;
        Some((token, range))
    })
}

/// Where a statement has strings and quoted names, in order.
pub(crate) fn quoted(sql: &str) -> Vec<Range<usize>> {
    let quoted = tokens(sql).filter(|(token, _)| *token == SqlToken::Quoted);
    quoted.map(|(_, range)| range).collect()
}

/// Length of a token, and what it is.
fn token_len(rest: &str) -> (usize, SqlToken) {
    let first = rest.as_bytes()[0];
    match first {
        b'\'' | b'"' => (quoted_len(rest, first, false), SqlToken::Quoted),
        b'$' => {
            let len = dollar_len(rest);
            (len, if len > 1 { SqlToken::Quoted } else { SqlToken::Other })
        }
        b':' => {
            let is_variable = rest.as_bytes().get(1).is_some_and(|byte| is_name_start(*byte));
            (colon_len(rest), if is_variable { SqlToken::Variable } else { SqlToken::Other })
        }
        b'0'..=b'9' => (number_len(rest), SqlToken::Other),
        _ if rest.starts_with("/*") => (block_comment_len(rest), SqlToken::Other),
        _ if rest.starts_with("--") => (line_comment_len(rest), SqlToken::Other),
        _ if is_name_start(first) => match rest.as_bytes() {
            [b'e' | b'E', b'\'', ..] => (1 + escape_string_len(&rest[1..]), SqlToken::Quoted),
            _ => (identifier_len(rest), SqlToken::Word),
        },
        _ => (1, SqlToken::Other),
    }
}

/// The text from its first word on.
fn without_comments(mut text: &str) -> &str {
    loop {
        text = text.trim_start();
        let len = match text {
            _ if text.starts_with("/*") => block_comment_len(text),
            _ if text.starts_with("--") => line_comment_len(text),
            _ => return text,
        };
        text = &text[len..];
    }
}

/// Length of a `--` comment without the end of its line.
fn line_comment_len(rest: &str) -> usize {
    rest.find(['\n', '\r']).unwrap_or(rest.len())
}

/// Length of a comment that may contain comments.
fn block_comment_len(rest: &str) -> usize {
    let bytes = rest.as_bytes();
    let mut depth = 0usize;
    let mut at = 0;
    while at + 1 < bytes.len() {
        match &bytes[at..at + 2] {
            b"/*" => depth += 1,
            b"*/" => depth -= 1,
            _ => {
                at += 1;
                continue;
            }
        }
        at += 2;
        if depth == 0 {
            return at;
        }
    }
    rest.len()
}

/// psql's heuristic for `CREATE [OR REPLACE] FUNCTION|PROCEDURE ... BEGIN ATOMIC ... END`: semicolons in there do not
/// end the statement.
#[derive(Default)]
struct BodyTracker {
    n_words: usize,
    /// First letters of the first four words, of those that matter.
    initials: [u8; 4],
    begin_depth: usize,
}

impl BodyTracker {
    fn restart(&mut self) {
        self.n_words = 0;
        self.initials = [0; 4];
    }

    fn word(&mut self, word: &str, paren_depth: usize) {
        let is = |keyword: &str| word.eq_ignore_ascii_case(keyword);
        if self.n_words < self.initials.len()
            && ["create", "function", "procedure", "or", "replace"].into_iter().any(is)
        {
            self.initials[self.n_words] = word.as_bytes()[0].to_ascii_lowercase();
        }
        self.n_words += 1;
        let creates_routine =
            matches!(self.initials, [b'c', b'f' | b'p', ..] | [b'c', b'o', b'r', b'f' | b'p']);
        if !creates_routine || paren_depth > 0 {
            return;
        }
        if is("begin") || (is("case") && self.begin_depth > 0) {
            self.begin_depth += 1;
        } else if is("end") {
            self.begin_depth = self.begin_depth.saturating_sub(1);
        }
    }
}
