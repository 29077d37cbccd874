//! The conditions of a study in a line, which is printed next to every figure.

use model::experiment::plan::Plan;

use crate::prose::phrases;

/// `Conditions: fsync=off, synchronous_commit=off`; `None` if the study states none.
pub(crate) fn line(plan: &Plan) -> Option<String> {
    let mut stated: Vec<String> = Vec::new();
    for condition in plan.cases.iter().flat_map(|case| &case.conditions) {
        let words = phrases::one_line(&condition.to_string());
        if !stated.contains(&words) {
            stated.push(words);
        }
    }
    let name = if stated.len() == 1 { "Condition" } else { "Conditions" };
    (!stated.is_empty()).then(|| format!("{name}: {}", stated.join(", ")))
}
