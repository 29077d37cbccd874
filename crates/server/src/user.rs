//! The user that a server runs as, and files that belong to that user.

pub mod account;
pub(crate) mod beneath;
pub(crate) mod given;
pub(crate) mod rights;
pub mod untrusted;
