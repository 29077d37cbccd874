//! Files and directories that another user may have prepared: nothing here follows a link in the last part of a path,
//! waits for a pipe, or reads more than was asked for. Records are written so that a power cut leaves them whole. What the
//! bytes mean is not its business.

mod durable;
mod regular;
pub mod trust;

pub use durable::{PRIVATE, create_private_dir_all, replace, replace_by, sync_parent, temporary_name};
pub use regular::{create, create_new, lock_file, open, open_with, read};
