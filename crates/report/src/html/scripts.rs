//! The scripts of a load: how often each ran, how long its transactions took, and for disclosure their source.

use analysis::summary::{CaseSummary, ScriptSummary, Study};
use model::experiment::script::CaseData;
use model::run::RunRecord;

use super::escape::escape_html;
use super::table;
use super::tables::case_name;
use crate::axis::Axis;
use crate::prose::{format, headline, scripts};

/// A table for each case with several scripts; that of the best case is open.
pub(super) fn section(study: &Study, axis: &Axis) -> String {
    let best = headline::best(study).map(|case| case.case.id);
    let several: Vec<&CaseSummary> = study.cases.iter().filter(|case| case.scripts.len() > 1).collect();
    if several.is_empty() {
        return String::new();
    }
    let mut html = String::from(
        "<p class=\"quiet\">Latency of committed transactions in milliseconds, over all runs that count. The share \
         is that of committed transactions, next to the one that the weights ask for.</p>\n",
    );
    for case in several {
        let open = if best == Some(case.case.id) { " open" } else { "" };
        let rows: Vec<Vec<String>> = case.scripts.iter().map(row).collect();
        html.push_str(&format!(
            "<details class=\"fold\"{open}><summary>{}</summary>{}</details>\n",
            case_name(axis, case),
            table("plain", &scripts::HEADS, &rows)
        ));
    }
    html
}

fn row(script: &ScriptSummary) -> Vec<String> {
    scripts::cells(script).iter().map(|cell| escape_html(cell)).collect()
}

/// The user's own scripts and their data, for the disclosure: heads and cells.
pub(super) fn disclosed(records: &[&RunRecord]) -> Option<String> {
    let workload = records.iter().map(|record| &record.case.workload).find(|w| !w.scripts.is_empty())?;
    let rows: Vec<Vec<String>> = workload
        .scripts
        .iter()
        .map(|script| {
            vec![
                escape_html(&script.name),
                format::count(u64::from(script.weight)),
                format!("<code>{}</code>", escape_html(&script.sha256)),
            ]
        })
        .collect();
    let mut html = table("text", &["Script", "Weight", "SHA-256"], &rows);
    for script in &workload.scripts {
        html.push_str(&format!(
            "<details class=\"fold\"><summary>{}</summary><pre>{}</pre></details>",
            escape_html(&script.name),
            escape_html(&script.source)
        ));
    }
    if let CaseData::Files(files) = &workload.data {
        let rows: Vec<Vec<String>> = files
            .iter()
            .map(|file| {
                vec![
                    escape_html(&file.name),
                    escape_html(&format::bytes(file.bytes as f64)),
                    format!("<code>{}</code>", escape_html(&file.sha256)),
                ]
            })
            .collect();
        html.push_str(&table("text", &["Data created by", "Size", "SHA-256"], &rows));
    }
    if let CaseData::Archive(archive) = &workload.data {
        let row = vec![
            escape_html(&archive.words()),
            escape_html(&format::bytes(archive.bytes as f64)),
            format!("<code>{}</code>", escape_html(&archive.identity)),
        ];
        html.push_str(&table("text", &["Data", "Size of the archive", "Identity"], &[row]));
    }
    Some(html)
}
