//! Words and tokens of a backslash command.
//!
//! Two ways to read the same line, as pgbench's `exprscan.l` does: blank-separated words, or tokens of the expression
//! language. Both end at a newline that no backslash continues. SQL text is read by `sqlscan` instead.

use crate::number;
use crate::script::variables::{is_name_byte, is_name_start};

/// A token of the expression language.
#[derive(Clone, Copy, Debug, PartialEq)]
#[allow(missing_docs)]
pub enum Token<'a> {
    Plus,
    Minus,
    Star,
    Slash,
    Percent,
    OpenParen,
    CloseParen,
    Comma,
    Equal,
    NotEqual,
    Less,
    LessEqual,
    Greater,
    GreaterEqual,
    ShiftLeft,
    ShiftRight,
    BitOr,
    BitAnd,
    BitXor,
    Tilde,
    And,
    Or,
    Not,
    Is,
    IsNull,
    NotNull,
    Case,
    When,
    Then,
    Else,
    End,
    Null,
    True,
    False,
    Int(i64),
    /// 9223372036854775808, which only a minus sign in front makes an integer.
    IntMaxPlusOne,
    Double(f64),
    Variable(&'a str),
    /// Any other word: it can only be a function's name.
    Function(&'a str),
    /// Newline or end of the script.
    EndOfCommand,
}

const KEYWORDS: [(&str, Token<'static>); 14] = [
    ("and", Token::And),
    ("or", Token::Or),
    ("not", Token::Not),
    ("is", Token::Is),
    ("isnull", Token::IsNull),
    ("notnull", Token::NotNull),
    ("case", Token::Case),
    ("when", Token::When),
    ("then", Token::Then),
    ("else", Token::Else),
    ("end", Token::End),
    ("null", Token::Null),
    ("true", Token::True),
    ("false", Token::False),
];

/// Longest first, so that `<=` is not read as `<`.
const OPERATORS: [(&str, Token<'static>); 21] = [
    ("<=", Token::LessEqual),
    (">=", Token::GreaterEqual),
    ("<>", Token::NotEqual),
    ("!=", Token::NotEqual),
    ("<<", Token::ShiftLeft),
    (">>", Token::ShiftRight),
    ("+", Token::Plus),
    ("-", Token::Minus),
    ("*", Token::Star),
    ("/", Token::Slash),
    ("%", Token::Percent),
    ("(", Token::OpenParen),
    (")", Token::CloseParen),
    (",", Token::Comma),
    ("=", Token::Equal),
    ("<", Token::Less),
    (">", Token::Greater),
    ("|", Token::BitOr),
    ("&", Token::BitAnd),
    ("#", Token::BitXor),
    ("~", Token::Tilde),
];

/// Why a backslash command does not parse; `end` is the offset just after the offending token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SyntaxError {
    /// What is wrong, in pgbench's words.
    pub message: &'static str,
    /// The text at fault.
    pub detail: Option<String>,
    /// Offset in the script just after the offending token.
    pub end: usize,
}

/// Reads one backslash command of a script.
#[derive(Clone, Debug)]
pub struct Lexer<'a> {
    source: &'a str,
    position: usize,
    /// Whether the newline that ends the command was read.
    done: bool,
}

impl<'a> Lexer<'a> {
    /// Starts at `position`, just after the backslash.
    pub fn new(source: &'a str, position: usize) -> Lexer<'a> {
        Lexer { source, position, done: false }
    }

    /// Offset after the last token.
    pub fn position(&self) -> usize {
        self.position
    }

    /// The next blank-separated word and its offset; `None` at the end of the command.
    pub fn word(&mut self) -> Option<(&'a str, usize)> {
        self.skip_blanks();
        if self.at_end() {
            return None;
        }
        let start = self.position;
        let rest = &self.source[start..];
        let mut len = rest.find(number::is_c_space).unwrap_or(rest.len());
        // A backslash that continues the line is not part of the word.
        if rest.as_bytes()[len - 1] == b'\\' && continuation_len(&rest[len - 1..]) > 0 {
            len -= 1;
        }
        self.position += len;
        Some((&rest[..len], start))
    }

    /// The next token of an expression.
    pub fn token(&mut self) -> Result<Token<'a>, SyntaxError> {
        self.skip_blanks();
        if self.at_end() {
            return Ok(Token::EndOfCommand);
        }
        let rest = &self.source[self.position..];
        let first = rest.as_bytes()[0];
        let second = rest.as_bytes().get(1).copied().unwrap_or(b' ');
        if first.is_ascii_digit() || (first == b'.' && second.is_ascii_digit()) {
            return self.number(rest);
        }
        if is_name_start(first) {
            let word = &rest[..name_len(rest)];
            self.position += word.len();
            let keyword = KEYWORDS.iter().find(|(keyword, _)| keyword.eq_ignore_ascii_case(word));
            return Ok(keyword.map_or(Token::Function(word), |(_, token)| *token));
        }
        if first == b':' && is_name_byte(second) {
            let name = &rest[1..1 + name_len(&rest[1..])];
            self.position += 1 + name.len();
            return Ok(Token::Variable(name));
        }
        if let Some((spelling, token)) = OPERATORS.iter().find(|(spelling, _)| rest.starts_with(spelling)) {
            self.position += spelling.len();
            return Ok(*token);
        }
        let character = rest.chars().next().expect("not at the end");
        self.position += character.len_utf8();
        Err(self.error("unexpected character", Some(character.to_string())))
    }

    /// An error at the token read last.
    pub fn error(&self, message: &'static str, detail: Option<String>) -> SyntaxError {
        SyntaxError { message, detail, end: self.position }
    }

    /// Reads to the end of the command from wherever it stands, and returns the offset of the end (before the newline).
    pub fn finish(&mut self) -> usize {
        while self.word().is_some() {}
        let read = &self.source[..self.position];
        read.trim_end_matches(['\n', '\r']).len()
    }

    fn number(&mut self, rest: &str) -> Result<Token<'a>, SyntaxError> {
        let (len, is_int) = number_len(rest.as_bytes());
        let digits = &rest[..len];
        self.position += len;
        if !is_int {
            let double = number::parse_double(digits);
            return double
                .map(Token::Double)
                .ok_or_else(|| self.error("double constant overflow", Some(digits.to_owned())));
        }
        if digits == "9223372036854775808" {
            return Ok(Token::IntMaxPlusOne);
        }
        let int = digits.parse().map(Token::Int);
        int.map_err(|_| self.error("bigint constant overflow", Some(digits.to_owned())))
    }

    fn at_end(&mut self) -> bool {
        if self.done || self.position == self.source.len() {
            return true;
        }
        if self.source.as_bytes()[self.position] == b'\n' {
            self.position += 1;
            self.done = true;
        }
        self.done
    }

    fn skip_blanks(&mut self) {
        while !self.done {
            let rest = &self.source[self.position..];
            let blanks = rest.len() - rest.trim_start_matches(|c| c != '\n' && number::is_c_space(c)).len();
            let skipped = blanks + continuation_len(&rest[blanks..]);
            if skipped == 0 {
                return;
            }
            self.position += skipped;
        }
    }
}

/// Length of the line continuation that `text` starts with, or 0.
fn continuation_len(text: &str) -> usize {
    ["\\\n", "\\\r\n"].iter().find(|mark| text.starts_with(**mark)).map_or(0, |mark| mark.len())
}

fn name_len(text: &str) -> usize {
    text.bytes().position(|byte| !is_name_byte(byte)).unwrap_or(text.len())
}

/// Length of the number at the start of `bytes`, and whether it is an integer.
fn number_len(bytes: &[u8]) -> (usize, bool) {
    let digits = |from: usize| bytes[from..].iter().take_while(|byte| byte.is_ascii_digit()).count();
    let mut len = digits(0);
    let mut is_int = true;
    if bytes.get(len) == Some(&b'.') {
        is_int = false;
        len += 1;
        len += digits(len);
    }
    if matches!(bytes.get(len), Some(b'e' | b'E')) {
        let sign = usize::from(matches!(bytes.get(len + 1), Some(b'+' | b'-')));
        let exponent_start = (len + 1 + sign).min(bytes.len());
        let exponent = digits(exponent_start);
        if exponent > 0 {
            is_int = false;
            len = exponent_start + exponent;
        }
    }
    (len, is_int)
}
