//! From a text to a tree, with the place of each part. The grammar is that of arithmetic: no statements, no definitions.
//!
//! ```text
//! or:         and ("or" and)*              and:     not ("and" not)*         not: "not" not | comparison
//! comparison: sum (("==" | "!=" | "<" | "<=" | ">" | ">=") sum)?
//! sum:        product (("+" | "-") product)*        product: sign (("*" | "/" | "%") sign)*        sign: "-" sign | atom
//! atom:       number | 'text' | true | false | name | name "(" arguments ")" | table "." column ("[" or "]")? | "(" or ")"
//! ```

mod lexer;

use std::sync::Arc;

use lexer::{Lexeme, Lexer, Placed};

/// Longest text of an expression, in bytes.
const TEXT_MAX: usize = 100_000;
/// Deepest nesting of a text.
pub(super) const DEPTH_MAX: u32 = 64;
/// Most parts of one expression.
pub(super) const NODES_MAX: u64 = 10_000;

/// An expression that has been read, not yet resolved. Cheap to clone.
#[derive(Clone, Debug, PartialEq)]
pub struct Expression {
    /// The caller's number of the text.
    pub(super) origin: usize,
    pub(super) root: Arc<Part>,
}

impl Expression {
    /// Whether the expression is the name or the call of this word alone, as `row`.
    pub fn is_name(&self, word: &str) -> bool {
        matches!(&self.root.form, Form::Name(name) if name == word)
    }
}

/// What is wrong with an expression, and where.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ExpressionError {
    /// The caller's number of the text, as it was given to [`parse`].
    pub origin: usize,
    /// Offset in the text, in bytes.
    pub at: usize,
    /// Bytes that the error is about, at least 1.
    pub width: usize,
    /// The problem, and what to do.
    pub message: String,
}

/// A part of a text, from byte `at` on.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Part {
    pub(super) at: usize,
    pub(super) width: usize,
    pub(super) form: Form,
}

/// The form of a part.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Form {
    Int(i64),
    Float(f64),
    Text(String),
    Bool(bool),
    Name(String),
    Call {
        name: String,
        arguments: Vec<Part>,
    },
    /// `table.column`, with the row in brackets if there is one.
    Member {
        table: String,
        column: String,
        row: Option<Box<Part>>,
    },
    Unary {
        operator: Unary,
        operand: Box<Part>,
    },
    Binary {
        operator: Binary,
        left: Box<Part>,
        right: Box<Part>,
    },
}

/// An operator before its operand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unary {
    Minus,
    Not,
}

/// An operator between two operands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Binary {
    Add,
    Subtract,
    Multiply,
    Divide,
    Remainder,
    Equal,
    Unequal,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
    And,
    Or,
}

impl Binary {
    /// The operator as it is written.
    pub(super) fn symbol(self) -> &'static str {
        match self {
            Binary::Add => "+",
            Binary::Subtract => "-",
            Binary::Multiply => "*",
            Binary::Divide => "/",
            Binary::Remainder => "%",
            Binary::Equal => "==",
            Binary::Unequal => "!=",
            Binary::Less => "<",
            Binary::LessOrEqual => "<=",
            Binary::Greater => ">",
            Binary::GreaterOrEqual => ">=",
            Binary::And => "and",
            Binary::Or => "or",
        }
    }
}

/// Reads `text`. `origin` is the caller's number of it, which comes back with each error.
///
/// # Errors
/// The first place at which the text is no expression.
pub fn parse(text: &str, origin: usize) -> Result<Expression, ExpressionError> {
    let problem = |at: usize, width: usize, message: String| ExpressionError { origin, at, width, message };
    if text.len() > TEXT_MAX {
        return Err(problem(
            0,
            1,
            format!("the expression has {} bytes; {TEXT_MAX} are the most", text.len()),
        ));
    }
    let placed = |error: Misread| problem(error.at, error.width.max(1), error.message);
    let lexemes = Lexer::new(text).all().map_err(placed)?;
    let mut parser = Parser { lexemes, next: 0, depth: 0, n_parts: 0 };
    let root = parser.whole().map_err(placed)?;
    Ok(Expression { origin, root: Arc::new(root) })
}

/// An error of lexer or parser, before it knows its text.
#[derive(Debug)]
struct Misread {
    at: usize,
    width: usize,
    message: String,
}

struct Parser {
    /// Ends with [`Lexeme::End`].
    lexemes: Vec<Placed>,
    next: usize,
    depth: u32,
    n_parts: u64,
}

impl Parser {
    fn whole(&mut self) -> Result<Part, Misread> {
        let root = self.level(0)?;
        if *self.peek() == Lexeme::End {
            return Ok(root);
        }
        Err(self.unexpected("an operator or the end"))
    }

    fn peek(&self) -> &Lexeme {
        &self.lexemes[self.next].lexeme
    }

    fn take(&mut self) -> Placed {
        let taken = self.lexemes[self.next].clone();
        // The last one is the end, which stays.
        self.next = (self.next + 1).min(self.lexemes.len() - 1);
        taken
    }

    fn is_next(&mut self, symbol: &str) -> bool {
        let found = matches!(self.peek(), Lexeme::Symbol(found) if *found == symbol);
        if found {
            self.take();
        }
        found
    }

    fn expect(&mut self, symbol: &str) -> Result<(), Misread> {
        if self.is_next(symbol) { Ok(()) } else { Err(self.unexpected(&format!("`{symbol}`"))) }
    }

    fn unexpected(&self, wanted: &str) -> Misread {
        let found = &self.lexemes[self.next];
        Misread {
            at: found.at,
            width: found.width,
            message: format!("expected {wanted}, found {}", found.lexeme),
        }
    }

    fn deeper(&mut self) -> Result<(), Misread> {
        self.depth += 1;
        if self.depth <= DEPTH_MAX {
            return Ok(());
        }
        let at = &self.lexemes[self.next];
        Err(Misread { at: at.at, width: at.width, message: format!("nested deeper than {DEPTH_MAX}") })
    }

    fn part(&mut self, at: usize, form: Form) -> Result<Part, Misread> {
        self.n_parts += 1;
        let last = &self.lexemes[self.next.saturating_sub(1)];
        let width = (last.at + last.width).saturating_sub(at).max(1);
        if self.n_parts > NODES_MAX {
            return Err(Misread {
                at,
                width,
                message: format!("the expression has more than {NODES_MAX} parts"),
            });
        }
        Ok(Part { at, width, form })
    }

    /// Operators of one level, from the loosest; above the last level are signs and atoms.
    fn level(&mut self, level: usize) -> Result<Part, Misread> {
        const NOT: usize = 2;
        let Some(operators) = LEVELS.get(level) else { return self.sign() };
        if level == NOT && matches!(self.peek(), Lexeme::Word(word) if word == "not") {
            let at = self.take().at;
            self.deeper()?;
            let operand = Box::new(self.level(level)?);
            self.depth -= 1;
            return self.part(at, Form::Unary { operator: Unary::Not, operand });
        }
        let mut left = self.level(level + 1)?;
        let mut n_chained = 0;
        while let Some(operator) = self.operator(operators) {
            if level == COMPARISONS && n_chained > 0 {
                let message = "comparisons do not chain; write `a < b and b < c`".to_string();
                return Err(Misread { at: left.at, width: left.width, message });
            }
            // A long chain is a deep tree, too.
            n_chained += 1;
            self.deeper()?;
            let right = Box::new(self.level(level + 1)?);
            left = self.part(left.at, Form::Binary { operator, left: Box::new(left), right })?;
        }
        self.depth -= n_chained;
        Ok(left)
    }

    fn operator(&mut self, operators: &[Binary]) -> Option<Binary> {
        let found = match self.peek() {
            Lexeme::Symbol(symbol) => operators.iter().find(|operator| operator.symbol() == *symbol),
            Lexeme::Word(word) => operators.iter().find(|operator| operator.symbol() == word),
            _ => None,
        };
        let found = found.copied();
        if found.is_some() {
            self.take();
        }
        found
    }

    fn sign(&mut self) -> Result<Part, Misread> {
        if !matches!(self.peek(), Lexeme::Symbol("-")) {
            return self.atom();
        }
        let at = self.take().at;
        self.deeper()?;
        let operand = self.sign()?;
        self.depth -= 1;
        // A literal with its sign, so that later errors show both.
        let form = match operand.form {
            Form::Int(value) => Form::Int(-value),
            Form::Float(value) => Form::Float(-value),
            form => Form::Unary { operator: Unary::Minus, operand: Box::new(Part { form, ..operand }) },
        };
        self.part(at, form)
    }

    fn atom(&mut self) -> Result<Part, Misread> {
        const WANTED: &str = "a value";
        let at = self.lexemes[self.next].at;
        let form = match self.peek().clone() {
            Lexeme::Int(value) => Form::Int(value),
            Lexeme::Float(value) => Form::Float(value),
            Lexeme::Text(text) => Form::Text(text),
            Lexeme::Word(word) if ["and", "or", "not"].contains(&word.as_str()) => {
                return Err(self.unexpected(WANTED));
            }
            Lexeme::Word(word) => {
                self.take();
                return self.named(at, word);
            }
            Lexeme::Symbol("(") => return self.parenthesized(),
            Lexeme::Symbol(_) | Lexeme::End => return Err(self.unexpected(WANTED)),
        };
        self.take();
        self.part(at, form)
    }

    fn parenthesized(&mut self) -> Result<Part, Misread> {
        self.take();
        self.deeper()?;
        let inner = self.level(0)?;
        self.depth -= 1;
        self.expect(")")?;
        Ok(inner)
    }

    fn named(&mut self, at: usize, name: String) -> Result<Part, Misread> {
        if name == "true" || name == "false" {
            return self.part(at, Form::Bool(name == "true"));
        }
        if self.is_next("(") {
            let arguments = self.arguments()?;
            return self.part(at, Form::Call { name, arguments });
        }
        if !self.is_next(".") {
            return self.part(at, Form::Name(name));
        }
        let Lexeme::Word(column) = self.peek().clone() else { return Err(self.unexpected("a column")) };
        self.take();
        let mut row = None;
        if self.is_next("[") {
            self.deeper()?;
            row = Some(Box::new(self.level(0)?));
            self.depth -= 1;
            self.expect("]")?;
        }
        self.part(at, Form::Member { table: name, column, row })
    }

    fn arguments(&mut self) -> Result<Vec<Part>, Misread> {
        let mut arguments = Vec::new();
        if self.is_next(")") {
            return Ok(arguments);
        }
        self.deeper()?;
        loop {
            arguments.push(self.level(0)?);
            if !self.is_next(",") {
                break;
            }
        }
        self.depth -= 1;
        self.expect(")")?;
        Ok(arguments)
    }
}

/// Operators, from those that bind loosest. The third level has none: it is that of `not`.
const LEVELS: [&[Binary]; 6] = [
    &[Binary::Or],
    &[Binary::And],
    &[],
    &[
        Binary::Equal,
        Binary::Unequal,
        Binary::LessOrEqual,
        Binary::GreaterOrEqual,
        Binary::Less,
        Binary::Greater,
    ],
    &[Binary::Add, Binary::Subtract],
    &[Binary::Multiply, Binary::Divide, Binary::Remainder],
];
/// The level of [`LEVELS`] that does not chain.
const COMPARISONS: usize = 3;
