//! The expression language of `\set`, `\if` and `\elif`: its tree and its parser.
//!
//! The grammar is that of pgbench's `exprparse.y`, precedence included, written as a Pratt parser. Evaluation is
//! in `eval`. Two habits of pgbench show in the trees because random functions make the order of evaluation visible:
//! `a > b` is `b < a`, and `-a` is `0 - a`.

pub(crate) mod fold;

use crate::script::function::{self, Arity, Function};
use crate::script::lexer::{Lexer, SyntaxError, Token};
use crate::script::value::Value;
use crate::script::variables::{VariableId, VariableTable};

/// Deepest nesting of an expression; evaluation recurses, and a thread's stack is finite.
pub const DEPTH_MAX: usize = 400;

/// An expression with variables resolved to slots.
#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs)]
pub enum Expr {
    Constant(Value),
    Variable(VariableId),
    /// Left operand first.
    Binary(BinaryOp, Box<[Expr; 2]>),
    /// AND: lazy.
    And(Box<[Expr; 2]>),
    /// OR: lazy.
    Or(Box<[Expr; 2]>),
    Not(Box<Expr>),
    /// IS: equal type and value.
    Is(Box<Expr>, Value),
    /// CASE: (condition, result) pairs and the ELSE part.
    Case(Box<[(Expr, Expr)]>, Box<Expr>),
    Call(Function, Box<[Expr]>),
    /// A call of `random` whose range is known and not empty. Made by folding, not by the parser.
    Draw {
        lo: i64,
        hi: i64,
    },
}

/// Operators that evaluate both operands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum BinaryOp {
    Add,
    Sub,
    Mul,
    Div,
    Mod,
    Equal,
    NotEqual,
    LessEqual,
    Less,
    BitAnd,
    BitOr,
    BitXor,
    ShiftLeft,
    ShiftRight,
}

/// Binding strengths, weakest first.
mod level {
    pub(super) const NONE: u8 = 0;
    pub(super) const OR: u8 = 1;
    pub(super) const AND: u8 = 2;
    pub(super) const NOT: u8 = 3;
    pub(super) const IS: u8 = 4;
    pub(super) const COMPARE: u8 = 5;
    pub(super) const BIT: u8 = 6;
    pub(super) const ADD: u8 = 7;
    pub(super) const MUL: u8 = 8;
    pub(super) const SIGN: u8 = 9;
}

/// Parses the expression that makes up the rest of a backslash command.
pub fn parse(lexer: &mut Lexer<'_>, variables: &mut VariableTable) -> Result<Expr, SyntaxError> {
    let token = lexer.token()?;
    let mut parser = Parser { lexer, token, variables };
    let (expr, _) = parser.expression(level::NONE, 0)?;
    match parser.token {
        Token::EndOfCommand => Ok(expr),
        _ => Err(parser.unexpected()),
    }
}

struct Parser<'l, 's, 'v> {
    lexer: &'l mut Lexer<'s>,
    token: Token<'s>,
    variables: &'v mut VariableTable,
}

/// An expression and how deep it nests.
type Deep = (Expr, usize);

impl<'s> Parser<'_, 's, '_> {
    /// Reads an expression of operators that bind tighter than `floor`.
    fn expression(&mut self, floor: u8, outer: usize) -> Result<Deep, SyntaxError> {
        let (mut left, mut depth) = self.operand(outer)?;
        // Comparisons do not chain: `a < b < c` is an error.
        let mut is_comparison = false;
        while let Some((strength, operator)) = infix(self.token) {
            if strength <= floor {
                break;
            }
            if is_comparison && strength == level::COMPARE {
                return Err(self.unexpected());
            }
            is_comparison = strength == level::COMPARE;
            self.advance()?;
            if let Infix::Is = operator {
                left = self.is_suffix(left)?;
                depth += 2;
            } else if let Infix::Postfix { is_negated } = operator {
                left = is_value(left, Value::Null, is_negated);
                depth += 2;
            } else {
                let (right, right_depth) = self.expression(strength, outer + 1)?;
                left = combine(operator, left, right);
                depth = 1 + depth.max(right_depth);
            }
            self.check_depth(outer + depth)?;
        }
        Ok((left, depth))
    }

    fn operand(&mut self, outer: usize) -> Result<Deep, SyntaxError> {
        self.check_depth(outer)?;
        let constant = match self.token {
            Token::Null => Value::Null,
            Token::True => Value::Bool(true),
            Token::False => Value::Bool(false),
            Token::Int(int) => Value::Int(int),
            Token::Double(double) => Value::Double(double),
            _ => return self.compound(outer),
        };
        self.advance()?;
        Ok((Expr::Constant(constant), 1))
    }

    fn compound(&mut self, outer: usize) -> Result<Deep, SyntaxError> {
        match self.token {
            Token::Variable(name) => {
                self.advance()?;
                Ok((Expr::Variable(self.variables.intern(name)), 1))
            }
            Token::OpenParen => {
                self.advance()?;
                let inner = self.expression(level::NONE, outer + 1)?;
                self.expect(Token::CloseParen)?;
                Ok(inner)
            }
            Token::Plus => {
                self.advance()?;
                self.expression(level::SIGN, outer + 1)
            }
            Token::Minus => self.negation(outer),
            Token::Tilde => {
                self.advance()?;
                let (operand, depth) = self.expression(level::BIT, outer + 1)?;
                let all_ones = Expr::Constant(Value::Int(-1));
                Ok((Expr::Binary(BinaryOp::BitXor, Box::new([all_ones, operand])), depth + 1))
            }
            Token::Not => {
                self.advance()?;
                // Right-associative: NOT NOT a.
                let (operand, depth) = self.expression(level::NOT, outer + 1)?;
                Ok((Expr::Not(Box::new(operand)), depth + 1))
            }
            Token::Case => self.case(outer),
            Token::Function(name) => self.call(name, outer),
            _ => Err(self.unexpected()),
        }
    }

    fn negation(&mut self, outer: usize) -> Result<Deep, SyntaxError> {
        self.advance()?;
        if self.token == Token::IntMaxPlusOne {
            self.advance()?;
            return Ok((Expr::Constant(Value::Int(i64::MIN)), 1));
        }
        let (operand, depth) = self.expression(level::SIGN, outer + 1)?;
        let negated = match operand {
            // The smallest integer cannot be negated, which is reported when the expression is evaluated.
            Expr::Constant(Value::Int(int)) if int != i64::MIN => Expr::Constant(Value::Int(-int)),
            other => Expr::Binary(BinaryOp::Sub, Box::new([Expr::Constant(Value::Int(0)), other])),
        };
        Ok((negated, depth + 1))
    }

    /// `[NOT] NULL | TRUE | FALSE` after IS.
    fn is_suffix(&mut self, left: Expr) -> Result<Expr, SyntaxError> {
        let is_negated = self.token == Token::Not;
        if is_negated {
            self.advance()?;
        }
        let value = match self.token {
            Token::Null => Value::Null,
            Token::True => Value::Bool(true),
            Token::False => Value::Bool(false),
            _ => return Err(self.unexpected()),
        };
        self.advance()?;
        Ok(is_value(left, value, is_negated))
    }

    fn case(&mut self, outer: usize) -> Result<Deep, SyntaxError> {
        self.advance()?;
        let mut branches = Vec::new();
        let mut depth = 0;
        while self.token == Token::When {
            self.advance()?;
            let (condition, condition_depth) = self.expression(level::NONE, outer + 1)?;
            self.expect(Token::Then)?;
            let (result, result_depth) = self.expression(level::NONE, outer + 1)?;
            depth = depth.max(condition_depth).max(result_depth);
            branches.push((condition, result));
        }
        let mut otherwise = Expr::Constant(Value::Null);
        if self.token == Token::Else && !branches.is_empty() {
            self.advance()?;
            let (result, result_depth) = self.expression(level::NONE, outer + 1)?;
            depth = depth.max(result_depth);
            otherwise = result;
        }
        if branches.is_empty() {
            return Err(self.unexpected());
        }
        self.expect(Token::End)?;
        Ok((Expr::Case(branches.into(), Box::new(otherwise)), depth + 1))
    }

    fn call(&mut self, name: &'s str, outer: usize) -> Result<Deep, SyntaxError> {
        let Some((known_name, arity, function)) = function::find(name) else {
            return Err(self.lexer.error("unexpected function name", Some(name.to_owned())));
        };
        self.advance()?;
        self.expect(Token::OpenParen)?;
        let mut arguments = Vec::new();
        let mut depth = 0;
        if self.token != Token::CloseParen {
            // In pgbench's grammar the list in front of a comma may be empty: `abs(,1)` is `abs(1)`.
            if self.token == Token::Comma {
                self.advance()?;
            }
            loop {
                let (argument, argument_depth) = self.expression(level::NONE, outer + 1)?;
                arguments.push(argument);
                depth = depth.max(argument_depth);
                if self.token != Token::Comma {
                    break;
                }
                self.advance()?;
            }
        }
        if self.token != Token::CloseParen {
            return Err(self.unexpected());
        }
        // Checked before the next token is read, so that the error points at the parenthesis.
        self.check_arity(known_name, arity, &mut arguments)?;
        self.advance()?;
        let call = match (function, <[Expr; 2]>::try_from(arguments)) {
            (Function::Mod, Ok(operands)) => Expr::Binary(BinaryOp::Mod, Box::new(operands)),
            (function, Ok(operands)) => Expr::Call(function, Box::new(operands)),
            (function, Err(arguments)) => Expr::Call(function, arguments.into()),
        };
        Ok((call, depth + 1))
    }

    fn check_arity(
        &mut self,
        name: &'static str,
        arity: Arity,
        arguments: &mut Vec<Expr>,
    ) -> Result<(), SyntaxError> {
        let n = arguments.len();
        let message = match arity {
            Arity::Some if n == 0 => "at least one argument expected",
            Arity::Exactly(wanted) if n != wanted => "unexpected number of arguments",
            Arity::AndSeed(wanted) if n != wanted && n != wanted + 1 => "unexpected number of arguments",
            Arity::AndSeed(wanted) if n == wanted => {
                arguments.push(Expr::Variable(self.variables.intern("default_seed")));
                return Ok(());
            }
            _ => return Ok(()),
        };
        Err(self.lexer.error(message, Some(name.to_owned())))
    }

    fn check_depth(&self, depth: usize) -> Result<(), SyntaxError> {
        if depth > DEPTH_MAX {
            return Err(self.lexer.error("expression nests too deeply", None));
        }
        Ok(())
    }

    fn advance(&mut self) -> Result<(), SyntaxError> {
        self.token = self.lexer.token()?;
        Ok(())
    }

    fn expect(&mut self, wanted: Token<'static>) -> Result<(), SyntaxError> {
        if self.token != wanted {
            return Err(self.unexpected());
        }
        self.advance()
    }

    fn unexpected(&self) -> SyntaxError {
        self.lexer.error("syntax error", None)
    }
}

#[derive(Clone, Copy)]
enum Infix {
    And,
    Or,
    Is,
    Postfix {
        is_negated: bool,
    },
    Plain(BinaryOp),
    /// Operands change places: `a > b` is `b < a`.
    Swapped(BinaryOp),
}

fn infix(token: Token<'_>) -> Option<(u8, Infix)> {
    Some(match token {
        Token::Or => (level::OR, Infix::Or),
        Token::And => (level::AND, Infix::And),
        Token::Is => (level::IS, Infix::Is),
        Token::IsNull => (level::IS, Infix::Postfix { is_negated: false }),
        Token::NotNull => (level::IS, Infix::Postfix { is_negated: true }),
        Token::Less => (level::COMPARE, Infix::Plain(BinaryOp::Less)),
        Token::LessEqual => (level::COMPARE, Infix::Plain(BinaryOp::LessEqual)),
        Token::Greater => (level::COMPARE, Infix::Swapped(BinaryOp::Less)),
        Token::GreaterEqual => (level::COMPARE, Infix::Swapped(BinaryOp::LessEqual)),
        Token::Equal => (level::COMPARE, Infix::Plain(BinaryOp::Equal)),
        Token::NotEqual => (level::COMPARE, Infix::Plain(BinaryOp::NotEqual)),
        Token::BitAnd => (level::BIT, Infix::Plain(BinaryOp::BitAnd)),
        Token::BitOr => (level::BIT, Infix::Plain(BinaryOp::BitOr)),
        Token::BitXor => (level::BIT, Infix::Plain(BinaryOp::BitXor)),
        Token::ShiftLeft => (level::BIT, Infix::Plain(BinaryOp::ShiftLeft)),
        Token::ShiftRight => (level::BIT, Infix::Plain(BinaryOp::ShiftRight)),
        Token::Plus => (level::ADD, Infix::Plain(BinaryOp::Add)),
        Token::Minus => (level::ADD, Infix::Plain(BinaryOp::Sub)),
        Token::Star => (level::MUL, Infix::Plain(BinaryOp::Mul)),
        Token::Slash => (level::MUL, Infix::Plain(BinaryOp::Div)),
        Token::Percent => (level::MUL, Infix::Plain(BinaryOp::Mod)),
        _ => return None,
    })
}

fn combine(operator: Infix, left: Expr, right: Expr) -> Expr {
    match operator {
        Infix::And => Expr::And(Box::new([left, right])),
        Infix::Or => Expr::Or(Box::new([left, right])),
        Infix::Plain(operator) => Expr::Binary(operator, Box::new([left, right])),
        Infix::Swapped(operator) => Expr::Binary(operator, Box::new([right, left])),
        Infix::Is | Infix::Postfix { .. } => left,
    }
}

fn is_value(left: Expr, value: Value, is_negated: bool) -> Expr {
    let is = Expr::Is(Box::new(left), value);
    if is_negated { Expr::Not(Box::new(is)) } else { is }
}
