//! What a build without NATS answers.

use anyhow::{Result, bail};

use crate::{Agent, AnsweringAgent, NatsServer};

/// Says what has NATS.
///
/// # Errors
/// Always.
pub fn serve(server: &NatsServer, _: Agent, _: impl Fn(&str) + Send + Sync + Clone + 'static) -> Result<()> {
    refuse(server)
}

/// Says what has NATS.
///
/// # Errors
/// Always.
pub fn find(server: &NatsServer) -> Result<Vec<AnsweringAgent>> {
    refuse(server)
}

/// Says what has NATS.
///
/// # Errors
/// Always.
pub fn dial(server: &NatsServer, _: &str, _: &str) -> Result<()> {
    refuse(server)
}

fn refuse<T>(server: &NatsServer) -> Result<T> {
    server.check()?;
    bail!("this build of pgdyno has no NATS: take a package, which has it, or build with `--features nats`")
}
