//! One of the servers that pgdyno runs for a case, by its name: the primary or a standby.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use model::experiment::topology::outage::PRIMARY;
use model::release::Release;
use server::running::processes::ServerProcess;
use server::running::wal_images::text_of_position;
use server::{Cluster, OwnServer, StartOptions};
use wire::{Conninfo, Session};

use super::proof::replayed;
use crate::stage::embedded::named;

/// A server that an outage may hit.
pub(crate) struct NodeAccess<'a> {
    pub(super) name: String,
    pub(super) server: &'a mut OwnServer,
    pub(super) cluster: &'a Cluster,
    /// How it was started.
    pub(super) options: &'a StartOptions,
    /// Where the last record of its primary begins in the WAL, once that was shut down.
    pub(super) end_of_primary: Option<u64>,
}

impl<'a> NodeAccess<'a> {
    /// The primary.
    pub(crate) fn primary(
        server: &'a mut OwnServer,
        cluster: &'a Cluster,
        options: &'a StartOptions,
    ) -> NodeAccess<'a> {
        NodeAccess { name: PRIMARY.to_string(), server, cluster, options, end_of_primary: None }
    }

    /// Name of the node.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Server of the node.
    pub(crate) fn server(&mut self) -> &mut OwnServer {
        self.server
    }

    /// Where pgdyno reaches it.
    pub(crate) fn conninfo(&self) -> Conninfo {
        named(self.server.conninfo())
    }

    /// Process id of its postmaster.
    pub(crate) fn pid(&self) -> u32 {
        self.server.pid()
    }

    /// Processes of the node, the postmaster first.
    ///
    /// # Errors
    /// When `/proc` cannot be read.
    pub(crate) fn processes(&self) -> Result<Vec<ServerProcess>> {
        self.server.processes()
    }

    /// Starts it again where its clients know it.
    ///
    /// # Errors
    /// When it does not start.
    pub(crate) fn start_again(&mut self) -> Result<()> {
        Ok(self.server.start_again(self.cluster, self.options)?)
    }

    /// Asks it to become a primary.
    ///
    /// # Errors
    /// When it refuses.
    pub(crate) fn promote(&mut self) -> Result<()> {
        self.server.promote(self.cluster)
    }

    /// Waits until it has replayed all that its primary, which was shut down, has written.
    ///
    /// # Errors
    /// When it does not in time.
    pub(crate) fn expect_all_replayed(&mut self, longest: Duration) -> Result<()> {
        let end_of_primary = self.end_of_primary.context("the primary was not shut down cleanly")?;
        // The last record begins there.
        let position = text_of_position(end_of_primary + 1);
        let mut session = Session::connect(&self.conninfo()).context("connect to the standby")?;
        let release = Release::new(self.cluster.binaries.version_num);
        let all = replayed(&mut session, release, &position, longest)?;
        ensure!(all.is_some(), "`{}` has not replayed WAL up to {position}", self.name);
        Ok(())
    }
}
