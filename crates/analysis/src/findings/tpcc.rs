//! Findings about TPC-C: whether a run qualifies, and which requirements of the specification it does not meet.

use model::workload::MainFigure;

use super::{CaseContext, ON_RECORDS, Rule, RuleCheck, RunContext};
use crate::finding::{Finding, Severity};

pub(super) const TPCC_INPUTS: Rule = Rule {
    id: "tpcc-inputs",
    title: "The transactions are not those of TPC-C",
    severity: "Void when a share of inputs (rollbacks, remote lines and payments, customers by name) or the \
               mean of lines per order is more than four standard deviations off the specification's, a \
               share of the mix is that far below its minimum, or more than 1 % of deliveries were skipped",
    source: "TPC-C 2.4.1, 2.5.1, 2.6.1, 2.7.4.2, 5.2.3, counted by the driver",
    advice: "If deliveries were skipped, load the data again; otherwise please report this bug in pgdyno.",
    evidence: "Shares of inputs and of skipped deliveries as the driver counted them, against the \
               specification's.",
    why: "A few more remote lines or rollbacks change the throughput.",
    tested: ON_RECORDS,
    check: RuleCheck::Run(tpcc_inputs),
};

fn tpcc_inputs(context: &RunContext) -> Option<Finding> {
    let tpcc = context.summary.tpcc.as_ref()?;
    let missed: Vec<String> = tpcc
        .inputs
        .iter()
        .filter(|input| !input.is_met())
        .map(|input| {
            format!("{} {:.4} of {} (specification {})", input.what, input.counted, input.n, input.expected)
        })
        .collect();
    (!missed.is_empty()).then(|| TPCC_INPUTS.finds(Severity::Void, super::format::list(&missed, 3)))
}

pub(super) const TPCC_RESPONSE: Rule = Rule {
    id: "tpcc-response",
    title: "Terminals wait longer than TPC-C allows",
    severity: "Doubt when the 90th percentile of a transaction's response times is above 5 s (Stock-Level 20 s, deferred \
               Delivery 80 s)",
    source: "TPC-C 5.2.5.3 and 2.7.2.2",
    advice: "Use fewer terminals or warehouses.",
    evidence: "The 90th percentile of each transaction's response times against its limit.",
    why: "Beyond the limits the specification does not allow a throughput to be reported.",
    tested: ON_RECORDS,
    check: RuleCheck::Run(tpcc_response),
};

fn tpcc_response(context: &RunContext) -> Option<Finding> {
    let tpcc = context.summary.tpcc.as_ref()?;
    let late: Vec<String> = tpcc
        .profiles
        .iter()
        .filter(|profile| !profile.is_in_limit())
        .filter_map(|profile| {
            let s = |ns: u64| ns as f64 / 1e9;
            let p90_s = s(profile.latency?.p90_ns);
            Some(format!("{}: {p90_s:.1} s, limit {:.0} s", profile.name, s(profile.p90_limit_ns?)))
        })
        .collect();
    (!late.is_empty()).then(|| TPCC_RESPONSE.finds(Severity::Doubt, super::format::list(&late, 5)))
}

pub(super) const TPCC_LIKE: Rule = Rule {
    id: "tpcc-like",
    title: "TPC-C-like: not a TPC-C result, and no tpmC",
    severity: "Note for each TPC-C and TPROC-C case, with the unmet conditions of the specification",
    source: "TPC-C 5.11 and the TPC's fair use policy",
    advice: "Call it NOPM, state the conditions that are not met, and do not compare it with published tpmC.",
    evidence: "The conditions of the specification that pgdyno knows and that this case does not meet.",
    why: "tpmC is the name of an audited result; a comparison would be wrong in both directions.",
    tested: "Terminals that neither key nor think, by URL.",
    check: RuleCheck::Case(tpcc_like),
};

fn tpcc_like(context: &CaseContext) -> Option<Finding> {
    let tpcc = context.summary.tpcc.as_ref()?;
    let is_hammerdb = context.case.workload.kind.row().figure == MainFigure::HammerDb;
    let lead = if is_hammerdb { "as in HammerDB" } else { "not met" };
    Some(TPCC_LIKE.finds(Severity::Note, format!("{lead}: {}", tpcc.unmet.join("; "))))
}
