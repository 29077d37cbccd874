//! Files and directories that another user may have prepared: nothing here follows a link in the last part of a path,
//! waits for a pipe, or reads more than was asked for. What the user named may be a link or a pipe. Records are written so that a power cut leaves them whole. What the
//! bytes mean is not its business.

mod durable;
mod named;
mod regular;
pub mod trust;

pub use durable::{PRIVATE, create_private_dir_all, replace, replace_by, sync_parent, temporary_name};
pub use named::{read_named, read_standard_input};
pub use regular::{create, create_new, lock_file, open, open_with, read};
