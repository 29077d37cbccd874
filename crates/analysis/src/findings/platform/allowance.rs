//! The finding about what a cloud's instance or volume was not allowed to do.

use model::telemetry::reading::key;

use crate::finding::{Finding, Severity};
use crate::findings::format::{list, percent};
use crate::findings::{ON_RECORDS, Rule, RuleCheck, RunContext};

pub(in crate::findings) const ALLOWANCE_EXCEEDED: Rule = Rule {
    id: "allowance-exceeded",
    title: "More was asked for than the cloud provides",
    severity: "Doubt when a volume or an instance exceeded its provisioned limit in more than 1 % of the \
               measurement; Note for packets that the instance's allowance queued or dropped",
    source: "Amazon: EBS detailed performance statistics (NVMe log page 0xD0), ENA driver \
             (bw_in_allowance_exceeded and others); 1 % as for cpu-quota",
    advice: "State the limit with the number, or provision more and repeat.",
    evidence: "Time above each volume's limits, and packets held back by each allowance, each second.",
    why: "A device that is held back looks slow; without burst credits, the next run is slower than the \
          last.",
    tested: ON_RECORDS,
    check: RuleCheck::Run(allowance_exceeded),
};

/// Part of the measurement above a limit from which on it affects the number.
const ABOVE: f64 = 0.01;

fn allowance_exceeded(context: &RunContext) -> Option<Finding> {
    let (from_s, to_s) = context.line.measured_span()?;
    let all = |metric: &'static str| {
        let rates = context.usage.instances(metric).into_iter();
        rates.filter_map(move |instance| {
            Some((instance.clone(), context.usage.rate_of_key(&key(metric, &instance), from_s, to_s)?))
        })
    };
    let above = all("disk.over_limit_time").filter(|(_, share)| *share > ABOVE);
    let above: Vec<String> = above
        .map(|(of, share)| format!("{of} was above its limit {} of the time", percent(share.min(1.0))))
        .collect();
    let held = all("net.held_back_packets").filter(|(_, rate)| *rate > 0.0);
    let held: Vec<String> =
        held.map(|(of, rate)| format!("{:.0} packets held back by {of}", rate * (to_s - from_s))).collect();
    let severity = if above.is_empty() { Severity::Note } else { Severity::Doubt };
    let found = [above, held].concat();
    (!found.is_empty()).then(|| ALLOWANCE_EXCEEDED.finds(severity, list(&found, 4)))
}
