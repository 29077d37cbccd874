//! Our own server from its start to its stop.

pub mod huge_pages;
pub mod launch;
pub mod numa;
