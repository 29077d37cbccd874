//! The places of values in a statement: where a literal has to stay one, and what a neighbour says about a value.
//!
//! This is no parser. What a name next to a value suggests is used for names of variables, and where no server says more.

use crate::statement::lexer::{LexedToken, TokenKind, precedes_expression};

/// What the words around a value say about its use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SlotUse {
    /// A column is compared with it for equality, also in a list.
    Equality,
    /// A column is compared with it by order.
    Range,
    /// It goes into a column of a new row.
    Inserted,
    /// It changes a column.
    Assigned,
    /// A pattern that texts are compared with.
    Pattern,
    /// `LIMIT` or `OFFSET`.
    Limit,
    /// Anything else.
    #[default]
    Other,
}

/// The surroundings of a value.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PlaceHint {
    /// Use.
    pub usage: SlotUse,
    /// The column, without its table.
    pub column: Option<String>,
}

/// Types whose names have numbers in parentheses after them.
const WITH_LENGTHS: [&str; 19] = [
    "bit",
    "bpchar",
    "char",
    "character",
    "dec",
    "decimal",
    "float",
    "halfvec",
    "interval",
    "nchar",
    "numeric",
    "sparsevec",
    "time",
    "timestamp",
    "timestamptz",
    "timetz",
    "varchar",
    "varying",
    "vector",
];

/// Most tokens between the name of a type and the end of its numbers.
const LENGTH_TOKENS_MAX: usize = 4;

/// A statement's tokens with their words.
pub(crate) struct SlotPlaces<'a> {
    text: &'a str,
    tokens: &'a [LexedToken],
    columns: Vec<String>,
    is_insert: bool,
    is_update: bool,
}

impl<'a> SlotPlaces<'a> {
    pub(crate) fn new(text: &'a str, tokens: &'a [LexedToken]) -> SlotPlaces<'a> {
        let mut places = SlotPlaces { text, tokens, columns: Vec::new(), is_insert: false, is_update: false };
        places.is_insert = places.is(0, "insert");
        places.is_update = places.is(0, "update");
        if places.is_insert {
            places.columns = places.inserted_columns();
        }
        places
    }

    fn word(&self, n: usize) -> &'a str {
        self.tokens.get(n).map_or("", |token| token.text(self.text))
    }

    pub(crate) fn is(&self, n: usize, word: &str) -> bool {
        self.word(n).eq_ignore_ascii_case(word)
    }

    fn before(&self, n: usize, back: usize) -> Option<usize> {
        n.checked_sub(back)
    }

    fn is_before(&self, n: usize, back: usize, word: &str) -> bool {
        self.before(n, back).is_some_and(|at| self.is(at, word))
    }

    /// Whether the literal at this token has to stay as it is: elsewhere a value may stand in its place.
    pub(crate) fn is_fixed(&self, n: usize) -> bool {
        let token = &self.tokens[n];
        if token.kind == TokenKind::Bits {
            return true;
        }
        if token.kind == TokenKind::Text && self.is_after_type(n) {
            return true;
        }
        token.kind == TokenKind::Number && (self.is_length(n) || self.is_position(n))
    }

    /// `date '2024-01-01'`, `numeric(10,2) '1.5'`, `x uescape '!'`.
    fn is_after_type(&self, n: usize) -> bool {
        let Some(before) = self.before(n, 1) else { return false };
        match self.tokens[before].kind {
            TokenKind::Word => !precedes_expression(&self.word(before).to_ascii_lowercase()),
            TokenKind::QuotedName | TokenKind::Text => true,
            TokenKind::Mark(mark) => matches!(mark, b')' | b']'),
            _ => false,
        }
    }

    /// `numeric(10, 2)`, `varchar(20)`.
    fn is_length(&self, n: usize) -> bool {
        // A type has at most two of them, with a comma.
        for at in (0..n).rev().take(LENGTH_TOKENS_MAX) {
            match self.tokens[at].kind {
                TokenKind::Number | TokenKind::Mark(b',') => {}
                TokenKind::Mark(b'(') => {
                    let name = self.before(at, 1).map_or("", |name| self.word(name)).to_ascii_lowercase();
                    return WITH_LENGTHS.contains(&name.as_str());
                }
                _ => return false,
            }
        }
        false
    }

    /// `order by 1`, `group by 1, 2`: the number of a column.
    fn is_position(&self, n: usize) -> bool {
        // Only the first column, or one directly after a comma.
        if !self.is_before(n, 1, "by") && !self.is_before(n, 1, ",") {
            return false;
        }
        let is_whole = matches!(
            self.word(n + 1).to_ascii_lowercase().as_str(),
            "" | ","
                | ")"
                | ";"
                | "asc"
                | "desc"
                | "nulls"
                | "limit"
                | "offset"
                | "having"
                | "order"
                | "union"
                | "for"
                | "fetch"
                | "window"
        );
        let mut depth = 0usize;
        let mut at = n;
        while is_whole && at > 0 {
            at -= 1;
            match self.tokens[at].kind {
                TokenKind::Mark(b')') => depth += 1,
                TokenKind::Mark(b'(') if depth == 0 => return false,
                TokenKind::Mark(b'(') => depth -= 1,
                TokenKind::Word if depth == 0 => {
                    let word = self.word(at).to_ascii_lowercase();
                    if word == "by" {
                        return true;
                    }
                    if matches!(
                        word.as_str(),
                        "select" | "values" | "where" | "limit" | "offset" | "set" | "having" | "from"
                    ) {
                        return false;
                    }
                }
                _ => {}
            }
        }
        false
    }

    /// What is around the value at this token; `up_to` is the last token of it, which differs for lists.
    pub(crate) fn hint(&self, n: usize, up_to: usize) -> PlaceHint {
        if self.is_before(n, 1, "limit") || self.is_before(n, 1, "offset") {
            return PlaceHint { usage: SlotUse::Limit, column: Some(self.word(n - 1).to_ascii_lowercase()) };
        }
        if self.is_pattern(n) {
            return PlaceHint { usage: SlotUse::Pattern, column: None };
        }
        if let Some(column) = self.inserted(n) {
            return PlaceHint { usage: SlotUse::Inserted, column: Some(column) };
        }
        let compared = |at: Option<usize>, name: Option<usize>| -> Option<PlaceHint> {
            let usage = match self.word(at?) {
                "=" => SlotUse::Equality,
                "<" | ">" | "<=" | ">=" => SlotUse::Range,
                _ => return None,
            };
            Some(PlaceHint { usage, column: Some(self.name(name?)?) })
        };
        let left = self.opened(n);
        let assigned = |hint: PlaceHint| match hint.usage {
            SlotUse::Equality if self.is_assignment(n) => PlaceHint { usage: SlotUse::Assigned, ..hint },
            _ => hint,
        };
        if let Some(hint) = compared(left.checked_sub(1), left.checked_sub(2)) {
            return assigned(hint);
        }
        if let Some(hint) = compared(Some(up_to + 1), Some(self.last_of_name(up_to + 2))) {
            return hint;
        }
        let is_and = self.is_before(left, 1, "and") && self.is_before(left, 3, "between");
        if self.is_before(left, 1, "between") || is_and {
            let name = left.checked_sub(if is_and { 4 } else { 2 });
            return PlaceHint { usage: SlotUse::Range, column: name.and_then(|name| self.name(name)) };
        }
        // `set a = a + $1`
        if self.is_update && self.is_assignment(n) {
            let name = self.before(n, 2).and_then(|at| self.name(at));
            return PlaceHint { usage: SlotUse::Assigned, column: name };
        }
        PlaceHint::default()
    }

    /// Whether it follows `like` or an operator of regular expressions.
    fn is_pattern(&self, n: usize) -> bool {
        let words = ["like", "ilike", "similar", "to", "~", "~*", "!~", "!~*", "~~", "~~*"];
        words.iter().any(|word| self.is_before(n, 1, word)) && !self.is_before(n, 2, "set")
    }

    /// The token from which a comparison is looked for: before `(`, `in (`, `any (`, `array [`.
    fn opened(&self, n: usize) -> usize {
        let mut at = n;
        for _ in 0..4 {
            let Some(before) = self.before(at, 1) else { return at };
            let word = self.word(before).to_ascii_lowercase();
            if matches!(word.as_str(), "(" | "[" | "any" | "array") {
                at = before;
            } else {
                break;
            }
        }
        at
    }

    /// The last part of a name that begins here: `a.b.c`.
    fn last_of_name(&self, mut n: usize) -> usize {
        while self.word(n + 1) == "." && n + 2 < self.tokens.len() {
            n += 2;
        }
        n
    }

    /// A name that ends at this token, in small letters unless it is in quotes.
    fn name(&self, n: usize) -> Option<String> {
        let token = self.tokens.get(n)?;
        match token.kind {
            TokenKind::Word if !precedes_expression(&self.word(n).to_ascii_lowercase()) => {
                Some(self.word(n).to_lowercase())
            }
            TokenKind::QuotedName => Some(self.word(n).trim_matches('"').to_string()),
            _ => None,
        }
    }

    /// The name before `in (` and the like, for lists.
    pub(crate) fn name_before(&self, n: usize) -> Option<String> {
        self.name(n.checked_sub(1)?)
    }

    /// Whether a token of an UPDATE is between SET and WHERE.
    fn is_assignment(&self, n: usize) -> bool {
        let decides = |at: &usize| self.is(*at, "set") || self.is(*at, "where") || self.is(*at, "from");
        let is_changing = self.is_update || self.is_insert;
        is_changing && (0..n).rev().find(decides).is_some_and(|at| self.is(at, "set"))
    }

    /// The columns of `insert into t (a, b)`.
    fn inserted_columns(&self) -> Vec<String> {
        let mut at = 2;
        // The name of the table, and its alias.
        while at < self.tokens.len() && self.word(at) != "(" {
            if self.is(at, "values") || self.is(at, "select") || self.is(at, "default") {
                return Vec::new();
            }
            at += 1;
        }
        let inside = self.tokens[(at + 1).min(self.tokens.len())..].iter();
        let until = inside.take_while(|token| token.kind != TokenKind::Mark(b')')).count();
        (at + 1..at + 1 + until).filter_map(|at| self.name(at)).collect()
    }

    /// The column of a new row that a value goes into, if the value is all of the expression.
    fn inserted(&self, n: usize) -> Option<String> {
        if !self.is_insert
            || !matches!(self.word(n + 1), "," | ")" | "::")
            || !matches!(self.word(n.checked_sub(1)?), "," | "(")
        {
            return None;
        }
        let (mut at, mut depth, mut n_commas) = (n, 0usize, 0);
        loop {
            at = at.checked_sub(1)?;
            match self.word(at) {
                ")" | "]" => depth += 1,
                "(" | "[" if depth > 0 => depth -= 1,
                "(" => break,
                "[" => return None,
                "," if depth == 0 => n_commas += 1,
                _ => {}
            }
        }
        let is_row =
            self.is_before(at, 1, "values") || (self.is_before(at, 1, ",") && self.is_before(at, 2, ")"));
        if is_row { self.columns.get(n_commas).cloned() } else { None }
    }
}
