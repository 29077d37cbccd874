//! What became of the load's commits, by the rows of the servers.

use model::experiment::topology::n_standbys;
use model::experiment::topology::outage::{Fault, PRIMARY};
use model::run::RunRecord;
use model::run::server::outage::OutageRecord;

use crate::summary::{CommitCounts, CommitsAfter};

/// What the survivor has; unknown, and never nothing, if it was not read.
pub(super) fn of_record(record: &RunRecord, outage: &OutageRecord, at_s: f64) -> CommitsAfter {
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
        of_two_primaries: of_two_primaries(record, outage),
    };
    // What another server has may be unknown all the same.
    CommitsAfter {
        unknown: outage.ledger_unavailable.clone(),
        node: Some(ledger.node.clone()),
        counted: Some(counted),
    }
}

/// What the first primary acknowledged alone after another server had taken over; unknown if that may have happened, and not both were
/// read.
fn of_two_primaries(record: &RunRecord, outage: &OutageRecord) -> Option<u64> {
    let may_have_taken_over = match outage.survivor.as_deref() {
        Some(survivor) => survivor != PRIMARY,
        None => is_takeover_unseen(record),
    };
    let is_read = outage.survivor.is_some() && outage.ledgers.iter().any(|ledger| ledger.node == PRIMARY);
    let n = outage.ledgers.iter().map(|one| one.n_of_two_primaries).sum();
    (!may_have_taken_over || is_read).then_some(n)
}

/// Whether a command of the user's may have made another server the primary, which pgdyno does not hear of. Of a server that it runs alone,
/// there is no other.
fn is_takeover_unseen(record: &RunRecord) -> bool {
    let case = &record.case;
    let is_command = case.outage.as_ref().is_some_and(|outage| outage.fault == Fault::Hook);
    is_command && !(case.server.source.is_embedded() && n_standbys(case) == 0)
}
