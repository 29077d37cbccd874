//! Operators: which types they take, the interval of the result, and code that checks each value.
//!
//! An interval that leaves the type is an error when the plan is made. Where the interval of an operand is not known
//! (a variable of a script, a row that a client inserts), each value is checked.

mod comparison;
mod conversion;

pub(super) use conversion::{alike, to_decimal, to_float};

use super::compile::Compiler;
use super::node::{Code, Facts, FloatFn, Node, Reach, WordFn};
use super::parse::{Binary, ExpressionError, Part, Unary};
use crate::value::calendar::{DATE_MAX, DATE_MIN, DAY_US, TIMESTAMP_MAX, TIMESTAMP_MIN};
use crate::value::kind::{SCALE_MAX, Type};

pub(super) fn unary(
    compiler: &Compiler<'_>,
    part: &Part,
    operator: Unary,
    node: Node,
) -> Result<Node, ExpressionError> {
    let Node { kind, code, facts } = node;
    let combined = Facts { is_unique: facts.is_unique, ..Facts::combined([&facts]) };
    match (operator, code) {
        (Unary::Not, Code::Word(code)) if kind == Type::Bool => {
            Ok(Node::word(kind, combined.with_reach(0, 1), move |g, f| code(g, f).map(|word| 1 - word)))
        }
        (Unary::Minus, Code::Float(code)) => {
            let reach = facts.floats().map_or(Reach::Unknown, |(low, high)| Reach::Floats(-high, -low));
            Ok(Node::float(Facts { reach, ..combined }, move |g, f| code(g, f).map(|value| -value)))
        }
        (Unary::Minus, Code::Word(code)) if kind.is_number() || kind == Type::Interval => {
            let zero: WordFn = Box::new(|_, _| Some(0));
            let zero = Words { code: zero, facts: Facts::constant().with_reach(0, 0), constant: Some(0) };
            let operand = Words { code, facts, constant: None };
            words(compiler, part, Binary::Subtract, kind, [zero, operand])
        }
        (Unary::Not, _) => Err(compiler.problem(part, format!("`not` takes a bool, not {kind}"))),
        (Unary::Minus, _) => Err(compiler.problem(part, format!("`-` takes a number, not {kind}"))),
    }
}

pub(super) fn binary(
    compiler: &Compiler<'_>,
    part: &Part,
    operator: Binary,
    operands: [Node; 2],
) -> Result<Node, ExpressionError> {
    match operator {
        Binary::And | Binary::Or => comparison::logical(compiler, part, operator, operands),
        Binary::Add | Binary::Subtract | Binary::Multiply | Binary::Divide | Binary::Remainder => {
            arithmetic(compiler, part, operator, operands)
        }
        _ => comparison::comparison(compiler, part, operator, operands),
    }
}

fn arithmetic(
    compiler: &Compiler<'_>,
    part: &Part,
    operator: Binary,
    operands: [Node; 2],
) -> Result<Node, ExpressionError> {
    let [left, right] = operands;
    let unfit = || {
        let message = format!("`{}` of {} and {} is not defined", operator.symbol(), left.kind, right.kind);
        compiler.problem(part, message + hint(operator, &left.kind, &right.kind))
    };
    use Binary::{Add, Divide, Multiply, Subtract};
    use Type::{Date, Decimal, Float, Int, Interval, Timestamp};
    let kind = match (operator, &left.kind, &right.kind) {
        (_, Int, Int) => Int,
        (_, Float, Float | Int) | (_, Int, Float) => Float,
        (Add | Subtract, Decimal(a), Decimal(b)) => Decimal(*a.max(b)),
        (Add | Subtract, Decimal(a), Int) | (Add | Subtract, Int, Decimal(a)) => Decimal(*a),
        (Multiply, Decimal(a), Decimal(b)) if a + b <= SCALE_MAX => Decimal(a + b),
        (Multiply, Decimal(a), Int) | (Multiply, Int, Decimal(a)) => Decimal(*a),
        (Add, Date, Int) | (Add, Int, Date) | (Subtract, Date, Int) => Date,
        (Subtract, Date, Date) => Int,
        (Add, Timestamp | Date, Interval) | (Add, Interval, Timestamp | Date) => Timestamp,
        (Subtract, Timestamp | Date, Interval) => Timestamp,
        (Subtract, Timestamp, Timestamp) | (Add | Subtract, Interval, Interval) => Interval,
        (Multiply, Interval, Int) | (Multiply, Int, Interval) | (Divide, Interval, Int) => Interval,
        _ => return Err(unfit()),
    };
    if kind == Float {
        let left = to_float(compiler, part, left)?;
        let right = to_float(compiler, part, right)?;
        return Ok(floats(operator, [left, right]));
    }
    let adapted = |node: Node| match (&kind, &node.kind) {
        (Decimal(scale), Int | Decimal(_)) if operator != Multiply => {
            to_decimal(compiler, part, node, *scale)
        }
        (Timestamp, Date) => days_to_timestamp(compiler, part, node),
        _ => Ok(node),
    };
    let left = adapted(left)?;
    let right = adapted(right)?;
    let operands = [Words::from_node(left), Words::from_node(right)];
    let [Some(left), Some(right)] = operands else {
        return Err(compiler.problem(part, "these operands are no numbers".to_string()));
    };
    words(compiler, part, operator, kind, [left, right])
}

fn hint(operator: Binary, left: &Type, right: &Type) -> &'static str {
    match (left, right) {
        (Type::Timestamp, Type::Int | Type::Float) => "; write `days(…)` or `seconds(…)`",
        (Type::Date, Type::Float) => "; a day more is `+ 1`",
        (Type::Decimal(_), Type::Float) | (Type::Float, Type::Decimal(_)) => {
            "; write the constant as `decimal(5, 1)` for 0.5, or convert with `float(…)`"
        }
        (Type::Decimal(_), _) if operator == Binary::Divide => {
            "; convert with `float(…)`, then `round(…, digits)`"
        }
        (Type::Decimal(_), Type::Decimal(_)) => {
            "; more than 18 digits after the point: use `round(…, digits)` before"
        }
        (Type::Text, _) | (_, Type::Text) => "; texts are joined by `concat(a, b)`",
        _ => "",
    }
}

fn days_to_timestamp(compiler: &Compiler<'_>, part: &Part, node: Node) -> Result<Node, ExpressionError> {
    scaled(compiler, part, node, Type::Timestamp, DAY_US)
}

/// Words times a constant, as another type.
pub(super) fn scaled(
    compiler: &Compiler<'_>,
    part: &Part,
    node: Node,
    kind: Type,
    factor: i64,
) -> Result<Node, ExpressionError> {
    let unit: WordFn = Box::new(move |_, _| Some(factor));
    let facts = Facts::constant().with_reach(i128::from(factor), i128::from(factor));
    let unit = Words { code: unit, facts, constant: Some(factor) };
    match Words::from_node(node) {
        Some(node) => words(compiler, part, Binary::Multiply, kind, [node, unit]),
        None => Err(compiler.problem(part, format!("this is no {kind}"))),
    }
}

/// An operand of 64 bits.
struct Words {
    code: WordFn,
    facts: Facts,
    constant: Option<i64>,
}

impl Words {
    fn from_node(node: Node) -> Option<Words> {
        let constant = node.constant_word();
        let Node { code: Code::Word(code), facts, .. } = node else { return None };
        Some(Words { code, facts, constant })
    }
}

/// Least and largest word of a type.
pub(super) fn bounds(kind: &Type) -> (i64, i64) {
    match kind {
        Type::Date => (DATE_MIN, DATE_MAX),
        Type::Timestamp => (TIMESTAMP_MIN, TIMESTAMP_MAX),
        _ => (i64::MIN, i64::MAX),
    }
}

fn beyond(kind: &Type) -> &'static str {
    match kind {
        Type::Date | Type::Timestamp => "beyond the years 1 to 9999",
        _ => "beyond 64 bits",
    }
}

fn words(
    compiler: &Compiler<'_>,
    part: &Part,
    operator: Binary,
    kind: Type,
    operands: [Words; 2],
) -> Result<Node, ExpressionError> {
    let [left, right] = operands;
    let mut facts = Facts::combined([&left.facts, &right.facts]);
    let is_known = ![&left.facts, &right.facts].iter().any(|facts| facts.reach == Reach::Unknown);
    if is_known {
        let (low, high) = interval(operator, left.facts.words(), right.facts.words())
            .ok_or_else(|| compiler.problem(part, format!("`{}` by zero", operator.symbol())))?;
        let (least, most) = bounds(&kind);
        if low < i128::from(least) || high > i128::from(most) {
            let end = if high > i128::from(most) { high } else { low };
            let message = format!("`{}` can reach {end}, which is {}", operator.symbol(), beyond(&kind));
            return Err(compiler.problem(part, message));
        }
        facts.reach = Reach::Words(low, high);
    }
    facts.is_unique = match operator {
        Binary::Add | Binary::Subtract => {
            left.facts.is_unique && right.constant.is_some()
                || left.constant.is_some() && right.facts.is_unique
        }
        Binary::Multiply => {
            let is_factor = |constant: Option<i64>| constant.is_some_and(|factor| factor != 0);
            left.facts.is_unique && is_factor(right.constant)
                || is_factor(left.constant) && right.facts.is_unique
        }
        _ => false,
    };
    let calculate: fn(i64, i64) -> Option<i64> = match operator {
        Binary::Add => i64::checked_add,
        Binary::Subtract => i64::checked_sub,
        Binary::Multiply => i64::checked_mul,
        Binary::Divide => divide,
        _ => remainder,
    };
    let (least, most) = bounds(&kind);
    let symbol = operator.symbol();
    let beyond = beyond(&kind);
    let Words { code: left, .. } = left;
    let Words { code: right, constant, .. } = right;
    let checked = move |frame: &mut super::make::Frame, a: i64, b: i64| {
        let value = calculate(a, b).filter(|value| (least..=most).contains(value));
        if value.is_none() {
            let divides_by_zero = b == 0 && (symbol == "/" || symbol == "%");
            let why = if divides_by_zero { "not defined" } else { beyond };
            frame.fail(format!("{a} {symbol} {b} is {why}"));
        }
        value
    };
    if let Some(b) = constant {
        return Ok(Node::word(kind, facts, move |g, f| left(g, f).and_then(|a| checked(f, a, b))));
    }
    Ok(Node::word(kind, facts, move |g, f| {
        let a = left(g, f);
        let b = right(g, f);
        checked(f, a?, b?)
    }))
}

/// Rounds down, unlike Rust's.
fn divide(a: i64, b: i64) -> Option<i64> {
    let quotient = a.checked_div(b)?;
    if a % b != 0 && (a < 0) != (b < 0) { quotient.checked_sub(1) } else { Some(quotient) }
}

/// What [`divide`] leaves: it has the sign of `b`.
fn remainder(a: i64, b: i64) -> Option<i64> {
    let rest = a.checked_rem(b)?;
    if rest != 0 && (rest < 0) != (b < 0) { Some(rest + b) } else { Some(rest) }
}

type Bounds = (i128, i128);

/// The interval of a result; none if it divides by zero alone.
fn interval(operator: Binary, left: Bounds, right: Bounds) -> Option<Bounds> {
    let (a, b) = left;
    let (c, d) = right;
    let hull = |values: &[i128]| {
        let low = values.iter().copied().min()?;
        Some((low, values.iter().copied().max()?))
    };
    match operator {
        Binary::Add => Some((a + c, b + d)),
        Binary::Subtract => Some((a - d, b - c)),
        Binary::Multiply => hull(&[a * c, a * d, b * c, b * d]),
        Binary::Divide => {
            // A quotient is monotone in each operand on either side of zero.
            let divisors =
                [c, d, -1, 1].into_iter().filter(|divisor| *divisor != 0 && c <= *divisor && *divisor <= d);
            let quotients: Vec<i128> =
                divisors.flat_map(|divisor| [floor_divided(a, divisor), floor_divided(b, divisor)]).collect();
            hull(&quotients)
        }
        _ => {
            if c == 0 && d == 0 {
                return None;
            }
            if a >= 0 && c > 0 {
                return Some(if b < c { (a, b) } else { (0, b.min(d - 1)) });
            }
            Some(((c + 1).min(0), (d - 1).max(0)))
        }
    }
}

fn floor_divided(a: i128, b: i128) -> i128 {
    let quotient = a / b;
    if a % b != 0 && (a < 0) != (b < 0) { quotient - 1 } else { quotient }
}

fn floats(operator: Binary, operands: [(FloatFn, Facts); 2]) -> Node {
    let [(left, left_facts), (right, right_facts)] = operands;
    let mut facts = Facts::combined([&left_facts, &right_facts]);
    facts.reach = float_interval(operator, &left_facts, &right_facts);
    let calculate: fn(f64, f64) -> f64 = match operator {
        Binary::Add => |a, b| a + b,
        Binary::Subtract => |a, b| a - b,
        Binary::Multiply => |a, b| a * b,
        Binary::Divide => |a, b| a / b,
        _ => |a, b| a - b * (a / b).floor(),
    };
    let symbol = operator.symbol();
    Node::float(facts, move |g, f| {
        let a = left(g, f);
        let b = right(g, f);
        let (a, b) = (a?, b?);
        let value = calculate(a, b);
        if !value.is_finite() {
            f.fail(format!("{a} {symbol} {b} is not a finite number"));
            return None;
        }
        Some(value)
    })
}

fn float_interval(operator: Binary, left: &Facts, right: &Facts) -> Reach {
    let (Some((a, b)), Some((c, d))) = (left.floats(), right.floats()) else { return Reach::Unknown };
    let ends = match operator {
        Binary::Add => [a + c, b + d, a + c, b + d],
        Binary::Subtract => [a - d, b - c, a - d, b - c],
        Binary::Multiply => [a * c, a * d, b * c, b * d],
        Binary::Divide if c > 0.0 || d < 0.0 => [a / c, a / d, b / c, b / d],
        Binary::Remainder if c > 0.0 => [0.0, d, 0.0, d],
        _ => return Reach::Unknown,
    };
    if ends.iter().any(|end| !end.is_finite()) {
        return Reach::Unknown;
    }
    Reach::Floats(
        ends.iter().copied().fold(f64::INFINITY, f64::min),
        ends.iter().copied().fold(f64::NEG_INFINITY, f64::max),
    )
}
