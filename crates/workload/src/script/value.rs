//! Values of expressions, their conversions, and what can go wrong with them.
//!
//! Booleans are not numbers and convert to nothing else; only conditions (`\if`, CASE) accept a number as a boolean.

use std::fmt;

use crate::number;

/// The value of an expression.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum Value {
    /// SQL's NULL.
    #[default]
    Null,
    /// A boolean.
    Bool(bool),
    /// A 64-bit integer.
    Int(i64),
    /// A double.
    Double(f64),
}

/// What becomes of a variable that has no value when a statement needs it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Dialect {
    /// A variable that nothing has set is never sent: the client cannot go on. NULL stays NULL, also that of a row.
    #[default]
    Exact,
    /// As pgbench: a variable that nothing has set is NULL, in the simple protocol its own name; NULL is the text
    /// `NULL`, that of a row an empty text.
    Pgbench,
}

/// What a parameter of a statement is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum BoundParameter {
    /// The text that was appended.
    Text,
    /// NULL.
    Null,
    /// Nothing, because nothing has set the variable: it is not sent.
    Unset,
}

impl Value {
    /// The value as a boolean operand.
    pub fn to_bool(self) -> Result<bool, EvalError> {
        match self {
            Value::Bool(truth) => Ok(truth),
            other => Err(EvalError::Coerce { from: other.type_name(), to: "boolean" }),
        }
    }

    /// As an integer operand; doubles are rounded half to even.
    #[inline]
    pub fn to_int(self) -> Result<i64, EvalError> {
        match self {
            Value::Int(int) => Ok(int),
            Value::Double(double) => {
                let rounded = double.round_ties_even();
                // 2^63 itself does not fit; -2^63 does. NaN fails both.
                if rounded >= i64::MIN as f64 && rounded < -(i64::MIN as f64) {
                    Ok(rounded as i64)
                } else {
                    Err(EvalError::DoubleToInt(rounded))
                }
            }
            other => Err(EvalError::Coerce { from: other.type_name(), to: "int" }),
        }
    }

    /// The value as a double operand.
    #[inline]
    pub fn to_double(self) -> Result<f64, EvalError> {
        match self {
            Value::Double(double) => Ok(double),
            Value::Int(int) => Ok(int as f64),
            other => Err(EvalError::Coerce { from: other.type_name(), to: "double" }),
        }
    }

    /// As a condition: numbers other than zero are true, NULL is false.
    pub fn is_true(self) -> bool {
        match self {
            Value::Null => false,
            Value::Bool(truth) => truth,
            Value::Int(int) => int != 0,
            Value::Double(double) => double != 0.0,
        }
    }

    /// The type's name in messages.
    pub fn type_name(self) -> &'static str {
        match self {
            Value::Null => "null",
            Value::Bool(_) => "boolean",
            Value::Int(_) => "int",
            Value::Double(_) => "double",
        }
    }

    /// Appends the text that stands for this value in SQL.
    #[inline]
    pub fn write_text(self, out: &mut Vec<u8>) {
        match self {
            Value::Null => out.extend_from_slice(b"NULL"),
            Value::Bool(true) => out.extend_from_slice(b"true"),
            Value::Bool(false) => out.extend_from_slice(b"false"),
            Value::Int(int) => number::write_int(out, int),
            Value::Double(double) => number::write_double(out, double),
        }
    }
}

/// What `debug(x)` shows: the type and the value.
impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Value::Null => f.write_str("null"),
            Value::Bool(truth) => write!(f, "boolean {truth}"),
            Value::Int(int) => write!(f, "int {int}"),
            Value::Double(double) => write!(f, "double {}", number::double_to_string(*double)),
        }
    }
}

/// Why an expression has no value. The texts are pgbench's, word for word.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[allow(missing_docs)]
pub enum EvalError {
    #[error("{}", undefined(.0))]
    Undefined(String),
    #[error("variable \"{0}\" is empty")]
    Empty(String),
    #[error("malformed variable \"{name}\" value: \"{text}\"")]
    Malformed { name: String, text: String },
    #[error("value \"{0}\" is out of range for type bigint")]
    IntText(String),
    #[error("invalid input syntax for type bigint: \"{0}\"")]
    IntSyntax(String),
    #[error("cannot coerce {from} to {to}")]
    Coerce { from: &'static str, to: &'static str },
    #[error("double to int overflow for {}", number::c_float(*.0))]
    DoubleToInt(f64),
    #[error("bigint {0} out of range")]
    IntOverflow(&'static str),
    #[error("division by zero")]
    DivisionByZero,
    #[error("too many function arguments, maximum is {0}")]
    TooManyArguments(usize),
    #[error("empty range given to random")]
    EmptyRange,
    #[error("random range is too large")]
    HugeRange,
    #[error("gaussian parameter must be at least 2.000000 (not {})", number::c_float(*.0))]
    Gaussian(f64),
    #[error("zipfian parameter must be in range [1.001, 1000] (not {})", number::c_float(*.0))]
    Zipfian(f64),
    #[error("exponential parameter must be greater than zero (not {})", number::c_float(*.0))]
    Exponential(f64),
    #[error("permute size parameter must be greater than zero")]
    PermuteSize,
}

/// pgbench's words for a variable that nothing has set.
pub(crate) fn undefined(name: &str) -> String {
    format!("undefined variable \"{name}\"")
}
