//! Values: their types, the texts that stand for them, and what may be the name of one.

pub(crate) mod calendar;
pub(crate) mod captured_words;
pub(crate) mod kind;
pub(crate) mod text;

/// Most characters of a name.
pub(crate) const NAME_CHARS_MAX: usize = 63;

/// A name that expressions, scripts and SQL know without quotes.
pub(crate) fn is_identifier(name: &str) -> bool {
    let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_';
    !name.is_empty()
        && name.len() <= NAME_CHARS_MAX
        && name.chars().all(is_part)
        && !name.starts_with(|c: char| c.is_ascii_digit())
}
