//! Our own server from its start to its stop.

pub mod archive;
mod certificate;
mod groups;
pub mod huge_pages;
pub mod launch;
pub mod listen;
pub mod numa;
pub mod processes;
pub mod restorer;
pub mod socket;
pub mod upstream;
pub mod wal_images;
