//! The way between a standby and its primary, if it leads through a relay.

use std::num::NonZeroU64;

use anyhow::{Context, Result};
use model::experiment::case::Case;
use model::experiment::keys;
use model::experiment::outage::Fault;
use model::experiment::topology::RoundTrip;
use server::process::socket::ServerSocket;
use server::running::upstream::Upstream;
use server::{Cluster, OwnServer};
use wan::{OneWay, Relay};

use super::n_standbys;

/// A relay, and the socket at which the standby reaches it.
pub(super) struct RelayedWay {
    // Declared first, so that nobody listens any more when the socket is removed.
    pub(super) relay: Relay,
    socket: ServerSocket,
}

impl RelayedWay {
    /// The way that a case asks for to its primary; `None`: direct.
    ///
    /// # Errors
    /// When its socket cannot be made.
    pub(super) fn open(case: &Case, primary: &OwnServer, standby: &Cluster) -> Result<Option<RelayedWay>> {
        if !has_relay(case) {
            return Ok(None);
        }
        let round_trip = case.get(keys::topology::DELAY).unwrap_or(RoundTrip::ZERO);
        let rate = case.get(keys::topology::RATE).and_then(|rate| NonZeroU64::new(rate.bytes_per_s()));
        let one_way = OneWay::from_round_trip(round_trip.duration(), rate);
        let (socket, listener) = ServerSocket::listen(standby)?;
        let relay = Relay::start(listener, &primary.socket_path(), one_way).context("start the relay")?;
        Ok(Some(RelayedWay { relay, socket }))
    }

    /// The relay, as the standby follows it.
    pub(super) fn upstream(&self, name: &str, slot: Option<String>) -> Upstream {
        self.socket.upstream(name, slot)
    }
}

/// Whether each standby of a case reaches its primary through a relay.
pub fn has_relay(case: &Case) -> bool {
    let has_way = case.get(keys::topology::DELAY).is_some() || case.get(keys::topology::RATE).is_some();
    n_standbys(case) > 0 && (has_way || is_cut(case))
}

fn is_cut(case: &Case) -> bool {
    case.outage
        .as_ref()
        .is_some_and(|outage| matches!(outage.fault, Fault::Cut(_) | Fault::CutAndKill { .. }))
}

/// Gives all cases that have standbys a relay if one of them has one: it costs a copy and two wake-ups.
pub(crate) fn give_relays(cases: &mut [Case]) {
    if !cases.iter().any(has_relay) {
        return;
    }
    for case in cases.iter_mut().filter(|case| n_standbys(case) > 0) {
        let round_trip = case.get(keys::topology::DELAY).unwrap_or(RoundTrip::ZERO);
        case.set(keys::topology::DELAY, Some(round_trip));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::sample;

    /// The round trip of each case's relay.
    fn round_trips(text: &str) -> Vec<Option<String>> {
        let cases = sample::plan(text).cases;
        let round_trip =
            |case: &Case| case.get(keys::topology::DELAY).map(|round_trip| round_trip.to_string());
        cases.iter().map(|case| round_trip(case).filter(|_| has_relay(case))).collect()
    }

    #[test]
    fn all_cases_with_standbys_have_a_relay_if_one_has() {
        let outages = "outage = [\"kill-primary\", \"cut s1\"]\nworkload.pace = \"100/s\"\nworkload.clients = 4\nrun.measure = \"60s\"\n";
        let outages = |n: u32| format!("{outages}topology.standbys = {n}\n");
        for (text, expected) in [
            ("topology.standbys = 1\nworkload.clients = 1".to_string(), vec![None]),
            (
                "topology.standbys = [0, 1]\ntopology.delay = \"5ms\"\nworkload.clients = 1".to_string(),
                vec![None, Some("5ms")],
            ),
            (
                "topology.standbys = 1\ntopology.rate = \"1MB/s\"\nworkload.clients = 1".to_string(),
                vec![Some("0ms")],
            ),
            (outages(1), vec![Some("0ms"), Some("0ms")]),
        ] {
            let expected: Vec<Option<String>> =
                expected.into_iter().map(|ms| ms.map(str::to_string)).collect();
            assert_eq!(round_trips(&text), expected, "{text}");
        }
    }
}
