//! The standbys that a case asks for.

use super::outage::PRIMARY;
use super::{Synchronous, standby_name};
use crate::experiment::case::Case;
use crate::experiment::keys;

/// The setting that names the standbys which commits wait for.
pub const SYNCHRONOUS_NAMES: &str = "synchronous_standby_names";
/// The setting that says how far a standby must be.
pub const SYNCHRONOUS_COMMIT: &str = "synchronous_commit";

/// Standbys that a case asks for.
pub fn n_standbys(case: &Case) -> u32 {
    case.get(keys::topology::STANDBYS)
}

/// The name of the server that a standby of a case streams from.
pub fn upstream_of(case: &Case, standby: &str) -> String {
    case.get(keys::topology::FROM).remove(standby).unwrap_or_else(|| PRIMARY.to_string())
}

/// Names of the standbys that stream from the primary of a case.
pub fn direct_standbys(case: &Case) -> Vec<String> {
    let all = (1..=n_standbys(case)).map(standby_name);
    all.filter(|name| upstream_of(case, name) == PRIMARY).collect()
}

/// The standbys that commits of a case wait for: those of the key, and of a case that chooses `synchronous_commit` all.
pub fn synchronous(case: &Case) -> Synchronous {
    let is_level_chosen =
        case.server.settings.keys().any(|name| name.eq_ignore_ascii_case(SYNCHRONOUS_COMMIT));
    let default = if is_level_chosen { Synchronous::All } else { Synchronous::None };
    case.get(keys::topology::SYNCHRONOUS).unwrap_or(default)
}

/// Number of standbys that a commit waits for with this value of `synchronous_standby_names`: `FIRST 2 (s1, s2, s3)`, `ANY 1 (*)`,
/// `2 (a, b)`, `s1, s2`.
pub fn n_waited_for(names: &str) -> usize {
    let number = names.split_once('(').map_or("", |(number, _)| number);
    number.split_whitespace().find_map(|word| word.parse().ok()).unwrap_or(1)
}

/// Whether each standby of a case reaches its primary through a relay.
pub fn has_relay(case: &Case) -> bool {
    let has_way = case.get(keys::topology::DELAY).is_some() || case.get(keys::topology::RATE).is_some();
    n_standbys(case) > 0 && (has_way || case.outage.as_ref().is_some_and(|outage| outage.fault.is_of_way()))
}
