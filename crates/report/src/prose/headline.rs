//! The answer in one sentence.

use analysis::finding::Grade;
use analysis::summary::{CaseSummary, Study};

use crate::prose::{format, phrases};

/// Title of the experiment for people.
pub(crate) fn title(study: &Study) -> String {
    let plan = &study.plan;
    let title = if plan.title.trim().is_empty() { &plan.name } else { &plan.title };
    phrases::one_line(title)
}

/// The case that the headline is about: the highest throughput among those that are not void, if there is one.
pub(crate) fn best(study: &Study) -> Option<&CaseSummary> {
    let measured = || study.cases.iter().filter(|case| case.tps_median.is_some());
    let highest = |a: &&CaseSummary, b: &&CaseSummary| {
        a.tps_median.partial_cmp(&b.tps_median).unwrap_or(std::cmp::Ordering::Equal)
    };
    measured().filter(|case| case.grade != Grade::Void).max_by(highest).or_else(|| measured().max_by(highest))
}

/// The answer: `8 clients: 4,812 tps (median of 3 runs, CV 1.2 %), p99 3.40 ms - valid`.
pub(crate) fn sentence(study: &Study) -> String {
    let Some(best) = best(study) else {
        // Without a best case, no line mentions a rate that counts.
        match crate::prose::capacity::lines(study).as_slice() {
            [] => {}
            [only] => return format!("No number: {only}"),
            lines => {
                return format!(
                    "No number: in none of {} did most searches find a rate",
                    phrases::plural(lines.len(), "case")
                );
            }
        }
        let void = study.runs.iter().filter(|run| run.grade == Grade::Void).count();
        return match (study.runs.len(), void) {
            (0, _) => "No number: no run was started".to_string(),
            (n, void) if n == void => format!("No number: {} void", of_all(n)),
            (n, _) => format!("No number: none of {} counts", phrases::plural(n, "run")),
        };
    };
    let label = name(best);
    if let Some(capacity) = crate::prose::capacity::words(best) {
        return format!("{label}: {capacity} - {}", best.grade.as_str());
    }
    let lead = if study.cases.len() > 1 { format!("Highest throughput at {label}") } else { label };
    let tps = best.tps_median.map_or_else(|| "-".to_string(), format::tps);
    let mut spread = match best.n_runs {
        1 => "one run".to_string(),
        n => format!("median of {n} runs"),
    };
    if let Some(cv) = best.tps_cv {
        spread.push_str(&format!(", CV {}", format::percent(cv)));
    }
    let p99 = best
        .latency
        .map(|latency| format!(", p99 {} ms", format::ms(latency.p99_ns as f64)))
        .unwrap_or_default();
    let nopm =
        best.tpcc.as_ref().map(|tpcc| format!("{} NOPM, ", format::tps(tpcc.nopm))).unwrap_or_default();
    format!("{lead}: {nopm}{tps} tps ({spread}){p99} - {}", best.grade.as_str())
}

/// The case as people say it: `64 clients`, not `clients 64`.
fn name(case: &CaseSummary) -> String {
    match case.case.levels.get("workload.clients") {
        Some(n) if case.case.levels.len() == 1 => phrases::plural_of(n, "client"),
        _ => phrases::one_line(&case.label),
    }
}

fn of_all(n: usize) -> String {
    if n == 1 { "the only run is".to_string() } else { format!("all {n} runs are") }
}
