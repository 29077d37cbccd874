//! The figures of a result as rows of the schema. The order of columns is that of `schema/`.

use std::collections::BTreeMap;
use std::io;

use analysis::comparison::{CaseComparison, CostComparison, FigureComparison};
use analysis::finding::{Finding, Severity};
use analysis::history;
use analysis::summary::{LatencySummary, RunSummary, Study};
use model::experiment::plan::RunState;
use model::load::histogram::HistogramSum;
use model::load::interval::Interval;
use model::run::{ExperimentData, RunData, RunRecord};
use model::telemetry::reading::split_key;
use serde::Serialize;

use crate::copy::CopyRow;

/// Text of a value for a column of JSON, which cannot keep zero characters.
pub(crate) fn json(value: &impl Serialize) -> String {
    let text = serde_json::to_string(value).unwrap_or_default();
    let (mut kept, mut rest) = (String::with_capacity(text.len()), text.as_str());
    while let Some(at) = rest.find('\\') {
        let (before, escape) = rest.split_at(at);
        // The sign after a backslash belongs to it, and is one byte: serde_json escapes nothing else.
        let n_bytes = if escape.starts_with("\\u0000") { 6 } else { 2 };
        kept.push_str(before);
        kept.push_str(if n_bytes == 6 { "" } else { &escape[..n_bytes] });
        rest = &escape[n_bytes..];
    }
    kept + rest
}

/// The word of a value that serializes as one.
fn word(value: &impl Serialize) -> String {
    let found = serde_json::to_value(value).ok();
    found.and_then(|value| value.as_str().map(str::to_string)).unwrap_or_default()
}

pub(crate) fn cases(id: i64, study: &Study) -> io::Result<Vec<CopyRow>> {
    let row = |case: &analysis::summary::CaseSummary| {
        let spec = &case.case;
        let row = CopyRow::new(id)
            .put(spec.id)
            .put(&case.label)
            .put(json(&spec.levels_and_labels()))
            .put(spec.workload.name())
            .put(spec.workload.scale)
            .put(spec.workload.n_clients)
            .put(&spec.server.source)
            .put(case.n_runs)
            .maybe(case.tps_median)
            .maybe(case.tps_cv);
        let known = case.uncertainty.as_ref().map(|known| &known.throughput);
        let by_url = (!spec.server.source.is_embedded()).then_some(&spec.server.source);
        Ok(latency(row, case.latency)
            .maybe(case.limiter.as_ref().map(|limiter| limiter.name.as_str()))
            .put(case.grade.as_str())
            .put(files::sha256_of(json(&history::asked(spec)).as_bytes())?)
            .maybe(by_url)
            .maybe(known.map(|known| known.low))
            .maybe(known.map(|known| known.high))
            .maybe(known.and_then(|known| known.budget.first()).map(|row| row.id)))
    };
    study.cases.iter().map(row).collect()
}

fn latency(row: CopyRow, latency: Option<LatencySummary>) -> CopyRow {
    row.maybe(latency.map(|l| l.mean_ns))
        .maybe(latency.map(|l| l.p50_ns))
        .maybe(latency.map(|l| l.p95_ns))
        .maybe(latency.map(|l| l.p99_ns))
        .maybe(latency.map(|l| l.p999_ns))
        .maybe(latency.map(|l| l.max_ns))
}

fn record_of<'a>(data: &'a ExperimentData, run: &RunSummary) -> Option<&'a RunRecord> {
    data.runs.iter().map(|run| &run.record).find(|record| record.spec.run == run.run)
}

pub(crate) fn runs(id: i64, study: &Study, data: &ExperimentData) -> Vec<CopyRow> {
    let row = |run: &RunSummary| {
        let record = record_of(data, run);
        let server = record.and_then(|record| record.server.as_ref());
        let host = record.and_then(|record| record.host.as_ref());
        let row = CopyRow::new(id)
            .put(run.run)
            .put(run.block)
            .put(run.case)
            .maybe(record.map(|record| record.spec.seed))
            .put(state(run.state))
            .put(&run.reason)
            .put(run.counts())
            .put(run.grade.as_str())
            .time(run.go_unix_ns)
            .put(run.measured_s)
            .maybe(host.map(|host| &host.hostname))
            .maybe(server.map(|server| server.release()))
            .maybe(server.and_then(|server| server.executable_sha256.as_ref()))
            .maybe(run.tps)
            .put(run.counts.committed)
            .put(run.counts.failed);
        latency(row, run.latency)
            .maybe(run.limiter.as_ref().map(|limiter| limiter.name.as_str()))
            .put(record.is_some_and(RunRecord::took_turns))
            .put(run.counts.expected)
    };
    study.runs.iter().map(row).collect()
}

fn state(state: RunState) -> String {
    word(&state)
}

pub(crate) fn phases(id: i64, study: &Study, data: &ExperimentData) -> Vec<CopyRow> {
    let mut rows = Vec::new();
    for run in &study.runs {
        let phases = record_of(data, run).map_or(&[][..], |record| &record.phases);
        for (place, phase) in phases.iter().enumerate() {
            let row = CopyRow::new(id).put(run.run).put(place).put(phase.phase.as_str());
            rows.push(row.time(Some(phase.start_unix_ns)).time(Some(phase.end_unix_ns)));
        }
    }
    rows
}

pub(crate) fn findings(id: i64, study: &Study) -> Vec<CopyRow> {
    let row = |case: Option<u32>, run: Option<u32>, finding: &Finding| {
        let severity = match finding.severity {
            Severity::Note => "note",
            Severity::Doubt => "doubt",
            Severity::Void => "void",
        };
        CopyRow::new(id)
            .maybe(case)
            .maybe(run)
            .put(finding.id)
            .put(severity)
            .put(&finding.evidence)
            .put(&finding.advice)
    };
    let of_study = study.findings.iter().map(|finding| row(None, None, finding));
    let of_cases = study
        .cases
        .iter()
        .flat_map(|case| case.findings.iter().map(|finding| row(Some(case.case.id), None, finding)));
    let of_runs = study
        .runs
        .iter()
        .flat_map(|run| run.findings.iter().map(|finding| row(Some(run.case), Some(run.run), finding)));
    of_study.chain(of_cases).chain(of_runs).collect()
}

/// Costs of the cases, then those of the runs.
pub(crate) fn costs(id: i64, study: &Study) -> Vec<CopyRow> {
    let row = |case: u32, run: Option<u32>, cost: &'static str, value: f64| {
        CopyRow::new(id).put(case).maybe(run).put(cost).put(value)
    };
    let of_cases = study.cases.iter().flat_map(|case| {
        case.costs.iter().map(|cost| {
            let row = row(case.case.id, None, cost.id, cost.median);
            row.maybe(cost.range.map(|[low, _]| low)).maybe(cost.range.map(|[_, high]| high))
        })
    });
    let of_runs = study.runs.iter().flat_map(|run| {
        let of_run = run.costs.iter();
        of_run.map(|cost| {
            row(run.case, Some(run.run), cost.id, cost.value).maybe(None::<f64>).maybe(None::<f64>)
        })
    });
    of_cases.chain(of_runs).collect()
}

/// Each figure of each comparison, then its costs.
pub(crate) fn comparisons(id: i64, comparisons: &[CaseComparison]) -> Vec<CopyRow> {
    let of_figures = |case: &CaseComparison| {
        let row = |figure: &FigureComparison| {
            let ratio = figure.result.as_ref();
            CopyRow::new(id)
                .put(1)
                .put(2)
                .put(word(&case.pairing))
                .put(case.n_pairs)
                .put(case.margin)
                .put(figure.figure.as_str())
                .put(figure.figure == case.lead)
                .maybe(figure.a_median)
                .maybe(figure.b_median)
                .maybe(ratio.map(|ratio| ratio.ratio))
                .maybe(ratio.map(|ratio| ratio.low))
                .maybe(ratio.map(|ratio| ratio.high))
                .maybe(ratio.map(|ratio| ratio.p_adjusted))
                .maybe(ratio.map(|ratio| word(&ratio.verdict)))
        };
        case.figures.iter().map(row).collect::<Vec<CopyRow>>()
    };
    comparisons.iter().flat_map(|case| of_figures(case).into_iter().chain(of_costs(id, case))).collect()
}

fn of_costs(id: i64, case: &CaseComparison) -> Vec<CopyRow> {
    let row = |cost: &CostComparison| {
        let ratio = cost.result.as_ref();
        CopyRow::new(id)
            .put(1)
            .put(2)
            .put(word(&case.pairing))
            .put(cost.n_pairs)
            .put(cost.margin)
            .put(format!("cost:{}", cost.id))
            .put(false)
            .put(cost.a_median)
            .put(cost.b_median)
            .maybe(ratio.map(|ratio| ratio.ratio))
            .maybe(ratio.map(|ratio| ratio.low))
            .maybe(ratio.map(|ratio| ratio.high))
            .maybe(ratio.map(|ratio| ratio.p_adjusted))
            .maybe(cost.verdict.map(|verdict| word(&verdict)))
    };
    case.costs.iter().map(row).collect()
}

pub(crate) fn intervals(id: i64, run: &RunData) -> impl Iterator<Item = CopyRow> {
    let window = run.record.window();
    let measured = window.ramp_up_s..window.ramp_up_s + window.measure_s;
    let mut lines: BTreeMap<(u32, &str), Vec<usize>> = BTreeMap::new();
    for (at, stamped) in run.histograms.iter().enumerate() {
        lines.entry((stamped.t, stamped.line.tag.as_str())).or_default().push(at);
    }
    run.intervals.iter().map(move |interval| {
        let scripts = run.record.load.as_ref().map(|load| &load.scripts);
        let script = scripts.and_then(|scripts| scripts.get(interval.script as usize));
        let sum = |end: &str| {
            let tag = format!("{}{end}", script?.tag);
            histogram(run, lines.get(&(interval.t, tag.as_str()))?)
        };
        let (latency, service) = (sum(""), sum(".service"));
        let summary = latency.as_ref().and_then(|(_, summary)| *summary);
        let name = script.map_or_else(|| interval.script.to_string(), |script| script.name.clone());
        let row = CopyRow::new(id)
            .put(run.record.spec.run)
            .put(interval.t)
            .put(name)
            .put(measured.contains(&interval.t))
            .time(Some(interval.start_unix_ns))
            .put(interval.length_ns);
        counts(row, interval)
            .maybe((!interval.errors.is_empty()).then(|| json(&interval.errors)))
            .maybe(latency.map(|(data, _)| data))
            .maybe(service.map(|(data, _)| data))
            .maybe(summary.map(|s| s.p50_ns))
            .maybe(summary.map(|s| s.p95_ns))
            .maybe(summary.map(|s| s.p99_ns))
            .maybe(summary.map(|s| s.max_ns))
            .put(interval.counts.expected)
    })
}

fn counts(row: CopyRow, interval: &Interval) -> CopyRow {
    let c = &interval.counts;
    let all = [
        c.due,
        c.skipped,
        c.started,
        c.committed,
        c.failed,
        c.unknown,
        c.aborted,
        c.retried,
        c.retries,
        c.late,
    ];
    all.into_iter().fold(row, CopyRow::put)
}

/// The sum of the histograms of these places, as text, and its figures.
fn histogram(run: &RunData, places: &[usize]) -> Option<(String, Option<LatencySummary>)> {
    let mut sum = HistogramSum::new();
    for place in places {
        sum.add(&HistogramSum::read(&run.histograms[*place].line).ok()?);
    }
    let data = match places {
        [only] => run.histograms[*only].line.data.clone(),
        _ => sum.line("").data,
    };
    Some((data, LatencySummary::from_histogram(&sum)))
}

pub(crate) fn readings(id: i64, run: &RunData) -> impl Iterator<Item = CopyRow> {
    let of_tick = move |tick: &model::telemetry::reading::Tick| {
        let source = word(&tick.source);
        let (end, length_ns) = (tick.end_unix_ns, tick.length_ns);
        let row = |(key, value): (&str, f64)| {
            let (metric, instance) = split_key(key);
            let row = CopyRow::new(id).put(run.record.spec.run).time(Some(end)).put(length_ns).put(&source);
            row.put(metric).maybe(instance).put(value)
        };
        tick.values.iter().map(row).collect::<Vec<CopyRow>>()
    };
    run.ticks.iter().flat_map(of_tick)
}

#[cfg(test)]
mod tests {
    use super::json;

    #[test]
    fn zero_characters_are_left_out_and_their_names_kept() {
        for (text, expected) in [
            ("a\0b", r#""ab""#),
            (r"SELECT '\u0000'", r#""SELECT '\\u0000'""#),
            ("\\\0", r#""\\""#),
            ("\"\n\u{1}", r#""\"\n\u0001""#),
            ("plain", r#""plain""#),
        ] {
            assert_eq!(json(&text), expected);
        }
    }
}
