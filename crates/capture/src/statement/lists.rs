//! `IN` lists, whose lengths vary: `x in ($1, $2, $3)`.
//!
//! A script has a fixed number of values. Lists are made longer by their last value, to the next power of two, as Hibernate does;
//! longer ones become `= any (array)`, which the planner makes of them anyway.

use crate::statement::lexer::{LexedToken, TokenKind};

/// Longest list that stays one.
const LIST_MAX: usize = 32;

/// A list of values after `IN`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct InList {
    /// The token `in`.
    pub(crate) word: usize,
    /// The token `not` before it, if there is one.
    pub(crate) is_not: bool,
    /// The opening parenthesis.
    pub(crate) open: usize,
    /// The closing one.
    pub(crate) close: usize,
}

impl InList {
    /// Number of values.
    pub(crate) fn len(self) -> usize {
        (self.close - self.open) / 2
    }

    /// Whether it becomes an array.
    pub(crate) fn is_array(self) -> bool {
        self.len() > LIST_MAX
    }

    /// Number of values in the script.
    pub(crate) fn padded(self) -> usize {
        self.len().next_power_of_two()
    }
}

/// The list that begins with the word at this token.
pub(crate) fn list(text: &str, tokens: &[LexedToken], n: usize) -> Option<InList> {
    let is = |at: usize, word: &str| {
        tokens.get(at).is_some_and(|token| token.text(text).eq_ignore_ascii_case(word))
    };
    if !is(n, "in") || !is(n + 1, "(") {
        return None;
    }
    let mut at = n + 2;
    loop {
        let value = tokens.get(at)?;
        if !matches!(value.kind, TokenKind::Text | TokenKind::Number | TokenKind::Parameter(_)) {
            return None;
        }
        if is(at + 1, ")") {
            return Some(InList { word: n, is_not: n > 0 && is(n - 1, "not"), open: n + 1, close: at + 1 });
        }
        if !is(at + 1, ",") {
            return None;
        }
        at += 2;
    }
}
