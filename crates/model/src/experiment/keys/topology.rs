//! `[topology]`: the servers besides the primary.

pub mod archive;
pub mod pooler;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::option::KeyOption;
use super::row::{Differs, KeyKind, SETTING, of_place, row};
use super::section;
// What the rows of the section below need.
use super::{default_of, key, row, value};
use crate::experiment::keys::levels::Levels;
use crate::experiment::topology::{ByteRate, RoundTrip, STANDBYS_MAX, Synchronous};
use crate::text::units::SettingValue;

/// The forms of `topology.synchronous`.
const SYNCHRONOUS_FORM: &str = "^(none|all|(any|first) [1-9])$";

/// The forms of `topology.delay` and `topology.rate`.
const DELAY_FORM: &str = "^[0-9]+(\\.[0-9]+)? ?(us|ms|s)$";
const RATE_FORM: &str = "^[0-9]+(\\.[0-9]+)? ?(B|kB|MB|GB|TB)/s$";

section! {
    /// `[topology]`: the servers besides the primary.
    #[serde(deny_unknown_fields, default)]
    topology: TopologySection {
        /// number of physical standbys of a server that pgdyno runs, 0 to 9: `s1`, `s2`, …, on this machine, from the primary's snapshot,
        /// and streaming before the load
        STANDBYS = standbys: Levels<u32> = Levels::one(0),
            row::row(KeyKind::Whole(0, STANDBYS_MAX as u64), "0")
                .given_by(KeyOption::number("standbys", "N,...", "0,1", "Physical standbys of the server that pgdyno runs; several make a factor: 0,1,2").both("Physical standbys of both sides' servers"))
                .carried(Differs::Question).whole();

        /// which standbys a commit waits for: `none`, `all`, `any 1`, `first 1`, as `synchronous_standby_names` of the case's standbys
        #[serde(skip_serializing_if = "Option::is_none")]
        SYNCHRONOUS = synchronous: Option<Levels<Synchronous>>,
            row::row(KeyKind::Pattern(SYNCHRONOUS_FORM), "`all` if `server.settings.synchronous_commit` is given, else `none`")
                .carried(Differs::Question).whole();

        /// a setting of the standbys alone, such as `hot_standby_feedback`, `max_standby_streaming_delay` or `recovery_min_apply_delay`
        #[serde(skip_serializing_if = "BTreeMap::is_empty")]
        STANDBY_SETTINGS = standby_settings: BTreeMap<String, Levels<SettingValue>>,
            of_place(SETTING, "that of the primary").carried(Differs::Question);

        /// the server that a standby streams from, `primary` or a standby of a lower number: `topology.from.s2 = "s1"` is a cascade.
        /// Commits wait only for standbys of the primary
        #[serde(skip_serializing_if = "BTreeMap::is_empty")]
        FROM = from: BTreeMap<String, Levels<SettingValue>>,
            row(SETTING, "`primary`").carried(Differs::Question);

        /// whether each standby has a replication slot; without one, only `wal_keep_size` keeps the WAL that it needs
        SLOTS = slots: Levels<bool> = Levels::one(true),
            row(KeyKind::Flag, "`true`").carried(Differs::Figures);

        /// round trip added between each standby and its primary, up to `"10s"`: `"0.5ms"` for another building, `"30ms"` for another
        /// region. A relay of pgdyno delays each direction by half. If one case has a relay (for a delay, a rate, or an outage that cuts,
        /// slows or throttles the way), all with standbys have one, if need be of `"0ms"`: it costs a copy and two wake-ups
        #[serde(skip_serializing_if = "Option::is_none")]
        DELAY = delay: Option<Levels<RoundTrip>>,
            row(KeyKind::Pattern(DELAY_FORM), "direct, without a relay").carried(Differs::Question);

        /// bytes per second that the relay of `topology.delay` lets pass each way, with units as in postgresql.conf: `"10MB/s"`
        #[serde(skip_serializing_if = "Option::is_none")]
        RATE = rate: Option<Levels<ByteRate>>,
            row(KeyKind::Pattern(RATE_FORM), "unlimited").carried(Differs::Question);
    }
}
