//! The conversions that nobody has to ask for: int to float, int to decimal, and a decimal to one of more digits.

use super::{Type, scaled};
use crate::expression::compile::Compiler;
use crate::expression::node::{Code, Facts, FloatFn, Node, Reach};
use crate::expression::parse::{ExpressionError, Part};
use crate::value::kind::power_of_ten;

/// An int or a float as a float.
pub(in crate::expression) fn to_float(
    compiler: &Compiler<'_>,
    part: &Part,
    node: Node,
) -> Result<(FloatFn, Facts), ExpressionError> {
    let Node { kind, code, facts } = node;
    match (kind, code) {
        (_, Code::Float(code)) => Ok((code, facts)),
        (Type::Int, Code::Word(code)) => {
            let reach = match facts.reach {
                Reach::Words(low, high) => Reach::Floats(low as f64, high as f64),
                other => other,
            };
            Ok((Box::new(move |g, f| code(g, f).map(|word| word as f64)), Facts { reach, ..facts }))
        }
        (kind, _) => Err(compiler.problem(part, format!("this has to be a number, not {kind}"))),
    }
}

/// An int or a decimal as a decimal of this scale, which is not less than its own.
pub(in crate::expression) fn to_decimal(
    compiler: &Compiler<'_>,
    part: &Part,
    node: Node,
    scale: u8,
) -> Result<Node, ExpressionError> {
    let own = match node.kind {
        Type::Decimal(own) => own,
        _ => 0,
    };
    if own == scale {
        return Ok(Node { kind: Type::Decimal(scale), ..node });
    }
    scaled(compiler, part, node, Type::Decimal(scale), power_of_ten(scale.saturating_sub(own)))
}

/// Alternatives of one type: that of all of them, or the number to which all convert.
pub(in crate::expression) fn alike(
    compiler: &Compiler<'_>,
    part: &Part,
    nodes: Vec<Node>,
) -> Result<Vec<Node>, ExpressionError> {
    let Some(first) = nodes.first() else { return Ok(nodes) };
    if nodes.iter().all(|node| node.kind == first.kind) {
        return Ok(nodes);
    }
    let is_all = |fits: fn(&Type) -> bool| nodes.iter().all(|node| fits(&node.kind));
    if is_all(|kind| matches!(kind, Type::Int | Type::Float)) {
        let converted = nodes.into_iter().map(|node| to_float(compiler, part, node));
        return converted
            .map(|converted| {
                converted.map(|(code, facts)| Node { kind: Type::Float, code: Code::Float(code), facts })
            })
            .collect();
    }
    if is_all(|kind| matches!(kind, Type::Int | Type::Decimal(_))) {
        let scale = |node: &Node| if let Type::Decimal(scale) = node.kind { scale } else { 0 };
        let scale = nodes.iter().map(scale).max().unwrap_or(0);
        return nodes.into_iter().map(|node| to_decimal(compiler, part, node, scale)).collect();
    }
    let other = nodes.iter().find(|node| node.kind != first.kind).map_or(&first.kind, |node| &node.kind);
    let message = format!("{} and {other} are not of one type, and nothing but int converts", first.kind);
    Err(compiler.problem(part, message))
}
