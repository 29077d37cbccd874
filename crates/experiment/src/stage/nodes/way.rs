//! The way between a standby and its upstream, if it leads through a relay.

use std::num::NonZeroU64;

use anyhow::{Context, Result};
use model::experiment::case::Case;
use model::experiment::keys;
use model::experiment::topology::{RoundTrip, has_relay};
use server::running::socket::ServerSocket;
use server::running::upstream::Upstream;
use server::{Cluster, OwnServer};
use wan::{OneWay, Relay};

/// A relay, and the socket at which the standby reaches it.
pub(super) struct RelayedWay {
    // Declared first, so that nobody listens any more when the socket is removed.
    pub(super) relay: Relay,
    socket: ServerSocket,
}

impl RelayedWay {
    /// The way that a case asks for to its upstream; `None`: direct.
    ///
    /// # Errors
    /// When its socket cannot be made.
    pub(super) fn open(case: &Case, upstream: &OwnServer, standby: &Cluster) -> Result<Option<RelayedWay>> {
        if !has_relay(case) {
            return Ok(None);
        }
        let round_trip = case.get(keys::topology::DELAY).unwrap_or(RoundTrip::ZERO);
        let rate = case.get(keys::topology::RATE).and_then(|rate| NonZeroU64::new(rate.bytes_per_s()));
        let one_way = OneWay::from_round_trip(round_trip.duration(), rate);
        let (socket, listener) = ServerSocket::listen(standby)?;
        let relay = Relay::start(listener, &upstream.socket_path(), one_way).context("start the relay")?;
        Ok(Some(RelayedWay { relay, socket }))
    }

    /// The relay, as the standby follows it.
    pub(super) fn upstream(&self, name: &str, slot: Option<String>) -> Upstream {
        self.socket.upstream(name, slot)
    }
}
