//! The finding about conditions of a study that a run does not meet.

use model::experiment::case::{Case, setting};
use model::experiment::plan::condition::Condition;
use model::run::server::Setting;

use crate::finding::{Finding, Severity};
use crate::findings::format::list;
use crate::findings::{Rule, RuleCheck, RunContext};
use crate::run::settings::{changed_in_sessions, server_as_sessions_have_it};

pub(in crate::findings) const CONDITION_UNMET: Rule = Rule {
    id: "condition-unmet",
    title: "A condition of the study is not met",
    severity: "Doubt when the server reports another value of a setting in experiment.conditions, or none, \
               or hides it from pgdyno's role",
    source: "experiment.conditions; two texts for one value are equal",
    advice: "Set it in server.settings or on the server by URL (hidden: grant pg_read_all_settings), or \
             remove it from experiment.conditions.",
    evidence: "Settings as a session of the load's role and database sees them, and the conditions of the \
               case.",
    why: "Reports print the conditions next to every figure, and readers believe them.",
    tested: "full_page_writes = on by URL, where the study states off.",
    check: RuleCheck::Run(condition_unmet),
};

fn condition_unmet(context: &RunContext) -> Option<Finding> {
    let record = &context.data.record;
    let server = server_as_sessions_have_it(record)?;
    let changed = changed_in_sessions(record).unwrap_or_default();
    let mut unmet = Vec::new();
    for condition in &record.case.conditions {
        let Some((name, wanted)) = condition.setting() else { continue };
        match setting::find(&server.settings, name) {
            Some((_, setting)) if condition.is_met_by(&setting.value) => {}
            Some((known, setting))
                if is_given(&record.case, condition, setting) && !changed.contains_key(known.as_str()) => {}
            Some((_, setting)) => unmet.push(format!("{name} is {}, not {wanted}", setting.value)),
            None if server.hides(name) => {
                unmet.push(format!("{name} is hidden from pgdyno's role: it may be {wanted} or not"))
            }
            None => unmet.push(format!("the server reports no {name}")),
        }
    }
    (!unmet.is_empty()).then(|| CONDITION_UNMET.finds(Severity::Doubt, list(&unmet, 4)))
}

/// Whether the server has the value from the experiment, which may write it as no server shows it: `25%` of memory, or a number without
/// the setting's unit.
fn is_given(case: &Case, condition: &Condition, setting: &Setting) -> bool {
    let gives = |(name, value): (&String, &String)| condition.names(name) && condition.is_met_by(value);
    // Where pgdyno writes settings.
    setting.source == "configuration file" && case.server.settings.iter().any(gives)
}
