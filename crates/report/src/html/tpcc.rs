//! The section on TPC-C: New-Orders per minute, response times by transaction, inputs, and the requirements of the
//! specification that the runs do not meet.

use analysis::summary::tpcc::{InputShare, ProfileSummary, TpccSummary};
use analysis::summary::{CaseSummary, Study};

use super::escape::escape_html;
use super::table;
use crate::axis::Axis;
use crate::prose::{format, headline};

/// A fold per case of TPC-C; that of the best case is open.
pub(super) fn section(study: &Study, axis: &Axis) -> String {
    let best = headline::best(study).map(|case| case.case.id);
    let cases: Vec<(&CaseSummary, &TpccSummary)> =
        study.cases.iter().filter_map(|case| Some((case, case.tpcc.as_ref()?))).collect();
    if cases.is_empty() {
        return String::new();
    }
    let rows: Vec<Vec<String>> = cases.iter().map(|(case, tpcc)| overview(axis, case, tpcc)).collect();
    let heads = [
        "Case",
        "NOPM",
        "Runs, NOPM",
        "Orders/min",
        "TPM",
        "Per warehouse",
        "Warehouses",
        "Driver CPU s",
        "Server CPU s",
        "Calls, think, isolation",
    ];
    let mut html = format!(
        "<p class=\"quiet\">TPC-C-like: not a TPC-C result, and not comparable with published tpmC. NOPM: New-Orders \
         per minute, including those rolled back on purpose; orders/min: those in the database; TPM: \
         transactions of all kinds that terminals completed per minute; for TPROC-C, commits and rollbacks of all \
         databases. CPU seconds are per 1,000 New-Orders.</p>\n{}\n",
        table("tpcc", &heads, &rows)
    );
    for (case, tpcc) in cases {
        let open = if best == Some(case.case.id) { " open" } else { "" };
        html.push_str(&format!(
            "<details class=\"fold\"{open}><summary>{}</summary>{}{}{}</details>\n",
            super::tables::case_name(axis, case),
            profiles(tpcc),
            inputs(tpcc),
            unmet(tpcc)
        ));
    }
    html
}

fn overview(axis: &Axis, case: &CaseSummary, tpcc: &TpccSummary) -> Vec<String> {
    let runs: Vec<String> = tpcc.nopm_runs.iter().map(|nopm| format::tps(*nopm)).collect();
    let workload = &case.case.workload;
    let how = match workload.tpcc {
        Some(spec) => [spec.calls.as_str(), spec.think.as_str(), spec.isolation.as_str()].join(", "),
        None if workload.procedures => "procedures, as in HammerDB".to_string(),
        None => "functions, as in HammerDB".to_string(),
    };
    let cpu = |s: Option<f64>| s.map_or_else(|| "-".to_string(), format::significant);
    vec![
        super::tables::case_name(axis, case),
        format!("<b>{}</b>", format::tps(tpcc.nopm)),
        escape_html(&runs.join("; ")),
        format::tps(tpcc.orders_per_min),
        format::tps(tpcc.server_tpm.unwrap_or(tpcc.tpm)),
        format::significant(tpcc.nopm_per_warehouse),
        workload.scale.to_string(),
        cpu(tpcc.driver_cpu_s),
        cpu(tpcc.server_cpu_s),
        escape_html(&how),
    ]
}

fn profiles(tpcc: &TpccSummary) -> String {
    let heads = [
        "Transaction",
        "Number",
        "Share",
        "Failed",
        "Retries",
        "Mean ms",
        "p50 ms",
        "p90 ms",
        "p90 limit",
        "p99 ms",
        "Max ms",
        "Service p90 ms",
    ];
    let rows: Vec<Vec<String>> = tpcc.profiles.iter().map(profile).collect();
    table("plain", &heads, &rows)
}

fn profile(profile: &ProfileSummary) -> Vec<String> {
    let none = || "-".to_string();
    let of = |ns: Option<f64>| ns.map_or_else(none, format::ms);
    let latency = profile.latency;
    let limit = profile.p90_limit_ns.map_or_else(none, |ns| format!("{} s", ns / 1_000_000_000));
    vec![
        escape_html(&profile.name),
        format::count(profile.counts.committed),
        profile.share.map_or_else(none, |share| format!("{:.2} %", share * 100.0)),
        format::count(profile.counts.failed + profile.counts.unknown),
        format::count(profile.counts.retries),
        of(latency.map(|l| l.mean_ns)),
        of(latency.map(|l| l.p50_ns as f64)),
        of(latency.map(|l| l.p90_ns as f64)),
        if profile.is_in_limit() { limit } else { format!("<b>{limit}, exceeded</b>") },
        of(latency.map(|l| l.p99_ns as f64)),
        of(latency.map(|l| l.max_ns as f64)),
        of(profile.service.map(|l| l.p90_ns as f64)),
    ]
}

fn inputs(tpcc: &TpccSummary) -> String {
    if tpcc.inputs.is_empty() {
        return String::new();
    }
    let row = |input: &InputShare| {
        vec![
            escape_html(&input.what),
            format::count(input.n),
            format!("{:.4}", input.counted),
            format!("{:.4}", input.expected),
            format!("{:.4} to {:.4}", input.low.max(0.0), input.high),
            if input.is_met() { "yes".to_string() } else { "<b>no</b>".to_string() },
        ]
    };
    let rows: Vec<Vec<String>> = tpcc.inputs.iter().map(row).collect();
    table("plain", &["Input", "Of", "Counted", "Specification", "Accepted", "Met"], &rows)
}

fn unmet(tpcc: &TpccSummary) -> String {
    let items: String = tpcc.unmet.iter().map(|item| format!("<li>{}</li>", escape_html(item))).collect();
    format!("<p>Departures from the specification:</p><ul>{items}</ul>")
}
