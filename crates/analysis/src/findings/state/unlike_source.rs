//! A finding about data of the user's own that is not all that its files or archive have.

use model::run::phase::Phase;

use crate::finding::{Finding, Severity};
use crate::findings::{Rule, RuleCheck, RunContext};

pub(in crate::findings) const UNLIKE_SOURCE: Rule = Rule {
    id: "unlike-source",
    title: "The data is not all that its files or archive have",
    severity: "Note when something of workload.data or workload.restore_from was left out, or roles were made for it",
    source: "design: a server for a benchmark has neither the users nor the subscribers of the dump's",
    advice: "Nothing, unless what is named costs time where the dump is from: publications and subscriptions do, roles do not.",
    evidence: "The fact `unlike_source` of the restore phase.",
    why: "A figure is about the data that was there: with a publication, PostgreSQL writes more WAL for some changes.",
    tested: "Archives and files of applications with roles, publications, subscriptions and databases of their own.",
    check: RuleCheck::Run(unlike_source),
};

fn unlike_source(context: &RunContext) -> Option<Finding> {
    let words = context.data.record.phase(Phase::Restore)?.detail.get("unlike_source")?;
    Some(UNLIKE_SOURCE.finds(Severity::Note, words.clone()))
}
