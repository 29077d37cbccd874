//! Tables for spreadsheets and scripts, unrounded: one row per run, per case, or per second. RFC 4180: comma, CRLF,
//! doubled quotes.

pub(crate) mod cases;
pub(crate) mod compared;
mod outages;
pub(crate) mod scripts;
pub(crate) mod seconds;

use std::borrow::Cow;

use analysis::case::labels;
use analysis::cost::{COSTS, CostRow};
use analysis::summary::{AnalyticalSummary, CounterSummary, LatencySummary, RunSummary, Study};
use model::experiment::origin;
use model::load::interval::Counts;
use model::text::visible::visible;

use crate::prose::phrases;

/// One row per run.
pub(crate) fn runs(study: &Study) -> String {
    let phases = phase_names(study);
    let rows: Vec<Vec<(String, String)>> = study.runs.iter().map(|run| row(study, run, &phases)).collect();
    of_rows(&rows, &["run", "block", "case", "label"])
}

/// A table of rows that all have the same columns; without rows, these heads.
fn of_rows(rows: &[Vec<(String, String)>], heads: &[&str]) -> String {
    let mut text = String::new();
    match rows.first() {
        Some(first) => line(&mut text, first.iter().map(|(name, _)| name.as_str())),
        None => line(&mut text, heads.iter().copied()),
    }
    for row in rows {
        line(&mut text, row.iter().map(|(_, value)| value.as_str()));
    }
    text
}

/// Name and value of every column of a run; all runs have the same names.
fn row(study: &Study, run: &RunSummary, phases: &[String]) -> Vec<(String, String)> {
    let summary = study.cases.iter().find(|summary| summary.case.id == run.case);
    let spec = study.plan.runs.iter().find(|spec| spec.run == phrases::planned(run));
    let mut row: Vec<(String, String)> = Vec::new();
    let mut put = |name: &str, value: String| row.push((name.to_string(), value));
    put("run", run.run.to_string());
    put("block", run.block.to_string());
    put("case", run.case.to_string());
    put("label", summary.map(|summary| summary.label.clone()).unwrap_or_default());
    for factor in &study.plan.factors {
        put(factor, summary.and_then(|s| s.case.levels.get(factor)).cloned().unwrap_or_default());
    }
    for key in labels::keys(&study.plan) {
        put(&key, summary.and_then(|s| s.case.level(&key)).unwrap_or_default().to_string());
    }
    // With --by-origin it is a factor.
    if !study.plan.origins.is_empty() && !study.plan.factors.iter().any(|factor| factor == origin::FACTOR) {
        put("origin", study.plan.origin_of(run.run).map(|origin| origin.name.clone()).unwrap_or_default());
    }
    put("seed", spec.map(|spec| spec.seed.to_string()).unwrap_or_default());
    put("state", phrases::of_state(run.state).to_string());
    put("reason", run.reason.clone());
    put("grade", run.grade.as_str().to_string());
    put("limiter", run.limiter.as_ref().map_or(String::new(), |limiter| limiter.name.as_str().to_string()));
    put("findings", run.findings.iter().map(|f| f.id).collect::<Vec<_>>().join(" "));
    if study.runs.iter().any(|run| run.course.is_some()) {
        let end = run.course.and_then(|course| course.ramp_up_end);
        put("ramp_up_end", end.map(|end| end.as_str().to_string()).unwrap_or_default());
        put("extended_s", run.course.map(|course| course.extended_s.to_string()).unwrap_or_default());
    }
    if study.runs.iter().any(|run| run.repeat.is_some()) {
        let text = |n: Option<u32>| n.map(|n| n.to_string()).unwrap_or_default();
        put("repeats", text(run.repeat.map(|repeat| repeat.of)));
        put("replaced_by", text(run.replaced_by));
    }
    put("disturbance", number(Some(run.disturbance.as_ref().map_or(0.0, |found| found.score))));
    put("measured_s", run.measured_s.to_string());
    put("tps", number(run.tps));
    if study.runs.iter().any(|run| run.capacity.is_some()) {
        let rate = run.capacity.as_ref().and_then(|capacity| capacity.rate);
        put("search", run.capacity.as_ref().map(|c| c.outcome.as_str().to_string()).unwrap_or_default());
        put("tps_low", number(rate.map(|rate| rate.low)));
        put("tps_high", number(rate.map(|rate| rate.high)));
    }
    if study.runs.iter().any(|run| run.analytical.is_some()) {
        queries(run.analytical.as_ref()).into_iter().for_each(|(name, value)| put(name, value));
    }
    if study.runs.iter().any(|run| run.tpcc.is_some()) {
        put("nopm", number(run.tpcc.as_ref().map(|tpcc| tpcc.nopm)));
        put("orders_per_min", number(run.tpcc.as_ref().map(|tpcc| tpcc.orders_per_min)));
        put("tpm", number(run.tpcc.as_ref().map(|tpcc| tpcc.server_tpm.unwrap_or(tpcc.tpm))));
    }
    counts(&mut row, "", &run.counts);
    counts(&mut row, "total_", &run.total);
    latency(&mut row, "latency", run.latency);
    latency(&mut row, "service", run.service);
    latency(&mut row, "lag", run.lag);
    row.push(("fairness".to_string(), number(run.fairness)));
    resources(&mut row, run);
    for cost in COSTS {
        row.push((cost_name(cost), number(run.cost(cost.id))));
    }
    outages::of_run(study, &mut row, run);
    counters(study, &mut row, run.counters.as_ref());
    remote(study, &mut row, run);
    driver_host(study, &mut row, run);
    for phase in phases {
        let length_s = run.phases.iter().find(|(name, _)| name == phase).map(|(_, s)| *s);
        row.push((format!("phase_{phase}_s"), number(length_s)));
    }
    row
}

/// Columns of an analytical workload.
fn queries(queries: Option<&AnalyticalSummary>) -> [(&'static str, String); 4] {
    [
        ("geomean_s", number(queries.and_then(|queries| queries.geomean_s))),
        ("elapsed_s", number(queries.map(|queries| queries.elapsed_s))),
        ("power_per_h", number(queries.and_then(|queries| queries.power_per_h))),
        ("throughput_per_h", number(queries.and_then(|queries| queries.throughput_per_h))),
    ]
}

/// Column of a cost: `cost_wal_records`.
pub(crate) fn cost_name(cost: &CostRow) -> String {
    format!("cost_{}", cost.id.replace('-', "_"))
}

fn counts(row: &mut Vec<(String, String)>, prefix: &str, counts: &Counts) {
    for (name, n) in [
        ("due", counts.due),
        ("skipped", counts.skipped),
        ("started", counts.started),
        ("committed", counts.committed),
        ("failed", counts.failed),
        ("expected", counts.expected),
        ("unknown", counts.unknown),
        ("aborted", counts.aborted),
        ("retried", counts.retried),
    ] {
        row.push((format!("{prefix}{name}"), n.to_string()));
    }
}

fn latency(row: &mut Vec<(String, String)>, prefix: &str, latency: Option<LatencySummary>) {
    row.push((format!("{prefix}_mean_ns"), number(latency.map(|l| l.mean_ns))));
    for (name, ns) in [
        ("p50", latency.map(|l| l.p50_ns)),
        ("p90", latency.map(|l| l.p90_ns)),
        ("p95", latency.map(|l| l.p95_ns)),
        ("p99", latency.map(|l| l.p99_ns)),
        ("p999", latency.map(|l| l.p999_ns)),
        ("max", latency.map(|l| l.max_ns)),
    ] {
        row.push((format!("{prefix}_{name}_ns"), ns.map(|ns| ns.to_string()).unwrap_or_default()));
    }
}

fn resources(row: &mut Vec<(String, String)>, run: &RunSummary) {
    let used = &run.resources;
    row.push(("n_cpus".to_string(), used.n_cpus.map(|n| n.to_string()).unwrap_or_default()));
    for (name, value) in [
        ("host_busy", used.host_busy),
        ("busiest_cpu", used.busiest_cpu),
        ("steal", used.steal),
        ("server_cpu", used.server_cpu),
        ("driver_cpu", used.driver_cpu),
        ("driver_busiest_thread", used.driver_busiest_thread),
        ("foreign_cpu", used.foreign_cpu),
        ("driver_cpu_us_per_transaction", used.driver_cpu_us_per_transaction),
        ("server_cpu_us_per_transaction", used.server_cpu_us_per_transaction),
        ("wal_bytes_per_s", used.wal_bytes_per_s),
        ("wal_bytes_per_transaction", used.wal_bytes_per_transaction),
        ("wal_bytes_per_minute", used.wal_bytes_per_minute),
        ("full_page_images_per_s", used.full_page_images_per_s),
        ("new_pages_share_per_s", used.new_pages_share_per_s),
        ("wal_directory_bytes_max", used.wal_directory_bytes_max),
        ("disk_read_size_bytes", used.disk_read_size_bytes),
        ("disk_write_size_bytes", used.disk_write_size_bytes),
        ("cache_hit", used.cache_hit),
        ("disk_read_bytes_per_s", used.disk_read_bytes_per_s),
        ("disk_write_bytes_per_s", used.disk_write_bytes_per_s),
        ("disk_reads_per_s", used.disk_reads_per_s),
        ("disk_writes_per_s", used.disk_writes_per_s),
        ("disk_busy", used.disk_busy),
        ("net_received_bytes_per_s", used.net_received_bytes_per_s),
        ("net_sent_bytes_per_s", used.net_sent_bytes_per_s),
    ] {
        row.push((name.to_string(), number(value)));
    }
}

/// Counters of processor and kernel, if any run has them.
fn counters(study: &Study, row: &mut Vec<(String, String)>, counters: Option<&CounterSummary>) {
    if study.runs.iter().all(|run| run.counters.is_none()) {
        return;
    }
    row.push(("ipc".to_string(), number(counters.and_then(|one| one.ipc))));
    row.push(("cache_miss".to_string(), number(counters.and_then(|one| one.cache_miss))));
    for name in crate::prose::counters::names(study) {
        let event = counters.and_then(|one| one.event(name));
        let unit = if name == "task_clock" { "_s" } else { "" };
        row.push((format!("{name}{unit}"), number(event.map(|event| event.total))));
        let each = event.and_then(|event| event.per_transaction);
        row.push((format!("{name}{unit}_per_transaction"), number(each)));
    }
    row.push(("memory_bytes_per_s".to_string(), number(counters.and_then(|one| one.memory_bytes_per_s))));
}

/// The machines of targets with exporters, if any run has one.
fn remote(study: &Study, row: &mut Vec<(String, String)>, run: &RunSummary) {
    if study.runs.iter().all(|run| run.resources.remote.is_none()) {
        return;
    }
    let used = run.resources.remote.as_ref();
    let n_cpus = used.map(|used| used.n_cpus.to_string()).unwrap_or_default();
    row.push(("remote_n_cpus".to_string(), n_cpus));
    for (name, value) in [
        ("busy", used.and_then(|used| used.busy)),
        ("idle", used.and_then(|used| used.idle)),
        ("steal", used.and_then(|used| used.steal)),
        ("disk_read_bytes_per_s", used.and_then(|used| used.disk_read_bytes_per_s)),
        ("disk_write_bytes_per_s", used.and_then(|used| used.disk_write_bytes_per_s)),
        ("disk_reads_per_s", used.and_then(|used| used.disk_reads_per_s)),
        ("disk_writes_per_s", used.and_then(|used| used.disk_writes_per_s)),
        ("disk_busy", used.and_then(|used| used.disk_busy)),
        ("net_received_bytes_per_s", used.and_then(|used| used.received_bytes_per_s)),
        ("net_sent_bytes_per_s", used.and_then(|used| used.sent_bytes_per_s)),
    ] {
        row.push((format!("remote_{name}"), number(value)));
    }
}

/// The driver's machine, if that of the server was observed on its own in any run.
fn driver_host(study: &Study, row: &mut Vec<(String, String)>, run: &RunSummary) {
    if study.runs.iter().all(|run| run.resources.driver_host.is_none()) {
        return;
    }
    let used = run.resources.driver_host.as_ref();
    let n_cpus = used.map(|used| used.n_cpus.to_string()).unwrap_or_default();
    row.push(("driver_host_n_cpus".to_string(), n_cpus));
    for (name, value) in [
        ("driver_host_busy", used.and_then(|used| used.busy)),
        ("driver_host_steal", used.and_then(|used| used.steal)),
        ("driver_host_foreign_cpu", used.and_then(|used| used.foreign_cpu)),
        ("driver_host_net_received_bytes_per_s", used.and_then(|used| used.net_received_bytes_per_s)),
        ("driver_host_net_sent_bytes_per_s", used.and_then(|used| used.net_sent_bytes_per_s)),
        ("watch_cpu", run.resources.watch_cpu),
    ] {
        row.push((name.to_string(), number(value)));
    }
}

/// Names of all phases of any run, in the order of their first appearance.
pub(crate) fn phase_names(study: &Study) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    for (name, _) in study.runs.iter().flat_map(|run| &run.phases) {
        if !names.contains(name) {
            names.push(name.clone());
        }
    }
    names
}

/// The shortest text that reads back as the same number, as Rust prints it.
fn number(x: Option<f64>) -> String {
    x.filter(|x| x.is_finite()).map(|x| x.to_string()).unwrap_or_default()
}

pub(crate) fn line<'a>(text: &mut String, fields: impl Iterator<Item = &'a str>) {
    for (i, field) in fields.enumerate() {
        if i > 0 {
            text.push(',');
        }
        let field = cell(field);
        if field.contains([',', '"', '\r', '\n']) {
            text.push('"');
            text.push_str(&field.replace('"', "\"\""));
            text.push('"');
        } else {
            text.push_str(&field);
        }
    }
    text.push_str("\r\n");
}

/// A field that is safe in a spreadsheet: one that would be a formula begins with an apostrophe, as OWASP advises on
/// CSV injection; numbers are unchanged. Control characters are escaped.
fn cell(field: &str) -> Cow<'_, str> {
    let is_formula =
        field.starts_with(['=', '+', '-', '@', '\t', '\r', '\n']) && field.parse::<f64>().is_err();
    match (is_formula, field.contains("\r\n")) {
        (true, _) => Cow::Owned(format!("'{}", visible(field))),
        (false, true) => Cow::Owned(visible(&field.replace("\r\n", "\n")).into_owned()),
        (false, false) => visible(field),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_cell_is_a_formula_and_numbers_are_numbers() {
        for (field, expected) in [
            ("=HYPERLINK(\"http://x\")", "'=HYPERLINK(\"http://x\")"),
            ("+1+1", "'+1+1"),
            ("-1+1", "'-1+1"),
            ("-", "'-"),
            ("@SUM(A1)", "'@SUM(A1)"),
            ("\t=1", "'\t=1"),
            ("\r=1", "'\\r=1"),
            ("-1.5", "-1.5"),
            ("+2e-3", "+2e-3"),
            ("a=b", "a=b"),
            ("two\r\nlines", "two\nlines"),
            ("", ""),
            ("\u{1b}]0;x\u{7}\u{202e}", "\\u{1b}]0;x\\u{7}\\u{202e}"),
        ] {
            assert_eq!(cell(field), expected);
        }
        let mut text = String::new();
        line(&mut text, ["=1,2", "-1.5", "two\nlines"].into_iter());
        assert_eq!(text, "\"'=1,2\",-1.5,\"two\nlines\"\r\n");
    }
}
