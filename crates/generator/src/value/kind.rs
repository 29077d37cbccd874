//! Types of values, and what converts to what without being asked: int to float or decimal, nothing else.

use std::fmt;

/// Largest scale of a decimal: 10^18 is the last power of ten in 64 bits.
pub(crate) const SCALE_MAX: u8 = 18;

/// The type of a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Type {
    /// 64 bits, checked.
    Int,
    /// A double.
    Float,
    /// An int that counts powers of ten: so many digits after the point.
    Decimal(u8),
    /// True or false.
    Bool,
    /// Characters.
    Text,
    /// Bytes, written as `bytea` in hex.
    Bytes,
    /// A day.
    Date,
    /// Microseconds, UTC.
    Timestamp,
    /// A length of time: what `days` and `seconds` give, for sums with timestamps.
    Interval,
    /// A UUID.
    Uuid,
    /// A JSON document.
    Json,
    /// An array of values of one type.
    List(Box<Type>),
    /// An embedding, as pgvector's `vector`.
    Vector,
}

impl Type {
    /// Whether values are numbers to compute with.
    pub fn is_number(&self) -> bool {
        matches!(self, Type::Int | Type::Float | Type::Decimal(_))
    }

    /// Whether values are 64 bits with an order.
    pub(crate) fn is_word(&self) -> bool {
        matches!(
            self,
            Type::Int | Type::Decimal(_) | Type::Bool | Type::Date | Type::Timestamp | Type::Interval
        )
    }
}

impl fmt::Display for Type {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = match self {
            Type::Int => "int",
            Type::Float => "float",
            Type::Decimal(scale) => return write!(f, "decimal with {scale} digits after the point"),
            Type::Bool => "bool",
            Type::Text => "text",
            Type::Bytes => "bytes",
            Type::Date => "date",
            Type::Timestamp => "timestamp",
            Type::Interval => "interval",
            Type::Uuid => "uuid",
            Type::Json => "json",
            Type::List(element) => return write!(f, "list of {element}"),
            Type::Vector => "vector",
        };
        f.write_str(name)
    }
}

/// 10^`scale`; at most 10^18.
pub(crate) fn power_of_ten(scale: u8) -> i64 {
    10i64.pow(u32::from(scale.min(SCALE_MAX)))
}
