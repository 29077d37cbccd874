//! The user that a server runs as, and that user's files.

pub mod account;
pub(crate) mod given;
pub(crate) mod held_dir;
pub(crate) mod rights;
pub mod untrusted;
