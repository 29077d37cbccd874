//! The answer in one sentence.

pub(crate) mod outages;

use std::collections::BTreeMap;

use analysis::case::answer;
use analysis::finding::{Grade, Severity};
use analysis::summary::{CaseSummary, Study};

use crate::prose::variation::uncertainty;
use crate::prose::{self, format, phrases};
use model::experiment::keys;

/// Title of the experiment for people.
pub(crate) fn title(study: &Study) -> String {
    let plan = &study.plan;
    let title = if plan.title.trim().is_empty() { &plan.name } else { &plan.title };
    phrases::one_line(title)
}

/// The case that the key figures are about: the highest throughput among those that are not void, if there is one.
pub(crate) fn best(study: &Study) -> Option<&CaseSummary> {
    let measured = || study.cases.iter().filter(|case| case.tps_median.is_some());
    let highest = |a: &&CaseSummary, b: &&CaseSummary| {
        a.tps_median.partial_cmp(&b.tps_median).unwrap_or(std::cmp::Ordering::Equal)
    };
    measured().filter(|case| case.grade != Grade::Void).max_by(highest).or_else(|| measured().max_by(highest))
}

/// The answer with the grade of what it rests on; no grade without a number.
pub(crate) struct Headline {
    pub(crate) text: String,
    pub(crate) grade: Option<Grade>,
}

/// The answer: `8 clients: 4,812 tps (median of 3 runs, good to ±5 %), p99 3.40 ms`, and its grade unless it is valid.
pub(crate) fn sentence(study: &Study) -> String {
    let Headline { text, grade } = from_study(study);
    match grade.filter(|grade| *grade != Grade::Valid) {
        Some(grade) => format!("{text} - {}", grade.as_str()),
        None => text,
    }
}

/// The answer to the question of the experiment: that of its factor, or the figures of its only case.
pub(crate) fn from_study(study: &Study) -> Headline {
    let Some(best) = best(study) else { return Headline { text: no_number(study), grade: None } };
    let of_study = Grade::from_findings(&study.findings);
    if let Some(text) = outages::answer(study) {
        let of_outages = study.cases.iter().filter(|case| case.outages.is_some()).map(|case| case.grade);
        return Headline { text, grade: Some(of_outages.fold(of_study, Grade::max)) };
    }
    match answer::factor_answer(study) {
        Some(answer) => {
            // The sentence goes on to the other groups.
            let of_levels = answer.groups.iter().flat_map(|group| &group.levels).map(|level| level.grade);
            let grade = of_levels.fold(of_study, Grade::max);
            let text = format!(
                "{}{}",
                prose::answer::words(study, &answer),
                prose::capacity::offered::missed(study)
            );
            Headline { text, grade: Some(grade) }
        }
        None => Headline { text: of_case(study, best), grade: Some(best.grade.max(of_study)) },
    }
}

fn of_case(study: &Study, case: &CaseSummary) -> String {
    let label = name(case);
    if let Some(capacity) = prose::capacity::words(case) {
        return format!("{label}: {capacity}");
    }
    if let Some(offered) = prose::capacity::offered::words(study, case) {
        return format!("{label}: {offered}");
    }
    let tps = case.tps_median.map_or_else(|| "-".to_string(), format::tps);
    let mut spread = match case.n_runs {
        1 => "one run".to_string(),
        n => format!("median of {n} runs"),
    };
    match (&case.uncertainty, case.tps_cv) {
        (Some(known), _) => {
            let good_to = uncertainty::good_to(Some(&known.throughput), case.precision());
            spread.push_str(&format!(", good to {good_to}"));
        }
        (None, Some(cv)) => spread.push_str(&format!(", CV {}", format::percent(cv))),
        (None, None) => {}
    }
    let p99 = case
        .latency
        .map(|latency| format!(", p99 {} ms", format::ms(latency.p99_ns as f64)))
        .unwrap_or_default();
    let queries =
        case.analytical.as_ref().map(|queries| prose::scripts::queries::geometric_mean(queries) + ", ");
    let unit = prose::scripts::queries::unit(case);
    let nopm =
        case.tpcc.as_ref().map(|tpcc| format!("{} NOPM, ", format::tps(tpcc.nopm))).unwrap_or_default();
    let measures = case.measures.iter().map(|measure| format!(", {}", prose::scripts::measure(measure)));
    let queries = queries.unwrap_or_default();
    format!("{label}: {queries}{nopm}{tps} {unit} ({spread}){p99}{}", measures.collect::<String>())
}

/// Why there is no answer.
fn no_number(study: &Study) -> String {
    // Without a best case, no line mentions a rate that counts.
    match prose::capacity::lines(study).as_slice() {
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
    let why = why_void(study).map_or(String::new(), |why| format!(" ({why})"));
    match (study.runs.len(), void) {
        (0, _) => "No number: no run was started".to_string(),
        (1, 1) => format!("No number: the only run is void{why}"),
        (n, void) if n == void => format!("No number: all {n} runs are void{why}"),
        (1, _) => "No number: the only run does not count".to_string(),
        (n, _) => format!("No number: none of {n} runs counts"),
    }
}

/// The title of the finding that voids most runs: `transactions failed`.
fn why_void(study: &Study) -> Option<String> {
    let mut n_runs: BTreeMap<&str, usize> = BTreeMap::new();
    for run in &study.runs {
        let void = run.findings.iter().filter(|finding| finding.severity == Severity::Void);
        void.for_each(|finding| *n_runs.entry(finding.id).or_default() += 1);
    }
    let (id, _) = n_runs.into_iter().max_by_key(|(_, n)| *n)?;
    let title = analysis::findings::rule(id)?.title;
    let mut letters = title.chars();
    let first = letters.next()?;
    // An abbreviation keeps its capitals.
    let is_word = letters.clone().next().is_some_and(char::is_lowercase);
    Some(if is_word { first.to_lowercase().chain(letters).collect() } else { title.to_string() })
}

/// The case as people say it: `64 clients`, not `clients 64`.
pub(crate) fn name(case: &CaseSummary) -> String {
    match case.case.levels.get(keys::workload::CLIENTS.name) {
        Some(n) if case.case.levels.len() == 1 => phrases::plural_of(n, "client"),
        _ => phrases::one_line(&case.label),
    }
}
