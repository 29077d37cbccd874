//! What became of the load's commits, by the rows of the servers.

use model::experiment::topology::outage::PRIMARY;
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
        of_two_primaries: of_two_primaries(outage),
    };
    // What another server has may be unknown all the same.
    CommitsAfter {
        unknown: outage.ledger_unavailable.clone(),
        node: Some(ledger.node.clone()),
        counted: Some(counted),
    }
}

/// What the first primary acknowledged alone after another server had taken over; unknown if it was not read.
fn of_two_primaries(outage: &OutageRecord) -> Option<u64> {
    let took_over = outage.survivor.as_deref().is_some_and(|survivor| survivor != PRIMARY);
    let is_read = outage.ledgers.iter().any(|ledger| ledger.node == PRIMARY);
    let n = outage.ledgers.iter().map(|one| one.n_of_two_primaries).sum();
    (!took_over || is_read).then_some(n)
}
