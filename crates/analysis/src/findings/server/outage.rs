//! Findings about an injected outage: whether it happened, whether its end was seen, and what became of the load's commits.

use model::experiment::plan::RunState;
use model::experiment::topology::n_waited_for;
use model::experiment::topology::outage::{Fault, PRIMARY};
use model::run::RunRecord;
use model::run::server::node::is_waited_for;
use model::run::server::outage::READ_COMMITS;
use model::telemetry::event::{Event, EventKind};
use model::text::prose::grouped;

use super::{CONNECTION_LOST, events};
use crate::finding::{Finding, Severity};
use crate::findings::format::{excerpt, figure, percent, plural};
use crate::findings::{ON_RECORDS, Rule, RuleCheck, RunContext};
use crate::run::settings::{server_as_sessions_have_it, set_by_scripts};
use crate::summary::{CommitCounts, OutageSummary};

pub(in crate::findings) const OUTAGE_NOT_PROVED: Rule = Rule {
    id: "outage-not-proved",
    title: "The outage was not proved",
    severity: "Void when the fault was not injected, or nothing shows that it happened",
    source: "our rule",
    advice: "Read why in `outage` of run.json, and repeat the run.",
    evidence: "The record of the outage: proof and problem.",
    why: "No time and no loss are then those of a fault that did not happen.",
    tested: ON_RECORDS,
    check: RuleCheck::Run(outage_not_proved),
};

fn outage_not_proved(context: &RunContext) -> Option<Finding> {
    let record = &context.data.record;
    // Of a run that was cut short, another finding says so.
    if record.case.outage.is_none() && record.outage.is_none() || record.state != RunState::Completed {
        return None;
    }
    let outage = record.outage.as_deref();
    if outage.is_some_and(|outage| outage.proof.is_some() && outage.began_unix_ns.is_some()) {
        return None;
    }
    let planned = record.case.outage.as_ref().map(|outage| outage.fault.to_string());
    let fault = outage.map(|outage| outage.fault.clone()).or(planned).unwrap_or_default();
    let why = match outage {
        None => "nothing was recorded of it".to_string(),
        Some(outage) => match (&outage.problem, outage.began_unix_ns) {
            (Some(problem), _) => problem.clone(),
            (None, None) => "the load ended before it".to_string(),
            (None, Some(_)) => "nothing shows that it happened".to_string(),
        },
    };
    Some(OUTAGE_NOT_PROVED.finds(Severity::Void, format!("{fault}: {why}")))
}

pub(in crate::findings) const OUTAGE_STEP_FAILED: Rule = Rule {
    id: "outage-step-failed",
    title: "A step of the outage failed",
    severity: "Doubt when the fault was proved, and a step after it (a promotion, a restart, what undoes it) \
               failed",
    source: "our rule",
    advice: "Read the step in `outage` of run.json and its server's log, and repeat the run.",
    evidence: "The record of the outage: problem, and the errors of its steps.",
    why: "Length and loss are those of an outage that nobody asked for.",
    tested: ON_RECORDS,
    check: RuleCheck::Run(outage_step_failed),
};

fn outage_step_failed(context: &RunContext) -> Option<Finding> {
    let record = &context.data.record;
    let outage = record.outage.as_ref().filter(|outage| outage.proof.is_some())?;
    // Of a run that was cut short, another finding says so.
    if record.state != RunState::Completed {
        return None;
    }
    let problem = outage.problem.as_ref()?;
    // Where two steps failed, the first one is the problem.
    let more = outage.steps.iter().filter(|step| step.what != READ_COMMITS);
    let more = more.filter_map(|step| step.error.as_ref()).filter(|error| *error != problem);
    let all: Vec<String> = std::iter::once(problem).chain(more).map(|error| excerpt(error)).collect();
    Some(OUTAGE_STEP_FAILED.finds(Severity::Doubt, format!("{}: {}", outage.fault, all.join("; "))))
}

pub(in crate::findings) const COMMITS_LOST: Rule = Rule {
    id: "commits-lost",
    title: "Acknowledged commits were lost",
    severity: "Doubt for any, unless lost-in-spite-of-sync says more",
    source: "PostgreSQL documentation, streaming replication and synchronous_commit: off loses up to three times wal_writer_delay",
    advice: "State the loss with the outage; to lose none, set synchronous_commit = on, and for a failover \
             synchronous_standby_names.",
    evidence: "Tokens that each transaction wrote, read from the surviving server, against the commits that were acknowledged.",
    why: "Clients were promised that these transactions are kept.",
    tested: ON_RECORDS,
    check: RuleCheck::Run(commits_lost),
};

fn commits_lost(context: &RunContext) -> Option<Finding> {
    let evidence = lost_words(context)?;
    promise(context).is_none().then(|| COMMITS_LOST.finds(Severity::Doubt, evidence))
}

pub(in crate::findings) const LOST_IN_SPITE_OF_SYNC: Rule = Rule {
    id: "lost-in-spite-of-sync",
    title: "COMMITS LOST ALTHOUGH SERVER AND SETTINGS PROMISE NONE",
    severity: "Doubt for any lost commit that waited for the standby that took over, or, where the same \
               server came back, for its own disk",
    source: "PostgreSQL documentation, synchronous replication; write-ahead log",
    advice: "Keep the run directory, and trust neither the server nor its settings before the cause is known: a standby that was not yet \
             synchronous, a session with another synchronous_commit, storage that lies, or a defect.",
    evidence: "Lost tokens as of commits-lost; the sessions' synchronous_commit, synchronous_standby_names, \
               and which standbys were waited for before the load.",
    why: "The server is broken, or not set as everybody believes.",
    tested: ON_RECORDS,
    check: RuleCheck::Run(lost_in_spite_of_sync),
};

fn lost_in_spite_of_sync(context: &RunContext) -> Option<Finding> {
    let evidence = format!("{}, although {}", lost_words(context)?, promise(context)?);
    Some(LOST_IN_SPITE_OF_SYNC.finds(Severity::Doubt, evidence))
}

/// How many commits were lost, and when they had been acknowledged.
fn lost_words(context: &RunContext) -> Option<String> {
    let counted = counted(context).filter(|counted| counted.lost > 0)?;
    let share = counted.lost as f64 / counted.acknowledged.max(counted.lost) as f64;
    let when =
        counted.lost_before_s.map_or(String::new(), |span| format!(", acknowledged {}", before_fault(span)));
    let [lost, acknowledged] = [counted.lost, counted.acknowledged].map(|n| grouped(&n.to_string()));
    let are = if counted.lost == 1 { "is" } else { "are" };
    Some(format!("{lost} of {acknowledged} acknowledged commits {are} lost ({}){when}", percent(share)))
}

/// A span of seconds before the fault, in words; the end of a commit can come a moment after it.
fn before_fault([first, last]: [f64; 2]) -> String {
    let [a, b] = [first, last].map(|s| figure(s.abs()));
    match (first >= 0.0, last >= 0.0) {
        (true, true) if a == b => format!("{a} s before the fault"),
        (true, true) => format!("{a} to {b} s before the fault"),
        (false, false) if a == b => format!("{a} s after the fault"),
        (false, false) => format!("{a} to {b} s after the fault"),
        (true, false) | (false, true) => format!("from {a} s before the fault to {b} s after it"),
    }
}

fn counted<'a>(context: &'a RunContext) -> Option<&'a CommitCounts> {
    context.summary.outage.as_ref()?.commits.counted.as_ref()
}

/// What promises that no commit is lost; `None` if nothing does for sure.
fn promise(context: &RunContext) -> Option<String> {
    let record = &context.data.record;
    let survivor = record.outage.as_ref()?.survivor.as_deref()?;
    let server = server_as_sessions_have_it(record)?;
    let level = server.setting("synchronous_commit")?;
    if set_by_scripts(record).iter().any(|(name, _)| name == "synchronous_commit") {
        return None;
    }
    if survivor == PRIMARY {
        let is_kept = level != "off" && server.setting("fsync") == Some("on");
        return is_kept.then(|| format!("the same server came back, with synchronous_commit = {level}"));
    }
    if matches!(level, "off" | "local") || is_of_the_way(record) {
        return None;
    }
    let names = server.setting("synchronous_standby_names")?;
    let waited: Vec<_> = record.nodes.iter().filter(|node| is_waited_for(&node.sync_state)).collect();
    // Of a quorum, a commit waits for some of them only.
    let is_quorum = waited.iter().any(|node| node.sync_state == "quorum");
    let all_answer = !is_quorum || n_waited_for(names) >= waited.len();
    let is_survivor = waited.iter().any(|node| node.name == survivor);
    (is_survivor && all_answer).then(|| {
        format!("commits waited for {survivor} (synchronous_commit = {level}, synchronous_standby_names = '{names}')")
    })
}

/// Whether the fault takes a standby out, so that another may be waited for than before the load.
fn is_of_the_way(record: &RunRecord) -> bool {
    let fault = record.case.outage.as_ref().map(|outage| &outage.fault);
    matches!(fault, Some(Fault::KillStandby(_) | Fault::Cut(_) | Fault::Freeze { .. } | Fault::Hook))
}

pub(in crate::findings) const LOSS_UNKNOWN: Rule = Rule {
    id: "loss-unknown",
    title: "Whether commits were lost is unknown",
    severity: "Note when the servers' rows could not be compared with the acknowledged commits",
    source: "our rule",
    advice: "See the reason: the workload must write a token for each transaction, and a server must be \
             readable after the load.",
    evidence: "The record of the outage: ledgers, or why there are none.",
    why: "An outage without a count of its losses says nothing about them.",
    tested: ON_RECORDS,
    check: RuleCheck::Run(loss_unknown),
};

fn loss_unknown(context: &RunContext) -> Option<Finding> {
    let commits = &context.summary.outage.as_ref()?.commits;
    let why = commits.unknown.as_ref()?;
    Some(LOSS_UNKNOWN.finds(Severity::Note, why.clone()))
}

pub(in crate::findings) const TWO_PRIMARIES: Rule = Rule {
    id: "two-primaries",
    title: "Two servers took commits at a time",
    severity: "Doubt for any commit that a server acknowledged after another had taken over, and that it \
               alone has; Note if the former primary could not be read, or a command of yours may have led \
               to another one",
    source: "PostgreSQL documentation, failover (STONITH)",
    advice: "Fence the old primary before another is promoted: what it acknowledged since is lost with it.",
    evidence: "Tokens on each server, and when their commits were acknowledged.",
    why: "The data of the two servers has parted, and one part must be given up.",
    tested: ON_RECORDS,
    check: RuleCheck::Run(two_primaries),
};

fn two_primaries(context: &RunContext) -> Option<Finding> {
    let Some(n) = counted(context)?.of_two_primaries else {
        let outage = context.data.record.outage.as_ref()?;
        let evidence = match outage.survivor {
            Some(_) => {
                let why = outage.former_unavailable.as_deref().unwrap_or("nobody has read it");
                format!("what the former primary acknowledged after another had taken over is unknown: {why}")
            }
            None => "whether the command made another server the primary is unknown, and so is what the former one acknowledged then: \
                     one server was read"
                .to_string(),
        };
        return Some(TWO_PRIMARIES.finds(Severity::Note, evidence));
    };
    let evidence = format!("{} by a server after another had taken over", plural(n, "acknowledged commit"));
    (n > 0).then(|| TWO_PRIMARIES.finds(Severity::Doubt, evidence))
}

pub(in crate::findings) const OUTAGE_OUTLASTS_LOAD: Rule = Rule {
    id: "outage-outlasts-load",
    title: "The outage outlasted the load",
    severity: "Doubt when no instant was seen from which 99 % of the transactions due in the next 5 s were \
               served",
    source: "our rule",
    advice: "Measure longer after the fault, or find in `outage` of run.json and the servers' logs why no \
             server took writes again.",
    evidence: "Transactions that were due after the fault, and when they were answered.",
    why: "The outage is longer than its figure; medians and sums over such runs are lower bounds too.",
    tested: ON_RECORDS,
    check: RuleCheck::Run(outage_outlasts_load),
};

fn outage_outlasts_load(context: &RunContext) -> Option<Finding> {
    let outage = proved(context).filter(|outage| outage.write_outage.is_at_least)?;
    let evidence = format!("writes were out for at least {} s", figure(outage.write_outage.s));
    Some(OUTAGE_OUTLASTS_LOAD.finds(Severity::Doubt, evidence))
}

pub(in crate::findings) const SERVICE_NOT_LOST: Rule = Rule {
    id: "service-not-lost",
    title: "The fault cost no service",
    severity: "Note when every transaction due in the 5 s after the fault was served within the limit",
    source: "design: the limit is that of the pace, else 100 ms or ten times the 99th percentile before, \
             whichever is more",
    advice: "If you expected an outage, see its proof in `outage` of run.json, and what the load's commits \
             depend on.",
    evidence: "Transactions that were due after the fault, and when they were answered.",
    why: "It is the best that a fault can do, and what a fault does that hits nothing.",
    tested: ON_RECORDS,
    check: RuleCheck::Run(service_not_lost),
};

fn service_not_lost(context: &RunContext) -> Option<Finding> {
    let outage = proved(context)?;
    let length = outage.write_outage;
    if length.s > 0.0 || length.is_at_least || outage.n_not_served > 0 {
        return None;
    }
    let evidence = format!(
        "{}: no transaction waited for longer than {:.0} ms",
        outage.fault,
        outage.limit_ns as f64 / 1e6
    );
    Some(SERVICE_NOT_LOST.finds(Severity::Note, evidence))
}

/// Clients of a run with an outage that ended before the load did, so that no connection came back. That is what the outage did, unless one
/// ended before the fault or when service was back.
pub(super) fn clients_not_back(context: &RunContext) -> Option<Finding> {
    context.summary.outage.as_ref()?;
    let n = context.data.record.done.as_ref().map_or(0, |done| done.clients_lost);
    if n == 0 {
        return None;
    }
    let ended = events(context, EventKind::ClientAborted);
    let ended: Vec<(f64, &Event)> =
        ended.filter_map(|event| Some((context.line.place(event.t_unix_ns)?, event))).collect();
    let outside = ended.iter().find(|(t_s, _)| !context.is_in_outage(*t_s));
    let later = outside.filter(|one| ended.first().is_some_and(|first| first.0 < one.0));

    let ranked = ended.first().into_iter().chain(later).zip(["the first", "one when service was back,"]);
    let said: String = ranked
        .map(|((t_s, event), rank)| format!(", {rank} at {t_s:.0} s: {}", excerpt(&event.text)))
        .collect();
    let all = plural(context.data.record.case.workload.n_clients, "client");
    let evidence = format!("{n} of {all} ended, and did not come back{said}");
    let severity = if outside.is_some() { Severity::Void } else { Severity::Doubt };
    Some(CONNECTION_LOST.finds(severity, evidence))
}

fn proved<'a>(context: &'a RunContext) -> Option<&'a OutageSummary> {
    context.summary.outage.as_deref().filter(|outage| outage.is_proved)
}

#[cfg(test)]
mod tests {
    use super::before_fault;

    #[test]
    fn a_commit_can_end_a_moment_after_the_fault() {
        for (span, expected) in [
            ([2.0, 0.01], "2.00 to 0.01 s before the fault"),
            ([0.5, 0.5], "0.50 s before the fault"),
            ([-0.02, -0.02], "0.02 s after the fault"),
            ([1.0, -0.02], "from 1.00 s before the fault to 0.02 s after it"),
        ] {
            assert_eq!(before_fault(span), expected);
        }
    }
}
