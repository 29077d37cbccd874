//! Sections made of tables, with charts of the same numbers.

pub(crate) mod costs;
pub(crate) mod outages;

use std::collections::BTreeMap;

use analysis::summary::{CaseSummary, LatencySummary, RunSummary, Study};

use super::escape::escape_html;
use super::factors::scalability;
use super::lead::{self, badge};
use super::{ChartFigure, folded, table};
use crate::axis::Axis;
use crate::csv;
use crate::prose::counters as told;
use crate::prose::variation::uncertainty;
use crate::prose::{format, headline, phrases, scripts};

/// Placeholder for a missing number.
const NONE: &str = "<span class=\"none\">-</span>";

/// Throughput of all runs by case.
pub(super) fn throughput(study: &Study, axis: &Axis) -> String {
    // A single dot would say what the figures above it say.
    if study.runs.iter().filter(|run| run.tps.is_some()).count() < 2 {
        return String::new();
    }
    let by = if axis.title.is_empty() { "run".to_string() } else { axis.title.clone() };
    let rows: Vec<Vec<String>> = study
        .cases
        .iter()
        .map(|case| {
            let runs: Vec<String> = case.tps.iter().map(|tps| format::tps(*tps)).collect();
            vec![
                escape_html(&case.label),
                number(case.tps_median, format::tps),
                escape_html(&runs.join("; ")),
            ]
        })
        .collect();
    let many = study.cases.iter().any(|case| case.n_runs >= 5);
    let hollow = study.runs.iter().any(|run| run.tps.is_some() && !run.counts());
    let note = match (study.cases.len(), many) {
        (1, _) => "transactions per second, in the order of execution; line: median",
        (_, true) => {
            "transactions per second; dots: runs, bar: median, box: quartiles, line: lowest to highest run"
        }
        (_, false) => "transactions per second; dots: runs, bar: median",
    };
    let has_law = !scalability::data(study, axis).is_empty();
    let law = if has_law { "; dashed: the fitted law, ring: its peak" } else { "" };
    let table = table("plain", &["Case", "Median tps", "Runs, tps"], &rows);
    let lines = match axis.groups_title.as_str() {
        "" => String::new(),
        title => format!("; lines: {title}"),
    };
    let lines = if axis.numeric { lines } else { String::new() };
    let note = format!("{note}{lines}{law}{}", if hollow { "; hollow: does not count" } else { "" });
    let title = format!("Throughput by {by}");
    if axis.panels.len() > 1 {
        return panels(axis, "throughput", &title, &note) + &folded(&title, &table);
    }
    let height = if study.cases.len() == 1 { "mid" } else { "tall" };
    ChartFigure { id: "throughput", title: &title, note: &note, height, table: &table }.html()
}

/// Small multiples on one scale.
fn panels(axis: &Axis, id: &str, title: &str, note: &str) -> String {
    let mut html = format!(
        "<h3>{}</h3><p class=\"quiet\">{}. All panels have one scale; grey: the other panels.</p>{}<div class=\"trio\">",
        escape_html(title),
        escape_html(&phrases::capital(note)),
        group_keys(axis)
    );
    for (n, name) in axis.panels.iter().enumerate() {
        let id = format!("{id}-{n}");
        html.push_str(&ChartFigure { id: &id, title: name, note: "", height: "mid", table: "" }.html());
    }
    html + "</div>\n"
}

/// Percentiles of latency by case.
pub(super) fn latency(study: &Study, axis: &Axis) -> String {
    let n_known = study.cases.iter().filter(|case| case.latency.is_some()).count();
    if n_known == 0 {
        return String::new();
    }
    let rows: Vec<Vec<String>> = study
        .cases
        .iter()
        .map(|case| [vec![escape_html(&case.label)], percentiles(case.latency)].concat())
        .collect();
    let table = table("plain", &PERCENTILE_HEADS, &rows);
    if n_known == 1 && study.cases.len() > 1 {
        return table;
    }
    if study.cases.len() == 1 {
        let note = "milliseconds, log scale; all runs that count together, single runs thin";
        return ChartFigure {
            id: "latency",
            title: "Latency by percentile",
            note,
            height: "tall",
            table: &table,
        }
        .html();
    }
    let note = "milliseconds, log scale; all runs of a case together";
    if axis.groups.len() == 1 {
        let title = format!("Latency by {}", if axis.title.is_empty() { "case" } else { &axis.title });
        return ChartFigure { id: "latency", title: &title, note, height: "tall", table: &table }.html();
    }
    let mut html = format!("{}<div class=\"trio\">", group_keys(axis));
    for percentile in ["p50", "p95", "p99"] {
        let id = format!("latency-{percentile}");
        let title = format!("{percentile} latency by {}", axis.title);
        html.push_str(
            &ChartFigure { id: &id, title: &title, note: "ms, log scale", height: "mid", table: "" }.html(),
        );
    }
    html + "</div>" + &folded("Latency", &table)
}

/// The legend of charts that share their groups; each name lights up its lines.
fn group_keys(axis: &Axis) -> String {
    let keys = axis.keys();
    // One colour for all: it distinguishes nothing.
    if keys.len() < 2 || keys.iter().all(|(_, colour)| *colour == keys[0].1) {
        return String::new();
    }
    let keys = keys.iter().map(|(name, colour)| {
        format!(
            "<button type=\"button\" class=\"key\" data-series=\"{0}\"><i class=\"{1}\" aria-hidden=\"true\"></i>{0}</button>",
            escape_html(name),
            colour.class()
        )
    });
    format!("<p class=\"keys\">{}</p>", keys.collect::<String>())
}

const PERCENTILE_HEADS: [&str; 8] =
    ["Case", "Mean ms", "p50 ms", "p90 ms", "p95 ms", "p99 ms", "p99.9 ms", "Max ms"];

fn percentiles(latency: Option<LatencySummary>) -> Vec<String> {
    let Some(l) = latency else { return vec![NONE.to_string(); 7] };
    let ns = [l.p50_ns, l.p90_ns, l.p95_ns, l.p99_ns, l.p999_ns, l.max_ns].map(|ns| ns as f64);
    std::iter::once(l.mean_ns).chain(ns).map(format::ms).collect()
}

/// One row per case with the figures that people quote.
pub(super) fn cases(study: &Study, axis: &Axis) -> String {
    let has_ipc = told::have_ipc(study);
    let best = headline::best(study).map(|case| case.case.id);
    let measures = scripts::measure_titles(study);
    let measure_heads: Vec<String> =
        measures.iter().map(|title| phrases::capital(&phrases::one_line(title))).collect();
    let rows: Vec<Vec<String>> = study
        .cases
        .iter()
        .map(|case| {
            let ms = |of: fn(&LatencySummary) -> u64| {
                number(case.latency.as_ref().map(|l| of(l) as f64), format::ms)
            };
            let median = number(scripts::queries::median_in_unit(study, case), format::tps);
            let median = if best == Some(case.case.id) && study.cases.len() > 1 {
                format!("<b>{median}</b>")
            } else {
                median
            };
            let mut row = vec![
                case_name(axis, case),
                case.n_runs.to_string(),
                median,
                lead::quality_badge(case),
                ms(|l| l.p50_ns),
                ms(|l| l.p95_ns),
                ms(|l| l.p99_ns),
                lead::tail_badge(case),
            ];
            row.extend(has_ipc.then(|| number(told::ipc(case), format::ratio)));
            row.extend(
                measures.iter().map(|title| number(scripts::measured(case, title), format::significant)),
            );
            row.push(why(&uncertainty::remarks(study, case)));
            row
        })
        .collect();
    let median = format!("Median {}", scripts::queries::unit_of_study(study));
    let mut heads = vec!["Case", "Runs", &median, "Good to", "p50 ms", "p95 ms", "p99 ms", "Good to"];
    heads.extend(has_ipc.then_some("IPC"));
    heads.extend(measure_heads.iter().map(String::as_str));
    heads.push("Mostly from");
    let all_plain = rows.iter().all(|row| row.last().is_none_or(String::is_empty));
    let (rows, heads) =
        if all_plain { (without_last(rows), &heads[..heads.len() - 1]) } else { (rows, &heads[..]) };
    format!("{}\n", table("cases", heads, &rows))
}

fn why(remarks: &str) -> String {
    if remarks.is_empty() {
        return String::new();
    }
    format!("<span class=\"why\">{}</span>", escape_html(remarks))
}

fn without_last(mut rows: Vec<Vec<String>>) -> Vec<Vec<String>> {
    for row in &mut rows {
        row.pop();
    }
    rows
}

/// The label with the case's colour.
pub(super) fn case_name(axis: &Axis, case: &CaseSummary) -> String {
    format!(
        "<i class=\"dot {}\" aria-hidden=\"true\"></i>{}",
        axis.class(case.case.id),
        escape_html(&case.label)
    )
}

/// Service time of each statement, in a fold per case; that of the best case is open.
pub(super) fn statements(study: &Study, axis: &Axis) -> String {
    let best = headline::best(study).map(|case| case.case.id);
    let with_statements: Vec<&CaseSummary> =
        study.cases.iter().filter(|c| !c.statements.is_empty()).collect();
    if with_statements.is_empty() {
        return String::new();
    }
    let mut html = String::from(
        "<p class=\"quiet\">Service time as the driver saw it, in milliseconds, over all runs that count. \
         The bar shows p50 (dark) and p95 (light) on one scale per case.</p>\n",
    );
    for case in with_statements {
        let open = if best == Some(case.case.id) { " open" } else { "" };
        html.push_str(&format!(
            "<details class=\"fold\"{open}><summary>{}</summary>{}</details>\n",
            case_name(axis, case),
            statement_table(case)
        ));
    }
    html
}

fn statement_table(case: &CaseSummary) -> String {
    let largest = case.statements.iter().map(|s| s.service.p95_ns).max().unwrap_or(1).max(1) as f64;
    let several = case.statements.iter().any(|s| s.script != case.statements[0].script);
    let rows: Vec<Vec<String>> = case
        .statements
        .iter()
        .map(|s| {
            let script = if several { format!("<b>{}</b> ", escape_html(&s.script)) } else { String::new() };
            let ns = [s.service.p50_ns, s.service.p95_ns, s.service.p99_ns, s.service.max_ns];
            let mut row = vec![
                format!("{script}<code>{}</code>", escape_html(&s.label)),
                bar(s.service.p50_ns as f64 / largest, s.service.p95_ns as f64 / largest),
                format::count(s.service.n),
                format::ms(s.service.mean_ns),
            ];
            row.extend(ns.map(|ns| format::ms(ns as f64)));
            row
        })
        .collect();
    table("statements", &["Statement", "p50, p95", "Number", "Mean", "p50", "p95", "p99", "Max"], &rows)
}

fn bar(dark: f64, light: f64) -> String {
    let width = |share: f64| (share * 100.0).clamp(0.5, 100.0);
    format!(
        "<svg class=\"bar\" viewBox=\"0 0 100 10\" preserveAspectRatio=\"none\" aria-hidden=\"true\">\
         <rect class=\"light\" width=\"{:.1}\" height=\"10\"/><rect width=\"{:.1}\" height=\"10\"/></svg>",
        width(light),
        width(dark)
    )
}

/// Every run: its case, its result, the duration of its phases, and its resource usage.
pub(super) fn runs(study: &Study, axis: &Axis) -> String {
    if study.runs.is_empty() {
        return String::new();
    }
    let phases = csv::phase_names(study);
    let used = used_most(study);
    let mut heads = vec!["Run", "Block", "Case", "tps", "p99 ms"];
    heads.extend(used.iter().map(|(head, ..)| *head));
    heads.extend(["Errors", "Verdict"]);
    let phase_heads: Vec<String> = phases.iter().map(|name| format!("{} s", phrases::of_id(name))).collect();
    heads.extend(phase_heads.iter().map(String::as_str));
    let rows: Vec<Vec<String>> =
        study.runs.iter().map(|run| run_row(study, axis, run, &used, &phases)).collect();
    let mut html = format!("{}\n", table("runs", &heads, &rows));
    html.push_str(&format!(
        "<details class=\"fold\"><summary>What each run used</summary>{}</details>\n",
        resources(study)
    ));
    html.push_str(&counters(study));
    let errors = errors(study);
    if !errors.is_empty() {
        html.push_str(&format!("<details class=\"fold\"><summary>Errors</summary>{errors}</details>\n"));
    }
    html
}

/// A column about what a run used: its head, the value, and how it is written.
type Used = (&'static str, fn(&RunSummary) -> Option<f64>, fn(f64) -> String);

/// Columns that stand next to each run's result, of those that any run has. Operations and processors are those of the server's machine,
/// also if only an exporter saw it.
fn used_most(study: &Study) -> Vec<Used> {
    let busy: fn(&RunSummary) -> Option<f64> = |run| {
        let used = &run.resources;
        used.remote.as_ref().map_or(used.host_busy, |remote| remote.busy)
    };
    let operations: fn(&RunSummary) -> Option<f64> = |run| {
        let used = &run.resources;
        let of_host = used.disk_reads_per_s.zip(used.disk_writes_per_s);
        let remote = used.remote.as_ref().map(|remote| remote.disk_reads_per_s.zip(remote.disk_writes_per_s));
        remote.unwrap_or(of_host).map(|(reads, writes)| reads + writes)
    };
    let all: [Used; 5] = [
        ("Host busy", busy, format::percent),
        ("Server CPUs", |run| run.resources.server_cpu, format::significant),
        ("IOPS", operations, format::tps),
        ("WAL/s", |run| run.resources.wal_bytes_per_s, format::bytes),
        ("IPC", told::ipc_of_run, format::ratio),
    ];
    all.into_iter().filter(|(_, of, _)| study.runs.iter().any(|run| of(run).is_some())).collect()
}

fn run_row(study: &Study, axis: &Axis, run: &RunSummary, used: &[Used], phases: &[String]) -> Vec<String> {
    let case = study.cases.iter().find(|case| case.case.id == run.case);
    let errors = run.total.failed + run.total.unknown;
    let mut row = vec![
        run.run.to_string(),
        run.block.to_string(),
        case.map_or_else(|| run.case.to_string(), |case| case_name(axis, case)),
        number(run.tps, format::tps),
        number(run.latency.map(|l| l.p99_ns as f64), format::ms),
    ];
    row.extend(used.iter().map(|(_, of, words)| number(of(run), *words)));
    row.extend([format::count(errors), run_verdict(run)]);
    row.extend(phases.iter().map(|name| {
        number(run.phases.iter().find(|(phase, _)| phase == name).map(|(_, s)| *s), format::seconds)
    }));
    row
}

fn run_verdict(run: &RunSummary) -> String {
    // That it was no better says so too.
    let repeats = if run.replaced_by.is_none_or(|by| by > run.run) { run.repeat } else { None };
    let mut why: Vec<String> =
        repeats.map(|repeat| format!("repeats run {}", repeat.of)).into_iter().collect();
    why.extend(phrases::replaced(run));
    if run.state != model::experiment::plan::RunState::Completed {
        why.push(match run.reason.as_str() {
            "" => phrases::of_state(run.state).to_string(),
            reason => format!("{}: {reason}", phrases::of_state(run.state)),
        });
    }
    let doubts = run.findings.iter().filter(|f| f.severity > analysis::finding::Severity::Note);
    why.extend(doubts.map(|finding| phrases::of_id(finding.id)));
    format!("{} <span class=\"why\">{}</span>", badge(run.grade), escape_html(&why.join("; ")))
}

/// A column of the table of resources: its head, and its cell of a run.
type ResourceColumn = (&'static str, fn(&RunSummary) -> String);

fn resource_columns() -> [ResourceColumn; 27] {
    // The study of releases has 0.12 %.
    fn small_percent(share: f64) -> String {
        format!("{} %", format::significant(100.0 * share))
    }

    [
        ("Run", |run| run.run.to_string()),
        ("Host busy", |run| number(run.resources.host_busy, format::percent)),
        ("Busiest CPU", |run| number(run.resources.busiest_cpu, format::percent)),
        ("Steal", |run| number(run.resources.steal, format::percent)),
        ("Server CPUs", |run| number(run.resources.server_cpu, format::significant)),
        ("Driver CPUs", |run| number(run.resources.driver_cpu, format::significant)),
        ("Foreign CPUs", |run| number(run.resources.foreign_cpu, format::significant)),
        ("Busiest driver thread", |run| number(run.resources.driver_busiest_thread, format::percent)),
        ("Server µs/tx", |run| number(run.resources.server_cpu_us_per_transaction, format::significant)),
        ("Driver µs/tx", |run| number(run.resources.driver_cpu_us_per_transaction, format::significant)),
        ("WAL/s", |run| number(run.resources.wal_bytes_per_s, format::bytes)),
        ("WAL/min", |run| number(run.resources.wal_bytes_per_minute, format::bytes)),
        ("WAL/tx", |run| number(run.resources.wal_bytes_per_transaction, format::bytes)),
        ("Full-page images/s", |run| number(run.resources.full_page_images_per_s, format::significant)),
        ("New pages/s of the largest table, at most", |run| {
            number(run.resources.new_pages_share_per_s, small_percent)
        }),
        ("Most WAL kept", |run| number(run.resources.wal_directory_bytes_max, format::bytes)),
        ("Cache hit", |run| number(run.resources.cache_hit, format::percent)),
        ("Read/s", |run| number(run.resources.disk_read_bytes_per_s, format::bytes)),
        ("Written/s", |run| number(run.resources.disk_write_bytes_per_s, format::bytes)),
        ("Reads/s", |run| number(run.resources.disk_reads_per_s, format::tps)),
        ("Writes/s", |run| number(run.resources.disk_writes_per_s, format::tps)),
        ("Read size", |run| number(run.resources.disk_read_size_bytes, format::bytes)),
        ("Write size", |run| number(run.resources.disk_write_size_bytes, format::bytes)),
        ("Disk busy", |run| number(run.resources.disk_busy, format::percent)),
        ("Received/s", |run| number(run.resources.net_received_bytes_per_s, format::bytes)),
        ("Sent/s", |run| number(run.resources.net_sent_bytes_per_s, format::bytes)),
        ("Fairness", |run| number(run.fairness, format::significant)),
    ]
}

fn resources(study: &Study) -> String {
    let columns = resource_columns();
    let heads: Vec<&str> = columns.iter().map(|(head, _)| *head).collect();
    let row = |run: &RunSummary| columns.iter().map(|(_, value)| value(run)).collect();
    let rows: Vec<Vec<String>> = study.runs.iter().map(row).collect();
    table("plain", &heads, &rows) + &unknown(study) + &driver_host(study) + &remote(study)
}

/// Which figures are missing above because nobody knows them, and why.
fn unknown(study: &Study) -> String {
    let mut runs: BTreeMap<(&str, &str), Vec<u32>> = BTreeMap::new();
    let mut in_order: Vec<&RunSummary> = study.runs.iter().collect();
    in_order.sort_by_key(|run| run.run);
    for run in in_order {
        for figure in &run.resources.unknown {
            runs.entry((&figure.reason, figure.name)).or_default().push(run.run);
        }
    }
    let line = |((reason, name), of): (&(&str, &str), &Vec<u32>)| {
        let noun = if of.len() == 1 { "run" } else { "runs" };
        format!(
            "<p class=\"quiet\">Unknown: {} of {noun} {}: {}.</p>\n",
            escape_html(name),
            phrases::ranges(of),
            escape_html(reason)
        )
    };
    runs.iter().map(line).collect()
}

/// Counters of processor and kernel, per transaction, and what could not be counted.
fn counters(study: &Study) -> String {
    let names = told::names(study);
    let all: [Used; 3] = [
        ("IPC", told::ipc_of_run, format::ratio),
        ("LLC misses of references", |run| run.counters.as_ref()?.cache_miss, format::percent),
        ("Memory/s", |run| run.counters.as_ref()?.memory_bytes_per_s, format::bytes),
    ];
    let ratios: Vec<Used> =
        all.into_iter().filter(|(_, of, _)| study.runs.iter().any(|run| of(run).is_some())).collect();
    let mut heads = vec!["Run".to_string()];
    heads.extend(ratios.iter().map(|(head, ..)| head.to_string()));
    heads.extend(names.iter().map(|name| told::words(name)));
    let row = |run: &RunSummary| {
        let counters = run.counters.as_ref()?;
        let mut row = vec![run.run.to_string()];
        row.extend(ratios.iter().map(|(_, of, words)| number(of(run), *words)));
        row.extend(
            names.iter().map(|name| number(told::per_transaction(counters, name), format::significant)),
        );
        Some(row)
    };
    let rows: Vec<Vec<String>> = study.runs.iter().filter_map(row).collect();
    let remarks: String = told::remarks(study)
        .iter()
        .map(|remark| format!("<p class=\"quiet\">{}</p>\n", escape_html(remark)))
        .collect();
    if rows.is_empty() {
        return remarks;
    }
    let heads: Vec<&str> = heads.iter().map(String::as_str).collect();
    format!(
        "<details class=\"fold\"><summary>Counters of the server's processes, per transaction</summary>{}</details>\n{remarks}",
        table("plain", &heads, &rows)
    )
}

/// The machine of pgdyno and its driver, where the server's was observed on its own.
fn driver_host(study: &Study) -> String {
    let heads = [
        "Run",
        "Driver's host busy",
        "Steal",
        "Foreign CPUs",
        "Received/s",
        "Sent/s",
        "CPUs of pgdyno watch on the server's host",
    ];
    let row = |run: &RunSummary| {
        let used = run.resources.driver_host.as_ref()?;
        Some(vec![
            run.run.to_string(),
            number(used.busy, format::percent),
            number(used.steal, format::percent),
            number(used.foreign_cpu, format::significant),
            number(used.net_received_bytes_per_s, format::bytes),
            number(used.net_sent_bytes_per_s, format::bytes),
            number(run.resources.watch_cpu, format::significant),
        ])
    };
    let rows: Vec<Vec<String>> = study.runs.iter().filter_map(row).collect();
    if rows.is_empty() { String::new() } else { table("plain", &heads, &rows) }
}

/// The machines of targets whose exporters were polled.
fn remote(study: &Study) -> String {
    let heads = [
        "Run",
        "Remote processors",
        "Remote busy",
        "Remote idle",
        "Remote steal",
        "Remote read/s",
        "Remote written/s",
        "Remote reads/s",
        "Remote writes/s",
        "Remote disk busy",
        "Remote received/s",
        "Remote sent/s",
    ];
    let row = |run: &analysis::summary::RunSummary| {
        let used = run.resources.remote.as_ref()?;
        Some(vec![
            run.run.to_string(),
            used.n_cpus.to_string(),
            number(used.busy, format::percent),
            number(used.idle, format::percent),
            number(used.steal, format::percent),
            number(used.disk_read_bytes_per_s, format::bytes),
            number(used.disk_write_bytes_per_s, format::bytes),
            number(used.disk_reads_per_s, format::tps),
            number(used.disk_writes_per_s, format::tps),
            number(used.disk_busy, format::percent),
            number(used.received_bytes_per_s, format::bytes),
            number(used.sent_bytes_per_s, format::bytes),
        ])
    };
    let rows: Vec<Vec<String>> = study.runs.iter().filter_map(row).collect();
    if rows.is_empty() { String::new() } else { table("plain", &heads, &rows) }
}

fn errors(study: &Study) -> String {
    let rows: Vec<Vec<String>> = study
        .runs
        .iter()
        .flat_map(|run| {
            run.errors.iter().map(|error| {
                vec![
                    run.run.to_string(),
                    format!("<code>{}</code>", escape_html(&error.sqlstate)),
                    format::count(error.n),
                    escape_html(&error.message),
                ]
            })
        })
        .collect();
    if rows.is_empty() {
        String::new()
    } else {
        table("text", &["Run", "SQLSTATE", "Transactions", "Example"], &rows)
    }
}

fn number(x: Option<f64>, show: impl Fn(f64) -> String) -> String {
    x.map_or_else(|| NONE.to_string(), show)
}
