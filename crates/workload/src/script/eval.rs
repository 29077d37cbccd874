//! Evaluation of expressions against one client's variables.
//!
//! The rules are pgbench's: any double makes arithmetic double, integers never wrap, NULL spreads, AND, OR and CASE
//! are lazy. Nothing is allocated unless something fails, `debug` is called, or an expression computes with a parameter that is no
//! integer.

use crate::number;
use crate::random::{self, Prng};
use crate::script::declared::draws::{ParameterDraws, ParameterPlace};
use crate::script::expr::{BinaryOp, Expr};
use crate::script::function::Function;
use crate::script::value::{EvalError, Value};
use crate::script::variables::{VariableId, VariableTable};

/// Most arguments a function accepts, as in pgbench.
pub const ARGUMENTS_MAX: usize = 16;

/// The value of one variable of one client.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Slot {
    /// Nothing was assigned yet.
    #[default]
    Unset,
    /// A typed value.
    Value(Value),
    /// Text of unknown type, and its value once an expression asked for it.
    Text(Box<[u8]>, Option<Value>),
    /// A text that is a literal wherever it stands: it is quoted in the simple protocol.
    Literal(Box<[u8]>),
    /// What the client's draws have for a parameter.
    Parameter {
        /// Which one.
        place: ParameterPlace,
        /// Whether it is quoted in the simple protocol.
        is_literal: bool,
    },
}

/// The state that an expression may read and change.
pub struct EvalScope<'a> {
    /// Names, for messages.
    pub names: &'a VariableTable,
    /// The client's variables.
    pub slots: &'a mut [Slot],
    /// The client's draws, if its scripts have parameters.
    pub draws: Option<&'a ParameterDraws>,
    /// The client's random stream.
    pub prng: &'a mut Prng,
    /// Which command is running, from 0.
    pub command: usize,
    /// Where `debug` leaves its argument.
    pub debug: &'a mut Vec<DebugLine>,
}

/// The arguments of one call of `debug`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DebugLine {
    /// Command of the script, from 0.
    pub command: usize,
    /// The argument.
    pub value: Value,
}

impl DebugLine {
    /// The line that pgbench prints, without a newline; `script` counts from 0.
    pub fn text(&self, script: usize) -> String {
        format!("debug(script={script},command={}): {}", self.command + 1, self.value)
    }
}

/// The value of `expr`.
///
/// # Errors
/// When the expression has no value; the text is pgbench's.
pub fn evaluate(expr: &Expr, scope: &mut EvalScope<'_>) -> Result<Value, EvalError> {
    match expr {
        Expr::Constant(value) => Ok(*value),
        Expr::Variable(id) => variable(*id, scope),
        Expr::Binary(operator, operands) => {
            let left = leaf_or_tree(&operands[0], scope)?;
            let right = leaf_or_tree(&operands[1], scope)?;
            binary(*operator, left, right)
        }
        Expr::And(operands) => lazy(operands, false, scope),
        Expr::Or(operands) => lazy(operands, true, scope),
        Expr::Not(operand) => match evaluate(operand, scope)? {
            Value::Null => Ok(Value::Null),
            value => value.to_bool().map(|truth| Value::Bool(!truth)),
        },
        Expr::Is(operand, wanted) => evaluate(operand, scope).map(|value| Value::Bool(value == *wanted)),
        Expr::Case(branches, otherwise) => {
            for (condition, result) in branches {
                if evaluate(condition, scope)?.is_true() {
                    return evaluate(result, scope);
                }
            }
            evaluate(otherwise, scope)
        }
        Expr::Call(function, arguments) => call(*function, arguments, scope),
        Expr::Draw { lo, hi } => Ok(Value::Int(random::random(scope.prng, *lo, *hi))),
    }
}

/// As [`evaluate`], but constants and variables, of which expressions mostly consist, cost no call.
#[inline(always)]
fn leaf_or_tree(expr: &Expr, scope: &mut EvalScope<'_>) -> Result<Value, EvalError> {
    match expr {
        Expr::Constant(value) => Ok(*value),
        Expr::Variable(id) => match scope.slots[id.index()] {
            Slot::Value(value) | Slot::Text(_, Some(value)) => Ok(value),
            _ => variable(*id, scope),
        },
        _ => evaluate(expr, scope),
    }
}

/// AND and OR: the left operand decides alone when it equals `decisive`, or is NULL.
fn lazy(operands: &[Expr; 2], decisive: bool, scope: &mut EvalScope<'_>) -> Result<Value, EvalError> {
    for operand in operands {
        match evaluate(operand, scope)? {
            Value::Null => return Ok(Value::Null),
            value if value.to_bool()? == decisive => return Ok(Value::Bool(decisive)),
            _ => {}
        }
    }
    Ok(Value::Bool(!decisive))
}

fn variable(id: VariableId, scope: &mut EvalScope<'_>) -> Result<Value, EvalError> {
    match &mut scope.slots[id.index()] {
        Slot::Value(value) | Slot::Text(_, Some(value)) => Ok(*value),
        Slot::Text(text, typed) => {
            let value = value_of_text(scope.names.name(id), text)?;
            *typed = Some(value);
            Ok(value)
        }
        Slot::Literal(text) => value_of_text(scope.names.name(id), text),
        Slot::Parameter { place, .. } => {
            let mut text = Vec::new();
            if scope.draws.is_some_and(|draws| draws.write(*place, &mut text)) {
                value_of_text(scope.names.name(id), &text)
            } else {
                Ok(Value::Null)
            }
        }
        Slot::Unset => Err(EvalError::Undefined(scope.names.name(id).to_owned())),
    }
}

/// Types a variable's text: null, a boolean word or a prefix of one, an integer, a double.
pub fn value_of_text(name: &str, bytes: &[u8]) -> Result<Value, EvalError> {
    let malformed =
        || EvalError::Malformed { name: name.to_owned(), text: String::from_utf8_lossy(bytes).into_owned() };
    let text = std::str::from_utf8(bytes).map_err(|_| malformed())?;
    if text.is_empty() {
        return Err(EvalError::Empty(name.to_owned()));
    }
    let is = |word: &str| text.eq_ignore_ascii_case(word);
    let starts = |word: &str| word.get(..text.len()).is_some_and(is);
    if is("null") {
        return Ok(Value::Null);
    }
    if starts("true") || starts("yes") || is("on") {
        return Ok(Value::Bool(true));
    }
    if starts("false") || starts("no") || is("off") || is("of") {
        return Ok(Value::Bool(false));
    }
    if number::looks_like_int(text) {
        let digits = text.trim_start_matches(number::is_c_space);
        return match digits.parse() {
            Ok(int) => Ok(Value::Int(int)),
            Err(_) if digits.bytes().any(|byte| byte.is_ascii_digit()) => {
                Err(EvalError::IntText(text.to_owned()))
            }
            Err(_) => Err(EvalError::IntSyntax(text.to_owned())),
        };
    }
    number::parse_double(text).map(Value::Double).ok_or_else(malformed)
}

fn binary(operator: BinaryOp, left: Value, right: Value) -> Result<Value, EvalError> {
    use BinaryOp::{BitAnd, BitOr, BitXor, Mod, ShiftLeft, ShiftRight};
    if left == Value::Null || right == Value::Null {
        return Ok(Value::Null);
    }
    let is_int_only = matches!(operator, Mod | BitAnd | BitOr | BitXor | ShiftLeft | ShiftRight);
    let any_double = matches!(left, Value::Double(_)) || matches!(right, Value::Double(_));
    if any_double && !is_int_only {
        return Ok(binary_double(operator, left.to_double()?, right.to_double()?));
    }
    binary_int(operator, left.to_int()?, right.to_int()?)
}

fn binary_double(operator: BinaryOp, left: f64, right: f64) -> Value {
    match operator {
        BinaryOp::Add => Value::Double(left + right),
        BinaryOp::Sub => Value::Double(left - right),
        BinaryOp::Mul => Value::Double(left * right),
        BinaryOp::Div => Value::Double(left / right),
        BinaryOp::Equal => Value::Bool(left == right),
        BinaryOp::NotEqual => Value::Bool(left != right),
        BinaryOp::LessEqual => Value::Bool(left <= right),
        BinaryOp::Less => Value::Bool(left < right),
        BinaryOp::Mod
        | BinaryOp::BitAnd
        | BinaryOp::BitOr
        | BinaryOp::BitXor
        | BinaryOp::ShiftLeft
        | BinaryOp::ShiftRight => unreachable!("`binary` sends integer operators to `binary_int`"),
    }
}

fn binary_int(operator: BinaryOp, left: i64, right: i64) -> Result<Value, EvalError> {
    let overflow = |name| EvalError::IntOverflow(name);
    Ok(match operator {
        BinaryOp::Add => Value::Int(left.checked_add(right).ok_or_else(|| overflow("add"))?),
        BinaryOp::Sub => Value::Int(left.checked_sub(right).ok_or_else(|| overflow("sub"))?),
        BinaryOp::Mul => Value::Int(left.checked_mul(right).ok_or_else(|| overflow("mul"))?),
        BinaryOp::Div | BinaryOp::Mod if right == 0 => return Err(EvalError::DivisionByZero),
        BinaryOp::Div => Value::Int(left.checked_div(right).ok_or_else(|| overflow("div"))?),
        // The remainder by -1 is 0 for any dividend, the smallest included.
        BinaryOp::Mod => Value::Int(left.wrapping_rem(right)),
        BinaryOp::Equal => Value::Bool(left == right),
        BinaryOp::NotEqual => Value::Bool(left != right),
        BinaryOp::LessEqual => Value::Bool(left <= right),
        BinaryOp::Less => Value::Bool(left < right),
        BinaryOp::BitAnd => Value::Int(left & right),
        BinaryOp::BitOr => Value::Int(left | right),
        BinaryOp::BitXor => Value::Int(left ^ right),
        // C leaves large shifts undefined; x86 takes the distance modulo 64, and so do we everywhere.
        BinaryOp::ShiftLeft => Value::Int(left.wrapping_shl(right as u32)),
        BinaryOp::ShiftRight => Value::Int(left.wrapping_shr(right as u32)),
    })
}

/// A call. Most have few arguments: they are spared the room for many.
fn call(function: Function, arguments: &[Expr], scope: &mut EvalScope<'_>) -> Result<Value, EvalError> {
    const FEW: usize = 3;
    match arguments.len() {
        ..=FEW => call_with::<FEW>(function, arguments, scope),
        _ => call_with::<ARGUMENTS_MAX>(function, arguments, scope),
    }
}

#[inline(never)]
fn call_with<const N: usize>(
    function: Function,
    arguments: &[Expr],
    scope: &mut EvalScope<'_>,
) -> Result<Value, EvalError> {
    let mut values = [Value::Null; N];
    for (value, argument) in values.iter_mut().zip(arguments) {
        *value = leaf_or_tree(argument, scope)?;
    }
    if arguments.len() > ARGUMENTS_MAX {
        return Err(EvalError::TooManyArguments(ARGUMENTS_MAX));
    }
    let values = &values[..arguments.len()];
    if function == Function::Debug {
        scope.debug.push(DebugLine { command: scope.command, value: values[0] });
        return Ok(values[0]);
    }
    if values.contains(&Value::Null) {
        return Ok(Value::Null);
    }
    match function {
        Function::Random
        | Function::RandomExponential
        | Function::RandomGaussian
        | Function::RandomZipfian => draw(function, values, scope.prng),
        Function::Least | Function::Greatest => extremum(function, values),
        Function::HashFnv1a => Ok(Value::Int(random::hash_fnv1a(values[0].to_int()?, values[1].to_int()?))),
        Function::HashMurmur2 => {
            Ok(Value::Int(random::hash_murmur2(values[0].to_int()?, values[1].to_int()?)))
        }
        Function::Permute => {
            let (value, size, seed) = (values[0].to_int()?, values[1].to_int()?, values[2].to_int()?);
            if size <= 0 {
                return Err(EvalError::PermuteSize);
            }
            Ok(Value::Int(random::permute(value, size, seed)))
        }
        Function::Int => values[0].to_int().map(Value::Int),
        Function::Mod => binary(BinaryOp::Mod, values[0], values[1]),
        Function::Abs if matches!(values[0], Value::Int(_)) => {
            values[0].to_int().map(|int| Value::Int(int.wrapping_abs()))
        }
        _ => arithmetic(function, values),
    }
}

/// Functions from doubles to a double.
fn arithmetic(function: Function, values: &[Value]) -> Result<Value, EvalError> {
    if function == Function::Pi {
        return Ok(Value::Double(std::f64::consts::PI));
    }
    let x = values[0].to_double()?;
    Ok(Value::Double(match function {
        Function::Abs if x < 0.0 => -x,
        Function::Sqrt => x.sqrt(),
        Function::Ln => x.ln(),
        Function::Exp => x.exp(),
        Function::Power => x.powf(values[1].to_double()?),
        _ => x,
    }))
}

/// Whether a number can be drawn from `lo..=hi`.
pub(crate) fn check_range(lo: i64, hi: i64) -> Result<(), EvalError> {
    if lo > hi {
        return Err(EvalError::EmptyRange);
    }
    match hi.checked_sub(lo).and_then(|width| width.checked_add(1)) {
        Some(_) => Ok(()),
        None => Err(EvalError::HugeRange),
    }
}

fn draw(function: Function, values: &[Value], prng: &mut Prng) -> Result<Value, EvalError> {
    let (lo, hi) = (values[0].to_int()?, values[1].to_int()?);
    check_range(lo, hi)?;
    if function == Function::Random {
        return Ok(Value::Int(random::random(prng, lo, hi)));
    }
    let parameter = values[2].to_double()?;
    Ok(Value::Int(match function {
        Function::RandomGaussian if parameter < random::GAUSSIAN_PARAMETER_MIN => {
            return Err(EvalError::Gaussian(parameter));
        }
        Function::RandomGaussian => random::random_gaussian(prng, lo, hi, parameter),
        Function::RandomZipfian
            // So that NaN, with which the rejection would never end, is refused too.
            if !(random::ZIPFIAN_PARAMETER_MIN..=random::ZIPFIAN_PARAMETER_MAX).contains(&parameter) =>
        {
            return Err(EvalError::Zipfian(parameter));
        }
        Function::RandomZipfian => random::random_zipfian(prng, lo, hi, parameter),
        _ if parameter <= 0.0 => return Err(EvalError::Exponential(parameter)),
        _ => random::random_exponential(prng, lo, hi, parameter),
    }))
}

/// `least` and `greatest`: double if any argument is.
fn extremum(function: Function, values: &[Value]) -> Result<Value, EvalError> {
    let is_least = function == Function::Least;
    if values.iter().any(|value| matches!(value, Value::Double(_))) {
        let mut best = values[0].to_double()?;
        for value in &values[1..] {
            let candidate = value.to_double()?;
            // C's Min and Max macros: a NaN candidate replaces what was best.
            let keeps = if is_least { best < candidate } else { best > candidate };
            best = if keeps { best } else { candidate };
        }
        return Ok(Value::Double(best));
    }
    let mut best = values[0].to_int()?;
    for value in &values[1..] {
        let candidate = value.to_int()?;
        best = if is_least { best.min(candidate) } else { best.max(candidate) };
    }
    Ok(Value::Int(best))
}
