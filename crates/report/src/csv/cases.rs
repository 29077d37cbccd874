//! One row per case: its levels as columns, its figures, how far to trust them.

use std::collections::BTreeSet;

use analysis::case::{answer, labels, money};
use analysis::cost::COSTS;
use analysis::summary::{CaseSummary, Study};

use super::{cost_name, counters, latency, number, of_rows, outages, queries};

/// The whole table. All cases have the same columns.
pub(crate) fn table(study: &Study) -> String {
    let rows: Vec<Vec<(String, String)>> = study.cases.iter().map(|case| row(study, case)).collect();
    of_rows(&rows, &["case", "label"])
}

fn row(study: &Study, case: &CaseSummary) -> Vec<(String, String)> {
    let mut row: Vec<(String, String)> = Vec::new();
    let mut put = |name: &str, value: String| row.push((name.to_string(), value));
    put("case", case.case.id.to_string());
    put("label", case.label.clone());
    for factor in &study.plan.factors {
        put(factor, case.case.levels.get(factor).cloned().unwrap_or_default());
    }
    for key in labels::keys(&study.plan) {
        put(&key, case.case.level(&key).unwrap_or_default().to_string());
    }
    put("verdict", case.verdict().to_string());
    put("limiter", case.limiter.as_ref().map_or(String::new(), |limiter| limiter.name.as_str().to_string()));
    let findings = || case.findings.iter().map(|finding| finding.id);
    let of_runs = study.runs.iter().filter(|run| run.case == case.case.id && run.counts());
    let mut ids: Vec<&str> =
        findings().chain(of_runs.flat_map(|run| run.findings.iter().map(|finding| finding.id))).collect();
    ids.sort_unstable();
    ids.dedup();
    put("findings", ids.join(" "));
    put("runs", case.n_runs.to_string());
    put("tps", number(case.tps_median));
    let interval = answer::interval_of(case);
    put("tps_low", number(interval.map(|(low, _)| low)));
    put("tps_high", number(interval.map(|(_, high)| high)));
    put("tps_cv", number(case.tps_cv));
    let known = case.uncertainty.as_ref();
    for (figure, uncertainty) in [
        ("", known.map(|known| &known.throughput)),
        ("p50_", known.and_then(|known| known.p50.as_ref())),
        ("p99_", known.and_then(|known| known.p99.as_ref())),
    ] {
        put(&format!("{figure}uncertainty_low"), number(uncertainty.map(|one| one.low)));
        put(&format!("{figure}uncertainty_high"), number(uncertainty.map(|one| one.high)));
    }
    let most = known.and_then(|one| one.throughput.budget.first());
    put("mostly_from", most.map_or(String::new(), |row| row.id.to_string()));
    if study.cases.iter().any(|case| case.analytical.is_some()) {
        queries(case.analytical.as_ref()).into_iter().for_each(|(name, value)| put(name, value));
    }
    if study.cases.iter().any(|case| case.tpcc.is_some()) {
        put("nopm", number(case.tpcc.as_ref().map(|tpcc| tpcc.nopm)));
    }
    let measured = study.cases.iter().flat_map(|case| &case.measures);
    let names: BTreeSet<&str> = measured.map(|measure| measure.name.as_str()).collect();
    for name in names {
        let measure = case.measures.iter().find(|measure| measure.name == name);
        put(&format!("measure_{name}"), number(measure.and_then(|measure| measure.value)));
    }
    let target =
        |case: &CaseSummary| case.case.server.target.clone().filter(|target| target.price_per_hour.is_some());
    if study.cases.iter().any(|case| target(case).is_some()) {
        let own = target(case);
        put("price_per_hour", number(own.as_ref().and_then(|target| target.price_per_hour)));
        put("currency", own.and_then(|target| target.currency).unwrap_or_default());
        put("cost_per_million", number(money::of_case(case).and_then(|money| money.per_million())));
    }
    for cost in COSTS {
        let known = case.costs.iter().find(|known| known.id == cost.id);
        let range = known.and_then(|known| known.range);
        let name = cost_name(cost);
        row.push((name.clone(), number(known.map(|known| known.median))));
        row.push((format!("{name}_low"), number(range.map(|[low, _]| low))));
        row.push((format!("{name}_high"), number(range.map(|[_, high]| high))));
    }
    outages::of_case(study, &mut row, case);
    counters(study, &mut row, case.counters.as_ref());
    latency(&mut row, "latency", case.latency);
    latency(&mut row, "service", case.service);
    row
}
