//! Tokens of PostgreSQL's SQL, by the rules of its scanner (src/backend/parser/scan.l). It never fails: what is not closed ends with
//! the text.

/// A token and the bytes of the text that it has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LexedToken {
    /// The kind.
    pub kind: TokenKind,
    /// First byte.
    pub start: usize,
    /// Byte after the last one.
    pub end: usize,
}

impl LexedToken {
    /// The token as it stands in its text.
    pub fn text(self, of: &str) -> &str {
        &of[self.start..self.end]
    }
}

/// The kind of a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TokenKind {
    /// A keyword or a name without quotes.
    Word,
    /// A name in double quotes, also `U&"..."`.
    QuotedName,
    /// A literal in quotes: `'...'`, `E'...'`, `U&'...'`, `N'...'`, `$tag$...$tag$`.
    Text,
    /// `B'...'` or `X'...'`.
    Bits,
    /// A number; a minus belongs to it where nothing stands before that it could be taken from.
    Number,
    /// `$1`.
    Parameter(u16),
    /// An operator, `::` and `:=` included.
    Operator,
    /// One of `( ) [ ] , . :`.
    Mark(u8),
    /// `;`.
    Semicolon,
}

/// What a backslash in `'...'` is: `standard_conforming_strings`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Backslash {
    /// A character, the default since 9.1.
    #[default]
    Plain,
    /// The beginning of an escape.
    Escape,
}

/// Characters of operators.
const OPERATORS: &[u8] = b"+-*/<>=~!@#%^&|`?";
/// Operators with one of these may end in `+` or `-`.
const LONG_OPERATORS: &[u8] = b"~!@#%^&|`?";
/// Words after which an expression begins, so that a minus is a sign.
const BEFORE_EXPRESSIONS: [&str; 44] = [
    "all",
    "and",
    "any",
    "as",
    "between",
    "by",
    "case",
    "default",
    "distinct",
    "do",
    "else",
    "escape",
    "except",
    "filter",
    "first",
    "for",
    "from",
    "having",
    "ilike",
    "in",
    "intersect",
    "is",
    "like",
    "limit",
    "next",
    "not",
    "offset",
    "on",
    "or",
    "return",
    "returning",
    "select",
    "set",
    "similar",
    "some",
    "symmetric",
    "then",
    "to",
    "union",
    "using",
    "values",
    "when",
    "where",
    "with",
];

/// Whether an expression follows this word, in small letters.
pub(crate) fn precedes_expression(word: &str) -> bool {
    BEFORE_EXPRESSIONS.contains(&word)
}

/// All tokens of a text, without blanks and comments.
pub fn tokens(text: &str, backslash: Backslash) -> Vec<LexedToken> {
    let mut found = Vec::with_capacity(text.len() / 4);
    found.extend(lexed(text, backslash));
    found
}

/// The same one by one, for texts of any length.
pub(crate) fn lexed(text: &str, backslash: Backslash) -> impl Iterator<Item = LexedToken> {
    let bytes = text.as_bytes();
    let mut at = 0;
    let mut last: Option<LexedToken> = None;
    std::iter::from_fn(move || {
        loop {
            match blank_len(bytes.get(at..)?) {
                0 => break,
                blank => at += blank,
            }
        }
        let is_sign = *bytes.get(at)? == b'-'
            && bytes.get(at + 1).is_some_and(|next| next.is_ascii_digit() || *next == b'.')
            && last.is_none_or(|last| leaves_sign(last, text));
        let (kind, len) = if is_sign {
            let (_, len) = number(&bytes[at + 1..]);
            if len == 0 { (TokenKind::Operator, 1) } else { (TokenKind::Number, 1 + len) }
        } else {
            token(&text[at..], backslash)
        };
        let found = LexedToken { kind, start: at, end: at + len.max(1) };
        at = found.end;
        last = Some(found);
        last
    })
}

/// Whether a minus after this token is the sign of a number.
fn leaves_sign(last: LexedToken, text: &str) -> bool {
    match last.kind {
        TokenKind::Operator => !last.text(text).starts_with("::"),
        TokenKind::Mark(mark) => matches!(mark, b'(' | b'[' | b',' | b':'),
        TokenKind::Semicolon => true,
        TokenKind::Word => precedes_expression(&last.text(text).to_ascii_lowercase()),
        TokenKind::QuotedName
        | TokenKind::Text
        | TokenKind::Bits
        | TokenKind::Number
        | TokenKind::Parameter(_) => false,
    }
}

/// Length of the blanks or of the comment at the beginning.
fn blank_len(bytes: &[u8]) -> usize {
    match bytes {
        [b' ' | b'\t' | b'\n' | b'\r' | 0x0b | 0x0c, ..] => 1,
        [b'-', b'-', ..] => {
            bytes.iter().position(|byte| matches!(byte, b'\n' | b'\r')).unwrap_or(bytes.len())
        }
        [b'/', b'*', ..] => comment_len(bytes),
        _ => 0,
    }
}

/// Length of a comment, in which others may be nested.
fn comment_len(bytes: &[u8]) -> usize {
    let (mut at, mut depth) = (0, 0usize);
    while at < bytes.len() {
        match &bytes[at..] {
            [b'/', b'*', ..] => {
                depth += 1;
                at += 2;
            }
            [b'*', b'/', ..] => {
                depth -= 1;
                at += 2;
                if depth == 0 {
                    return at;
                }
            }
            _ => at += 1,
        }
    }
    bytes.len()
}

/// The token at the beginning of a text, which is neither empty nor blank there.
fn token(text: &str, backslash: Backslash) -> (TokenKind, usize) {
    let bytes = text.as_bytes();
    let quoted = match backslash {
        Backslash::Plain => quoted_len,
        Backslash::Escape => escaped_len,
    };
    match bytes {
        [b'\'', ..] => (TokenKind::Text, continued(bytes, quoted(bytes), quoted)),
        [b'e' | b'E', b'\'', ..] => {
            (TokenKind::Text, continued(bytes, 1 + escaped_len(&bytes[1..]), escaped_len))
        }
        [b'n' | b'N', b'\'', ..] => (TokenKind::Text, continued(bytes, 1 + quoted(&bytes[1..]), quoted)),
        [b'b' | b'B' | b'x' | b'X', b'\'', ..] => (TokenKind::Bits, 1 + quoted_len(&bytes[1..])),
        [b'u' | b'U', b'&', b'\'', ..] => {
            (TokenKind::Text, continued(bytes, 2 + quoted_len(&bytes[2..]), quoted_len))
        }
        [b'u' | b'U', b'&', b'"', ..] => (TokenKind::QuotedName, 2 + quoted_len(&bytes[2..])),
        [b'"', ..] => (TokenKind::QuotedName, quoted_len(bytes)),
        [b'$', digit, ..] if digit.is_ascii_digit() => {
            let len = 1 + bytes[1..].iter().take_while(|byte| byte.is_ascii_digit()).count();
            let number = text[1..len].parse().unwrap_or(u16::MAX);
            (TokenKind::Parameter(number), len)
        }
        [b'$', ..] => dollar_len(text).map_or((TokenKind::Operator, 1), |len| (TokenKind::Text, len)),
        [b';', ..] => (TokenKind::Semicolon, 1),
        [b':', b':' | b'=', ..] => (TokenKind::Operator, 2),
        [b'.', digit, ..] if digit.is_ascii_digit() => number(bytes),
        [mark @ (b'(' | b')' | b'[' | b']' | b',' | b':'), ..] => (TokenKind::Mark(*mark), 1),
        [b'.', b'.', ..] => (TokenKind::Operator, 2),
        [b'.', ..] => (TokenKind::Mark(b'.'), 1),
        [digit, ..] if digit.is_ascii_digit() => number(bytes),
        [first, ..] if is_name_start(*first) => {
            (TokenKind::Word, bytes.iter().take_while(|byte| is_name_part(**byte)).count())
        }
        [first, ..] if OPERATORS.contains(first) => (TokenKind::Operator, operator_len(bytes)),
        _ => (TokenKind::Operator, text.chars().next().map_or(1, char::len_utf8)),
    }
}

fn is_name_start(byte: u8) -> bool {
    byte.is_ascii_alphabetic() || byte == b'_' || byte >= 0x80
}

fn is_name_part(byte: u8) -> bool {
    is_name_start(byte) || byte.is_ascii_digit() || byte == b'$'
}

/// Length of a text in the quotes that it begins with; a doubled one is a character of it.
fn quoted_len(bytes: &[u8]) -> usize {
    let quote = bytes[0];
    let mut at = 1;
    while at < bytes.len() {
        if bytes[at] == quote {
            if bytes.get(at + 1) != Some(&quote) {
                return at + 1;
            }
            at += 1;
        }
        at += 1;
    }
    bytes.len()
}

/// The same, with escapes by backslashes.
fn escaped_len(bytes: &[u8]) -> usize {
    let mut at = 1;
    while at < bytes.len() {
        match bytes[at] {
            b'\\' => at += 1,
            b'\'' if bytes.get(at + 1) == Some(&b'\'') => at += 1,
            b'\'' => return at + 1,
            _ => {}
        }
        at += 1;
    }
    bytes.len()
}

/// Length of a literal that goes on after a line break: `'a'`, newline, `'b'`.
fn continued(bytes: &[u8], mut len: usize, quoted: fn(&[u8]) -> usize) -> usize {
    loop {
        let rest = &bytes[len.min(bytes.len())..];
        let n_blank = rest.iter().take_while(|byte| byte.is_ascii_whitespace()).count();
        let has_newline = rest[..n_blank].iter().any(|byte| matches!(byte, b'\n' | b'\r'));
        if !has_newline || rest.get(n_blank) != Some(&b'\'') {
            return len.min(bytes.len());
        }
        len += n_blank + quoted(&rest[n_blank..]);
    }
}

/// Length of `$tag$...$tag$`; `None` if it is none.
fn dollar_len(text: &str) -> Option<usize> {
    let tag_len = text[1..].find(|c: char| !(c.is_alphanumeric() || c == '_'))?;
    if text.as_bytes()[1 + tag_len] != b'$' {
        return None;
    }
    let (quote, rest) = text.split_at(tag_len + 2);
    Some(rest.find(quote).map_or(text.len(), |at| 2 * quote.len() + at))
}

/// A number: decimal, with a point, an exponent, underscores between digits; hexadecimal, octal, binary.
fn number(bytes: &[u8]) -> (TokenKind, usize) {
    if let [b'0', b'x' | b'X' | b'o' | b'O' | b'b' | b'B', next, ..] = bytes
        && (next.is_ascii_hexdigit() || *next == b'_')
    {
        let len = bytes[2..].iter().take_while(|byte| byte.is_ascii_hexdigit() || **byte == b'_').count();
        return (TokenKind::Number, 2 + len);
    }
    let digits =
        |from: usize| bytes[from..].iter().take_while(|byte| byte.is_ascii_digit() || **byte == b'_').count();
    let mut len = digits(0);
    // `1..10` is two numbers and an operator of PL/pgSQL.
    if bytes.get(len) == Some(&b'.') && bytes.get(len + 1) != Some(&b'.') {
        len += 1 + digits(len + 1);
    }
    if let Some(b'e' | b'E') = bytes.get(len) {
        let sign = usize::from(matches!(bytes.get(len + 1), Some(b'+' | b'-')));
        let exponent = bytes.get(len + 1 + sign..).map_or(0, |_| digits(len + 1 + sign));
        if exponent > 0 {
            len += 1 + sign + exponent;
        }
    }
    if bytes[..len].iter().any(u8::is_ascii_digit) {
        (TokenKind::Number, len)
    } else {
        (TokenKind::Operator, 0)
    }
}

/// Length of an operator, which ends before a comment, and not with a sign unless it has a character that no operator of the
/// standard has.
fn operator_len(bytes: &[u8]) -> usize {
    let mut len = bytes.iter().take_while(|byte| OPERATORS.contains(byte)).count();
    let comment = bytes[..len].windows(2).position(|pair| pair == b"--" || pair == b"/*");
    len = comment.unwrap_or(len).max(1);
    let is_long = bytes[..len].iter().any(|byte| LONG_OPERATORS.contains(byte));
    while len > 1 && !is_long && matches!(bytes[len - 1], b'+' | b'-') {
        len -= 1;
    }
    len
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expected: &[&str]) {
        let found: Vec<&str> = tokens(text, Backslash::Plain).iter().map(|token| token.text(text)).collect();
        assert_eq!(found, expected, "{text}");
    }

    fn kinds(text: &str) -> Vec<TokenKind> {
        tokens(text, Backslash::Plain).iter().map(|token| token.kind).collect()
    }

    #[test]
    fn literals_are_one_token_each() {
        check(
            "select 'it''s', E'a\\'b', U&'\\0061', N'x', B'01', X'1F'",
            &[
                "select",
                "'it''s'",
                ",",
                "E'a\\'b'",
                ",",
                "U&'\\0061'",
                ",",
                "N'x'",
                ",",
                "B'01'",
                ",",
                "X'1F'",
            ],
        );
        check("$$a;b$$ $t$ $$ $t$ $1", &["$$a;b$$", "$t$ $$ $t$", "$1"]);
        check("'a'\n  'b' 'c'", &["'a'\n  'b'", "'c'"]);
        check("'c:\\' || 'd'", &["'c:\\'", "||", "'d'"]);
        check("U&\"n\" \"a\"\"b\"", &["U&\"n\"", "\"a\"\"b\""]);
        let escaped: Vec<LexedToken> = tokens("'c:\\' || 'd'", Backslash::Escape);
        assert_eq!(escaped.len(), 3, "the quote is escaped: {escaped:?}");
    }

    #[test]
    fn comments_are_nothing() {
        check("a /* b /* c */ d */ e -- f\ng", &["a", "e", "g"]);
        check("a--b", &["a"]);
        check("a /* never closed", &["a"]);
    }

    #[test]
    fn numbers_have_all_their_forms() {
        check(
            "1 1.5 .5 1. 1e10 1.5E-3 0x1F 0b01 0o17 1_000 1..2",
            &["1", "1.5", ".5", "1.", "1e10", "1.5E-3", "0x1F", "0b01", "0o17", "1_000", "1", "..", "2"],
        );
        check("1e 5", &["1", "e", "5"]);
    }

    #[test]
    fn a_minus_is_a_sign_where_nothing_stands_before() {
        check("a + -5", &["a", "+", "-5"]);
        check("a -5", &["a", "-", "5"]);
        check("(-5, -1.5)", &["(", "-5", ",", "-1.5", ")"]);
        check("where x between -5 and -3", &["where", "x", "between", "-5", "and", "-3"]);
        check("$1 -5", &["$1", "-", "5"]);
        check("a=-1", &["a", "=", "-1"]);
        check("-.", &["-", "."]);
    }

    #[test]
    fn operators_casts_and_parameters() {
        check(
            "a::int >= $12 AND b->>'c' @> x[1:2]",
            &["a", "::", "int", ">=", "$12", "AND", "b", "->>", "'c'", "@>", "x", "[", "1", ":", "2", "]"],
        );
        check(
            "a*-1 f(a => 1, b := 2)",
            &["a", "*", "-1", "f", "(", "a", "=>", "1", ",", "b", ":=", "2", ")"],
        );
        assert_eq!(kinds("$7"), [TokenKind::Parameter(7)]);
        assert_eq!(kinds("$99999999"), [TokenKind::Parameter(u16::MAX)]);
    }

    #[test]
    fn no_text_makes_it_fail_or_stand_still() {
        let pieces = [
            "'", "\"", "$$", "$a$", "/*", "*/", "--", "\n", "é", "E'", "\\", "U&'", "0x", "1e", "-", ".",
            "$", "$1", ";", "(", "::", ":", "\u{0}", "日", "select",
        ];
        let mut state = 7u64;
        for _ in 0..3000 {
            let text: String = (0..12)
                .map(|_| {
                    state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
                    pieces[(state >> 33) as usize % pieces.len()]
                })
                .collect();
            for backslash in [Backslash::Plain, Backslash::Escape] {
                let mut end = 0;
                for token in tokens(&text, backslash) {
                    assert!(
                        token.start >= end && token.end > token.start && text.is_char_boundary(token.end),
                        "{text:?}"
                    );
                    end = token.end;
                }
            }
        }
    }
}
