//! The figures of an analytical run, from its executions.
//!
//! A query that was stopped at its longest time counts as that long, so that a slow query never makes a run look fast.

use model::directory::AnalyticalSpec;
use model::load::execution::{Execution, ExecutionEnd};
use model::run::RunData;

use crate::plan;
use crate::summary::{AnalyticalSummary, QuerySummary, RunSummary};

/// `query_canceled`, which a statement that is stopped at `statement_timeout` ends with.
const CANCELED: &str = "57014";
/// The server's timer and ours differ by less than this share.
const TIMEOUT_SHARE: f64 = 0.95;

/// The figures of a run; `None` if its workload is not analytical.
pub(crate) fn of_run(data: &RunData) -> Option<AnalyticalSummary> {
    let record = &data.record;
    let spec = record.case.workload.analytical()?;
    let n_streams = record.load.as_ref().map_or(record.case.workload.n_clients, |load| load.n_clients);
    let counted: Vec<&Execution> =
        data.executions.iter().filter(|one| one.pass >= spec.warm_passes).collect();
    let n_each = u64::from(n_streams) * u64::from(spec.passes);
    let scripts =
        record.load.iter().flat_map(|load| &load.scripts).enumerate().filter(|(_, script)| script.weight > 0);
    let queries: Vec<QuerySummary> = scripts
        .map(|(index, script)| {
            let own = counted.iter().copied().filter(|one| one.script as usize == index);
            let plans = data
                .plans
                .iter()
                .filter(|plan| plan.transaction == script.name)
                .filter_map(|plan| plan.plan.as_ref());
            let plans = plan::hash(&plans.collect::<Vec<_>>()).into_iter().collect();
            query(&script.name, own, spec, n_each, plans)
        })
        .collect();
    let first_ns = counted.iter().map(|one| one.start_ns).min().unwrap_or(0);
    let last_ns = counted.iter().map(|one| one.end_ns()).max().unwrap_or(0);
    let elapsed_s = last_ns.saturating_sub(first_ns) as f64 / 1e9;
    let seconds: Option<Vec<f64>> = queries.iter().map(|query| query.seconds).collect();
    let geomean_s = seconds.and_then(|seconds| geometric_mean(&seconds));
    let scale = f64::from(record.case.workload.scale);
    let n_executions = counted.len() as f64;
    Some(AnalyticalSummary {
        n_streams,
        n_queries: spec.n_queries,
        n_passes: spec.passes,
        is_at_least: queries.iter().any(|query| query.timeouts > 0),
        geomean_s,
        geomeans_s: geomean_s.into_iter().collect(),
        elapsed_s,
        power_per_h: per_hour(scale, geomean_s, n_streams == 1),
        throughput_per_h: per_hour(n_executions * scale, geomean_s.map(|_| elapsed_s), n_streams > 1),
        queries,
    })
}

/// So much in these seconds, per hour, if it is asked for.
fn per_hour(amount: f64, seconds: Option<f64>, is_asked: bool) -> Option<f64> {
    let seconds = if is_asked { seconds? } else { return None };
    (seconds > 0.0).then(|| 3600.0 * amount / seconds)
}

fn query<'a>(
    name: &str,
    executions: impl Iterator<Item = &'a Execution>,
    spec: &AnalyticalSpec,
    n_expected: u64,
    plans: Vec<String>,
) -> QuerySummary {
    let (mut seconds, mut timeouts, mut failed) = (Vec::new(), 0, 0);
    for execution in executions {
        let length_s = execution.length_ns as f64 / 1e9;
        match execution.end {
            ExecutionEnd::Committed | ExecutionEnd::Expected => seconds.push(length_s),
            ExecutionEnd::Failed => match timeout_s(execution, spec.timeouts_ms.get(name)) {
                Some(timeout_s) => {
                    seconds.push(timeout_s);
                    timeouts += 1;
                }
                None => failed += 1,
            },
            ExecutionEnd::Unknown | ExecutionEnd::Aborted | ExecutionEnd::Skipped => failed += 1,
        }
    }
    // An order may name a query twice.
    let is_complete = failed == 0 && seconds.len() as u64 >= n_expected;
    let mean = if is_complete { stats::mean(&seconds) } else { None };
    QuerySummary {
        name: name.to_string(),
        n: seconds.len() as u64 + failed,
        timeouts,
        failed,
        seconds: mean,
        seconds_runs: mean.into_iter().collect(),
        min_s: seconds.iter().copied().reduce(f64::min),
        max_s: seconds.iter().copied().reduce(f64::max),
        plans,
    }
}

/// The longest time of a query, if the execution was stopped at it.
fn timeout_s(execution: &Execution, timeout_ms: Option<&u64>) -> Option<f64> {
    let timeout_s = *timeout_ms? as f64 / 1e3;
    let is_stopped = execution.sqlstate.as_deref() == Some(CANCELED);
    (is_stopped && execution.length_ns as f64 / 1e9 >= TIMEOUT_SHARE * timeout_s).then_some(timeout_s)
}

/// The geometric mean of positive values; `None` without any.
pub(crate) fn geometric_mean(values: &[f64]) -> Option<f64> {
    let is_positive = !values.is_empty() && values.iter().all(|value| *value > 0.0);
    let logs: Vec<f64> = values.iter().map(|value| value.ln()).collect();
    if is_positive { stats::mean(&logs).map(f64::exp) } else { None }
}

/// The figures of a case over its runs that count.
pub(crate) fn of_case(runs: &[&RunSummary]) -> Option<AnalyticalSummary> {
    let of_runs: Vec<&AnalyticalSummary> = runs.iter().filter_map(|run| run.analytical.as_ref()).collect();
    let first = *of_runs.first()?;
    let values = |of: &dyn Fn(&AnalyticalSummary) -> Option<f64>| -> Vec<f64> {
        of_runs.iter().filter_map(|run| of(run)).collect()
    };
    let geomeans_s = values(&|run| run.geomean_s);
    let query = |name: &str| {
        let own: Vec<&QuerySummary> = of_runs.iter().filter_map(|run| run.query(name)).collect();
        let seconds_runs: Vec<f64> = own.iter().filter_map(|query| query.seconds).collect();
        let mut plans: Vec<String> = Vec::new();
        for plan in own.iter().flat_map(|query| &query.plans) {
            if !plans.contains(plan) {
                plans.push(plan.clone());
            }
        }
        QuerySummary {
            name: name.to_string(),
            n: own.iter().map(|query| query.n).sum(),
            timeouts: own.iter().map(|query| query.timeouts).sum(),
            failed: own.iter().map(|query| query.failed).sum(),
            seconds: stats::median(&seconds_runs),
            seconds_runs,
            min_s: own.iter().filter_map(|query| query.min_s).reduce(f64::min),
            max_s: own.iter().filter_map(|query| query.max_s).reduce(f64::max),
            plans,
        }
    };
    Some(AnalyticalSummary {
        queries: first.queries.iter().map(|one| query(&one.name)).collect(),
        geomean_s: stats::median(&geomeans_s),
        geomeans_s,
        is_at_least: of_runs.iter().any(|run| run.is_at_least),
        elapsed_s: stats::median(&values(&|run| Some(run.elapsed_s))).unwrap_or(0.0),
        power_per_h: stats::median(&values(&|run| run.power_per_h)),
        throughput_per_h: stats::median(&values(&|run| run.throughput_per_h)),
        ..first.clone()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn executions(lengths_s: &[f64], end: ExecutionEnd, sqlstate: Option<&str>) -> Vec<Execution> {
        let execution = |length_s: &f64| Execution {
            length_ns: (length_s * 1e9) as u64,
            end,
            sqlstate: sqlstate.map(str::to_string),
            ..Execution::default()
        };
        lengths_s.iter().map(execution).collect()
    }

    fn spec() -> AnalyticalSpec {
        AnalyticalSpec { timeouts_ms: [("q".to_string(), 10_000)].into(), ..AnalyticalSpec::default() }
    }

    #[test]
    fn a_query_that_is_stopped_counts_as_its_longest_time() {
        let mut all = executions(&[2.0, 3.0], ExecutionEnd::Committed, None);
        all.extend(executions(&[10.001], ExecutionEnd::Failed, Some("57014")));
        let found = query("q", all.iter(), &spec(), 3, Vec::new());
        assert_eq!((found.seconds, found.timeouts, found.failed), (Some(5.0), 1, 0));
        assert_eq!((found.min_s, found.max_s), (Some(2.0), Some(10.0)));
    }

    #[test]
    fn a_query_that_fails_or_is_missing_has_no_time() {
        for (lengths_s, sqlstate) in [(vec![1.0], "57014"), (vec![10.5], "53200"), (vec![], "")] {
            let mut all = executions(&[2.0], ExecutionEnd::Committed, None);
            all.extend(executions(&lengths_s, ExecutionEnd::Failed, Some(sqlstate)));
            let found = query("q", all.iter(), &spec(), 2, Vec::new());
            assert_eq!((found.seconds, found.timeouts), (None, 0), "{sqlstate}");
            assert_eq!(found.failed, lengths_s.len() as u64);
        }
    }

    #[test]
    fn the_geometric_mean_is_that_of_products() {
        let check = |values: &[f64], expected: Option<f64>| match (geometric_mean(values), expected) {
            (Some(found), Some(expected)) => assert!((found - expected).abs() < 1e-12, "{values:?}: {found}"),
            (found, expected) => assert_eq!(found, expected),
        };
        check(&[2.0, 8.0], Some(4.0));
        check(&[1.0, 10.0, 100.0], Some(10.0));
        check(&[5.0], Some(5.0));
        check(&[], None);
        check(&[1.0, 0.0], None);
    }
}
