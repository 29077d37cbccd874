//! Words, numbers, texts and symbols of an expression, with their places in bytes.

use std::fmt;

use super::Misread;

/// A piece of a text.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Lexeme {
    Int(i64),
    Float(f64),
    Text(String),
    Word(String),
    Symbol(&'static str),
    End,
}

impl fmt::Display for Lexeme {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Lexeme::Int(value) => write!(f, "`{value}`"),
            Lexeme::Float(value) => write!(f, "`{value}`"),
            Lexeme::Text(_) => write!(f, "a text"),
            Lexeme::Word(word) => write!(f, "`{word}`"),
            Lexeme::Symbol(symbol) => write!(f, "`{symbol}`"),
            Lexeme::End => write!(f, "the end"),
        }
    }
}

/// A lexeme with its place.
#[derive(Clone, Debug)]
pub(super) struct Placed {
    pub(super) at: usize,
    pub(super) width: usize,
    pub(super) lexeme: Lexeme,
}

/// Longer symbols first, so that `<=` is not read as `<`.
const SYMBOLS: &[&str] =
    &["==", "!=", "<=", ">=", "<", ">", "+", "-", "*", "/", "%", "(", ")", "[", "]", ",", "."];

/// What people write for what this language writes differently.
const INSTEAD: &[(&str, &str)] = &[
    ("=", "`==`"),
    ("&&", "`and`"),
    ("||", "`or`, or `concat(a, b)` for texts"),
    ("!", "`not`"),
    ("\"", "single quotes around a text"),
    ("{", "nothing here: braces belong to names of tables, columns and parameters"),
];

pub(super) struct Lexer<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Lexer<'a> {
    pub(super) fn new(text: &'a str) -> Lexer<'a> {
        Lexer { text, at: 0 }
    }

    /// All lexemes, with [`Lexeme::End`] at the end.
    pub(super) fn all(mut self) -> Result<Vec<Placed>, Misread> {
        let mut lexemes = Vec::new();
        loop {
            let rest = self.rest();
            self.at += rest.len() - rest.trim_start().len();
            let at = self.at;
            let lexeme = self.next()?;
            let is_end = lexeme == Lexeme::End;
            lexemes.push(Placed { at, width: (self.at - at).max(1), lexeme });
            if is_end {
                return Ok(lexemes);
            }
        }
    }

    fn rest(&self) -> &'a str {
        &self.text[self.at..]
    }

    fn problem(&self, width: usize, message: String) -> Misread {
        Misread { at: self.at, width, message }
    }

    fn next(&mut self) -> Result<Lexeme, Misread> {
        let rest = self.rest();
        let Some(first) = rest.chars().next() else { return Ok(Lexeme::End) };
        if first.is_ascii_digit() {
            return self.number();
        }
        if first == '\'' {
            return self.quoted();
        }
        if first.is_ascii_alphabetic() || first == '_' {
            let end = rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(rest.len());
            self.at += end;
            return Ok(Lexeme::Word(rest[..end].to_string()));
        }
        if let Some(symbol) = SYMBOLS.iter().find(|symbol| rest.starts_with(**symbol)) {
            self.at += symbol.len();
            return Ok(Lexeme::Symbol(symbol));
        }
        let message = match INSTEAD.iter().find(|(wrong, _)| rest.starts_with(wrong)) {
            Some((wrong, instead)) => format!("`{wrong}` is not of this language; write {instead}"),
            None => format!("`{}` is not of this language", first.escape_debug()),
        };
        Err(self.problem(first.len_utf8(), message))
    }

    fn number(&mut self) -> Result<Lexeme, Misread> {
        let rest = self.rest();
        let digits = |from: usize| rest[from..].bytes().take_while(u8::is_ascii_digit).count();
        let mut end = digits(0);
        let mut is_float = false;
        if rest[end..].starts_with('.') && digits(end + 1) > 0 {
            end += 1 + digits(end + 1);
            is_float = true;
        }
        if rest[end..].starts_with(['e', 'E']) {
            let sign = usize::from(rest[end + 1..].starts_with(['+', '-']));
            let n_digits = digits(end + 1 + sign);
            if n_digits > 0 {
                end += 1 + sign + n_digits;
                is_float = true;
            }
        }
        let number = &rest[..end];
        if rest[end..].starts_with(|c: char| c.is_ascii_alphanumeric() || c == '_') {
            return Err(self.problem(end + 1, format!("`{number}` is followed by a letter")));
        }
        let lexeme = if is_float {
            number.parse().ok().filter(|value: &f64| value.is_finite()).map(Lexeme::Float)
        } else {
            number.parse().ok().map(Lexeme::Int)
        };
        let lexeme = lexeme.ok_or_else(|| self.problem(end, format!("`{number}` is beyond 64 bits")))?;
        self.at += end;
        Ok(lexeme)
    }

    /// A text in single quotes; two quotes within are one, as in SQL.
    fn quoted(&mut self) -> Result<Lexeme, Misread> {
        let rest = self.rest();
        let mut text = String::new();
        let mut end = 1;
        while let Some(length) = rest[end..].find('\'') {
            text.push_str(&rest[end..end + length]);
            end += length + 1;
            if !rest[end..].starts_with('\'') {
                return self.finished(text, end);
            }
            text.push('\'');
            end += 1;
        }
        Err(self.problem(1, "the text has no closing quote".to_string()))
    }

    fn finished(&mut self, text: String, end: usize) -> Result<Lexeme, Misread> {
        if text.contains('\0') {
            return Err(self.problem(end, "a text of PostgreSQL has no zero byte".to_string()));
        }
        self.at += end;
        Ok(Lexeme::Text(text))
    }
}
