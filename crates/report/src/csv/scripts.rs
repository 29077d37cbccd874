//! One row per case and script, over all runs that count: its part in the mix, counts, times, facts, measures, limit.

use std::collections::BTreeSet;

use analysis::summary::{CaseSummary, QuerySummary, ScriptSummary, Study};

use super::{counts, latency, number, of_rows};

/// The whole table; only heads if no case has scripts.
pub(crate) fn table(study: &Study) -> String {
    let scripts =
        || study.cases.iter().flat_map(|case| case.scripts.iter().map(move |script| (case, script)));
    let facts: BTreeSet<&str> =
        scripts().flat_map(|(_, script)| script.facts.keys().map(String::as_str)).collect();
    let measures: BTreeSet<&str> = scripts()
        .flat_map(|(_, script)| script.measures.iter().map(|measure| measure.name.as_str()))
        .collect();
    let rows: Vec<Vec<(String, String)>> =
        scripts().map(|(case, script)| row(study, case, script, &facts, &measures)).collect();
    of_rows(&rows, &["case", "label", "script"])
}

fn row(
    study: &Study,
    case: &CaseSummary,
    script: &ScriptSummary,
    facts: &BTreeSet<&str>,
    measures: &BTreeSet<&str>,
) -> Vec<(String, String)> {
    let mut row: Vec<(String, String)> = Vec::new();
    let mut put = |name: &str, value: String| row.push((name.to_string(), value));
    put("case", case.case.id.to_string());
    put("label", case.label.clone());
    for factor in &study.plan.factors {
        put(factor, case.case.levels.get(factor).cloned().unwrap_or_default());
    }
    put("script", script.name.clone());
    put("weight", script.weight.to_string());
    put("share_planned", number(script.share_planned));
    put("share", number(script.share));
    put("share_differs", u8::from(script.share_differs).to_string());
    put("tps", number(script.tps));
    counts(&mut row, "", &script.counts);
    latency(&mut row, "latency", script.latency);
    latency(&mut row, "service", script.service);
    if study.cases.iter().any(|case| case.analytical.is_some()) {
        queries(&mut row, case.analytical.as_ref().and_then(|queries| queries.query(&script.name)));
    }
    let mut put = |name: String, value: String| row.push((name, value));
    let limit = script.limit.as_ref();
    put("limit_percentile".to_string(), number(limit.map(|limit| limit.percentile)));
    for (name, ns) in [("limit_ns", limit.map(|l| l.limit_ns)), ("limit_found_ns", limit.map(|l| l.found_ns))]
    {
        put(name.to_string(), ns.map(|ns| ns.to_string()).unwrap_or_default());
    }
    put("limit_met".to_string(), limit.map(|l| u8::from(l.is_met).to_string()).unwrap_or_default());
    for fact in facts {
        let sum = script.facts.get(*fact).map(ToString::to_string);
        put(format!("fact_{fact}"), sum.unwrap_or_default());
    }
    for name in measures {
        let measure = script.measures.iter().find(|measure| measure.name == *name);
        put(format!("measure_{name}"), number(measure.and_then(|measure| measure.value)));
    }
    row
}

/// What analytical cases have of a query.
fn queries(row: &mut Vec<(String, String)>, query: Option<&QuerySummary>) {
    let mut put = |name: &str, value: String| row.push((name.to_string(), value));
    put("seconds", number(query.and_then(|query| query.seconds)));
    put("seconds_cv", number(query.and_then(QuerySummary::cv)));
    put("seconds_min", number(query.and_then(|query| query.min_s)));
    put("seconds_max", number(query.and_then(|query| query.max_s)));
    put("executions", query.map_or(String::new(), |query| query.n.to_string()));
    put("stopped", query.map_or(String::new(), |query| query.timeouts.to_string()));
    put("plans", query.map_or(String::new(), |query| query.plans.join(" ")));
}
