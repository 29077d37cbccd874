//! What a build without NATS answers.

use anyhow::{Result, bail};

use crate::{Agent, Found, Server};

/// Says what has NATS.
///
/// # Errors
/// Always.
pub fn serve(server: &Server, _: Agent, _: impl Fn(&str) + Send + Sync + Clone + 'static) -> Result<()> {
    refuse(server)
}

/// Says what has NATS.
///
/// # Errors
/// Always.
pub fn find(server: &Server) -> Result<Vec<Found>> {
    refuse(server)
}

/// Says what has NATS.
///
/// # Errors
/// Always.
pub fn dial(server: &Server, _: &str, _: &str) -> Result<()> {
    refuse(server)
}

fn refuse<T>(server: &Server) -> Result<T> {
    server.check()?;
    bail!("this build of pgdyno has no NATS: take a package, which has it, or build with `--features nats`")
}
