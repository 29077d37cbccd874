//! Values as logs have them.

/// A parameter's value in the text form of its type.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LoggedValue {
    /// NULL.
    Null,
    /// The whole value.
    Text(String),
    /// The beginning of a value that `log_parameter_max_length` has cut.
    Truncated(String),
}
