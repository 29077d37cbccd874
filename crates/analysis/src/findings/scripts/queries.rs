//! Findings about the queries of analytical workloads: whether each was answered, in time, and rightly.

use super::super::format::{list, plural};
use super::super::{CaseContext, ON_RECORDS, Rule, RuleCheck, RunContext};
use crate::finding::{Finding, Severity};
use crate::summary::QuerySummary;

pub(in super::super) const QUERY_FAILED: Rule = Rule {
    id: "query-failed",
    title: "Queries were not answered",
    severity: "Void when an execution that counts in an analytical run ended with an error other than its \
               timeout, or is missing",
    source: "our rule",
    advice: "See the errors by SQLSTATE in report.html, and run the query by hand.",
    evidence: "Executions of each query in executions.jsonl, against streams times passes.",
    why: "Without all queries, the mean is that of another set.",
    tested: ON_RECORDS,
    check: RuleCheck::Run(query_failed),
};

fn query_failed(context: &RunContext) -> Option<Finding> {
    let summary = context.summary.analytical.as_ref()?;
    let without: Vec<&QuerySummary> =
        summary.queries.iter().filter(|query| query.seconds.is_none()).collect();
    let words = |query: &&QuerySummary| match query.failed {
        0 => format!("{} ({} recorded)", query.name, plural(query.n, "execution")),
        n => format!("{} ({n} failed)", query.name),
    };
    let all: Vec<String> = without.iter().map(words).collect();
    (!all.is_empty()).then(|| QUERY_FAILED.finds(Severity::Void, list(&all, 5)))
}

pub(in super::super) const QUERY_STOPPED: Rule = Rule {
    id: "query-stopped",
    title: "Queries were stopped at their longest time",
    severity: "Note for any execution that counts in an analytical run and reached its timeout",
    source: "design: it counts as that time, so that means are `at least`",
    advice: "Raise the query's timeout in its workload directory (`timeout`, `statement_timeout`) if its \
             true time matters.",
    evidence: "Executions that ended with SQLSTATE 57014 after the time that the directory allows.",
    why: "The true time of the query is longer, by an unknown amount.",
    tested: ON_RECORDS,
    check: RuleCheck::Run(query_stopped),
};

fn query_stopped(context: &RunContext) -> Option<Finding> {
    let summary = context.summary.analytical.as_ref()?;
    let stopped = summary.queries.iter().filter(|query| query.timeouts > 0);
    let all: Vec<String> =
        stopped.map(|query| format!("{} ({} of {})", query.name, query.timeouts, query.n)).collect();
    (!all.is_empty()).then(|| QUERY_STOPPED.finds(Severity::Note, list(&all, 5)))
}

pub(in super::super) const ANSWER_WRONG: Rule = Rule {
    id: "answer-wrong",
    title: "Queries gave other answers than expected",
    severity: "Void when the rows of a query differ from `check_answer` of its workload directory; Note when they could not be compared",
    source: "our rule",
    advice: "Run the query by hand, and see whether the data, the query or the expected rows are wrong.",
    evidence: "The statement that the first stream ran first, run once more after the measurement, against \
               answers/NAME.csv.",
    why: "A query that returns other rows does other work.",
    tested: "A directory whose file with expected rows is wrong, on a server that pgdyno runs.",
    check: RuleCheck::Run(answer_wrong),
};

fn answer_wrong(context: &RunContext) -> Option<Finding> {
    let answers = &context.data.record.answers;
    let wrong =
        answers.iter().filter_map(|one| Some(format!("{}: {}", one.transaction, one.difference.as_ref()?)));
    let wrong: Vec<String> = wrong.collect();
    if !wrong.is_empty() {
        return Some(ANSWER_WRONG.finds(Severity::Void, list(&wrong, 3)));
    }
    let open =
        answers.iter().filter_map(|one| Some(format!("{}: {}", one.transaction, one.unfinished.as_ref()?)));
    let open: Vec<String> = open.collect();
    (!open.is_empty())
        .then(|| ANSWER_WRONG.finds(Severity::Note, format!("not compared: {}", list(&open, 3))))
}

pub(in super::super) const PLANS_VARY: Rule = Rule {
    id: "plans-vary",
    title: "Queries had several plans",
    severity: "Note when runs of an analytical case took different plans for one query with the same \
               parameters",
    source: "PostgreSQL documentation, ANALYZE: statistics are from a random sample of rows",
    advice: "Raise default_statistics_target, or compare more runs: part of the spread is the planner's.",
    evidence: "Hashes of the plans that were recorded after each run.",
    why: "Each ANALYZE may choose another plan: the spread of such a query is not the machine's.",
    tested: ON_RECORDS,
    check: RuleCheck::Case(plans_vary),
};

fn plans_vary(context: &CaseContext) -> Option<Finding> {
    let summary = context.summary.analytical.as_ref()?;
    let several = summary.queries.iter().filter(|query| query.plans.len() > 1);
    let all: Vec<String> = several.map(|query| format!("{} ({})", query.name, query.plans.len())).collect();
    (!all.is_empty()).then(|| PLANS_VARY.finds(Severity::Note, list(&all, 8)))
}

/// Whether a run is analytical, so that rules about rates of seconds do not judge it.
pub(in super::super) fn is_analytical(context: &RunContext) -> bool {
    context.summary.analytical.is_some()
}
