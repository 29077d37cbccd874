//! A finding about runs of other hosts that took place at the same time.

use std::collections::BTreeMap;

use model::run::RunRecord;
use model::run::concurrent::ConcurrentRun;

use super::super::format::percent;
use super::super::host::{FOREIGN_MEAN, FOREIGN_MEAN_FLOOR};
use super::super::{Rule, RuleCheck, RunContext};
use crate::finding::{Finding, Severity};

/// Runs that are named of each target.
const NAMED_MAX: usize = 3;

pub(in super::super) const SIDE_BY_SIDE: Rule = Rule {
    id: "side-by-side",
    title: "Other servers were measured at the same time",
    severity: "Note when targets on other hosts were measured meanwhile (`run.parallel_targets`); Doubt when \
               the server or a driver was on pgdyno's machine, and conducting took more than 2 % of all \
               processors (and a tenth of one) on average",
    source: "our rule; the threshold is that of foreign-cpu",
    advice: "Give each target a driver nearby and pgdyno its own machine; leave run.parallel_targets out if \
             targets share a network link, storage or a provider's quota.",
    evidence: "`concurrent` in run.json, and the CPU time of pgdyno's own process, without its driver.",
    why: "Loads divide a shared link or disk array, and the slower half looks like a slower server.",
    tested: "Two servers, each with a driver, that a kernel shows as two hosts.",
    check: RuleCheck::Run(side_by_side),
};

fn side_by_side(context: &RunContext) -> Option<Finding> {
    let record = &context.data.record;
    if record.concurrent.is_empty() {
        return None;
    }
    let others = format!("while the load ran, so did {}", words(&record.concurrent));
    match conducting(context).filter(|_| uses_our_machine(record)) {
        Some((used, n_cpus)) if used > (FOREIGN_MEAN * n_cpus).max(FOREIGN_MEAN_FLOOR) => {
            let share = percent(used / n_cpus);
            let evidence = format!(
                "{others}, and pgdyno itself used {share} of the {n_cpus:.0} processors of its machine"
            );
            Some(SIDE_BY_SIDE.finds(Severity::Doubt, evidence))
        }
        _ => Some(SIDE_BY_SIDE.finds(Severity::Note, others)),
    }
}

/// Whether the server or a driver was on the machine of pgdyno.
fn uses_our_machine(record: &RunRecord) -> bool {
    let is_driven_here = record.drivers.is_empty() || record.drivers.iter().any(|driver| driver.is_here);
    is_driven_here || (record.server_is_local && record.driver_is_on_host())
}

/// Processors that pgdyno used by itself, and all of its machine.
fn conducting(context: &RunContext) -> Option<(f64, f64)> {
    let (from_s, to_s) = context.line.measured_span()?;
    let resources = &context.summary.resources;
    let n_cpus = match context.driver_usage {
        Some(_) => resources.driver_host.as_ref()?.n_cpus,
        None => resources.n_cpus?,
    };
    let usage = context.driver_usage.unwrap_or(context.usage);
    Some((usage.rate("pgdyno.cpu", from_s, to_s)?, f64::from(n_cpus)))
}

/// `runs 4 and 5 of target `b``.
fn words(runs: &[ConcurrentRun]) -> String {
    let mut by_target: BTreeMap<&str, Vec<u32>> = BTreeMap::new();
    runs.iter().for_each(|other| by_target.entry(&other.target).or_default().push(other.run));
    let of_target = |(target, runs): (&&str, &Vec<u32>)| {
        let named: Vec<String> = runs.iter().take(NAMED_MAX).map(u32::to_string).collect();
        let more = match runs.len() - named.len() {
            0 => String::new(),
            n => format!(" and {n} more"),
        };
        let noun = if runs.len() == 1 { "run" } else { "runs" };
        format!("{noun} {}{more} of target `{target}`", named.join(", "))
    };
    by_target.iter().map(of_target).collect::<Vec<_>>().join("; ")
}
