//! Comparisons and the logic of three values: a comparison with null is null.

use super::{Binary, Type, alike};
use crate::expression::compile::Compiler;
use crate::expression::make::Generator;
use crate::expression::node::{Code, Facts, Node, TextFn};
use crate::expression::parse::{ExpressionError, Part};

/// Whether an order is what an operator asks for.
#[derive(Clone, Copy)]
struct Ordered(Binary);

impl Ordered {
    fn holds<T: PartialOrd>(self, left: &T, right: &T) -> i64 {
        let holds = match self.0 {
            Binary::Equal => left == right,
            Binary::Unequal => left != right,
            Binary::Less => left < right,
            Binary::LessOrEqual => left <= right,
            Binary::Greater => left > right,
            _ => left >= right,
        };
        i64::from(holds)
    }
}

pub(super) fn comparison(
    compiler: &Compiler<'_>,
    part: &Part,
    operator: Binary,
    operands: [Node; 2],
) -> Result<Node, ExpressionError> {
    let facts = Facts::combined(operands.iter().map(|node| &node.facts));
    let facts = Facts { has_specials: false, ..facts }.with_reach(0, 1);
    let ordered = Ordered(operator);
    let mut nodes = alike(compiler, part, operands.into())?.into_iter();
    let (Some(left), Some(right)) = (nodes.next(), nodes.next()) else {
        return Ok(Node::word(Type::Bool, facts, |_, _| None));
    };
    let kind = left.kind;
    match (left.code, right.code) {
        (Code::Word(left), Code::Word(right)) => Ok(Node::word(Type::Bool, facts, move |g, f| {
            let a = left(g, f);
            let b = right(g, f);
            Some(ordered.holds(&a?, &b?))
        })),
        (Code::Float(left), Code::Float(right)) => Ok(Node::word(Type::Bool, facts, move |g, f| {
            let a = left(g, f);
            let b = right(g, f);
            Some(ordered.holds(&a?, &b?))
        })),
        (Code::Text(left), Code::Text(right)) if matches!(kind, Type::Text | Type::Uuid) => {
            Ok(texts(facts, ordered, [left, right]))
        }
        _ => Err(compiler.problem(part, format!("{kind} cannot be compared"))),
    }
}

/// Compares bytes, as the collation "C".
fn texts(facts: Facts, ordered: Ordered, operands: [TextFn; 2]) -> Node {
    let [left, right] = operands;
    Node::word(Type::Bool, facts, move |g: &Generator, f| {
        let mut a = f.borrow();
        let mut b = f.borrow();
        let is_there = left(g, f, &mut a) & right(g, f, &mut b);
        let holds = if is_there { Some(ordered.holds(&a, &b)) } else { None };
        f.give(a);
        f.give(b);
        holds
    })
}

/// `and` and `or`. The right operand is evaluated only if the left one does not decide.
pub(super) fn logical(
    compiler: &Compiler<'_>,
    part: &Part,
    operator: Binary,
    operands: [Node; 2],
) -> Result<Node, ExpressionError> {
    let facts = Facts::combined(operands.iter().map(|node| &node.facts)).with_reach(0, 1);
    let [left, right] = operands;
    let symbol = operator.symbol();
    if let Some(kind) = [&left.kind, &right.kind].into_iter().find(|kind| **kind != Type::Bool) {
        return Err(compiler.problem(part, format!("`{symbol}` takes bools, not {kind}")));
    }
    let (Code::Word(left), Code::Word(right)) = (left.code, right.code) else {
        return Err(compiler.problem(part, format!("`{symbol}` takes bools")));
    };
    let decisive = i64::from(operator == Binary::Or);
    Ok(Node::word(Type::Bool, facts, move |g, f| {
        let a = left(g, f);
        if a == Some(decisive) {
            return a;
        }
        let b = right(g, f);
        // A null does not decide: the other operand does, or the result is null.
        if b == Some(decisive) { b } else { a.and(b) }
    }))
}
