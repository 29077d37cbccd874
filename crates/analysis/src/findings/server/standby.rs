//! The finding about a standby that commits wait for.

use model::telemetry::reading::key;
use model::telemetry::wait::WaitStage;

use crate::finding::{Finding, Severity};
use crate::findings::format::percent;
use crate::findings::{Rule, RuleCheck, RunContext};

/// Share of the instants in which some session waits for a standby, from which on the standby is part of the number.
const OCCUPIED: f64 = 0.5;

pub(in crate::findings) const WAITS_FOR_STANDBY: Rule = Rule {
    id: "waits-for-standby",
    title: "Commits waited for a standby",
    severity: "Note when at half or more of the sampled instants some session waited for a standby (SyncRep)",
    source: "PostgreSQL documentation, synchronous replication: a commit waits for the standby's reply; half is our convention",
    advice: "State the standby, its machine and the way to it with the number, or measure with synchronous_commit = local as well.",
    evidence: "Samples of pg_stat_activity: instants in which any session waited for SyncRep.",
    why: "The number is then that of two servers and of the network between them.",
    tested: "By hand: a real standby on a device with 100 writes per second, which commits wait for (bench/limiters.py --only standby).",
    check: RuleCheck::Run(waits_for_standby),
};

fn waits_for_standby(context: &RunContext) -> Option<Finding> {
    let (from_s, to_s) = context.line.measured_span()?;
    let samples = context.usage.rate("waits.samples", from_s, to_s).filter(|n| *n > 0.0)?;
    let of_stage = key("waits.stages", WaitStage::Standby.as_str());
    let share = context.usage.rate_of_key(&of_stage, from_s, to_s)? / samples;
    let evidence = format!("at {} of the sampled instants some session waited for a standby", percent(share));
    (share >= OCCUPIED).then(|| WAITS_FOR_STANDBY.finds(Severity::Note, evidence))
}
