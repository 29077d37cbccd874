//! How people write numbers and words, and what is hidden or shown of what others wrote.

pub mod prose;
pub mod units;
pub mod visible;
pub(crate) mod word_enum;
