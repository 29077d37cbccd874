//! A throw-away PostgreSQL for the tests of the other crates: found where it is installed, initialized in a temporary
//! directory, started on a unix socket as an unprivileged user, and ended with the test however that ends.
//!
//! Only tests use this crate. What it cannot do it reports by panic, which fails the test.

#![allow(clippy::unwrap_used, reason = "whatever fails here has to fail the test")]

mod access;
mod bench;
mod binaries;
pub mod browser;
mod certificates;
mod cluster;
pub mod hostile;
mod nats;
mod process;
mod quota;
mod server;
mod shared;
mod sshd;
mod template;
mod user;

pub use bench::{PASSWORD, Pg};
pub use binaries::bin_dir;
pub use certificates::ShownCertificate;
pub use cluster::{ClusterOptions, unused_port};
pub use nats::Nats;
pub use process::{children_of, run};
pub use quota::QuotaGroup;
pub use server::{ByHand, TestServer};
pub use shared::SharedServer;
pub use sshd::Sshd;
pub use user::{Apart, as_server_user, place};
