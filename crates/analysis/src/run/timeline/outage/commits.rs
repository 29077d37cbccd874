//! What became of the load's commits, by the rows of the servers.

use model::run::server::outage::OutageRecord;

use crate::summary::{CommitCounts, CommitsAfter};

/// What the survivor has; unknown, and never nothing, if it was not read.
pub(super) fn of_record(outage: &OutageRecord, at_s: f64) -> CommitsAfter {
    // The survivor is the first.
    let Some(ledger) = outage.ledgers.first() else {
        let why = outage.ledger_unavailable.clone().unwrap_or_else(|| "no server was read".to_string());
        return CommitsAfter { unknown: Some(why), ..CommitsAfter::default() };
    };
    let before = |ns: u64| at_s - ns as f64 / 1e9;
    let counted = CommitCounts {
        acknowledged: ledger.n_acknowledged,
        lost: ledger.n_lost,
        lost_before_s: ledger.lost_ns.map(|(first, last)| [before(first), before(last)]),
        ghosts: ledger.n_ghosts,
        doubled: ledger.n_doubled,
        unknown_present: ledger.n_unknown_present,
        unknown_absent: ledger.n_unknown_absent,
        of_two_primaries: outage.ledgers.iter().map(|one| one.n_of_two_primaries).sum(),
    };
    // What another server has may be unknown all the same.
    CommitsAfter {
        unknown: outage.ledger_unavailable.clone(),
        node: Some(ledger.node.clone()),
        counted: Some(counted),
    }
}
