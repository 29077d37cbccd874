//! Findings about a run's window whose ends were determined while the load ran.

use model::load::course::RampUpEnd;

use super::{ON_RECORDS, Rule, RuleCheck, RunContext};
use crate::finding::{Finding, Severity};

pub(super) const RAMP_UP_NOT_STEADY: Rule = Rule {
    id: "ramp-up-not-steady",
    title: "The load never became steady in the ramp-up",
    severity: "Doubt when a ramp-up of `auto` reached its bound before MSER's cut lay before its last 40 % and these kept \
               their level (3 %, or 10 % of the mean latency in an open loop) in five judgements in a row",
    source: "White 1997; Hoad, Robinson and Davies 2010; Barrett et al. 2017; chosen by simulation (stats::is_warm)",
    advice: "Raise run.ramp_up_max, or look for what keeps changing (caches, tables, other work).",
    evidence: "Why and after how many seconds the ramp-up ended (run.json), and its intervals.",
    why: "The measurement includes part of the warm-up, or of a change that never ends.",
    tested: ON_RECORDS,
    check: RuleCheck::Run(ramp_up_not_steady),
};

fn ramp_up_not_steady(context: &RunContext) -> Option<Finding> {
    let course = context.summary.course.filter(|course| course.ramp_up_end == Some(RampUpEnd::Bound))?;
    let evidence =
        format!("still not steady after {} s, the longest permitted ramp-up", course.window.ramp_up_s);
    Some(RAMP_UP_NOT_STEADY.finds(Severity::Doubt, evidence))
}

pub(super) const MEASURE_EXTENDED: Rule = Rule {
    id: "measure-extended",
    title: "The measurement was extended",
    severity: "Note when run.extend lengthened the measurement because it was not steady",
    source: "design: all seconds count, and not-steady judges them again",
    advice: "If most runs need it, plan a longer measurement, so that all have the same length.",
    evidence: "Seconds of the measurement as planned and as they became, from run.json.",
    why: "A longer run saw more of the machine's variation: its mean is better known than the others'.",
    tested: ON_RECORDS,
    check: RuleCheck::Run(measure_extended),
};

fn measure_extended(context: &RunContext) -> Option<Finding> {
    let course = context.summary.course.filter(|course| course.extended_s > 0)?;
    let planned_s = course.window.measure_s.saturating_sub(course.extended_s);
    let evidence = format!("{} s instead of {planned_s} s", course.window.measure_s);
    Some(MEASURE_EXTENDED.finds(Severity::Note, evidence))
}
