//! Whether a comparison fails, as `--fail-on` asks, and says of each what decides.

use analysis::comparison::{CaseComparison, ComparisonVerdict, FamilyVerdict, StatementComparison};

use model::text::visible::on_one_line;

use crate::front::cli::FailOn;
use crate::front::cli::compare::failing::{CostLimit, FailTerms, StatementLimit};
use crate::{Exit, say};

/// The exit code of these comparisons. One without a verdict that was asked for must not pass.
pub(super) fn judged(comparisons: &[CaseComparison], terms: &FailTerms) -> Exit {
    let speed =
        terms.speed.into_iter().flat_map(|speed| comparisons.iter().map(move |case| of_speed(case, speed)));
    let of_statements = |limit: &StatementLimit| {
        let margin = limit.0;
        comparisons.iter().map(move |case| of_statements(case, margin))
    };
    let of_cost = |limit| comparisons.iter().map(move |case| of_cost(case, limit));
    let statements = terms.statements.iter().flat_map(of_statements);
    Exit::of_all(speed.chain(statements).chain(terms.costs.iter().flat_map(of_cost)))
}

fn of_speed(case: &CaseComparison, speed: FailOn) -> Exit {
    let exit = match case.verdict() {
        Some(ComparisonVerdict::Slower) => Exit::Different,
        Some(ComparisonVerdict::Faster) if speed == FailOn::Different => Exit::Different,
        Some(_) => return Exit::Done,
        None => Exit::Partial,
    };
    // The log of a job says why it fails.
    say(&format!("--fail-on: {}", report::comparison_verdict(case)));
    exit
}

/// A statement that fails with B alone is worse than a slow one.
fn of_statements(case: &CaseComparison, margin: Option<f64>) -> Exit {
    let margin = margin.unwrap_or(case.margin);
    let all = || case.statements.all.iter();
    let bad: Vec<&StatementComparison> =
        all().filter(|one| one.fails_more() || one.is_slower_at(margin) == Some(true)).collect();
    let name = on_one_line(&case.b);
    for one in &bad {
        say(&format!("--fail-on: {name}: {}", report::statement_words(case, one)));
    }
    if !bad.is_empty() {
        return Exit::Different;
    }
    if all().any(|one| one.is_slower_at(margin).is_some()) {
        return Exit::Done;
    }
    say(&format!("--fail-on: {name}: no verdict on any statement"));
    Exit::Partial
}

fn of_cost(case: &CaseComparison, limit: &CostLimit) -> Exit {
    let found = case.costs.iter().find(|cost| cost.id == limit.id);
    match found.and_then(|cost| cost.verdict_at(limit.margin)) {
        Some(FamilyVerdict::More) => {
            let words =
                found.and_then(|cost| report::cost_words(cost, FamilyVerdict::More)).unwrap_or_default();
            let [_, name] = case.purpose.names();
            say(&format!("--fail-on: {}: cost {}: {name} {words}", on_one_line(&case.b), limit.id));
            Exit::Different
        }
        Some(_) => Exit::Done,
        None => {
            say(&format!("--fail-on: {}: cost {}: no verdict on it", on_one_line(&case.b), limit.id));
            Exit::Partial
        }
    }
}
