//! Files and directories that another user may have prepared: nothing here follows a link in the last part of a path,
//! waits for a pipe, or reads more than was asked for. What the bytes mean is not its business.

mod regular;
pub mod trust;

pub use regular::{create, create_new, lock_file, open, open_with, read};
