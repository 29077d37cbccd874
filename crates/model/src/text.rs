//! How people write numbers and words, and how text from others is displayed.

pub mod columns;
pub mod encoding;
pub mod mark;
pub mod nearest;
pub mod process_title;
pub mod prose;
pub mod share;
pub mod shell;
pub mod units;
pub mod visible;
pub(crate) mod word_enum;
