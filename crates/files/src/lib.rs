//! Files and directories that another user may have prepared. Nothing here follows a symbolic link in the last
//! component of a path, blocks on a pipe, or reads more than was asked for, except that a file named by the user may be
//! a link or a pipe. Records are written so that they survive a power failure whole. What the bytes mean is not this
//! crate's business.

mod durable;
mod hash;
mod named;
mod owner;
mod random;
mod regular;
pub mod trust;

pub use durable::{PRIVATE, create_private_dir_all, replace, replace_by, sync_parent, temporary_name};
pub use hash::{sha256, sha256_of};
pub use named::{read_named, read_standard_input};
pub use owner::Owner;
pub use random::random_hex;
pub use regular::{create, create_new, lock_file, open, open_with, read};
