//! Findings about the search for the highest rate that meets a latency target.

use super::format::{figure, percent, plural};
use super::{CaseContext, ON_RECORDS, Rule, RuleCheck, RunContext};
use crate::finding::{Finding, Severity};
use crate::summary::capacity::{ProbeVerdict, SearchOutcome};

pub(super) const TARGET_UNREACHABLE: Rule = Rule {
    id: crate::summary::UNREACHABLE,
    title: "No rate met the latency target",
    severity: "Void when the search ends below its lowest rate, 2 % of the closed loop's throughput",
    source: "our rule",
    advice: "Use a higher latency limit or a lower percentile, and find out what makes transactions slow.",
    evidence: "The share of transactions beyond the limit at each rate that the search tried.",
    why: "There is no number: at any rate, too many transactions are late.",
    tested: ON_RECORDS,
    check: RuleCheck::Run(target_unreachable),
};

fn target_unreachable(context: &RunContext) -> Option<Finding> {
    let capacity =
        context.summary.capacity.as_ref().filter(|one| one.outcome == SearchOutcome::Unreachable)?;
    let lowest = capacity.probes.iter().min_by(|a, b| a.rate_per_s.total_cmp(&b.rate_per_s))?;
    let late = percent(lowest.late);
    let rate = figure(lowest.rate_per_s);
    let evidence =
        format!("{} was missed at every rate; at {rate} per second {late} were late", capacity.target);
    Some(TARGET_UNREACHABLE.finds(Severity::Void, evidence))
}

pub(super) const TARGET_NOT_LIMITING: Rule = Rule {
    id: "target-not-limiting",
    title: "Throughput is the limit, not the latency target",
    severity: "Note when the rate is 97 % or more of the closed loop's throughput",
    source: "our rule",
    advice: "Use a lower latency limit, or more clients if the server has capacity for them.",
    evidence: "The rate that was found, and the closed loop's throughput before the first probe.",
    why: "The number is the highest throughput of these clients; it would meet a lower limit as well.",
    tested: ON_RECORDS,
    check: RuleCheck::Run(target_not_limiting),
};

fn target_not_limiting(context: &RunContext) -> Option<Finding> {
    let capacity =
        context.summary.capacity.as_ref().filter(|one| one.outcome == SearchOutcome::NotLimiting)?;
    let evidence = format!(
        "{} is met at {} per second or more, and the closed loop reached no more than {}",
        capacity.target,
        figure(capacity.rate?.point),
        figure(capacity.ceiling_per_s)
    );
    Some(TARGET_NOT_LIMITING.finds(Severity::Note, evidence))
}

/// Half of the interval, as a share of the rate, above which a rate is called unsure.
const UNSURE_SHARE: f64 = 0.1;

pub(super) const CAPACITY_UNSURE: Rule = Rule {
    id: "capacity-unsure",
    title: "The highest rate is uncertain",
    severity: "Doubt when half of its interval exceeds 10 % of it, or the confirming probe missed the target \
               beyond chance",
    source: "Watson and Pelli 1983; Kontsevich and Tyler 1999; stats::Threshold; 10 % is our convention",
    advice: "Measure longer, which gives more and longer probes, while nothing else uses the machine.",
    evidence: "The interval of the rate, and the verdict of the confirming probe.",
    why: "Another run would find another rate.",
    tested: ON_RECORDS,
    check: RuleCheck::Run(capacity_unsure),
};

fn capacity_unsure(context: &RunContext) -> Option<Finding> {
    let capacity = context.summary.capacity.as_ref()?;
    let rate = capacity.rate?;
    let missed = capacity.probes.iter().find(|probe| probe.confirms && probe.verdict == ProbeVerdict::Misses);
    let share = 0.5 * (rate.high - rate.low) / rate.point;
    let evidence = match missed {
        _ if share > UNSURE_SHARE => format!(
            "the rate is {} per second, its interval {} to {}: {} below it and {} above",
            figure(rate.point),
            figure(rate.low),
            figure(rate.high),
            percent(1.0 - rate.low / rate.point),
            percent(rate.high / rate.point - 1.0)
        ),
        Some(probe) => format!(
            "{:.0} s at {} per second were to confirm it and had {} late",
            probe.to_s - probe.from_s,
            figure(probe.rate_per_s),
            percent(probe.late)
        ),
        None => return None,
    };
    Some(CAPACITY_UNSURE.finds(Severity::Doubt, evidence))
}

pub(super) const SEARCHES_DISAGREE: Rule = Rule {
    id: "searches-disagree",
    title: "At least half of the searches found no rate",
    severity: "Void when no rate met the target in half of the case's runs or more, but not in all",
    source: "design: a run without a rate counts as a rate below all others",
    advice: "Use a higher latency limit or a lower percentile, or repeat more often.",
    evidence: "How each run's search for the highest rate ended.",
    why: "There is no number: near a limit that single transactions exceed, chance decides.",
    tested: ON_RECORDS,
    check: RuleCheck::Case(searches_disagree),
};

fn searches_disagree(context: &CaseContext) -> Option<Finding> {
    let runs = || context.runs.iter().map(|(_, run)| &run.summary).filter(|run| run.replaced_by.is_none());
    let n_never = runs().filter(|run| run.is_censored()).count();
    let undecided = context.summary.n_runs > 0 && n_never > 0 && context.summary.capacity.is_none();
    let target = runs().find_map(|run| run.capacity.as_ref())?.target;
    let of = plural(n_never + context.summary.n_runs, "run");
    let found: Vec<String> = context.summary.tps.iter().map(|rate| figure(*rate)).collect();
    let evidence =
        || format!("in {n_never} of {of} no rate met {target}; found were {} per second", found.join(", "));
    undecided.then(|| SEARCHES_DISAGREE.finds(Severity::Void, evidence()))
}
